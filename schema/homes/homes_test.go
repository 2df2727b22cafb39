package homes_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/homes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// link stands between a region and the store of epochs.
type link struct {
	schema.EpochStore
	mu  sync.Mutex
	cut bool // nothing is answered: calls end with their context
}

func (l *link) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
}

func (l *link) pass(ctx context.Context) error {
	l.mu.Lock()
	cut := l.cut
	l.mu.Unlock()
	if !cut {
		return nil
	}
	<-ctx.Done()
	return errors.Join(schema.ErrUnavailable, ctx.Err())
}

func (l *link) Epochs(ctx context.Context, homes []string) ([]schema.Epoch, error) {
	if err := l.pass(ctx); err != nil {
		return nil, err
	}
	return l.EpochStore.Epochs(ctx, homes)
}

func (l *link) Beats(ctx context.Context) ([]schema.Beat, error) {
	if err := l.pass(ctx); err != nil {
		return nil, err
	}
	return l.EpochStore.Beats(ctx)
}

func (l *link) PutBeat(ctx context.Context, b schema.Beat) error {
	if err := l.pass(ctx); err != nil {
		return err
	}
	return l.EpochStore.PutBeat(ctx, b)
}

// world is two regions, eu and us, with a home each: eu has the shards 0-1, us 2-3.
type world struct {
	*testing.T
	store *embedded.Store
	homes schema.Homes
	began time.Time
}

// inWorld runs test in a bubble, with epoch 1 of both homes.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		s, err := embedded.Open(embedded.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		h, err := schema.NewHomes([]schema.Home{{Name: "eu", Shards: []schema.ShardRange{{First: 0, Last: 1}}}, {Name: "us", Shards: []schema.ShardRange{{First: 2, Last: 3}}}})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{T: t, store: s, homes: h, began: time.Now()}
		for _, home := range h.Names() {
			w.epoch(home, 1, home)
		}
		test(w)
	})
}

func (w *world) epoch(home string, number int64, region string) {
	w.Helper()
	if _, err := w.store.InsertEpoch(w.Context(), schema.Epoch{Home: home, Number: number, Region: region, At: time.Now()}); err != nil {
		w.Fatalf("InsertEpoch: %v", err)
	}
}

// start runs a node of a region until stop is called. It knows of the regions that are named, or
// else of eu and us.
func (w *world) start(region, node string, regions ...string) (k *homes.Keeper, l *link, stop func()) {
	w.Helper()
	l = &link{EpochStore: w.store}
	k, err := homes.New(homes.Config{Region: region, Node: node, Homes: w.homes, Regions: regions, Store: l, Registerer: prometheus.NewRegistry()})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	synctest.Wait()
	return k, l, func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("Run = %v, want nil when it is told to stop", err)
		}
	}
}

// want checks in which epoch a node serves a shard; 0: not.
func (w *world) want(k *homes.Keeper, shard schema.Shard, epoch int64) {
	w.Helper()
	synctest.Wait()
	got, err := k.Served(shard)
	if got != epoch || (err == nil) != (epoch > 0) || err != nil && !errors.Is(err, schema.ErrNotServed) {
		w.Errorf("after %v: Served(%d) = %d, %v, want %d", time.Since(w.began), shard, got, err, epoch)
	}
}

func TestARegionServesItsHome(t *testing.T) {
	inWorld(t, func(w *world) {
		eu, _, stop := w.start("eu", "a")
		defer stop()
		w.want(eu, 0, 1)
		w.want(eu, 1, 1)
		w.want(eu, 2, 0)
		w.want(eu, 9, 0) // no home
		time.Sleep(time.Hour)
		w.want(eu, 0, 1)
	})
}

func TestARegionThatIsCutOffStops(t *testing.T) {
	inWorld(t, func(w *world) {
		eu, link, stop := w.start("eu", "a")
		defer stop()
		time.Sleep(schema.HomeLeaseRead) // a read was just answered
		synctest.Wait()
		link.set(true)
		time.Sleep(schema.HomeLeaseLife - time.Nanosecond)
		w.want(eu, 0, 1)
		time.Sleep(time.Nanosecond)
		w.want(eu, 0, 0)
		link.set(false)
		time.Sleep(2 * schema.HomeLeaseRead)
		w.want(eu, 0, 1)
	})
}

