package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/process"
	"carillon.dev/carillon/loadtest/wait"
	"carillon.dev/carillon/loadtest/workload"
	"carillon.dev/carillon/schema"
)

// Regions share a keyspace, beside a witness. Each home has a tenant, a load, a sink and a judge of
// its own, and a second tenant with a sink and a judge for its workflows. The faults are of home eu
// and its region; the other homes are to notice nothing.
const (
	lostHome, otherHome = "eu", "us"
	// repeating is the tenant of recurring jobs, which are at home in eu too: repeatingJobs of
	// them, each run every repeatingEvery.
	repeating      = "repeating"
	repeatingJobs  = 60
	repeatingEvery = 10 * time.Second
	regionsDelay   = 40 * time.Millisecond
	// everywhereSource are jobs of durability everywhere at home in eu, everywhereOf of its load.
	// They are imported before the fault, and due through all of it.
	everywhereSource = lostHome + "-everywhere"
	everywhereOf     = 4
	// regionsFault is when the first fault comes, after T0; a home is measured before it from
	// regionsWarm on.
	regionsFault = 60 * time.Second
	regionsWarm  = 30 * time.Second
	// untouchedLate is how late a run of a home without a fault may start, and untouchedTimes how
	// many times the p99 of before that of after may be.
	untouchedLate  = 2 * time.Second
	untouchedTimes = 2
	// replicated is after how long a write is in the other region, while links stand.
	replicated = 500 * time.Millisecond
	// byHandWithin is how long a fail-over by hand may take, from the command to the first start.
	byHandWithin = 30 * time.Second
	// byItselfWithin is how long an automatic one may take, from the loss.
	byItselfWithin = 60 * time.Second
	// commandEvery and commandWithin: a command that is refused is given again. A fail-over is
	// refused while the lost region was alive some seconds ago.
	commandEvery, commandWithin = time.Second, time.Minute
	// alikeWithin is how long the data centres may take, after the last arrival, to hold the same
	// rows: what one has missed comes by hints.
	alikeWithin, alikePoll = 2 * time.Minute, 5 * time.Second
)

// A regionsCourse is the course of scenarios with regions.
type regionsCourse struct{ *run }

// home is what one home has of its own.
type home struct {
	name        string
	own, others []string    // nodes: of the region that serves it at first, and of the next one
	client      *api.Client // of both, in turn
	sink        *process.Sink
}

func tenantOf(home string) string { return "team-" + home }

// homeNames are the homes of so many regions, which are called like these: the names of a cluster's
// regions without that of the witness.
func (r *members) homeNames() []string {
	return slices.DeleteFunc(r.regions.Names(), func(name string) bool { return name == cluster.Witness })
}

// homes returns all, that with the faults first; each asks its own region first.
func (r regionsCourse) homes() []home {
	names := r.homeNames()
	var all []home
	for i, name := range names {
		h := home{name: name, sink: r.sinkOf(name)}
		h.own, h.others = r.regions.Region(name).APIs(), r.regions.Region(names[(i+1)%len(names)]).APIs()
		var urls []string
		for j := range h.own {
			urls = append(urls, h.own[j], h.others[j])
		}
		h.client = &api.Client{URLs: urls, HTTP: r.http, Log: r.log, Tenant: tenantOf(name)}
		all = append(all, h)
	}
	return all
}

// sinkOf returns the sink of a home.
func (r *members) sinkOf(home string) *process.Sink {
	if home == lostHome {
		return r.sink
	}
	return r.apart[home]
}

// regionsSpec describes the cluster of a scenario of regions.
func (c Config) regionsSpec() cluster.RegionsSpec {
	return cluster.RegionsSpec{
		Regions: c.Regions, Each: c.Cluster, Delay: regionsDelay, OneKeyspace: true, Automatic: c.Scenario == RegionAuto,
	}
}

// RegionsMemory is about how much memory, in bytes, the members of a scenario of regions keep; 0 if
// c states no such.
func (c Config) RegionsMemory() int64 {
	if c.Regions < 2 || c.Regions > 3 {
		return 0
	}
	return c.regionsSpec().Memory()
}

