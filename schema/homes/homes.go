// Package homes knows which homes this region serves now. A Keeper reads the epochs of all homes
// every 2 s and answers, without I/O, whether we may act for a shard, and in which epoch.
//
// It lies below schema, beside package lease: bucketer, dispatcher and executor ask it alike, each
// by a func of its own, and none of them is to know of the others. What follows from a read is a
// pure value, schema.HomeLease; this package adds the clock, the reads and the beats. Guarded is a
// store that decides only on rows whose home our region serves (guard.go).
//
// # What is authoritative
//
// The log of epochs (schema.EpochStore). What a Keeper holds is a lease on what it read: it ends by
// itself, 10 s after the last read that was answered was sent.
//
// # Invariants
//
//  1. Of two regions at most one is told at an instant that it serves a home, whatever reads are
//     lost: the one before stops 10 s after the new epoch can be read, the next begins 12 s after; 3 s
//     and 5 s where that was announced.
//  2. Served reads the clock at each call. A process that was stopped is told the truth in the
//     instant in which it goes on.
//  3. A beat says that we serve a home only after we have waited.
//  4. Of a guarded store, no conditional write is sent of a home that we do not serve, but that with
//     which the holder of a run ends it.
//
// # Replication lag
//
// A beat is written at a quorum of all data centres and reaches the others as every row does. Where
// the store can say what our own data centre has (schema.LocalBeats), its age is how far we are
// behind that region at most: what it acknowledged before is here, but for rows that were
// overtaken. Beats come every 2 s, and two clocks count, so at rest it is between 0 and 2 s; it
// grows while the region is cut off or dead.
//
// # A home is moved
//
// Who moves it announces that first (schema.Announcement). Nodes that hear of it read every 500 ms, and
// hold a lease of 3 s on the home; 10 s later no node has a longer one, whether it heard or not, and the
// home was served all the time. No list of nodes is needed for that, and no clock: the next region
// counts these 12 s from when it heard itself (schema.HomeLease.Observe). It cannot be taken back: if the
// move is given up, leases stay short until the next epoch, which the command writes for the region that
// serves already. All nodes of all regions must know of announcements.
//
// Then the home is drained (schema.Drain). While a node sees that, Takes refuses new
// work and the dispatcher gives its shards up; Served, and so the guarded store and the executor,
// stay as they are: what was published is started, and what runs is recorded. So little is under
// way when the next epoch ends the lease. Nobody reports that all has ended: who asks waits for a
// time. If no epoch follows, work is taken in again DrainSpare later.
//
// A move or a fail-over is made by a Changer, for commands and the API alike. Whoever works on one
// tells how far it is (telling.go), so that nobody begins a second one; nothing is decided by that.
//
// # Everywhere
//
// What is acknowledged with schema.DurableEverywhere, and the claims of guarded runs of it, are
// confirmed in every data centre first (everywhere.go).
//
// # What is left
//
// Before a home is moved its rows in all data centres are compared (walk.go), but not keys, names, leases
// and tasks: of those, what one lacks after a cut comes by hints, or by a repair.
//
// A slot of a job's limit whose run ends after its home went elsewhere is given back when the home
// returns or the executor's session ends, not before. A rate or a limit that is given to a task whose
// runs lie at another home than the tenant's holds those back. Neither starts anything twice.
//
// # If we crash
//
// The lease ends with the process. Another node of the region has its own. One that starts waits
// 12 s for the homes that were taken over, unless the beat of its region says that the region
// serves them already.
package homes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/schema"
)

// readTimeout bounds one read of the epochs, and one write of a beat. Several fit into the life of
// a lease. shortTimeout does where a lease is short.
const (
	readTimeout  = 3 * time.Second
	shortTimeout = time.Second
)

// beatsMore is how much longer than the epochs the beats may take that are read beside them.
const beatsMore = 500 * time.Millisecond

// localTimeout bounds the read of the beats in our own data centre: it must not hold up the next
// read of the epochs.
const localTimeout = time.Second

