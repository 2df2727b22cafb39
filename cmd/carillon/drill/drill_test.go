package drill_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/drill"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/homes"
)

// openRows is a store that stays open.
type openRows struct{ *embedded.Store }

func (openRows) Close() error { return nil }

// region is the API of a region: it serves a home some seconds after its epoch.
type region struct {
	w       *world
	name    string
	never   bool   // it takes nothing in
	idle    bool   // it starts nothing
	refused bool   // what it starts fails
	by      string // who starts what it takes in; "": its executor
}

// world is two regions in a bubble.
type world struct {
	store *embedded.Store
	all   schema.Homes
	eu    *region
	us    *region

	mu   sync.Mutex
	live map[string]bool
	said []string
}

func (r *region) epochs() []schema.Epoch {
	newest, _ := r.w.store.Epochs(context.Background(), r.w.all.Names())
	return newest
}

func (r *region) Stand(context.Context) (httpapi.RegionsStand, error) {
	lag, age, executors := 1.0, 0.5, 2
	out := httpapi.RegionsStand{Region: r.name, AsOf: httpapi.Time{Time: time.Now()}}
	for _, name := range []string{"eu", "us"} {
		out.Regions = append(out.Regions, httpapi.RegionStand{Name: name, Local: name == r.name, Lag: &lag, Executors: &executors})
	}
	for _, e := range r.epochs() {
		out.Homes = append(out.Homes, httpapi.HomeStand{Home: httpapi.Home{Name: e.Home, Region: e.Region, Epoch: e.Number, Served: e.Region == r.name, LeaseAge: &age}})
	}
	return out, nil
}

func (r *region) Start(_ context.Context, home string) (schema.RunID, error) {
	for _, e := range r.epochs() {
		if e.Home == home && e.Region == r.name && !r.never && time.Since(e.At) >= 6*time.Second {
			return schema.MakeEntryID(time.Now(), 0, 1), nil
		}
	}
	return schema.RunID{}, &httpapi.Problem{Type: "urn:carillon:problem:not-served", Title: "This region does not serve its home", Status: http.StatusServiceUnavailable}
}

func (r *region) Run(_ context.Context, id schema.RunID) (httpapi.Run, error) {
	if r.idle {
		return httpapi.Run{ID: id}, nil
	}
	by := "n." + r.name
	if r.by != "" {
		by = r.by
	}
	run := httpapi.Run{ID: id, State: schema.StateSucceeded, Attempts: []httpapi.Attempt{{Number: 1, Executor: by, Outcome: schema.Succeeded}}}
	if r.refused {
		run.State, run.Attempts[0].Outcome, run.Attempts[0].Error = schema.StateFailed, schema.Failed, "address is not allowed"
	}
	return run, nil
}

// say notes what is told, and does what a person is asked for.
func (w *world) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	w.said = append(w.said, line)
	switch {
	case strings.HasPrefix(line, "stop region eu now"):
		w.live["eu"] = false
	case strings.HasPrefix(line, "start region eu again"):
		w.live["eu"] = true
	}
}

// inDrill runs f in a bubble with two regions that are well.
func inDrill(t *testing.T, f func(t *testing.T, w *world, d *drill.Drill)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, err := embedded.Open(embedded.Config{Shards: 4})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{store: store, live: map[string]bool{"eu": true, "us": true}}
		w.eu, w.us = &region{w: w, name: "eu"}, &region{w: w, name: "us"}
		w.all, err = schema.NewHomes([]schema.Home{{Name: "eu", Shards: []schema.ShardRange{{First: 0, Last: 1}}}, {Name: "us", Shards: []schema.ShardRange{{First: 2, Last: 3}}}})
		for _, name := range w.all.Names() {
			_, ierr := store.InsertEpoch(t.Context(), schema.Epoch{Home: name}.Next(name, "test", "the first", time.Now()))
			err = errors.Join(err, ierr, store.PutBeat(t.Context(), schema.Beat{Region: name, Node: "n", Count: 1, At: time.Now()}))
		}
		if err != nil {
			t.Fatal(err)
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
				w.mu.Lock()
				for name, live := range w.live {
					if live {
						if err := store.PutBeat(context.Background(), schema.Beat{Region: name, Node: "n", Count: count, At: time.Now()}); err != nil {
							t.Error(err)
						}
					}
				}
				w.mu.Unlock()
			}
		})
		defer func() {
			close(stop)
			beating.Wait()
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}()
		f(t, w, &drill.Drill{
			Changer: homes.Changer{
				Store: store, Region: "us", Homes: w.all.Names(), Regions: w.all.Names(), Shards: w.all.Shards, Rows: func() (homes.RowStore, error) { return openRows{store}, nil },
			},
			Home: "eu", To: "us", By: "ann", Reason: "drill", Drain: 4 * time.Second, APIs: map[string]drill.API{"eu": w.eu, "us": w.us},
			Within: 30 * time.Second, Wait: time.Minute, Config: "carillon.yaml", Say: w.say,
		})
	})
}

