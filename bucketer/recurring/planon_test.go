package recurring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// TestPlanOnCosts: for a batch of occurrences one read for their jobs, and one batch for what comes
// next.
func TestPlanOnCosts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Setting.Shards = 1
		if err := w.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 90 {
			w.job(every(10 * time.Second))
		}
		rows := slices.DeleteFunc(w.Entries(time.Minute), func(e schema.Entry) bool { return e.Spec.Kind != schema.KindRun })
		if len(rows) != 90 {
			t.Fatalf("%d rows, want 90", len(rows))
		}
		w.Counts.Reset()
		for i, v := range w.planOn(rows...) {
			if v != bucketer.Publish {
				t.Errorf("verdict %d = %v, want Publish", i, v)
			}
		}
		tallies := w.Counts.Tallies()
		if tallies["Jobs"].Calls != 1 || tallies["PutEntries"].Rows != 90 || tallies["PutEntries"].Calls > 2 ||
			tallies["PutJobRuns"].Calls > 2 || len(tallies) != 3 {
			t.Errorf("PlanOn of 90 asked %+v, want one Jobs, and PutEntries and PutJobRuns of 90 rows", tallies)
		}
	})
}

// TestPlanOnOfOneOffs asks nothing.
func TestPlanOnOfOneOffs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		run := w.mustRun(w.submit(callTo(time.Now().Add(time.Minute))))
		w.Counts.Reset()
		if v := w.planOn(run.Entry); v[0] != bucketer.Publish || len(w.Counts.Tallies()) != 0 {
			t.Errorf("PlanOn = %v, asked %+v, want Publish and nothing asked", v, w.Counts.Tallies())
		}
	})
}

// TestPlanOnThatFailsHasNotHappened: an error at any call, and the next PlanOn makes it good.
func TestPlanOnThatFailsHasNotHappened(t *testing.T) {
	for _, op := range []string{"Jobs", "PutEntries"} {
		for name, fault := range map[string]schematest.Fault{"failed": {Fail: true}, "lost": {Lose: true}} {
			t.Run(op+" "+name, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					job := w.job(every(time.Minute))
					first := w.occurrences(job.ID, 3*time.Minute)[0]
					w.BefallFirst(1, op, fault)
					if _, err := w.PlanOn(t.Context(), []schema.Entry{first}, time.Now()); err == nil {
						t.Error("PlanOn = nil, want an error")
					}
					if v := w.planOn(first); v[0] != bucketer.Publish {
						t.Errorf("PlanOn again = %v, want Publish", v[0])
					}
					if rows := w.occurrences(job.ID, 4*time.Minute); len(rows) != 2 {
						t.Errorf("%d rows, want two", len(rows))
					}
				})
			})
		}
	}
}

// TestAnUnknownGenerationIsJudgedByWhenItWasAskedFor: a change writes its first occurrence, and
// then the job's row. A process that was stopped while it read the row, before that, took the
// change for one that did not happen, and ended the run as cancelled.
func TestAnUnknownGenerationIsJudgedByWhenItWasAskedFor(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(time.Minute))
		first := w.occurrences(job.ID, 3*time.Minute)[0]
		time.Sleep(time.Until(first.Due()))
		first.Spec.Generation = time.Now().UnixMicro()
		w.BefallFirst(1, "Jobs", schematest.Fault{Delay: unsureFor + 10*time.Second})
		if v := w.planOn(first); v[0] != bucketer.Undecided {
			t.Errorf("PlanOn with a slow read = %v, want Later", v[0])
		}
		if v := w.planOn(first); v[0] != bucketer.Dropped {
			t.Errorf("PlanOn %s later = %v, want Dropped", unsureFor+10*time.Second, v[0])
		}
	})
}

// TestNothingIsDecidedByAWrongClock: one that was set ahead took runs for too late, and changes for
// what did not happen.
func TestNothingIsDecidedByAWrongClock(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		spec := every(time.Minute)
		spec.Misfire = &schema.Misfire{Policy: schema.Skip, Deadline: schema.Duration(time.Second)}
		job := w.job(spec)
		first := w.occurrences(job.ID, 3*time.Minute)[0]
		time.Sleep(time.Until(first.Due()))
		w.Stopped.Store(true)
		if v, err := w.PlanOn(t.Context(), []schema.Entry{first}, time.Now().Add(90*time.Second)); !errors.Is(err, bucketer.ErrNotReady) {
			t.Errorf("PlanOn while halted = %v, %v; want ErrNotReady", v, err)
		}
		w.Stopped.Store(false)
		if v := w.planOn(first); v[0] != bucketer.Publish {
			t.Errorf("PlanOn then = %v, want Publish", v[0])
		}
	})
}

