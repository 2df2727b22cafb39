package notifications_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// TestLostAnswers: every third write of a notifier is done and its answer is lost. What happened is
// told once all the same.
func TestLostAnswers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.put(nil)
		defer w.notify(always())()
		var writes, lost atomic.Int64
		w.Befall(func(_ context.Context, op string) schematest.Fault {
			group := strings.HasSuffix(op, "NotificationGroup")
			if (group || op == "PutEntries") && writes.Add(1)%3 == 0 {
				lost.Add(1)
				return schematest.Fault{Lose: true}
			}
			return schematest.Fault{}
		})
		const many = 100
		for i := range many {
			w.fail("a", schema.JobID{}, i)
			time.Sleep(time.Second)
		}
		time.Sleep(30 * time.Minute)
		counted := 0
		all := w.messages()
		for _, m := range all {
			counted += m.Data.Count
		}
		if counted != many || len(all) != 2 {
			t.Errorf("%d messages tell of %d failures, want 2 and %d: %+v", len(all), counted, many, all)
		}
		if lost.Load() < 3 {
			t.Errorf("%d answers were lost, want some: else nothing was tested", lost.Load())
		}
	})
}
