package bucketer

import (
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// TestADeadlineOutlivesWhatReplacesAnEntry: deferrals and watch entries do not lengthen the misfire
// deadline of a one-off run, and entries of runs without a policy say nothing of it.
func TestADeadlineOutlivesWhatReplacesAnEntry(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		due := time.Now().Add(time.Second).UTC().Truncate(time.Millisecond)
		job := callTo(due)
		job.Misfire = &schema.Misfire{Policy: schema.RunAll, Deadline: schema.Duration(time.Minute)}
		first, err := w.EntryOf(&job, schema.MakeEntryID(due, 0, 1), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		later := func(e schema.Entry, kind schema.Kind, after time.Duration) schema.Entry {
			t.Helper()
			l, err := w.LaterStart(&e, kind, schema.MakeEntryID(due.Add(after), 0, 2), e.Spec.AttemptNumber(), due.Add(after))
			if err != nil {
				t.Fatalf("LaterStart(%s) = %v", kind, err)
			}
			return l
		}
		deferred := later(first, schema.KindDeferral, 2*time.Minute)
		watched := later(deferred, schema.KindWatch, 4*time.Minute)
		late := later(first, schema.KindLate, 10*time.Second)
		for _, row := range []struct {
			name string
			e    schema.Entry
			want time.Time
		}{
			{"the run", first, due},
			{"its deferral", deferred, due},
			{"what watches that", watched, due},
			{"what replaces that, held late", later(watched, schema.KindLate, 5*time.Minute), due},
			{"the late entry of its acceptance", late, due.Add(10 * time.Second)},
			{"the deferral of that", later(late, schema.KindDeferral, time.Minute), due.Add(10 * time.Second)},
		} {
			if got := row.e.MisfireFrom(); !got.Equal(row.want) {
				t.Errorf("%s: MisfireFrom = %v, want %v", row.name, got, row.want)
			}
		}
		if e := later(first, schema.KindRetry, time.Minute); e.Spec.DeadlineFrom != 0 {
			t.Errorf("a retry says %s", e.Text())
		}
		job.Misfire = nil
		plain, err := w.EntryOf(&job, first.ID, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if e := later(plain, schema.KindDeferral, time.Minute); e.Spec.DeadlineFrom != 0 {
			t.Errorf("without a policy a deferral says %s", e.Text())
		}
	})
}
