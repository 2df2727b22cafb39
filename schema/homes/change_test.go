package homes_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/homes"
)

// shared is what two regions share, in a bubble.
type shared struct {
	*embedded.Store
	all  schema.Homes
	mu   sync.Mutex
	live map[string]*int // by region that gives signs of life: its executors, nil: it does not tell
}

// openRows is a store that stays open.
type openRows struct{ *embedded.Store }

func (openRows) Close() error { return nil }

// changer returns what has other regions serve homes, as in region us.
func (s *shared) changer() homes.Changer {
	return homes.Changer{
		Store: s, Region: "us", Homes: s.all.Names(), Regions: []string{"eu", "us"}, Shards: s.all.Shards,
		Rows: func() (homes.RowStore, error) { return openRows{s.Store}, nil },
	}
}

// in runs f in a bubble with two regions; live are those that give signs of life.
func in(t *testing.T, live map[string]*int, f func(t *testing.T, s *shared)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, err := embedded.Open(embedded.Config{Shards: 4})
		if err != nil {
			t.Fatal(err)
		}
		s := &shared{Store: store, live: live}
		if s.all, err = schema.NewHomes([]schema.Home{{Name: "eu", Shards: []schema.ShardRange{{First: 0, Last: 1}}}, {Name: "us", Shards: []schema.ShardRange{{First: 2, Last: 3}}}}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"eu", "us"} {
			_, err := store.InsertEpoch(t.Context(), schema.Epoch{Home: name}.Next(name, "test", "the first", time.Now()))
			if err = errors.Join(err, store.PutBeat(t.Context(), schema.Beat{Region: name, Node: "n", Count: 1, At: time.Now()})); err != nil {
				t.Fatal(err)
			}
		}
		stop := make(chan struct{})
		var beating sync.WaitGroup
		beating.Go(func() {
			for count := int64(2); ; count++ {
				select {
				case <-stop:
					return
				case <-time.After(schema.HomeLeaseRead):
				}
				s.mu.Lock()
				for region, executors := range s.live {
					if err := store.PutBeat(context.Background(), schema.Beat{Region: region, Node: "n", Count: count, At: time.Now(), Executors: executors}); err != nil {
						t.Error(err)
					}
				}
				s.mu.Unlock()
			}
		})
		defer func() {
			close(stop)
			beating.Wait()
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}()
		f(t, s)
	})
}

func some(n int) *int { return &n }

// make makes a change from its begin to its end.
func (s *shared) make(ctx context.Context, o schema.HomeChange) (schema.Epoch, error) {
	change, err := s.changer().Begin(ctx, o)
	if err != nil {
		return schema.Epoch{}, err
	}
	return change.Do(ctx)
}

// told returns what is told of the change of home eu.
func (s *shared) told(t *testing.T) schema.HomeProgress {
	t.Helper()
	beats, err := s.Beats(t.Context())
	row, ok := schema.BeatOf(beats, schema.ChangeRow("eu"))
	if err != nil || !ok || row.Change == nil {
		t.Fatalf("Beats = %+v, %v, want what is told of the change", beats, err)
	}
	return *row.Change
}

// TestOfTwoChangesOneGoesOn: of two who begin at once, or one after the other, one has the home
// served by another region. The other is told who does so, and announces and writes nothing.
func TestOfTwoChangesOneGoesOn(t *testing.T) {
	for name, later := range map[string]time.Duration{"at once": 0, "while it listens": 3 * time.Second, "while it is announced": 10 * time.Second, "while it is drained": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			in(t, map[string]*int{"eu": nil, "us": nil}, func(t *testing.T, s *shared) {
				errs := map[string]error{}
				var mu sync.Mutex
				var both sync.WaitGroup
				for by, after := range map[string]time.Duration{"ann": 0, "bob": later} {
					both.Go(func() {
						time.Sleep(after)
						_, err := s.make(t.Context(), schema.HomeChange{Home: "eu", To: "us", By: by, Reason: "power works", Drain: 10 * time.Second})
						mu.Lock()
						defer mu.Unlock()
						errs[by] = err
					})
				}
				both.Wait()
				won, lost := "ann", "bob"
				if later == 0 && errs["ann"] != nil {
					won, lost = "bob", "ann"
				}
				var other *schema.ChangeUnderWayError
				if errs[won] != nil || !errors.As(errs[lost], &other) || other.By.By != won || other.By.To != "us" || other.By.Reason != "power works" {
					t.Fatalf("they end with %v, want that one goes on and the other learns who it is", errs)
				}
				log, err := s.EpochLog(t.Context(), "eu", 10)
				if err != nil || len(log) != 2 || log[0].Region != "us" || log[0].By != won {
					t.Errorf("the epochs are %+v, %v, want one more, by %s", log, err, won)
				}
				if p := s.told(t); p.Phase != schema.PhaseDone || p.By != won || p.From != "eu" || p.Epoch != 1 {
					t.Errorf("it is told that %+v, want that it is done", p)
				}
			})
		})
	}
}

