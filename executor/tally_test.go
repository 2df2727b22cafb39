package executor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// named returns what a node counted of a kind, by name.
func (n *node) named(kind schema.StatsKind) map[string]schema.Counts {
	by := make(map[string]schema.Counts)
	for _, c := range n.recorder.tally.Names(kind).Names {
		by[c.Tenant+"/"+c.Name] = c.Counts
	}
	return by
}

// Runs count by tenant, task and host, under the host that their task calls.
func TestRunsAreCountedByName(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for task, url := range map[string]string{"well": "https://Well.test/a?b", "ill": "http://ill.test:81"} {
			work := schema.Work{HTTP: &schema.HTTPTarget{URL: url}, Retry: &schema.Retry{MaxAttempts: 2, Jitter: "none"}}
			if err := w.inner.PutTask(t.Context(), schema.Task{Tenant: "t", Name: task, Work: work, UpdatedAt: time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		w.answer(func(_ context.Context, c target.Call) target.Result {
			if c.Work.HTTP.URL == "http://ill.test:81" {
				return target.Result{Outcome: schema.Failed}
			}
			return target.Result{Outcome: schema.Succeeded}
		})
		n := w.begin("a")
		for i := range 10 {
			task := []string{"well", "ill"}[i%2]
			e := w.entry(inAWhile(500*time.Millisecond), func(s *schema.Spec) { s.Work, s.Task = nil, task })
			w.publish(e, time.Now())
		}
		late := w.entry(inAWhile(-3*time.Second), func(s *schema.Spec) { s.Tenant, s.Accepted = "u", 1 })
		w.publish(late, time.Now())
		time.Sleep(2 * time.Second)
		well := schema.Counts{Started: 5, Succeeded: 5, Lateness: schema.LatenessCounts{5}}
		ill := schema.Counts{Started: 5, Failed: 5, Retried: 5, Lateness: schema.LatenessCounts{5}}
		both := well
		both.Add(&ill)
		for kind, want := range map[schema.StatsKind]map[string]schema.Counts{
			schema.ByTask: {"t/well": well, "t/ill": ill}, schema.ByJob: {},
		} {
			if got := n.named(kind); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("by %s were counted %+v, want %+v", kind, got, want)
			}
		}
		hosts := n.named(schema.ByHost)
		if hosts["t/well.test"] != well || hosts["t/ill.test:81"] != ill || len(hosts) != 3 {
			t.Errorf("by host were counted %+v", hosts)
		}
		tenants := n.named(schema.ByTenant)
		u := tenants["u/"]
		if tenants["t/"] != both || u.Started != 1 || u.Lateness.Late() != 1 || u.MaxLateness.Std() < 3*time.Second || len(tenants) != 2 {
			t.Errorf("by tenant were counted %+v, want %+v and one that was late", tenants, both)
		}
	})
}

// A run that takes its time counts as started soon after its start, whatever guards it, and once.
func TestLongRunsAreCountedWhenTheyStart(t *testing.T) {
	for _, g := range []schema.Guarantee{schema.AtLeastOnce, schema.AtMostOnce, schema.EffectivelyOnce} {
		for _, doubt := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in doubt %v", g, doubt), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					w.answer(func(context.Context, target.Call) target.Result {
						time.Sleep(time.Minute)
						return target.Result{Outcome: schema.Succeeded}
					})
					n := w.begin("a")
					e := w.entry(inAWhile(500*time.Millisecond), func(s *schema.Spec) {
						s.Work.Guarantee, s.Work.Timeout = g, schema.Duration(2*time.Minute)
					})
					change := again(0)
					if doubt {
						change = redispatched
					}
					w.publish(e, time.Now(), change)
					time.Sleep(2500 * time.Millisecond)
					if got := n.named(schema.ByTenant)["t/"]; got.Started != 1 || got.Succeeded != 0 {
						t.Errorf("two seconds after the start were counted %+v, want one start", got)
					}
					time.Sleep(time.Minute)
					if got := n.named(schema.ByHost)["t/sink"]; got.Started != 1 || got.Succeeded != 1 {
						t.Errorf("after the end were counted %+v, want one start and one success", got)
					}
				})
			})
		}
	}
}
