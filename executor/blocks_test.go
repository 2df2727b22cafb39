package executor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// limit makes, or changes, the task "a", of which most runs may be under way at once, and tells
// everybody.
func (w *world) limit(most int, change ...func(*schema.Task)) {
	w.t.Helper()
	task := schema.Task{
		Tenant: "t", Name: "a", MaxConcurrent: most, UpdatedAt: time.Now(),
		Work: schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink"}, Timeout: schema.Duration(5 * time.Minute)},
	}
	for _, f := range change {
		f(&task)
	}
	if err := w.inner.PutTask(context.Background(), task); err != nil {
		w.t.Fatalf("PutTask: %v", err)
	}
	for _, n := range w.nodes {
		n.tasks.(*bucketer.TaskCache).Changed([]byte("t\na"))
	}
}

// ofTaskA makes an entry one of the task "a".
func ofTaskA(s *schema.Spec) { s.Work, s.Task = nil, "a" }

// runs holds n entries of the task in the store, due from at on, step apart.
func (w *world) runs(n int, at time.Time, step time.Duration, change ...func(*schema.Spec)) []schema.RunID {
	w.t.Helper()
	var runs []schema.RunID
	for i := range n {
		runs = append(runs, w.entry(at.Add(time.Duration(i)*step), append([]func(*schema.Spec){ofTaskA}, change...)...).ID)
	}
	return runs
}

// dispatch publishes for that long, as a dispatcher would, what the store holds and is due soon.
func (w *world) dispatch(span time.Duration) {
	w.t.Helper()
	const every = 100 * time.Millisecond
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(every) {
		now := time.Now()
		from, until := now.Add(-2*time.Second), now.Add(300*time.Millisecond)
		for b := schema.BucketOf(from); b <= schema.BucketOf(until); b++ {
			p := schema.Partition{Bucket: b}
			r := schema.IDRange{After: schema.MakeEntryID(from, 0, 0), Before: schema.MakeEntryID(until, 0, 0)}
			ids, err := w.inner.EntryIDs(context.Background(), p, r, 100_000)
			if err != nil {
				w.t.Fatalf("ids: %v", err)
			}
			ids = slices.DeleteFunc(ids, func(id schema.EntryID) bool { _, ok := w.published[id]; return ok })
			for ids := range slices.Chunk(ids, 100) {
				rows, err := w.inner.EntriesByID(context.Background(), p, ids)
				if err != nil {
					w.t.Fatalf("entries: %v", err)
				}
				for i := range rows {
					w.published[rows[i].ID] = rows[i]
					w.publish(rows[i], now)
				}
			}
		}
	}
}

// settle publishes again, as a dispatcher would, what was published of runs that are not over: an
// executor leaves an entry alone while another one of its run is under way. What an entry stands
// for the executors judge by the rows.
func (w *world) settle() {
	w.t.Helper()
	for _, e := range w.published {
		if !w.state(e.Run()).Terminal() {
			w.publish(e, time.Now(), redispatched)
		}
	}
}

// crowd watches how many calls are under way at once.
type crowd struct {
	mu        sync.Mutex
	now, most int
	ends      []time.Time
}

// in has each call take that long.
func (c *crowd) in(w *world, took func() time.Duration) {
	w.answer(func(ctx context.Context, _ target.Call) target.Result {
		c.mu.Lock()
		c.now++
		c.most = max(c.most, c.now)
		c.mu.Unlock()
		select {
		case <-time.After(took()):
		case <-ctx.Done():
		}
		c.mu.Lock()
		c.now--
		c.ends = append(c.ends, time.Now())
		c.mu.Unlock()
		if ctx.Err() != nil {
			return target.Ended(ctx)
		}
		return target.Result{Outcome: schema.Succeeded}
	})
}

// seen returns the most that were under way at once since it was asked last.
func (c *crowd) seen() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := c.most
	c.most = c.now
	return most
}

// done returns how many calls have ended, and when the last one did.
func (c *crowd) done() (int, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ends) == 0 {
		return 0, time.Time{}
	}
	return len(c.ends), slices.MaxFunc(c.ends, time.Time.Compare)
}

