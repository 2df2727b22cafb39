package runs

import (
	"errors"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// TestALetterOfAnotherHomeIsResolvedAtThatOfItsTenant: wherever its run lies, one region replays or
// discards it, and each other names the home that this one serves.
func TestALetterOfAnotherHomeIsResolvedAtThatOfItsTenant(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		homes, err := schema.NewHomes([]schema.Home{{Name: "eu", Shards: []schema.ShardRange{{First: 0, Last: 31}}}, {Name: "us", Shards: []schema.ShardRange{{First: 32, Last: 63}}}})
		if err != nil {
			t.Fatal(err)
		}
		in := func(region string) { // each region serves the home of its name
			w.open(bucketer.Config{Halted: w.Stopped.Load, Regions: &bucketer.Regions{Region: region, Homes: homes, Served: func(shard schema.Shard) (int64, error) {
				if home, _ := homes.Of(shard); home != region {
					return 0, &schema.NotServedError{Home: home, Asked: region, Lease: schema.HomeLease{Epoch: schema.Epoch{Home: home, Number: 1, Region: home}, Read: time.Now()}, Now: time.Now()}
				}
				return 1, nil
			}}})
		}
		in("us")
		replayed, discarded := w.dead(callTo(time.Time{})), w.dead(callTo(time.Time{}))
		if home, _ := homes.Of(replayed.Shard()); home != "us" {
			t.Fatalf("the run lies at home %s, want us, where it arrived", home)
		}
		_, errReplay := w.Replay(t.Context(), "t", replayed, "me")
		_, errDiscard := w.Discard(t.Context(), "t", discarded, "me")
		for _, err := range []error{errReplay, errDiscard} {
			if not := new(schema.NotServedError); !errors.As(err, &not) || not.Home != "eu" {
				t.Errorf("resolved at us: %v, want that it is for home eu, that of the tenant", err)
			}
		}
		in("eu")
		r, err := w.Replay(t.Context(), "t", replayed, "me")
		if home, _ := homes.Of(r.Run.Shard()); err != nil || home != "eu" {
			t.Errorf("Replay at eu = %+v, %v, want a run at home eu", r, err)
		}
		if changed, err := w.Discard(t.Context(), "t", discarded, "me"); err != nil || !changed {
			t.Errorf("Discard at eu = %v, %v, want it done", changed, err)
		}
	})
}
