package executor

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// onStop is a callee that never answers, and ends as targets do.
func onStop(ctx context.Context, _ target.Call) target.Result {
	<-ctx.Done()
	return target.Ended(ctx)
}

// TestStopCountsNoAttempt: an attempt that the drain cut short was recorded as failed. It used one
// up, the last one allowed ended its run, and the next waited for the back-off.
func TestStopCountsNoAttempt(t *testing.T) {
	for _, c := range []struct {
		name   string
		number int           // of the attempt
		after  time.Duration // its start it is stopped
		before string        // it is stopped
		want   string        // of the stop
		gone   bool          // the message has left the stream
	}{
		{name: "in its first second", number: 1, after: 500 * time.Millisecond, before: "start 1", want: "return"},
		{name: "in its first second, started in doubt", number: 2, after: 500 * time.Millisecond, before: "session 2, start 2", want: "record 2 lost, return"},
		{name: "when it is long known", number: 1, after: 5 * time.Second, before: "start 1, session 1, ack", want: "record 1 lost", gone: true},
		{name: "the last one allowed", number: 3, after: 5 * time.Second, before: "session 3, start 3, ack", want: "record 3 lost", gone: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				x := w.begin("x1", func(cfg *Config) { cfg.DrainTimeout = time.Nanosecond })
				w.answer(onStop)
				run := w.entry(inAWhile(time.Second))
				e := run
				if c.number > 1 {
					w.attempt(run, c.number-1, &schema.Record{Entry: run.ID, Outcome: schema.Failed, Next: schema.MakeEntryID(run.Due(), 0, 99)}, nil)
					e = w.entry(run.Due(), func(s *schema.Spec) { s.Kind, s.Of, s.Attempt = schema.KindRetry, run.ID, c.number })
				}
				w.publish(e, time.Now())
				time.Sleep(time.Until(e.Due().Add(c.after)))
				w.want("before the stop", c.before)
				x.kill()
				w.want("the stop", c.want)
				if open := w.open(); (open == 0) != c.gone {
					t.Errorf("messages left: got %d, want none: %v", open, c.gone)
				}
				if got := w.state(run.ID); got.Terminal() || got == schema.StateRunning {
					t.Errorf("state after the stop: got %s, want one from which it goes on", got)
				}
				if c.gone { // as a dispatcher does that found the session ended
					w.publish(e, time.Now(), redispatched)
				}
				w.answer(func(context.Context, target.Call) target.Result { return target.Result{Outcome: schema.Succeeded} })
				w.begin("x2")
				time.Sleep(2 * time.Second)
				starts := w.started()
				if last := starts[len(starts)-1]; len(starts) != 2 || last.Number != c.number {
					t.Errorf("starts: got %d, the last with number %d, want 2, both with number %d", len(starts), last.Number, c.number)
				}
				if got := w.state(run.ID); got != schema.StateSucceeded {
					t.Errorf("state at the end: got %s, want succeeded", got)
				}
			})
		})
	}
}

// TestStopOfAnAnsweredAttempt: what had its outcome before the stop keeps it.
func TestStopOfAnAnsweredAttempt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.begin("x1", func(c *Config) { c.DrainTimeout = time.Nanosecond })
		w.answer(func(ctx context.Context, _ target.Call) target.Result {
			<-ctx.Done()
			return target.Result{Outcome: schema.Failed, Status: 400, Final: true}
		})
		w.publish(w.entry(inAWhile(time.Second)), time.Now())
		time.Sleep(1500 * time.Millisecond)
		x.kill()
		w.want("the stop", "start 1, record 1 failed, letter, notice, ack")
	})
}