// taskSlots returns what the lease of the task's limit says.
func (w *world) taskSlots() schema.Slots {
	w.t.Helper()
	l, err := w.inner.Lease(context.Background(), schema.TaskLimit(schema.TaskName{Tenant: "t", Name: "a"}).Lease())
	if err != nil {
		w.t.Fatalf("lease: %v", err)
	}
	s, err := l.Slots()
	if err != nil {
		w.t.Fatalf("slots: %v", err)
	}
	return s
}

// TestManyShortRunsUnderALimit: a thousand runs of 0.1 s, ten at a time, take little more than ten
// seconds, and a conditional write serves many of them.
func TestManyShortRunsUnderALimit(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				const limit, n, took = 10, 1000, 100 * time.Millisecond
				for i := range nodes {
					w.begin(fmt.Sprintf("x-%d", i))
				}
				w.limit(limit)
				var c crowd
				c.in(w, func() time.Duration { return took })
				swaps, reads := w.counts.Tally("SwapLease").Calls, w.counts.Tally("Lease").Calls
				due := inAWhile(time.Second)
				runs := w.runs(n, due, 0)
				w.dispatch(20 * time.Second)
				ended, last := c.done()
				if most := c.seen(); ended != n || most != limit {
					t.Errorf("%d of %d have ended, %d at once; want all, and %d", ended, n, most, limit)
				}
				if ideal := n / limit * took; last.Sub(due) > ideal*5/4+2*time.Second {
					t.Errorf("the last one ended after %s, want little more than %s", last.Sub(due), ideal)
				}
				swaps, reads = w.counts.Tally("SwapLease").Calls-swaps, w.counts.Tally("Lease").Calls-reads
				t.Logf("%d runs in %s: %d swaps, %d reads of the lease, %d deferrals", n, last.Sub(due), swaps, reads, len(w.published)-n)
				if most := n / []int{1: 50, 3: 3}[nodes]; swaps > most || reads > most {
					t.Errorf("%d runs: %d swaps and %d reads of the lease, want much fewer", n, swaps, reads)
				}
				for _, run := range runs {
					if got := w.state(run); got != schema.StateSucceeded {
						t.Fatalf("run %s is %s, want succeeded", run, got)
					}
				}
				if s := w.taskSlots(); len(s.Blocks) != 0 {
					t.Errorf("in the end %+v are taken, want none", s.Blocks)
				}
			})
		})
	}
}

// TestALimitIsChanged: what is under way follows within seconds.
func TestALimitIsChanged(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x")
		w.begin("y")
		w.limit(4)
		var c crowd
		c.in(w, func() time.Duration { return time.Second })
		w.runs(400, inAWhile(time.Second), 0)
		w.dispatch(8 * time.Second)
		if most := c.seen(); most != 4 {
			t.Errorf("%d at once, want 4", most)
		}
		for _, step := range []struct {
			what   string
			most   int
			within time.Duration
		}{{"raised", 20, 5 * time.Second}, {"lowered", 1, 3 * time.Second}, {"raised by little", 3, 5 * time.Second}} {
			w.limit(step.most)
			w.dispatch(step.within)
			c.seen()
			w.dispatch(4 * time.Second)
			if most := c.seen(); most != step.most {
				t.Errorf("%s to %d: %d at once, want as many", step.what, step.most, most)
			}
		}
		w.limit(0)
		w.dispatch(3 * time.Second)
		if most := c.seen(); most < 20 {
			t.Errorf("lifted: %d at once, want many", most)
		}
		w.dispatch(20 * time.Second)
		if n, _ := c.done(); n != 400 {
			t.Errorf("%d of 400 runs have ended", n)
		}
		if s := w.taskSlots(); len(s.Blocks) != 0 {
			t.Errorf("in the end %+v are taken, want none", s.Blocks)
		}
	})
}

