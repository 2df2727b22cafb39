package executor

import (
	"context"
	"slices"
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

// limited holds a job in the store whose runs are limited so.
func (w *world) limited(limit int, onLimit string) schema.Job {
	w.t.Helper()
	job := w.job(schema.JobActive, time.Time{}, &schema.Misfire{Policy: schema.RunAll})
	next := job
	next.Current.Number++
	next.Current.Spec.Concurrency = &schema.Concurrency{Limit: limit, OnLimit: onLimit}
	if err := w.inner.SwapJob(context.Background(), job.Current.Number, next); err != nil {
		w.t.Fatalf("job: %v", err)
	}
	return next
}

// ofLimited makes an entry one of the job's, with its limit.
func ofLimited(job schema.Job, change ...func(*schema.Spec)) func(*schema.Spec) {
	return func(s *schema.Spec) {
		of(job, job.Current.Number)(s)
		s.Concurrency = job.Current.Spec.Concurrency
		for _, f := range change {
			f(s)
		}
	}
}

// turns publishes, as a dispatcher would, the entries in the buckets around now that have taken the
// place of others since, and returns whose runs they are.
func (w *world) turns(seen map[schema.EntryID]bool) []schema.RunID {
	w.t.Helper()
	var runs []schema.RunID
	now := schema.BucketOf(time.Now())
	for b := now - 1; b <= now+1; b++ {
		rows, err := w.inner.Entries(context.Background(), schema.Partition{Bucket: b}, schema.IDRange{}, 1000)
		if err != nil {
			w.t.Fatalf("entries: %v", err)
		}
		for i := range rows {
			if e := rows[i]; e.Spec.Kind == schema.KindFromWaitList && !seen[e.ID] {
				seen[e.ID] = true
				runs = append(runs, e.Run())
				w.publish(e, time.Now())
			}
		}
	}
	return runs
}

// lingering makes the callee answer when it is let to, or stopped, and returns how to let the calls
// of a run end.
func (w *world) lingering() (end func(schema.RunID)) {
	over := make(map[schema.RunID]chan struct{})
	of := func(run schema.RunID) chan struct{} {
		w.mu.Lock()
		defer w.mu.Unlock()
		if over[run] == nil {
			over[run] = make(chan struct{})
		}
		return over[run]
	}
	w.answer(func(ctx context.Context, c target.Call) target.Result {
		select {
		case <-of(c.Run):
			return target.Result{Outcome: schema.Succeeded}
		case <-ctx.Done():
			time.Sleep(300 * time.Millisecond) // longer than it takes to hold the next one back
			return target.Ended(ctx)
		}
	})
	return func(run schema.RunID) { close(of(run)) }
}

// ran returns the runs that the callee was called for, in order.
func (w *world) ran() []schema.RunID {
	var runs []schema.RunID
	for _, s := range w.started() {
		runs = append(runs, s.Run)
	}
	return runs
}

// slots returns how many runs have slots of the job.
func (w *world) slots(job schema.JobID) int {
	w.t.Helper()
	l, err := w.inner.Lease(context.Background(), schema.JobLimit(job).Lease())
	if err != nil {
		w.t.Fatalf("lease: %v", err)
	}
	s, err := l.Slots()
	if err != nil {
		w.t.Fatalf("slots: %v", err)
	}
	return len(s.Sessions())
}

// TestRunsOfALimitedJobWaitForOneAnother: no more than two are under way, wherever, and who leaves
// starts who was due first.
func TestRunsOfALimitedJobWaitForOneAnother(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x")
		w.begin("y")
		end := w.lingering()
		job := w.limited(2, schema.OnLimitQueue)
		var runs []schema.RunID
		for i := range 5 {
			e := w.entry(inAWhile(time.Second+time.Duration(i)*10*time.Millisecond), ofLimited(job))
			runs = append(runs, e.ID)
			w.publish(e, time.Now())
		}
		time.Sleep(3 * time.Second)
		if got := w.ran(); !slices.Equal(got, runs[:2]) {
			t.Fatalf("started = %v, want the first two of %v", got, runs)
		}
		if n := w.open(); n != 0 {
			t.Errorf("%d messages are open, want none: what runs is known to the store, what waits has been told", n)
		}
		for _, run := range runs[2:] {
			rows := w.attempts(run)
			if len(rows) != 1 || !rows[0].HeldByLimit() || w.state(run) != schema.StatePending {
				t.Errorf("run %s = %+v, %s; want it held back, and pending", run, rows, w.state(run))
			}
		}
		seen := make(map[schema.EntryID]bool)
		if got := w.turns(seen); len(got) != 0 {
			t.Errorf("it is the turn of %v, want nobody's", got)
		}
		for i, run := range runs {
			end(run)
			time.Sleep(time.Second)
			if got := w.turns(seen); i < 3 && (len(got) != 1 || got[0] != runs[i+2]) || i >= 3 && len(got) != 0 {
				t.Errorf("after run %d ended it is the turn of %v, want of run %d, if there is one", i, got, i+2)
			}
			time.Sleep(time.Second)
			if got, want := w.ran(), runs[:min(i+3, 5)]; !slices.Equal(got, want) {
				t.Errorf("after run %d ended, started = %v, want %v", i, got, want)
			}
		}
		for _, run := range runs {
			if got := w.state(run); got != schema.StateSucceeded {
				t.Errorf("run %s is %s, want succeeded", run, got)
			}
		}
		if n := w.slots(job.ID); n != 0 {
			t.Errorf("%d slots are taken in the end, want none", n)
		}
	})
}

