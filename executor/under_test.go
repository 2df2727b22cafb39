package executor

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// TestASlotIsGoodForItsSessionAlone: an attempt begins only under the session under which it has
// what it has, and with enough left of it; who has nothing begins under whichever stands.
func TestASlotIsGoodForItsSessionAlone(t *testing.T) {
	const is, was = "is", "was"
	rows := []struct {
		name    string
		left    time.Duration // of the session
		permit  string        // of its task's limit
		slot    *jobSlot      // of its job's limit
		guarded bool          // of its own lease
		want    bool
	}{
		{name: "it needs nothing", left: time.Second, want: true},
		{name: "it needs nothing, and there is no session any more", left: -time.Second},
		{name: "a slot of its task", left: 7 * time.Second, permit: is, want: true},
		{name: "a slot of its task, late in the session", left: 5 * time.Second, permit: is},
		{name: "a slot of its task under the session before", left: 7 * time.Second, permit: was},
		{name: "a slot of its job", left: 7 * time.Second, slot: &jobSlot{session: is}, want: true},
		{name: "a slot of its job under the session before", left: 7 * time.Second, slot: &jobSlot{session: was}},
		{name: "both", left: 7 * time.Second, permit: is, slot: &jobSlot{session: is}, want: true},
		{name: "both, late in the session", left: 5 * time.Second, permit: is, slot: &jobSlot{session: is}},
		{name: "both, that of its task under the session before", left: 7 * time.Second, permit: was, slot: &jobSlot{session: is}},
		{name: "both, that of its job under the session before", left: 7 * time.Second, permit: is, slot: &jobSlot{session: was}},
		{name: "a guarantee", left: 7 * time.Second, guarded: true, want: true},
		{name: "a guarantee, and a slot of its task", left: 7 * time.Second, guarded: true, permit: is, want: true},
		{name: "a guarantee, and a slot of its task under the session before", left: 7 * time.Second, guarded: true, permit: was},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			now := time.Now()
			k := newSessionKeeper(nil, "x", time.Now, func() bool { return false }, slog.New(slog.DiscardHandler))
			k.set(schema.Session{Executor: "x", ID: is}, now.Add(row.left), now)
			a := attemptOf(&Executor{session: k}, &schema.Entry{})
			a.limits.permit.Session, a.limits.jobSlot, a.lease.guarded = row.permit, row.slot, row.guarded
			if session, ok := a.sessionAt(now); ok != row.want || ok && session != is {
				t.Errorf("sessionAt = %q, %v, want %v, under %q", session, ok, row.want, is)
			}
		})
	}
}

// TestASlotThatWasLostIsTakenAnew: a run that had its slot of the task's limit, and waited for one
// of the executor's while the session fell, goes back, and begins under a slot of the next session.
// Its former slot may be somebody else's by then.
func TestASlotThatWasLostIsTakenAnew(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x", func(c *Config) { c.Slots = 1 })
		w.limit(1)
		free := make(chan struct{})
		var under string // whose the task's slot was when its run began
		w.answer(func(ctx context.Context, c target.Call) target.Result {
			if c.Tenant == "u" {
				select {
				case <-free:
				case <-ctx.Done():
				}
				return target.Result{Outcome: schema.Succeeded}
			}
			if b := w.taskSlots().Blocks; len(b) == 1 && b[0].Held == 1 {
				under = b[0].Session
			}
			return target.Result{Outcome: schema.Succeeded}
		})
		w.publish(w.entry(inAWhile(500*time.Millisecond), func(s *schema.Spec) { s.Tenant = "u" }), time.Now())
		time.Sleep(time.Second)
		run := w.entry(inAWhile(500*time.Millisecond), ofTaskA)
		w.publish(run, time.Now())
		time.Sleep(2 * time.Second)
		before := w.taskSlots()
		if len(before.Blocks) != 1 || before.Blocks[0].Held != 1 || len(w.started()) != 1 {
			t.Fatalf("slots = %+v, %d runs started; want a slot for the run, which waits for the other", before, len(w.started()))
		}
		dead := w.declareDead("x")
		time.Sleep(5 * time.Second)
		w.happened()
		close(free)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		back, start, _ := strings.Cut(w.happened(), "start 1")
		if !strings.Contains(back, "return") || !strings.HasPrefix(start, ", ") || len(w.started()) != 2 {
			t.Errorf("%s, then the start%s; %d have started; want it to go back before it starts, once", back, start, len(w.started()))
		}
		if got := w.state(run.ID); got != schema.StateSucceeded || under == "" || under == dead {
			t.Errorf("the run is %s, and began when the slot was held under %q; want succeeded, under another session than %q", got, under, dead)
		}
	})
}
