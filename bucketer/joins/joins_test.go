package joins_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// Conditions, and how each job before ended: what becomes of the run.
func TestConditions(t *testing.T) {
	for _, c := range []struct {
		when string
		ends string // of each: s succeeded, f failed, c cancelled, m missed, - not yet
		want string // starts, waits, or why it is skipped
	}{
		{"", "ss", "starts"},
		{"", "s-", "waits"},
		{"", "f-", "failed"},
		{"", "sc", "cancelled"},
		{"", "sm", "failed"},
		{"all_done", "sf", "starts"},
		{"all_done", "cm", "starts"},
		{"all_done", "f-", "waits"},
		{"any_succeeded", "s-", "starts"},
		{"any_succeeded", "f-", "waits"},
		{"any_succeeded", "ff", "no job before it succeeded"},
		{"any_failed", "f-", "starts"},
		{"any_failed", "m-", "starts"},
		{"any_failed", "s-", "waits"},
		{"any_failed", "ss", "no job before it failed"},
		{"any_failed", "sc", "no job before it failed"},
	} {
		t.Run(c.when+" "+c.ends, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				a, b := w.submit(nil), w.submit(nil)
				ends := func(id schema.RunID, how byte) {
					switch how {
					case 's':
						w.succeed(id)
					case 'f':
						w.fail(id)
					case 'c':
						if _, err := w.e.Cancel(t.Context(), "t", id, "test"); err != nil {
							t.Fatal(err)
						}
					case 'm':
						w.end(id, schema.Record{Outcome: schema.Missed})
					}
				}
				ends(a, c.ends[0]) // one ends before the job is made, one after
				id := w.submit(after(c.when, 0, a.String(), b.String()))
				ends(b, c.ends[1])
				time.Sleep(10 * time.Second)
				w.plan()
				r := w.run(id)
				got := "waits"
				switch {
				case r.State == schema.StateSkipped:
					got = "skipped"
					for _, at := range r.Attempts {
						if at.Record.Outcome == schema.Skipped && strings.Contains(at.Record.Reason, c.want) {
							got = c.want
						}
					}
				case w.starts(id) == 1:
					got = "starts"
				}
				if got != c.want {
					t.Errorf("the run %s, want %s", got, c.want)
				}
			})
		})
	}
}

// A chain of jobs that recur: each run of the first has one run of each that follows, and those that
// share it as their beginning join.
func TestChains(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.job("a", nil)
		b := w.job("b", after("", 0, "a"))
		c := w.job("c", after("", 0, "a"))
		d := w.job("d", after("all_done", 0, "b", "c"))
		alert := w.job("alert", after("any_failed", 0, "d"))
		for i := range 3 {
			root := w.trigger(&a)
			w.succeed(root)
			w.plan()
			bs, cs := w.joins(&b), w.joins(&c)
			if len(bs) != i+1 || len(cs) != i+1 || len(w.joins(&d)) != i {
				t.Fatalf("%d, %d and %d runs of b, c and d after %d runs of a", len(bs), len(cs), len(w.joins(&d)), i+1)
			}
			w.succeed(bs[i].ID)
			w.plan()
			if ds := w.joins(&d); len(ds) != i+1 || w.starts(ds[i].ID) != 0 {
				t.Fatalf("d has started, and c has not ended")
			}
			w.fail(cs[i].ID)
			w.plan()
			ds := w.joins(&d)
			if len(ds) != i+1 || w.starts(ds[i].ID) != 1 {
				t.Fatalf("%d runs of d, want %d and the last of them to start", len(ds), i+1)
			}
			if root := ds[i].Entry.RootOf(); root != w.joins(&b)[i].Entry.RootOf() {
				t.Errorf("d is of the chain %s", root)
			}
			w.fail(ds[i].ID)
			w.plan()
			if got := w.joins(&alert); len(got) != i+1 || w.starts(got[i].ID) != 1 {
				t.Errorf("%d runs of alert, want %d", len(got), i+1)
			}
			time.Sleep(time.Minute)
		}
	})
}