// TestWhatALimitIsReachedFor: what becomes of a run for which there is no slot is what the job
// says.
func TestWhatALimitIsReachedFor(t *testing.T) {
	backfilled := func(s *schema.Spec) { s.Trigger = schema.TriggerBackfill }
	again := func(s *schema.Spec) { s.Attempt = 2 }
	for _, c := range []struct {
		name    string
		onLimit string
		change  func(*schema.Spec)
		first   schema.State // of the run that has the slot
		second  schema.State
		held    bool
	}{
		{"queue", schema.OnLimitQueue, func(*schema.Spec) {}, schema.StateRunning, schema.StatePending, true},
		{"nothing stated", "", func(*schema.Spec) {}, schema.StateRunning, schema.StatePending, true},
		{"skip", schema.OnLimitSkip, func(*schema.Spec) {}, schema.StateRunning, schema.StateMissed, false},
		{"skip, of a backfill", schema.OnLimitSkip, backfilled, schema.StateRunning, schema.StatePending, true},
		{"skip, of a later attempt", schema.OnLimitSkip, again, schema.StateRunning, schema.StatePending, true},
		{"cancel the oldest", schema.OnLimitCancelOldest, func(*schema.Spec) {}, schema.StateCancelled, schema.StatePending, true},
		{"cancel the oldest, of a backfill", schema.OnLimitCancelOldest, backfilled, schema.StateRunning, schema.StatePending, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				x := w.begin("x")
				end := w.lingering()
				cancels, err := w.conn.SubscribeSignal("cancel", func(body []byte) {
					if run, err := schema.ParseEntryID(string(body)); err == nil {
						x.Cancel(run)
					}
				})
				if err != nil {
					t.Fatalf("signals: %v", err)
				}
				defer cancels()
				job := w.limited(1, c.onLimit)
				one := w.entry(inAWhile(time.Second), ofLimited(job))
				two := w.entry(inAWhile(2*time.Second), ofLimited(job, c.change))
				w.publish(one, time.Now())
				w.publish(two, time.Now())
				time.Sleep(4 * time.Second)
				if got := w.state(one.ID); got != c.first {
					t.Errorf("the first run is %s, want %s", got, c.first)
				}
				if got := w.state(two.ID); got != c.second {
					t.Errorf("the second run is %s, want %s: %+v", got, c.second, w.attempts(two.ID))
				}
				rows := w.attempts(two.ID)
				if held := slices.ContainsFunc(rows, func(a schema.Attempt) bool { return a.HeldByLimit() }); held != c.held {
					t.Errorf("held back: %v, want %v (%+v)", held, c.held, rows)
				}
				if c.second == schema.StateMissed && (len(rows) != 1 || rows[0].Record.Reason != "skipped: a run of the job was under way") {
					t.Errorf("rows of the second run = %+v, want one that says why", rows)
				}
				if !c.held {
					return
				}
				if c.first == schema.StateRunning {
					end(one.ID)
					time.Sleep(time.Second)
				}
				if got := w.turns(make(map[schema.EntryID]bool)); len(got) != 1 || got[0] != two.ID {
					t.Errorf("it is the turn of %v, want of the second run", got)
				}
				time.Sleep(time.Second)
				if got := w.ran(); !slices.Equal(got, []schema.RunID{one.ID, two.ID}) {
					t.Errorf("started = %v, want the first and then the second", got)
				}
			})
		})
	}
}