// upRegions starts the regions, and the sinks on the address that all of them reach.
func (r *run) upRegions(ctx context.Context) (err error) {
	spec := r.cfg.regionsSpec()
	for _, name := range spec.Homes()[1:] {
		spec.Tenants = append(spec.Tenants, tenantOf(name)+"="+name, flowTenant(name)+"="+name, warmTenant(name)+"="+name)
	}
	r.regions, err = cluster.UpRegions(ctx, cluster.Options{
		Dir: filepath.Join(r.cfg.Dir, "cluster"), Attached: true,
		Say: func(line string) { r.log.Info("cluster", "says", line) },
	}, spec)
	if err != nil {
		return fmt.Errorf("start regions: %w", err)
	}
	eu := r.regions.Region(lostHome)
	r.clusters = append(r.clusters, eu)
	listen := []string{"--listen", net.JoinHostPort(eu.Host(), "0")}
	if r.sink, err = process.StartSink(ctx, r.cfg.Program, r.cfg.Dir, listen...); err != nil {
		return err
	}
	apart := []string{repeating, required, warmSource}
	for _, name := range r.homeNames() {
		if apart = append(apart, flowTenant(name)); name != lostHome {
			apart = append(apart, name)
		}
	}
	r.apart = map[string]*process.Sink{}
	for _, name := range apart {
		folder, err := emptyDir(filepath.Join(r.cfg.Dir, name))
		if err != nil {
			return err
		}
		if r.apart[name], err = process.StartSink(ctx, r.cfg.Program, folder, listen...); err != nil {
			return err
		}
	}
	// States are read where nothing is cut or killed: two data centres need not show the same.
	r.client = &api.Client{URLs: r.regions.Region(otherHome).APIs(), HTTP: r.http, Log: r.log, Tenant: tenantOf(lostHome)}
	return nil
}

// site returns the cluster of a region.
func (r *run) site(name string) (*cluster.Cluster, error) {
	c := r.regions.Region(name)
	if c == nil {
		return nil, fmt.Errorf("there is no region %s: there are %s", name, strings.Join(r.regions.Names(), ", "))
	}
	return c, nil
}

// regionPIDs are the processes of all regions, by "eu/nats-1".
func (r *members) regionPIDs() map[string]int {
	all := map[string]int{}
	for _, name := range r.regions.Names() {
		for member, pid := range r.regions.Region(name).Status().PIDs() {
			all[name+"/"+member] = pid
		}
	}
	return all
}

