package executor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

func TestGuardedRunIsClaimedBeforeItStartsAndEndedBeforeItIsRecorded(t *testing.T) {
	for _, g := range guarantees {
		t.Run(string(g), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x1")
				e := w.entry(inAWhile(time.Second), guarded(g))
				w.answer(func(context.Context, target.Call) target.Result {
					l, c := w.lease(e.ID)
					if l.Holder == nil || l.Holder.Executor != "x1" || l.Holder.Entry != e.ID || c.Number != 1 || c.Fence != l.Fence || c.Record != nil {
						t.Errorf("lease at the start = %+v (%+v), want attempt 1 of x1", l, c)
					}
					if got := w.started()[0].Fence; got != l.Fence {
						t.Errorf("fence at the callee = %d, want %d, the lease's", got, l.Fence)
					}
					return target.Result{Outcome: schema.Succeeded}
				})
				w.publish(e, time.Now())
				time.Sleep(5 * time.Second)
				w.want("events", "start 1, record 1 succeeded, notice, ack")
				w.ends(e.ID, schema.StateSucceeded, "1 succeeded")
				if got := w.counts.Tally("SwapLease").Calls; got != 2 {
					t.Errorf("%d swaps of leases, want 2", got)
				}
				if got := w.counts.Tally("Lease").Calls; got != 0 { // the test's own go past the counter
					t.Errorf("%d reads of leases, want none", got)
				}
			})
		})
	}
}

// TestUnguardedRunTouchesNoLease: the others must not pay for it.
func TestUnguardedRunTouchesNoLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		e := w.entry(inAWhile(time.Second))
		w.publish(e, time.Now(), redispatched) // also in doubt
		time.Sleep(5 * time.Second)
		w.want("events", "session 1, start 1, record 1 succeeded, notice, ack")
		for _, op := range []string{"Lease", "SwapLease"} {
			if got := w.counts.Tally(op).Calls; got != 0 {
				t.Errorf("%d calls of %s, want none", got, op)
			}
		}
	})
}

// TestARunThatItsLeaseGaveUpIsRecordedSo: a dispatcher ended the run in its lease as missed, and
// died before it recorded that. Another, which would have recorded something else, leaves it to an
// executor: that records what the lease says.
func TestARunThatItsLeaseGaveUpIsRecordedSo(t *testing.T) {
	for _, g := range guarantees {
		t.Run(string(g), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				x := w.begin("x1")
				e := w.entry(inAWhile(time.Second), guarded(g))
				row := x.writer.NotStarted(e, schema.Record{Outcome: schema.Missed, Reason: "deadline: too late"}, time.Now())
				is, err := schema.Lease{}.EndedByOther(row, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				is.Key = schema.RunLease(e.ID)
				if _, err := w.inner.SwapLease(t.Context(), schema.Lease{}, is, row.Expires); err != nil {
					t.Fatal(err)
				}
				w.publish(e, time.Now())
				time.Sleep(5 * time.Second)
				w.want("events", "record 0 missed, notice, ack")
				w.ends(e.ID, schema.StateMissed, "0 missed")
			})
		})
	}
}

func TestGuardedRunIsRetriedUnderAHigherFence(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		e := w.entry(inAWhile(time.Second), guarded(schema.EffectivelyOnce))
		w.answer(func(_ context.Context, c target.Call) target.Result {
			if c.Number < 3 {
				return target.Result{Outcome: schema.Failed, Error: "not yet"}
			}
			return target.Result{Outcome: schema.Succeeded}
		})
		w.publish(e, time.Now())
		time.Sleep(2 * time.Second)
		for range 2 {
			_, c := w.lease(e.ID)
			if c.Record == nil || c.Record.Next.IsZero() || c.Over() {
				t.Fatalf("lease after attempt %d says %+v, want a record that names the next", c.Number, c)
			}
			next := w.find(c.Record.Next)
			w.publish(next, time.Now())
			time.Sleep(time.Until(next.Due()) + time.Second)
		}
		w.ends(e.ID, schema.StateSucceeded, "1 failed, 2 failed, 3 succeeded")
		calls := w.started()
		if len(calls) != 3 || calls[0].Fence >= calls[1].Fence || calls[1].Fence >= calls[2].Fence {
			t.Errorf("calls = %+v, want three under growing fences", calls)
		}
		w.publish(e, time.Now(), redispatched) // the first entry once more
		time.Sleep(2 * time.Second)
		w.ends(e.ID, schema.StateSucceeded, "1 failed, 2 failed, 3 succeeded")
	})
}