// TestALimitCountsForEachValue: runs of one value wait for one another, also those whose payload is
// too large for their entries, and other runs do not.
func TestALimitCountsForEachValue(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x")
		w.begin("y")
		end := w.lingering()
		job := w.limited(1, schema.OnLimitQueue)
		limit := *job.Current.Spec.Concurrency
		limit.Key = "/customer"
		job.Current.Spec.Concurrency = &limit
		job.Current.Number++
		if err := w.inner.SwapJob(t.Context(), job.Current.Number-1, job); err != nil {
			t.Fatalf("job: %v", err)
		}
		of := func(payload string) func(*schema.Spec) {
			return ofLimited(job, func(s *schema.Spec) { s.ConcurrencyValue = limit.Value([]byte(payload)) })
		}
		var runs []schema.RunID
		for i, payload := range []string{`{"customer":"a"}`, `{"customer":"a"}`, `{"customer":"b"}`, `{}`, `[]`} {
			e := w.entry(inAWhile(time.Second+time.Duration(i)*100*time.Millisecond), of(payload))
			runs = append(runs, e.ID)
			w.publish(e, time.Now())
		}
		a1, a2, b, none1, none2 := runs[0], runs[1], runs[2], runs[3], runs[4]
		time.Sleep(3 * time.Second)
		if got, want := w.ran(), []schema.RunID{a1, b, none1}; !slices.Equal(got, want) {
			t.Fatalf("started = %v, want the first of each value: %v", got, want)
		}
		rows := w.attempts(a2)
		if len(rows) != 1 || !rows[0].HeldByLimit() || rows[0].Record.Reason != "concurrency: a run of the job with the same /customer was under way" {
			t.Errorf("rows of the second run of a value = %+v, want that it is held back, and why", rows)
		}
		seen := make(map[schema.EntryID]bool)
		end(b)
		time.Sleep(time.Second)
		if got := w.turns(seen); len(got) != 0 {
			t.Errorf("after the run of another value ended it is the turn of %v, want nobody's", got)
		}
		for over, next := range map[schema.RunID]schema.RunID{a1: a2, none1: none2} {
			end(over)
			time.Sleep(time.Second)
			if got := w.turns(seen); !slices.Equal(got, []schema.RunID{next}) {
				t.Errorf("after %s ended it is the turn of %v, want of %s", over, got, next)
			}
			time.Sleep(time.Second)
		}
		end(a2)
		end(none2)
		time.Sleep(time.Second)
		for _, run := range runs {
			if got := w.state(run); got != schema.StateSucceeded {
				t.Errorf("run %s is %s, want succeeded", run, got)
			}
		}
		if marks, err := w.inner.LimitsWithWaiters(t.Context(), job.ID.Shard(), "", 10); err != nil || len(marks) != 2 {
			t.Errorf("limits that were waited for = %v, %v; want those of the two values", marks, err)
		}
	})
}

