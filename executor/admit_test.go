package executor

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/executor/admission"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// deferrals returns the entries that stand in for e, oldest first.
func (w *world) deferrals(e schema.Entry) (all []schema.Entry) {
	w.t.Helper()
	for _, a := range w.attempts(e.Run()) {
		if a.Number != 0 || a.Record == nil || a.Record.Outcome != schema.Replaced {
			continue
		}
		rows, err := w.inner.EntriesByID(w.t.Context(), a.Record.To.Partition(), []schema.EntryID{a.Record.To})
		if err != nil || len(rows) != 1 {
			w.t.Fatalf("entry %s: %d, %v", a.Record.To, len(rows), err)
		}
		all = append(all, rows[0])
	}
	return all
}

// A target that fails again and again has the runs after that put off: no attempt is used up, and
// they start when it works again.
func TestRunsOfABrokenTargetArePutOff(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var broken atomic.Bool
		broken.Store(true)
		n := w.begin("e-1")
		w.answerHosts(func(c target.Call) target.Result {
			if broken.Load() {
				return target.Result{Outcome: schema.Failed, Error: "no"}
			}
			return target.Result{Outcome: schema.Succeeded}
		})
		for range admission.BreakerAttempts {
			w.publish(w.entry(inAWhile(time.Second)), time.Now())
		}
		time.Sleep(2 * time.Second)
		w.happened()
		e := w.entry(inAWhile(100 * time.Millisecond))
		w.publish(e, time.Now())
		time.Sleep(time.Second)
		all := w.deferrals(e)
		if len(all) != 1 || all[0].Spec.Kind != schema.KindDeferral || all[0].Spec.AttemptNumber() != 1 || all[0].Spec.Deferrals != 1 || all[0].Spec.For != e.ID || all[0].Run() != e.ID {
			t.Fatalf("entries that stand in: %+v, want one for the first attempt", all)
		}
		if wait := all[0].Due().Sub(e.Due()); wait < admission.DeferFirst || wait > 2*admission.DeferFirst {
			t.Errorf("it was put off by %s, want %s or a little more", wait, admission.DeferFirst)
		}
		w.want("put off", "entry deferral, record 0 handed_on, notice, ack")
		if got := w.state(e.Run()); got != schema.StatePending {
			t.Errorf("the run is %s, want pending", got)
		}
		if n := w.open(); n != 0 {
			t.Errorf("the stream holds %d messages, want none", n)
		}
		broken.Store(false)
		d := all[0]
		time.Sleep(time.Until(d.Due()) - 100*time.Millisecond)
		w.publish(d, time.Now())
		time.Sleep(time.Second)
		starts := w.started()
		if last := starts[len(starts)-1]; len(starts) != admission.BreakerAttempts+1 || last.Run != e.ID || last.Number != 1 {
			t.Errorf("%d starts, the last %+v; want the run's first attempt", len(starts), last)
		} else if late := counted(t, n.metrics.lateness); !last.Due.Equal(e.Due()) || late < d.Due().Sub(e.Due()).Seconds() {
			t.Errorf("it is told that it was due %v, and starts count as %g s late in all; want %v, and all of the wait", last.Due, late, e.Due())
		}
		if got := w.state(e.Run()); got != schema.StateSucceeded {
			t.Errorf("the run is %s, want succeeded", got)
		}
		// The message of the entry that was put off comes once more: nothing starts from it.
		w.publish(e, time.Now(), redispatched)
		time.Sleep(2 * time.Second)
		if n := len(w.started()); n != admission.BreakerAttempts+1 {
			t.Errorf("%d starts after the first message came again, want %d", n, admission.BreakerAttempts+1)
		}
	})
}

// TestAFewArePutOffAtOnce: when a breaker opens all that is in hand for its target is put off,
// deferralsAtOnce at a time: what others ask of the store does not wait behind it.
func TestAFewArePutOffAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const runs, each = 1000, 20 * time.Millisecond
		w.begin("e-1")
		w.answerHosts(func(target.Call) target.Result { return target.Result{Outcome: schema.Failed, Error: "no"} })
		for range admission.BreakerAttempts {
			w.publish(w.entry(inAWhile(time.Second)), time.Now())
		}
		time.Sleep(2 * time.Second)
		var mu sync.Mutex
		var asked []time.Time
		w.befall(func(_ context.Context, op string) schematest.Fault {
			if op != "PutEntries" {
				return schematest.Fault{}
			}
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, time.Now())
			return schematest.Fault{Delay: each}
		})
		at := inAWhile(time.Second)
		entries := make([]schema.Entry, runs)
		for i := range entries {
			entries[i] = w.entry(at)
			w.publish(entries[i], time.Now())
		}
		time.Sleep(4 * time.Second)
		for i := range entries {
			if n := len(w.deferrals(entries[i])); n != 1 {
				t.Fatalf("run %d was put off %d times, want once", i, n)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		most, first := 0, 0
		for i := range asked {
			for asked[i].Sub(asked[first]) >= each {
				first++
			}
			most = max(most, i-first+1)
		}
		if most != deferralsAtOnce {
			t.Errorf("%d were written at once, want %d", most, deferralsAtOnce)
		}
	})
}