// TestGuardedRunStartsOnce: however many hear of it, fresh or in doubt, and whoever does the work;
// also when its executor dies meanwhile.
func TestGuardedRunStartsOnce(t *testing.T) {
	for name, work := range map[string]schema.Work{
		"http": {HTTP: &schema.HTTPTarget{URL: "http://sink"}}, "nats": {NATS: &schema.NATSTarget{Subject: "work.a"}}, "script": {Script: &schema.ScriptTarget{Command: "report"}},
	} {
		for _, g := range guarantees {
			t.Run(name+", "+string(g), func(t *testing.T) { startsOnce(t, g, &work) })
		}
	}
}

func startsOnce(t *testing.T, g schema.Guarantee, work *schema.Work) {
	inWorld(t, func(t *testing.T, w *world) {
		scripts := func(cfg *Config) { cfg.Targets.Script = cfg.Targets.HTTP }
		var xs []*node
		for i := range 4 {
			xs = append(xs, w.begin(fmt.Sprint("x", i), scripts, cutOff(new(alone))))
		}
		var o overlap
		w.answer(func(context.Context, target.Call) target.Result {
			defer o.enter()()
			time.Sleep(8 * time.Second)
			return target.Result{Outcome: schema.Succeeded}
		})
		of := func(s *schema.Spec) {
			kind := *work
			kind.Retry, kind.Guarantee = s.Work.Retry, s.Work.Guarantee
			s.Work = &kind
		}
		e := w.entry(inAWhile(time.Second), guarded(g), of)
		for i := range 12 {
			w.publish(e, time.Now(), again(i))
		}
		time.Sleep(30 * time.Second)
		if _, most := o.counts(); len(w.started()) != 1 || most != 1 {
			t.Errorf("%d starts, %d at once; want 1, 1", len(w.started()), most)
		}
		w.ends(e.ID, schema.StateSucceeded, "1 succeeded")
		if n := w.open(); n != 0 {
			t.Errorf("%d messages are left, want none", n)
		}

		var once sync.Once
		w.answer(func(ctx context.Context, _ target.Call) target.Result {
			defer o.enter()()
			res := target.Result{Outcome: schema.Succeeded}
			once.Do(func() { // its executor hears of no session any more, and goes silent
				<-ctx.Done()
				res.Outcome = schema.Cancelled
			})
			return res
		})
		e = w.entry(inAWhile(time.Second), guarded(g), of)
		w.publish(e, time.Now(), again(0))
		time.Sleep(2 * time.Second)
		for _, x := range xs {
			if x.Running() > 0 {
				w.die(x)
			}
		}
		for i := range 60 {
			w.publish(e, time.Now(), again(i+1))
			time.Sleep(time.Second)
		}
		_, most := o.counts()
		if starts := len(w.started()) - 1; most != 1 || g == schema.AtMostOnce && starts != 1 || g == schema.EffectivelyOnce && starts != 2 {
			t.Errorf("after its executor died: %d starts, %d at once, %q; want 2 with effectively_once, 1 with at_most_once, and never two at once", starts, most, w.story(e.ID))
		}
	})
}

