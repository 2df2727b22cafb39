package executor

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

const elsewhere = "session 1, start 1, record 1 succeeded, notice, ack"

// outage makes rows of attempts fail until `until`.
func (w *world) outage(until time.Time) {
	w.befall(func(_ context.Context, op string) schematest.Fault {
		return schematest.Fault{Fail: op == "PutAttempts" && time.Now().Before(until)}
	})
}

// declareDead ends the session of an executor as another would, whenever it expires, and returns
// its id.
func (w *world) declareDead(executor string) string {
	w.t.Helper()
	was, err := w.inner.Session(context.Background(), executor)
	if err == nil {
		err = w.inner.SwapSession(context.Background(), was, schema.Session{Executor: executor})
	}
	if err != nil {
		w.t.Fatalf("declare the session of %s dead: %v", executor, err)
	}
	return was.ID
}

// unstarted fails the test unless the store holds n rows of the run that were closed before the
// start, each with a cell.
func (w *world) unstarted(run schema.RunID, n int) {
	w.t.Helper()
	got := 0
	for _, a := range w.attempts(run) {
		if a.Unstarted() {
			got++
			if a.Session == nil || a.Number != 1 || a.Record.Final || !a.Record.Next.IsZero() {
				w.t.Errorf("the row that was given up: got %+v, session %v, want a bare one of number 1 over a cell", a.Record, a.Session)
			}
		}
	}
	if got != n {
		w.t.Errorf("rows that were given up: got %d, want %d", got, n)
	}
}

// TestStopWhileTheSessionWaits: a start in doubt whose cell could not be written yet began in the
// drain, although it had not started when the executor was told to stop.
func TestStopWhileTheSessionWaits(t *testing.T) {
	for _, c := range []struct {
		name  string
		drain time.Duration
	}{
		{"long drain", 30 * time.Second},
		{"the drain ends first", 100 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				x := w.begin("x1", func(cfg *Config) { cfg.DrainTimeout = c.drain })
				e := w.entry(inAWhile(time.Second))
				w.outage(e.Due().Add(time.Second))
				w.publish(e, time.Now(), redispatched)
				time.Sleep(time.Until(e.Due().Add(950 * time.Millisecond)))
				x.term()
				synctest.Wait()
				w.want("at the stop", "")
				x.kill()
				w.want("in the drain", "session 1, record 1 lost, return")
				w.unstarted(e.ID, 1)
				if got := w.state(e.ID); got != schema.StatePending {
					t.Errorf("state: got %s, want pending", got)
				}
				w.begin("x2")
				time.Sleep(time.Second)
				w.want("elsewhere", elsewhere)
			})
		})
	}
}

// TestStopWhileTheSessionCannotBeWritten: nothing starts, nothing is said, and another executor
// gets the message.
func TestStopWhileTheSessionCannotBeWritten(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.begin("x1")
		e := w.entry(inAWhile(time.Second))
		w.breakDown("PutAttempts")
		w.publish(e, time.Now(), redispatched)
		time.Sleep(time.Until(e.Due().Add(500 * time.Millisecond)))
		x.kill()
		w.want("the stop", "")
		w.befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
		w.begin("x2")
		time.Sleep(2 * queue.AckWait)
		w.want("elsewhere", elsewhere)
	})
}

