package dispatcher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/ratelimit"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// rated are the rates that the rig answers with.
func (r *rig) Rates(context.Context) (map[schema.TaskName]schema.Rate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.rates), nil
}

// limit gives a task of tenant t a rate, "" = none.
func (r *rig) limit(task, rate string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	name := schema.TaskName{Tenant: "t", Name: task}
	if r.rates == nil {
		r.rates = make(map[schema.TaskName]schema.Rate)
	}
	if delete(r.rates, name); rate == "" {
		return
	}
	var err error
	if r.rates[name], err = schema.ParseRate(rate); err != nil {
		r.t.Fatal(err)
	}
}

// tasked returns n runs of a task, due at at and each step after it, over the shards.
func (r *rig) tasked(task string, n int, at time.Time, step time.Duration) []schema.Entry {
	entries := make([]schema.Entry, n)
	for i := range entries {
		entries[i] = r.entry(at.Add(time.Duration(i)*step), schema.Shard(i%r.shards), schema.Spec{Task: task})
	}
	r.put(entries...)
	return entries
}

// startTimes returns when executors would have started what they were handed, in order: once for
// each run, not before its due time.
func (h *hand) startTimes(task string) (times []time.Time, byRun map[schema.RunID]time.Time) {
	byRun = make(map[schema.RunID]time.Time)
	for _, s := range h.all() {
		e := &s.env.Entry
		if e.Spec.Task != task {
			continue
		}
		if _, again := byRun[e.Run()]; again {
			continue // it is looked at, and does not start
		}
		at := s.at
		if e.Due().After(at) {
			at = e.Due()
		}
		byRun[e.Run()] = at
		times = append(times, at)
	}
	slices.SortFunc(times, time.Time.Compare)
	return times, byRun
}

// most returns the most times within any span.
func most(times []time.Time, span time.Duration) (n int) {
	for i, j := 0, 0; j < len(times); j++ {
		for times[j].Sub(times[i]) >= span {
			i++
		}
		n = max(n, j-i+1)
	}
	return n
}

func TestRatesAreKeptByAllDispatchersTogether(t *testing.T) {
	for _, row := range []struct {
		rate        string
		dispatchers int
		runs        int
	}{{"100/s", 1, 3000}, {"100/s", 4, 3000}, {"20/s", 3, 600}, {"60/m", 2, 60}} {
		t.Run(fmt.Sprintf("%s, %d dispatchers", row.rate, row.dispatchers), func(t *testing.T) {
			inBubble(t, 8, func(t *testing.T, r *rig) {
				r.limit("slow", row.rate)
				h := r.hand(nil)
				var names []string
				for i := range row.dispatchers {
					names = append(names, fmt.Sprintf("d%d", i+1))
				}
				r.own(names...)
				for _, name := range names {
					r.start(name)
				}
				time.Sleep(5 * time.Second)
				at := time.Now().Add(5 * time.Second).Truncate(time.Second)
				slow := r.tasked("slow", row.runs, at, time.Millisecond)
				others := r.tasked("quick", 200, at, 10*time.Millisecond)
				rate, err := schema.ParseRate(row.rate)
				if err != nil {
					t.Fatal(err)
				}
				took := time.Duration(row.runs) * rate.Per / time.Duration(rate.Count)
				time.Sleep(time.Until(at) + took + took/10 + 30*time.Second)

				times, byRun := h.startTimes("slow")
				if len(times) != row.runs {
					t.Fatalf("%d of %d runs were handed out within %s", len(times), row.runs, took)
				}
				const window = 10 * time.Second
				if n, limit := most(times, window), rate.In(window)+rate.In(time.Second)+1; n > limit {
					t.Errorf("%d starts within %s, want at most %d", n, window, limit)
				}
				// While there is a backlog, nine tenths of the rate are used.
				t.Logf("%d starts within 10 s at most, %d runs in %s of %s", most(times, window), row.runs, times[len(times)-1].Sub(at), took)
				if span, bound := times[len(times)-1].Sub(at), took*10/9+5*time.Second; span > bound {
					t.Errorf("%d runs took %s, want at most %s", row.runs, span, bound)
				}
				// One dispatcher deals in the order of due times. Between dispatchers the race for the
				// register decides, which here depends on the scheduler of goroutines.
				orders := make(map[string][]time.Time)
				for i := range slow {
					owner, ok := r.ring.Snapshot().Owner(slow[i].ID.Shard())
					if !ok {
						t.Fatalf("nobody owns shard %d", slow[i].ID.Shard())
					}
					orders[owner.Name] = append(orders[owner.Name], byRun[slow[i].ID])
				}
				for owner, order := range orders {
					ahead := len(order)/5 + ratelimit.MinBlock
					for i := range order {
						if k := i + ahead; k < len(order) && order[k].Before(order[i]) {
							t.Fatalf("of %s's runs the one due %d places later starts %s before the other", owner, ahead, order[i].Sub(order[k]))
						}
					}
				}
				for _, late := range h.once(t, "what has no rate", others) {
					if late > 0 {
						t.Fatalf("a run without rate was handed out %s late", late)
					}
				}
			})
		})
	}
}

