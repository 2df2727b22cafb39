package executor

import (
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// ahead returns how many entries of each run are due after now.
func (w *world) ahead(now time.Time) map[schema.RunID]int {
	w.t.Helper()
	n := make(map[schema.RunID]int)
	for b := schema.BucketOf(now); b <= schema.BucketOf(now.Add(10*time.Minute)); b++ {
		r := schema.IDRange{After: schema.MakeEntryID(now, 0, 0), Before: schema.MakeEntryID(now.Add(time.Hour), 0, 0)}
		rows, err := w.inner.Entries(w.t.Context(), schema.Partition{Bucket: b}, r, 100_000)
		if err != nil {
			w.t.Fatalf("entries: %v", err)
		}
		for i := range rows {
			n[rows[i].Run()]++
		}
	}
	return n
}

// TestARunWaitsOnce: what was put off, and could not be recorded as such, was put off once more,
// and from then on each of the two by itself: the longer a backlog waited, the more of it were
// copies.
func TestARunWaitsOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x")
		w.limit(1, func(task *schema.Task) { task.Work.Timeout = schema.Duration(time.Hour) })
		var c crowd
		c.in(w, func() time.Duration { return 10 * time.Minute })
		w.runs(50, inAWhile(time.Second), 0)
		w.dispatch(time.Second)
		broke := time.Now()
		w.breakDown("PutAttempts")
		w.dispatch(10 * time.Second)
		w.breakDown()
		twice := 0 // or more often
		for _, n := range w.ahead(broke) {
			twice += n - 1
		}
		if twice == 0 {
			t.Fatal("no run waits twice while the store fails: the test shows nothing")
		}
		w.dispatch(2 * time.Minute)
		waiting := w.ahead(time.Now())
		if len(waiting) < 40 {
			t.Errorf("%d runs wait, want nearly all", len(waiting))
		}
		for run, n := range waiting {
			if n > 1 {
				t.Errorf("run %s waits %d times", run, n)
			}
		}
	})
}

// TestYieldToItsOwn: an entry yields to one that has the same to start, and to nothing else.
func TestYieldToItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *schema.Spec) // of the one that waits already
		absent bool                 // it is not there
		want   bool
	}{
		"the same":            {func(*schema.Spec) {}, false, true},
		"gone":                {func(*schema.Spec) {}, true, false},
		"another attempt":     {func(s *schema.Spec) { s.Attempt = 2 }, false, false},
		"after it was moved":  {func(s *schema.Spec) { s.For = schema.MakeEntryID(time.Now(), 0, 9) }, false, false},
		"of nobody's right":   {func(s *schema.Spec) { s.For = schema.EntryID{} }, false, false},
		"the one of a retry":  {func(s *schema.Spec) { s.Attempt, s.For = 2, schema.EntryID{} }, false, false},
		"one of another run":  {func(s *schema.Spec) { s.Of = schema.MakeEntryID(time.Now(), 0, 8) }, false, false},
		"put off many a time": {func(s *schema.Spec) { s.Deferrals = 7 }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				n := w.begin("x")
				run := w.entry(inAWhile(0))
				waits := schema.Entry{ID: schema.MakeEntryID(inAWhile(time.Minute), 0, 7)}
				if !c.absent {
					waits = w.entry(inAWhile(time.Minute), func(s *schema.Spec) {
						s.Kind, s.Of, s.For = schema.KindDeferral, run.ID, run.ID
						c.change(s)
					})
				}
				a := attemptOf(n.Executor, &run)
				a.rows.awaited = waits.ID
				got, err := a.limits.yield(t.Context(), "")
				if err != nil || got != c.want {
					t.Fatalf("yield: got %t, %v; want %t", got, err, c.want)
				}
				st := schema.Judge(&run, schema.Marks{}, w.attempts(run.ID), func(schema.SessionRef) bool { return false })
				if st.Over != c.want {
					t.Errorf("the entry is over: %t, want %t", st.Over, c.want)
				}
			})
		})
	}
}