// TestOfSeveralThatWaitTheLatestStays: of runs that cancel_oldest lets wait for the cancelled to
// end, all but the latest are cancelled too; a run that is due before what runs is cancelled
// itself.
func TestOfSeveralThatWaitTheLatestStays(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("deaf") // it hears of no cancel
		end := w.lingering()
		job := w.limited(1, schema.OnLimitCancelOldest)
		early := w.entry(inAWhile(500*time.Millisecond), ofLimited(job))
		var runs []schema.RunID
		for i := range 3 {
			e := w.entry(inAWhile(time.Duration(i+1)*time.Second), ofLimited(job))
			runs = append(runs, e.ID)
			w.publish(e, time.Now())
		}
		time.Sleep(5 * time.Second)
		w.publish(early, time.Now().Add(-time.Hour))
		time.Sleep(time.Second)
		end(runs[0])
		time.Sleep(time.Second)
		if got := w.turns(make(map[schema.EntryID]bool)); len(got) != 1 || got[0] != runs[2] {
			t.Errorf("it is the turn of %v, want of %v", got, runs[2])
		}
		time.Sleep(time.Second)
		for run, want := range map[schema.RunID]schema.State{
			runs[1]: schema.StateCancelled, runs[2]: schema.StateRunning, early.ID: schema.StateCancelled,
		} {
			if got := w.state(run); got != want {
				t.Errorf("run %s is %s, want %s: %+v", run, got, want, w.attempts(run))
			}
		}
	})
}

// TestSlotsOfTheDeadComeBack: who crashed has its slots no longer than its session stands, and
// whoever looks after the limit wakes who waits.
func TestSlotsOfTheDeadComeBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.begin("x")
		w.lingering()
		job := w.limited(1, schema.OnLimitQueue)
		one, two := w.entry(inAWhile(time.Second), ofLimited(job)), w.entry(inAWhile(2*time.Second), ofLimited(job))
		w.publish(one, time.Now())
		w.publish(two, time.Now())
		time.Sleep(3 * time.Second)
		// Somebody who has the slot dies: its session stays until it is declared dead.
		ref := w.session(one, "dead", time.Now().Add(5*time.Second))
		lease, err := w.inner.Lease(t.Context(), schema.JobLimit(job.ID).Lease())
		if err != nil {
			t.Fatalf("lease: %v", err)
		}
		var s schema.Slots
		s.Acquire(one.ID, ref.Executor, ref.ID, 1)
		is, err := lease.WithSlots(s, time.Now())
		if err == nil {
			_, err = w.inner.SwapLease(t.Context(), lease, is, time.Time{})
		}
		if err != nil {
			t.Fatalf("swap: %v", err)
		}
		live := bucketer.NewReaper(w.inner, time.Now, func() bool { return false }, nil)
		look := func(want int) {
			t.Helper()
			if _, err := x.writer.(*engine.Engine).WakeShard(t.Context(), job.ID.Shard(), "", live); err != nil {
				t.Fatalf("WakeAll: %v", err)
			}
			if got := w.turns(make(map[schema.EntryID]bool)); len(got) != want {
				t.Errorf("it is the turn of %v, want %d", got, want)
			}
		}
		look(0)
		time.Sleep(4 * time.Second)
		look(0) // it has expired, but may not be declared dead yet
		time.Sleep(schema.SessionGrace + 2*time.Second)
		look(1)
		time.Sleep(time.Second)
		if got := w.ran(); !slices.Equal(got, []schema.RunID{one.ID, two.ID}) {
			t.Errorf("started = %v, want the first and then the second", got)
		}
	})
}

// TestARunThatHasBegunIsNotWokenInVain: its misfire policy has no say any more. To give it up it
// was woken without a slot, held back again since it had begun, and woken again at once, for ever.
func TestARunThatHasBegunIsNotWokenInVain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.begin("x")
		end := w.lingering()
		job := w.limited(1, schema.OnLimitQueue)
		one := w.entry(inAWhile(time.Second), ofLimited(job))
		w.publish(one, time.Now())
		time.Sleep(3 * time.Second)
		late := w.entry(inAWhile(-time.Minute), ofLimited(job), func(s *schema.Spec) {
			s.Misfire = &schema.Misfire{Policy: schema.RunAll, Deadline: schema.Duration(30 * time.Second)}
		})
		w.attempt(late, 1, &schema.Record{Entry: late.ID, Outcome: schema.Lost}, nil)
		w.publish(late, time.Now(), redispatched)
		seen := make(map[schema.EntryID]bool)
		live := bucketer.NewReaper(w.inner, time.Now, func() bool { return false }, nil)
		for range 3 {
			time.Sleep(5 * time.Second)
			if _, err := x.writer.(*engine.Engine).WakeShard(t.Context(), job.ID.Shard(), "", live); err != nil {
				t.Fatalf("WakeAll: %v", err)
			}
			if got := w.turns(seen); len(got) != 0 {
				t.Fatalf("it is the turn of %v while the slot is taken", got)
			}
		}
		end(one.ID)
		end(late.ID)
		time.Sleep(time.Second)
		if got := w.turns(seen); len(got) != 1 || got[0] != late.ID {
			t.Errorf("it is the turn of %v, want of the run that waits", got)
		}
		time.Sleep(time.Second)
		if got := w.state(late.ID); got != schema.StateSucceeded {
			t.Errorf("the run is %s, want succeeded: %+v", got, w.attempts(late.ID))
		}
	})
}

