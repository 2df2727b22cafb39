package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/httpapi/forward"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/executor"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/homes"
)

// EpochStore is a schema.EpochStore that can be closed.
type EpochStore interface {
	schema.EpochStore
	Close() error
}

// regions is what a node knows of the regions; nil: there are none. Then its methods answer so.
type regions struct {
	region string // ours
	homes  schema.Homes
	routes []bucketer.Route
	keeper *homes.Keeper
	sender *forward.Forwarder // nil: there is no address of another region
	change *regionChanges

	everywhere *homes.Everywhere // nil: the store has no copies elsewhere
	durability func(ctx context.Context, tenant string) (schema.Durability, error)
}

// openRegions opens what the regions share, if there are any, and has the node's store write
// conditionally only for homes that our region serves. Each shard of the cluster must have a home.
func openRegions(ctx context.Context, n *Node, stops *cleanups, settings schema.Settings) error {
	if !n.cfg.Regions.Enabled() {
		return nil
	}
	m, err := n.cfg.Regions.Map()
	if err != nil {
		return err
	}
	if err := m.Homes.Covers(settings.Shards); err != nil {
		return fmt.Errorf("regions.homes: %w", err)
	}
	if err := sameName(ctx, n, m.Names()); err != nil {
		return err
	}
	n.startup.waitFor("the keyspace of regions")
	if n.opts.Opener.Epochs == nil {
		return errors.New("regions need Cassandra: who serves them is decided there")
	}
	store, err := n.opts.Opener.Epochs(ctx)
	if err != nil {
		return fmt.Errorf("open the keyspace of regions: %w", err)
	}
	stops.push("keyspace of regions", store.Close)
	keeper, err := homes.New(homes.Config{
		Region: n.cfg.Node.Region, Node: n.cfg.Node.Name, Homes: m.Homes, Regions: m.Names(), Automatic: n.cfg.Regions.Automatic, Store: store, Executors: func() int { return executorsIn(n.ring) }, Logger: n.log.With("part", "regions"), Registerer: n.reg,
	})
	if err != nil {
		return err
	}
	n.regions = &regions{
		region: n.cfg.Node.Region, homes: m.Homes, routes: m.Routes, keeper: keeper, durability: durabilityOf(n),
		change: newRegionChanges(n, m.Homes, m.Names(), keeper, store, n.store),
	}
	switch copies, ok := n.store.(schema.CopyStore); {
	case ok:
		n.regions.everywhere = keeper.Everywhere(copies)
	case n.cfg.Regions.Durability == config.DurableEverywhere:
		return errors.New("regions.durability: everywhere needs a store that has copies in other data centres")
	}
	n.store = keeper.Guard(n.store)
	delete(m.APIs, n.cfg.Node.Region) // the configuration is the same in every region
	if len(m.APIs) == 0 {
		n.log.Warn("regions.api names no other region: changes that belong to a home which another region serves are refused here")
		return nil
	}
	if n.regions.sender, err = forward.New(forward.Config{Region: n.cfg.Node.Region, APIs: m.APIs, Registerer: n.reg}); err != nil {
		return err
	}
	stops.push("connections to other regions", func() error { n.regions.sender.Close(); return nil })
	return nil
}

// all returns all homes; nil: there are no regions.
func (r *regions) all() *schema.Homes {
	if r == nil {
		return nil
	}
	return &r.homes
}

// forward returns what sends changes on to other regions; nil: nothing does.
func (r *regions) forward() httpapi.Forward {
	if r == nil || r.sender == nil {
		return nil
	}
	return r.sender
}

