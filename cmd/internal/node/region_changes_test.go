package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/homes"
)

// inChanges runs f in a bubble with what two regions have to change homes; stopped ends that of us.
func inChanges(t *testing.T, f func(t *testing.T, store *embedded.Store, eu, us *regionChanges, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, err := embedded.Open(embedded.Config{Shards: 4})
		if err != nil {
			t.Fatal(err)
		}
		all, err := schema.NewHomes([]schema.Home{{Name: "eu", Shards: []schema.ShardRange{{First: 0, Last: 1}}}, {Name: "us", Shards: []schema.ShardRange{{First: 2, Last: 3}}}})
		if err != nil {
			t.Fatal(err)
		}
		life, end := context.WithCancel(t.Context())
		usLife, stop := context.WithCancel(life)
		var running sync.WaitGroup
		changes := make(map[string]*regionChanges)
		for _, region := range []string{"eu", "us"} {
			if _, err := store.InsertEpoch(t.Context(), schema.Epoch{Home: region}.Next(region, "test", "the first", time.Now())); err != nil {
				t.Fatal(err)
			}
			keeper, err := homes.New(homes.Config{Region: region, Node: "n-" + region, Homes: all, Store: store, Executors: func() int { return 2 }})
			if err != nil {
				t.Fatal(err)
			}
			n := &Node{cfg: config.Config{Node: config.Node{Region: region}}, log: slog.New(slog.DiscardHandler)}
			changes[region] = newRegionChanges(n, all, all.Names(), keeper, store, store)
			r := &regions{region: region, homes: all, keeper: keeper, change: changes[region]}
			ctx := life
			if region == "us" {
				ctx = usLife
			}
			running.Go(func() { r.run(ctx) })
		}
		time.Sleep(schema.TakeOverWait + time.Second)
		defer func() {
			stop()
			end()
			running.Wait()
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}()
		f(t, store, changes["eu"], changes["us"], stop)
	})
}

// standOf returns how home eu stands in a region.
func standOf(r *regionChanges) httpapi.HomeStand { return r.Stand().Homes[0] }

// TestAHomeIsMovedByTheAPI: the move goes on after the answer, each region tells how far it is, and
// the other region serves the home in the end.
func TestAHomeIsMovedByTheAPI(t *testing.T) {
	inChanges(t, func(t *testing.T, _ *embedded.Store, eu, us *regionChanges, _ func()) {
		move := schema.HomeChange{Home: "eu", To: "us", By: "ann", Reason: "works", Drain: 4 * time.Second, Sync: true, Until: time.Minute}
		plan, progress, err := us.Begin(t.Context(), move)
		if err != nil || plan.Was.Number != 1 || plan.Executors == nil || *plan.Executors != 2 || progress.Ended() {
			t.Fatalf("Begin = %+v, %+v, %v", plan, progress, err)
		}
		var other *schema.ChangeUnderWayError
		if _, _, err := eu.Begin(t.Context(), schema.HomeChange{Home: "eu", To: "us", By: "bob"}); !errors.As(err, &other) || other.By.By != "ann" {
			t.Errorf("Begin by another one = %v, want that ann is at it", err)
		}
		for _, r := range []*regionChanges{eu, us} {
			if h := standOf(r); h.Change == nil || h.Change.Phase != schema.PhaseAnnounced || h.Change.By != "ann" || h.Epoch != 1 {
				t.Errorf("home eu stands so: %+v, %+v, want that its move is announced", h, h.Change)
			}
		}
		time.Sleep(30 * time.Second)
		for region, r := range map[string]*regionChanges{"eu": eu, "us": us} {
			h := standOf(r)
			if h.Region != "us" || h.Epoch != 2 || h.By != "ann" || h.Reason != "works" || h.Served != (region == "us") || h.Change.Phase != schema.PhaseDone {
				t.Errorf("home eu stands so in %s: %+v, %+v, want it served by us", region, h, h.Change)
			}
			for _, s := range r.Stand().Regions {
				if s.Executors == nil || *s.Executors != 2 || s.Lag == nil || *s.Lag > 2*schema.HomeLeaseRead.Seconds() || s.Local != (s.Name == region) {
					t.Errorf("region %s stands so in %s: %+v", s.Name, region, s)
				}
			}
		}
	})
}

// TestAMoveIsGivenUpWhenTheNodeStops: the region before serves on, in the next epoch; and a node
// that stops begins nothing.
func TestAMoveIsGivenUpWhenTheNodeStops(t *testing.T) {
	inChanges(t, func(t *testing.T, _ *embedded.Store, eu, us *regionChanges, stop func()) {
		if _, _, err := us.Begin(t.Context(), schema.HomeChange{Home: "eu", To: "us", By: "ann", Drain: 4 * time.Second}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		stop()
		time.Sleep(5 * time.Second)
		if h := standOf(eu); h.Region != "eu" || h.Epoch != 2 || !h.Served || h.Change.Phase != schema.PhaseGivenUp {
			t.Errorf("home eu stands so: %+v, %+v, want that the move was given up", h, h.Change)
		}
		if _, _, err := us.Begin(t.Context(), schema.HomeChange{Home: "eu", To: "us", By: "ann"}); !errors.Is(err, bucketer.ErrNotReady) {
			t.Errorf("Begin on a node that stops = %v, want that it is not ready", err)
		}
	})
}

// TestAHomeFailsOverByTheAPI: it is done when it is answered.
func TestAHomeFailsOverByTheAPI(t *testing.T) {
	inChanges(t, func(t *testing.T, store *embedded.Store, eu, us *regionChanges, stop func()) {
		failover := schema.HomeChange{Home: "us", To: "eu", By: "ann", Reason: "lost", Forced: true}
		var refused *schema.ChangeRefusedError
		if _, _, err := eu.Begin(t.Context(), failover); !errors.As(err, &refused) {
			t.Errorf("Begin while region us is alive = %v, want it refused", err)
		}
		stop()
		time.Sleep(schema.HomeLeaseLife)
		if _, _, err := eu.Begin(t.Context(), failover); err != nil {
			t.Fatal(err)
		}
		newest, err := store.Epochs(t.Context(), []string{"us"})
		if err != nil || newest[0].Region != "eu" || newest[0].Number != 2 {
			t.Errorf("the epoch is %+v, %v, want 2 of eu", newest, err)
		}
		time.Sleep(schema.TakeOverWait + 2*schema.HomeLeaseRead)
		if h := eu.Stand().Homes[1]; !h.Served || h.Epoch != 2 {
			t.Errorf("home us stands so: %+v, want it served by eu", h)
		}
	})
}
