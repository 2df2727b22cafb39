package executor

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/schematest"
)

// another makes the envelope a redispatch of its own, which no stream takes for one that it knows.
func another(n int) func(*queue.Envelope) {
	return func(env *queue.Envelope) { env.Redispatch, env.Dispatch = true, fmt.Sprintf("d-%d", n) }
}

// lasting has calls take so long.
func (w *world) lasting(d time.Duration) {
	w.answer(func(context.Context, target.Call) target.Result {
		time.Sleep(d)
		return target.Result{Outcome: schema.Succeeded}
	})
}

// once fails the test unless the run was called once, has succeeded, and left no message.
func (w *world) once(run schema.RunID) {
	w.t.Helper()
	calls := 0
	for _, s := range w.started() {
		if s.Run == run {
			calls++
		}
	}
	if calls != 1 {
		w.t.Errorf("%d calls, want 1", calls)
	}
	if got := w.state(run); got != schema.StateSucceeded || w.open() != 0 {
		w.t.Errorf("the run is %s with %d messages left, want succeeded and none: %+v", got, w.open(), w.attempts(run))
	}
}

// TestTwoMessagesOfOneRunStartItOnce: after a restart what its stream still held came together with
// the redispatch of the new owner. Both found nothing in the rows, and both started, 2 of 100 runs.
func TestTwoMessagesOfOneRunStartItOnce(t *testing.T) {
	for _, tc := range []struct {
		name   string
		nodes  int
		slots  int
		apart  time.Duration // between the two messages
		lasts  time.Duration // one call
		first  bool          // the first is fresh: it starts without a look, and leaves no trace for a second
		others int           // runs that wait for the same slots
	}{
		{name: "at once, in one process", nodes: 1, lasts: 200 * time.Millisecond},
		{name: "at once, behind others", nodes: 1, slots: 2, lasts: 200 * time.Millisecond, others: 9},
		{name: "a call without a trace is under way", nodes: 1, apart: 300 * time.Millisecond, lasts: 800 * time.Millisecond, first: true},
		{name: "a call without a trace becomes a long one", nodes: 1, apart: 300 * time.Millisecond, lasts: 5 * time.Second, first: true},
		{name: "at once, in two processes", nodes: 2, lasts: 200 * time.Millisecond},
		{name: "1 ms apart, in two processes", nodes: 2, apart: time.Millisecond, lasts: 200 * time.Millisecond},
		{name: "2 ms apart, in two processes", nodes: 2, apart: 2 * time.Millisecond, lasts: 3 * time.Second},
		{name: "4 ms apart, in two processes", nodes: 2, apart: 4 * time.Millisecond, lasts: 200 * time.Millisecond},
		{name: "behind others, in two processes", nodes: 2, slots: 1, lasts: 300 * time.Millisecond, others: 9},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				for n := range tc.nodes {
					w.begin(fmt.Sprintf("x%d", n), func(c *Config) {
						if tc.slots > 0 {
							c.Slots = tc.slots
						}
					})
				}
				w.lasting(tc.lasts)
				e := w.entry(inAWhile(0))
				for range tc.others {
					other := w.entry(inAWhile(0))
					w.publish(other, time.Now(), another(0))
				}
				if tc.first {
					w.publish(e, time.Now())
				} else {
					w.publish(e, time.Time{}, another(1))
				}
				time.Sleep(tc.apart)
				w.publish(e, time.Time{}, another(2))
				time.Sleep(15 * time.Second)
				w.once(e.ID)
			})
		})
	}
}

// TestARunThatEndedHereIsNotBegunAgain: a message that the stream holds twice comes again when the
// run has ended, and rests on rows that were read before it began.
func TestARunThatEndedHereIsNotBegunAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x")
		w.lasting(50 * time.Millisecond)
		e := w.entry(inAWhile(0))
		read := time.Now()
		for n := range 4 {
			w.publish(e, read, func(env *queue.Envelope) { env.Dispatch = fmt.Sprint("copy-", n) })
			time.Sleep(400 * time.Millisecond)
		}
		time.Sleep(15 * time.Second)
		w.once(e.ID)
	})
}

