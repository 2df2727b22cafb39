package homes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/homes"
)

// TestARegionComesBackWithAWrongClock: however its clock is off, also if it was set while the
// region was down, a region that was failed over does not serve the home in its old epoch, not for
// an instant, nor does it say so.
func TestARegionComesBackWithAWrongClock(t *testing.T) {
	for _, off := range []time.Duration{-24 * time.Hour, -5 * time.Second, 5 * time.Second, 24 * time.Hour} {
		for _, restarted := range []bool{false, true} { // or it was cut off, and went on
			inWorld(t, func(w *world) {
				us, _, stopUS := w.start("us", "b")
				defer stopUS()
				l := &link{EpochStore: w.store}
				startEU := func(off time.Duration) (*homes.Keeper, func()) {
					k, err := homes.New(homes.Config{Region: "eu", Node: "a", Homes: w.homes, Store: l, Registerer: prometheus.NewRegistry(), Now: func() time.Time { return time.Now().Add(off) }})
					if err != nil {
						w.Fatal(err)
					}
					ctx, cancel := context.WithCancel(w.Context())
					done := make(chan error, 1)
					go func() { done <- k.Run(ctx) }()
					synctest.Wait()
					return k, func() {
						cancel()
						if err := <-done; err != nil {
							w.Errorf("Run = %v, want nil", err)
						}
					}
				}
				eu, stop := startEU(off)
				defer func() { stop() }()
				time.Sleep(schema.HomeLeaseRead)
				w.want(eu, 0, 1)
				l.set(true)
				if restarted {
					stop()
				}
				w.epoch("eu", 2, "us")
				time.Sleep(time.Minute)
				w.want(us, 0, 2)
				if restarted {
					eu, stop = startEU(-off / 2)
				}
				never := func(d time.Duration) {
					w.Helper()
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
						synctest.Wait()
						if epoch, err := eu.Served(0); err == nil {
							w.Fatalf("clock off by %v, restarted %t: eu serves its home in epoch %d, which us serves in 2", off, restarted, epoch)
						}
					}
				}
				never(schema.HomeLeaseLife)
				l.set(false)
				never(time.Minute)
				w.want(us, 0, 2)
				beats, err := w.store.Beats(w.Context())
				if b, ok := schema.BeatOf(beats, "eu"); err != nil || !ok || b.Serves["eu"] != 0 {
					w.Errorf("clock off by %v: the last beat of eu is %+v, %v, want one that does not serve eu", off, b, err)
				}
				w.epoch("eu", 3, "eu") // failed back
				time.Sleep(schema.TakeOverWait + 2*schema.HomeLeaseRead)
				w.want(eu, 0, 3)
				w.want(us, 0, 0)
			})
		}
	}
}
