package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/deploy/local/disk"
	"carillon.dev/carillon/deploy/local/netns"
)

const (
	logName  = "log"  // of a member, in its folder
	lockName = "lock" // of a cluster: one change at a time

	// firstTestBlock is where attached clusters look for addresses: 127.0.0.x is left to the
	// cluster of `make up`.
	firstTestBlock block = 1
)

// Options say where a cluster lives and whether it outlives this program. The zero value of a field
// is its default.
type Options struct {
	// Dir holds the cluster's data, logs and pid files. It is made if missing.
	Dir string
	// Attached members are killed when this program dies, and addresses are taken outside of
	// 127.0.0.x. Others outlive it, until Down.
	Attached bool
	// Say is given a line of progress now and then; nil says nothing.
	Say func(string)
	// Hub is the command line of a program that calls RunHub with the folder that follows it, for
	// regions that are not attached.
	Hub []string
}

// A Cluster is a set of real processes on this machine, described by a folder. Its methods may be
// called from several goroutines, and several programs may open the same folder, because the kernel
// is asked for the state of processes each time.
//
// It has many methods because tests hold a Cluster and nothing else. Each does one thing to members
// (members.go), links (links.go) or disks (disks.go), or reads their state (status.go).
type Cluster struct {
	dir      string
	plan     plan
	say      func(string)
	launcher *launcher
	release  func() // of the block of addresses

	// network is what was made for it; nil = none, or another Cluster of the same folder made it.
	network *netns.Network
	// disks are those that were made for members; nil = none, or another Cluster made them.
	disks map[member]*disk.Disk
}

// Up brings up the cluster that spec describes in o.Dir and returns when every member is ready.
// Members that run already are left alone, stopped ones are started with their data. If it fails it
// stops what it started.
func Up(ctx context.Context, o Options, spec Spec) (*Cluster, error) {
	spec = spec.withDefaults()
	if err := errors.Join(platformError(), spec.Validate()); err != nil {
		return nil, err
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("find folder: %w", err)
	}
	if HasRegions(dir) {
		return nil, fmt.Errorf("%s holds a cluster of regions: take it down with its data first", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(dir, lockName))
	if err != nil {
		return nil, err
	}
	defer unlock()

	if (spec.Namespaces || spec.Disks) && !o.Attached {
		return nil, errors.New("network namespaces and disks are for attached clusters: they end with the program that made them")
	}
	c := &Cluster{dir: dir, say: o.Say, release: func() {}}
	first := block(0)
	if o.Attached {
		first = firstTestBlock
	}
	if err := c.writePlan(ctx, first, spec); err != nil {
		return nil, err
	}
	c.launcher = newLauncher(!o.Attached)
	err = c.startAll(ctx)
	if o.Attached && err != nil {
		return nil, errors.Join(err, c.Close(context.WithoutCancel(ctx)))
	}
	if !o.Attached {
		c.release() // from here the members themselves hold the addresses
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Open returns the cluster in o.Dir, as far as it is up; ErrNoCluster if there is none. What is
// started through it is never attached.
func Open(o Options) (*Cluster, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("find folder: %w", err)
	}
	p, err := readPlan(dir)
	if err != nil {
		return nil, err
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	return &Cluster{dir: dir, plan: p, say: o.Say, launcher: newLauncher(true), release: func() {}}, nil
}

// writePlan makes or changes the cluster's plan, and stores it before any member starts.
func (c *Cluster) writePlan(ctx context.Context, first block, spec Spec) error {
	p, err := readPlan(c.dir)
	if errors.Is(err, ErrNoCluster) {
		b, release, err := reserveBlock(ctx, first, spec)
		if err != nil {
			return err
		}
		c.release = release
		c.plan = plan{Spec: spec, Block: b, RingKey: newKey(), CursorKey: newKey()}
		if b != first {
			c.say(fmt.Sprintf("addresses on %s are in use, taking %s", first.ip(1), b.ip(1)))
		}
		if err := c.makeNetwork(ctx); err != nil {
			release()
			return err
		}
		if err := c.makeDisks(ctx); err != nil {
			return errors.Join(err, c.Close(context.WithoutCancel(ctx)))
		}
		return c.plan.write(c.dir)
	}
	if err != nil {
		return err
	}
	c.plan = p
	anyRunning := false
	for _, m := range p.members() {
		if _, state := c.process(m); state != Stopped {
			anyRunning = true
		}
	}
	if c.plan, err = p.change(spec, anyRunning); err != nil {
		return fmt.Errorf("%s: %w", c.dir, err)
	}
	return c.plan.write(c.dir)
}

// startAll starts every member that is not running: Cassandra and NATS at once, then the schema,
// then the nodes.
func (c *Cluster) startAll(ctx context.Context) (err error) {
	var started []member
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stopMembers(context.WithoutCancel(ctx), started))
		}
	}()
	stopped := map[kind][]member{}
	for _, m := range c.plan.members() {
		if _, state := c.process(m); state == Stopped {
			stopped[m.kind] = append(stopped[m.kind], m)
		} else {
			c.say(fmt.Sprintf("%s is %s already", m.name(), state))
		}
	}
	parts, err := c.parts(ctx, stopped)
	if err != nil {
		return err
	}
	stores := slices.Concat(stopped[kindCassandra], stopped[kindNATS])
	started = append(started, stores...)
	if err := c.startMembers(ctx, parts, stores, c.plan.members()); err != nil {
		return err
	}
	nodes := stopped[kindCarillon]
	if len(nodes) == 0 {
		return nil
	}
	if err := c.migrate(ctx, parts); err != nil {
		return err
	}
	started = append(started, nodes...)
	return c.startMembers(ctx, parts, nodes, nil)
}

