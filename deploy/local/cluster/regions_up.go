package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/deploy/local/wan"
)

// Regions is a cluster of regions. Each region is a Cluster of its own, in a folder of its name.
type Regions struct {
	dir   string
	plan  regionsPlan
	say   func(string)
	hub   []string // what runs the hub of detached regions
	sites []*Cluster

	network  *wan.WAN  // of attached regions
	launcher *launcher // of the hub of others
}

// hubName is the folder of the process that runs the hub.
const hubName = "hub"

// statementLimit bounds the creation of a keyspace, which waits for all regions.
const statementLimit = 30 * time.Second

// RegionsAvailable is nil where UpRegions can make a network; else it says everything that is missing.
func RegionsAvailable() error { return wan.Available() }

// UpRegions brings up the regions that spec describes in o.Dir and returns when every member is
// ready, and links have the delay of spec. Members that run already are left alone, stopped ones
// are started with their data. If it fails it stops what it started. It needs root.
func UpRegions(ctx context.Context, o Options, spec RegionsSpec) (_ *Regions, err error) {
	if err := errors.Join(platformError(), spec.Validate(), wan.Available()); err != nil {
		return nil, err
	}
	spec = spec.withDefaults()
	if !o.Attached && len(o.Hub) == 0 {
		return nil, errors.New("regions that are not attached need a program that runs their hub")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("find folder: %w", err)
	}
	if exists(filepath.Join(dir, planName)) {
		return nil, fmt.Errorf("%s holds a cluster without regions: take it down with its data first", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(dir, lockName))
	if err != nil {
		return nil, err
	}
	defer unlock()

	r := &Regions{dir: dir, say: o.Say, hub: o.Hub}
	if r.say == nil {
		r.say = func(string) {}
	}
	began := &beginnings{}
	defer func() {
		if err != nil {
			err = errors.Join(err, began.stop(context.WithoutCancel(ctx), r))
		}
	}()
	if err := r.makePlan(ctx, spec, o.Attached, began); err != nil {
		return nil, err
	}
	r.openSites(o.Attached)
	if err := r.writeSites(); err != nil {
		return nil, err
	}
	if err := r.startAll(ctx, began); err != nil {
		return nil, err
	}
	// Not before: a change of the schema crosses every link several times.
	if err := r.Control().Delay(ctx, "", "", spec.Delay); err != nil {
		return nil, err
	}
	r.say("links between regions have a delay of " + spec.Delay.String())
	return r, nil
}

// beginnings are what a call has started.
type beginnings struct {
	hub     bool
	members map[*Cluster][]member
}

// stop ends it. Attached regions end as a whole.
func (b *beginnings) stop(ctx context.Context, r *Regions) error {
	if r.network != nil {
		return r.Close(ctx)
	}
	var faults []error
	for c, members := range b.members {
		faults = append(faults, c.stopMembers(ctx, members))
	}
	if b.hub && errors.Join(faults...) == nil {
		faults = append(faults, r.stopNetwork(ctx))
	}
	return errors.Join(faults...)
}

// OpenRegions returns the cluster of regions in o.Dir, as far as it is up; ErrNoCluster if there is
// none.
func OpenRegions(o Options) (*Regions, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("find folder: %w", err)
	}
	p, err := readRegionsPlan(dir)
	if err != nil {
		return nil, err
	}
	r := &Regions{dir: dir, plan: p, say: o.Say, hub: o.Hub, launcher: newLauncher(true)}
	if r.say == nil {
		r.say = func(string) {}
	}
	r.openSites(false)
	return r, nil
}

// makePlan makes or changes the plan, stores it, and starts the network that it is for.
func (r *Regions) makePlan(ctx context.Context, spec RegionsSpec, attached bool, began *beginnings) error {
	old, err := readRegionsPlan(r.dir)
	fresh := errors.Is(err, ErrNoCluster)
	if err != nil && !fresh {
		return err
	}
	if !attached {
		r.launcher = newLauncher(true)
	}
	if fresh {
		r.plan = newRegionsPlan(spec)
		return r.makeNetwork(ctx, attached, began)
	}
	r.plan = old
	r.openSites(false)
	running := r.running()
	_, hub := r.hubProcess()
	if r.plan, err = old.change(spec, len(running) > 0); err != nil {
		return fmt.Errorf("%s: %w", r.dir, err)
	}
	switch {
	case hub != Stopped:
		r.say("the hub is " + string(hub) + " already")
		return r.plan.write(r.dir)
	case len(running) > 0:
		return fmt.Errorf("%s: the hub has ended, and %q run: take the cluster down first", r.dir, running)
	}
	return r.startNetwork(ctx, attached, began) // its number is that of addresses in the data
}

