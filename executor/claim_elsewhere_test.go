package executor

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// TestAClaimThatEndedElsewhere: an executor that lives has ended its claim in another data centre,
// and ours has the row that says so and not the end of the claim. The run goes on.
func TestAClaimThatEndedElsewhere(t *testing.T) {
	for _, c := range []struct {
		name   string
		record schema.Record // by the holder, unless it names another
		starts int
		story  string
		answer schematest.Fault // of the swap that ends the claim here
	}{
		{"unstarted", schema.Record{Outcome: schema.Lost, Unstarted: true}, 1, "1 unstarted, 1 succeeded", schematest.Fault{}},
		{"unstarted, and the answer is lost", schema.Record{Outcome: schema.Lost, Unstarted: true}, 1, "1 unstarted, 1 succeeded", schematest.Fault{Lose: true}},
		{"unstarted, and the store does not hear of it", schema.Record{Outcome: schema.Lost, Unstarted: true}, 1, "1 unstarted, 1 succeeded", schematest.Fault{Silent: true}},
		{"unstarted, and the answer comes late", schema.Record{Outcome: schema.Lost, Unstarted: true}, 1, "1 unstarted, 1 succeeded", schematest.Fault{Delay: 3 * time.Second}},
		{"lost", schema.Record{Outcome: schema.Lost}, 1, "1 lost, 2 succeeded", schematest.Fault{}},
		{"of another executor under the same fence", schema.Record{Outcome: schema.Lost, Unstarted: true, Executor: "somebody"}, 0, "1 unstarted", schematest.Fault{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x1")
				e := w.entry(inAWhile(time.Second), guarded(schema.EffectivelyOnce))
				holder := w.session(e, "s", time.Now().Add(time.Hour))
				holder.Guarded = true
				is, err := schema.Lease{Key: schema.RunLease(e.ID)}.Claimed(1, schema.EffectivelyOnce, *holder, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := w.inner.SwapLease(t.Context(), schema.Lease{Key: is.Key}, is, time.Now().Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
				rec := c.record
				rec.Entry, rec.Started, rec.Finished = e.ID, holder.Started, time.Now().UTC()
				if rec.Executor == "" {
					rec.Executor = holder.Executor
				}
				row := schema.Attempt{Run: e.ID, Number: 1, Fence: is.Fence, Record: &rec, Written: time.Now().UnixMicro(), Expires: time.Now().Add(time.Hour)}
				if err := w.inner.PutAttempts(t.Context(), []schema.Attempt{row}); err != nil {
					t.Fatal(err)
				}
				var swaps atomic.Int64
				w.befall(func(_ context.Context, op string) schematest.Fault {
					if op == "SwapLease" && swaps.Add(1) == 2 { // the first finds that the run is claimed
						return c.answer
					}
					return schematest.Fault{}
				})
				w.publish(e, time.Now())
				time.Sleep(20 * time.Second)
				if got := len(w.started()); got != c.starts || w.story(e.ID) != c.story {
					t.Errorf("%d starts, after %q; want %d after %q", got, w.story(e.ID), c.starts, c.story)
				}
				if c.starts > 0 {
					w.ends(e.ID, schema.StateSucceeded, c.story)
				}
			})
		})
	}
}