// Config is what a Keeper needs.
type Config struct {
	Region string // ours
	Node   string // names who writes the beats
	Homes  schema.Homes
	// Regions are all regions, also those without a home of their own; default: those that the
	// homes are called after.
	Regions []string
	Store   schema.EpochStore
	// Automatic: homes of a region that is silent are failed over to ours (automatic.go).
	Automatic bool
	// Executors returns how many executors of our region the node knows of; nil: beats do not tell.
	Executors func() int

	Now        func() time.Time // with a monotonic reading; default time.Now
	Logger     *slog.Logger     // default: nothing is logged
	Registerer prometheus.Registerer
}

// Keeper holds the leases of all homes. Its methods may be called concurrently.
type Keeper struct {
	cfg     Config
	metrics *metrics
	leases  atomic.Pointer[map[string]schema.HomeLease] // by home; never changed once stored
	here    atomic.Pointer[map[string]schema.Beat]      // by region, as our data centre has them; likewise
	drains  atomic.Pointer[map[string]drain]            // by home; likewise
	watch   watch
	silence atomic.Pointer[silence] // what watch knows; never changed once stored
	count   int64                   // beats of this process
	failing bool                    // the last read was not answered: said once
}

// New returns a Keeper that holds no lease until Run has read.
func New(cfg Config) (*Keeper, error) {
	if cfg.Region == "" || cfg.Store == nil || len(cfg.Homes.Names()) == 0 {
		return nil, errors.New("homes: a region, homes and a store of epochs are needed")
	}
	if len(cfg.Regions) == 0 {
		cfg.Regions = cfg.Homes.Names()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	k := &Keeper{cfg: cfg}
	k.leases.Store(&map[string]schema.HomeLease{})
	k.here.Store(&map[string]schema.Beat{})
	k.drains.Store(&map[string]drain{})
	var err error
	k.metrics, err = newMetrics(k)
	return k, err
}

// Served returns the epoch in which our region serves the home of a shard now, or a
// schema.NotServedError. It does no I/O.
func (k *Keeper) Served(shard schema.Shard) (epoch int64, err error) {
	home, ok := k.cfg.Homes.Of(shard)
	if !ok {
		return 0, fmt.Errorf("shard %d has no home (regions.homes): %w", shard, schema.ErrNotServed)
	}
	return k.ServedHome(home)
}

// ServedHome is Served for a home by its name.
func (k *Keeper) ServedHome(home string) (epoch int64, err error) {
	return (*k.leases.Load())[home].Served(home, k.cfg.Region, k.cfg.Now())
}

// Takes is Served for new work: it is refused as well while the home is drained.
func (k *Keeper) Takes(shard schema.Shard) (epoch int64, err error) {
	epoch, err = k.Served(shard)
	drains := *k.drains.Load()
	if err != nil || len(drains) == 0 {
		return epoch, err
	}
	home, _ := k.cfg.Homes.Of(shard)
	if d, ok := drains[home]; ok && d.Epoch == epoch && k.cfg.Now().Before(d.until) {
		return 0, &schema.NotServedError{Home: home, Asked: k.cfg.Region, Lease: (*k.leases.Load())[home], Now: k.cfg.Now(), To: d.To}
	}
	return epoch, nil
}

// drain is a request to drain a home as this node follows it.
type drain struct {
	schema.Drain
	asked time.Time // tells requests apart
	until time.Time // by our clock
}

// drained returns the requests among beats that are to be followed, by home. A request counts from
// the time that it bears, which is of the clocks of the region that serves the home, so a node that
// sees it late follows what is left of it. One of a time to come counts from when it was first seen
// here.
func drained(was map[string]drain, beats []schema.Beat, now time.Time) map[string]drain {
	is := make(map[string]drain)
	for _, b := range beats {
		if b.Drain == nil {
			continue
		}
		since := b.At
		if since.After(now) {
			since = now
		}
		d := drain{Drain: *b.Drain, asked: b.At, until: since.Add(b.Drain.For.Std() + schema.DrainSpare)}
		if old, ok := was[d.Home]; ok && old.asked.Equal(d.asked) {
			d.until = old.until
		}
		is[d.Home] = d
	}
	return is
}

// Leases returns what is known of each home, by its name. The caller must not change it.
func (k *Keeper) Leases() map[string]schema.HomeLease { return *k.leases.Load() }

// Run reads the epochs and writes beats until ctx ends, and returns nil then.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		began := time.Now()
		err := k.step(ctx)
		if ctx.Err() != nil {
			return nil
		}
		k.report(err)
		pause := schema.HomeLeaseRead
		if k.short() {
			pause = schema.ShortLeaseRead
		}
		timer := time.NewTimer(pause - time.Since(began))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// short reports whether the lease on a home is short.
func (k *Keeper) short() bool {
	for _, l := range *k.leases.Load() {
		if l.Short() {
			return true
		}
	}
	return false
}

// bound returns a context for one call of the store.
func (k *Keeper) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if k.short() {
		return context.WithTimeout(ctx, shortTimeout)
	}
	return context.WithTimeout(ctx, readTimeout)
}