// TestTheRowOfAnotherIsNotWrittenOver: of two who saw nobody, and wrote, the row of one stays, and
// that one goes on.
func TestTheRowOfAnotherIsNotWrittenOver(t *testing.T) {
	in(t, map[string]*int{"eu": nil, "us": nil}, func(t *testing.T, s *shared) {
		ended := make(chan error, 1)
		go func() {
			_, err := s.make(t.Context(), schema.HomeChange{Home: "eu", To: "us", By: "ann"})
			ended <- err
		}()
		time.Sleep(time.Second)
		bob := schema.HomeProgress{Home: "eu", From: "eu", To: "us", By: "bob", Phase: schema.PhaseChecking, Began: time.Now()}
		if err := s.PutBeat(t.Context(), schema.Beat{Region: schema.ChangeRow("eu"), Node: "bob", Count: 1, At: time.Now(), Change: &bob}); err != nil {
			t.Fatal(err)
		}
		var other *schema.ChangeUnderWayError
		if err := <-ended; !errors.As(err, &other) || other.By.By != "bob" {
			t.Errorf("the change ends with %v, want that bob is at it", err)
		}
		if p := s.told(t); p.By != "bob" || p.Ended() {
			t.Errorf("it is told that %+v, want what bob does", p)
		}
	})
}

// TestAChangeOfSomebodyWhoIsGone: a row that stays as it is hinders nobody, though it says that the
// change goes on.
func TestAChangeOfSomebodyWhoIsGone(t *testing.T) {
	in(t, map[string]*int{"eu": nil, "us": nil}, func(t *testing.T, s *shared) {
		gone := schema.HomeProgress{Home: "eu", From: "eu", To: "us", By: "ann", Phase: schema.PhaseDraining, Began: time.Now()}
		// its clock was ahead
		if err := s.PutBeat(t.Context(), schema.Beat{Region: schema.ChangeRow("eu"), Node: "ann", Count: 7, At: time.Now().Add(time.Hour), Change: &gone}); err != nil {
			t.Fatal(err)
		}
		if stands, err := s.make(t.Context(), schema.HomeChange{Home: "eu", To: "us", By: "bob"}); err != nil || stands.Number != 2 || stands.Region != "us" {
			t.Fatalf("the change = %+v, %v, want that it is made", stands, err)
		}
		if p := s.told(t); p.By != "bob" || p.Phase != schema.PhaseDone {
			t.Errorf("it is told that %+v, want what bob did", p)
		}
	})
}

// TestAChangeTellsHowFarItIs: every region can read it; and how it was given up.
func TestAChangeTellsHowFarItIs(t *testing.T) {
	in(t, map[string]*int{"eu": nil, "us": nil}, func(t *testing.T, s *shared) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := s.make(ctx, schema.HomeChange{Home: "eu", To: "us", By: "ann", Reason: "why", Drain: 20 * time.Second})
			ended <- err
		}()
		for _, row := range []struct {
			after time.Duration
			phase string
		}{{3 * time.Second, schema.PhaseChecking}, {6 * time.Second, schema.PhaseAnnounced}, {12 * time.Second, schema.PhaseDraining}} {
			time.Sleep(row.after)
			if p := s.told(t); p.Phase != row.phase || p.Ended() || p.By != "ann" || p.Reason != "why" {
				t.Errorf("it is told that %+v, want phase %s", p, row.phase)
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the change ends with %v, want that it was given up", err)
		}
		if p := s.told(t); p.Phase != schema.PhaseGivenUp || p.Fault == "" {
			t.Errorf("it is told that %+v, want that it was given up, and why", p)
		}
	})
}

// lateCopies is a store whose data centre is behind by so much.
type lateCopies struct {
	*shared
	by time.Duration // negative: it has no beat
}

func (b lateCopies) BeatsHere(ctx context.Context) ([]schema.Beat, error) {
	beats, err := b.Beats(ctx)
	if b.by < 0 {
		return nil, err
	}
	for i := range beats {
		beats[i].At = beats[i].At.Add(-b.by)
	}
	return beats, err
}