// startMembers starts members side by side and waits until all are ready. Cassandra nodes wait for
// those of expected.
func (c *Cluster) startMembers(ctx context.Context, parts parts, members, expected []member) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, m := range members {
		g.Go(func() error {
			begin := time.Now()
			if err := c.startMember(ctx, parts, m, expected); err != nil {
				return fmt.Errorf("start %s: %w", m.name(), err)
			}
			c.say(fmt.Sprintf("%s is ready at %s (%.1f s)", m.name(), c.address(m), time.Since(begin).Seconds()))
			return nil
		})
	}
	return g.Wait()
}

// parts are the programs that members are started from.
type parts struct {
	tools    javaTools
	archive  string
	nats     string
	carillon string
	// replaces: Cassandra nodes take the places of those that had their addresses.
	replaces bool
	// peers are the addresses of Cassandra nodes of other regions that are waited for.
	peers []string
}

// parts makes what starting the given members needs.
func (c *Cluster) parts(ctx context.Context, members map[kind][]member) (p parts, err error) {
	shared, err := openCache(c.say)
	if err != nil {
		return parts{}, err
	}
	if len(members[kindCassandra]) > 0 {
		if p.tools, err = shared.javaTools(ctx); err != nil {
			return parts{}, err
		}
		if p.archive, err = shared.classArchive(ctx, p.tools); err != nil {
			return parts{}, err
		}
	}
	if len(members[kindNATS]) > 0 {
		if p.nats, err = shared.natsServer(ctx); err != nil {
			return parts{}, err
		}
	}
	if len(members[kindCarillon]) > 0 {
		if p.carillon = c.plan.Spec.Program; p.carillon == "" {
			c.say("building carillon")
			if p.carillon, err = shared.buildCarillon(ctx, c.dir); err != nil {
				return parts{}, err
			}
		}
	}
	return p, nil
}

