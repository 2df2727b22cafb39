package executor

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// tasksFunc answers for any task.
type tasksFunc func() (schema.Task, error)

func (f tasksFunc) Task(context.Context, string, string) (schema.Task, error) { return f() }

// byTask has an entry name a task.
func byTask(s *schema.Spec) { s.Work, s.Task = nil, "t" }

// asTask is the task that a test's executors know, under a guarantee, as it was put at.
func asTask(g schema.Guarantee, at time.Time) schema.Task {
	return schema.Task{Tenant: "t", Name: "t", UpdatedAt: at, Work: schema.Work{HTTP: &schema.HTTPTarget{URL: "http://a.example/"}, Guarantee: g}}
}

// TestTheTurnToClaimComesBack: a task became guarded, or was deleted, between the two times that an
// attempt read it. The look took a turn to claim which nobody gave back, and with the last of them
// every guarded run of the executor would have waited for ever.
func TestTheTurnToClaimComesBack(t *testing.T) {
	for _, c := range []struct {
		name string
		then func() (schema.Task, error)
	}{
		{"it became guarded", func() (schema.Task, error) { return asTask(schema.EffectivelyOnce, time.Now()), nil }},
		{"it was put again", func() (schema.Task, error) { return asTask(schema.AtLeastOnce, time.Now()), nil }},
		{"it was deleted", func() (schema.Task, error) { return schema.Task{}, schema.ErrNotFound }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				var reads atomic.Int64
				x := w.begin("x1", func(cfg *Config) {
					cfg.Tasks = tasksFunc(func() (schema.Task, error) {
						switch n := reads.Add(1); {
						case n > 2:
							return c.then()
						case n == 2: // for so long that the rows have to be looked at
							time.Sleep(3 * time.Second)
						}
						return asTask(schema.AtLeastOnce, time.Time{}), nil
					})
				})
				w.publish(w.entry(inAWhile(time.Second), byTask), time.Now())
				time.Sleep(time.Minute)
				if reads.Load() < 3 || len(w.started()) != 1 {
					t.Fatalf("%d reads of the task, %d starts, want a look and a start", reads.Load(), len(w.started()))
				}
				if busy, _ := x.claimSlots.InUse(); busy != 0 {
					t.Errorf("%d turns to claim are taken, and nothing runs", busy)
				}
			})
		})
	}
}

// TestAtMostOnceOutlivesItsTask: whether a lost attempt may be followed by another is for the
// guarantee to say under which it claimed the run. Its task said it, and where that was changed or
// away for a moment, a run of at_most_once started twice.
func TestAtMostOnceOutlivesItsTask(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(n int64, put time.Time) (schema.Task, error)
	}{
		{"as it was", func(int64, time.Time) (schema.Task, error) { return asTask(schema.AtMostOnce, time.Time{}), nil }},
		{"away while the loss is found", func(n int64, put time.Time) (schema.Task, error) {
			if n <= 2 {
				return schema.Task{}, schema.ErrNotFound
			}
			return asTask(schema.AtMostOnce, put), nil
		}},
		{"at_least_once since", func(_ int64, put time.Time) (schema.Task, error) { return asTask(schema.AtLeastOnce, put), nil }},
		{"effectively_once since", func(_ int64, put time.Time) (schema.Task, error) { return asTask(schema.EffectivelyOnce, put), nil }},
	} {
		for _, known := range []bool{false, true} {
			name := c.name + ", and its row says that it runs"
			if !known {
				name = c.name + ", and nothing but its lease says that it runs"
			}
			t.Run(name, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					store := &alone{}
					w.begin("x1", cutOff(store), func(cfg *Config) {
						cfg.Tasks = tasksFunc(func() (schema.Task, error) { return asTask(schema.AtMostOnce, time.Time{}), nil })
					})
					w.answer(func(context.Context, target.Call) target.Result {
						time.Sleep(time.Hour)
						return target.Result{Outcome: schema.Succeeded}
					})
					e := w.entry(inAWhile(time.Second), byTask)
					if !known {
						w.breakDown("PutAttempts")
					}
					w.publish(e, time.Now())
					time.Sleep(5 * time.Second)
					store.cut.Store(true) // x1 died, as far as others can tell
					time.Sleep(time.Minute)
					w.breakDown()
					put := time.Now()
					var n atomic.Int64
					w.begin("x2", func(cfg *Config) {
						cfg.Tasks = tasksFunc(func() (schema.Task, error) { return c.then(n.Add(1), put) })
					})
					w.publish(e, time.Now(), redispatched)
					time.Sleep(10 * time.Second)
					if got := w.state(e.ID); len(w.started()) != 1 || got != schema.StateFailed {
						t.Errorf("%d starts, and the run is %s; want one, and that it failed: %s", len(w.started()), got, w.story(e.ID))
					}
				})
			})
		}
	}
}

// odd answers one swap of a lease by an error that is no sentinel, as a store does that cannot look
// up a role's permissions for a moment; and every one from then on, of that lease alone, if it goes
// on.
type odd struct {
	Store
	nth    int64
	goesOn bool
	seen   atomic.Int64
	key    atomic.Value // of the lease
}

func (s *odd) SwapLease(ctx context.Context, was, is schema.Lease, expires time.Time) (schema.Lease, error) {
	if s.seen.Add(1) == s.nth {
		s.key.Store(is.Key)
	} else if !s.goesOn {
		return s.Store.SwapLease(ctx, was, is, expires)
	}
	if is.Key == s.key.Load() {
		return schema.Lease{}, errors.New("unauthorized")
	}
	return s.Store.SwapLease(ctx, was, is, expires)
}

// TestAnOddErrorEndsNoClaim: an outcome that could not be written into the lease once, for a reason
// that nobody knows, was dropped, and the run counted as running for as long as its executor lived.
func TestAnOddErrorEndsNoClaim(t *testing.T) {
	for _, g := range guarantees {
		for _, c := range []struct {
			name string
			nth  int64
		}{{"the claim", 1}, {"the outcome", 2}} {
			t.Run(string(g)+", "+c.name, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					w.begin("x1", func(cfg *Config) { cfg.Store = &odd{Store: cfg.Store, nth: c.nth} })
					e := w.entry(inAWhile(time.Second), guarded(g))
					w.publish(e, time.Now())
					time.Sleep(time.Minute)
					if l, _ := w.lease(e.ID); l.Holder != nil || len(w.started()) != 1 || w.state(e.ID) != schema.StateSucceeded {
						t.Errorf("the run is %s after %d starts, its lease held: %v; want that it succeeded", w.state(e.ID), len(w.started()), l.Holder != nil)
					}
				})
			})
		}
	}
}

// TestALeaseThatCannotBeSwappedHoldsUpNobody: what is odd about one lease, such as a holder whom
// another version wrote down, is no failure of the store: other runs are taken on.
func TestALeaseThatCannotBeSwappedHoldsUpNobody(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1", func(cfg *Config) { cfg.Store = &odd{Store: cfg.Store, nth: 2, goesOn: true} })
		first := w.entry(inAWhile(time.Second), guarded(schema.EffectivelyOnce))
		w.publish(first, time.Now())
		time.Sleep(10 * time.Second)
		other := w.entry(inAWhile(time.Second), guarded(schema.EffectivelyOnce))
		w.publish(other, time.Now())
		time.Sleep(10 * time.Second)
		if l, _ := w.lease(first.ID); l.Holder == nil {
			t.Fatal("the first run is over: nothing is held up")
		}
		if got := w.state(other.ID); got != schema.StateSucceeded {
			t.Errorf("another run is %s, want succeeded", got)
		}
	})
}