// TestAChangeIsRefused: with every reason, before anything is announced or told; a plan tells those
// that may be accepted.
func TestAChangeIsRefused(t *testing.T) {
	move, failover := schema.HomeChange{Home: "eu", To: "us"}, schema.HomeChange{Home: "eu", To: "us", Forced: true}
	accept := failover
	accept.AcceptLag, accept.AcceptNoExecutors = true, true
	both := map[string]*int{"eu": some(3), "us": some(3)}
	for name, row := range map[string]struct {
		live    map[string]*int
		behind  time.Duration
		o       schema.HomeChange
		want    []string // of the faults, in their order; none: it is made
		planned bool     // there is a plan nevertheless
	}{
		"unknown home and region":              {both, 0, schema.HomeChange{Home: "ap", To: "sa"}, []string{"there is no home ap", "there is no region sa"}, false},
		"from a region that is lost":           {map[string]*int{}, 0, move, []string{"region us gives no sign of life", "region eu gives no sign of life"}, false},
		"a fail-over from one that is well":    {map[string]*int{"eu": nil}, 0, failover, []string{"region us gives no sign of life", "region eu gives signs of life: move"}, false},
		"no executors":                         {map[string]*int{"eu": some(3), "us": some(0)}, 0, move, []string{"region us has no executor"}, true},
		"behind":                               {map[string]*int{"us": some(3)}, 11 * time.Second, failover, []string{"region us is behind region eu by 11s"}, true},
		"behind, and without executors":        {map[string]*int{"us": some(0)}, 11 * time.Second, failover, []string{"region us has no executor", "is behind region eu by 11s"}, true},
		"nothing is known of what it has":      {map[string]*int{"us": some(3)}, -1, failover, []string{"region us has no sign of life of region eu"}, true},
		"behind as at rest":                    {map[string]*int{"us": some(3)}, 2 * time.Second, failover, nil, true},
		"behind, and that is accepted":         {map[string]*int{"us": some(0)}, time.Hour, accept, nil, true},
		"of a version that tells no executors": {map[string]*int{"eu": nil, "us": nil}, 0, move, nil, true},
		"a move to a region that is behind":    {both, time.Minute, move, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, row.live, func(t *testing.T, s *shared) {
				c := s.changer()
				c.Store = lateCopies{s, row.behind}
				plan, err := c.Plan(t.Context(), row.o)
				if (err == nil) != row.planned || row.planned && len(plan.Refused) != len(row.want) {
					t.Errorf("Plan = %+v, %v, want a plan: %v, refused for %q", plan, err, row.planned, row.want)
				}
				change, err := c.Begin(t.Context(), row.o)
				if len(row.want) == 0 {
					if err != nil {
						t.Fatalf("Begin = %v, want that it can be made", err)
					}
					change.Close(t.Context())
					return
				}
				var refused *schema.ChangeRefusedError
				if !errors.As(err, &refused) || len(refused.Faults) != len(row.want) {
					t.Fatalf("Begin = %v, want it refused for %q", err, row.want)
				}
				for i, want := range row.want {
					if !strings.Contains(refused.Faults[i].Message, want) {
						t.Errorf("fault %d is %q, want %q", i, refused.Faults[i].Message, want)
					}
				}
				beats, err := s.Beats(t.Context())
				if _, announced := schema.BeatOf(beats, schema.AnnounceRow("eu")); err != nil || announced {
					t.Errorf("Beats = %+v, %v, want nothing announced", beats, err)
				}
			})
		})
	}
}

// TestAPlanCountsWhatIsUnderWay: what is due since the cursors, what would be looked at again, and
// what becomes due while nobody publishes.
func TestAPlanCountsWhatIsUnderWay(t *testing.T) {
	in(t, map[string]*int{"eu": nil, "us": nil}, func(t *testing.T, s *shared) {
		time.Sleep(20*time.Minute + 30*time.Second) // minutes before now, which is amid one
		now := time.Now()
		for shard := range schema.Shard(4) {
			at := schema.Cursor{Shard: shard, Epoch: 9, Dispatched: schema.BucketOf(now) - 1, Settled: schema.BucketOf(now) - 3}
			if err := s.AdvanceCursor(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}
		hash := uint64(0)
		due := func(n int, shard schema.Shard, after time.Duration) {
			for range n {
				hash++
				id := schema.MakeEntryID(now.Add(after), shard, hash)
				e, err := schema.NewEntry(id, schema.Spec{Tenant: "t", Task: "t", Nominal: id.Time()}, nil, now.Add(time.Hour))
				if err != nil {
					t.Fatal(err)
				}
				if err := s.PutEntries(t.Context(), []schema.Entry{e}); err != nil {
					t.Fatal(err)
				}
			}
		}
		due(3, 0, -10*time.Second) // under way
		due(2, 1, -90*time.Second) // under way, in another shard
		due(5, 0, -8*time.Minute)  // finished, and looked at again
		due(7, 0, -15*time.Minute) // before that
		due(4, 1, 25*time.Second)  // while it is drained or taken over: 6 s of listening, 12 s announced, then 10 s
		due(9, 1, 5*time.Second)   // while it is announced
		due(8, 2, -10*time.Second) // of another home
		plan, err := s.changer().Plan(t.Context(), schema.HomeChange{Home: "eu", To: "us", Drain: 4 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		b := plan.Backlog
		// What was due 5 s ahead is due now: it was listened for 6 s.
		if b.Fault != "" || b.UnderWay != 3+2+9 || b.LookedAt != 3+2+9+5 || b.DueMeanwhile != 4 || b.Shards != 2 || b.Sampled != 2 || b.More {
			t.Errorf("under way are %+v, want 14 that wait or run, 19 looked at, 4 due meanwhile", b)
		}
		if want := (schema.BucketOf(now) - 3).End(); !b.Settled.Equal(want) {
			t.Errorf("it is finished up to %v, want %v", b.Settled, want)
		}
	})
}