// play is a run with a steady load at each home.
func (r regionsCourse) play(ctx context.Context) error {
	begin, start, t0, err := r.idle(ctx)
	if err != nil {
		return err
	}
	r.report.Regions = &RegionsResult{
		Regions: r.cfg.Regions, DelayMS: float64(regionsDelay.Milliseconds()), Rows: map[string]int{}, Bytes: map[string]int64{},
		Others: map[string]*check.Report{}, Workflows: map[string]*WorkflowsResult{}, Keyed: map[string]*KeyedResult{},
	}
	homes := r.homes()
	for _, h := range homes { // before anybody else looks at these
		r.report.Regions.Workflows[h.name], r.report.Regions.Keyed[h.name] = &WorkflowsResult{}, &KeyedResult{}
	}
	g, gctx := errgroup.WithContext(ctx)
	for _, h := range homes {
		g.Go(func() error { return warmHome(gctx, r, h) })
		n := r.cfg.Jobs - r.cfg.Jobs/lateOf
		if h.name == lostHome {
			all := n / everywhereOf
			n -= all
			g.Go(func() error { return r.importAs(gctx, h, everywhereSource, all, t0, r.cfg.Span, 0, everywhereKinds()) })
		}
		g.Go(func() error { return r.importFor(gctx, h, h.name, n, t0, r.cfg.Span, 0) })
		g.Go(func() error { return r.flow(h).put(gctx) })
	}
	g.Go(func() error { return r.repeat(gctx, start.at, t0) })
	g.Go(func() error { return r.importRequired(gctx, t0) })
	if err := g.Wait(); err != nil {
		return err
	}
	imported := r.mark()
	g, gctx = errgroup.WithContext(ctx)
	for _, c := range r.cfg.Scenario.plan().Load.Faults(r.cfg.Cluster) {
		g.Go(func() error { return r.take(gctx, t0, c) })
	}
	g.Go(func() error { return r.lookAtRequired(gctx, t0) })
	for _, h := range homes {
		g.Go(func() error { return r.importLate(gctx, h, t0) })
		g.Go(func() error { return r.createKeyed(gctx, h, t0) })
		g.Go(func() error { return r.flow(h).trigger(gctx, t0) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return r.finish(ctx, begin, start, imported)
}

// warmTenant is the tenant of the jobs that warm a home up.
func warmTenant(home string) string { return warmSource + "-" + home }

// warmHome imports jobs of a home that run at its rate before the first due instant, and leaves the
// last quarter of that time for what is late. How they end is not judged, but that no region starts
// one whose home it does not serve.
func warmHome(ctx context.Context, r regionsCourse, h home) error {
	spread := r.cfg.Warm * 3 / 4
	n := int(float64(r.cfg.Rate) * spread.Seconds())
	if n < 1 {
		return nil
	}
	h.client = &api.Client{URLs: h.client.URLs, HTTP: r.http, Log: r.log, Tenant: warmTenant(h.name)}
	h.sink = r.apart[warmSource]
	return r.importFor(ctx, h, warmTenant(h.name), n, time.Now().Add(warmLead).UTC(), spread, 0)
}

// repeat creates the recurring jobs, which run from t0 on for the span.
func (r regionsCourse) repeat(ctx context.Context, now, t0 time.Time) (err error) {
	f, err := createNew(r.eventsFile())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	spec := workload.Recurring{
		N: repeatingJobs, Every: repeatingEvery, From: now, Start: t0, End: t0.Add(r.cfg.Span), Seed: r.cfg.Seed, Source: repeating, Target: r.apart[repeating].URL,
	}
	r.keepDue(spec.End.Add(mostJitter))
	a := &asker{urls: r.homes()[0].client.URLs, http: r.http, out: f, tenant: repeating}
	var rate AskRate
	if _, err := recurringCourse(r).create(ctx, a, spec.Source, spec.N, spec.Body, &rate); err != nil {
		return fmt.Errorf("create recurring jobs: %w", err)
	}
	return nil
}

// everywhereMix has more guarded runs than others: those are what a region that is cut off must not
// start.
var everywhereMix = Mix{AtLeastOnce: 4, EffectivelyOnce: 3, AtMostOnce: 3}

// everywhereKinds are the jobs of durability everywhere.
func everywhereKinds() []workload.Kind {
	kinds := guaranteeKinds(everywhereMix)
	for i := range kinds {
		kinds[i].Durability = string(schema.DurableEverywhere)
	}
	return kinds
}

// part describes jobs of a home, immediate of them without a time.
func (r regionsCourse) part(h home, source string, n int, from time.Time, spread time.Duration, immediate int, kinds []workload.Kind) workload.Spec {
	spec := r.jobs(source, n, from, spread)
	spec.Target, spec.Kinds, spec.Immediate = h.sink.URL, kinds, immediate
	spec.Seed += schema.HashOf(source) % (1 << 32)
	return spec
}

// importFor imports n jobs of a home, immediate of them without a time.
func (r regionsCourse) importFor(ctx context.Context, h home, source string, n int, from time.Time, spread time.Duration, immediate int) error {
	return r.importAs(ctx, h, source, n, from, spread, immediate, guaranteeKinds(r.cfg.Mix))
}

// importAs is importFor of jobs of these kinds.
func (r regionsCourse) importAs(ctx context.Context, h home, source string, n int, from time.Time, spread time.Duration, immediate int, kinds []workload.Kind) error {
	spec := r.part(h, source, n, from, spread, immediate, kinds)
	if err := writeJobs(r.askedFile(source), spec); err != nil {
		return fmt.Errorf("import %s: %w", source, err)
	}
	_, err := r.importFileBy(ctx, h.client, spec)
	return err
}

// importLate imports the rest of a home's load in portions, each due soon after its import.
func (r regionsCourse) importLate(ctx context.Context, h home, t0 time.Time) error {
	count := int(r.cfg.Span / lateEvery)
	n := r.cfg.Jobs / lateOf / max(count, 1)
	if n == 0 {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	for i := range count {
		g.Go(func() error {
			if err := wait.Until(ctx, t0.Add(time.Duration(i)*lateEvery)); err != nil {
				return err
			}
			return r.importFor(ctx, h, fmt.Sprintf("%s-late-%d", h.name, i+1), n, time.Now().Add(lateSoon), lateEvery, n/immediateOf)
		})
	}
	return g.Wait()
}
