package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// Regional makes a scenario one of two regions: each has a data centre, a queue and a ring of its
// own, with Scenario.Nodes nodes, and a home.
type Regional struct {
	// Plan is what happens to the regions, in a goroutine of its own; nil: nothing does.
	Plan func(d *drama)
	// Least and Most bound how long a write takes to the other data centre; 0: as was measured.
	Least, Most time.Duration
	// Unanswered is the share of conditional writes that are not answered, 0 to 1: they stand, and
	// the other data centre has them up to unansweredTakes later.
	Unanswered float64
	// Loses: a region dies or is cut off while it serves a home, and another takes that over. What
	// the first had not replicated may be done twice, or be lost if Gone.
	Loses bool
	// Gone: the region never comes back.
	Gone bool
	// Automatic: homes of a region that is silent are failed over by themselves, and the plan does not.
	Automatic bool
	// Required: every third one-off job requires its region. The plan gives each home back in the
	// end.
	Required bool
	// Everywhere: half of the one-off jobs are of durability everywhere.
	Everywhere bool
}

// requires reports whether a one-off job requires its region.
func (s *Scenario) requires(line int) bool {
	return s.Regions != nil && s.Regions.Required && line%3 == 0
}

// drama is what happens to the regions of a scenario.
type drama struct {
	w   *world
	rng *rand.Rand
	// victim is the site to which it happens, witness of it the other one.
	victim, other *site
	losses        []check.Loss // guarded by world.mu
}

// newRegional makes the cluster of two regions that the scenario asks for.
func (w *world) newRegional(retention time.Duration) (*Cluster, error) {
	s := &w.s
	c, err := newCluster(s.Seed, regionNames, s.Nodes, s.Shards, retention, s.Log)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(s.Seed, 12)) // #nosec G404 -- drawn from the seed
	at := rng.IntN(2)
	tenants := map[string]string{otherTenant: regionNames[1-at]}
	if at == 1 || s.Regions.Loses || rng.IntN(2) == 0 { // else its home is the first one, and it is not stated
		tenants[tenant] = regionNames[at]
	}
	if c.regions, err = newRegions(c, tenants); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.regions.automatic = s.Regions.Automatic
	// Two or three reads in a row that hang let a lease lapse for part of a second.
	c.regions.prompt = s.Promise.Lateness > 0 && s.Promise.Lateness < time.Second
	if s.Regions.Required {
		c.regions.requires = s.requires
	}
	v := rng.IntN(2)
	w.drama = &drama{w: w, rng: rng, victim: c.sites[v], other: c.sites[1-v]}
	c.sites[0].off, c.sites[1].off = s.Skew, -s.Skew
	if s.Regions.Gone {
		c.store, c.broker = w.drama.other.store, w.drama.other.broker
	}
	for _, at := range c.sites {
		at.to.unanswered = s.Regions.Unanswered
	}
	if s.Regions.Most > 0 {
		for _, at := range c.sites {
			at.to.setLag(s.Regions.Least, s.Regions.Most)
		}
	}
	return c, nil
}

// planRegions has the plan of the scenario done.
func (w *world) planRegions(wg *sync.WaitGroup) {
	if w.s.Regions != nil && w.s.Regions.Plan != nil {
		wg.Go(func() { w.s.Regions.Plan(w.drama) })
	}
}

// tenantOf returns the tenant of a one-off job.
func (w *world) tenantOf(line int) string {
	if w.s.Regions != nil && line%5 < 2 {
		return otherTenant
	}
	return tenant
}

// someNode returns the bucketer of a node that runs; nil: none does.
func (w *world) someNode() *engine.Engine {
	if n, l := w.someNodeFor(tenant); n != nil {
		return l.bucketer
	}
	return nil
}