// TestDeadLetters: a run that has failed for good has its letter before anything is told, and says
// in it how it ended.
func TestDeadLetters(t *testing.T) {
	const gap = 10 * time.Second
	for _, c := range []struct {
		name     string
		answer   target.Result
		attempts int
		want     string
		last     schema.Outcome
	}{
		{
			name: "a final answer", answer: target.Result{Outcome: schema.Failed, Status: 404, Error: "answered 404 Not Found", Final: true}, attempts: 1,
			want: "start 1, record 1 failed, letter, notice, ack", last: schema.Failed,
		},
		{
			name: "every attempt failed", answer: target.Result{Outcome: schema.Failed, Status: 500, Error: "answered 500"}, attempts: 3,
			want: "session 3, start 3, record 3 failed, letter, notice, ack", last: schema.Failed,
		},
		{
			name: "every attempt took too long", answer: target.Result{Outcome: schema.TimedOut, Error: "too long"}, attempts: 3,
			want: "session 3, start 3, record 3 timed_out, letter, notice, ack", last: schema.TimedOut,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x1")
				w.answer(func(context.Context, target.Call) target.Result { return c.answer })
				run := w.entry(inAWhile(time.Second))
				e := run
				var first time.Time
				for n := 1; ; n++ {
					w.happened()
					w.publish(e, time.Now())
					time.Sleep(2 * time.Second)
					if first.IsZero() {
						first = w.started()[0].at
					}
					attempts := w.attempts(run.ID)
					next := attempts[len(attempts)-1].Record.Next
					if next.IsZero() {
						break
					}
					if l := w.letter(run.ID); l != nil {
						t.Errorf("after attempt %d of %d: got the letter %+v, want none", n, c.attempts, l)
					}
					rows, err := w.inner.EntriesByID(context.Background(), next.Partition(), []schema.EntryID{next})
					if err != nil || len(rows) != 1 {
						t.Fatalf("the retry: %d rows, %v", len(rows), err)
					}
					e = rows[0]
					time.Sleep(gap)
				}
				w.want("the last attempt", c.want)
				l := w.letter(run.ID)
				if l == nil {
					t.Fatal("no letter")
				}
				if l.Attempts != c.attempts || l.Last.Outcome != c.last || l.Last.Error != c.answer.Error || l.Last.Status != c.answer.Status ||
					l.Entry.ID != e.ID || string(l.Entry.Text()) != string(e.Text()) || !l.Began.Equal(first) || l.Resolution != nil ||
					!l.Expires.Equal(l.Last.Finished.Add(schema.DeadLetterRetention).Truncate(time.Millisecond)) {
					t.Errorf("letter: got %+v, want one of %d attempts since %v that says %+v, for 30 days", l, c.attempts, first, c.answer)
				}
			})
		})
	}
}

// TestDeadLetterOfALostRun: nobody records the end of an attempt whose executor died; who finds it
// lost and the last one allowed writes the letter.
func TestDeadLetterOfALostRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		e := w.entry(inAWhile(time.Second))
		w.attempt(e, 2, nil, w.session(e, "a", time.Now().Add(-time.Minute)))
		w.attempt(e, 3, nil, w.session(e, "b", time.Now().Add(-time.Minute)))
		w.befallOnce("PutDeadLetters", schematest.Fault{Fail: true})
		w.publish(e, time.Now(), redispatched)
		time.Sleep(2 * time.Second)
		w.want("the message", "record 2 lost, record 3 lost, letter, notice, ack")
		if l := w.letter(e.ID); l == nil || l.Attempts != 3 || l.Last.Outcome != schema.Lost || l.Last.Executor != "elsewhere-b" {
			t.Errorf("letter: got %+v, want that of the lost attempt 3", l)
		}
	})
}

// TestDeadLetterIsRepeated: who meets a final failure whose letter is missing writes it.
func TestDeadLetterIsRepeated(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		e := w.entry(inAWhile(time.Second))
		w.attempt(e, 1, &schema.Record{Entry: e.ID, Outcome: schema.Failed, Error: "x", Final: true}, nil)
		for range 2 {
			w.publish(e, time.Now(), redispatched, func(env *queue.Envelope) { env.Dispatch = time.Now().String() })
			time.Sleep(2 * time.Second)
			w.want("the message", "letter, notice, ack")
		}
		if l := w.letter(e.ID); l == nil || l.Last.Error != "x" {
			t.Errorf("letter: got %+v, want that of attempt 1", l)
		}
	})
}

// TestLateSuccessTakesTheLetterBack: an execution that was thought lost ends well when another has
// failed for good. Its success says that it may not be alone.
func TestLateSuccessTakesTheLetterBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		change []func(*queue.Envelope)
		last   time.Duration // of the execution that succeeds
		meet   func(w *world, e schema.Entry)
		want   string
		after  string // it has succeeded
	}{
		{"redispatched", []func(*queue.Envelope){redispatched}, 100 * time.Millisecond, nil, "session 1, start 1", "record 1 succeeded, overtaken, notice, ack"},
		{"alone all the time", nil, 100 * time.Millisecond, nil, "start 1", "record 1 succeeded, notice, ack"},
		{"long, and known all the time", nil, 5 * time.Second, nil, "start 1, session 1, ack", "record 1 succeeded, notice"},
		{"its session fell", nil, 5 * time.Second, func(w *world, _ schema.Entry) { w.declareDead("x1") }, "start 1, session 1, ack", outlived},
		{"noted too late", nil, 4 * time.Second, nil, "start 1, session 1, ack", "record 1 succeeded, overtaken, notice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x1")
				end := make(chan struct{})
				w.answer(func(context.Context, target.Call) target.Result {
					<-end
					return target.Result{Outcome: schema.Succeeded}
				})
				e := w.entry(inAWhile(time.Second))
				if c.name == "noted too late" {
					w.outage(e.Due().Add(c.last - 500*time.Millisecond))
				}
				w.publish(e, time.Now(), c.change...)
				time.Sleep(time.Until(e.Due().Add(c.last)))
				if c.meet != nil {
					c.meet(w, e)
					time.Sleep(4 * time.Second) // it takes another
				}
				// The other one, with what follows, which is not this executor's.
				w.attempt(e, 1, &schema.Record{Entry: e.ID, Outcome: schema.Failed, Final: true}, nil)
				w.want("before", c.want)
				close(end)
				time.Sleep(time.Second)
				w.want("after", c.after)
			})
		})
	}
}