// TestOneSlotOfManyExecutors: all that is handed out runs, wherever it is, one after the other and
// without long pauses.
func TestOneSlotOfManyExecutors(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for i := range 4 {
			w.begin(fmt.Sprintf("x-%d", i))
		}
		w.limit(1)
		var c crowd
		c.in(w, func() time.Duration { return 200 * time.Millisecond })
		due := inAWhile(time.Second)
		w.runs(100, due, 0)
		w.dispatch(40 * time.Second)
		n, last := c.done()
		if most := c.seen(); n != 100 || most != 1 {
			t.Errorf("%d of 100 have ended, %d at once; want all, and one", n, most)
		}
		if took := last.Sub(due); took > 26*time.Second {
			t.Errorf("they took %s, want little more than 20 s", took)
		}
	})
}

// quotaOf is a quota of runs at once that every tenant has.
type quotaOf int

func (q quotaOf) Concurrency(context.Context, string) (int, error) { return int(q), nil }

func (quotaOf) AdmitScheduled(context.Context, string) (time.Duration, error) { return 0, nil }

// TestAQuotaHoldsForAllRunsOfATenant: on all executors together no more runs of a tenant are under
// way than its quota says, of whichever task or of none. The others wait, and say why.
func TestAQuotaHoldsForAllRunsOfATenant(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const quota, n = 2, 40
		for _, name := range []string{"x", "y"} {
			w.begin(name, func(c *Config) { c.Tenants = quotaOf(quota) })
		}
		w.limit(10)
		var c crowd
		c.in(w, func() time.Duration { return 200 * time.Millisecond })
		runs := w.runs(n, inAWhile(time.Second), 0)
		for range n {
			runs = append(runs, w.entry(inAWhile(time.Second)).ID)
		}
		w.dispatch(30 * time.Second)
		w.settle()
		w.dispatch(30 * time.Second)
		if ended, _ := c.done(); ended != 2*n || c.seen() != quota {
			t.Errorf("%d of %d runs have ended, %d at once; want all, and %d", ended, 2*n, c.seen(), quota)
		}
		deferred := 0
		for _, run := range runs[n:] { // those of the task may find that its limit is reached
			for _, a := range w.attempts(run) {
				if a.Record != nil && a.Record.Reason == schema.Deferred {
					if deferred++; a.Record.Cause != schema.CauseQuota {
						t.Errorf("run %s was deferred for %q, want %q", run, a.Record.Cause, schema.CauseQuota)
					}
				}
			}
		}
		if deferred == 0 {
			t.Error("no run says that it waited for the quota")
		}
		l, err := w.inner.Lease(t.Context(), schema.TenantLimit("t").Lease())
		if s, fault := l.Slots(); err != nil || fault != nil || len(s.Blocks) != 0 {
			t.Errorf("the slots of the tenant in the end = %+v, %v, %v; want none taken", s, err, fault)
		}
	})
}

// runsAMinute is a tenant's quota of runs a minute of which so many are left.
type runsAMinute struct {
	mu   sync.Mutex
	left int
	next time.Time // when one more is there
}

func (*runsAMinute) Concurrency(context.Context, string) (int, error) { return 0, nil }

// AdmitScheduled takes one, or says that they come a second apart.
func (q *runsAMinute) AdmitScheduled(context.Context, string) (time.Duration, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := time.Now(); q.left == 0 && now.After(q.next) {
		q.left, q.next = 1, now.Add(time.Second)
	}
	if q.left == 0 {
		return time.Second, nil
	}
	q.left--
	return 0, nil
}