// step reads the epochs once, and writes a beat. The error is why the leases were not renewed.
func (k *Keeper) step(ctx context.Context) error {
	bounded, cancel := k.bound(ctx)
	defer cancel()
	sent := k.cfg.Now()
	beats := make(chan []schema.Beat, 1)
	go func() { beats <- k.beats(bounded) }()
	newest, err := k.cfg.Store.Epochs(bounded, k.cfg.Homes.Names())
	if err != nil {
		cancel() // beats are of no use alone
		<-beats
		return fmt.Errorf("read who serves the homes: %w", err)
	}
	k.observe(only(newest, func(e schema.Epoch) bool { return e.Region != k.cfg.Region }), nil, sent) // what is lost is lost at once
	defer time.AfterFunc(beatsMore, cancel).Stop()
	all := <-beats
	k.observe(newest, all, sent)
	if all != nil {
		k.watch.observe(all, sent, k.cfg.Now())
		k.silence.Store(k.watch.silence(k.cfg.Regions))
	}
	k.follow(all)
	if err := k.beat(ctx, all); err != nil {
		k.metrics.beatsFailed.Inc()
		k.cfg.Logger.Debug("beat was not written", "err", err)
	}
	k.look(ctx, all)
	if k.cfg.Automatic && all != nil {
		k.failOver(ctx, newest)
	}
	return nil
}

// beats reads the beats. Nil if that fails, which gives short leases.
func (k *Keeper) beats(ctx context.Context) []schema.Beat {
	beats, err := k.cfg.Store.Beats(ctx)
	switch {
	case err != nil:
		k.cfg.Logger.Debug("the beats were not read", "err", err)
		return nil
	case beats == nil:
		return []schema.Beat{}
	}
	return beats
}

// observe takes in what a read told, which was sent at that time; beats may be nil.
func (k *Keeper) observe(newest []schema.Epoch, beats []schema.Beat, sent time.Time) {
	answered := k.cfg.Now()
	var serves map[string]int64
	announced := make(map[string]int64)
	for _, b := range beats {
		announced[b.Region] = b.Count
		if b.Region == k.cfg.Region {
			serves = b.Serves
		}
	}
	was := *k.leases.Load()
	leases := maps.Clone(was)
	for _, e := range newest {
		leases[e.Home] = was[e.Home].Observe(schema.HomeRead{
			Epoch: e, Sent: sent, Answered: answered, Whole: beats != nil, Announced: announced[schema.AnnounceRow(e.Home)], Serves: serves[e.Home],
		}, k.cfg.Region)
	}
	k.leases.Store(&leases)
	k.tell(was, leases)
}