// TestFrozenHolderChangesNothing: an executor is cut off past its session while its callee goes on,
// deaf or not; another ends the run; then the first comes back.
func TestFrozenHolderChangesNothing(t *testing.T) {
	for _, c := range []struct {
		name    string
		g       schema.Guarantee
		deaf    bool
		stopped bool          // the target says that it was stopped, as HTTP does
		timeout time.Duration // after which the target takes its time to end, as a script may; 0: long
		state   schema.State
		story   string
		calls   int
	}{
		{"effectively_once", schema.EffectivelyOnce, false, false, 0, schema.StateSucceeded, "1 lost, 2 succeeded", 2},
		{"effectively_once, stopped by its target", schema.EffectivelyOnce, false, true, 0, schema.StateSucceeded, "1 lost, 2 succeeded", 2},
		{"effectively_once, ending after its time-out", schema.EffectivelyOnce, false, false, 6 * time.Second, schema.StateSucceeded, "1 lost, 2 succeeded", 2},
		{"effectively_once, and the callee is deaf", schema.EffectivelyOnce, true, false, 0, schema.StateSucceeded, "1 lost, 2 succeeded", 2},
		{"at_most_once", schema.AtMostOnce, false, false, 0, schema.StateFailed, "1 lost", 1},
		{"at_most_once, and the callee is deaf", schema.AtMostOnce, true, false, 0, schema.StateFailed, "1 lost", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				store := &alone{}
				x1 := w.begin("x1", cutOff(store))
				var o overlap
				w.answer(func(ctx context.Context, call target.Call) target.Result {
					defer o.enter()()
					if call.Number > 1 {
						return target.Result{Outcome: schema.Succeeded}
					}
					if c.deaf {
						ctx = context.Background()
					}
					select {
					case <-time.After(time.Minute):
						return target.Result{Outcome: schema.Succeeded, Output: []byte("late")}
					case <-ctx.Done():
					}
					if c.timeout > 0 {
						select {
						case <-time.After(time.Minute):
						case <-call.Abandoned:
						}
					}
					return target.Result{Outcome: schema.Failed, Error: "stopped", Stopped: c.stopped}
				})
				e := w.entry(inAWhile(time.Second), guarded(c.g), func(s *schema.Spec) { s.Work.Timeout = schema.Duration(c.timeout) })
				w.publish(e, time.Now())
				time.Sleep(4 * time.Second) // under way, and out of the stream
				w.begin("x2")
				store.cut.Store(true)
				time.Sleep(16 * time.Second) // past the session and its grace
				if now, _ := o.counts(); c.g == schema.EffectivelyOnce && !c.deaf && now != 0 {
					t.Errorf("%d calls are under way past the session's deadline, want none", now)
				}
				w.publish(e, time.Now(), redispatched)
				time.Sleep(5 * time.Second)
				w.ends(e.ID, c.state, c.story)
				before, _ := w.lease(e.ID)
				store.cut.Store(false)
				time.Sleep(2 * time.Minute) // its callee has answered, and it has a session again
				w.ends(e.ID, c.state, c.story)
				if after, _ := w.lease(e.ID); !after.Same(before) {
					t.Errorf("lease = %+v, want %+v as before", after, before)
				}
				if got := len(w.started()); got != c.calls {
					t.Errorf("%d starts, want %d", got, c.calls)
				}
				if _, most := o.counts(); !c.deaf && most != 1 {
					t.Errorf("%d calls at once, want 1", most)
				}
				want := 1.0
				if c.g == schema.EffectivelyOnce && !c.deaf {
					want = 0 // it ended by itself, as lost, while its claim stood
				}
				if got := counted(t, x1.metrics.outcomes.WithLabelValues(string(schema.Superseded))); got != want {
					t.Errorf("%v superseded outcomes, want %v", got, want)
				}
			})
		})
	}
}

// TestClaimsOfOneInstantDiffer: two messages of one run that are here at once, which claim it in
// the same ns under the same fence, would both start.
func TestClaimsOfOneInstantDiffer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x, now := w.begin("x1"), time.Now()
		seen := map[time.Time]bool{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100 {
					at := x.instant(now)
					mu.Lock()
					if seen[at] || at.Before(now) || at.Sub(now) > time.Microsecond {
						t.Errorf("instant(%v) = %v, want one of its own within a µs", now, at)
					}
					seen[at] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
	})
}

// TestClaimOfUnknownOutcome: whatever becomes of the answers, the run starts once and ends once.
func TestClaimOfUnknownOutcome(t *testing.T) {
	for _, g := range guarantees {
		for name, fault := range map[string]schematest.Fault{
			"answers are lost": {Lose: true}, "nothing is done or answered": {Silent: true}, "the store does not answer": {Fail: true},
			"answers are late": {Delay: time.Second},
		} {
			for nth := range 4 {
				for times := 1; times <= 3; times += 2 {
					t.Run(fmt.Sprintf("%s, %s, from swap %d on %d times", g, name, nth+1, times), func(t *testing.T) {
						inWorld(t, func(t *testing.T, w *world) {
							w.begin("x1")
							w.begin("x2")
							var n atomic.Int64
							w.befall(func(_ context.Context, op string) schematest.Fault {
								if op == "SwapLease" {
									if i := int(n.Add(1)) - 1; i >= nth && i < nth+times {
										return fault
									}
								}
								return schematest.Fault{}
							})
							e := w.entry(inAWhile(time.Second), guarded(g))
							w.publish(e, time.Now())
							w.publish(e, time.Now(), redispatched)
							time.Sleep(time.Minute)
							// A claim that was decided too late to start from is given up, and
							// leaves a row that stands for nothing.
							story := strings.TrimPrefix(w.story(e.ID), "1 unstarted, ")
							w.ends(e.ID, schema.StateSucceeded, w.story(e.ID))
							if story != "1 succeeded" {
								t.Errorf("attempts: %s, want one that succeeded", w.story(e.ID))
							}
							if got := len(w.started()); got != 1 || w.open() != 0 {
								t.Errorf("%d starts, %d messages left; want 1, 0", got, w.open())
							}
						})
					})
				}
			}
		}
	}
}

