package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// TestRecordThenFollowUpsThenNoticeThenAck: whatever fails on the way is tried again, and nothing
// is said before what it says is held.
func TestRecordThenFollowUpsThenNoticeThenAck(t *testing.T) {
	const failed, then = "record 1 failed", "entry retry, notice, ack"
	for _, tc := range []struct {
		name  string
		op    string
		fault schematest.Fault
		want  string
	}{
		{"nothing fails", "", schematest.Fault{}, failed + ", " + then},
		{"the record fails", "PutAttempts", schematest.Fault{Fail: true}, failed + ", " + then},
		{"the record's answer is lost", "PutAttempts", schematest.Fault{Lose: true}, failed + ", " + failed + ", " + then},
		{"the record hangs", "PutAttempts", schematest.Fault{Delay: time.Minute}, failed + ", " + then},
		{"the follow-up fails", "PutEntries", schematest.Fault{Fail: true}, failed + ", " + failed + ", " + then},
		{"the follow-up's answer is lost", "PutEntries", schematest.Fault{Lose: true}, failed + ", entry retry, " + failed + ", " + then},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.answer(func(context.Context, target.Call) target.Result { return target.Result{Outcome: schema.Failed} })
				x := w.begin("x1")
				e := w.entry(inAWhile(time.Second), func(s *schema.Spec) { s.Work.Retry.Initial = schema.Duration(time.Hour) })
				w.befallOnce(tc.op, tc.fault)
				w.publish(e, time.Now())
				time.Sleep(8 * time.Second)
				w.want("one attempt", "start 1, "+tc.want)
				if got := x.Running(); got != 0 {
					t.Errorf("messages in hand: got %d, want none", got)
				}
				if got := x.recorder.unwritten.Load(); got != 0 {
					t.Errorf("kept outcomes: got %d, want none", got)
				}
			})
		})
	}
}

// TestKeepsOutcomesWhileTheStoreIsDown: they are kept, nothing new is taken on, the message stays
// ours, and all goes on afterwards.
func TestKeepsOutcomesWhileTheStoreIsDown(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.begin("x1")
		w.breakDown("PutAttempts")
		w.publish(w.entry(inAWhile(time.Second)), time.Now())
		time.Sleep(6500 * time.Millisecond) // beyond a fetch that was under way
		for range 5 {
			w.publish(w.entry(inAWhile(0)), time.Now(), func(env *queue.Envelope) { env.CheckedAt = time.Now() })
		}
		time.Sleep(6 * time.Second)
		if got := len(w.started()); got > 1+4 {
			t.Errorf("starts while nothing can be recorded: got %d, want at most what was fetched before", got)
		}
		taken := x.Running()
		w.befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
		time.Sleep(6 * time.Second)
		if got := w.open(); got != 0 || x.Running() != 0 {
			t.Errorf("after the outage: got %d messages left, %d in hand, want none", got, x.Running())
		}
		if got := strings.Count(w.happened(), "start"); got != 6 {
			t.Errorf("starts: got %d, want 6: one for each (%d were in hand)", got, taken)
		}
	})
}

// TestLongRunLeavesTheStreamOnceItsSessionIsHeld: after a second, and not before the cell is held.
func TestLongRunLeavesTheStreamOnceItsSessionIsHeld(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		w.answer(func(ctx context.Context, _ target.Call) target.Result {
			time.Sleep(20 * time.Second)
			return target.Result{Outcome: schema.Succeeded}
		})
		w.breakDown("PutAttempts")
		w.publish(w.entry(inAWhile(time.Second)), time.Now())
		time.Sleep(8 * time.Second)
		w.want("while the store is down", "start 1")
		w.befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
		time.Sleep(time.Second)
		w.want("the store is back", "session 1, ack")
		time.Sleep(15 * time.Second)
		w.want("the end", "record 1 succeeded, notice")
	})
}

// TestStartInDoubtWhoseSessionCameTooLateIsLost: by then the look is too old to start from, and the
// cell would count as under way for as long as we live.
func TestStartInDoubtWhoseSessionCameTooLateIsLost(t *testing.T) {
	for _, c := range []struct {
		name string
		down time.Duration // for how long no row of attempts can be written
		want string
	}{
		{"in time", 700 * time.Millisecond, "session 1, start 1, record 1 succeeded, notice, ack"},
		{"too late", freshFor + time.Second, "session 1, record 1 lost, return, session 1, start 1, record 1 succeeded, notice, ack"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x1")
				e := w.entry(inAWhile(time.Second))
				up := e.Due().Add(c.down)
				w.befall(func(_ context.Context, op string) schematest.Fault {
					return schematest.Fault{Fail: op == "PutAttempts" && time.Now().Before(up)}
				})
				w.publish(e, time.Now(), redispatched)
				time.Sleep(10 * time.Second)
				w.want("the message", c.want)
			})
		})
	}
}

// TestLostAttemptsAreHeldBeforeTheyAreTold: of several lost attempts only the first was waited for,
// so that the entry could be told as finished while the one that ends the run was not held.
func TestLostAttemptsAreHeldBeforeTheyAreTold(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		e := w.entry(inAWhile(time.Second))
		w.attempt(e, 2, nil, w.session(e, "a", time.Now().Add(-time.Minute)))
		w.attempt(e, 3, nil, w.session(e, "b", time.Now().Add(-time.Minute)))
		w.befallOnce("PutAttempts", schematest.Fault{Tear: true})
		w.publish(e, time.Now(), redispatched)
		time.Sleep(4 * time.Second)
		w.want("the message", "record 2 lost, return, record 3 lost, letter, notice, ack")
	})
}

