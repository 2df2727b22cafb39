package target

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

func TestATenantLeavesRoomForOthers(t *testing.T) {
	output := make([]byte, freeOutput+2*grantStep-1)
	t.Run("http", func(t *testing.T) {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(output) })
		h, call := newHTTP(t, HTTPConfig{}), callTo(s.URL)
		leavesRoom(t, func(budget *ByteBudget, tenant string) Result {
			h.budget, call.Tenant = budget, tenant
			return h.Run(t.Context(), call)
		})
	})
	t.Run("nats", func(t *testing.T) {
		n, call := newNATS(func(_ context.Context, _ string, _ map[string]string, _ []byte, hear func(queue.Reply) bool) error {
			hear(queue.Reply{Body: output})
			return nil
		}), natsCall()
		leavesRoom(t, func(budget *ByteBudget, tenant string) Result {
			n.budget, call.Tenant = budget, tenant
			return n.Run(t.Context(), call)
		})
	})
}

// leavesRoom checks that beside a tenant that keeps all it can get another finds budget. run has a
// target take in an output of 64 KiB and two steps, less a byte.
func leavesRoom(t *testing.T, run func(budget *ByteBudget, tenant string) Result) {
	t.Helper()
	const steps = 8
	budget := NewByteBudget(steps * grantStep)
	for range 2 { // the second time with all that was given back
		var all []Result
		for _, c := range []struct {
			tenant      string
			whole, left int // outputs of four, and steps after them
		}{{"greedy", 2, 4}, {"newcomer", 1, 2}} {
			whole := 0
			for range 4 {
				res := run(budget, c.tenant)
				if all = append(all, res); res.Outcome == schema.Succeeded && !res.OutputCut && len(res.Output) == freeOutput+2*grantStep-1 {
					whole++
				}
			}
			if whole != c.whole || budget.free != c.left*grantStep {
				t.Errorf("four outputs of %s: %d are whole, and %d bytes of room left; want %d, %d", c.tenant, whole, budget.free, c.whole, c.left*grantStep)
			}
		}
		for _, res := range all {
			res.Memory.Release()
		}
		if budget.free != steps*grantStep || len(budget.held) != 0 {
			t.Errorf("all given back: %d left, and held %v; want %d, and nothing", budget.free, budget.held, steps*grantStep)
		}
	}
}

// TestAHeadHoldsNoMore: the header of a worker's error may be as long as a message, and its head
// stays in memory until the record is written.
func TestAHeadHoldsNoMore(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	var got string
	if allocs := testing.AllocsPerRun(10, func() { got = Truncate(long, MaxError) }); allocs != 1 || got != long[:MaxError] {
		t.Errorf("Truncate: %d bytes with %v allocations, want %d that are a copy", len(got), allocs, MaxError)
	}
	if allocs := testing.AllocsPerRun(10, func() { got = Truncate(long, len(long)) }); allocs != 0 || got != long {
		t.Errorf("Truncate of what is short enough: %d bytes with %v allocations, want the text itself", len(got), allocs)
	}
}