// TestAClaimedRunIsNotGivenUp: an executor claimed the run, called, and died before the rows told
// of it. It was recorded as missed.
func TestAClaimedRunIsNotGivenUp(t *testing.T) {
	for _, g := range []schema.Guarantee{schema.AtMostOnce, schema.EffectivelyOnce} {
		for _, claimed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, claimed %t", g, claimed), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					spec := every(time.Minute)
					spec.Work.Guarantee = g
					spec.Misfire = &schema.Misfire{Policy: schema.Skip, Deadline: schema.Duration(time.Second)}
					job := w.job(spec)
					first := w.occurrences(job.ID, 3*time.Minute)[0]
					time.Sleep(time.Until(first.Due()))
					key := schema.RunLease(first.ID)
					if claimed {
						is, err := schema.Lease{}.Claimed(1, g, schema.SessionRef{Executor: "x", ID: "s", Started: time.Now(), Entry: first.ID, Guarded: true}, time.Now())
						if err != nil {
							t.Fatal(err)
						}
						is.Key = key
						if _, err := w.Counts.SwapLease(t.Context(), schema.Lease{}, is, time.Now().Add(time.Hour)); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(10 * time.Second)
					want, state := bucketer.Dropped, schema.StateMissed
					if claimed {
						want, state = bucketer.Doubtful, schema.StatePending
					}
					w.BefallFirst(1, "SwapLease", schematest.Fault{Lose: true})
					if v, err := w.PlanOn(t.Context(), []schema.Entry{first}, time.Now()); err == nil {
						t.Errorf("PlanOn whose answer is lost = %v, want an error", v)
					}
					for range 2 {
						if v := w.planOn(first); v[0] != want {
							t.Errorf("PlanOn = %v, want %v", v[0], want)
						}
					}
					if run := w.mustRun(first.ID); run.State != state {
						t.Errorf("the run is %s, want %s", run.State, state)
					}
					if lease, err := w.Counts.Lease(t.Context(), key); err != nil || (lease.Holder != nil) != claimed {
						t.Errorf("its lease is %+v, %v; want it held: %t", lease, err, claimed)
					}
				})
			})
		}
	}
}

// TestWhatASlowReadTellsIsOfItsOwnTime: a run that is dropped since its job was changed while the
// job was being read was recorded as missed before the change.
func TestWhatASlowReadTellsIsOfItsOwnTime(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(time.Minute))
		first := w.occurrences(job.ID, 3*time.Minute)[0]
		time.Sleep(time.Until(first.Due()))
		w.BefallFirst(1, "Jobs", schematest.Fault{Delay: 4 * time.Second})
		verdict := make(chan bucketer.Verdict)
		go func() { verdict <- w.planOn(first)[0] }()
		synctest.Wait()
		changed, err := w.PauseJob(t.Context(), "t", job.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		if v := <-verdict; v != bucketer.Dropped {
			t.Fatalf("PlanOn = %v, want Dropped: the cut has passed", v)
		}
		run := w.mustRun(first.ID)
		if run.State != schema.StateMissed || run.Attempts[0].Record.Finished.Before(changed.Cut) {
			t.Errorf("the run is %s, recorded %v before the cut, want missed, and after it", run.State, changed.Cut.Sub(run.Attempts[0].Record.Finished))
		}
	})
}

// heldTooLate returns a job that recurs every 10 s, and its first occurrence, after which the
// second was held 20 s late, and what stands in for that was not.
func (w *world) heldTooLate() (schema.Job, schema.Entry) {
	w.T.Helper()
	job := w.job(every(10 * time.Second))
	first := w.occurrences(job.ID, time.Minute)[0]
	time.Sleep(time.Until(first.Due()) + 30*time.Second)
	calls := 0
	w.Befall(func(_ context.Context, op string) schematest.Fault {
		if op == "PutEntries" {
			calls++
		}
		return schematest.Fault{Fail: op == "PutEntries" && calls == 2} // the stand-in's
	})
	if _, err := w.PlanOn(w.T.Context(), []schema.Entry{first}, time.Now()); err == nil {
		w.T.Fatal("PlanOn = nil, want an error")
	}
	return job, first
}