// TestSchedulesKeepToRunsAMinute: runs that schedules start wait while their tenant's quota is used
// up, and say why; runs that were asked for were counted when they were.
func TestSchedulesKeepToRunsAMinute(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		q := &runsAMinute{left: 3, next: time.Now().Add(10 * time.Second)}
		w.begin("x", func(c *Config) { c.Tenants = q })
		job := w.job(schema.JobActive, time.Time{}, &schema.Misfire{Policy: schema.RunAll})
		var scheduled []schema.RunID
		for range 6 {
			scheduled = append(scheduled, w.entry(inAWhile(time.Second), of(job, job.Current.Number)).ID)
		}
		asked := w.entry(inAWhile(time.Second)).ID
		triggered := w.entry(inAWhile(time.Second), of(job, job.Current.Number), func(s *schema.Spec) { s.Trigger = schema.TriggerManual }).ID
		w.dispatch(3 * time.Second)
		for _, run := range []schema.RunID{asked, triggered} {
			if got := w.state(run); got != schema.StateSucceeded {
				t.Errorf("run %s, which was asked for, is %s, want succeeded", run, got)
			}
		}
		waiting := 0
		for _, run := range scheduled {
			for _, a := range w.attempts(run) {
				if a.Record != nil && a.Record.Cause == schema.CauseQuota {
					waiting++
					break
				}
			}
		}
		if waiting != 3 {
			t.Errorf("%d of 6 runs wait for the quota, of which 3 were left; want 3", waiting)
		}
		w.dispatch(20 * time.Second)
		for _, run := range scheduled {
			if got := w.state(run); got != schema.StateSucceeded {
				t.Errorf("run %s is %s in the end, want succeeded", run, got)
			}
		}
	})
}

// TestBlocksOfTheDeadComeBack: a block is its executor's no longer than its session stands.
func TestBlocksOfTheDeadComeBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x")
		w.limit(2)
		var c crowd
		c.in(w, func() time.Duration { return 100 * time.Millisecond })
		ref := w.session(schema.Entry{}, "dead", time.Now().Add(5*time.Second))
		var s schema.Slots
		s.Apportion(schema.BlockRequest{Executor: ref.Executor, Session: ref.ID, Limit: 2, Want: 2, Now: time.Now()})
		is, err := schema.Lease{}.WithSlots(s, time.Now())
		is.Key = schema.TaskLimit(schema.TaskName{Tenant: "t", Name: "a"}).Lease()
		if err == nil {
			_, err = w.inner.SwapLease(t.Context(), schema.Lease{}, is, time.Time{})
		}
		if err != nil {
			t.Fatalf("swap: %v", err)
		}
		w.runs(5, inAWhile(time.Second), 0)
		w.dispatch(6 * time.Second)
		if n, _ := c.done(); n != 0 {
			t.Errorf("%d runs have ended before the session was declared dead, want none", n)
		}
		w.dispatch(6 * time.Second)
		if n, _ := c.done(); n != 5 || c.seen() > 2 {
			t.Errorf("%d of 5 runs have ended, %d at once; want all, and at most 2", n, c.seen())
		}
	})
}

// TestALimitUnderFaults: whatever the store answers and wherever executors come and go in order,
// never more are under way than may.
func TestALimitUnderFaults(t *testing.T) {
	for range 5 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				rng := rand.New(rand.NewPCG(seed, 1))
				var mu sync.Mutex
				draw := func(n int) int {
					mu.Lock()
					defer mu.Unlock()
					return rng.IntN(n)
				}
				w.begin("x")
				w.begin("y")
				w.limit(3)
				var c crowd
				c.in(w, func() time.Duration { return time.Duration(draw(400)) * time.Millisecond })
				faults := schematest.Seeded(seed, schematest.Odds{Delay: 0.1, Fail: 0.02, Lose: 0.05, MaxDelay: 200 * time.Millisecond})
				w.befall(faults)
				runs := w.runs(200, inAWhile(time.Second), 10*time.Millisecond)
				for range 5 {
					w.dispatch(3 * time.Second)
					if draw(2) == 0 {
						w.breakDown()
						n := w.begin(fmt.Sprintf("z-%d", draw(1<<30)))
						w.befall(faults)
						w.dispatch(2 * time.Second)
						n.kill()
					}
				}
				w.breakDown()
				w.dispatch(time.Minute)
				w.settle()
				w.dispatch(10 * time.Second)
				if most := c.seen(); most > 3 {
					t.Errorf("%d at once, want at most 3", most)
				}
				for _, run := range runs {
					if got := w.state(run); got != schema.StateSucceeded {
						t.Errorf("run %s is %s, want succeeded: %+v", run, got, w.attempts(run))
					}
				}
				for _, b := range w.taskSlots().Blocks { // of one who is gone, in order or with a session that has ended, the next who wants some takes them
					if is, err := w.inner.Session(t.Context(), b.Executor); err == nil && is.ID == b.Session && is.Expires.After(time.Now()) {
						t.Errorf("in the end %s has %d slots, and waits for %d", b.Executor, b.Held, b.Wanted)
					}
				}
			})
		})
	}
}