// What cannot be put off, because the store fails, goes back and is put off later.
func TestAPutOffThatCannotBeWrittenIsRepeated(t *testing.T) {
	for _, op := range []string{"PutEntries", "PutAttempts"} {
		t.Run(op, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("e-1")
				w.answerHosts(func(target.Call) target.Result { return target.Result{Outcome: schema.Failed, Error: "no"} })
				for range admission.BreakerAttempts {
					w.publish(w.entry(inAWhile(time.Second)), time.Now())
				}
				time.Sleep(2 * time.Second)
				at := inAWhile(100 * time.Millisecond)
				w.breakDown(op)
				entries := make([]schema.Entry, 3*deferralsAtOnce) // each turn fails, and is another's afterwards
				waits := make(map[schema.RunID]bool)
				for i := range entries {
					entries[i] = w.entry(at)
					waits[entries[i].Run()] = true
					w.publish(entries[i], time.Now())
				}
				time.Sleep(2 * time.Second)
				for _, e := range entries {
					if all := w.deferrals(e); len(all) != 0 {
						t.Fatalf("%d entries stand in while the store fails", len(all))
					}
				}
				w.breakDown()
				time.Sleep(3 * time.Second)
				for _, e := range entries {
					if all := w.deferrals(e); len(all) != 1 {
						t.Fatalf("%d entries stand in, want one once the store works again", len(all))
					}
				}
				for _, s := range w.started() {
					if waits[s.Run] {
						t.Error("a run started though its target is broken")
					}
				}
			})
		})
	}
}

// TestAStopWhileRunsWaitToBePutOff: what waits for its turn to be put off when its executor is
// stopped goes back at once, and is met by the next.
func TestAStopWhileRunsWaitToBePutOff(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const runs, each = 1000, 200 * time.Millisecond
		x := w.begin("e-1")
		w.answerHosts(func(target.Call) target.Result { return target.Result{Outcome: schema.Failed, Error: "no"} })
		for range admission.BreakerAttempts {
			w.publish(w.entry(inAWhile(time.Second)), time.Now())
		}
		time.Sleep(2 * time.Second)
		w.befall(func(_ context.Context, op string) (f schematest.Fault) {
			if op == "PutEntries" {
				f.Delay = each
			}
			return f
		})
		at := inAWhile(time.Second)
		entries := make([]schema.Entry, runs)
		for i := range entries {
			entries[i] = w.entry(at)
			w.publish(entries[i], time.Now())
		}
		time.Sleep(time.Until(at.Add(3 * each)))
		began := time.Now()
		x.kill()
		if took := time.Since(began); took > 2*each {
			t.Errorf("the stop took %v, want what is being written, at most %v", took, 2*each)
		}
		w.answerHosts(func(target.Call) target.Result { return target.Result{Outcome: schema.Succeeded} })
		w.begin("e-2")
		time.Sleep(time.Minute)
		starts := make(map[schema.RunID]int)
		for _, s := range w.started() {
			starts[s.Run]++
		}
		putOff := 0
		for _, e := range entries {
			n := len(w.deferrals(e))
			if putOff += n; n+starts[e.Run()] != 1 {
				t.Fatalf("a run was put off %d times and started %d times, want one of both once", n, starts[e.Run()])
			}
		}
		if putOff == 0 || putOff > runs/2 {
			t.Errorf("%d of %d runs were put off before the stop, want some", putOff, runs)
		}
	})
}

// One tenant's target hangs, and its runs come by the hundred: another tenant's run starts when it
// is due.
func TestAHungTargetHarmsNoOtherTenant(t *testing.T) {
	for name, work := range map[string]schema.Work{
		"host":    {HTTP: &schema.HTTPTarget{URL: "http://hung"}},
		"subject": {NATS: &schema.NATSTarget{Subject: "hung"}},
	} {
		t.Run(name, func(t *testing.T) { hangs(t, work) })
	}
}

func hangs(t *testing.T, work schema.Work) {
	work.Timeout = schema.Duration(time.Hour)
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("e-1", func(c *Config) { c.Slots = 64 })
		release := make(chan struct{})
		w.answerHosts(func(c target.Call) target.Result {
			if c.Work.NATS != nil || strings.Contains(c.Work.HTTP.URL, "hung") {
				<-release
			}
			return target.Result{Outcome: schema.Succeeded}
		})
		hung := func(s *schema.Spec) { s.Tenant, s.Work = "a", &work }
		var hanging []schema.Entry
		for range 400 {
			e := w.entry(inAWhile(time.Second), hung)
			hanging = append(hanging, e)
			w.publish(e, time.Now())
		}
		time.Sleep(10 * time.Second)
		for range 20 {
			w.publish(w.entry(inAWhile(200*time.Millisecond), hung), time.Now())
			e := w.entry(inAWhile(200*time.Millisecond), func(s *schema.Spec) { s.Tenant = "b" })
			w.publish(e, time.Now())
			time.Sleep(time.Second)
			starts := w.started()
			if last := starts[len(starts)-1]; last.Run != e.ID || last.at.Sub(e.Due()) > 50*time.Millisecond {
				t.Fatalf("the last start is of %s, %s after %s was due; want it at once", last.Run, last.at.Sub(e.Due()), e.ID)
			}
		}
		started, putOff := 0, 0
		for _, e := range hanging {
			if all := w.deferrals(e); len(all) > 0 {
				putOff++
			} else if len(w.attempts(e.Run())) > 0 {
				started++
			}
		}
		if started != 56 || putOff < 300 {
			t.Errorf("of 400 runs of the target that hangs %d started and %d were put off, want seven eighths of 64 slots and nearly all others", started, putOff)
		}
		close(release)
		time.Sleep(time.Second)
	})
}

// answerHosts sets what the callee does.
func (w *world) answerHosts(f func(c target.Call) target.Result) {
	w.answer(func(_ context.Context, c target.Call) target.Result { return f(c) })
}
