package executor

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// TestNeverEarlyWhenTheClockIsSetBack: what was in hand waits for its instant by the clock as it is
// now.
func TestNeverEarlyWhenTheClockIsSetBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.begin("x1")
		due := inAWhile(time.Second)
		w.publish(w.entry(due), time.Now())
		time.Sleep(500 * time.Millisecond)
		x.skew.Store(int64(-3 * time.Second))
		time.Sleep(5 * time.Second)
		starts := w.started()
		if len(starts) != 1 || w.deliveries.Load() != 1 || starts[0].at.Add(-3*time.Second).Before(due) {
			t.Errorf("starts by a clock that is 3 s slow: got %v, want one no sooner than %v", starts, due.Add(3*time.Second))
		}
	})
}

// TestGivesBackWhileTheClockIsWrong: what was in hand when the clock was set back waited until it
// had caught up, however long, while others whose clocks were right got nothing to start.
func TestGivesBackWhileTheClockIsWrong(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var wrong atomic.Bool
		x := w.begin("x1", func(c *Config) { c.Halt.Also(wrong.Load) })
		w.begin("x2")
		due := inAWhile(3 * time.Second)
		for range 8 {
			w.publish(w.entry(due), due.Add(-time.Second))
		}
		time.Sleep(2 * time.Second) // both hold some
		x.skew.Store(int64(-90 * time.Second))
		wrong.Store(true)
		time.Sleep(10 * time.Second)
		starts := w.started()
		if len(starts) != 8 {
			t.Errorf("started within 9 s of the due time: got %d runs, want all 8", len(starts))
		}
		for _, s := range starts {
			if s.at.Before(due) || s.at.After(due.Add(markWithin+batchWithin)) {
				t.Errorf("start: got %v, want at %v or as soon as its session is noted", s.at, due)
			}
		}
	})
}

// TestHoldsWhileTheClockIsSetBack: messages in hand were not kept in progress until the clock had
// caught up, and others took them.
func TestHoldsWhileTheClockIsSetBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.begin("x1")
		w.answer(func(context.Context, target.Call) target.Result {
			x.skew.Store(int64(-time.Hour))
			time.Sleep(900 * time.Millisecond)
			return target.Result{Outcome: schema.Succeeded}
		})
		w.breakDown("PutAttempts") // so that it stays in hand
		w.publish(w.entry(inAWhile(time.Second)), time.Now())
		time.Sleep(9 * time.Second)
		if got := w.deliveries.Load(); got != 1 {
			t.Errorf("deliveries: got %d, want 1: it is held", got)
		}
		w.befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
	})
}

// meanwhile is a Tasks in whose answer something happens, once.
type meanwhile struct {
	Tasks
	happen func()
}

func (m *meanwhile) Task(ctx context.Context, tenant, name string) (schema.Task, error) {
	task, err := m.Tasks.Task(ctx, tenant, name)
	if f := m.happen; f != nil {
		m.happen = nil
		f()
	}
	return task, err
}

// TestJudgedAtTheStart: what happened after an attempt had found its slot, while its work was read,
// was not asked about any more.
func TestJudgedAtTheStart(t *testing.T) {
	for _, tc := range []struct {
		name   string
		happen func(*node)
		want   string
		lag    time.Duration // of the start
	}{
		{"the executor was stopped", func(n *node) { n.term() }, "return", 0},
		{"the clock was set back", func(n *node) { n.skew.Store(int64(-2 * time.Second)) }, "return, session 1, start 1, record 1 succeeded, notice, ack", 2 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				task := schema.Task{Tenant: "t", Name: "a", Work: schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink"}}, UpdatedAt: time.Now()}
				if err := w.inner.PutTask(context.Background(), task); err != nil {
					t.Fatal(err)
				}
				m := new(meanwhile)
				x := w.begin("x1", func(c *Config) { m.Tasks, c.Tasks = c.Tasks, m })
				m.happen = func() { tc.happen(x) }
				due := inAWhile(time.Second)
				w.publish(w.entry(due, func(s *schema.Spec) { s.Work, s.Task = nil, "a" }), time.Now())
				time.Sleep(6 * time.Second)
				w.want(tc.name, tc.want)
				if starts := w.started(); len(starts) == 1 && (starts[0].at.Before(due.Add(tc.lag)) || starts[0].at.After(due.Add(tc.lag+markWithin+batchWithin))) {
					t.Errorf("start: got %v, want %v", starts[0].at, due.Add(tc.lag))
				}
			})
		})
	}
}