// TestALimitOnAnExecutorWithOneSlot: its runs start. None of them waited in memory, so no slot of
// the limit was ever asked for, and all were put off for ever.
func TestALimitOnAnExecutorWithOneSlot(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x", func(c *Config) { c.Slots = 1 })
		w.limit(2)
		var c crowd
		c.in(w, func() time.Duration { return 100 * time.Millisecond })
		w.runs(10, inAWhile(time.Second), 0)
		w.dispatch(30 * time.Second)
		n, _ := c.done()
		if most := c.seen(); n != 10 || most != 1 {
			t.Errorf("%d of 10 runs have ended, %d at once; want all, one at a time", n, most)
		}
	})
}

// TestLimitsTogether: a run needs a slot of its job and one of its task, and keeps to the rate.
func TestLimitsTogether(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x")
		w.begin("y")
		w.limit(4, func(task *schema.Task) { task.Rate = "1000/s" }) // of which nothing is put off here: there is no dispatcher
		var c crowd
		c.in(w, func() time.Duration { return 200 * time.Millisecond })
		job := w.limited(2, schema.OnLimitQueue)
		due := inAWhile(time.Second)
		runs := w.runs(30, due, 0)
		var ofJob []schema.RunID
		for i := range 20 {
			e := w.entry(due.Add(time.Duration(i)*time.Millisecond), ofLimited(job, ofTaskA))
			ofJob = append(ofJob, e.ID)
		}
		most := 0
		w.dispatch(2 * time.Second)
		for range 30 {
			w.dispatch(time.Second)
			most = max(most, w.slots(job.ID))
		}
		if all := c.seen(); all != 4 || most > 2 {
			t.Errorf("%d at once, %d of the job; want 4 and at most 2", all, most)
		}
		for _, run := range slices.Concat(runs, ofJob) {
			if got := w.state(run); got != schema.StateSucceeded {
				t.Errorf("run %s is %s, want succeeded: %+v", run, got, w.attempts(run))
			}
		}
		if n, s := w.slots(job.ID), w.taskSlots(); n != 0 || len(s.Blocks) != 0 {
			t.Errorf("in the end %d slots of the job and %+v of the task are taken, want none", n, s.Blocks)
		}
	})
}

// TestWhatIsGivenUpIsNotUsed: from when on slots are about to be given back nothing begins under
// them, though the store has not answered: another may have them by then.
func TestWhatIsGivenUpIsNotUsed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x")
		w.limit(1)
		var c crowd
		c.in(w, func() time.Duration { return 10 * time.Millisecond })
		w.runs(1, inAWhile(500*time.Millisecond), 0)
		w.dispatch(time.Second)
		const takes = 3 * time.Second
		asked := make(chan time.Time, 10)
		w.befall(func(_ context.Context, op string) schematest.Fault {
			if op != "SwapLease" {
				return schematest.Fault{}
			}
			asked <- time.Now()
			return schematest.Fault{Delay: takes}
		})
		at := <-asked
		e := w.entry(inAWhile(50*time.Millisecond), ofTaskA)
		w.publish(e, time.Now())
		time.Sleep(takes - time.Second)
		if n := len(w.started()); n != 1 {
			t.Errorf("%d runs have started, want the first alone: its slot is being given back", n)
		}
		time.Sleep(10 * time.Second)
		if all := w.started(); len(all) != 2 || all[1].at.Before(at.Add(takes)) {
			t.Errorf("started = %+v, want the second once a slot was taken anew", all)
		}
	})
}
