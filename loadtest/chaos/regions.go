package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/process"
	"carillon.dev/carillon/loadtest/wait"
	"carillon.dev/carillon/loadtest/workload"
	"carillon.dev/carillon/schema"
)

// Two regions share a keyspace, beside a witness. Each home has a tenant, a load, a sink and a
// judge of its own. The faults are of home eu and its region; home us is to notice nothing.
const (
	lostHome, otherHome = "eu", "us"
	// repeating is the tenant of recurring jobs, which are at home in eu too: repeatingJobs of
	// them, each run every repeatingEvery.
	repeating      = "repeating"
	repeatingJobs  = 60
	repeatingEvery = 10 * time.Second
	regionsDelay   = 40 * time.Millisecond
	// everywhereSource are jobs of durability everywhere at home in eu, everywhereOf of its load. They are
	// imported before the fault, and due through all of it.
	everywhereSource = lostHome + "-everywhere"
	everywhereOf     = 4
	// regionsFault is when the first fault comes, after T0; a home is measured before it from
	// regionsWarm on.
	regionsFault = 60 * time.Second
	regionsWarm  = 30 * time.Second
	// untouchedLate is how late a run of the home without a fault may start, and untouchedTimes how
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
	mostDifferences        = 5
)

// A regionsCourse is the course of scenarios with two regions.
type regionsCourse struct{ *run }

// home is what one home has of its own.
type home struct {
	name   string
	client *api.Client
	sink   *process.Sink
}

func tenantOf(home string) string { return "team-" + home }

// homes returns both; each asks its own region first.
func (r regionsCourse) homes() []home {
	var all []home
	for i, name := range []string{lostHome, otherHome} {
		other := []string{otherHome, lostHome}[i]
		own, others := r.regions.Region(name).APIs(), r.regions.Region(other).APIs()
		var urls []string
		for j := range own {
			urls = append(urls, own[j], others[j])
		}
		all = append(all, home{name, &api.Client{URLs: urls, HTTP: r.http, Log: r.log, Tenant: tenantOf(name)}, r.sinks()[i]})
	}
	return all
}