// outlived is what a success does that comes when the session of its attempt has fallen.
const outlived = "entry watch, record 0 handed_on, record 1 succeeded, overtaken, notice"

// outlive has an attempt, the only one allowed, be under way on x1 when its session is declared
// dead, and returns its entry. end ends it well.
func (w *world) outlive(end chan struct{}) (x1 *node, e schema.Entry) {
	w.t.Helper()
	x1 = w.begin("x1", func(c *Config) { c.DrainTimeout = time.Nanosecond })
	w.answer(func(ctx context.Context, _ target.Call) target.Result {
		select {
		case <-end:
			return target.Result{Outcome: schema.Succeeded}
		case <-ctx.Done():
			return target.Ended(ctx)
		}
	})
	e = w.entry(inAWhile(time.Second), func(s *schema.Spec) { s.Work.Retry = &schema.Retry{MaxAttempts: 1} })
	w.publish(e, time.Now())
	time.Sleep(time.Until(e.Due().Add(5 * time.Second)))
	w.want("before", "start 1, session 1, ack")
	w.declareDead("x1")
	time.Sleep(4 * time.Second) // it takes another
	return x1, e
}

// findLost has an executor look at the entry of an attempt whose session fell, as a dispatcher
// does.
func (w *world) findLost(e schema.Entry) {
	w.t.Helper()
	w.publish(e, time.Now(), redispatched)
	time.Sleep(time.Second)
	w.want("found lost", "record 1 lost, letter, notice, ack")
}

// TestLateSuccessOverwritesTheLoss: the last attempt allowed was found lost and the letter written,
// and then it succeeds after all: its record takes the place of the loss in the same row, and the
// letter, of which no record tells any more, is taken back. Should the executor die before that,
// somebody else does it.
func TestLateSuccessOverwritesTheLoss(t *testing.T) {
	for _, c := range []struct {
		name  string
		dies  bool
		fail  string // this call of the store
		fault schematest.Fault
		want  string
	}{
		{"what follows is done", false, "", schematest.Fault{}, outlived},
		{"nobody can be had to look after it", false, "PutEntries", schematest.Fault{Fail: true}, "record 1 succeeded, overtaken, notice"},
		{"nobody knows whether somebody is had", false, "PutEntries", schematest.Fault{Lose: true}, "entry watch, record 1 succeeded, overtaken, notice"},
		{"that somebody is had comes late", false, "PutEntries", schematest.Fault{Late: 500 * time.Millisecond}, "record 1 succeeded, overtaken, notice, entry watch"},
		{"the executor dies before what follows", true, "PutResolution", schematest.Fault{Fail: true}, "entry watch, record 0 handed_on, record 1 succeeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				end := make(chan struct{})
				x1, e := w.outlive(end)
				w.findLost(e)
				w.befall(func(_ context.Context, op string) schematest.Fault {
					if op != c.fail {
						return schematest.Fault{}
					}
					return c.fault
				})
				close(end)
				time.Sleep(time.Second)
				if c.dies {
					x1.kill()
				}
				// What it cannot do it tries again.
				if got := w.happened(); !strings.HasPrefix(got, c.want) {
					t.Errorf("after: got %s, want %s", got, c.want)
				}
				if got := w.state(e.ID); got != schema.StateSucceeded {
					t.Errorf("state: got %s, want succeeded", got)
				}
				if !c.dies {
					return
				}
				w.befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
				w.begin("x2")
				for _, a := range w.attempts(e.ID) {
					if a.Number == 0 {
						w.publish(w.find(a.Record.To), time.Now())
					}
				}
				time.Sleep(2 * watchAfter)
				w.want("the entry that stands in", "overtaken, notice, ack")
			})
		})
	}
}

