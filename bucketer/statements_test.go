package bucketer

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
)

// TestStatementsOfIntake tells, as attributes, which calls of the store jobs cost; `make
// bench-gate` compares them with what was committed.
func TestStatementsOfIntake(t *testing.T) {
	chunk := func(key func(i int) string) func(w *world) {
		return func(w *world) {
			begin := time.Now().Add(time.Hour)
			jobs := make([]Job, MaxChunk)
			for i := range jobs {
				jobs[i] = callTo(begin.Add(time.Duration(i) * 10 * time.Minute / MaxChunk))
				jobs[i].Key = key(i)
			}
			for i, a := range w.batch(jobs...) {
				if a.err != nil {
					w.T.Fatalf("SubmitBatch: job %d: %v", i, a.err)
				}
			}
		}
	}
	later := func(key string) func(w *world) {
		return func(w *world) { w.submit(keyed(key, time.Now().Add(time.Hour))) }
	}
	for name, c := range map[string]struct {
		submit func(w *world)
		rows   int
	}{
		"unkeyed chunk": {chunk(func(int) string { return "" }), MaxChunk},
		"keyed chunk":   {chunk(func(i int) string { return fmt.Sprintf("order-%d", i) }), MaxChunk},
		"one":           {later(""), 1},
		"one with key":  {later("order-1"), 1},
		"one at once":   {func(w *world) { w.submit(callTo(time.Time{})) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, schema.Settings{})
				w.Counts.Reset()
				c.submit(w)
				for op, tally := range w.Counts.Tallies() {
					t.Attr(op, strconv.Itoa(tally.Calls))
				}
				if got := w.Counts.Tally("PutEntries").Rows; got != c.rows {
					t.Errorf("rows written: %d, want %d", got, c.rows)
				}
			})
		})
	}
}
