package bucketer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// regions are two homes of 32 shards each, and which of them ours, eu, serves.
type regions struct {
	Regions
	eu, us atomic.Bool
}

func newRegions(t *testing.T) *regions {
	t.Helper()
	h, err := schema.NewHomes([]schema.Home{
		{Name: "eu", Shards: []schema.ShardRange{{First: 0, Last: 31}}},
		{Name: "us", Shards: []schema.ShardRange{{First: 32, Last: 63}}},
	})
	if err == nil {
		h, err = h.WithTenants(map[string]string{"acme": "us"})
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &regions{Regions: Regions{Region: "eu", Homes: h}}
	r.eu.Store(true)
	r.Served = func(shard schema.Shard) (int64, error) {
		home, _ := h.Of(shard)
		if (home == "eu" && r.eu.Load()) || (home == "us" && r.us.Load()) {
			return 1, nil
		}
		return 0, &schema.NotServedError{Home: home, Asked: "eu", Lease: schema.HomeLease{Epoch: schema.Epoch{Home: home, Number: 1, Region: "us"}, Read: time.Now()}, Now: time.Now()}
	}
	return r
}

// inRegion runs f in a bubble with a world of region eu.
func inRegion(t *testing.T, f func(t *testing.T, w *world, r *regions)) {
	t.Helper()
	inWorld(t, func(t *testing.T, w *world) {
		r := newRegions(t)
		w.regions = &r.Regions
		f(t, w, r)
	})
}

// TestAHomeThatIsDrainedTakesNothingIn: what was taken in is acknowledged all the same.
func TestAHomeThatIsDrainedTakesNothingIn(t *testing.T) {
	for way, submit := range ways {
		t.Run(way, func(t *testing.T) {
			inRegion(t, func(t *testing.T, w *world, r *regions) {
				r.Takes = func(schema.Shard) (int64, error) { return 0, schema.ErrNotServed }
				if err := r.Acknowledges(0); err != nil {
					t.Errorf("Acknowledges = %v, want nil: the home is still served", err)
				}
				if _, err := submit(w, keyed("l", time.Now())); !errors.Is(err, schema.ErrNotServed) || errors.Is(err, schema.ErrUnknown) {
					t.Errorf("a job at a home that is drained: %v, want ErrNotServed", err)
				}
			})
		})
	}
}

// ways are how a job comes in.
var ways = map[string]func(w *world, job Job) (Receipt, error){
	"alone":   func(w *world, job Job) (Receipt, error) { return w.Submit(context.Background(), job) },
	"a chunk": func(w *world, job Job) (Receipt, error) { a := w.batch(job)[0]; return a.Receipt, a.err },
}

// TestWorkLiesAtAHomeThatIsServed: where new work lies, by what it is and which homes our region serves.
func TestWorkLiesAtAHomeThatIsServed(t *testing.T) {
	at := func() time.Time { return time.Now().Add(time.Hour) }
	of := func(tenant string, job Job) Job { job.Tenant = tenant; return job }
	to := func(home string, job Job) Job { job.Region = home; return job }
	rated := func() Job { j := callTo(at()); j.Task, j.Work = "rated", nil; return j }
	limited := func() Job { j := callTo(at()); j.Task, j.Work = "limited", nil; return j }
	task := func(name string) Job { j := callTo(at()); j.Task, j.Work = name, nil; return j }
	call := func(url string) Job {
		j := callTo(at())
		j.Work = &schema.Work{HTTP: &schema.HTTPTarget{URL: url}}
		return j
	}
	for name, row := range map[string]struct {
		eu, us bool
		job    func() Job
		want   string // "": refused
	}{
		"unkeyed":                                   {true, false, func() Job { return callTo(at()) }, "eu"},
		"unkeyed, both served":                      {true, true, func() Job { return callTo(at()) }, "eu"},
		"unkeyed, the other home served":            {false, true, func() Job { return callTo(at()) }, "us"},
		"unkeyed, none served":                      {false, false, func() Job { return callTo(at()) }, ""},
		"unkeyed, of a tenant at home elsewhere":    {true, false, func() Job { return of("acme", callTo(at())) }, ""},
		"unkeyed, of a tenant whose home is served": {true, true, func() Job { return of("acme", callTo(at())) }, "us"},
		"keyed":                          {true, false, func() Job { return keyed("k", at()) }, "eu"},
		"asks for a home that is served": {true, true, func() Job { return to("us", callTo(at())) }, "us"},
		"asks for a home that is served elsewhere":   {true, false, func() Job { return to("us", callTo(at())) }, ""},
		"of a tenant at home elsewhere, asks for eu": {true, false, func() Job { return to("eu", of("acme", callTo(at()))) }, "eu"},
		"keyed, asks for its home":                   {true, true, func() Job { return to("eu", keyed("k", at())) }, "eu"},
		"keyed, its home served elsewhere":           {false, true, func() Job { return keyed("k", at()) }, ""},
		"keyed, now":                                 {true, true, func() Job { return keyed("k", time.Time{}) }, "eu"},
		"keyed, now, served elsewhere":               {false, true, func() Job { return keyed("k", time.Time{}) }, ""},
		"of a task with a rate":                      {true, true, rated, "eu"},
		"of a task with a rate, elsewhere":           {false, true, rated, ""},
		"of a task with a limit, elsewhere":          {false, true, limited, ""},
		"keyed, of a tenant whose home is us":        {true, true, func() Job { return of("acme", keyed("k", at())) }, "us"},
		"of a task that asks for us":                 {true, true, func() Job { return task("away") }, "us"},
		"of a task that asks for us, asks for eu":    {true, true, func() Job { return to("eu", task("away")) }, "eu"},
		"of a task that asks for us, served there":   {true, false, func() Job { return task("away") }, ""},
		"of a task that calls a host with a route":   {true, true, func() Job { return task("routed") }, "us"},
		"calls a host with a route":                  {true, true, func() Job { return call("https://A.us.test:8443/x") }, "us"},
		"calls a host with a route, asks for eu":     {true, true, func() Job { return to("eu", call("https://a.us.test/x")) }, "eu"},
		"calls a host of which a route is before":    {true, true, func() Job { return call("https://eu.us.test/x") }, "eu"},
		"calls a host without a route":               {true, true, func() Job { return call("https://us.test/x") }, "eu"},
		"of acme, calls a host with a route to eu":   {true, true, func() Job { return of("acme", call("https://eu.us.test/x")) }, "eu"},
		"keyed, calls a host with a route": {true, true, func() Job {
			j := call("https://a.us.test/x")
			j.Key, j.BodyHash = "k", "1"
			return j
		}, "eu"},
	} {
		for way, submit := range ways {
			t.Run(name+", "+way, func(t *testing.T) {
				inRegion(t, func(t *testing.T, w *world, r *regions) {
					r.eu.Store(row.eu)
					r.us.Store(row.us)
					w.putTask(schema.Task{Tenant: "t", Name: "rated", Rate: "5/s"})
					w.putTask(schema.Task{Tenant: "t", Name: "limited", MaxConcurrent: 2})
					w.putTask(schema.Task{Tenant: "t", Name: "away", Region: schema.RegionChoice{Name: "us"}})
					w.putTask(schema.Task{Tenant: "t", Name: "routed", Work: schema.Work{HTTP: &schema.HTTPTarget{URL: "http://b.us.test"}}})
					r.Routes = []Route{{Host: "eu.us.test", Home: "eu"}, {Host: "*.us.test", Home: "us"}}
					for range 20 { // where it lies is drawn
						before := writes(w)
						receipt, err := submit(w, row.job())
						if row.want == "" {
							var home *schema.NotServedError
							if !errors.As(err, &home) || errors.Is(err, schema.ErrUnknown) || writes(w) != before {
								t.Fatalf("refused with %v after %d writes, want a NotServedError that names the home, and none", err, writes(w)-before)
							}
							continue
						}
						if got, _ := r.Homes.Of(receipt.Run.Shard()); err != nil || got != row.want {
							t.Fatalf("shard %d of home %s, %v; want one of %s", receipt.Run.Shard(), got, err, row.want)
						}
					}
				})
			})
		}
	}
}

// TestATaskThatRequiresItsRegion: its one-off jobs lie there and require it. What must lie
// elsewhere is refused, as is a region that is none.
func TestATaskThatRequiresItsRegion(t *testing.T) {
	inRegion(t, func(t *testing.T, w *world, r *regions) {
		r.us.Store(true)
		w.putTask(schema.Task{Tenant: "t", Name: "bound", Region: schema.RegionChoice{Name: "us", Require: true}})
		job := callTo(time.Now().Add(time.Hour))
		job.Task, job.Work = "bound", nil
		for way, submit := range ways {
			receipt, err := submit(w, job)
			if err != nil {
				t.Fatalf("%s: %v", way, err)
			}
			rows, err := w.Store().EntriesByID(t.Context(), receipt.Run.Partition(), []schema.EntryID{receipt.Run})
			if home, _ := r.Homes.Of(receipt.Run.Shard()); err != nil || home != "us" || len(rows) != 1 || !rows[0].Spec.RequireRegion {
				t.Errorf("%s: at home %s, %+v, %v; want one at us that requires its region", way, home, rows, err)
			}
			k := job
			k.Key, k.BodyHash = "k", "1"
			var faults Faults
			if _, err := submit(w, k); !errors.As(err, &faults) || faults[0].Location != "body.task" || !strings.Contains(faults[0].Message, "requires region us, but this lies at eu") {
				t.Errorf("%s, with a key: %v, want a fault of the task", way, err)
			}
		}
		if err := w.CheckTask(t.Context(), "t", "bound", nil); err == nil {
			t.Error("a job with many runs lies at eu: want a fault")
		}
	})
	var faults Faults
	for what, c := range map[string]struct {
		r      *Regions
		choice schema.RegionChoice
		fault  string
	}{
		"nothing, without regions": {nil, schema.RegionChoice{}, ""},
		"one, without regions":     {nil, schema.RegionChoice{Require: true}, "no regions"},
		"one that is none":         {&newRegions(t).Regions, schema.RegionChoice{Name: "ap"}, "is none: there are eu, us"},
		"one":                      {&newRegions(t).Regions, schema.RegionChoice{Name: "us", Require: true}, ""},
	} {
		if err := c.r.CheckChoice(c.choice); (c.fault == "") != (err == nil) || c.fault != "" && (!errors.As(err, &faults) || !strings.Contains(faults[0].Message, c.fault)) {
			t.Errorf("%s: %v, want %q", what, err, c.fault)
		}
	}
}

// TestAHomeThatCannotBeHad: a job that asks for it is at fault.
func TestAHomeThatCannotBeHad(t *testing.T) {
	for way, submit := range ways {
		inRegion(t, func(t *testing.T, w *world, r *regions) {
			r.us.Store(true)
			w.putTask(schema.Task{Tenant: "t", Name: "rated", Rate: "5/s"})
			rated := callTo(time.Now().Add(time.Hour))
			rated.Task, rated.Work = "rated", nil
			for what, row := range map[string]struct {
				job   Job
				home  string
				fault string
			}{
				"none":    {callTo(time.Time{}), "ap", "is none: there are eu, us"},
				"a key":   {keyed("k", time.Now().Add(time.Hour)), "us", "must be eu, where the tenant is at home"},
				"a rate":  {rated, "us", "must be eu, where the tenant is at home"},
				"key now": {keyed("k", time.Time{}), "us", "must be eu, where the tenant is at home"},
			} {
				row.job.Region = row.home
				before := writes(w)
				var faults Faults
				if _, err := submit(w, row.job); !errors.As(err, &faults) || faults[0].Location != "body.region" || !strings.Contains(faults[0].Message, row.fault) || writes(w) != before {
					t.Errorf("%s, %s: %v after %d writes, want the fault %q and none", way, what, err, writes(w)-before, row.fault)
				}
			}
		})
		inWorld(t, func(t *testing.T, w *world) {
			job := callTo(time.Time{})
			job.Region = "eu"
			var faults Faults
			if _, err := submit(w, job); !errors.As(err, &faults) || !strings.Contains(faults[0].Message, "this cluster has no regions") {
				t.Errorf("%s, without regions: %v, want a fault", way, err)
			}
			job.Durability = schema.DurableEverywhere
			if _, err := submit(w, job); !errors.As(err, &faults) || len(faults) != 2 || faults[1].Location != "body.durability" {
				t.Errorf("%s, without regions, of everywhere: %v, want two faults", way, err)
			}
		})
	}
}

// writes counts what was written into the store so far.
func writes(w *world) int {
	all := w.Counts.Tallies()
	return all["PutEntries"].Calls + all["RegisterKey"].Calls
}

// TestNothingIsAcknowledgedWithoutTheLease: where the lease on the home ends while a job is written,
// the outcome is unknown. Sent again with the same key it is the same run.
func TestNothingIsAcknowledgedWithoutTheLease(t *testing.T) {
	for way, submit := range ways {
		for name, job := range map[string]func() Job{
			"unkeyed":    func() Job { return callTo(time.Now().Add(time.Hour)) },
			"keyed":      func() Job { return keyed("k", time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)) },
			"keyed, now": func() Job { return keyed("k", time.Time{}) },
		} {
			t.Run(way+", "+name, func(t *testing.T) {
				inRegion(t, func(t *testing.T, w *world, r *regions) {
					w.Befall(func(_ context.Context, op string) schematest.Fault {
						if op == "PutEntries" {
							r.eu.Store(false)
						}
						return schematest.Fault{}
					})
					_, err := submit(w, job())
					if !errors.Is(err, schema.ErrUnknown) || !errors.Is(err, schema.ErrNotServed) {
						t.Fatalf("the lease ended during the write: %v, want ErrUnknown that names the home", err)
					}
					w.Befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
					if _, err := submit(w, job()); !errors.Is(err, schema.ErrNotServed) || errors.Is(err, schema.ErrUnknown) {
						t.Errorf("sent again without the lease: %v, want that the home is not served", err)
					}
					r.eu.Store(true)
					if receipt, err := submit(w, job()); err != nil || receipt.Existing != (name != "unkeyed") {
						t.Errorf("sent again with the lease: %+v, %v; want the same run if it has a key", receipt, err)
					}
				})
			})
		}
	}
}