// TestDeathBeforeALateSuccess: an executor whose attempt was found lost dies when it has somebody
// look after the success that it is about to record. Nobody knows of the success: the run failed,
// its letter stays, and the entry that stands in ends with it.
func TestDeathBeforeALateSuccess(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		end := make(chan struct{})
		x1, e := w.outlive(end)
		w.findLost(e)
		var writes atomic.Int64
		w.befall(func(_ context.Context, op string) schematest.Fault {
			return schematest.Fault{Fail: op == "PutAttempts" && writes.Add(1) > 1} // the first says who stands in
		})
		close(end)
		time.Sleep(time.Second)
		x1.kill()
		w.want("before it died", "entry watch, record 0 handed_on")
		w.befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
		w.begin("x2")
		for _, a := range w.attempts(e.ID) {
			if a.Number == 0 {
				w.publish(w.find(a.Record.To), time.Now())
			}
		}
		time.Sleep(2 * watchAfter)
		w.want("the entry that stands in", "letter, notice, ack")
		if got := w.state(e.ID); got != schema.StateFailed {
			t.Errorf("state: got %s, want failed", got)
		}
	})
}

// TestLossIsAGuess: what an attempt came to stands, though others, who have read before it was
// written, say afterwards that it was lost; also where it is written after that.
func TestLossIsAGuess(t *testing.T) {
	for _, c := range []struct {
		name  string
		after bool
		want  string
	}{
		{"said after it", false, "entry watch, record 0 handed_on, record 1 succeeded, overtaken, notice, record 1 lost, notice, ack"},
		{"said before it", true, "record 1 lost, letter, notice, ack, entry watch, record 0 handed_on, record 1 succeeded, overtaken, notice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				end := make(chan struct{})
				_, e := w.outlive(end)
				var writes atomic.Int64
				w.befall(func(_ context.Context, op string) schematest.Fault {
					switch {
					case !c.after && op == "PutAttempts" && writes.Add(1) == 1: // the loss
						close(end)
						time.Sleep(2 * time.Second)
					case c.after && op == "PutEntries": // the attempt has ended, and its record is made
						w.publish(e, time.Now(), redispatched)
						time.Sleep(2 * time.Second)
					}
					return schematest.Fault{}
				})
				if c.after {
					close(end)
				} else {
					w.publish(e, time.Now(), redispatched)
				}
				time.Sleep(5 * time.Second)
				w.want("both", c.want)
				if got := w.state(e.ID); got != schema.StateSucceeded {
					t.Errorf("state: got %s, want succeeded", got)
				}
			})
		})
	}
}

// TestStopOfWhatWasFoundLost: an attempt that a stop cuts short does not count, but where others
// have found it lost, and ended the run, it has counted.
func TestStopOfWhatWasFoundLost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x1, e := w.outlive(make(chan struct{}))
		w.findLost(e)
		x1.kill()
		w.want("the stop", "record 1 lost")
		if got := w.state(e.ID); got != schema.StateFailed {
			t.Errorf("state: got %s, want failed, as nobody would start it again", got)
		}
	})
}

// noRetries is a store to which every retry is too large.
type noRetries struct{ bucketer.Store }

func (s noRetries) PutEntries(ctx context.Context, rows []schema.Entry) error {
	for i := range rows {
		if rows[i].Spec.Kind == schema.KindRetry {
			return schema.ErrTooLarge
		}
	}
	return s.Store.PutEntries(ctx, rows)
}

// TestRetryThatIsTooLargeStallsNobody: its executor tried to write it for ever, and took nothing
// else on.
func TestRetryThatIsTooLargeStallsNobody(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.begin("x1", func(c *Config) {
			b, err := engine.New(bucketer.Config{Store: noRetries{w.store}, Hints: w.conn, Signals: w.conn})
			if err == nil {
				err = b.Refresh(context.Background())
			}
			if err != nil {
				t.Fatalf("bucketer: %v", err)
			}
			c.Writer = b
		})
		w.answer(func(context.Context, target.Call) target.Result {
			return target.Result{Outcome: schema.Failed, Status: 500}
		})
		run := w.entry(inAWhile(time.Second))
		w.publish(run, time.Now())
		time.Sleep(2 * time.Second)
		w.want("a failure whose retry is too large", "start 1, record 1 failed, record 0 failed, letter, notice, ack")
		if got := w.state(run.ID); got != schema.StateFailed {
			t.Errorf("state: got %s, want failed", got)
		}
		if x.recorder.overfull() {
			t.Error("the executor takes nothing on, want that it does")
		}
		w.answer(func(context.Context, target.Call) target.Result { return target.Result{Outcome: schema.Succeeded} })
		w.publish(w.entry(inAWhile(time.Second)), time.Now())
		time.Sleep(2 * time.Second)
		w.want("another run", "start 1, record 1 succeeded, notice, ack")
	})
}