// A run that is skipped has its jobs' verdict for those that follow.
func TestSkipsAreHandedOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.job("a", nil)
		b := w.job("b", after("", 0, "a"))
		c := w.job("c", after("", 0, "b"))
		handler := w.job("handler", after("any_failed", 0, "c"))
		quiet := w.job("quiet", after("any_failed", 0, "handler"))
		w.fail(w.trigger(&a))
		w.plan()
		for _, job := range []*schema.Job{&b, &c} {
			if got := w.joins(job); len(got) != 1 || got[0].State != schema.StateSkipped {
				t.Errorf("%s: %v, want one run, skipped", job.Current.Spec.Name, got)
			}
		}
		got := w.joins(&handler)
		if len(got) != 1 || w.starts(got[0].ID) != 1 {
			t.Fatalf("the handler does not run: %v", got)
		}
		w.succeed(got[0].ID)
		w.plan()
		if got := w.joins(&quiet); len(got) != 1 || got[0].State != schema.StateSkipped {
			t.Errorf("quiet: %v, want one run, skipped", got)
		}
		list, _, err := w.e.JobRuns(t.Context(), "t", b.ID, recurring.JobRunFilter{}, runs.Position{}, 10)
		if err != nil || len(list) != 1 || list[0].State != schema.StateSkipped {
			t.Errorf("history of b = %v, %v, want the run that was skipped", list, err)
		}
	})
}

func TestFaultsOfAfter(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, z := w.job("a", nil), w.job("z", nil)
		w.job("b", after("", 0, "a"))
		c := w.job("c", after("", 0, "b"))
		one := w.submit(nil)
		gone := w.job("gone", nil)
		if _, err := w.e.CancelJob(t.Context(), "t", gone.ID, 0); err != nil {
			t.Fatal(err)
		}
		for _, r := range []struct {
			after *schema.After
			want  []string
		}{
			{after("", 0, "nobody"), []string{"body.after.jobs[0] names no job of the tenant"}},
			{after("", 0, "new"), []string{"body.after.jobs[0] is the job itself"}},
			{after("", 0, "a", a.ID.String()), []string{"body.after.jobs[1] is the same job as jobs[0]"}},
			{after("", 0, "a", one.String()), []string{"body.after.jobs must be either all one-off jobs or all"}},
			{after("", 0, "a", "z"), []string{"body.after.jobs must all begin with the runs of one job", "a begins with a, z begins with z"}},
			{after("", 0, "c", "z"), []string{"c begins with a, z begins with z"}},
			{after("", 0, gone.ID.String(), "nobody"), []string{"body.after.jobs[0] has ended", "body.after.jobs[1] names no job"}},
		} {
			_, _, err := w.tryJob("new", r.after)
			for _, want := range r.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("after %v: %v, want %q", r.after.Jobs, err, want)
				}
			}
		}
		change := func(job *schema.Job, a *schema.After) error {
			_, err := w.e.ChangeJob(t.Context(), "t", job.ID, 0, func(s *schema.JobSpec) error {
				s.Schedule, s.After = nil, a
				return nil
			})
			return err
		}
		if err := change(&a, after("", 0, "c")); err == nil || !strings.Contains(err.Error(), "makes a cycle: a runs after c runs after b runs after a") {
			t.Errorf("a cycle: %v", err)
		}
		if err := change(&c, after("", 0, "z")); err != nil {
			t.Errorf("c after z: %v", err)
		}
		if err := change(&a, after("", 0, "c")); err != nil {
			t.Errorf("a after c, which does not run after it any more: %v", err)
		}
		_ = z
	})
}

