package executor

import (
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// TestARunStartsWhereItsLabelsAre: an executor that lacks labels which a run requires, itself or by
// its task, defers it, with the reason, and it uses no attempt. One that has them starts it, from
// whichever subject it comes.
func TestARunStartsWhereItsLabelsAre(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1", func(c *Config) { c.Labels = schema.Labels{"zone": "a"} })
		work := schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink"}, Requires: schema.Labels{"gpu": "true", "zone": "a"}}
		task := schema.Task{Tenant: "t", Name: "train", Work: work, UpdatedAt: time.Now()}
		if err := w.inner.PutTask(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		inline := w.entry(inAWhile(time.Second), func(s *schema.Spec) { s.Work = &work })
		named := w.entry(inAWhile(time.Second), func(s *schema.Spec) { s.Work, s.Task = nil, "train" })
		met := w.entry(inAWhile(time.Second), func(s *schema.Spec) {
			s.Work = &schema.Work{HTTP: work.HTTP, Requires: schema.Labels{"zone": "a"}}
		})
		for _, e := range []schema.Entry{inline, named, met} {
			w.publish(e, time.Now())
		}
		time.Sleep(2 * time.Second)
		for what, e := range map[string]schema.Entry{"itself": inline, "its task": named} {
			all := w.deferrals(e)
			if len(all) != 1 || all[0].Spec.AttemptNumber() != 1 || w.state(e.Run()) != schema.StatePending || w.causeOf(e) != schema.CausePool {
				t.Fatalf("%s requires labels that the executor lacks: %d entries stand in, it is %s, deferred for %q; want one, pending, for its pool", what, len(all), w.state(e.Run()), w.causeOf(e))
			}
		}
		if n := len(w.started()); n != 1 || w.state(met.Run()) != schema.StateSucceeded {
			t.Errorf("%d starts, the run whose labels the executor has is %s; want that one alone", n, w.state(met.Run()))
		}

		pool := queue.Pool("gpu=true,zone=a")
		w.begin("x2", func(c *Config) {
			c.Labels = schema.Labels{"gpu": "true", "zone": "a"}
			c.Pool = w.conn.Pool(pool)
		})
		for _, e := range []schema.Entry{inline, named} {
			again := w.deferrals(e)[0]
			w.publish(again, time.Now(), func(env *queue.Envelope) { env.Pool = pool })
			time.Sleep(max(0, time.Until(again.Due())) + time.Second)
			if got := w.state(e.Run()); got != schema.StateSucceeded {
				t.Errorf("where an executor has its labels it is %s, want succeeded", got)
			}
		}
	})
}

// TestDeferredForLabelsForLong: a run that waits for an executor is tried about every minute at
// first, and then every five: each try costs rows.
func TestDeferredForLabelsForLong(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		for _, c := range []struct {
			deferrals   int
			least, most time.Duration
		}{{0, 5 * time.Second, 8 * time.Second}, {3, 40 * time.Second, 61 * time.Second}, {49, time.Minute, 91 * time.Second}, {50, 5 * time.Minute, 451 * time.Second}} {
			e := w.entry(inAWhile(time.Second), func(s *schema.Spec) {
				s.Work = &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink"}, Requires: schema.Labels{"gpu": "true"}}
				s.Deferrals = c.deferrals
			})
			w.publish(e, time.Now())
			time.Sleep(2 * time.Second)
			all := w.deferrals(e)
			if len(all) != 1 {
				t.Fatalf("deferred %d times before: %d entries stand in, want one", c.deferrals, len(all))
			}
			if wait := all[0].Due().Sub(e.Due()); wait < c.least || wait > c.most || all[0].Spec.Deferrals != c.deferrals+1 {
				t.Errorf("deferred %d times before: deferred by %v, as number %d; want %v to %v, and one more", c.deferrals, wait, all[0].Spec.Deferrals, c.least, c.most)
			}
		}
	})
}