// TestAtMostOneRegionServes: a home fails over to the other region and back, with the first one cut
// off from the epochs or not. Both are asked every 100 ms.
func TestAtMostOneRegionServes(t *testing.T) {
	for _, cut := range []bool{false, true} {
		inWorld(t, func(w *world) {
			eu, link, stopEU := w.start("eu", "a")
			defer stopEU()
			us, _, stopUS := w.start("us", "b")
			defer stopUS()
			served := map[int64]string{}
			watch := func(d time.Duration) {
				for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
					synctest.Wait()
					atEU, errEU := eu.Served(0)
					atUS, errUS := us.Served(0)
					if errEU == nil && errUS == nil {
						w.Fatalf("cut %v, after %v: eu serves in epoch %d, us in %d", cut, time.Since(w.began), atEU, atUS)
					}
					for region, epoch := range map[string]int64{"eu": atEU, "us": atUS} {
						if epoch == 0 {
							continue
						}
						if other, ok := served[epoch]; ok && other != region {
							w.Fatalf("epoch %d was served by %s and by %s", epoch, other, region)
						}
						served[epoch] = region
					}
				}
			}
			watch(5 * time.Second)
			link.set(cut)
			w.epoch("eu", 2, "us")
			watch(schema.TakeOverWait + schema.HomeLeaseRead + time.Second)
			w.want(us, 0, 2)
			w.want(us, 2, 1)
			w.want(eu, 0, 0)
			link.set(false)
			watch(5 * time.Second)
			w.epoch("eu", 3, "eu")
			watch(schema.TakeOverWait + schema.HomeLeaseRead + time.Second)
			w.want(eu, 0, 3)
			w.want(us, 0, 0)
		})
	}
}

// TestAnAnnouncedMove: a home that goes elsewhere some time after this was announced is without a region
// for about the short wait; one that goes at once for as long as if nothing had been announced. At no
// instant two regions serve it, also if a node does not hear of the announcement.
func TestAnAnnouncedMove(t *testing.T) {
	for what, row := range map[string]struct {
		ahead       time.Duration // how long before the epoch it is announced
		cut         time.Duration // how long before the epoch a node of eu is cut off
		least, most time.Duration // without a region
	}{
		"all hear":            {ahead: schema.TakeOverWait, least: schema.ShortTakeOverWait - time.Second, most: schema.ShortTakeOverWait + time.Second},
		"a node does not":     {ahead: schema.TakeOverWait, cut: schema.TakeOverWait + time.Second, least: schema.ShortTakeOverWait - time.Second, most: schema.ShortTakeOverWait + time.Second},
		"not long before it":  {ahead: schema.ShortLeaseRead, least: time.Second, most: schema.TakeOverWait + time.Second},
		"a node does not yet": {ahead: 2 * time.Second, cut: 2500 * time.Millisecond, least: time.Second, most: schema.TakeOverWait + schema.HomeLeaseRead},
	} {
		inWorld(t, func(w *world) {
			one, link, stopOne := w.start("eu", "a")
			defer stopOne()
			two, _, stopTwo := w.start("eu", "c")
			defer stopTwo()
			us, _, stopUS := w.start("us", "b")
			defer stopUS()
			var last, first time.Time
			watch := func(d time.Duration) {
				for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
					synctest.Wait()
					_, errOne := one.Served(0)
					_, errTwo := two.Served(0)
					_, errUS := us.Served(0)
					eu := errOne == nil || errTwo == nil
					if eu {
						last = time.Now()
					}
					if errUS == nil && first.IsZero() {
						first = time.Now()
					}
					if eu && errUS == nil {
						w.Fatalf("%s: after %v two regions serve", what, time.Since(w.began))
					}
				}
			}
			watch(5 * time.Second)
			if row.cut > row.ahead {
				link.set(true)
				watch(row.cut - row.ahead)
			}
			if err := w.store.PutBeat(w.Context(), schema.Announcement(schema.Epoch{Home: "eu", Number: 1})); err != nil {
				w.Fatal(err)
			}
			watch(row.ahead)
			if errOne, errTwo := served(one), served(two); (errOne != nil) != (row.cut >= schema.TakeOverWait) || errTwo != nil {
				w.Errorf("%s: before the epoch the nodes of eu say %v, %v; want that those serve which read", what, errOne, errTwo)
			}
			w.epoch("eu", 2, "us")
			watch(schema.TakeOverWait + 2*schema.HomeLeaseRead)
			w.want(us, 0, 2)
			if gap := first.Sub(last); gap < row.least || gap > row.most {
				w.Errorf("%s: no region served for %v, want %v to %v", what, gap, row.least, row.most)
			}
			watch(time.Minute)
			w.want(us, 0, 2)
		})
	}
}

func served(k *homes.Keeper) error {
	_, err := k.Served(0)
	return err
}

// TestBeatsAreNotNeededForLong: a node that cannot read the beats goes on, with short leases.
func TestBeatsAreNotNeededForLong(t *testing.T) {
	inWorld(t, func(w *world) {
		store := &deaf{EpochStore: w.store}
		eu, err := homes.New(homes.Config{Region: "eu", Node: "a", Homes: w.homes, Store: store})
		if err != nil {
			w.Fatal(err)
		}
		ctx, cancel := context.WithCancel(w.Context())
		done := make(chan error, 1)
		go func() { done <- eu.Run(ctx) }()
		time.Sleep(time.Second)
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			w.want(eu, 0, 1)
		}
		cancel()
		if err := <-done; err != nil {
			w.Error(err)
		}
	})
}