// What has ended before its job's creation, was triggered in between, or is of a paused job.
func TestWhatDoesNotJoin(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.job("a", nil)
		early := w.trigger(&a)
		time.Sleep(10 * time.Second)
		b := w.job("b", after("", 0, "a"))
		both := w.job("both", after("", 0, "a", "b"))
		w.succeed(early)
		w.plan()
		if got := w.joins(&b); len(got) != 0 {
			t.Errorf("b joins a chain that began before it was made: %v", got)
		}
		w.succeed(w.trigger(&b)) // by hand: no run of a belongs to it
		w.plan()
		if got := w.joins(&both); len(got) != 0 {
			t.Errorf("both joins a chain without a: %v", got)
		}
		if _, err := w.e.PauseJob(t.Context(), "t", b.ID, 0); err != nil {
			t.Fatal(err)
		}
		w.succeed(w.trigger(&a))
		w.plan()
		if got := w.joins(&b); len(got) != 0 {
			t.Errorf("b is paused, and joins: %v", got)
		}
		if got := w.joins(&both); len(got) != 1 || w.starts(got[0].ID) != 0 {
			t.Errorf("both: %v, want one run, which waits for b", got)
		}
	})
}

func TestAWaitingRunCanBeCancelledAndNotChanged(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.submit(nil)
		id := w.submit(after("", 0, a.String()))
		next := w.submit(after("all_done", 0, id.String()))
		w.plan()
		at := time.Now().Add(time.Hour)
		if _, err := w.e.Reschedule(t.Context(), "t", id, runs.Change{At: &at}); err == nil || !strings.Contains(err.Error(), "waits for other jobs") {
			t.Errorf("Reschedule = %v", err)
		}
		if _, err := w.e.Cancel(t.Context(), "t", id, "test"); err != nil {
			t.Fatal(err)
		}
		w.succeed(a)
		w.plan()
		if r := w.run(id); r.State != schema.StateCancelled || w.starts(id) != 0 {
			t.Errorf("the run is %s and starts %d times", r.State, w.starts(id))
		}
		if w.starts(next) != 1 {
			t.Error("what runs after a cancelled run, however it ends, does not start")
		}
	})
}

// An end that is found again, and a success that comes late, start nothing twice.
func TestLateSuccess(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.submit(nil)
		all, failed, done := w.submit(after("", 0, a.String())), w.submit(after("any_failed", 0, a.String())), w.submit(after("all_done", 0, a.String()))
		w.fail(a)
		w.plan()
		moved := w.run(done).Entry.Marks.MovedTo
		time.Sleep(time.Minute)
		w.succeed(a)
		w.plan()
		if w.starts(failed) != 1 || w.starts(done) != 1 || w.run(done).Entry.Marks.MovedTo != moved {
			t.Error("a success that came late changed what had started")
		}
		if r := w.run(all); r.State != schema.StateSkipped {
			t.Errorf("the run that was skipped is %s", r.State)
		}
	})
}

// Whatever call of the store fails, is torn, comes late or loses its answer, each join starts once.
func TestFaultsAtEveryCall(t *testing.T) {
	for _, f := range []struct {
		name string
		schematest.Fault
	}{
		{"fails", schematest.Fault{Fail: true}},
		{"loses its answer", schematest.Fault{Lose: true}},
		{"is torn", schematest.Fault{Tear: true}},
		{"is done late", schematest.Fault{Late: time.Minute}},
	} {
		for n := 1; ; n++ {
			reached := false
			inWorld(t, func(t *testing.T, w *world) {
				a := w.job("a", nil)
				b, c := w.job("b", after("", 0, "a")), w.job("c", after("", 0, "a"))
				d := w.job("d", after("", 0, "b", "c"))
				root := w.trigger(&a)
				var calls atomic.Int64
				w.Befall(func(context.Context, string) (none schematest.Fault) {
					if calls.Add(1) == int64(n) {
						return f.Fault
					}
					return none
				})
				ended := make(map[schema.RunID]bool)
				step := func() {
					w.plan()
					for _, job := range []*schema.Job{&b, &c} {
						for _, r := range w.joins(job) {
							if !ended[r.ID] && w.starts(r.ID) == 1 {
								ended[r.ID] = true
								w.succeed(r.ID)
							}
						}
					}
				}
				w.succeed(root)
				for range 4 {
					step()
				}
				reached = calls.Load() >= int64(n)
				time.Sleep(2 * time.Minute) // what comes late has come
				w.calm()
				w.open()
				for range 4 {
					step()
				}
				for _, job := range []*schema.Job{&b, &c, &d} {
					got := w.joins(job)
					if len(got) != 1 || w.starts(got[0].ID) != 1 {
						t.Errorf("call %d %s: %d runs of %s, want one that starts", n, f.name, len(got), job.Current.Spec.Name)
					}
				}
			})
			if !reached {
				break
			}
			if t.Failed() {
				return
			}
		}
	}
}