// What is within the rate starts on time, from its own row.
func TestRunsWithinTheRateArePunctual(t *testing.T) {
	inBubble(t, 4, func(t *testing.T, r *rig) {
		r.limit("a", "100/s")
		h := r.hand(nil)
		r.start("d1")
		time.Sleep(5 * time.Second)
		at := time.Now().Add(5 * time.Second).Truncate(time.Second)
		runs := r.tasked("a", 800, at, 12*time.Millisecond)
		time.Sleep(30 * time.Second)
		h.once(t, "runs within the rate", runs)
		for i := range runs {
			h.only(&runs[i])
		}
		// The register is asked for blocks, not for runs.
		if n := r.counts.Tally("SwapLease").Calls; n > 80 {
			t.Errorf("%d conditional writes for %d runs", n, len(runs))
		}
	})
}

// A dispatcher dies between the starts that it took and the entries that it was about to write, at
// each step once.
func TestADispatcherThatDiesWhileItDefers(t *testing.T) {
	for _, fails := range []string{"PutEntries", "PutAttempts", "SwapLease"} {
		t.Run(fails, func(t *testing.T) {
			inBubble(t, 4, func(t *testing.T, r *rig) {
				const n = 1000
				r.limit("slow", "50/s")
				h := r.hand(nil)
				first := r.start("d1")
				time.Sleep(5 * time.Second)
				at := time.Now().Add(5 * time.Second).Truncate(time.Second)
				runs := r.tasked("slow", n, at, 0)
				time.Sleep(time.Until(at) - 200*time.Millisecond)
				r.fail(fails, true)
				time.Sleep(400 * time.Millisecond)
				first.stop()
				r.fail(fails, false)
				r.own("d2")
				r.start("d2")
				time.Sleep(90 * time.Second)
				times, byRun := h.startTimes("slow")
				for i := range runs {
					if _, ok := byRun[runs[i].ID]; !ok {
						t.Fatalf("run %d of %d was lost", i, n)
					}
				}
				if got := most(times, 10*time.Second); got > 500+50+1 {
					t.Errorf("%d starts within 10 s, want at most 551", got)
				}
				if span := times[len(times)-1].Sub(at); span > 45*time.Second {
					t.Errorf("%d runs took %s, want hardly more than 20 s", n, span)
				}
			})
		})
	}
}

// Who defers a run that another owner may have published says so in the deferral, and only then.
func TestADeferralSaysThatItsAttemptMayHaveStarted(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, r *rig) {
		r.limit("a", "20/s")
		h := r.hand(func(*queue.Envelope) fate { return lose })
		first := r.start("d1")
		time.Sleep(5 * time.Second)
		at := time.Now().Add(5 * time.Second).Truncate(time.Second)
		before := r.tasked("a", 5, at, 0)
		time.Sleep(time.Until(at) + 100*time.Millisecond)
		if n := len(h.all()); n != len(before) {
			t.Fatalf("%d of %d runs were published by the first owner", n, len(before))
		}
		first.stop()
		h.change(nil)
		r.own("d2")
		r.start("d2")
		time.Sleep(10 * time.Second)
		at = time.Now().Add(5 * time.Second).Truncate(time.Second)
		after := r.tasked("a", 100, at, 0)
		time.Sleep(30 * time.Second)

		told := make(map[schema.RunID]bool)
		var deferred int
		for _, s := range h.all() {
			if e := &s.env.Entry; e.Spec.Kind == schema.KindDeferral {
				told[e.Run()] = e.Spec.MayHaveStarted
				deferred++
			}
		}
		for i := range before {
			if may, ok := told[before[i].ID]; !ok || !may {
				t.Errorf("run %d of the first owner: deferred %t, may have started %t, want both", i, ok, may)
			}
		}
		for i := range after {
			if told[after[i].ID] {
				t.Errorf("run %d, which nobody published before, is said to have started perhaps", i)
			}
		}
		if deferred < len(before)+len(after)/2 {
			t.Errorf("%d runs were deferred, want most of them", deferred)
		}
	})
}