// makeNetwork starts a network of a number that is free.
func (r *Regions) makeNetwork(ctx context.Context, attached bool, began *beginnings) (err error) {
	first := 0
	if attached { // the first is left to the cluster of `make up`
		first = 1
	}
	for r.plan.Network = first; r.plan.Network <= wan.MaxNumber; r.plan.Network++ {
		if err = wan.Free(ctx, r.plan.Network); err == nil {
			err = r.startNetwork(ctx, attached, began)
		}
		if !errors.Is(err, wan.ErrTaken) {
			return err
		}
	}
	return fmt.Errorf("no network is free: %w", err)
}

// startNetwork stores the plan and starts its network.
func (r *Regions) startNetwork(ctx context.Context, attached bool, began *beginnings) error {
	if err := r.plan.write(r.dir); err != nil {
		return err
	}
	if attached {
		network, err := wan.Start(ctx, r.plan.wan())
		r.network = network
		return err
	}
	dir := filepath.Join(r.dir, hubName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	logFile := filepath.Join(dir, logName)
	began.hub = true
	id, err := r.launcher.start(dir, logFile, append(r.hub[:len(r.hub):len(r.hub)], r.dir))
	if err != nil {
		return err
	}
	err = awaitReady(ctx, id, logFile, func(ctx context.Context) error {
		_, err := r.Control().Links(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("start the hub: %w", err)
	}
	r.say("the hub is ready")
	return nil
}

// RunHub makes the network of the regions in dir and runs its hub until ctx ends, then removes the
// network.
func RunHub(ctx context.Context, dir string) error {
	p, err := readRegionsPlan(dir)
	if err != nil {
		return err
	}
	w, err := wan.Start(ctx, p.wan())
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-w.Done():
	}
	return w.Close(context.WithoutCancel(ctx))
}

// openSites opens the clusters of the regions.
func (r *Regions) openSites(attached bool) {
	program := r.plan.Spec.Each.Program
	if program == "" {
		program = filepath.Join(r.dir, string(kindCarillon))
	}
	r.sites = nil
	for _, p := range r.plan.sites(program) {
		r.sites = append(r.sites, &Cluster{
			dir: filepath.Join(r.dir, p.Site.Name), plan: p, launcher: newLauncher(!attached), release: func() {},
			say: func(line string) { r.say(p.Site.Name + ": " + line) },
		})
	}
}

// writeSites stores the plans of the regions' clusters where Open finds them.
func (r *Regions) writeSites() error {
	for _, c := range r.sites {
		if err := os.MkdirAll(c.dir, 0o700); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		if err := c.plan.write(c.dir); err != nil {
			return err
		}
	}
	return nil
}

// startAll starts every member that is not running: Cassandra and NATS of all regions at once, then
// the schema, then the nodes.
func (r *Regions) startAll(ctx context.Context, began *beginnings) error {
	began.members = map[*Cluster][]member{}
	stores, nodes := map[*Cluster][]member{}, map[*Cluster][]member{}
	kinds := map[kind][]member{}
	for _, c := range r.sites {
		for _, m := range c.plan.members() {
			if _, state := c.process(m); state != Stopped {
				c.say(fmt.Sprintf("%s is %s already", m.name(), state))
				continue
			}
			began.members[c] = append(began.members[c], m)
			kinds[m.kind] = append(kinds[m.kind], m)
			if m.kind == kindCarillon {
				nodes[c] = append(nodes[c], m)
			} else {
				stores[c] = append(stores[c], m)
			}
		}
	}
	parts, err := r.parts(ctx, kinds)
	if err != nil {
		return err
	}
	if err := r.start(ctx, parts, stores); err != nil || len(nodes) == 0 {
		return err
	}
	for _, statement := range r.plan.keyspaces() {
		if err := r.createKeyspace(ctx, statement); err != nil {
			return err
		}
	}
	// One after the other: two changes of the schema at once may not see each other.
	for _, c := range r.sites {
		if c.plan.Spec.Nodes == 0 {
			continue
		}
		if err := c.migrate(ctx, parts); err != nil {
			return fmt.Errorf("%s: %w", c.plan.Site.Name, err)
		}
		if r.plan.Spec.OneKeyspace {
			break
		}
	}
	return r.start(ctx, parts, nodes)
}

// createKeyspace waits for the first node to know the data centres that the statement names: it may
// hear of the last one after all nodes are ready, and refuses the statement until then.
func (r *Regions) createKeyspace(ctx context.Context, statement string) error {
	limited, cancel := context.WithTimeout(ctx, statementLimit)
	defer cancel()
	var refused error
	err := poll(limited, func() (bool, error) {
		_, refused = queryNode(limited, r.plan.firstCQL(), nil, statement)
		return refused == nil, nil
	})
	if err != nil {
		return fmt.Errorf("create keyspace: %w", errors.Join(err, refused))
	}
	return nil
}

// parts makes what starting members of these kinds needs.
func (r *Regions) parts(ctx context.Context, kinds map[kind][]member) (parts, error) {
	first := r.sites[0]
	if len(kinds[kindCarillon]) > 0 && r.plan.Spec.Each.Program == "" {
		shared, err := openCache(r.say)
		if err != nil {
			return parts{}, err
		}
		r.say("building carillon")
		if _, err := shared.buildCarillon(ctx, r.dir); err != nil {
			return parts{}, err
		}
	}
	p, err := first.parts(ctx, kinds)
	p.peers = r.plan.seeds()
	return p, err
}

// start starts members of all regions side by side.
func (r *Regions) start(ctx context.Context, parts parts, members map[*Cluster][]member) error {
	g, ctx := errgroup.WithContext(ctx)
	for c, those := range members {
		g.Go(func() error {
			if err := c.startMembers(ctx, parts, those, nil); err != nil {
				return fmt.Errorf("%s: %w", c.plan.Site.Name, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// running returns the names of the members that have a process.
func (r *Regions) running() (names []string) {
	for _, c := range r.sites {
		for _, m := range c.plan.members() {
			if _, state := c.process(m); state != Stopped {
				names = append(names, c.plan.Site.Name+"/"+m.name())
			}
		}
	}
	return names
}

// hubProcess returns the last known process of the hub of detached regions, and what it does.
func (r *Regions) hubProcess() (identity, State) {
	id, ok, err := readIdentity(filepath.Join(r.dir, hubName))
	if err != nil || !ok {
		return identity{}, Stopped
	}
	return id, id.state()
}

// Control changes the links between regions, which it names.
func (r *Regions) Control() wan.Control { return wan.NewControl(r.plan.Network) }

// Region returns the cluster of one region, whose members it stops and starts; nil if there is no
// such region.
func (r *Regions) Region(name string) *Cluster {
	for _, c := range r.sites {
		if c.plan.Site.Name == name {
			return c
		}
	}
	return nil
}

// Names returns the names of the regions, the witness last.
func (r *Regions) Names() []string { return r.plan.Spec.names() }

// Down stops every member of all regions, Carillon nodes first, and then the network. Data stays.
func (r *Regions) Down(ctx context.Context) error {
	unlock, err := lock(ctx, filepath.Join(r.dir, lockName))
	if err != nil {
		return err
	}
	defer unlock()
	for _, clients := range []bool{true, false} {
		var g errgroup.Group
		for _, c := range r.sites {
			var members []member
			for _, m := range c.plan.members() {
				if (m.kind == kindCarillon) == clients {
					members = append(members, m)
				}
			}
			g.Go(func() error { return c.stopMembers(ctx, members) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return r.stopNetwork(ctx)
}

// stopNetwork ends the hub and removes what is left of its network. Members must have ended.
func (r *Regions) stopNetwork(ctx context.Context) error {
	id, state := r.hubProcess()
	if state != Stopped {
		if err := id.stop(ctx, stopGrace); err != nil {
			return fmt.Errorf("stop the hub: %w", err)
		}
		r.say("the hub has stopped")
	}
	return wan.Remove(ctx, r.plan.Network)
}

// Close kills the members of attached regions and removes their network. Their data stays.
func (r *Regions) Close(ctx context.Context) error {
	var g errgroup.Group
	for _, c := range r.sites {
		g.Go(func() error { return c.Close(ctx) })
	}
	err := g.Wait()
	if r.network != nil {
		err = errors.Join(err, r.network.Close(ctx))
	}
	return err
}

// Purge removes data, logs and plan of regions that are down.
func (r *Regions) Purge(ctx context.Context) error {
	unlock, err := lock(ctx, filepath.Join(r.dir, lockName))
	if err != nil {
		return err
	}
	defer unlock()
	if running := r.running(); len(running) > 0 {
		return fmt.Errorf("purge: %q run", running)
	}
	faults := []error{os.RemoveAll(filepath.Join(r.dir, string(kindCarillon))), os.RemoveAll(filepath.Join(r.dir, hubName))}
	for _, c := range r.sites {
		faults = append(faults, os.RemoveAll(c.dir))
	}
	// Last, so that a purge that failed can be repeated.
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	return os.Remove(filepath.Join(r.dir, regionsName))
}
