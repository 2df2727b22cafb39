package homes_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/homes"
)

// automatic starts a node that fails homes over by itself.
func (w *world) automatic(region, node string) (k *homes.Keeper, l *link, stop func()) {
	w.Helper()
	l = &link{EpochStore: w.store}
	k, err := homes.New(homes.Config{Region: region, Node: node, Homes: w.homes, Store: l, Automatic: true})
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

// stands returns the newest epoch of home eu.
func (w *world) stands() schema.Epoch {
	w.Helper()
	newest, err := w.store.Epochs(w.Context(), []string{"eu"})
	if err != nil {
		w.Fatal(err)
	}
	return newest[0]
}

// TestASilentRegionIsFailedOver: some 30 s after its last sign of life, once, by one of the nodes of the
// other region, and it says why. It serves within 48 s: 30, a wait of
// 12, and three reads that happen to come late. Nothing goes back when the first is alive again.
func TestASilentRegionIsFailedOver(t *testing.T) {
	inWorld(t, func(w *world) {
		_, _, stopEU := w.automatic("eu", "a")
		us, _, stopB := w.automatic("us", "b")
		defer stopB()
		_, _, stopC := w.automatic("us", "c")
		defer stopC()
		time.Sleep(time.Minute)
		synctest.Wait()
		if e := w.stands(); e.Number != 1 {
			t.Fatalf("epoch %+v, want that nothing is failed over while all are well", e)
		}
		stopEU()
		time.Sleep(homes.AutomaticAfter - schema.HomeLeaseRead)
		synctest.Wait()
		if e := w.stands(); e.Number != 1 {
			t.Errorf("epoch %+v before 30 s are over, want none", e)
		}
		time.Sleep(3 * schema.HomeLeaseRead)
		synctest.Wait()
		if e := w.stands(); e.Number != 2 || e.Region != "us" || e.By != "automatic" || !strings.Contains(e.Reason, "region eu has given no sign of life for 3") {
			t.Errorf("epoch %+v, want the second one, of us, with the reason", e)
		}
		time.Sleep(schema.TakeOverWait + schema.HomeLeaseRead) // from the epoch, and a read that saw it
		w.want(us, 0, 2)
		back, _, stopBack := w.automatic("eu", "a")
		defer stopBack()
		time.Sleep(5 * time.Minute)
		w.want(back, 0, 0)
		w.want(us, 0, 2)
		if e := w.stands(); e.Number != 2 {
			t.Errorf("epoch %+v after eu is back, want the second one", e)
		}
	})
}

// TestARegionThatIsCutOffFailsNothingOver: what it could not read it does not hold against others, also
// when it can read again; and a region that serves nothing takes nothing.
func TestARegionThatIsCutOffFailsNothingOver(t *testing.T) {
	inWorld(t, func(w *world) {
		_, cutEU, stopEU := w.automatic("eu", "a")
		defer stopEU()
		_, cutUS, stopUS := w.automatic("us", "b")
		defer stopUS()
		for _, long := range []time.Duration{5 * time.Second, 29 * time.Second, 31 * time.Second, 3 * time.Minute} {
			for _, links := range [][]*link{{cutUS}, {cutEU, cutUS}} {
				time.Sleep(40 * time.Second)
				for _, l := range links {
					l.set(true)
				}
				time.Sleep(long)
				cutUS.set(false)
				time.Sleep(6 * time.Second) // eu is a little later
				cutEU.set(false)
				time.Sleep(time.Minute)
				synctest.Wait()
				if e := w.stands(); e.Number != 1 {
					t.Fatalf("epoch %+v after %d links were cut for %v, want the first", e, len(links), long)
				}
			}
		}
	})
	inWorld(t, func(w *world) {
		w.epoch("us", 2, "eu") // so us serves nothing
		_, _, stopEU := w.automatic("eu", "a")
		_, _, stopUS := w.automatic("us", "b")
		defer stopUS()
		time.Sleep(time.Minute)
		stopEU()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if e := w.stands(); e.Number != 1 {
			t.Errorf("epoch %+v, want the first: no region is left that serves a home", e)
		}
	})
}
