package runs

import (
	"context"
	"errors"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// otherRegions are told of rows, unless they do not answer.
type otherRegions struct{ silent bool }

func (o *otherRegions) Ready() error                                 { return nil }
func (o *otherRegions) Confirm(context.Context, schema.Copies) error { return o.answer() }
func (o *otherRegions) ConfirmClaim(context.Context, string) error   { return o.answer() }
func (o *otherRegions) answer() error {
	if o.silent {
		return &schema.NotEverywhereError{Regions: []string{"us"}, Written: true}
	}
	return nil
}

// TestAClaimIsKnownEverywhereBeforeACancelEndsIt: a region that does not know of the claim starts
// the run once it serves its home. So it must not be recorded that the run may have been called.
func TestAClaimIsKnownEverywhereBeforeACancelEndsIt(t *testing.T) {
	for _, everywhere := range []bool{true, false} {
		inWorld(t, func(t *testing.T, w *world) {
			homes, err := schema.NewHomes([]schema.Home{{Name: "eu", Shards: []schema.ShardRange{{First: 0, Last: 63}}}})
			if err != nil {
				t.Fatal(err)
			}
			var others otherRegions
			w.open(bucketer.Config{Halted: w.Stopped.Load, Regions: &bucketer.Regions{
				Region: "eu", Homes: homes, Everywhere: &others, Served: func(schema.Shard) (int64, error) { return 1, nil },
			}})
			job := callTo(time.Time{})
			job.Work.Guarantee = schema.AtMostOnce
			if everywhere {
				job.Durability = schema.DurableEverywhere
			}
			run := w.submit(job)
			now := time.Now()
			holder := schema.SessionRef{Executor: "x", ID: "s", Started: now, Entry: run, Guarded: true}
			claim, err := schema.Lease{}.Claimed(1, schema.AtMostOnce, holder, now)
			if err != nil {
				t.Fatal(err)
			}
			claim.Key = schema.RunLease(run)
			if _, err := w.Store().SwapLease(t.Context(), schema.Lease{}, claim, now.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			others.silent = true
			_, err = w.Cancel(t.Context(), "t", run, "me")
			stands, _ := w.Store().Lease(t.Context(), claim.Key)
			var missing *schema.NotEverywhereError
			if errors.As(err, &missing) != everywhere || (stands.Holder != nil) != everywhere {
				t.Errorf("everywhere %v, the claim is known here alone: Cancel = %v, and %+v holds the run; want that it ends the claim only of a run of durability home", everywhere, err, stands.Holder)
			}
			others.silent = false
			w.cancel(run)
			got := w.mustRun(run)
			if stands, _ = w.Store().Lease(t.Context(), claim.Key); got.State != schema.StateCancelled || stands.Holder != nil || len(got.Attempts) != 1 || got.Attempts[0].Number != 1 {
				t.Errorf("everywhere %v, all know of the claim: the run is %s after %+v, and %+v holds it; want it cancelled, and that attempt 1 says so", everywhere, got.State, got.Attempts, stands.Holder)
			}
		})
	}
}
