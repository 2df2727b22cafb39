package executor

import (
	"context"
	"testing"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// A run's row is kept from the due time of an entry on, which may lie minutes after its end. Its
// record left first, and a run that had failed was pending again.
func TestARecordOutlivesTheRowOfItsRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.begin("x")
		w.answer(func(context.Context, target.Call) target.Result {
			return target.Result{Outcome: schema.Failed, Final: true}
		})
		e := w.entry(inAWhile(time.Second))
		w.publish(e, time.Now())
		time.Sleep(2 * time.Second)
		x.kill()
		kept := e
		kept.Expires = e.Expires.Add(5 * time.Minute) // as for a watch entry that is due then
		if err := w.inner.PutEntries(t.Context(), []schema.Entry{kept}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(kept.Expires) - time.Second)
		if got := w.state(e.ID); got != schema.StateFailed {
			t.Errorf("just before its row leaves the run is %s, want failed", got)
		}
	})
}
