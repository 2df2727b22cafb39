package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// others are the other regions.
type others struct {
	mu             sync.Mutex
	refuses, fails bool
	asked          []schema.Copies
}

func (o *others) set(refuses, fails bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refuses, o.fails, o.asked = refuses, fails, nil
}

func (o *others) Ready() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refuses {
		return &schema.NotEverywhereError{Regions: []string{"us"}}
	}
	return nil
}

func (o *others) ConfirmClaim(ctx context.Context, key string) error {
	return o.Confirm(ctx, schema.Copies{Leases: []string{key}})
}

func (o *others) Confirm(_ context.Context, rows schema.Copies) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, rows)
	if o.fails {
		return &schema.NotEverywhereError{Regions: []string{"us"}, Written: true}
	}
	return nil
}

// last returns the rows that were asked for last, and how often was asked.
func (o *others) last() (rows schema.Copies, times int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if times = len(o.asked); times > 0 {
		rows = o.asked[times-1]
	}
	return rows, times
}

// inRegion runs f in a bubble with an engine whose region serves the only home.
func inRegion(t *testing.T, f func(t *testing.T, e *Engine, o *others)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := bucketertest.NewWorld(t, schema.Settings{})
		homes, err := schema.NewHomes([]schema.Home{{Name: "eu", Shards: []schema.ShardRange{{First: 0, Last: 63}}}})
		if err != nil {
			t.Fatal(err)
		}
		o := new(others)
		e, err := New(bucketer.Config{Store: w.Store(), Hints: w, Signals: w, Regions: &bucketer.Regions{
			Region: "eu", Homes: homes, Served: func(schema.Shard) (int64, error) { return 1, nil }, Everywhere: o,
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(t, e, o)
	})
}

func work() *schema.Work {
	return &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}}
}

