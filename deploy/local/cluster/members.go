package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// locked calls change while no other program changes the cluster.
func (c *Cluster) locked(ctx context.Context, change func() error) error {
	unlock, err := lock(ctx, filepath.Join(c.dir, lockName))
	if err != nil {
		return err
	}
	defer unlock()
	return change()
}

// find returns the member called name.
func (c *Cluster) find(name string) (member, error) {
	var names []string
	for _, m := range c.plan.members() {
		if m.name() == name {
			return m, nil
		}
		names = append(names, m.name())
	}
	return member{}, fmt.Errorf("no member %q; there are %s", name, strings.Join(names, ", "))
}

func (c *Cluster) memberDir(m member) string { return filepath.Join(c.dir, m.name()) }

func (c *Cluster) logFile(m member) string { return filepath.Join(c.memberDir(m), logName) }

// process returns the member's last known process and what it does now. An unreadable pid file
// counts as Stopped: it names nothing that could be signalled.
func (c *Cluster) process(m member) (identity, State) {
	id, ok, err := readIdentity(c.memberDir(m))
	if err != nil || !ok {
		return identity{}, Stopped
	}
	return id, id.state()
}

// address is where others reach the member.
func (c *Cluster) address(m member) string {
	switch m.kind {
	case kindCassandra:
		return c.plan.addr(kindCassandra, m.index, cqlPort)
	case kindNATS:
		return c.plan.natsURL(m.index)
	default:
		return apiURL(c.plan, m.index)
	}
}

// Kill ends the member name with SIGKILL, as a crash would, and waits until it has gone. Its data
// stays.
func (c *Cluster) Kill(ctx context.Context, name string) error {
	id, err := c.live(name, "kill")
	if err != nil {
		return err
	}
	if err := id.kill(ctx); err != nil {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	return nil
}

// Replace kills the server name, wipes its data, and starts one without data in its place: it has
// the same address, and a Cassandra the same token. It gets its data from the others. Replace waits
// until it is ready.
func (c *Cluster) Replace(ctx context.Context, name string) error {
	m, err := c.find(name)
	if err != nil {
		return err
	}
	if m.kind == kindCarillon || m.kind == kindCassandra && c.plan.Spec.Cassandra < 2 || m.kind == kindNATS && c.plan.Spec.NATS < 2 {
		return fmt.Errorf("replace %s: only a Cassandra or a NATS among others can be replaced", name)
	}
	unlock, err := lock(ctx, filepath.Join(c.dir, lockName))
	if err != nil {
		return err
	}
	defer unlock()
	if id, state := c.process(m); state != Stopped {
		if err := id.kill(ctx); err != nil {
			return fmt.Errorf("replace %s: %w", name, err)
		}
	}
	entries, err := os.ReadDir(c.dataDir(m)) // the folder itself may be a mounted disk
	if err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(c.dataDir(m), e.Name())); err != nil {
			return fmt.Errorf("replace %s: %w", name, err)
		}
	}
	parts, err := c.parts(ctx, map[kind][]member{m.kind: {m}})
	if err != nil {
		return err
	}
	parts.replaces = true
	if err := c.startMember(ctx, parts, m, c.plan.members()); err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	return nil
}

// DamagedNATS names the servers that run and cannot open what they kept of a stream or a consumer,
// as after a power cut. Such a server is never ready again by itself; Replace mends it, if most of
// the others are well.
func (c *Cluster) DamagedNATS(ctx context.Context) []string {
	var names []string
	for _, m := range c.plan.members() {
		if m.kind != kindNATS {
			continue
		}
		if err := natsReady(ctx, c.plan, m.index); err != nil && strings.Contains(err.Error(), natsDamage) {
			names = append(names, m.name())
		}
	}
	return names
}

// Stop asks the member name to stop, and kills it if it has not within 45 s; if it is frozen, it is
// thawed. Its data stays.
func (c *Cluster) Stop(ctx context.Context, name string) error {
	m, err := c.find(name)
	if err != nil {
		return err
	}
	if _, err := c.live(name, "stop"); err != nil {
		return err
	}
	return c.stopMembers(ctx, []member{m})
}

