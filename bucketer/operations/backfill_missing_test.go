package operations

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// Each time of the stretch has one run in the end, whichever had some before, and whoever goes on.
// No build that does not know what is left out can go on with it.
func TestBackfillOfWhatIsMissing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(time.Minute))
		to := job.Current.Spec.Schedule.Anchor
		from := to.Add(-20 * time.Minute)
		if _, err := w.PauseJob(t.Context(), "t", job.ID, 0); err != nil {
			t.Fatal(err)
		}
		o := w.operations("n")
		x := w.backfiller(job.ID, 0)
		finish := func(op schema.Operation) schema.Operation {
			t.Helper()
			for i := 0; !op.Progress.Done; i++ {
				if i > 200 {
					t.Fatalf("the backfill does not end: %+v", op.Progress)
				}
				x.look()
				if _, err := o.step(t.Context(), &op); err != nil {
					t.Fatal(err)
				}
				if at := op.Progress.At; len(op.Spec.Backfill.Skip) > 0 && !strings.HasPrefix(at, missingPlace) {
					t.Fatalf("it goes on at %q, which a build that leaves nothing out can read", at)
				}
				time.Sleep(time.Second)
			}
			return op
		}
		for _, stretch := range [][2]int{{0, 2}, {5, 6}, {18, 20}} {
			finish(w.backfill(o, job.ID, Backfill{From: from.Add(time.Duration(stretch[0]) * time.Minute), To: from.Add(time.Duration(stretch[1]) * time.Minute), MaxConcurrent: 3}).Operation)
		}
		asked := Backfill{From: from, To: to, MaxConcurrent: 3, Missing: true}
		preview := func(want, named int64, first, last int) {
			t.Helper()
			got, err := o.PreviewBackfill(t.Context(), "t", job.ID, asked)
			if err != nil || got.Count != want || got.Named != named {
				t.Fatalf("PreviewBackfill of what is missing = %+v, %v; want %d of %d", got, err, want, named)
			}
			if note := fmt.Sprintf("%d of the runs are for times before the job was made", want); want > 0 && (len(got.Notes) != 1 || !strings.HasPrefix(got.Notes[0], note)) {
				t.Errorf("PreviewBackfill of what is missing notes %q, want that %s", got.Notes, note)
			}
			at := func(i int) time.Time { return from.Add(time.Duration(i) * time.Minute) }
			if none := want == 0 && got.First.IsZero() && got.Last.IsZero(); !none && (!got.First.Equal(at(first)) || !got.Last.Equal(at(last))) {
				t.Errorf("PreviewBackfill of what is missing is from %v to %v, want %v to %v", got.First, got.Last, at(first), at(last))
			}
		}
		preview(15, 20, 2, 17)
		begun := w.backfill(o, job.ID, asked)
		ms := func(i int) int64 { return from.Add(time.Duration(i) * time.Minute).UnixMilli() }
		if want := [][2]int64{{ms(0), ms(1)}, {ms(5), ms(5)}, {ms(18), ms(19)}}; begun.Matched != 15 || !slices.Equal(begun.Operation.Spec.Backfill.Skip, want) {
			t.Errorf("Backfill of what is missing = %d times without %v, want 15 without %v", begun.Matched, begun.Operation.Spec.Backfill.Skip, want)
		}
		if _, err := strconv.ParseInt(begun.Operation.Progress.At, 10, 64); begun.Operation.Progress.At == "" || err == nil {
			t.Errorf("it begins at %q, which a build that leaves nothing out can read", begun.Operation.Progress.At)
		}
		// One node stops after some steps; another goes on from what it had read before.
		old, op := begun.Operation, begun.Operation
		for range 4 {
			x.look()
			if _, err := o.step(t.Context(), &op); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		op = finish(old)
		wantCounts(t, "backfill", op.Progress, schema.Progress{Matched: 15, Changed: 15})
		x.exactly(20, from, time.Minute)
		preview(0, 20, 0, 0)

		var faults bucketer.Faults
		if _, err := o.Backfill(t.Context(), "t", job.ID, asked, "me", "", ""); !errors.As(err, &faults) || faults[0].Location != "body.missing" {
			t.Errorf("Backfill of what is missing, again = %v, want that nothing is left", err)
		}
		asked.From = to.Add(-4000 * 24 * time.Hour)
		if _, err := o.Backfill(t.Context(), "t", job.ID, Backfill{From: asked.From, To: asked.From.Add(time.Hour), MaxConcurrent: 3, Missing: true}, "me", "", ""); !errors.As(err, &faults) || faults[0].Location != "body.from" {
			t.Errorf("Backfill of what is missing, from before the history = %v, want a fault of from", err)
		}
	})
}

// A run that was missed is none, nor is one that never started because its job was paused. One that
// somebody, or the limit of the job, cancelled is one, and one that is under way.
func TestBackfillOfWhatWasLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		outcome schema.Outcome // "": it is under way
		reason  string
		asked   bool  // somebody cancels it
		want    int64 // times that are missing after it
	}{
		"missed":                 {schema.Missed, "", false, 1},
		"cancelled by a pause":   {schema.Cancelled, "the job was paused", false, 1},
		"cancelled by a change":  {schema.Cancelled, "the job was changed", false, 1},
		"cancelled by somebody":  {schema.Cancelled, "", true, 0},
		"cancelled by its limit": {schema.Cancelled, "cancel_oldest: later runs of the job were due", false, 0},
		"under way":              {"", "", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				job := w.job(every(time.Minute))
				at := job.Current.Spec.Schedule.Anchor.Add(-time.Minute)
				o := w.operations("n")
				x := w.backfiller(job.ID, 0)
				stretch := Backfill{From: at, To: at.Add(time.Minute), MaxConcurrent: 1}
				op := w.backfill(o, job.ID, stretch).Operation
				if _, err := o.step(t.Context(), &op); err != nil {
					t.Fatal(err)
				}
				for _, e := range x.rows(time.Now()) {
					if e.Spec.Trigger != schema.TriggerBackfill {
						continue
					}
					if c.asked {
						if _, err := w.Cancel(t.Context(), "t", e.Run(), "somebody"); err != nil {
							t.Fatal(err)
						}
					}
					if c.outcome != "" {
						w.Recorded(e, 0, schema.Record{Outcome: c.outcome, Reason: c.reason})
					}
				}
				stretch.Missing = true
				got, err := o.PreviewBackfill(t.Context(), "t", job.ID, stretch)
				if err != nil || got.Count != c.want {
					t.Errorf("a backfill of what is missing would have %d runs, %v; want %d", got.Count, err, c.want)
				}
			})
		})
	}
}
