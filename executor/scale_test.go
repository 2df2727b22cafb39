package executor

import (
	"context"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// TestExecutorsJoinAndLeaveUnderLoad: 200 runs a second for a minute, while executors come, and go
// as SIGTERM has them go. Each run is executed once, on its instant.
func TestExecutorsJoinAndLeaveUnderLoad(t *testing.T) {
	const (
		every   = 50 * time.Millisecond
		ticks   = 1200
		batch   = 10
		ahead   = 300 * time.Millisecond // of the due time, as dispatchers publish
		longest = 3 * time.Second
		bound   = 100 * time.Millisecond // of lateness: what is handed back must be taken by somebody else
	)
	inWorld(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		late := make(map[schema.RunID]time.Duration, ticks*batch)
		w.answer(func(ctx context.Context, c target.Call) target.Result {
			mu.Lock()
			late[c.Run] = time.Since(c.Due)
			n := len(late)
			mu.Unlock()
			select { // up to three seconds: at any time some hundred are under way
			case <-time.After(longest * time.Duration(n%100) / 100):
				return target.Result{Outcome: schema.Succeeded}
			case <-ctx.Done():
				return target.Ended(ctx)
			}
		})
		slots := func(c *Config) { c.Slots = 1000 }
		first := w.begin("a", slots)
		var changes sync.WaitGroup
		changes.Go(func() {
			time.Sleep(5 * time.Second)
			second := w.begin("b", slots)
			time.Sleep(5 * time.Second)
			third := w.begin("c", slots)
			time.Sleep(5 * time.Second)
			first.kill() // it finishes what it has begun, and hands the rest back
			second.kill()
			again := w.begin("a", slots) // under a name that was there before
			time.Sleep(5 * time.Second)
			third.kill()
			for range 5 {
				time.Sleep(5 * time.Second)
				next := w.begin("d", slots)
				time.Sleep(time.Second)
				again.kill()
				again = next
				time.Sleep(time.Second)
				next = w.begin("e", slots)
				again.kill()
				again = next
			}
		})
		var entries []schema.Entry
		for range ticks {
			for range batch {
				e := w.entry(inAWhile(ahead))
				w.publish(e, time.Now())
				entries = append(entries, e)
			}
			time.Sleep(every)
		}
		changes.Wait()
		time.Sleep(10 * time.Second)
		starts := make(map[schema.RunID]int, len(entries))
		for _, s := range w.started() {
			starts[s.Run]++
		}
		worst := time.Duration(0)
		missed, twice := 0, 0
		for _, e := range entries {
			switch starts[e.ID] {
			case 0:
				missed++
			case 1:
			default:
				twice++
			}
			worst = max(worst, late[e.ID])
		}
		if missed != 0 || twice != 0 || worst > bound {
			t.Errorf("of %d runs %d were missed, %d executed twice, and the latest was %v late; want none, none, and at most %v", len(entries), missed, twice, worst, bound)
		}
		if n := w.open(); n != 0 {
			t.Errorf("messages left: %d, want 0", n)
		}
		for _, e := range entries[:batch] {
			if s := w.state(e.ID); s != schema.StateSucceeded {
				t.Errorf("state of %s: %s, want succeeded", e.ID, s)
			}
		}
	})
}
