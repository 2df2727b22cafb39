package executor

import (
	"context"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// TestAttemptsGoByTheRetentionOfTheirRun: what an executor records of a run leaves as the run's
// entry says, whatever its tenant's retention is by then, and after the entry itself.
func TestAttemptsGoByTheRetentionOfTheirRun(t *testing.T) {
	for name, days := range map[string]int{"a day": 1, "the cluster's": 0} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				x := w.begin("x")
				w.answer(func(context.Context, target.Call) target.Result {
					return target.Result{Outcome: schema.Succeeded}
				})
				e := w.entry(inAWhile(time.Second))
				e.Spec.Retention = days
				stays := 7 * 24 * time.Hour
				if days > 0 {
					stays = time.Duration(days) * 24 * time.Hour
				}
				e, err := schema.NewEntry(e.ID, e.Spec, e.Payload, e.Due().Add(stays))
				if err == nil {
					err = w.inner.PutEntries(t.Context(), []schema.Entry{e})
				}
				if err != nil {
					t.Fatal(err)
				}
				w.publish(e, time.Now())
				time.Sleep(2 * time.Second)
				x.kill()
				there := func() bool {
					got, err := w.inner.Attempts(t.Context(), e.ID.Partition(), []schema.RunID{e.ID})
					if err != nil {
						t.Fatal(err)
					}
					return len(got) > 0
				}
				time.Sleep(time.Until(e.Expires))
				if !there() {
					t.Errorf("when the entry leaves its attempts have left")
				}
				time.Sleep(bucketer.Outlast + time.Hour)
				if there() {
					t.Errorf("%v after the entry left its attempts are there", bucketer.Outlast+time.Hour)
				}
			})
		})
	}
}
