package recurring

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// TestWhatComesNextIsHeldBeforeACatchUp: a write of which only the first half arrives, and a
// dispatcher that dies with it, leave no catch-up entry that ends the occurrence while nothing
// comes after it.
func TestWhatComesNextIsHeldBeforeACatchUp(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(10 * time.Second))
		first := w.occurrences(job.ID, time.Minute)[0]
		time.Sleep(10 * time.Minute)
		w.Befall(func(_ context.Context, op string) schematest.Fault {
			return schematest.Fault{Tear: op == "PutEntries"}
		})
		for range 3 { // until half of every batch has arrived
			if _, err := w.PlanOn(t.Context(), []schema.Entry{first}, time.Now()); err == nil {
				t.Fatal("PlanOn with torn writes: no error")
			}
		}
		var catchUps, ahead int
		for _, e := range w.Entries(20 * time.Minute) {
			switch {
			case e.Spec.Kind == schema.KindCatchUp:
				catchUps++
			case e.Due().After(first.Due()):
				ahead++
			}
		}
		if catchUps > ahead {
			t.Errorf("%d catch-up entries are held, and %d occurrences ahead", catchUps, ahead)
		}
	})
}

// TestACatchUpStepIsTakenAsOfOneInstant: two dispatchers that take one step at different times
// start the same runs, give up the same stretch, and leave the same to one next step. So they do if
// the job is changed in between.
func TestACatchUpStepIsTakenAsOfOneInstant(t *testing.T) {
	t.Run("later", func(t *testing.T) { takeAStepTwice(t, nil) })
	t.Run("after a change", func(t *testing.T) {
		takeAStepTwice(t, func(t *testing.T, w *world, id schema.JobID) {
			if _, err := w.ChangeJob(t.Context(), "t", id, 0, func(spec *schema.JobSpec) error {
				*spec = every(time.Hour)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
		})
	})
}

func takeAStepTwice(t *testing.T, between func(*testing.T, *world, schema.JobID)) {
	inWorld(t, func(t *testing.T, w *world) {
		spec := every(10 * time.Second)
		spec.Misfire = &schema.Misfire{Policy: schema.RunAll, Deadline: schema.Duration(5 * time.Minute)}
		job := w.job(spec).ID
		first := w.occurrences(job, time.Minute)[0]
		time.Sleep(10 * time.Minute)
		w.planOn(first)
		var step schema.Entry
		for _, e := range w.Entries(20 * time.Minute) {
			if e.Spec.Kind == schema.KindCatchUp {
				step = e
			}
		}
		take := func() ([]schema.Entry, runs.Run) {
			if n, err := w.CatchUp(t.Context(), []schema.Entry{step}, 10, time.Now()); n != 1 || err != nil {
				t.Fatalf("CatchUp = %d, %v", n, err)
			}
			return w.Entries(20 * time.Minute), w.mustRun(first.Run())
		}
		w.BefallFirst(1, "PutAttempts", schematest.Fault{Fail: true})
		if n, err := w.CatchUp(t.Context(), []schema.Entry{step}, 10, time.Now()); n != 0 || err == nil || w.missed.Load() != 0 {
			t.Fatalf("CatchUp while nothing can be recorded = %d, %v, and %d count as missed; want an error, and none", n, err, w.missed.Load())
		}
		once, missed := take()
		var given int64
		for _, a := range missed.Attempts {
			if m := a.Record.Missed; m != nil {
				given += m.Count
			}
		}
		if given < 10 || w.missed.Load() != given {
			t.Errorf("%d runs were given up, and %d count as missed", given, w.missed.Load())
		}
		if runs := bucketertest.Kinds(once)[schema.KindLate]; runs != catchUpRuns || missed.State != schema.StateMissed {
			t.Fatalf("%d runs are started and the first is %s, want %d and missed", runs, missed.State, catchUpRuns)
		}
		time.Sleep(25 * time.Second)
		if between != nil {
			between(t, w, job)
		}
		twice, still := take()
		ids := func(entries []schema.Entry) (ids []string) {
			for _, e := range entries {
				ids = append(ids, fmt.Sprintf("%s %s of %s", e.Spec.Kind, e.ID, e.Spec.Nominal))
			}
			return ids
		}
		if diff := cmp.Diff(ids(once), ids(twice)); diff != "" {
			t.Errorf("the step taken again leaves other entries (-once +twice):\n%s", diff)
		}
		if diff := cmp.Diff(missed.Attempts, still.Attempts); diff != "" {
			t.Errorf("the step taken again gives up something else (-once +twice):\n%s", diff)
		}
	})
}
