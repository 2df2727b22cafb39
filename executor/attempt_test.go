package executor

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

func TestStartsAtTheInstant(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		due := inAWhile(1300 * time.Millisecond)
		e := w.entry(due)
		w.publish(e, time.Now())
		w.counts.Reset()
		time.Sleep(2 * time.Second)
		starts := w.started()
		if len(starts) != 1 || !starts[0].at.Equal(due) {
			t.Fatalf("starts: got %+v, want one at %v", starts, due)
		}
		w.want("a fresh envelope", "start 1, record 1 succeeded, notice, ack")
		if tally := w.counts.Tallies(); tally["EntriesByID"].Calls+tally["Attempts"].Calls+tally["Session"].Calls > 0 || tally["PutAttempts"].Rows != 1 {
			t.Errorf("statements of a start without doubt: got %+v, want no read and one row", tally)
		}
	})
}

// TestLooksWhenInDoubt: what is fresh starts without a look; whoever is in doubt reads the rows,
// has its session held before the start, and reads them again.
func TestLooksWhenInDoubt(t *testing.T) {
	const once = "start 1, record 1 succeeded, notice, ack"
	const marked = "session 1, " + once
	for _, tc := range []struct {
		name   string
		read   time.Duration // before the due time
		kind   schema.Kind
		change []func(*queue.Envelope)
		looks  int
		want   string
	}{
		{name: "read 1.8 s before", read: 1800 * time.Millisecond, want: once},
		{name: "read 2.0 s before", read: 2 * time.Second, looks: 2, want: marked},
		{name: "read never", read: 10 * 365 * 24 * time.Hour, looks: 2, want: marked},
		{name: "redispatched", read: time.Second, change: []func(*queue.Envelope){redispatched}, looks: 2, want: marked},
		{name: "of another row", read: time.Second, kind: schema.KindLate, looks: 2, want: marked},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x1")
				due := inAWhile(time.Second)
				e := w.entry(due)
				if tc.kind != "" {
					of := e
					e = w.entry(due, func(s *schema.Spec) { s.Kind, s.Of, s.For = tc.kind, of.ID, of.ID })
				}
				w.publish(e, due.Add(-tc.read), tc.change...)
				w.counts.Reset()
				time.Sleep(1500 * time.Millisecond)
				w.want("the attempt", tc.want)
				if got := w.counts.Tally("EntriesByID").Calls; got != tc.looks {
					t.Errorf("looks: got %d, want %d", got, tc.looks)
				}
				// A session cell is written first, with others of its partition, which is then read
				// again.
				if starts := w.started(); len(starts) == 1 && (starts[0].at.Before(due) || starts[0].at.After(due.Add(markWithin+batchWithin)) ||
					tc.want == once && !starts[0].at.Equal(due)) {
					t.Errorf("start: got %v, want %v", starts[0].at, due)
				}
			})
		})
	}
}

// TestRedeliveredIsLookedAt: a message whose first holder vanished is looked at.
func TestRedeliveredIsLookedAt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		dead := w.broker.Connect("dead")
		e := w.entry(inAWhile(time.Second))
		w.publish(e, time.Now().Add(queue.AckWait)) // fresh enough also when it comes again
		if got, err := dead.Fetch(context.Background(), 0, schema.Normal, 1, time.Second); err != nil || len(got) != 1 {
			t.Fatalf("Fetch: %d, %v", len(got), err)
		}
		_ = dead.Close() // always nil
		w.begin("x1")
		time.Sleep(queue.AckWait)
		w.want("delivered again", "session 1, start 1, record 1 succeeded, notice, ack")
	})
}

