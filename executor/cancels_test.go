package executor

import (
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
)

// TestCancelsAreRememberedForAWhile: each for cancelFor at least and for less than twice that,
// whenever in a span it was heard, and no more than maxCancels of a span.
func TestCancelsAreRememberedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := func(n uint64) schema.RunID { return schema.MakeEntryID(time.Now().Truncate(time.Hour), 0, n) }
		for _, wait := range []time.Duration{0, cancelFor / 2, cancelFor - time.Millisecond} { // since the span began
			var c cancels
			c.note(run(0), time.Now())
			time.Sleep(wait)
			c.note(run(1), time.Now())
			time.Sleep(cancelFor)
			if !c.heard(run(1)) {
				t.Errorf("heard %v into a span: forgotten after %v", wait, cancelFor)
			}
			time.Sleep(cancelFor)
			if c.heard(run(1)) {
				t.Errorf("heard %v into a span: remembered after %v", wait, 2*cancelFor)
			}
		}
		var c cancels
		for n := range uint64(maxCancels + 10) {
			c.note(run(n), time.Now())
		}
		if len(c.late) != maxCancels || !c.heard(run(0)) || c.heard(run(maxCancels)) {
			t.Errorf("%d cancels of a span are remembered, want the first %d", len(c.late), maxCancels)
		}
	})
}