// startMember starts one member and waits until it is ready.
func (c *Cluster) startMember(ctx context.Context, parts parts, m member, expected []member) error {
	dir := c.memberDir(m)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	var argv []string
	var ready func(context.Context) error
	switch m.kind {
	case kindCassandra:
		node := cassandraNode{index: m.index, dir: dir, plan: c.plan, replaces: parts.replaces}
		if err := node.writeConfig(); err != nil {
			return err
		}
		if err := c.secure(node); err != nil {
			return err
		}
		argv = node.command(parts.tools, "-XX:SharedArchiveFile="+parts.archive)
		want := slices.Clone(parts.peers)
		for _, e := range expected {
			if e.kind == kindCassandra {
				want = append(want, c.plan.ip(kindCassandra, e.index))
			}
		}
		ready = func(ctx context.Context) error {
			return cassandraReady(ctx, c.plan.addr(kindCassandra, m.index, cqlPort), c.Security(), want)
		}
	case kindNATS:
		config := filepath.Join(dir, "nats.conf")
		if err := writeFile(config, []byte(natsConfig(c.plan, m.index, dir)), 0o600); err != nil {
			return err
		}
		argv = []string{parts.nats, "--config", config}
		ready = func(ctx context.Context) error { return natsReady(ctx, c.plan, m.index) }
	case kindCarillon:
		config, err := c.writeCarillonConfig(m.index)
		if err != nil {
			return err
		}
		argv = carillonServe(parts.carillon, config)
		ready = func(ctx context.Context) error { return carillonReady(ctx, c.plan, m.index) }
	}
	logFile := c.logFile(m)
	id, err := c.launcher.start(dir, logFile, c.within(m, argv))
	if err != nil {
		return err
	}
	return awaitReady(ctx, id, logFile, ready)
}

func (c *Cluster) writeCarillonConfig(index int) (string, error) {
	text, err := renderCarillon(c.plan, index)
	if err != nil {
		return "", err
	}
	dir := c.memberDir(member{kindCarillon, index})
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	path := filepath.Join(dir, "carillon.yaml")
	return path, writeFile(path, text, 0o600)
}

// migrate runs the migration with the first node's configuration.
func (c *Cluster) migrate(ctx context.Context, parts parts) error {
	config, err := c.writeCarillonConfig(1)
	if err != nil {
		return err
	}
	c.say("migrating the schema")
	return migrate(ctx, parts.carillon, c.dir, config, c.plan)
}

// Migrate brings the schema up to date as a program knows it, while members run.
func (c *Cluster) Migrate(ctx context.Context, program string) error {
	return c.migrate(ctx, parts{carillon: program})
}

// StartMember starts the stopped member name with its data and address, and waits until it is
// ready. Starting one that runs is an error.
func (c *Cluster) StartMember(ctx context.Context, name string) error {
	return c.StartProgram(ctx, name, "")
}

// StartProgram is StartMember of a Carillon node with another program; "" = the cluster's.
func (c *Cluster) StartProgram(ctx context.Context, name, program string) error {
	m, err := c.find(name)
	if err != nil {
		return err
	}
	return c.locked(ctx, func() error { return c.startStopped(ctx, []member{m}, program) })
}

// startStopped starts stopped members: Cassandra and NATS side by side, then the nodes. A Cassandra
// node waits for those that run, and for those that are started beside it; one that is away would
// never become ready in its eyes.
func (c *Cluster) startStopped(ctx context.Context, members []member, program string) error {
	byKind := map[kind][]member{}
	for _, m := range members {
		if id, state := c.process(m); state != Stopped {
			return fmt.Errorf("start %s: it is %s (pid %d)", m.name(), state, id.PID)
		}
		byKind[m.kind] = append(byKind[m.kind], m)
	}
	nodes := byKind[kindCarillon]
	delete(byKind, kindCarillon)
	expected := slices.Clone(members)
	for _, other := range c.plan.members() {
		if _, state := c.process(other); state == Running {
			expected = append(expected, other)
		}
	}
	parts, err := c.parts(ctx, byKind)
	if err != nil {
		return err
	}
	parts.carillon = cmp.Or(program, c.plan.Spec.Program, filepath.Join(c.dir, "carillon"))
	if err := c.startMembers(ctx, parts, slices.Concat(byKind[kindCassandra], byKind[kindNATS]), expected); err != nil {
		return err
	}
	return c.startMembers(ctx, parts, nodes, nil)
}