// TestAnOccurrenceHeldTooLateIsStoodInFor: even if that only works at the second try.
func TestAnOccurrenceHeldTooLateIsStoodInFor(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, first := w.heldTooLate()
		w.planOn(first)
		if got := bucketertest.Kinds(w.Entries(time.Minute)); got[schema.KindLate] != 1 {
			t.Errorf("kinds = %v, want a late entry of the second occurrence", got)
		}
		w.planOn(first)
		if got := bucketertest.Kinds(w.Entries(time.Minute)); got[schema.KindLate] != 1 {
			t.Errorf("kinds = %v, want no further late entry", got)
		}
	})
}

// TestAnOccurrenceHeldTooLateIsMetThoughItsJobWasChanged: the one before it is dropped because of
// the change, and stands for itself alone, since it is there. What was due from it on until the
// change would be neither started nor recorded if nobody met it.
func TestAnOccurrenceHeldTooLateIsMetThoughItsJobWasChanged(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job, first := w.heldTooLate()
		changed, err := w.PauseJob(t.Context(), "t", job.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(changed.Cut) + time.Second)
		if v := w.planOn(first); v[0] != bucketer.Dropped {
			t.Fatalf("PlanOn = %v, want Dropped", v[0])
		}
		var late []schema.Entry
		for _, e := range w.Entries(2 * time.Minute) {
			if e.Spec.Kind == schema.KindLate {
				late = append(late, e)
			}
		}
		if len(late) != 1 {
			t.Fatalf("%d late entries, want one of the second occurrence", len(late))
		}
		if v := w.planOn(late[0]); v[0] != bucketer.Dropped {
			t.Fatalf("PlanOn of the late entry = %v, want Dropped", v[0])
		}
		run := w.mustRun(late[0].Run())
		m := run.Attempts[0].Record.Missed
		if m == nil || m.Count < 3 || !m.To.Before(changed.Cut) || changed.Cut.Sub(m.To) > 10*time.Second {
			t.Errorf("the second run is %s for %+v, want missed for all until %v", run.State, m, changed.Cut)
		}
	})
}

// TestACancelledOccurrenceIsPlannedOn: cancelling one run of a job does not end the job, and
// history tells of it.
func TestACancelledOccurrenceIsPlannedOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(time.Minute))
		first := w.occurrences(job.ID, 3*time.Minute)[0]
		if _, err := w.Cancel(t.Context(), "t", first.ID, "me"); err != nil {
			t.Fatal(err)
		}
		first, _ = w.Row(first.ID)
		w.planOn(first)
		if rows := w.occurrences(job.ID, 4*time.Minute); len(rows) != 2 {
			t.Errorf("%d rows, want two", len(rows))
		}
		runs, _, err := w.JobRuns(t.Context(), "t", job.ID, JobRunFilter{To: first.Due().Add(time.Second)}, runs.Position{}, 10)
		if err != nil || len(runs) != 1 || runs[0].ID != first.ID || runs[0].State != schema.StateCancelled {
			t.Errorf("JobRuns = %+v, %v, want the cancelled one", runs, err)
		}
	})
}

// TestDecidedOnce: two dispatchers that meet an overdue occurrence at different times skip the same
// stretch.
func TestDecidedOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(10 * time.Second))
		first := w.occurrences(job.ID, time.Minute)[0]
		time.Sleep(10 * time.Minute)
		if v := w.planOn(first); v[0] != bucketer.Dropped {
			t.Errorf("PlanOn = %v, want Dropped", v[0])
		}
		time.Sleep(25 * time.Second)
		if v := w.planOn(first); v[0] != bucketer.Dropped {
			t.Errorf("PlanOn later = %v, want Dropped", v[0])
		}
		var catchUps []schema.Entry
		ahead := 0
		for _, e := range w.Entries(20 * time.Minute) {
			switch {
			case e.Spec.Kind == schema.KindCatchUp:
				catchUps = append(catchUps, e)
			case e.Due().After(first.Due()):
				ahead++
			}
		}
		if ahead != 1 {
			t.Errorf("%d occurrences were planned, want one", ahead)
		}
		for _, e := range catchUps {
			if e.Spec.Nominal != first.Spec.Nominal || e.Spec.Until != catchUps[0].Spec.Until {
				t.Errorf("catch-ups %v to %v and %v to %v, want the same", e.Spec.Nominal, e.Spec.Until, catchUps[0].Spec.Nominal, catchUps[0].Spec.Until)
			}
		}
		if len(catchUps) == 0 {
			t.Error("no catch-up")
		}
	})
}