// Freeze stops the member name (SIGSTOP), as a long pause would. It keeps its memory and
// connections. When Freeze returns, the member does not run any more.
func (c *Cluster) Freeze(ctx context.Context, name string) error {
	return c.switchTo(ctx, name, "freeze", syscall.SIGSTOP, Frozen)
}

// Thaw lets a frozen member go on.
func (c *Cluster) Thaw(ctx context.Context, name string) error {
	return c.switchTo(ctx, name, "thaw", syscall.SIGCONT, Running)
}

func (c *Cluster) switchTo(ctx context.Context, name, act string, sig syscall.Signal, want State) error {
	id, err := c.live(name, act)
	if err != nil {
		return err
	}
	err = id.signal(sig)
	if err == nil {
		err = poll(ctx, func() (bool, error) {
			state := id.state()
			if state == Stopped {
				return false, errGone
			}
			return state == want, nil
		})
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", act, name, err)
	}
	return nil
}

// live returns the process of the member name, which must not be stopped.
func (c *Cluster) live(name, act string) (identity, error) {
	m, err := c.find(name)
	if err != nil {
		return identity{}, err
	}
	id, state := c.process(m)
	if state == Stopped {
		return identity{}, fmt.Errorf("%s %s: it is stopped", act, name)
	}
	return id, nil
}

// Down stops every member, Carillon nodes first: frozen ones are thawed, all are asked to stop, and
// killed if they have not within 45 s. Their data stays, so that Up goes on where they were.
func (c *Cluster) Down(ctx context.Context) error {
	return c.locked(ctx, func() error { return c.stopMembers(ctx, c.plan.members()) })
}

func (c *Cluster) stopMembers(ctx context.Context, members []member) error {
	var nodes, stores errgroup.Group
	stop := func(m member) func() error {
		return func() error {
			id, state := c.process(m)
			if state == Stopped {
				return nil
			}
			if err := id.stop(ctx, stopGrace); err != nil {
				return fmt.Errorf("stop %s: %w", m.name(), err)
			}
			c.say(m.name() + " has stopped")
			return nil
		}
	}
	for _, m := range members {
		if m.kind == kindCarillon {
			nodes.Go(stop(m))
		}
	}
	err := nodes.Wait()
	for _, m := range members {
		if m.kind != kindCarillon {
			stores.Go(stop(m))
		}
	}
	return errors.Join(err, stores.Wait())
}

// Purge removes the data, logs and plan of a cluster that is down.
func (c *Cluster) Purge(ctx context.Context) error {
	unlock, err := lock(ctx, filepath.Join(c.dir, lockName))
	if err != nil {
		return err
	}
	defer unlock()
	faults := []error{os.RemoveAll(filepath.Join(c.dir, "carillon"))}
	for _, m := range c.plan.members() {
		if id, state := c.process(m); state != Stopped {
			return fmt.Errorf("purge: %s is %s (pid %d)", m.name(), state, id.PID)
		}
		faults = append(faults, os.RemoveAll(c.memberDir(m)))
	}
	// Last, so that a purge that failed can be repeated.
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	return os.Remove(filepath.Join(c.dir, planName))
}

// Close kills the members of an attached cluster and releases its addresses. Their data stays in
// the folder.
func (c *Cluster) Close(ctx context.Context) error {
	thawed := c.thawDisks()
	var g errgroup.Group
	for _, m := range c.plan.members() {
		g.Go(func() error {
			id, state := c.process(m)
			if state == Stopped {
				return nil
			}
			if err := id.kill(ctx); err != nil {
				return fmt.Errorf("kill %s: %w", m.name(), err)
			}
			return nil
		})
	}
	err := g.Wait()
	if err == nil && c.launcher != nil {
		c.launcher.close()
	}
	err = errors.Join(thawed, err, c.removeDisks(ctx))
	if c.network != nil {
		err = errors.Join(err, c.network.Remove(ctx))
	}
	c.release()
	return err
}