// TestStanding: what starts, and what becomes of the message, for every standing of an entry.
func TestStanding(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(w *world, e *schema.Entry)
		want string
		end  schema.State
	}{
		{"pending", func(*world, *schema.Entry) {}, "session 1, start 1, record 1 succeeded, notice, ack", schema.StateSucceeded},
		{"over", func(w *world, e *schema.Entry) {
			w.attempt(*e, 1, &schema.Record{Entry: e.ID, Outcome: schema.Succeeded}, nil)
		}, "notice, ack", schema.StateSucceeded},
		{"cancelled", func(w *world, e *schema.Entry) {
			if _, err := w.inner.CancelRun(context.Background(), e.ID, schema.EntryID{}, schema.Cancel{At: time.Now()}, time.Now().Add(time.Hour)); err != nil {
				w.t.Fatal(err)
			}
		}, "notice, ack", schema.StateCancelled},
		{"over, its follow-ups missing", func(w *world, e *schema.Entry) {
			w.attempt(*e, 1, &schema.Record{Entry: e.ID, Outcome: schema.Failed, Next: schema.MakeEntryID(time.Now().Add(time.Minute), 0, 99)}, nil)
		}, "entry retry, notice, ack", schema.StateRetrying},
		{"unnamed", func(w *world, e *schema.Entry) {
			run := *e
			*e = w.entry(e.Due(), func(s *schema.Spec) { s.Kind, s.Of = schema.KindReschedule, run.ID })
		}, "ack", schema.StatePending},
		{"live", func(w *world, e *schema.Entry) {
			w.attempt(*e, 1, nil, w.session(*e, "a", time.Now().Add(time.Minute)))
		}, "ack", schema.StateRunning},
		{"expired, within the grace", func(w *world, e *schema.Entry) {
			w.attempt(*e, 1, nil, w.session(*e, "a", time.Now().Add(-500*time.Millisecond)))
		}, "ack", schema.StateRunning},
		{"dead", func(w *world, e *schema.Entry) {
			w.attempt(*e, 1, nil, w.session(*e, "a", time.Now().Add(-time.Minute)))
		}, "record 1 lost, session 2, start 2, record 2 succeeded, notice, ack", schema.StateSucceeded},
		{"the last one allowed is dead", func(w *world, e *schema.Entry) {
			w.attempt(*e, 3, nil, w.session(*e, "a", time.Now().Add(-time.Minute)))
		}, "record 3 lost, letter, notice, ack", schema.StateFailed},
		{"several are dead, the last one allowed too", func(w *world, e *schema.Entry) {
			w.attempt(*e, 2, nil, w.session(*e, "a", time.Now().Add(-time.Minute)))
			w.attempt(*e, 3, nil, w.session(*e, "b", time.Now().Add(-time.Minute)))
		}, "record 2 lost, record 3 lost, letter, notice, ack", schema.StateFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x1")
				e := w.entry(inAWhile(time.Second))
				run := e.ID
				tc.make(w, &e)
				w.publish(e, time.Now(), redispatched)
				time.Sleep(1500 * time.Millisecond)
				w.want("the message", tc.want)
				if got := w.state(run); got != tc.end {
					t.Errorf("state: got %s, want %s", got, tc.end)
				}
				if got := w.open(); got != 0 {
					t.Errorf("messages left: got %d, want none", got)
				}
			})
		})
	}
}

// TestRowThatHasLeftStartsNothing: nothing is asked for any more.
func TestRowThatHasLeftStartsNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		at := inAWhile(time.Second)
		e := w.entry(at)
		gone, err := schema.NewEntry(schema.MakeEntryID(at, 0, 1<<40), e.Spec, nil, at)
		if err != nil {
			t.Fatal(err)
		}
		w.publish(gone, time.Now(), redispatched)
		time.Sleep(2 * time.Second)
		w.want("no row", "notice, ack")
	})
}

