package recurring

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// writes of jobs and reads of one that decides: what costs most of what is done about jobs.
var dear = []string{"CreateJob", "SwapJob", "Job", "Jobs", "JobByName", "RegisterName", "TransferName", "RegisterKey", "ListJob", "PutEntries"}

// TestStatementsOfChanges: what it costs to create and to change a job that can have many runs.
// Each conditional write costs a store several times what a plain one does.
func TestStatementsOfChanges(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(w *world, job schema.Job) error
		want map[string]int
	}{
		{"create", func(w *world, _ schema.Job) error {
			_, _, err := w.CreateJob(w.T.Context(), every(time.Hour), "", "")
			return err
		}, map[string]int{"ListJob": 1, "PutEntries": 1, "CreateJob": 1}},
		{"create with a name", func(w *world, _ schema.Job) error {
			_, _, err := w.CreateJob(w.T.Context(), named(every(time.Hour), "another"), "", "")
			return err
		}, map[string]int{"RegisterName": 1, "ListJob": 1, "PutEntries": 1, "CreateJob": 1}},
		{"create with a key", func(w *world, _ schema.Job) error {
			_, _, err := w.CreateJob(w.T.Context(), every(time.Hour), "k", "body")
			return err
		}, map[string]int{"RegisterKey": 1, "ListJob": 1, "PutEntries": 1, "CreateJob": 1}},
		{"update", func(w *world, job schema.Job) error {
			_, err := w.ChangeJob(w.T.Context(), "t", job.ID, job.Current.Number, to(time.Minute))
			return err
		}, map[string]int{"Jobs": 1, "PutEntries": 1, "SwapJob": 1}},
		{"put", func(w *world, _ schema.Job) error {
			_, _, err := w.PutJob(w.T.Context(), "t", "n", 0, every(time.Minute))
			return err
		}, map[string]int{"JobByName": 1, "Jobs": 1, "PutEntries": 1, "SwapJob": 1}},
		{"pause", func(w *world, job schema.Job) error {
			_, err := w.PauseJob(w.T.Context(), "t", job.ID, 0)
			return err
		}, map[string]int{"Jobs": 1, "SwapJob": 1}},
		{"cancel", func(w *world, job schema.Job) error {
			_, err := w.CancelJob(w.T.Context(), "t", job.ID, 0)
			return err
		}, map[string]int{"Jobs": 1, "SwapJob": 1, "ListJob": 1}},
		{"cancel of what was changed just now", func(w *world, job schema.Job) error {
			if _, err := w.PauseJob(w.T.Context(), "t", job.ID, 0); err != nil {
				return err
			}
			w.Counts.Reset()
			_, err := w.CancelJob(w.T.Context(), "t", job.ID, 0)
			return err
		}, map[string]int{"Jobs": 2, "SwapJob": 1, "ListJob": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				job := w.job(named(every(time.Hour), "n"))
				time.Sleep(time.Minute)
				w.Counts.Reset()
				if err := c.do(w, job); err != nil {
					t.Fatalf("%s = %v", c.name, err)
				}
				got := make(map[string]int)
				for _, op := range dear {
					if n := w.Counts.Tally(op).Calls; n > 0 {
						got[op] = n
					}
				}
				if !maps.Equal(got, c.want) {
					t.Errorf("calls of the store: %v, want %v", got, c.want)
				}
			})
		})
	}
}

// TestARepeatedCreationIsTheSameJob: a node that finds a key registered a moment ago makes the very
// job that its claimer makes, who may still be at it: both answers name the generation that is in
// force, and there is one first run.
func TestARepeatedCreationIsTheSameJob(t *testing.T) {
	for name, fault := range map[string]schematest.Fault{
		"its row fails":         {Fail: true},
		"its row takes long":    {Delay: 5 * time.Second},
		"its row comes late":    {Late: 5 * time.Second},
		"its answer is lost":    {Lose: true},
		"its row is seen later": {Delay: time.Second, Lose: true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.BefallFirst(2, "CreateJob", fault)
				spec := named(every(time.Hour), "n")
				jobs, errs := make([]schema.Job, 2), make([]error, 2)
				var wg sync.WaitGroup
				for i := range jobs {
					wg.Go(func() {
						time.Sleep(time.Duration(i) * time.Second)
						jobs[i], _, errs[i] = w.CreateJob(t.Context(), spec, "k", "body")
					})
				}
				wg.Wait()
				time.Sleep(10 * time.Second)
				last, existing, err := w.CreateJob(t.Context(), spec, "k", "body")
				if err != nil || !existing {
					t.Fatalf("CreateJob at last = existing %v, %v, want the job", existing, err)
				}
				stands := w.stored(last.ID)
				for i := range jobs {
					if errs[i] == nil && (jobs[i].ID != stands.ID || jobs[i].Current.Number != stands.Current.Number) {
						t.Errorf("CreateJob %d = %s, generation %d; %s, generation %d stands", i, jobs[i].ID, jobs[i].Current.Number, stands.ID, stands.Current.Number)
					}
				}
				if rows := w.occurrences(last.ID, 3*time.Hour); len(rows) != 1 {
					t.Errorf("%d first runs, want 1:\n%s", len(rows), bucketertest.Describe(rows))
				}
				if got, err := w.JobByName(t.Context(), "t", "n"); err != nil || got.ID != last.ID {
					t.Errorf("JobByName = %s, %v, want %s: what failed must not give away the name of what did not", got.ID, err, last.ID)
				}
			})
		})
	}
}