// A rate that changes holds for what waits under the one before.
func TestRatesThatChange(t *testing.T) {
	inBubble(t, 4, func(t *testing.T, r *rig) {
		r.limit("a", "10/s")
		h := r.hand(nil)
		r.start("d1")
		time.Sleep(5 * time.Second)
		at := time.Now().Add(5 * time.Second).Truncate(time.Second)
		r.tasked("a", 2000, at, 0)
		time.Sleep(time.Until(at) + 20*time.Second)
		before, _ := h.startTimes("a")
		if n := len(before); n < 180 || n > 230 {
			t.Errorf("%d starts in 20 s at 10/s", n)
		}
		r.limit("a", "2/s")
		time.Sleep(ratesEvery + 5*time.Second)
		was, _ := h.startTimes("a")
		time.Sleep(60 * time.Second)
		now, _ := h.startTimes("a")
		if n := len(now) - len(was); n > 125 || n < 100 {
			t.Errorf("%d starts in a minute at 2/s", n)
		}
		r.limit("a", "")
		time.Sleep(12 * time.Minute)
		all, _ := h.startTimes("a")
		if len(all) != 2000 {
			t.Errorf("%d of 2000 runs started once there was no rate", len(all))
		}
	})
}

// A backlog that reaches beyond what starts are taken for costs bounded memory, holds no cursor up,
// and starts all the same.
func TestABacklogBeyondTheReach(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, r *rig) {
		const n = 6000 // at 5/s: 20 minutes
		r.limit("a", "5/s")
		h := r.hand(nil)
		d := r.start("d1")
		time.Sleep(5 * time.Second)
		at := time.Now().Add(5 * time.Second).Truncate(time.Second)
		r.tasked("a", n, at, 0)
		held := 0
		for range 20 {
			time.Sleep(10 * time.Second)
			held = max(held, d.rateLimiter.Waiting())
		}
		if held > 2*shardstate.MaxHeld {
			t.Errorf("%d entries waited for starts at once, want at most %d", held, 2*shardstate.MaxHeld)
		}
		time.Sleep(5 * time.Minute)
		if lag := r.lag(0); lag > 5 {
			t.Errorf("the cursor lies %d buckets behind: what is deferred must not hold it up", lag)
		}
		time.Sleep(20 * time.Minute)
		times, _ := h.startTimes("a")
		if len(times) != n {
			t.Fatalf("%d of %d runs were handed out", len(times), n)
		}
		if span := times[n-1].Sub(at); span > 24*time.Minute {
			t.Errorf("%d runs took %s, want 20 min and a little", n, span)
		}
		if got := most(times, 10*time.Second); got > 56 {
			t.Errorf("%d starts within 10 s, want at most 56", got)
		}
	})
}

// What executors hand back, or a stream loses, asks for another start.
func TestRedispatchesTakeStarts(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, r *rig) {
		r.limit("a", "20/s")
		lost := true
		h := r.hand(func(*queue.Envelope) fate {
			if lost {
				return lose
			}
			return finish
		})
		r.start("d1")
		time.Sleep(5 * time.Second)
		at := time.Now().Add(5 * time.Second).Truncate(time.Second)
		runs := r.tasked("a", 400, at, 0)
		time.Sleep(time.Until(at) + 10*time.Second)
		h.change(nil)
		from := len(h.all())
		time.Sleep(3 * time.Minute)
		seen := h.all()[from:]
		var times []time.Time
		started := make(map[schema.RunID]bool)
		for _, s := range seen {
			e := &s.env.Entry
			if started[e.Run()] {
				continue
			}
			started[e.Run()] = true
			times = append(times, s.at)
			if s.at.After(e.Due().Add(schema.ReservationLife)) {
				t.Fatalf("%s was handed out %s after its due time: it should have asked for another start", e.ID, s.at.Sub(e.Due()))
			}
		}
		if len(started) != len(runs) {
			t.Errorf("%d of %d runs came again", len(started), len(runs))
		}
		slices.SortFunc(times, time.Time.Compare)
		if got := most(times, 10*time.Second); got > 221+20 {
			t.Errorf("%d starts within 10 s, want at most 241", got)
		}
	})
}