// deaf is a store of epochs that answers nothing of beats.
type deaf struct{ schema.EpochStore }

func (deaf) Beats(ctx context.Context) ([]schema.Beat, error) {
	<-ctx.Done()
	return nil, errors.Join(schema.ErrUnavailable, ctx.Err())
}

// TestANodeThatStartsNeedNotWaitAgain: where its region serves a home that it took over, it serves
// at once; where no node of it has waited, it waits.
func TestANodeThatStartsNeedNotWaitAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		first, _, stop := w.start("us", "a")
		w.epoch("eu", 2, "us")
		time.Sleep(schema.HomeLeaseRead)
		w.want(first, 0, 0)
		early, _, stopEarly := w.start("us", "b")
		w.want(early, 0, 0)
		time.Sleep(schema.TakeOverWait + schema.HomeLeaseRead)
		w.want(first, 0, 2)
		w.want(early, 0, 2)
		late, _, stopLate := w.start("us", "c")
		w.want(late, 0, 2)
		for _, stop := range []func(){stop, stopEarly, stopLate} {
			stop()
		}
		w.epoch("eu", 3, "eu")
		w.epoch("eu", 4, "us") // the beat of us speaks of epoch 2
		again, _, stop := w.start("us", "a")
		defer stop()
		w.want(again, 0, 0)
		time.Sleep(schema.TakeOverWait)
		w.want(again, 0, 4)
	})
}

// takes reports whether a node takes new work in for shard 0, which is of home eu.
func takes(w *world, k *homes.Keeper) bool {
	w.Helper()
	_, err := k.Takes(0)
	var why *schema.NotServedError
	if err != nil && (!errors.As(err, &why) || why.Home != "eu" || why.To != "us" || why.Region() != "eu" || why.RetryAfter() == 0) {
		w.Errorf("Takes = %v, want that home eu is about to be moved to us, and to try again", err)
	}
	return err == nil
}

// TestAHomeIsDrained: it takes nothing new, and is served all the same; in another epoch, at
// another home and after its time a request is of no effect.
func TestAHomeIsDrained(t *testing.T) {
	inWorld(t, func(w *world) {
		eu, _, stopEU := w.start("eu", "a")
		defer stopEU()
		us, _, stopUS := w.start("us", "b")
		defer stopUS()
		ask := func(at time.Time, d *schema.Drain) {
			w.Helper()
			if err := w.store.PutBeat(w.Context(), schema.Beat{Region: schema.DrainRow("eu"), At: at, Drain: d}); err != nil {
				w.Fatal(err)
			}
			time.Sleep(2 * schema.HomeLeaseRead)
		}
		drain := schema.Drain{Home: "eu", Epoch: 1, To: "us", For: schema.Duration(30 * time.Second)}
		ask(time.Now(), &drain)
		if takes(w, eu) {
			w.Error("a home that is drained takes new work, want none")
		}
		if epoch, err := eu.Served(0); err != nil || epoch != 1 {
			w.Errorf("Served = %d, %v, want that it is served all the same", epoch, err)
		}
		if _, err := us.Takes(2); err != nil {
			w.Errorf("Takes of the other home = %v, want nil", err)
		}
		time.Sleep(30 * time.Second)
		if takes(w, eu) {
			w.Error("it takes new work as soon as the time is over, want that the next epoch has some spare time")
		}
		time.Sleep(schema.DrainSpare)
		if !takes(w, eu) {
			w.Error("a home that was not moved takes no new work")
		}
		ask(time.Now(), &schema.Drain{Home: "eu", Epoch: 2, To: "us", For: schema.Duration(time.Minute)})
		if !takes(w, eu) {
			w.Error("a request of another epoch is of effect")
		}
		ask(time.Now(), &drain)
		if takes(w, eu) {
			w.Error("a second request is of no effect")
		}
		ask(time.Now(), nil)
		if !takes(w, eu) {
			w.Error("a request that was taken back is of effect")
		}
	})
	inWorld(t, func(w *world) {
		b := schema.Beat{Region: schema.DrainRow("eu"), At: time.Now().Add(-time.Hour), Drain: &schema.Drain{Home: "eu", Epoch: 1, To: "us", For: schema.Duration(30 * time.Second)}}
		if err := w.store.PutBeat(w.Context(), b); err != nil {
			w.Fatal(err)
		}
		late, _, stop := w.start("eu", "c")
		defer stop()
		if !takes(w, late) {
			w.Error("a request of an hour ago is of effect on a node that starts")
		}
	})
}