// TestNothingStartsWithoutTheSessionOfItsCell: what happens while the cell waits is judged when it
// is held.
func TestNothingStartsWithoutTheSessionOfItsCell(t *testing.T) {
	for _, c := range []struct {
		name   string
		due    time.Duration // after the executor's first beat; the next ones are 3 s apart
		happen func(w *world, x *node, halted *atomic.Bool)
		after  time.Duration // the due time, when it happens
		held   time.Duration // after the due time, when the cell can be written
		until  time.Duration // after the due time, for how long it lasts
		end    func(w *world, x *node, halted *atomic.Bool)
	}{
		{
			name: "the session passed its deadline", due: 9700 * time.Millisecond,
			happen: func(*world, *node, *atomic.Bool) {}, after: 100 * time.Millisecond, held: 500 * time.Millisecond, until: 2 * time.Second,
		},
		{
			name: "the session was declared dead", due: 5500 * time.Millisecond,
			happen: func(w *world, _ *node, _ *atomic.Bool) { w.declareDead("x1") }, after: 200 * time.Millisecond, held: 700 * time.Millisecond, until: time.Second,
		},
		{
			name: "the session was declared dead, and there is another", due: 5500 * time.Millisecond,
			happen: func(w *world, _ *node, _ *atomic.Bool) { w.declareDead("x1") }, after: 200 * time.Millisecond, held: 1100 * time.Millisecond, until: 1200 * time.Millisecond,
		},
		{
			name: "the process is halted", due: 4 * time.Second,
			happen: func(_ *world, _ *node, halted *atomic.Bool) { halted.Store(true) }, after: 200 * time.Millisecond, held: 500 * time.Millisecond, until: time.Second,
			end: func(_ *world, _ *node, halted *atomic.Bool) { halted.Store(false) },
		},
		{
			name: "the clock was set back to before the instant", due: 4 * time.Second,
			happen: func(_ *world, x *node, _ *atomic.Bool) { x.skew.Store(int64(-3 * time.Second)) }, after: 200 * time.Millisecond, held: 500 * time.Millisecond, until: time.Second,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				began := time.Now().Truncate(time.Millisecond)
				var halted atomic.Bool
				x := w.begin("x1", func(cfg *Config) { cfg.Halt.Also(halted.Load) })
				due := began.Add(c.due)
				e := w.entry(due)
				expires := c.due > 6*time.Second
				w.befall(func(_ context.Context, op string) schematest.Fault {
					rows := op == "PutAttempts" && time.Now().Before(due.Add(c.held))
					beats := op == "SwapSession" && expires && time.Now().Before(due.Add(c.until))
					return schematest.Fault{Fail: rows || beats}
				})
				w.publish(e, time.Now(), redispatched)
				time.Sleep(time.Until(due.Add(c.after)))
				c.happen(w, x, &halted)
				time.Sleep(time.Until(due.Add(c.held - time.Millisecond)))
				w.want("while the cell waits", "")
				time.Sleep(time.Until(due.Add(c.until)))
				if c.end != nil {
					c.end(w, x, &halted)
				}
				time.Sleep(10 * time.Second)
				if got := w.happened(); !strings.HasPrefix(got, "session 1, record 1 lost, return, ") || !strings.HasSuffix(got, ", "+elsewhere) {
					t.Errorf("got %s,\nwant that it is given up when the cell is held, and starts once it may", got)
				}
				if got := w.started(); len(got) != 1 || got[0].Number != 1 || got[0].at.Add(time.Duration(x.skew.Load())).Before(due) {
					t.Errorf("starts: got %+v, want one, the first, not before %v by the executor's clock", got, due)
				}
				w.unstarted(e.ID, 1)
				if got := w.state(e.ID); got != schema.StateSucceeded || w.open() != 0 {
					t.Errorf("state: got %s with %d messages left, want succeeded and none", got, w.open())
				}
				if got := counted(t, x.metrics.early); got != 0 {
					t.Errorf("early starts counted: got %v, want none", got)
				}
			})
		})
	}
}

// TestCellNamesTheSessionInForce: the cell of a run that had begun under a session which was
// declared dead since named that one, so the run counted as lost while it went on.
func TestCellNamesTheSessionInForce(t *testing.T) {
	for _, c := range []struct {
		name string
		gap  time.Duration // after the old session was seen to be dead, for how long no other can be opened
	}{
		{"another was opened before the cell", 0},
		{"none can be opened for a while", 2800 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				began := time.Now().Truncate(time.Millisecond)
				w.begin("x1")
				w.answer(func(context.Context, target.Call) target.Result {
					time.Sleep(20 * time.Second)
					return target.Result{Outcome: schema.Succeeded}
				})
				e := w.entry(began.Add(5800 * time.Millisecond)) // beats are 3 s apart, and half a second after a failure
				w.publish(e, e.Due())
				time.Sleep(time.Until(e.Due().Add(100 * time.Millisecond)))
				dead := w.declareDead("x1")
				noticed := began.Add(6 * time.Second)
				back := noticed.Add(c.gap)
				w.befall(func(_ context.Context, op string) schematest.Fault {
					return schematest.Fault{Fail: op == "SwapSession" && time.Now().After(noticed) && time.Now().Before(back)}
				})
				time.Sleep(time.Until(back))
				w.want("while there is no session", "start 1")
				time.Sleep(2 * time.Second)
				w.want("with another session", "session 1, ack")
				is, err := w.inner.Session(context.Background(), "x1")
				if err != nil {
					t.Fatal(err)
				}
				rows := w.attempts(e.ID)
				if len(rows) != 1 || rows[0].Session == nil || rows[0].Session.ID != is.ID || is.ID == dead {
					t.Errorf("cell: got %+v, want one of the session %s, not of %s", rows, is.ID, dead)
				}
				if got := w.state(e.ID); got != schema.StateRunning {
					t.Errorf("state: got %s, want running", got)
				}
				time.Sleep(20 * time.Second)
				w.want("the end", "record 1 succeeded, notice")
			})
		})
	}
}