// TestDrain: what waits goes back at once and starts elsewhere, what ends in time is recorded, what
// hangs is stopped and does not count.
func TestDrain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.begin("x1", func(c *Config) { c.DrainTimeout = 10 * time.Second })
		var stopped atomic.Int64
		w.answer(func(ctx context.Context, c target.Call) target.Result {
			wait := 5 * time.Second
			if c.Run.Hash() == 2 {
				wait = time.Hour
			}
			select {
			case <-time.After(wait):
				return target.Result{Outcome: schema.Succeeded}
			case <-ctx.Done():
				if errors.Is(context.Cause(ctx), target.ErrStopped) {
					stopped.Add(1)
				}
				return target.Ended(ctx)
			}
		})
		short, hanging, waiting := w.entry(inAWhile(time.Second)), w.entry(inAWhile(time.Second)), w.entry(inAWhile(3*time.Second))
		for _, e := range []schema.Entry{short, hanging, waiting} {
			w.publish(e, time.Now())
		}
		time.Sleep(1800 * time.Millisecond)
		w.happened()
		began := time.Now()
		x.term()
		synctest.Wait()
		w.want("at the stop", "return")
		x.kill()
		if took := time.Since(began); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("the drain took %v, want the time-out of 10 s", took)
		}
		// The two cells are written in one batch, or one after the other.
		const rest = "record 1 succeeded, notice, record 1 lost"
		if got := w.happened(); got != "session 1, session 1, ack, ack, "+rest && got != "session 1, ack, session 1, ack, "+rest {
			t.Errorf("in the drain:\n got %s\nwant two cells, and %s", got, rest)
		}
		if stopped.Load() != 1 {
			t.Errorf("attempts stopped by ErrStopped: got %d, want 1", stopped.Load())
		}
		if _, err := w.inner.Session(context.Background(), "x1"); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("session after the stop: got %v, want none", err)
		}
		w.begin("x2")
		time.Sleep(6 * time.Second)
		w.want("elsewhere", "session 1, start 1, ack, record 1 succeeded, notice")
	})
}

// TestDrainWaitsForTheStore: an outcome that could not be recorded at the first try of the stop was
// given up.
func TestDrainWaitsForTheStore(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.begin("x1")
		w.breakDown("PutAttempts")
		w.publish(w.entry(inAWhile(time.Second)), time.Now())
		time.Sleep(1500 * time.Millisecond)
		time.AfterFunc(2*time.Second, func() { w.befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} }) })
		x.kill()
		w.want("the stop", "start 1, record 1 succeeded, notice, ack")
	})
}

// TestHandIsBounded: four priorities that are asked for at once brought four times what may be in
// hand. What only waits to be recorded does not count.
func TestHandIsBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const slots = 16
		x := w.begin("x1", func(c *Config) { c.Slots = slots })
		w.answer(func(context.Context, target.Call) target.Result {
			time.Sleep(300 * time.Millisecond)
			return target.Result{Outcome: schema.Succeeded}
		})
		ahead := func() int {
			synctest.Wait()
			return x.Running() - x.recorder.outcomes()
		}
		for i := range 400 {
			w.publish(w.entry(inAWhile(0), func(s *schema.Spec) { s.Priority = schema.Priorities[i%4] }), time.Now())
			if got := ahead(); got > 2*slots {
				t.Fatalf("in hand: got %d, want at most %d", got, 2*slots)
			}
		}
		full := 0
		for range 300 {
			time.Sleep(50 * time.Millisecond)
			got := ahead()
			if got > 2*slots {
				t.Fatalf("in hand: got %d, want at most %d", got, 2*slots)
			}
			if got >= slots {
				full++
			}
		}
		served := map[schema.RunID]bool{}
		for _, s := range w.started() {
			served[s.Run] = true
		}
		if len(served) != 400 || w.open() != 0 {
			t.Errorf("served: got %d runs, %d messages left, want 400 and none", len(served), w.open())
		}
		if full == 0 {
			t.Error("the slots were never full")
		}
	})
}

// TestOnePriorityFillsEverySlot: fetches of the others that wait in vain do not keep slots empty.
func TestOnePriorityFillsEverySlot(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const slots = 16
		w.begin("x1", func(c *Config) { c.Slots = slots })
		w.answer(func(ctx context.Context, _ target.Call) target.Result {
			time.Sleep(10 * time.Second)
			return target.Result{Outcome: schema.Succeeded}
		})
		for i := range 3 * slots {
			w.publish(w.entry(inAWhile(0), ofOneOfTwo(i)), time.Now())
		}
		time.Sleep(3 * time.Second)
		if got := len(w.started()); got != slots {
			t.Errorf("under way: got %d, want %d", got, slots)
		}
	})
}

// TestFewSlotsAreKeptBusy: an executor of few slots looked for more only when what had ended was
// recorded, ten times a second, and its slots were empty meanwhile.
func TestFewSlotsAreKeptBusy(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const slots, runs, takes = 8, 1400, 10 * time.Millisecond
		w.begin("x1", func(c *Config) { c.Slots = slots })
		w.answer(func(context.Context, target.Call) target.Result {
			time.Sleep(takes)
			return target.Result{Outcome: schema.Succeeded}
		})
		for i := range runs {
			w.publish(w.entry(inAWhile(0), ofOneOfTwo(i)), time.Now())
		}
		const ideal = runs / slots * takes
		time.Sleep(time.Second + 3*ideal/2) // the first of it passes before they are due
		if got := len(w.started()); got != runs {
			t.Errorf("started by %d slots within %v: got %d, want all %d, which take %v", slots, 3*ideal/2, got, runs, ideal)
		}
	})
}