// someNodeFor returns a node that runs, and its process; nil: none does. With regions it is mostly
// one of the region that serves the home of the tenant, as clients find it by GET /v1/regions.
func (w *world) someNodeFor(of string) (*Node, *life) {
	region, c := "", w.c
	if c.regions != nil {
		home, _ := c.regions.homes.OfTenant(of)
		region = c.regions.servedBy(home)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	astray := region != "" && c.rng.IntN(20) == 0
	var up []*Node
	for _, n := range c.nodes {
		if n.up && !n.stopping && (astray || n.at.region == region) {
			up = append(up, n)
		}
	}
	if len(up) == 0 {
		return nil, nil
	}
	n := up[c.rng.IntN(len(up))]
	return n, n.life
}

func (d *drama) sleep(least, most time.Duration) {
	time.Sleep(least + time.Duration(d.rng.Float64()*float64(most-least)))
}

// move has a region serve a home from now on.
func (d *drama) move(home, to string) {
	if err := d.w.c.regions.move(home, to); err != nil {
		panic(err) // the log itself has no faults
	}
}

// failOver has the other region serve what the victim served.
func (d *drama) failOver() {
	if d.w.s.Regions.Automatic {
		d.sleep(35*time.Second, 70*time.Second)
		return
	}
	for _, home := range regionNames {
		if d.w.c.regions.servedBy(home) == d.victim.region {
			d.move(home, d.other.region)
		}
	}
}

// cut cuts the link between the data centres, or heals it.
func (d *drama) cut(cut bool) {
	for _, s := range d.w.c.sites {
		s.to.setCut(cut)
	}
}

// setApart cuts the victim off from the epochs and the witness, or heals that.
func (d *drama) setApart(apart bool) {
	d.w.c.mu.Lock()
	defer d.w.c.mu.Unlock()
	d.victim.apart = apart
}

// setDown has no node of the victim start, or lets them.
func (d *drama) setDown(down bool) {
	d.w.c.mu.Lock()
	defer d.w.c.mu.Unlock()
	d.victim.down = down
}

// loses notes that what the victim did from now on for that long, and just before, may not have
// arrived when the other region took over.
func (d *drama) loses(during time.Duration) {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	lag := max(d.w.s.Regions.Most, lagMost)
	d.losses = append(d.losses, check.Loss{From: time.Now().Add(-lag), Cut: time.Now().Add(during)})
}

// die kills every node of the victim, and its data centre and queue with them.
func (d *drama) die() {
	var wg sync.WaitGroup
	d.setDown(true)
	d.cut(true)
	for _, n := range d.w.c.nodes {
		if n.at == d.victim {
			wg.Go(n.Kill)
		}
	}
	wg.Wait()
}

// comeBack starts the victim again. Its data centre has what it acknowledged, and its stream is
// new.
func (d *drama) comeBack() {
	d.setDown(false)
	d.cut(false)
	for _, n := range d.w.c.nodes {
		if n.at == d.victim {
			if err := n.Start(); err != nil {
				panic(err)
			}
		}
	}
}

// The plans of scenarios.

// linkIsCut: the link between the regions is cut and heals, twice. Both still reach the witness.
func linkIsCut(d *drama) {
	for range 2 {
		d.sleep(10*time.Second, 30*time.Second)
		d.cut(true)
		d.sleep(time.Second, time.Minute)
		d.cut(false)
	}
}

// homesMove: a home goes to the other region or comes back, again and again.
func homesMove(d *drama) {
	for end := time.Now().Add(d.w.s.Span); time.Now().Before(end); {
		home := regionNames[d.rng.IntN(2)]
		to := regionNames[0]
		if d.w.c.regions.servedBy(home) == to {
			to = regionNames[1]
		}
		d.move(home, to)
		d.sleep(25*time.Second, 50*time.Second)
	}
}

// homesMoveAndReturn: as homesMove, and in the end each home is served by its own region again.
func homesMoveAndReturn(d *drama) {
	homesMove(d)
	for _, home := range regionNames {
		if d.w.c.regions.servedBy(home) != home {
			d.sleep(25*time.Second, 50*time.Second)
			d.move(home, home)
		}
	}
}

// homesMoveAnnounced: as homesMove, and each time it is announced, and the home drained, as carillon
// region move does.
func homesMoveAnnounced(d *drama) {
	for end := time.Now().Add(d.w.s.Span); time.Now().Before(end); {
		home, to := d.announce()
		time.Sleep(schema.TakeOverWait)
		d.drain(home, to, 4*time.Second)
		time.Sleep(4 * time.Second)
		d.move(home, to)
		d.sleep(10*time.Second, 30*time.Second)
	}
}

// homesMoveSoon: moves are announced and follow soon or late, or are given up: then the same region gets
// the next epoch.
func homesMoveSoon(d *drama) {
	for end := time.Now().Add(d.w.s.Span); time.Now().Before(end); {
		home, to := d.announce()
		d.sleep(0, 20*time.Second)
		if d.rng.IntN(4) == 0 {
			to = d.w.c.regions.servedBy(home)
		}
		d.move(home, to)
		d.sleep(0, 40*time.Second)
	}
}

// announce announces that a home goes to the region that does not serve it.
func (d *drama) announce() (home, to string) {
	home, to = regionNames[d.rng.IntN(2)], regionNames[0]
	if d.w.c.regions.servedBy(home) == to {
		to = regionNames[1]
	}
	d.drain(home, to, 0)
	return home, to
}

// drain has a home drained for that long; 0: what follows is announced.
func (d *drama) drain(home, to string, long time.Duration) {
	if err := d.w.c.regions.announce(home, to, long); err != nil {
		panic(err) // the register itself has no faults
	}
}

// registerIsAway: a region does not reach the epochs for a while. Its leases run out, and nobody
// takes over.
func registerIsAway(d *drama) {
	for range 2 {
		d.sleep(5*time.Second, 30*time.Second)
		d.setApart(true)
		d.sleep(2*time.Second, 40*time.Second)
		d.setApart(false)
	}
}

// regionDies: a region dies, its home is failed over, it comes back, and its home is failed back.
func regionDies(d *drama) {
	d.sleep(20*time.Second, time.Minute)
	d.loses(0)
	d.die()
	d.sleep(0, 15*time.Second)
	d.failOver()
	if d.w.s.Regions.Gone {
		return
	}
	d.sleep(25*time.Second, 70*time.Second)
	d.comeBack()
	d.sleep(30*time.Second, time.Minute)
	d.move(d.victim.region, d.victim.region)
}

// regionIsApart: a region is cut off from the other one and from the witness, and goes on until its
// leases run out. Meanwhile its home is failed over. So both believe that they own it, one after
// the other if leases hold.
func regionIsApart(d *drama) {
	d.sleep(20*time.Second, time.Minute)
	d.loses(schema.HomeLeaseLife)
	d.setApart(true)
	d.cut(true)
	d.sleep(0, 12*time.Second)
	d.failOver()
	d.sleep(25*time.Second, time.Minute)
	d.setApart(false)
	d.cut(false)
	d.sleep(30*time.Second, time.Minute)
	d.move(d.victim.region, d.victim.region)
}

// allAreApart: no region reaches the epochs for a while. Nobody takes over, also not when they do again.
func allAreApart(d *drama) {
	set := func(s *site, apart bool) {
		d.w.c.mu.Lock()
		defer d.w.c.mu.Unlock()
		s.apart = apart
	}
	for range 2 {
		d.sleep(20*time.Second, 40*time.Second)
		for _, s := range d.w.c.sites {
			set(s, true)
		}
		d.sleep(2*time.Second, 60*time.Second)
		set(d.other, false)
		d.sleep(0, 5*time.Second)
		set(d.victim, false)
	}
}

// healRegions ends what goes wrong between regions. A region that is lost stays so.
func (w *world) healRegions() {
	if w.s.Regions == nil {
		return
	}
	w.drama.setApart(false)
	if !w.s.Regions.Gone {
		w.drama.cut(false)
	}
	for _, s := range w.c.sites {
		s.to.setLag(lagLeast, lagMost)
	}
}

// judgeOneOff judges the one-off jobs by loadtest/check. Where a region lost what it did last, its
// home is judged without that, and the other home as if nothing had happened.
func (w *world) judgeOneOff(h *check.History) (report check.Report, err error) {
	w.judgeEverywhere(h)
	if w.s.Regions == nil || !w.s.Regions.Loses {
		return check.Judge(*h)
	}
	for _, home := range regionNames {
		of := w.ofHome(h, home)
		if home == w.drama.victim.region {
			of.Changes = w.drama.forget(of.Changes)
			forgiven := of.Forgive(w.drama.losses)
			w.out.Forgiven = forgiven
			if forgiven.Lost > 0 && !w.s.Regions.Gone {
				w.c.fault("%d jobs that region %s acknowledged are not there, although it came back", forgiven.Lost, home)
			}
			if forgiven.Unended > 0 {
				w.c.fault("%d runs of region %s whose ends may be lost have no end: who serves the home now must have started them again", forgiven.Unended, home)
			}
			if report, err = check.Judge(of); err != nil {
				return report, err
			}
			continue
		}
		untouched, err := check.Judge(of)
		if err != nil {
			return untouched, err
		}
		if untouched.Failed() {
			w.c.fault("the home %s, which no fault touched: %+v", home, untouched.Faults)
		}
	}
	return report, nil
}

// forget returns the changes, those that were acknowledged within a loss as of unknown outcome.
func (d *drama) forget(changes []check.Change) []check.Change {
	changes = slices.Clone(changes)
	for i := range changes {
		for _, l := range d.losses {
			if at := changes[i].Acked; !at.Before(l.From) && !at.After(l.Cut) {
				changes[i].Acked = time.Time{}
			}
		}
	}
	return changes
}

// ofHome returns the part of a history that is about a home.
func (w *world) ofHome(h *check.History, home string) check.History {
	ofRef := func(r check.Ref) bool {
		at, _ := w.c.regions.homes.OfTenant(w.tenantOf(r.Line))
		return at == home
	}
	ofRun := func(id string) bool {
		run, err := schema.ParseEntryID(id)
		at, _ := w.c.regions.homes.Of(run.Shard())
		return err == nil && at == home
	}
	of := *h
	of.Asked = only(h.Asked, func(a *check.Ask) bool { return ofRef(a.Ref) })
	of.Acks = only(h.Acks, func(a *check.Ack) bool { return ofRef(a.Ref) })
	of.Seen = only(h.Seen, func(s *check.Sighting) bool { return ofRef(s.Ref) })
	of.Changes = only(h.Changes, func(c *check.Change) bool { return ofRun(c.Run) })
	of.Runs = only(h.Runs, func(o *check.Observation) bool { return ofRun(o.ID) })
	return of
}

// only returns those of ts that are wanted.
func only[T any](ts []T, wanted func(t *T) bool) (kept []T) {
	for i := range ts {
		if wanted(&ts[i]) {
			kept = append(kept, ts[i])
		}
	}
	return kept
}

// judgeRegions judges in the end that both data centres have the same rows, and that what the
// scenario is about did happen. It kills all nodes, so that nobody writes any more.
func (w *world) judgeRegions(ctx context.Context) error {
	if w.s.Regions == nil {
		return nil
	}
	var wg sync.WaitGroup
	for _, n := range w.c.nodes {
		wg.Go(n.Kill)
	}
	wg.Wait()
	r := w.c.regions
	for what, n := range r.done {
		w.out.Counts["act: "+what] = float64(n)
	}
	for _, log := range r.log {
		w.out.Counts["epochs"] += float64(len(log))
	}
	for _, s := range w.c.sites {
		w.out.Counts["overtaken"] += float64(s.to.passed)
	}
	if w.s.Regions.Gone {
		return nil
	}
	time.Sleep(2 * lagMost)
	if w.s.Regions.Unanswered > 0 {
		time.Sleep(unansweredTakes)
	}
	for _, s := range w.c.sites {
		if !s.to.idle() {
			w.c.fault("what region %s wrote is still on its way", s.region)
		}
	}
	if err := sameRows(ctx, w.c.sites[0], w.c.sites[1]); err != nil {
		w.c.fault("%v", err)
	}
	return nil
}

// sameRows returns an error that names rows that two data centres do not have alike.
func sameRows(ctx context.Context, a, b *site) error {
	as, err := a.store.Rows(ctx)
	if err != nil {
		return err
	}
	bs, err := b.store.Rows(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for key, row := range as {
		if bs[key] != row && len(faults) < 5 {
			faults = append(faults, fmt.Errorf("row %q: %s has %q, %s has %q", key, a.region, row, b.region, bs[key]))
		}
	}
	for key := range bs {
		if _, ok := as[key]; !ok && len(faults) < 5 {
			faults = append(faults, fmt.Errorf("row %q: %s has it, %s does not", key, b.region, a.region))
		}
	}
	return errors.Join(faults...)
}