// upRegions starts the regions, and the sinks on the address that all of them reach.
func (r *run) upRegions(ctx context.Context) (err error) {
	r.regions, err = cluster.UpRegions(ctx, cluster.Options{
		Dir: filepath.Join(r.cfg.Dir, "cluster"), Attached: true,
		Say: func(line string) { r.log.Info("cluster", "says", line) },
	}, cluster.RegionsSpec{
		Regions: r.cfg.Scenario.plan().Regions, Each: r.cfg.Cluster, Delay: regionsDelay, OneKeyspace: true,
		Tenants: []string{tenantOf(otherHome) + "=" + otherHome}, Automatic: r.cfg.Scenario == RegionAuto,
	})
	if err != nil {
		return fmt.Errorf("start regions: %w", err)
	}
	eu := r.regions.Region(lostHome)
	r.clusters = append(r.clusters, eu)
	listen := []string{"--listen", net.JoinHostPort(eu.Host(), "0")}
	if r.sink, err = process.StartSink(ctx, r.cfg.Program, r.cfg.Dir, listen...); err != nil {
		return err
	}
	for name, sink := range map[string]**process.Sink{otherHome: &r.second, repeating: &r.third} {
		folder, err := emptyDir(filepath.Join(r.cfg.Dir, name))
		if err != nil {
			return err
		}
		if *sink, err = process.StartSink(ctx, r.cfg.Program, folder, listen...); err != nil {
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
	g, gctx := errgroup.WithContext(ctx)
	for _, h := range r.homes() {
		n := r.cfg.Jobs - r.cfg.Jobs/lateOf
		if h.name == lostHome {
			all := n / everywhereOf
			n -= all
			g.Go(func() error { return r.importAs(gctx, h, everywhereSource, all, t0, r.cfg.Span, 0, everywhereKinds()) })
		}
		g.Go(func() error { return r.importFor(gctx, h, h.name, n, t0, r.cfg.Span, 0) })
	}
	g.Go(func() error { return r.repeat(gctx, start.at, t0) })
	if err := g.Wait(); err != nil {
		return err
	}
	imported := r.mark()
	g, gctx = errgroup.WithContext(ctx)
	for _, c := range r.cfg.Scenario.plan().Load.Faults(r.cfg.Cluster) {
		g.Go(func() error { return r.take(gctx, t0, c) })
	}
	for _, h := range r.homes() {
		g.Go(func() error { return r.importLate(gctx, h, t0) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return r.finish(ctx, begin, start, imported)
}

// repeat creates the recurring jobs, which run from t0 on for the span.
func (r regionsCourse) repeat(ctx context.Context, now, t0 time.Time) (err error) {
	f, err := createNew(r.eventsFile())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	spec := workload.Recurring{
		N: repeatingJobs, Every: repeatingEvery, From: now, Start: t0, End: t0.Add(r.cfg.Span), Seed: r.cfg.Seed, Source: repeating, Target: r.third.URL,
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

// importFor imports n jobs of a home, immediate of them without a time.
func (r regionsCourse) importFor(ctx context.Context, h home, source string, n int, from time.Time, spread time.Duration, immediate int) error {
	return r.importAs(ctx, h, source, n, from, spread, immediate, guaranteeKinds(r.cfg.Mix))
}

// importAs is importFor of jobs of these kinds.
func (r regionsCourse) importAs(ctx context.Context, h home, source string, n int, from time.Time, spread time.Duration, immediate int, kinds []workload.Kind) error {
	spec := r.jobs(source, n, from, spread)
	spec.Target, spec.Kinds, spec.Immediate = h.sink.URL, kinds, immediate
	spec.Seed += schema.HashOf(source) % (1 << 32)
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

// The acts on regions. The member of a step is a region ("eu"), two of them ("eu to us"), or a
// delay.
const (
	ActRegionKill  Act = "kill -9 region"
	ActRegionStart Act = "start region"
	ActRegionCut   Act = "cut off region"
	ActRegionHeal  Act = "heal region"
	ActRegionDelay Act = "delay between regions"
	ActFailOver    Act = "fail over"
	ActMove        Act = "move"
)

var regionActs = acts{
	ActRegionKill: func(ctx context.Context, r *run, name string) (string, error) {
		r.sample()
		c, err := r.site(name)
		if err != nil {
			return "", err
		}
		var g errgroup.Group
		for member := range c.Status().PIDs() {
			g.Go(func() error { return c.Kill(ctx, member) })
		}
		return "", g.Wait()
	},
	ActRegionStart: func(ctx context.Context, r *run, name string) (string, error) {
		c, err := r.site(name)
		if err != nil {
			return "", err
		}
		s := c.Status()
		for _, of := range [][]cluster.MemberStatus{slices.Concat(s.Cassandra, s.NATS), s.Carillon} {
			for _, m := range of { // the folder of a cluster is locked by each start
				if err := c.StartMember(ctx, m.Name); err != nil {
					return "", err
				}
			}
		}
		return "", nil
	},
	ActRegionCut: func(ctx context.Context, r *run, name string) (string, error) {
		return "", r.eachLink(ctx, name, cutLink)
	},
	ActRegionHeal: func(ctx context.Context, r *run, name string) (string, error) {
		return "", r.eachLink(ctx, name, healLink)
	},
	ActRegionDelay: func(ctx context.Context, r *run, text string) (string, error) {
		d, err := time.ParseDuration(text)
		if err != nil {
			return "", fmt.Errorf("delay: %w", err)
		}
		return "", r.regions.Control().Delay(ctx, "", "", d)
	},
	ActFailOver: func(ctx context.Context, r *run, text string) (string, error) { return r.hand(ctx, "failover", text) },
	ActMove:     func(ctx context.Context, r *run, text string) (string, error) { return r.hand(ctx, "move", text) },
}

func cutLink(ctx context.Context, r *cluster.Regions, from, to string) error {
	return r.Control().Cut(ctx, from, to)
}

func healLink(ctx context.Context, r *cluster.Regions, from, to string) error {
	return r.Control().Heal(ctx, from, to)
}

// eachLink does something to all links of a region, both ways.
func (r *run) eachLink(ctx context.Context, name string, do func(ctx context.Context, r *cluster.Regions, from, to string) error) error {
	var faults []error
	for _, other := range r.regions.Names() {
		if other != name {
			faults = append(faults, do(ctx, r.regions, name, other), do(ctx, r.regions, other, name))
		}
	}
	return errors.Join(faults...)
}

// hand has a home served by another region, as an operator does: the command is given again while
// it is refused. text is "home to region".
func (r *run) hand(ctx context.Context, how, text string) (note string, err error) {
	name, to, _ := strings.Cut(text, toWord)
	dir := filepath.Join(r.cfg.Dir, "cluster")
	config := filepath.Join(dir, to, numbered("carillon", 1), "carillon.yaml")
	for began, tries := time.Now(), 1; ; tries++ {
		bounded, cancel := context.WithTimeout(ctx, commandWithin)
		cmd := exec.CommandContext(bounded, filepath.Join(dir, "carillon"), "region", how, name, "--to", to, "--reason", "chaos", "--config", config) // #nosec G204 -- our own program
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err = cmd.Run()
		cancel()
		r.log.Info("command about a region", "command", how, "says", out.String())
		if err == nil {
			return fmt.Sprintf("after %.1f s, %d times asked", time.Since(began).Seconds(), tries), nil
		}
		if time.Since(began) > commandWithin {
			return "", fmt.Errorf("region %s %s: %w: %s", how, text, err, out.String())
		}
		if err := wait.For(ctx, commandEvery); err != nil {
			return "", err
		}
	}
}