// TestARunUnderWayHereIsNotBegunAgain: a message that rests on rows that were read before the run
// began comes when it is under way, and its turn is passed on: the store knows that it runs.
func TestARunUnderWayHereIsNotBegunAgain(t *testing.T) {
	for _, lasts := range []time.Duration{200 * time.Millisecond, 3 * time.Second} {
		t.Run(lasts.String(), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x")
				w.lasting(lasts)
				e := w.entry(inAWhile(0))
				read := time.Now()
				w.publish(e, time.Time{}, another(1)) // looked at
				time.Sleep(100 * time.Millisecond)
				w.publish(e, read, func(env *queue.Envelope) { env.Dispatch = "copy" })
				time.Sleep(15 * time.Second)
				w.once(e.ID)
			})
		})
	}
}

// TestBegunRunsAreRememberedForAWhile: each for beganFor at least and for less than twice that, no
// more than maxBegan of a span, without an allocation in the long run.
func TestBegunRunsAreRememberedForAWhile(t *testing.T) {
	run := func(n uint64) schema.RunID { return schema.MakeEntryID(time.Unix(1_800_000_000, 0), 0, n) }
	began := time.Now()
	for _, into := range []time.Duration{0, beganFor / 2, beganFor - time.Millisecond} { // the span
		var b begunRuns
		b.note(run(0), began)
		noted := began.Add(into)
		b.note(run(1), noted)
		if !b.has(run(1), noted.Add(beganFor)) {
			t.Errorf("noted %v into a span: forgotten after %v", into, beganFor)
		}
		if b.has(run(1), noted.Add(2*beganFor)) {
			t.Errorf("noted %v into a span: remembered after %v", into, 2*beganFor)
		}
	}
	var b begunRuns
	for n := range uint64(maxBegan + 10) {
		b.note(run(n), began)
	}
	if !b.has(run(0), began) || b.has(run(maxBegan), began) {
		t.Errorf("want the first %d of a span to be remembered", maxBegan)
	}
	now := began
	if n := testing.AllocsPerRun(10, func() {
		now = now.Add(beganFor)
		for n := range uint64(1000) {
			b.note(run(n), now)
		}
	}); n > 0 {
		t.Errorf("%v allocations in a span, want none", n)
	}
}

// TestTwoExecutorsWhoseCellsAreLate: whoever of the two is delayed, and by what, one starts the
// run.
func TestTwoExecutorsWhoseCellsAreLate(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x")
				w.begin("y").skew.Store(int64(2 * time.Millisecond)) // their fences differ (schema.MakeFence)
				w.lasting(time.Duration(seed%5) * 50 * time.Millisecond)
				w.befall(schematest.Seeded(seed, schematest.Odds{Delay: 0.5, Fail: 0.02, Lose: 0.02, MaxDelay: 30 * time.Millisecond}))
				var runs []schema.RunID
				for n := range 20 {
					e := w.entry(inAWhile(time.Duration(n) * 20 * time.Millisecond))
					runs = append(runs, e.ID)
					w.publish(e, time.Time{}, another(1))
					w.publish(e, time.Time{}, another(2))
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				w.befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
				for _, run := range runs {
					w.once(run)
				}
			})
		})
	}
}

// TestAStartYieldsToWhoStarts: a run that was held back got a slot, and its turn at the same time.
// The turn left the run to the start that it saw, and the start to the turn: it was looked at again
// 5 to 10 s later.
func TestAStartYieldsToWhoStarts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.begin("x")
		e, to := w.entry(inAWhile(0)), schema.MakeEntryID(inAWhile(time.Second), 0, 7)
		cell := func(number int, fence schema.Fence, session string) schema.Attempt {
			return schema.Attempt{Run: e.ID, Number: number, Fence: fence, Session: &schema.SessionRef{Executor: "x", ID: session, Entry: e.ID}}
		}
		said := func(number int, o schema.Outcome) schema.Attempt {
			return schema.Attempt{Run: e.ID, Number: number, Record: &schema.Record{Entry: e.ID, Outcome: o, To: to}}
		}
		own := cell(1, 10, "mine")
		closed := own
		closed.Record = &schema.Record{Entry: e.ID, Outcome: schema.Lost, Unstarted: true}
		for _, tc := range []struct {
			name   string
			rows   []schema.Attempt
			rivals bool
		}{
			{"nobody", []schema.Attempt{own}, false},
			{"another entry stands in", []schema.Attempt{own, said(0, schema.Replaced)}, false},
			{"another entry stands in, and starts", []schema.Attempt{own, said(0, schema.Replaced), cell(1, 11, "another")}, true},
			{"it was cancelled", []schema.Attempt{own, said(0, schema.Cancelled)}, true},
			{"it has ended", []schema.Attempt{own, said(1, schema.Succeeded)}, true},
			{"our cell was overwritten", nil, true},
			{"our row is closed", []schema.Attempt{closed}, true},
		} {
			a := attemptOf(n.Executor, &e)
			a.number, a.fence, a.session = 1, own.Fence, "mine"
			v := runRows{exists: true, attempts: tc.rows, live: func(schema.SessionRef) bool { return true }}
			if got, _ := a.rows.rivals(&v, 1); got != tc.rivals {
				t.Errorf("%s: rivals = %t, want %t", tc.name, got, tc.rivals)
			}
		}
	})
}