// TestOutcomeInTheLeaseAloneIsRecorded: the executor ends its claim and dies before it records: who
// comes next writes what the lease says, and what follows from it.
func TestOutcomeInTheLeaseAloneIsRecorded(t *testing.T) {
	for _, c := range []struct {
		name    string
		g       schema.Guarantee
		outcome schema.Outcome
		state   schema.State
		story   string
	}{
		{"success", schema.EffectivelyOnce, schema.Succeeded, schema.StateSucceeded, "1 succeeded"},
		{"a failure that is tried again", schema.EffectivelyOnce, schema.Failed, schema.StateRetrying, "1 failed"},
		{"success at most once", schema.AtMostOnce, schema.Succeeded, schema.StateSucceeded, "1 succeeded"},
		{"failure at most once", schema.AtMostOnce, schema.Failed, schema.StateFailed, "1 failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				x1 := w.begin("x1")
				w.answer(func(context.Context, target.Call) target.Result { return target.Result{Outcome: c.outcome, Error: "x"} })
				w.breakDown("PutAttempts")
				e := w.entry(inAWhile(time.Second), guarded(c.g))
				w.publish(e, time.Now())
				time.Sleep(3 * time.Second)
				if l, claim := w.lease(e.ID); l.Holder != nil || claim.Record == nil || claim.Record.Outcome != c.outcome || w.story(e.ID) != "" {
					t.Fatalf("lease = %+v (%+v), rows %q; want %s, and no rows", l, claim, w.story(e.ID), c.outcome)
				}
				x1.kill()
				w.breakDown()
				w.happened()
				w.begin("x2")
				time.Sleep(20 * time.Second) // the message comes again
				if got := w.state(e.ID); got != c.state || w.story(e.ID) != c.story {
					t.Errorf("the run is %s after %q; want %s after %q", got, w.story(e.ID), c.state, c.story)
				}
				if len(w.started()) != 1 || w.open() != 0 {
					t.Errorf("%d starts, %d messages left; want 1, 0", len(w.started()), w.open())
				}
				if _, claim := w.lease(e.ID); !claim.Record.Next.IsZero() {
					w.find(claim.Record.Next) // the retry is written
				}
			})
		})
	}
}

// TestLateClaimIsGivenUp: a claim whose answer came so late that the start rests on nothing any
// more starts nothing, and is free again.
func TestLateClaimIsGivenUp(t *testing.T) {
	for _, g := range guarantees {
		t.Run(string(g), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x1")
				var n atomic.Int64
				w.befall(func(_ context.Context, op string) schematest.Fault {
					if op == "SwapLease" && n.Add(1) == 1 {
						return schematest.Fault{Delay: 3 * time.Second}
					}
					return schematest.Fault{}
				})
				e := w.entry(inAWhile(time.Second), guarded(g))
				w.publish(e, time.Now())
				time.Sleep(20 * time.Second)
				w.want("events", "record 1 lost, return, start 1, record 1 succeeded, notice, ack")
				w.ends(e.ID, schema.StateSucceeded, "1 unstarted, 1 succeeded")
			})
		})
	}
}

// TestMissedGuardedRunEndsInItsLease: nobody else may start it then.
func TestMissedGuardedRunEndsInItsLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		e := w.entry(inAWhile(-time.Minute), guarded(schema.EffectivelyOnce), func(s *schema.Spec) {
			s.Misfire = &schema.Misfire{Policy: schema.RunAll, Deadline: schema.Duration(10 * time.Second)}
			s.Accepted = time.Now().Add(-2 * time.Minute).UnixMicro() // the deadline counts from the later of both
		})
		w.publish(e, time.Now())
		time.Sleep(3 * time.Second)
		w.ends(e.ID, schema.StateMissed, "0 missed")
		if got := len(w.started()); got != 0 {
			t.Errorf("%d starts, want none", got)
		}
	})
}