// TestARunThatGoesBackAfterItWaitedKeepsItsPlace: a slot came free while it was being held back, so
// it was to start, and then could not. It had been taken out of what waits by then, where nothing
// is put in again: held back once more, it was pending for ever.
func TestARunThatGoesBackAfterItWaitedKeepsItsPlace(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x")
		end := w.lingering()
		job := w.limited(1, schema.OnLimitQueue)
		one, two := w.entry(inAWhile(time.Second), ofLimited(job)), w.entry(inAWhile(2*time.Second), ofLimited(job))
		w.publish(one, time.Now())
		w.publish(two, time.Now())
		var held atomic.Bool
		w.befall(func(_ context.Context, op string) schematest.Fault {
			switch {
			case op == "PutWaiter" && held.CompareAndSwap(false, true):
				end(one.ID)
				time.Sleep(freshFor + time.Second) // what it knows is too old to start by then …
			case op == "EntriesByID" && held.Load():
				return schematest.Fault{Fail: true} // … and it learns nothing new
			}
			return schematest.Fault{}
		})
		time.Sleep(2*time.Second + freshFor + 3*time.Second)
		if !held.Load() || slices.Contains(w.ran(), two.ID) {
			t.Fatalf("held back: %t, started: %v, want the first alone", held.Load(), w.ran())
		}
		rows, err := w.inner.Waiters(t.Context(), schema.JobLimit(job.ID), schema.IDRange{}, 10)
		if err != nil || len(rows) != 1 || rows[0].Run != two.ID {
			t.Errorf("Waiting = %+v, %v, want the run that went back", rows, err)
		}
		w.breakDown()
		end(two.ID)
		seen := make(map[schema.EntryID]bool)
		for range 20 {
			time.Sleep(time.Second)
			w.turns(seen)
		}
		if got := w.state(two.ID); got != schema.StateSucceeded {
			t.Errorf("the run is %s, want succeeded: %+v", got, w.attempts(two.ID))
		}
		if got := w.ran(); !slices.Equal(got, []schema.RunID{one.ID, two.ID}) {
			t.Errorf("started: %v, want each once", got)
		}
	})
}

// TestALimitHoldsWhateverTheStoreAnswers: swaps that are lost, refused, or of which nobody knows
// cost time; never more than two run at once, and all do.
func TestALimitHoldsWhateverTheStoreAnswers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.begin("x")
		w.begin("y")
		job := w.limited(2, schema.OnLimitQueue)
		running, most := 0, 0
		w.answer(func(context.Context, target.Call) target.Result {
			w.mu.Lock()
			running++
			most = max(most, running)
			w.mu.Unlock()
			time.Sleep(300 * time.Millisecond)
			w.mu.Lock()
			running--
			w.mu.Unlock()
			return target.Result{Outcome: schema.Succeeded}
		})
		w.befall(schematest.Seeded(7, schematest.Odds{Delay: 0.1, Fail: 0.1, Lose: 0.2, MaxDelay: 50 * time.Millisecond}))
		var runs []schema.RunID
		for i := range 30 {
			e := w.entry(inAWhile(time.Second+time.Duration(i)*20*time.Millisecond), ofLimited(job))
			runs = append(runs, e.ID)
			w.publish(e, time.Now())
		}
		live := bucketer.NewReaper(w.inner, time.Now, func() bool { return false }, nil)
		seen := make(map[schema.EntryID]bool)
		for range 600 { // a slot that is kept for a run that then cannot be woken is lost for 10 s
			time.Sleep(500 * time.Millisecond)
			_, _ = x.writer.(*engine.Engine).WakeShard(t.Context(), job.ID.Shard(), "", live) // by a store that fails now and then
			w.turns(seen)
		}
		for i, run := range runs {
			if got := w.state(run); got != schema.StateSucceeded {
				rows, err := w.inner.Waiters(t.Context(), schema.JobLimit(job.ID), schema.IDRange{}, 100)
				t.Errorf("run %d is %s, want succeeded: %+v; Waiting = %+v, %v", i, got, w.attempts(run), rows, err)
			}
		}
		if most > 2 {
			t.Errorf("%d ran at once, want at most 2", most)
		}
		if n := w.slots(job.ID); n != 0 {
			t.Errorf("%d slots are taken in the end, want none", n)
		}
	})
}