// TestDoubtAfterKnownAttempts: the message itself gives no reason for doubt; what the rows say of
// earlier attempts does.
func TestDoubtAfterKnownAttempts(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(w *world, e schema.Entry)
		want string
	}{
		{"none", func(*world, schema.Entry) {}, "session 1, start 1, record 1 succeeded, notice, ack"},
		{"dead", func(w *world, e schema.Entry) {
			w.attempt(e, 1, nil, w.session(e, "a", time.Now().Add(-time.Minute)))
		}, "record 1 lost, session 2, start 2, record 2 succeeded, notice, ack"},
		{"recorded as lost", func(w *world, e schema.Entry) {
			w.attempt(e, 1, &schema.Record{Entry: e.ID, Outcome: schema.Lost}, nil)
		}, "session 2, start 2, record 2 succeeded, notice, ack"},
		{"given up before it started", func(w *world, e schema.Entry) {
			w.attempt(e, 1, &schema.Record{Entry: e.ID, Outcome: schema.Lost, Unstarted: true}, nil)
		}, "session 1, start 1, record 1 succeeded, notice, ack"},
		{"given up, over the cell of a session that stands", func(w *world, e schema.Entry) {
			w.attempt(e, 1, &schema.Record{Entry: e.ID, Outcome: schema.Lost, Unstarted: true}, w.session(e, "a", time.Now().Add(time.Minute)))
		}, "session 1, start 1, record 1 succeeded, notice, ack"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x1")
				e := w.entry(inAWhile(time.Second))
				c.make(w, e)
				w.publish(e, time.Now().Add(-time.Minute)) // read long ago, so that the rows are looked at
				time.Sleep(1500 * time.Millisecond)
				w.want("the message", c.want)
				if got := w.state(e.ID); got != schema.StateSucceeded {
					t.Errorf("state: got %s, want succeeded", got)
				}
			})
		})
	}
}

// TestLostAttemptsOfADeletedTask: they were never recorded, because what the task allowed could not
// be read any more, and the message came again without end.
func TestLostAttemptsOfADeletedTask(t *testing.T) {
	for _, c := range []struct {
		name   string
		number int
		want   string
	}{
		{"the first", 1, "record 1 lost, record 2 failed, letter, notice, ack"},
		{"the last one allowed where nothing is said", schema.DefaultRetry.MaxAttempts, "record 5 lost, letter, notice, ack"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x1")
				e := w.entry(inAWhile(time.Second), func(s *schema.Spec) { s.Work, s.Task = nil, "gone" })
				w.attempt(e, c.number, nil, w.session(e, "a", time.Now().Add(-time.Minute)))
				w.publish(e, time.Now(), redispatched)
				time.Sleep(5 * time.Second)
				w.want("the message", c.want)
				if got := w.state(e.ID); got != schema.StateFailed || len(w.started()) != 0 {
					t.Errorf("state: got %s after %d starts, want failed after none", got, len(w.started()))
				}
			})
		})
	}
}

// TestEarlyStartsAreCounted: none ever happens, so that the counter itself must be shown to count.
func TestEarlyStartsAreCounted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.begin("x1")
		e := w.entry(inAWhile(time.Second))
		for _, c := range []struct {
			at   time.Time
			want float64
		}{{e.Due(), 0}, {e.Due().Add(time.Nanosecond), 0}, {e.Due().Add(-time.Nanosecond), 1}, {e.Due().Add(-time.Hour), 2}} {
			a := attemptOf(x.Executor, &e)
			a.begin(time.Now(), c.at, 1, "s", func(error) {})
			if got := counted(t, x.metrics.early); got != c.want {
				t.Errorf("begun at %v of %v: early starts counted: got %v, want %v", c.at, e.Due(), got, c.want)
			}
		}
	})
}

// TestACellThatIsNotAnsweredIsWrittenAgain: a start in doubt waited 5 s for the answer to its cell.
// By then its basis was too old, so it was given up, and came again.
func TestACellThatIsNotAnsweredIsWrittenAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		e := w.entry(inAWhile(time.Second))
		w.befallOnce("PutAttempts", schematest.Fault{Delay: time.Minute})
		w.publish(e, time.Now(), redispatched)
		time.Sleep(10 * time.Second)
		starts := w.started()
		if len(starts) != 1 {
			t.Fatalf("starts: got %d, want 1", len(starts))
		}
		if late := starts[0].at.Sub(e.Due()); late < cellTimeout || late > cellTimeout+2*recordWithin {
			t.Errorf("started %v late, want %v: once the write was not answered in time", late, cellTimeout)
		}
		w.unstarted(e.ID, 0)
	})
}

// TestTheRivalThatYieldsDoesSoAtOnce: of two executors that begin a run in the same instant one gave
// way 100 ms later, with the next records, and the other waited for that.
func TestTheRivalThatYieldsDoesSoAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for _, name := range []string{"x1", "x2"} {
			w.begin(name, func(cfg *Config) { cfg.Slots = 1 }) // neither takes all messages
		}
		w.befall(func(_ context.Context, op string) (f schematest.Fault) {
			if op == "PutAttempts" {
				f.Delay = 5 * time.Millisecond // both write before one reads
			}
			return f
		})
		e := w.entry(inAWhile(time.Second))
		for i := range 12 {
			w.publish(e, time.Now(), again(i+1))
		}
		time.Sleep(10 * time.Second)
		starts := w.started()
		if len(starts) != 1 {
			t.Fatalf("starts: got %d, want 1", len(starts))
		}
		if late := starts[0].at.Sub(e.Due()); late > recordWithin/2 {
			t.Errorf("started %v late, want at most %v", late, recordWithin/2)
		}
		w.unstarted(e.ID, 1)
	})
}
