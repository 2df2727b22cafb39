package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"carillon.dev/carillon/deploy/local/disk"
)

// diskSizes are the bytes of members' disks. Their images take only as much room as is used.
var diskSizes = map[kind]int64{kindCassandra: 6 << 30, kindNATS: 1 << 30}

// DisksAvailable is nil where Spec.Disks can be used; else it says everything that is missing.
func DisksAvailable() error { return disk.Available() }

// dataDir is where a member keeps its data; with Spec.Disks its disk is mounted there.
func (c *Cluster) dataDir(m member) string { return filepath.Join(c.memberDir(m), "data") }

// makeDisks makes the disks of a cluster. First it removes those that killed programs left behind.
func (c *Cluster) makeDisks(ctx context.Context) error {
	if !c.plan.Spec.Disks {
		return nil
	}
	if err := DisksAvailable(); err != nil {
		return err
	}
	removed, err := disk.RemoveLeftover(ctx)
	for _, mount := range removed {
		c.say(fmt.Sprintf("removed the disk %s, left by a program that was killed", mount))
	}
	if err != nil {
		return err
	}
	c.disks = make(map[member]*disk.Disk)
	for _, m := range c.plan.members() {
		size, ok := diskSizes[m.kind]
		if !ok {
			continue
		}
		if c.disks[m], err = disk.Make(ctx, c.dataDir(m), size); err != nil {
			delete(c.disks, m)
			return err
		}
	}
	return nil
}

// removeDisks removes the disks with all that is on them. Their members must have ended.
func (c *Cluster) removeDisks(ctx context.Context) error {
	var faults []error
	for _, d := range c.disks {
		faults = append(faults, d.Remove(ctx))
	}
	c.disks = nil
	return errors.Join(faults...)
}

// thawDisks thaws all disks. A process that waits for a frozen disk cannot even be killed.
func (c *Cluster) thawDisks() error {
	var faults []error
	for _, d := range c.disks {
		if d.Frozen() {
			faults = append(faults, d.Thaw())
		}
	}
	return errors.Join(faults...)
}

// diskOf returns the disk of the member name.
func (c *Cluster) diskOf(name string) (*disk.Disk, error) {
	m, err := c.find(name)
	if err != nil {
		return nil, err
	}
	d := c.disks[m]
	if d == nil {
		return nil, fmt.Errorf("%s has no disk of its own", name)
	}
	return d, nil
}

// PowerOff cuts the power of members at one instant: their processes stop, and data that is not on
// their disks is lost. Carillon nodes have no disk and are killed.
func (c *Cluster) PowerOff(ctx context.Context, names ...string) error {
	ids := make([]identity, len(names))
	for i, name := range names {
		id, err := c.live(name, "power off")
		if err != nil {
			return err
		}
		ids[i] = id
	}
	// No member may run while another has no power: that would be no power cut.
	for i, name := range names {
		if err := ids[i].signal(syscall.SIGSTOP); err != nil {
			return fmt.Errorf("power off %s: %w", name, err)
		}
	}
	for i, name := range names {
		if err := poll(ctx, func() (bool, error) { return ids[i].state() != Running, nil }); err != nil {
			return fmt.Errorf("power off %s: %w", name, err)
		}
	}
	for _, name := range names {
		if d, err := c.diskOf(name); err == nil {
			if err := d.PowerOff(); err != nil {
				return err
			}
		}
	}
	var faults []error
	for i, name := range names {
		if err := ids[i].kill(ctx); err != nil {
			faults = append(faults, fmt.Errorf("power off %s: %w", name, err))
		}
	}
	return errors.Join(faults...)
}

// PowerOn restores the power of members with their disks as the cut left them, and waits until all
// are ready: Cassandra and NATS side by side, then the nodes.
func (c *Cluster) PowerOn(ctx context.Context, names ...string) error {
	unlock, err := lock(ctx, filepath.Join(c.dir, lockName))
	if err != nil {
		return err
	}
	defer unlock()
	members := make([]member, len(names))
	for i, name := range names {
		if members[i], err = c.find(name); err != nil {
			return err
		}
		if d := c.disks[members[i]]; d != nil && d.Off() {
			if err := d.PowerOn(ctx); err != nil {
				return err
			}
		}
	}
	return c.startStopped(ctx, members, "")
}

// FillDisk fills a member's disk until EmptyDisk.
func (c *Cluster) FillDisk(name string) error { return c.onDisk(name, (*disk.Disk).Fill) }

// EmptyDisk ends FillDisk.
func (c *Cluster) EmptyDisk(name string) error { return c.onDisk(name, (*disk.Disk).Empty) }

// FreezeDisk makes all writes to a member's disk wait until ThawDisk.
func (c *Cluster) FreezeDisk(name string) error { return c.onDisk(name, (*disk.Disk).Freeze) }

// ThawDisk ends FreezeDisk.
func (c *Cluster) ThawDisk(name string) error { return c.onDisk(name, (*disk.Disk).Thaw) }

func (c *Cluster) onDisk(name string, do func(*disk.Disk) error) error {
	d, err := c.diskOf(name)
	if err != nil {
		return err
	}
	return do(d)
}