// TestStoreTroubleDoesNotSpin: messages whose look failed went back at once, to be fetched and
// looked at again as fast as the store could fail.
func TestStoreTroubleDoesNotSpin(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		w.breakDown("EntriesByID")
		var calls atomic.Int64
		w.befall(func(_ context.Context, op string) schematest.Fault {
			if op != "EntriesByID" {
				return schematest.Fault{}
			}
			if calls.Add(1) > 1000 {
				time.Sleep(time.Second) // so that a spin ends
			}
			return schematest.Fault{Fail: true}
		})
		w.publish(w.entry(inAWhile(0)), time.Now(), redispatched)
		time.Sleep(5 * time.Second)
		if got := calls.Load(); got > 11 {
			t.Errorf("looks within 5 s: got %d, want at most one in %v", got, postponeFor)
		}
	})
}

// TestPayloadThatHasLeftEndsTheRun: it was asked for without end.
func TestPayloadThatHasLeftEndsTheRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		e := w.entry(inAWhile(time.Second), func(s *schema.Spec) {
			s.PayloadSize, s.PayloadAt = schema.InlinePayload+1, schema.MakeEntryID(time.Now(), 0, 77)
		})
		w.publish(e, time.Now())
		time.Sleep(5 * time.Second)
		w.want("the message", "record 1 failed, letter, notice, ack")
	})
}

// TestStartsNothingAfterASlowRead: what a start rests on was judged before the payload was read,
// however long that took.
func TestStartsNothingAfterASlowRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		e := w.entry(inAWhile(time.Second), func(s *schema.Spec) { s.Work, s.Task = nil, "slow" })
		if err := w.inner.PutTask(context.Background(), schema.Task{Tenant: "t", Name: "slow", Work: schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink"}}, UpdatedAt: time.Now()}); err != nil {
			t.Fatal(err)
		}
		w.befall(func(_ context.Context, op string) schematest.Fault {
			if op == "Task" {
				return schematest.Fault{Delay: 4 * time.Second}
			}
			return schematest.Fault{}
		})
		w.publish(e, time.Now())
		time.Sleep(2 * time.Second)
		if _, err := w.inner.CancelRun(context.Background(), e.ID, schema.EntryID{}, schema.Cancel{At: time.Now()}, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		w.want("cancelled 3 s before the read ended", "notice, ack")
	})
}

// TestStartsNothingPastTheDeadline: while the session cannot be renewed messages go back, and all
// goes on once it can.
func TestStartsNothingPastTheDeadline(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		w.breakDown("SwapSession")
		due := inAWhile(14 * time.Second)
		w.publish(w.entry(due), time.Now()) // in hand before the deadline, due after it
		time.Sleep(16 * time.Second)
		if got := len(w.started()); got != 0 {
			t.Errorf("starts without a session: got %d, want none", got)
		}
		w.befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
		time.Sleep(8 * time.Second)
		if got := len(w.started()); got != 1 {
			t.Errorf("starts once it is back: got %d, want 1", got)
		}
	})
}

// TestOneHeartbeat: whatever runs, the session costs the same.
func TestOneHeartbeat(t *testing.T) {
	beats := func(runs int) (n int) {
		inWorld(t, func(t *testing.T, w *world) {
			w.begin("x1", func(c *Config) { c.Slots = runs })
			w.answer(func(ctx context.Context, _ target.Call) target.Result {
				<-ctx.Done()
				return target.Result{Outcome: schema.Cancelled}
			})
			for i := range runs {
				w.publish(w.entry(inAWhile(0), ofOneOfTwo(i), func(s *schema.Spec) { s.Work.Timeout = schema.Duration(time.Hour) }), time.Now())
			}
			time.Sleep(5500 * time.Millisecond) // not at the instant of a beat
			if got := len(w.started()); got != runs {
				t.Fatalf("under way: got %d, want %d", got, runs)
			}
			w.counts.Reset()
			time.Sleep(30 * time.Second)
			for op, tally := range w.counts.Tallies() {
				if op != "Settings" {
					n += tally.Calls
				}
			}
		})
		return n
	}
	one, many := beats(1), beats(3000)
	if one != 10 || many != 10 {
		t.Errorf("calls of the store in 30 s: got %d with one run and %d with 3,000, want 10 with either", one, many)
	}
}

// broken is a consumer whose fetches fail.
type broken struct{ fetches atomic.Int64 }

func (b *broken) Fetch(context.Context, queue.Lane, schema.Priority, int, time.Duration) ([]queue.Delivery, error) {
	b.fetches.Add(1)
	return nil, queue.ErrClosed
}

func TestFetchErrorsDoNotSpin(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		b := new(broken)
		w.begin("x1", func(c *Config) { c.Queue = b })
		b.fetches.Store(0)
		time.Sleep(10 * time.Second)
		if got, most := b.fetches.Load(), int64(4*10*time.Second/tendEvery+4); got > most {
			t.Errorf("fetches in 10 s: got %d, want at most %d", got, most)
		}
	})
}

// ofOneOfTwo gives the i-th entry one of two tenants: one alone does not get every slot.
func ofOneOfTwo(i int) func(s *schema.Spec) {
	return func(s *schema.Spec) { s.Tenant = []string{"t", "u"}[i%2] }
}
