package node

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/homes"
)

// regionChanges has other regions serve homes, for the API. A move takes longer than a request: it
// goes on in this process, and is given up when the node stops. Who decides is the log of epochs,
// so nothing here needs to be right for that.
type regionChanges struct {
	region  string
	all     schema.Homes
	regions []string
	keeper  *homes.Keeper
	changer homes.Changer
	log     *slog.Logger

	mu     sync.Mutex
	life   context.Context // of the node; nil: it does not serve yet
	moving sync.WaitGroup
}

var _ httpapi.RegionChanges = (*regionChanges)(nil)

// openRows is the store of everything else, which stays open.
type openRows struct{ homes.RowStore }

func (openRows) Close() error { return nil }

// syncedRows are openRows that can be compared.
type syncedRows struct {
	openRows
	schema.Syncer
}

// newRegionChanges returns what has other regions serve homes. rows is the node's store, not
// guarded.
func newRegionChanges(n *Node, all schema.Homes, regions []string, keeper *homes.Keeper, epochs schema.EpochStore, rows schema.Store) *regionChanges {
	r := &regionChanges{region: n.cfg.Node.Region, all: all, regions: regions, keeper: keeper, log: n.log.With("part", "regions")}
	open := homes.RowStore(openRows{rows})
	if s, ok := rows.(schema.Syncer); ok {
		open = syncedRows{openRows{rows}, s}
	}
	r.changer = homes.Changer{
		Store: epochs, Region: r.region, Homes: all.Names(), Regions: regions, Shards: all.Shards,
		Rows: func() (homes.RowStore, error) { return open, nil },
	}
	return r
}

// run lets changes be made until ctx ends, and waits for those that are given up then.
func (r *regionChanges) run(ctx context.Context) {
	r.mu.Lock()
	r.life = ctx
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock() // what began before is waited for
	r.life = nil
	r.mu.Unlock()
	r.moving.Wait()
}

// Faults implements httpapi.RegionChanges.
func (r *regionChanges) Faults(c schema.HomeChange) []schema.ChangeFault { return r.changer.Faults(c) }

// Plan implements httpapi.RegionChanges.
func (r *regionChanges) Plan(ctx context.Context, c schema.HomeChange) (schema.ChangePlan, error) {
	return r.changer.Plan(ctx, c)
}

// Begin implements httpapi.RegionChanges.
func (r *regionChanges) Begin(ctx context.Context, c schema.HomeChange) (schema.ChangePlan, schema.HomeProgress, error) {
	r.mu.Lock()
	life := r.life
	if life != nil {
		r.moving.Add(1)
	}
	r.mu.Unlock()
	if life == nil {
		return schema.ChangePlan{}, schema.HomeProgress{}, bucketer.ErrNotReady
	}
	goesOn := false
	defer func() {
		if !goesOn {
			r.moving.Done()
		}
	}()
	changer := r.changer
	changer.Say = r.saying(c)
	change, err := changer.Begin(ctx, c)
	if err != nil {
		return schema.ChangePlan{}, schema.HomeProgress{}, err
	}
	plan := change.Plan
	if c.Forced || plan.Already {
		_, err := change.Do(ctx)
		return plan, change.Progress(), err
	}
	began := change.Progress()
	goesOn = true
	go func() {
		defer r.moving.Done()
		if _, err := change.Do(life); err != nil {
			r.log.Warn("a home was not moved", "home", c.Home, "to", c.To, "by", c.By, "err", err)
		}
	}()
	return plan, began, nil
}

// saying logs what a change does.
func (r *regionChanges) saying(c schema.HomeChange) func(string, ...any) {
	log := slog.NewLogLogger(r.log.With("home", c.Home, "to", c.To, "by", c.By).Handler(), slog.LevelInfo)
	return log.Printf
}

// Stand implements httpapi.RegionChanges.
func (r *regionChanges) Stand() httpapi.RegionsStand {
	now := time.Now()
	out := httpapi.RegionsStand{Region: r.region, AsOf: httpapi.Time{Time: now}}
	here := r.keeper.Here()
	for _, name := range r.regions {
		region := httpapi.RegionStand{Name: name, Local: name == r.region}
		if b, ok := here[name]; ok {
			lag, _ := r.keeper.Lag(name)
			seconds := lag.Seconds()
			region.LastSign, region.Node, region.Lag, region.Executors = httpapi.Time{Time: b.At}, b.Node, &seconds, b.Executors
		}
		out.Regions = append(out.Regions, region)
	}
	leases := r.keeper.Leases()
	for _, home := range homesOf(r.all, r.keeper, now) {
		e := leases[home.Name].Epoch
		stand := httpapi.HomeStand{Home: home, Shards: len(r.all.Shards(home.Name, schema.MaxShards)), Since: httpapi.Time{Time: e.At}, By: e.By, Reason: e.Reason}
		if b, ok := here[schema.ChangeRow(home.Name)]; ok && b.Change != nil {
			stand.Change = httpapi.HomeChangeViewOf(b.Change, b.At)
		}
		out.Homes = append(out.Homes, stand)
	}
	return out
}

// executorsIn returns how many executors a ring has, which is of one region.
func executorsIn(r Ring) int {
	count := 0
	for _, m := range r.Snapshot().Members() {
		if slices.Contains(m.Roles, "executor") {
			count++
		}
	}
	return count
}