// only returns those of epochs that are wanted.
func only(epochs []schema.Epoch, wanted func(schema.Epoch) bool) (kept []schema.Epoch) {
	for _, e := range epochs {
		if wanted(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

// follow notes which homes are to be drained; nil: the beats were not read.
func (k *Keeper) follow(beats []schema.Beat) {
	if beats == nil {
		return
	}
	was, now := *k.drains.Load(), k.cfg.Now()
	drains := drained(was, beats, now)
	for home, d := range drains {
		if old, ok := was[home]; (!ok || !old.asked.Equal(d.asked)) && d.until.After(now) {
			k.cfg.Logger.Info("home is drained: it is about to be moved", "home", home, "epoch", d.Epoch, "to", d.To, "for", d.For.Std())
		}
	}
	k.drains.Store(&drains)
}

// look notes which beats our data centre has. Where it cannot be asked, all is one.
func (k *Keeper) look(ctx context.Context, beats []schema.Beat) {
	if local, ok := k.cfg.Store.(schema.LocalBeats); ok {
		bounded, cancel := context.WithTimeout(ctx, localTimeout)
		defer cancel()
		var err error
		if beats, err = local.BeatsHere(bounded); err != nil {
			k.cfg.Logger.Debug("the beats in this data centre were not read", "err", err)
			return
		}
	} else if beats == nil {
		return
	}
	here := make(map[string]schema.Beat, len(beats))
	for _, b := range beats {
		here[b.Region] = b
	}
	k.here.Store(&here)
}

// Lag returns how far our data centre is behind another region at most; false: no beat of it was
// seen here.
func (k *Keeper) Lag(region string) (time.Duration, bool) {
	b, ok := (*k.here.Load())[region]
	return max(k.cfg.Now().Sub(b.At), 0), ok
}

// Here returns the beats that our data centre has, by their Region: signs of life, and how far
// changes of homes are (schema.ChangeRow). The caller must not change it.
func (k *Keeper) Here() map[string]schema.Beat { return *k.here.Load() }

// beat writes that our region is alive, and which homes it serves. Of the beats that were read the
// one of our region may bear a time that is yet to come: our clock was ahead, or that of another
// node is. Ours takes its place nevertheless, or else the region would seem silent until then.
func (k *Keeper) beat(ctx context.Context, all []schema.Beat) error {
	k.count++
	b := schema.Beat{Region: k.cfg.Region, Node: k.cfg.Node, Count: k.count, At: k.cfg.Now().Truncate(time.Millisecond)}
	if last, ok := schema.BeatOf(all, b.Region); ok && !b.At.After(last.Stamp()) {
		b.Over = last.Stamp()
	}
	for _, home := range k.cfg.Homes.Names() {
		if epoch, err := k.ServedHome(home); err == nil {
			if b.Serves == nil {
				b.Serves = make(map[string]int64)
			}
			b.Serves[home] = epoch
		}
	}
	if k.cfg.Executors != nil {
		n := k.cfg.Executors()
		b.Executors = &n
	}
	bounded, cancel := k.bound(ctx)
	defer cancel()
	return k.cfg.Store.PutBeat(bounded, b)
}

// tell logs each home whose epoch has changed.
func (k *Keeper) tell(was, is map[string]schema.HomeLease) {
	for _, home := range k.cfg.Homes.Names() {
		if is[home].Short() && !was[home].Short() {
			k.cfg.Logger.Info("home is about to be moved: who serves it is read more often", "home", home, "epoch", is[home].Epoch.Number)
		}
		if e := is[home].Epoch; e.Number != was[home].Epoch.Number {
			k.cfg.Logger.Info("home is served by", "home", home, "region", e.Region, "epoch", e.Number, "by", e.By, "reason", e.Reason, "ours", e.Region == k.cfg.Region)
		}
	}
}

// report logs when reads begin to fail, and when they are answered again.
func (k *Keeper) report(err error) {
	if err != nil {
		k.metrics.readsFailed.Inc()
	}
	if failing := err != nil; failing != k.failing {
		k.failing = failing
		if failing {
			k.cfg.Logger.Warn("who serves the homes cannot be read: without an answer this region stops to act for them", "within", schema.HomeLeaseLife, "err", err)
		} else {
			k.cfg.Logger.Info("who serves the homes is read again")
		}
	}
}