// TestAnAttemptHasItsTimeout: that long after its start the callee is told to end, and why. The
// attempt counts, and the next one has its row.
func TestAnAttemptHasItsTimeout(t *testing.T) {
	const two = schema.Duration(2 * time.Second)
	retry := &schema.Retry{MaxAttempts: 3, Jitter: "none"}
	for name, c := range map[string]struct {
		task   schema.Duration // of the task "a"
		change func(*schema.Spec)
		want   time.Duration
	}{
		"its own":                             {0, func(s *schema.Spec) { s.Work.Timeout = two }, two.Std()},
		"its task's":                          {two, ofTaskA, two.Std()},
		"the default":                         {two, func(*schema.Spec) {}, schema.DefaultTimeout.Std()},
		"the default of a task that has none": {0, ofTaskA, schema.DefaultTimeout.Std()},
		"of a guarded run":                    {0, func(s *schema.Spec) { s.Work.Timeout, s.Work.Guarantee = two, schema.EffectivelyOnce }, two.Std()},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				task := schema.Task{Tenant: "t", Name: "a", UpdatedAt: time.Now(), Work: schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink"}, Timeout: c.task, Retry: retry}}
				if err := w.inner.PutTask(t.Context(), task); err != nil {
					t.Fatalf("PutTask: %v", err)
				}
				w.begin("x1")
				var cause error
				w.answer(func(ctx context.Context, _ target.Call) target.Result {
					<-ctx.Done()
					cause = context.Cause(ctx)
					return target.Ended(ctx)
				})
				due := inAWhile(time.Second)
				e := w.entry(due, c.change)
				w.publish(e, time.Now())
				time.Sleep(time.Until(due) + c.want + 500*time.Millisecond)
				synctest.Wait()
				starts := w.started()
				if len(starts) != 1 || !errors.Is(cause, target.ErrTimeout) {
					t.Fatalf("%s after the start: %d starts, ended because of %v; want one, ended because of %v", c.want, len(starts), cause, target.ErrTimeout)
				}
				rec := w.only(e.ID)
				if end := starts[0].at.Add(c.want); rec.Outcome != schema.TimedOut || rec.Final || !rec.Started.Equal(starts[0].at) || !rec.Finished.Equal(end) {
					t.Errorf("record: got %+v, want timed_out, not final, from %v to %v", rec, starts[0].at, end)
				}
				if next := w.find(rec.Next); next.Spec.Kind != schema.KindRetry || next.Spec.Of != e.ID || !next.Due().Equal(rec.Finished.Add(time.Second)) {
					t.Errorf("what follows: got %+v due %v, want a retry a second after %v", next.Spec, next.Due(), rec.Finished)
				}
			})
		})
	}
}

// TestRetryAfterIsHeeded: a callee that says how long it wants to be left alone is, though the
// run's own back-off is shorter, but for no longer than a day.
func TestRetryAfterIsHeeded(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		want   time.Duration
	}{
		"an hour":               {"3600", time.Hour},
		"a week":                {"604800", target.MaxRetryAfter},
		"less than the backoff": {"0", time.Second},
	} {
		for _, g := range []schema.Guarantee{schema.AtLeastOnce, schema.EffectivelyOnce} {
			t.Run(name+", "+string(g), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					w.begin("x1")
					w.answer(func(context.Context, target.Call) target.Result {
						return target.StatusResult(http.StatusTooManyRequests, c.header, time.Now())
					})
					e := w.entry(inAWhile(time.Second), guarded(g))
					w.publish(e, time.Now())
					time.Sleep(2 * time.Second)
					rec := w.only(e.ID)
					if rec.Outcome != schema.Failed || rec.Status != http.StatusTooManyRequests || rec.Next.IsZero() {
						t.Fatalf("record: got %+v, want a failure with 429 that names the next start", rec)
					}
					next := w.find(rec.Next)
					if wait := next.Due().Sub(rec.Finished); wait < c.want || wait >= c.want+time.Millisecond {
						t.Errorf("Retry-After %s: the next start is %s after the end, want %s", c.header, wait, c.want)
					}
					if g.Guarded() {
						if _, claim := w.lease(e.ID); claim.Record == nil || claim.Record.Next != rec.Next {
							t.Errorf("the lease says %+v, want the next start that the row has, %s", claim.Record, rec.Next)
						}
					}
				})
			})
		}
	}
}