// TestCrashedAttemptsAreBounded: a run that kills its executors ends.
func TestCrashedGuardedAttemptsAreBounded(t *testing.T) {
	for _, c := range []struct {
		g     schema.Guarantee
		story string
	}{{schema.AtMostOnce, "1 lost"}, {schema.EffectivelyOnce, "1 lost, 2 lost, 3 lost"}} {
		t.Run(string(c.g), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.answer(func(ctx context.Context, _ target.Call) target.Result {
					<-ctx.Done() // by its own time-out, a long time from here
					return target.Result{Outcome: schema.Failed}
				})
				e := w.entry(inAWhile(time.Second), guarded(c.g), func(s *schema.Spec) { s.Work.Timeout = schema.Duration(10 * time.Minute) })
				w.publish(e, time.Now())
				for i := range 5 {
					store := &alone{}
					x := w.begin(fmt.Sprint("x", i), cutOff(store))
					time.Sleep(5 * time.Second)
					store.cut.Store(true)
					x.conn.Cut() // nobody hears of it any more
					time.Sleep(20 * time.Second)
					w.publish(e, time.Now(), again(i))
				}
				w.begin("last")
				time.Sleep(10 * time.Second)
				w.ends(e.ID, schema.StateFailed, c.story)
				if got := len(w.started()); got != len(strings.Split(c.story, ", ")) {
					t.Errorf("%d starts, want as many as attempts", got)
				}
			})
		})
	}
}

// TestAClaimThatIsNotAnsweredHoldsNoRunUp: an executor that is cut from the store while it claims
// keeps the run until its session may have been declared dead, and no longer. It kept it for as
// long as the cut lasted, 5 minutes in a chaos run.
func TestAClaimThatIsNotAnsweredHoldsNoRunUp(t *testing.T) {
	for _, c := range []struct {
		name    string
		applied bool          // the store did what it was asked, and the answer is lost
		lasts   time.Duration // the cut; so short that the session goes on, or for long
		others  bool          // another executor is there
		within  time.Duration // of the due time the run starts
		stories map[schema.Guarantee]string
	}{
		{
			"nothing was done", false, 5 * time.Minute, true, 20 * time.Second,
			map[schema.Guarantee]string{schema.AtMostOnce: "1 succeeded", schema.EffectivelyOnce: "1 succeeded"},
		},
		{
			"the claim stands", true, 5 * time.Minute, true, 20 * time.Second,
			map[schema.Guarantee]string{schema.AtMostOnce: "1 lost", schema.EffectivelyOnce: "1 lost, 2 succeeded"},
		},
		{
			"the session goes on", false, 17 * time.Second, false, 20 * time.Second,
			map[schema.Guarantee]string{schema.AtMostOnce: "1 unstarted, 1 succeeded", schema.EffectivelyOnce: "1 unstarted, 1 succeeded"},
		},
		{
			"the claim stands, and the session goes on", true, 17 * time.Second, false, 20 * time.Second,
			map[schema.Guarantee]string{schema.AtMostOnce: "1 unstarted, 1 succeeded", schema.EffectivelyOnce: "1 unstarted, 1 succeeded"},
		},
	} {
		for _, g := range guarantees {
			t.Run(fmt.Sprintf("%s, %s", g, c.name), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					var cut, asked atomic.Bool
					plan := func(_ context.Context, op string) schematest.Fault {
						switch {
						case op == "SwapLease" && !asked.Swap(true):
							cut.Store(true)
							return schematest.Fault{Lose: c.applied, Silent: !c.applied}
						case cut.Load():
							return schematest.Fault{Delay: time.Second, Silent: true}
						}
						return schematest.Fault{}
					}
					w.begin("x1", func(conf *Config) { conf.Store = schematest.Faulty(w.store, plan) })
					e := w.entry(inAWhile(time.Second), guarded(g))
					w.publish(e, time.Now())
					time.Sleep(2 * time.Second)
					if c.others {
						w.begin("x2")
						time.Sleep(30 * time.Second)
						w.publish(e, time.Now(), redispatched) // as the dispatcher does once the session was declared dead
					}
					time.Sleep(c.lasts)
					cut.Store(false)
					time.Sleep(time.Minute)
					story := w.story(e.ID)
					if story != c.stories[g] {
						t.Errorf("attempts: %s, want %s", story, c.stories[g])
					}
					starts := w.started()
					if want := strings.Count(story, "succeeded"); len(starts) != want || w.open() != 0 {
						t.Errorf("%d starts and %d messages left, want %d and 0", len(starts), w.open(), want)
					}
					for _, s := range starts {
						if late := s.at.Sub(e.Due()); late > c.within {
							t.Errorf("it started %v late, want %v at most", late, c.within)
						}
					}
				})
			})
		}
	}
}