// TestRunsWithoutALimitAskForNone: they pay nothing for what others have.
func TestRunsWithoutALimitAskForNone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x")
		job := w.job(schema.JobActive, time.Time{}, nil)
		w.publish(w.entry(inAWhile(time.Second), of(job, genCurrent)), inAWhile(time.Second))
		w.publish(w.entry(inAWhile(time.Second)), inAWhile(time.Second))
		time.Sleep(3 * time.Second)
		if n := len(w.started()); n != 2 {
			t.Fatalf("%d starts, want 2", n)
		}
		for _, op := range []string{"Lease", "SwapLease", "Waiters", "PutWaiter", "DeleteWaiter"} {
			if n := w.counts.Tally(op).Calls; n != 0 {
				t.Errorf("%s was called %d times, want never", op, n)
			}
		}
	})
}

// TestACopyOfARunThatEndedIsNotSkipped: a message that rests on rows that were read before its run
// began finds the slots of the job taken by another run. Its own has ended, so nothing is said of
// it.
func TestACopyOfARunThatEndedIsNotSkipped(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		end := w.lingering()
		w.begin("x1")
		job := w.limited(1, schema.OnLimitSkip)
		first := w.entry(inAWhile(0), ofLimited(job))
		read := time.Now()
		w.publish(first, read)
		time.Sleep(100 * time.Millisecond)
		end(first.ID)
		time.Sleep(200 * time.Millisecond)
		second := w.entry(inAWhile(0), ofLimited(job))
		w.publish(second, time.Now())
		time.Sleep(100 * time.Millisecond)
		w.publish(first, read, func(env *queue.Envelope) { env.Dispatch = "copy" })
		time.Sleep(time.Second)
		end(second.ID)
		time.Sleep(10 * time.Second)
		if got := w.story(first.ID); got != "1 succeeded" {
			t.Errorf("the first run: %s, want 1 succeeded alone", got)
		}
		w.once(second.ID)
	})
}

// TestALimitThatIsTakenAwayHoldsNobodyBack: the limit of a job is taken away while a run of it
// reads its work.
func TestALimitThatIsTakenAwayHoldsNobodyBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		job := w.limited(1, schema.OnLimitQueue)
		task := schema.Task{Tenant: "t", Name: "slow", Work: schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink"}}, UpdatedAt: time.Now()}
		if err := w.inner.PutTask(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		e := w.entry(inAWhile(time.Second), ofLimited(job, func(s *schema.Spec) { s.Work, s.Task = nil, "slow" }))
		w.befall(func(_ context.Context, op string) schematest.Fault {
			if op == "Task" {
				return schematest.Fault{Delay: 4 * time.Second}
			}
			return schematest.Fault{}
		})
		w.publish(e, time.Now())
		time.Sleep(2 * time.Second)
		free := job
		free.Before, free.Cut = &job.Current, time.Now().Add(10*time.Second)
		free.Current.Number++
		free.Current.Spec.Concurrency = nil
		if err := w.inner.SwapJob(t.Context(), job.Current.Number, free); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		w.once(e.ID)
	})
}