// serving returns who serves home eu.
func serving(t *testing.T, d *drill.Drill) schema.Epoch {
	t.Helper()
	e, err := d.Serving(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestADrillGoesThereAndBack: by a move, or by a fail-over. The report has every step and its time.
func TestADrillGoesThereAndBack(t *testing.T) {
	for name, row := range map[string]struct {
		failover bool
		steps    []string
	}{
		"a move": {false, []string{
			"moved to region us", "region us takes in", "region us started a job", "moved to region eu", "region eu takes in", "region eu started a job",
		}},
		"a fail-over": {true, []string{
			"region eu fell silent", "failed over to region us", "region us takes in", "region us started a job", "region eu returned",
			"moved to region eu", "region eu takes in", "region eu started a job",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inDrill(t, func(t *testing.T, w *world, d *drill.Drill) {
				d.Failover = row.failover
				everywhere := 0
				d.Everywhere = func(context.Context) error { everywhere++; return nil }
				r := d.Run(t.Context(), serving(t, d))
				var steps []string
				for _, s := range r.Steps {
					steps = append(steps, s.Name)
					if !s.OK || s.Name == "region us takes in" && (s.Seconds < 5 || s.Seconds > 8) {
						t.Errorf("step %+v, want it done; a region takes in 6 s after its epoch", s)
					}
				}
				if !r.OK || r.Next != "" || r.Fault != "" || !slices.Equal(steps, row.steps) || len(r.Plans) != 2 || len(r.Checks) < 8 || everywhere != 1 {
					t.Errorf("the report is %+v\nwant the steps %q, and that all is as it was", r, row.steps)
				}
				if e := serving(t, d); e.Region != "eu" || e.Number != 3 {
					t.Errorf("epoch %d of home eu is of region %s, want 3 of eu", e.Number, e.Region)
				}
				var text strings.Builder
				if err := r.Write(&text); err != nil || !strings.Contains(text.String(), "the drill is done: all is as it was; region eu serves home eu (epoch 3)") {
					t.Errorf("the report says %s, %v", text.String(), err)
				}
			})
		})
	}
}

// TestADrillThatIsNotReady: every check that fails is told, and nothing is changed.
func TestADrillThatIsNotReady(t *testing.T) {
	inDrill(t, func(t *testing.T, w *world, d *drill.Drill) {
		d.Everywhere = func(context.Context) error { return errors.New("a data centre does not answer") }
		delete(d.APIs, "us")
		w.eu.name = "ap" // the address leads elsewhere
		r := d.Run(t.Context(), serving(t, d))
		var failed []string
		for _, c := range r.Checks {
			if !c.OK {
				failed = append(failed, c.String())
			}
		}
		said := strings.Join(failed, "\n")
		for _, want := range []string{"data centres: a data centre does not answer", "API of us: regions.api names none", `API of eu: a node of region "ap" answers there`} {
			if !strings.Contains(said, want) {
				t.Errorf("the checks that failed are\n%s\nwant %q", said, want)
			}
		}
		if r.OK || r.Next != "" || !strings.Contains(r.Fault, "nothing was changed") || serving(t, d).Number != 1 {
			t.Errorf("the report is %+v, want that nothing was changed", r)
		}
	})
}

// TestADrillThatEndsBefore: it says which region serves the home, and how to go on.
func TestADrillThatEndsBefore(t *testing.T) {
	const back = "carillon region move eu --to eu --reason 'drill' --config carillon.yaml"
	for name, row := range map[string]struct {
		change func(w *world, d *drill.Drill)
		after  time.Duration // then it is interrupted; 0: it is not
		fault  string
		next   string
		serves string
	}{
		"the region takes nothing in":       {func(w *world, _ *drill.Drill) { w.us.never = true }, 0, "region us started no job of home eu within 30s of the epoch", back, "us"},
		"it starts nothing":                 {func(w *world, _ *drill.Drill) { w.us.idle = true }, 0, "was taken in, and not started", back, "us"},
		"what it starts fails":              {func(w *world, _ *drill.Drill) { w.us.refused = true }, 0, "was started in region us, and failed: address is not allowed; it must reach what it calls (--url)", back, "us"},
		"another region starts it":          {func(w *world, _ *drill.Drill) { w.us.by = "n.eu" }, 0, "was started by n.eu, which is no executor of region us", back, "us"},
		"interrupted while it is there":     {func(w *world, _ *drill.Drill) { w.us.idle = true }, 45 * time.Second, "it was interrupted", back, "us"},
		"interrupted while it is moved":     {func(*world, *drill.Drill) {}, 20 * time.Second, "it was interrupted", "", "eu"},
		"the region that is not stopped":    {func(w *world, d *drill.Drill) { d.Failover, d.Say = true, func(string, ...any) {} }, 0, "region eu gives signs of life still, after 1m0s", "", "eu"},
		"another region that does not live": {func(w *world, _ *drill.Drill) { w.live["us"] = false }, 0, "region us gives no sign of life", "", "eu"},
	} {
		t.Run(name, func(t *testing.T) {
			inDrill(t, func(t *testing.T, w *world, d *drill.Drill) {
				w.mu.Lock()
				row.change(w, d)
				w.mu.Unlock()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if row.after > 0 {
					defer time.AfterFunc(row.after, cancel).Stop()
				}
				r := d.Run(ctx, serving(t, d))
				if r.OK || !strings.Contains(r.Fault, row.fault) || r.Next != row.next || !strings.HasPrefix(r.State, "region "+row.serves+" serves home eu") {
					t.Errorf("the report is %+v\nwant the fault %q, and to go on by %q", r, row.fault, row.next)
				}
			})
		})
	}
}
