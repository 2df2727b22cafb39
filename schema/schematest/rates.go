package schematest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

// rated returns the names of the tenant's tasks that may have a rate, read page by page. Others' may lie around them.
func (b *bench) rated(tenant string, limit int) []string {
	b.Helper()
	var names []string
	for after := (schema.TaskName{Tenant: tenant}); ; {
		page, err := b.store.RatedTasks(b.ctx, after, limit)
		b.must(err, "RatedTasks")
		if len(page) > limit {
			b.Fatalf("RatedTasks = %d tasks, want at most %d", len(page), limit)
		}
		for _, t := range page {
			if t.Tenant < after.Tenant || t.Tenant == after.Tenant && t.Name <= after.Name {
				b.Fatalf("RatedTasks after %v = %v: out of order", after, page)
			}
			if after = t; t.Tenant == tenant {
				names = append(names, t.Name)
			}
		}
		if len(page) < limit || after.Tenant != tenant {
			return names
		}
	}
}

var rateRules = []rule{
	{"noted, noted otherwise, the later stays", func(b *bench) {
		task := schema.TaskName{Tenant: b.tenant, Name: "t"}
		for _, step := range []struct {
			name  string
			rated bool
			age   int
			want  int
		}{
			{"never noted, taken back", false, 0, 0},
			{"noted", true, 2, 1},
			{"noted again", true, 2, 1},
			{"taken back before that", false, 1, 1},
			{"taken back at the same instant", false, 2, 0},
			{"an old note again", true, 1, 0},
			{"noted later", true, 4, 1},
			{"taken back in between", false, 3, 1},
			{"taken back", false, 5, 0},
			{"and noted again", true, 6, 1},
		} {
			b.must(b.store.PutRated(b.ctx, task, step.rated, b.now.Add(time.Duration(step.age)*time.Millisecond)), "PutRated: %s", step.name)
			if got := b.rated(b.tenant, 10); len(got) != step.want {
				b.Errorf("after it was %s: RatedTasks = %q, want %d", step.name, got, step.want)
			}
		}
	}},
	{"listed by tenant and name, page by page", func(b *bench) {
		names := []string{"a", "a-b", "a.b", "aa", "b", "b0", "c"}
		for _, tenant := range []string{b.tenant, b.tenant + "-a", b.tenant + "0"} {
			for _, name := range names {
				b.must(b.store.PutRated(b.ctx, schema.TaskName{Tenant: tenant, Name: name}, true, b.now), "PutRated")
			}
		}
		b.must(b.store.PutRated(b.ctx, schema.TaskName{Tenant: b.tenant, Name: "gone"}, true, b.now), "PutRated")
		b.must(b.store.PutRated(b.ctx, schema.TaskName{Tenant: b.tenant, Name: "gone"}, false, b.now.Add(time.Millisecond)), "PutRated")
		slices.Sort(names)
		for _, limit := range []int{1, 3, 7, 100} {
			for _, tenant := range []string{b.tenant, b.tenant + "-a"} {
				if got := b.rated(tenant, limit); !slices.Equal(got, names) {
					b.Errorf("RatedTasks of %s, %d a page = %q, want %q", tenant, limit, got, names)
				}
			}
		}
	}},
	// The lease of a rate is a register like others. That what is taken from it is each taken once, also by those who were not answered, is what it is for.
	{"starts are taken once, by many at a time", func(b *bench) {
		task := schema.TaskName{Tenant: b.tenant, Name: "t"}
		rate := schema.Rate{Count: 50, Per: time.Second}
		const takers, blocks, each = 4, 5, 3
		var mu sync.Mutex
		var all []time.Time
		var wg sync.WaitGroup
		for taker := range takers {
			wg.Go(func() {
				lease := schema.Lease{Key: schema.RateLease(task, rate)}
				for block := 0; block < blocks; {
					is, starts := lease.Reserve(rate, each, b.now, time.Hour, fmt.Sprintf("%d-%d", taker, block))
					stands, err := b.store.SwapLease(b.ctx, lease, is, is.ReservationsExpire())
					if err == nil {
						mu.Lock()
						for i := range starts.Count {
							all = append(all, starts.At(i))
						}
						mu.Unlock()
						block++
					}
					if stands.Fence != 0 {
						lease = stands
					}
				}
			})
		}
		wg.Wait()
		slices.SortFunc(all, time.Time.Compare)
		if n := len(slices.Compact(slices.Clone(all))); n != takers*blocks*each {
			b.Fatalf("%d different starts, want %d", n, takers*blocks*each)
		}
		for i := range len(all) - rate.Count {
			if span := all[i+rate.Count].Sub(all[i]); span < rate.Per {
				b.Errorf("%d starts within %s", rate.Count+1, span)
			}
		}
	}},
}