// TestChangesOfARunAreHeldEverywhere: a cancel and a move, with the entry to which it is moved.
// They are written also where a region does not answer, and then the answer says so. Asked again
// they are confirmed.
func TestChangesOfARunAreHeldEverywhere(t *testing.T) {
	inRegion(t, func(t *testing.T, e *Engine, o *others) {
		ctx, to := t.Context(), time.Now().Add(2*time.Hour)
		submit := func(d schema.Durability) schema.RunID {
			t.Helper()
			r, err := e.Submit(ctx, bucketer.Job{Tenant: "t", At: time.Now().Add(time.Hour), Work: work(), Durability: d})
			if err != nil {
				t.Fatal(err)
			}
			return r.Run
		}
		home := submit("")
		if _, err := e.Reschedule(ctx, "t", home, runs.Change{At: &to}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Cancel(ctx, "t", home, "me"); err != nil {
			t.Fatal(err)
		}
		if _, times := o.last(); times != 0 {
			t.Errorf("changes of a run of durability home asked %d times, want never", times)
		}
		id := submit(schema.DurableEverywhere)
		run, err := e.Reschedule(ctx, "t", id, runs.Change{At: &to})
		if rows, _ := o.last(); err != nil || !slices.Equal(rows.Entries, []schema.EntryID{id, run.Current.ID}) {
			t.Errorf("moved: %v, held everywhere %+v; want the run and the entry that starts it", err, rows)
		}
		o.set(true, true)
		_, err = e.Cancel(ctx, "t", id, "me")
		if run, readErr := e.Run(ctx, "t", id); !errors.Is(err, schema.ErrNotEverywhere) || !errors.Is(err, schema.ErrUnknown) || readErr != nil || run.State != schema.StateCancelled {
			t.Errorf("cancelled while a region does not answer: %v, and the run is %s, %v; want that it is cancelled here, and that the error says so", err, run.State, readErr)
		}
		o.set(false, false)
		_, err = e.Cancel(ctx, "t", id, "me")
		if rows, _ := o.last(); err != nil || !slices.Contains(rows.Entries, id) {
			t.Errorf("cancelled again: %v, held everywhere %+v; want the run", err, rows)
		}
	})
}

// TestManyJobsAreMadeAsEachWouldBeAlone: those that can share batches do. The others are made as
// CreateJob makes them: with their keys and names, and held everywhere if they are to be.
func TestManyJobsAreMadeAsEachWouldBeAlone(t *testing.T) {
	inRegion(t, func(t *testing.T, e *Engine, o *others) {
		spec := func(name string, d schema.Durability) schema.JobSpec {
			return schema.JobSpec{Tenant: "t", Name: name, Schedule: &schema.Schedule{Every: schema.Duration(time.Hour)}, Work: work(), Durability: d}
		}
		keyed, _, err := e.CreateJob(t.Context(), spec("", ""), "k", "b")
		if err != nil {
			t.Fatal(err)
		}
		all := []recurring.Creation{
			{Spec: spec("", "")},
			{Spec: spec("", ""), Key: "k", BodyHash: "b"},
			{Spec: spec("named", "")},
			{Spec: spec("", schema.DurableEverywhere)},
			{Spec: spec("", "")},
			{Spec: spec("", ""), Key: "k", BodyHash: "another"},
		}
		jobs, errs := make([]schema.Job, len(all)), make([]error, len(all))
		var mu sync.Mutex
		e.CreateJobs(t.Context(), all, func(i int, job schema.Job, existing bool, err error) {
			mu.Lock()
			defer mu.Unlock()
			jobs[i], errs[i] = job, err
			if existing != (i == 1) {
				t.Errorf("job %d: existing %t", i, existing)
			}
		})
		if !errors.Is(errs[5], bucketer.ErrKeyReused) {
			t.Errorf("a key with another body = %v, want ErrKeyReused", errs[5])
		}
		for i := range jobs[:5] {
			if got, err := e.JobByID(t.Context(), "t", jobs[i].ID); errs[i] != nil || err != nil || got.Current.Spec.Durability != all[i].Spec.Durability {
				t.Errorf("job %d = %v; it says %+v, %v", i, errs[i], got.Current.Spec, err)
			}
		}
		if named, err := e.JobByName(t.Context(), "t", "named"); jobs[1].ID != keyed.ID || err != nil || named.ID != jobs[2].ID {
			t.Errorf("the job of a key is %s, want %s; the job of the name %s, %v, want %s", jobs[1].ID, keyed.ID, named.ID, err, jobs[2].ID)
		}
		if rows, times := o.last(); times != 1 || !slices.Equal(rows.Jobs, []schema.JobID{jobs[3].ID}) {
			t.Errorf("held everywhere, asked %d times: %+v, want job 3 alone", times, rows)
		}
		o.set(true, true)
		e.CreateJobs(t.Context(), all[3:5], func(i int, _ schema.Job, _ bool, err error) {
			if errors.Is(err, schema.ErrNotEverywhere) != (i == 0) {
				t.Errorf("a region is known not to answer: job %d = %v", i, err)
			}
		})
	})
}

// TestAJobThatRecursIsHeldEverywhere: with its name, its key, its line in the list, by what it
// hears of events, and its next run. Its runs say so too.
func TestAJobThatRecursIsHeldEverywhere(t *testing.T) {
	inRegion(t, func(t *testing.T, e *Engine, o *others) {
		ctx := t.Context()
		spec := func(name string, d schema.Durability) schema.JobSpec {
			return schema.JobSpec{Tenant: "t", Name: name, Schedule: &schema.Schedule{Every: schema.Duration(time.Hour)}, Work: work(), Durability: d}
		}
		if job, _, err := e.CreateJob(ctx, spec("home", ""), "k0", "b"); err != nil || job.Current.Spec.Durability != "" {
			t.Fatalf("durability home: %+v, %v", job.Current.Spec, err)
		}
		if _, times := o.last(); times != 0 {
			t.Errorf("a job of durability home asked %d times, want never", times)
		}
		o.set(true, true)
		if _, _, err := e.CreateJob(ctx, spec("all", schema.DurableEverywhere), "k", "b"); !errors.Is(err, schema.ErrNotEverywhere) || errors.Is(err, schema.ErrUnknown) {
			t.Errorf("a region is known not to answer: %v, want that nothing was written", err)
		}
		o.set(false, true)
		if _, _, err := e.CreateJob(ctx, spec("all", schema.DurableEverywhere), "k", "b"); !errors.Is(err, schema.ErrNotEverywhere) || !errors.Is(err, schema.ErrUnknown) {
			t.Errorf("a region does not answer: %v, want that it was written here", err)
		}
		o.set(false, false)
		job, existing, err := e.CreateJob(ctx, spec("all", schema.DurableEverywhere), "k", "b")
		next, _ := e.NextRun(job, time.Now())
		if rows, _ := o.last(); err != nil || !existing || !slices.Equal(rows.Jobs, []schema.JobID{job.ID}) || !slices.Equal(rows.Listed, rows.Jobs) || rows.Tenant != "t" ||
			!slices.Equal(rows.Keys, []schema.TenantName{{Tenant: "t", Name: "k"}}) || !slices.Equal(rows.Names, []schema.TenantName{{Tenant: "t", Name: "all"}}) ||
			!slices.Equal(rows.Entries, []schema.EntryID{next.ID}) {
			t.Errorf("sent again: %v, existing %t, held everywhere %+v; want the job, its key, its name and its next run", err, existing, rows)
		}
		found, err := e.Stored(ctx, []schema.EntryID{next.ID})
		if row := found[next.ID]; err != nil || !row.Spec.Everywhere {
			t.Errorf("its next run says %s, %v; want that it is everywhere", row.Text(), err)
		}
		receipt, err := e.TriggerJob(ctx, "t", job.ID, nil, "", "")
		if rows, _ := o.last(); err != nil || !slices.Contains(rows.Entries, receipt.Run) {
			t.Errorf("triggered: %v, held everywhere %+v; want the run", err, rows)
		}
		change := func(what func(*schema.JobSpec)) func() (schema.Job, error) {
			return func() (schema.Job, error) {
				return e.ChangeJob(ctx, "t", job.ID, 0, func(s *schema.JobSpec) error { what(s); return nil })
			}
		}
		for _, row := range []struct {
			name string
			do   func() (schema.Job, error)
		}{
			{"paused", func() (schema.Job, error) { return e.PauseJob(ctx, "t", job.ID, 0) }},
			{"resumed", func() (schema.Job, error) { return e.ResumeJob(ctx, "t", job.ID, 0) }},
			{"changed", change(func(s *schema.JobSpec) { s.Labels = map[string]string{"a": "b"} })},
			{"put again", func() (schema.Job, error) {
				j, _, err := e.PutJob(ctx, "t", "all", 0, spec("all", schema.DurableEverywhere))
				return j, err
			}},
			{"home from now on", change(func(s *schema.JobSpec) { s.Durability = schema.DurableHome })},
			{"everywhere again", change(func(s *schema.JobSpec) { s.Durability = schema.DurableEverywhere })},
			{"cancelled", func() (schema.Job, error) { return e.CancelJob(ctx, "t", job.ID, 0) }},
		} {
			o.set(false, false)
			if _, err := row.do(); err != nil {
				t.Errorf("%s: %v", row.name, err)
			}
			if rows, _ := o.last(); !slices.Contains(rows.Jobs, job.ID) {
				t.Errorf("%s: held everywhere %+v, want the job", row.name, rows)
			}
		}
		on := schema.JobSpec{Tenant: "t", Name: "on", On: &schema.EventTrigger{Event: "up"}, Work: work(), Durability: schema.DurableEverywhere}
		if _, _, err := e.CreateJob(ctx, on, "", ""); err != nil {
			t.Fatal(err)
		}
		if rows, _ := o.last(); len(rows.Subscriptions) != 1 || rows.Subscriptions[0].Event != "up" {
			t.Errorf("a job that runs on events: held everywhere %+v, want its subscription", rows)
		}
	})
}