// TestRunThatKillsItsExecutorsEnds: after max_attempts, whatever dies of it.
func TestRunThatKillsItsExecutorsEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.answer(func(ctx context.Context, _ target.Call) target.Result {
			<-ctx.Done()
			return target.Result{Outcome: schema.Failed}
		})
		e := w.entry(inAWhile(time.Second))
		w.publish(e, time.Now())
		for i := range 6 {
			x := w.begin(fmt.Sprintf("x%d", i), func(c *Config) { c.DrainTimeout = time.Nanosecond })
			time.Sleep(800 * time.Millisecond) // it starts, and is dead within the second in which a first start has no cell
			x.conn.Cut()
			w.befall(func(context.Context, string) schematest.Fault { return schematest.Fault{Fail: true} })
			x.kill()
			w.befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
			time.Sleep(20 * time.Second) // past expiry and grace
			if w.state(e.ID).Terminal() {
				break
			}
			if w.open() == 0 { // it had left the stream: as a dispatcher that settles does
				w.publish(e, time.Now(), redispatched, func(env *queue.Envelope) { env.Dispatch = fmt.Sprint(i) })
			}
		}
		x := w.begin("last")
		time.Sleep(5 * time.Second)
		x.kill()
		if got := w.state(e.ID); got != schema.StateFailed {
			t.Errorf("state: got %s, want failed", got)
		}
		if l := w.letter(e.ID); l == nil || l.Attempts != 3 {
			t.Errorf("letter: got %+v, want one of 3 attempts", l)
		}
		// One without a cell, and one with a cell for each that is allowed.
		if got := len(w.started()); got != 4 {
			t.Errorf("starts: got %d, want 4", got)
		}
	})
}

// TestCancelEndsTheAttempt: by its cause, and no retry follows.
func TestCancelEndsTheAttempt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.begin("x1")
		w.answer(func(ctx context.Context, _ target.Call) target.Result {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), target.ErrCancelled) {
				t.Errorf("cause: got %v, want %v", context.Cause(ctx), target.ErrCancelled)
			}
			return target.Result{Outcome: schema.Cancelled}
		})
		e, other := w.entry(inAWhile(time.Second)), w.entry(inAWhile(time.Second))
		w.publish(e, time.Now())
		w.publish(other, time.Now())
		time.Sleep(1500 * time.Millisecond)
		x.Cancel(e.ID)
		time.Sleep(time.Second)
		w.want("one of two", "start 1, start 1, record 1 cancelled, notice, ack, session 1, ack")
		if got, want := w.state(e.ID), schema.StateCancelled; got != want {
			t.Errorf("state: got %s, want %s", got, want)
		}
		x.Cancel(other.ID)
		time.Sleep(time.Second)
		w.want("the other", "record 1 cancelled, notice")
	})
}

// TestCancelledInHandDoesNotStart: a message that waited for its instant started although the
// cancel had been heard of.
func TestCancelledInHandDoesNotStart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.begin("x1")
		e := w.entry(inAWhile(time.Second))
		w.publish(e, time.Now())
		time.Sleep(500 * time.Millisecond)
		if _, err := w.inner.CancelRun(context.Background(), e.ID, schema.EntryID{}, schema.Cancel{At: time.Now()}, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		x.Cancel(e.ID)
		time.Sleep(time.Second)
		w.want("cancelled in hand", "notice, ack")
	})
}

// TestACancelIsHeardBeforeItsMessage: a run that is cancelled between the scan that reads its row
// and the message that starts it was called, and nobody told that call to end.
func TestACancelIsHeardBeforeItsMessage(t *testing.T) {
	for _, c := range []struct {
		after  time.Duration // the cancel the message comes
		starts int
	}{
		{0, 0},
		{freshFor - 300*time.Millisecond, 0},
		{2*cancelFor + time.Second, 1}, // as if a row was read anew, and the mark missed: it is not remembered for ever
	} {
		t.Run(c.after.String(), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				x := w.begin("x1")
				e := w.entry(inAWhile(c.after + 250*time.Millisecond))
				read := time.Now()
				if _, err := w.inner.CancelRun(t.Context(), e.ID, schema.EntryID{}, schema.Cancel{At: read}, read.Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
				x.Cancel(e.ID)
				time.Sleep(c.after)
				if c.starts > 0 {
					read = time.Now()
				}
				w.publish(e, read)
				time.Sleep(time.Second)
				if got := len(w.started()); got != c.starts {
					t.Errorf("%d starts, want %d", got, c.starts)
				}
			})
		})
	}
}

// TestACancelAsTheCallBegins: the call is ended by one that is heard between the last look and its
// begin.
func TestACancelAsTheCallBegins(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	a := attemptOf(&Executor{metrics: newMetrics(prometheus.NewRegistry())}, &schema.Entry{ID: schema.MakeEntryID(time.Now(), 0, 1)})
	a.cancel(target.ErrCancelled)
	a.begin(time.Now(), time.Now(), 1, "s", stop)
	if !errors.Is(context.Cause(ctx), target.ErrCancelled) {
		t.Errorf("cause of its end = %v, want %v", context.Cause(ctx), target.ErrCancelled)
	}
}