// TestAKeyGivesTheSameShardBesideNewHomes: where the first home has the shards that were all, a keyed
// line is the row that it was.
func TestAKeyGivesTheSameShardBesideNewHomes(t *testing.T) {
	r := newRegions(t)
	for i := range 100 {
		key, at := fmt.Sprint(i), testNow.Add(time.Duration(i)*time.Second)
		if was, is := keyedID("t", key, at, (*Regions)(nil).keyed("t", 32)), keyedID("t", key, at, r.keyed("t", 64)); was != is {
			t.Fatalf("line %d: %s with 32 shards, %s with a second home; want the same", i, was, is)
		}
	}
}

// TestAJobWaitsForJobsOfItsHome: what ends at another home does not reach it.
func TestAJobWaitsForJobsOfItsHome(t *testing.T) {
	inRegion(t, func(t *testing.T, w *world, r *regions) {
		r.us.Store(true)
		of := func(shard schema.Shard) *schema.After {
			id := schema.JobOf(schema.MakeEntryID(time.Now().Add(time.Hour), shard, 1))
			return &schema.After{Jobs: []schema.Upstream{{Job: id, Name: id.String()}}, Deadline: schema.Duration(time.Hour)}
		}
		job := callTo(time.Time{})
		job.After = of(40)
		var faults Faults
		if _, err := w.Submit(t.Context(), job); !errors.As(err, &faults) || faults[0].Location != "body.after.jobs[0]" {
			t.Errorf("after a job of home us: %v, want a fault of body.after.jobs[0]", err)
		}
		job.After = of(4)
		if receipt, err := w.Submit(t.Context(), job); err != nil || receipt.Run.Shard() > 31 {
			t.Errorf("after a job of home eu: %+v, %v; want it at home eu", receipt, err)
		}
	})
}