// takingStore puts the cell of another executor in place of each that is written.
type takingStore struct {
	*embedded.Store
	by schema.SessionRef
}

func (s takingStore) PutAttempts(ctx context.Context, attempts []schema.Attempt) error {
	err := s.Store.PutAttempts(ctx, attempts)
	for _, a := range attempts {
		if a.Session != nil && err == nil {
			by := s.by
			by.Started, by.Entry = a.Session.Started, a.Session.Entry
			a.Session, a.Written = &by, a.Written+1
			err = s.Store.PutAttempts(ctx, []schema.Attempt{a})
		}
	}
	return err
}

// TestAStartWhoseRowIsTakenLeavesIt: two executors start a run in the same millisecond, and draw
// the same fence. The one whose cell was overwritten recorded that it has not started, over the
// cell of the other one, and began the run again.
func TestAStartWhoseRowIsTakenLeavesIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		other := schema.Session{Executor: "z", ID: "zz", Expires: time.Now().Add(time.Hour)}
		if err := w.inner.SwapSession(t.Context(), schema.Session{Executor: "z"}, other); err != nil {
			t.Fatal(err)
		}
		store := takingStore{w.inner, schema.SessionRef{Executor: other.Executor, ID: other.ID}}
		w.begin("x", func(c *Config) {
			b, err := engine.New(bucketer.Config{Store: store, Hints: w.conn, Signals: w.conn, Now: time.Now})
			if err == nil {
				err = b.Refresh(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			c.Store, c.Writer = store, b
		})
		e := w.entry(inAWhile(time.Second))
		w.publish(e, time.Time{}, another(1)) // looked at
		time.Sleep(30 * time.Second)
		rows := w.attempts(e.ID)
		if len(w.started()) != 0 || len(rows) != 1 || rows[0].Session == nil || rows[0].Session.ID != other.ID || rows[0].Record != nil {
			t.Errorf("%d starts, and the rows are %+v; want none, and the other's cell as it was", len(w.started()), rows)
		}
	})
}

// TestACellThatIsNotHeldHoldsNoRunUp: an executor that is cut from the store while it notes that it
// starts a run keeps the run until its session may have been declared dead, and no longer.
func TestACellThatIsNotHeldHoldsNoRunUp(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var cut atomic.Bool
		store := schematest.Faulty(w.store, func(_ context.Context, op string) schematest.Fault {
			if op == "PutAttempts" || cut.Load() {
				cut.Store(true)
				return schematest.Fault{Delay: time.Second, Silent: true}
			}
			return schematest.Fault{}
		})
		w.begin("x1", func(c *Config) {
			b, err := engine.New(bucketer.Config{Store: store, Hints: w.conn, Signals: w.conn, Now: time.Now})
			if err == nil {
				err = b.Refresh(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			c.Store, c.Writer = store, b
		})
		e := w.entry(inAWhile(time.Second))
		w.publish(e, time.Time{}, another(1)) // looked at
		time.Sleep(2 * time.Second)
		w.begin("x2")
		time.Sleep(time.Minute)
		if starts := w.started(); len(starts) != 1 || starts[0].at.Sub(e.Due()) > 20*time.Second || w.state(e.ID) != schema.StateSucceeded {
			t.Errorf("it is %s after starts %v, want one start 20 s late at most", w.state(e.ID), starts)
		}
	})
}