// sameName returns an error if a node of another region has our name, as the sessions of executors
// tell. Each region has a ring of its own, so it would not be noticed there, and what nodes write
// under their names (counts by minute) would mix.
func sameName(ctx context.Context, n *Node, all []string) error {
	for _, other := range all {
		if other == n.cfg.Node.Region {
			continue
		}
		name := (&regions{region: other}).executor(n.cfg.Node.Name)
		s, err := n.store.Session(ctx, name)
		switch {
		case errors.Is(err, schema.ErrNotFound):
		case err != nil:
			n.log.Warn("whether another region has a node of this name was not found out", "region", other, "err", err)
		case s.ID != "" && !s.Over(n.now()):
			return fmt.Errorf("node.name: %s is the name of a node of region %s too (executor %s, its session ends at %s): every node of every region needs a name of its own; if that node is gone, start again after that",
				n.cfg.Node.Name, other, name, s.Expires.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// intake returns what the bucketer knows of regions.
func (r *regions) intake() *bucketer.Regions {
	if r == nil {
		return nil
	}
	intake := &bucketer.Regions{Region: r.region, Homes: r.homes, Served: r.keeper.Served, Takes: r.keeper.Takes, Routes: r.routes}
	if r.everywhere != nil { // else the interface would not be nil
		intake.Everywhere, intake.Durability = r.everywhere, r.durability
	}
	return intake
}

// durabilityOf returns the func that tells the durability of what a tenant asks for without stating
// one.
func durabilityOf(n *Node) func(ctx context.Context, tenant string) (schema.Durability, error) {
	return func(ctx context.Context, tenant string) (schema.Durability, error) {
		d, err := n.administration.tenants.Durability(ctx, tenant)
		if d == "" {
			d = schema.Durability(n.cfg.Regions.Durability)
		}
		return d, err
	}
}

// claims returns what has every region know of the claims of runs; nil: nothing does.
func (r *regions) claims() executor.Everywhere {
	if r == nil || r.everywhere == nil {
		return nil
	}
	return r.everywhere
}

// takes returns what the dispatcher asks: in which epoch the home of a shard is served here, unless
// it is drained.
func (r *regions) takes() func(schema.Shard) (int64, error) {
	if r == nil {
		return nil
	}
	return r.keeper.Takes
}

// served returns what the executor asks: in which epoch the home of a shard is served here.
func (r *regions) served() func(schema.Shard) (int64, error) {
	if r == nil {
		return nil
	}
	return r.keeper.Served
}

// servedLimit returns what tells in which epoch the home of a limit is served here; nil: there are
// no regions.
func (r *regions) servedLimit() func(schema.LimitKey) (string, int64, error) {
	if r == nil {
		return nil
	}
	return r.keeper.ServedLimit
}

// homeOf returns what tells the home of a shard; nil: there are no regions.
func (r *regions) homeOf() func(schema.Shard) string {
	if r == nil {
		return nil
	}
	return func(shard schema.Shard) string {
		home, _ := r.homes.Of(shard)
		return home
	}
}

// executor returns the name of a node's executor.
func (r *regions) executor(name string) string {
	if r == nil {
		return name
	}
	return (&bucketer.Regions{Region: r.region}).ExecutorName(name)
}

// view tells what the node knows of who serves the homes.
func (r *regions) view() httpapi.Regions {
	if r == nil {
		return httpapi.Regions{}
	}
	return httpapi.Regions{Region: r.region, Homes: homesOf(r.homes, r.keeper, time.Now())}
}

// changes returns what has other regions serve homes; nil: there are none.
func (r *regions) changes() httpapi.RegionChanges {
	if r == nil {
		return nil
	}
	return r.change
}

// homesOf tells what a node knows of who serves the homes.
func homesOf(all schema.Homes, keeper *homes.Keeper, now time.Time) (list []httpapi.Home) {
	leases := keeper.Leases()
	for _, name := range all.Names() {
		lease := leases[name]
		home := httpapi.Home{Name: name, Region: lease.Epoch.Region, Epoch: lease.Epoch.Number, Served: true}
		if !lease.Read.IsZero() {
			age := now.Sub(lease.Read).Seconds()
			home.LeaseAge = &age
		}
		_, err := keeper.ServedHome(name)
		var elsewhere *schema.NotServedError
		if errors.As(err, &elsewhere) {
			home.Served, home.Region, home.Message = false, elsewhere.Region(), err.Error()
		}
		list = append(list, home)
	}
	return list
}

// run keeps the leases on the homes until ctx ends.
func (r *regions) run(ctx context.Context) {
	if r == nil {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { r.change.run(ctx) })
	_ = r.keeper.Run(ctx) // returns nil
	wg.Wait()
}

// ready returns the lines of /readyz about regions: a region that knows not who serves the homes does
// nothing for them, and still answers what is read.
func (r *regions) ready() []httpapi.Dependency {
	if r == nil {
		return nil
	}
	var unknown []string
	for _, home := range r.homes.Names() {
		_, err := r.keeper.ServedHome(home)
		var elsewhere *schema.NotServedError
		if errors.As(err, &elsewhere) && elsewhere.Region() == "" {
			unknown = append(unknown, home)
		}
	}
	line := httpapi.Dependency{Name: "regions"}
	if len(unknown) > 0 {
		line.Warning = fmt.Sprintf("who serves the homes %s is not known: nothing is taken in or started of them here", strings.Join(unknown, ", "))
	}
	return []httpapi.Dependency{line}
}