// TestARowThatComesLateIsNoSecondJobOfItsName: a creation of unknown outcome whose row comes up
// after another job has taken its name does not run beside it.
func TestARowThatComesLateIsNoSecondJobOfItsName(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.BefallFirst(2, "CreateJob", schematest.Fault{Late: 3 * time.Minute})
		if _, _, err := w.CreateJob(t.Context(), named(every(time.Hour), "n"), "", ""); !errors.Is(err, schema.ErrUnknown) {
			t.Fatalf("CreateJob = %v, want ErrUnknown", err)
		}
		lost, _, err := w.Counts.JobByName(t.Context(), "t", "n")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(nameGrace + time.Second)
		job := w.job(named(every(time.Hour), "n"))
		time.Sleep(5 * time.Minute)
		if got := w.stored(lost); got.Current.State != schema.JobCancelled {
			t.Errorf("the job whose row came late is %s, want it cancelled since %s has its name", got.Current.State, job.ID)
		}
		active, _, err := w.ListJobs(t.Context(), "t", JobFilter{State: schema.JobActive}, schema.JobID{}, 10)
		if err != nil || len(active) != 1 || active[0].ID != job.ID {
			t.Errorf("%d active jobs, %v, want %s alone", len(active), err, job.ID)
		}
	})
}

// TestWhoFailsLeavesTheNameToWhoSucceeds: of two who make the job of one key the first fails after
// the second has made it.
func TestWhoFailsLeavesTheNameToWhoSucceeds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.BefallFirst(1, "PutEntries", schematest.Fault{Delay: 3 * time.Second, Fail: true})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, _, err := w.CreateJob(t.Context(), named(every(time.Hour), "n"), "k", "body"); !errors.Is(err, schema.ErrUnavailable) {
				t.Errorf("CreateJob = %v, want ErrUnavailable", err)
			}
		})
		time.Sleep(time.Second)
		job, _, err := w.CreateJob(t.Context(), named(every(time.Hour), "n"), "k", "body")
		if err != nil {
			t.Fatalf("CreateJob again = %v", err)
		}
		wg.Wait()
		if got, err := w.JobByName(t.Context(), "t", "n"); err != nil || got.ID != job.ID {
			t.Errorf("JobByName = %s, %v, want %s", got.ID, err, job.ID)
		}
	})
}

// TestANameIsNotGivenBackInDoubt: the row's first writing may have been done, so the job may exist,
// and has its name.
func TestANameIsNotGivenBackInDoubt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tries := 0
		w.Befall(func(_ context.Context, op string) schematest.Fault {
			if op != "CreateJob" {
				return schematest.Fault{}
			}
			tries++
			return schematest.Fault{Lose: tries == 1, Fail: tries == 2}
		})
		if _, _, err := w.CreateJob(t.Context(), named(every(time.Hour), "n"), "", ""); !errors.Is(err, schema.ErrUnknown) {
			t.Errorf("CreateJob = %v, want ErrUnknown", err)
		}
		if job, err := w.JobByName(t.Context(), "t", "n"); err != nil || job.Current.State != schema.JobActive {
			t.Errorf("JobByName = %s, %v, want the job that was made", job.Current.State, err)
		}
	})
}

// TestAJobThatHasLeftDoesNotComeBack where another takes over its name.
func TestAJobThatHasLeftDoesNotComeBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		old := w.job(named(every(time.Hour), "n"))
		if _, err := w.CancelJob(t.Context(), "t", old.ID, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * 24 * time.Hour)
		job := w.job(named(every(time.Hour), "n"))
		all, _, err := w.ListJobs(t.Context(), "t", JobFilter{}, schema.JobID{}, 10)
		if err != nil || len(all) != 1 || all[0].ID != job.ID {
			t.Errorf("ListJobs = %d jobs, %v, want %s alone", len(all), err, job.ID)
		}
	})
}