func TestChainsHaveAnEnd(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		name := "j0"
		w.job(name, nil)
		var err error
		for i := 1; err == nil && i <= schema.MaxChain+1; i++ {
			next := fmt.Sprint("j", i)
			if _, _, err = w.tryJob(next, after("", 0, name)); err == nil {
				name = next
			}
		}
		if err == nil || !strings.Contains(err.Error(), "follows on a chain of 100 jobs") || name != fmt.Sprint("j", schema.MaxChain-1) {
			t.Errorf("after %s: %v", name, err)
		}
	})
}

// Two jobs end at once, and each planner reads before either has written what it found.
func TestRacingEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.submit(nil), w.submit(nil)
		id := w.submit(after("", 0, a.String(), b.String()))
		w.plan()
		w.succeed(a)
		w.succeed(b)
		w.Befall(func(_ context.Context, op string) (f schematest.Fault) {
			if op == "PutAttempts" {
				f.Delay = time.Second
			}
			return f
		})
		var planned sync.WaitGroup
		ends := 0
		for _, e := range w.Entries(time.Hour) {
			if e.Spec.Kind != schema.KindEvent {
				continue
			}
			ends++
			planned.Go(func() {
				if err := w.e.PlanEvent(context.Background(), &e); err != nil {
					t.Errorf("PlanEvent = %v", err)
				}
			})
		}
		planned.Wait()
		if ends != 2 || w.starts(id) != 1 {
			t.Errorf("after %d ends at once the run starts %d times, want two ends and one start", ends, w.starts(id))
		}
	})
}

// An end with more dependents than one call has time for is told page by page, each page once.
func TestManyDependents(t *testing.T) {
	const dependents = 1200
	inWorld(t, func(t *testing.T, w *world) {
		a := w.submit(nil)
		ids := make([]schema.RunID, dependents)
		for i := range ids {
			ids[i] = w.submit(after("", 0, a.String()))
		}
		w.plan()
		w.succeed(a)
		var end schema.Entry
		for _, e := range w.Entries(time.Hour) {
			if e.Spec.Kind == schema.KindEvent {
				end = e
			}
		}
		pages := 0
		for tries := 1; ; tries++ {
			var read atomic.Int64
			w.Befall(func(_ context.Context, op string) (f schematest.Fault) {
				f.Fail = op == "Subscribers" && read.Add(1) > 1 // the time of the call is over after a page
				return f
			})
			err := w.e.PlanEvent(t.Context(), &end)
			pages++
			if err == nil {
				break
			}
			if tries > 5 {
				t.Fatalf("PlanEvent = %v after %d tries of a page each", err, tries)
			}
		}
		w.calm()
		for _, id := range ids {
			if w.run(id).Entry.Marks.MovedTo.IsZero() {
				t.Fatalf("run %s does not start", id)
			}
		}
		if pages != 3 {
			t.Errorf("%d calls, want one for each of three pages", pages)
		}
	})
}