// TestANodeThatStartsFollowsWhatIsLeftOfADrain: a request that was given up begins anew on no node,
// and one that bears a time to come ends all the same.
func TestANodeThatStartsFollowsWhatIsLeftOfADrain(t *testing.T) {
	for what, row := range map[string]struct{ ago, left time.Duration }{
		"half over":    {15 * time.Second, 15*time.Second + schema.DrainSpare},
		"over":         {30*time.Second + schema.DrainSpare, 0},
		"time to come": {-time.Hour, 30*time.Second + schema.DrainSpare},
	} {
		inWorld(t, func(w *world) {
			at := time.Now().Add(-row.ago)
			b := schema.Beat{Region: schema.DrainRow("eu"), At: at, Drain: &schema.Drain{Home: "eu", Epoch: 1, To: "us", For: schema.Duration(30 * time.Second)}}
			if err := w.store.PutBeat(w.Context(), b); err != nil {
				w.Fatal(err)
			}
			late, _, stop := w.start("eu", "c")
			defer stop()
			if row.left > 0 {
				time.Sleep(row.left - time.Nanosecond)
				if takes(w, late) {
					w.Errorf("%s: it takes new work before the request is over", what)
				}
				time.Sleep(time.Nanosecond)
			}
			if !takes(w, late) {
				w.Errorf("%s: it takes no new work %v after it started, want what was left of the request", what, row.left)
			}
		})
	}
}

// behind is what a data centre has of the beats: those of eu stop at the cut.
type behind struct {
	schema.EpochStore
	mu  sync.Mutex
	cut []schema.Beat // nil: it has them all
}

func (b *behind) BeatsHere(ctx context.Context) ([]schema.Beat, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut != nil {
		return b.cut, nil
	}
	return b.Beats(ctx)
}

// TestLag: how far a data centre may be behind another region is the age of that region's newest
// beat which it has.
func TestLag(t *testing.T) {
	inWorld(t, func(w *world) {
		_, _, stopEU := w.start("eu", "a")
		defer stopEU()
		store := &behind{EpochStore: w.store}
		reg := prometheus.NewRegistry()
		us, err := homes.New(homes.Config{Region: "us", Node: "b", Homes: w.homes, Store: store, Registerer: reg})
		if err != nil {
			w.Fatal(err)
		}
		if lag, ok := us.Lag("eu"); ok {
			w.Errorf("Lag before a beat was read = %v, want that it is not known", lag)
		}
		ctx, cancel := context.WithCancel(w.Context())
		done := make(chan error, 1)
		go func() { done <- us.Run(ctx) }()
		time.Sleep(10*schema.HomeLeaseRead + time.Second)
		if lag, ok := us.Lag("eu"); !ok || lag > schema.HomeLeaseRead+time.Second {
			w.Errorf("Lag at rest = %v, %v, want at most a beat's pause", lag, ok)
		}
		store.mu.Lock()
		store.cut, err = w.store.Beats(w.Context())
		store.mu.Unlock()
		if err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Minute)
		if lag, ok := us.Lag("eu"); !ok || lag < time.Minute || lag > time.Minute+schema.HomeLeaseRead+time.Second {
			w.Errorf("Lag a minute after replication stopped = %v, %v, want a minute", lag, ok)
		}
		cancel()
		if err := <-done; err != nil {
			w.Error(err)
		}
	})
}

// TestEveryRegionHasALag: also one that has no home of its own, for it may take one over.
func TestEveryRegionHasALag(t *testing.T) {
	inWorld(t, func(w *world) {
		reg := prometheus.NewRegistry()
		if _, err := homes.New(homes.Config{Region: "us", Homes: w.homes, Regions: []string{"ap", "eu", "us"}, Store: w.store, Registerer: reg}); err != nil {
			w.Fatal(err)
		}
		families, err := reg.Gather()
		if err != nil {
			w.Fatal(err)
		}
		var of []string
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if family.GetName() == "carillon_region_replication_lag_seconds" {
					of = append(of, m.GetLabel()[0].GetValue())
				}
			}
		}
		if got := strings.Join(of, " "); got != "ap eu" {
			w.Errorf("there is a lag of %q, want of ap and eu", got)
		}
	})
}

func TestNewWantsARegion(t *testing.T) {
	if _, err := homes.New(homes.Config{}); err == nil {
		t.Error("New of nothing = nil, want an error")
	}
}

func BenchmarkServed(b *testing.B) {
	h, err := schema.NewHomes([]schema.Home{{Name: "eu", Shards: []schema.ShardRange{{First: 0, Last: 63}}}})
	if err != nil {
		b.Fatal(err)
	}
	s, err := embedded.Open(embedded.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	k, err := homes.New(homes.Config{Region: "eu", Homes: h, Store: s})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_, _ = k.Served(5)
	}
}
