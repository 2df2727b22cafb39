package dispatcher

import (
	"context"
	"fmt"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/schema"
)

// imported takes in n lines of a tenant without keys that are due at an instant, as an import does:
// chunk by chunk.
func (r *rig) imported(b *engine.Engine, tenant string, n int, at time.Time) {
	r.t.Helper()
	for n > 0 {
		jobs := make([]bucketer.Job, min(n, bucketer.MaxChunk))
		for i := range jobs {
			jobs[i] = bucketer.Job{Tenant: tenant, At: at, Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink"}}}
		}
		b.SubmitBatch(context.Background(), jobs, func(i int, _ bucketer.Receipt, err error) {
			if err != nil {
				r.t.Errorf("line %d of tenant %s: %v", i, tenant, err)
			}
		})
		n -= len(jobs)
	}
}

// TestImportsAreStartedByWeightOnManyDispatchers: two tenants of weights 1 and 3 import into one
// minute. Weights hold within a dispatcher, so they hold in the cluster only if both have lines on
// each.
func TestImportsAreStartedByWeightOnManyDispatchers(t *testing.T) {
	const (
		shards, n = 64, 8_000
		ends      = 4 * n * time.Second / 2000 // of all, at what the hand takes
	)
	for _, nodes := range []int{2, 4} {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			inBubble(t, shards, func(t *testing.T, r *rig) {
				r.shares = map[string]int{"heavy": 3}
				var names []string
				for i := range nodes {
					names = append(names, fmt.Sprintf("d%d", i+1))
				}
				if err := r.ring.Set(members(names...), nil, shards); err != nil {
					t.Fatal(err)
				}
				h := r.slowHand(nil, 100, 50*time.Millisecond) // 2000 a second
				for _, name := range names {
					r.start(name)
				}
				time.Sleep(5 * time.Second)
				at := time.Now().Add(10 * time.Second).Truncate(time.Second)
				b := r.writer(r.conn)
				r.imported(b, "light", n, at)
				r.imported(b, "heavy", 3*n, at)

				from, to := at.Add(ends/10), at.Add(ends*8/10)
				time.Sleep(time.Until(to))
				began := make(map[string]float64)
				for _, s := range h.all() {
					if !s.at.Before(from) {
						began[s.env.Entry.Spec.Tenant]++
					}
				}
				sum := began["light"] + began["heavy"]
				if least := 0.9 * 2000 * to.Sub(from).Seconds(); sum < least {
					t.Errorf("%.0f runs began, want at least %.0f: some dispatcher has nothing to do", sum, least)
				}
				for tenant, want := range map[string]float64{"light": 1. / 4, "heavy": 3. / 4} {
					if got := began[tenant] / sum; got < want*0.9 || got > want*1.1 {
						t.Errorf("tenant %s has a share of %.3f, want %.3f to a tenth", tenant, got, want)
					} else {
						t.Logf("tenant %s has a share of %.3f of %.0f", tenant, got, sum)
					}
				}
				time.Sleep(time.Until(at.Add(ends + 10*time.Second)))
				if got := len(h.all()); got != 4*n {
					t.Errorf("%d runs began in the end, want all %d", got, 4*n)
				}
			})
		})
	}
}