// TestACreatorThatWasAwayGivesWay: it was stopped between name and row for so long that another
// took the name.
func TestACreatorThatWasAwayGivesWay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.BefallFirst(1, "ListJob", schematest.Fault{Delay: 2 * time.Minute})
		var wg sync.WaitGroup
		wg.Go(func() {
			if job, _, err := w.CreateJob(t.Context(), named(every(time.Hour), "n"), "", ""); !errors.Is(err, ErrNameTaken) {
				t.Errorf("CreateJob of who was away = %s, %v, want ErrNameTaken", job.Current.State, err)
			}
		})
		time.Sleep(nameGrace + time.Second)
		job := w.job(named(every(time.Hour), "n"))
		wg.Wait()
		if got, err := w.JobByName(t.Context(), "t", "n"); err != nil || got.ID != job.ID {
			t.Errorf("JobByName = %s, %v, want %s", got.ID, err, job.ID)
		}
	})
}

// dated is a store whose plain reads of jobs show what was, as those of a quorum may of a change
// that is being committed.
type dated struct {
	bucketer.Store
	mu  sync.Mutex
	was map[schema.JobID]schema.Job
}

func (d *dated) Jobs(ctx context.Context, shard schema.Shard, ids []schema.JobID) ([]schema.Job, error) {
	jobs, err := d.Store.Jobs(ctx, shard, ids)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range jobs {
		if was, ok := d.was[jobs[i].ID]; ok {
			jobs[i] = was
		}
	}
	return jobs, err
}

// TestAChangeOfWhatWasReadTooOld is made to what stands, and what is answered without a change is
// what stands.
func TestAChangeOfWhatWasReadTooOld(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		created := w.job(every(time.Hour))
		paused, err := w.PauseJob(ctx, "t", created.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.store = &dated{Store: w.store, was: map[schema.JobID]schema.Job{created.ID: created}}
		if job, err := w.PauseJob(ctx, "t", created.ID, 0); err != nil || job.Current.Number != paused.Current.Number {
			t.Errorf("PauseJob = generation %d, %v, want %d: it is paused", job.Current.Number, err, paused.Current.Number)
		}
		if job, err := w.ResumeJob(ctx, "t", created.ID, created.Current.Number); !errors.Is(err, ErrStale) {
			t.Errorf("ResumeJob of the generation before = %s, %v, want ErrStale", job.Current.State, err)
		}
		resumed, err := w.ResumeJob(ctx, "t", created.ID, paused.Current.Number)
		if err != nil || resumed.Current.State != schema.JobActive || resumed.Before.Number != paused.Current.Number {
			t.Fatalf("ResumeJob = %s after %+v, %v, want it active after generation %d", resumed.Current.State, resumed.Before, err, paused.Current.Number)
		}
		if job, err := w.ResumeJob(ctx, "t", created.ID, 0); err != nil || job.Current.Number != resumed.Current.Number {
			t.Errorf("ResumeJob again = generation %d, %v, want %d", job.Current.Number, err, resumed.Current.Number)
		}
		if _, err := w.CancelJob(ctx, "t", created.ID, 0); err != nil {
			t.Fatal(err)
		}
		if job, err := w.PauseJob(ctx, "t", created.ID, 0); !errors.Is(err, bucketer.ErrFinished) {
			t.Errorf("PauseJob of a cancelled job = %s, %v, want ErrFinished", job.Current.State, err)
		}
	})
}

// crowded is a store that counts how many changes of a shard's jobs are under way at once.
type crowded struct {
	bucketer.Store
	under [shardLockCount]atomic.Int32
	most  atomic.Int32
}

func (c *crowded) SwapJob(ctx context.Context, was int64, j schema.Job) error {
	n := c.under[j.ID.Shard()].Add(1)
	defer c.under[j.ID.Shard()].Add(-1)
	if n > c.most.Load() {
		c.most.Store(n)
	}
	return c.Store.SwapJob(ctx, was, j)
}

// TestChangesOfAShardFollowOneAnother: they are for one register. Those of a crowd wait before
// their cuts are drawn, so none is known too late.
func TestChangesOfAShardFollowOneAnother(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Setting.Shards = 2
		if err := w.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		const crowd = 60
		var jobs []schema.Job
		for range crowd {
			jobs = append(jobs, w.job(every(time.Hour)))
		}
		time.Sleep(time.Second)
		store := &crowded{Store: w.store}
		w.store = store
		w.Befall(func(_ context.Context, op string) schematest.Fault {
			if op == "SwapJob" {
				return schematest.Fault{Delay: 100 * time.Millisecond}
			}
			return schematest.Fault{}
		})
		w.Counts.Reset()
		var wg sync.WaitGroup
		for i := range jobs {
			wg.Go(func() {
				if _, err := w.CancelJob(t.Context(), "t", jobs[i].ID, 0); err != nil {
					t.Errorf("CancelJob = %v", err)
				}
			})
		}
		wg.Wait()
		if most, swaps := store.most.Load(), w.Counts.Tally("SwapJob").Calls; most != 1 || swaps != crowd {
			t.Errorf("%d changes of one shard at once, %d in all; want 1, and one for each of %d jobs", most, swaps, crowd)
		}
	})
}
