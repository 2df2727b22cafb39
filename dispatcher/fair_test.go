package dispatcher

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/dispatcher/window"
	"carillon.dev/carillon/schema"
)

// of returns entries of a tenant that are due at at and each step after it, over the shards of the
// rig.
func (r *rig) of(tenant string, p schema.Priority, n int, at time.Time, step time.Duration) []schema.Entry {
	entries := make([]schema.Entry, n)
	for i := range entries {
		entries[i] = r.entry(at.Add(time.Duration(i)*step), schema.Shard(i%r.shards), schema.Spec{Tenant: tenant, Priority: p})
	}
	r.put(entries...)
	return entries
}

// once fails the test unless each entry was published once, as what it is; it returns how late the
// messages were that a hand took, in order of their due times.
func (h *hand) once(t *testing.T, what string, entries []schema.Entry) []time.Duration {
	t.Helper()
	seen := make(map[schema.EntryID][]sight)
	for _, s := range h.all() {
		seen[s.env.Entry.ID] = append(seen[s.env.Entry.ID], s)
	}
	missed, again, redispatched := 0, 0, 0
	var late []time.Duration
	for i := range entries {
		of := seen[entries[i].ID]
		if len(of) == 0 {
			missed++
			continue
		}
		if again += len(of) - 1; of[0].env.Redispatch {
			redispatched++
		}
		late = append(late, of[0].at.Sub(entries[i].Due()))
	}
	if missed+again+redispatched != 0 {
		t.Fatalf("%s: of %d, %d were not published, %d times one was published again, %d as a redispatch; want none", what, len(entries), missed, again, redispatched)
	}
	return late
}

// atFirst is how late somebody may become of whom nothing is known: what executors can do is not
// known before they have shown it, and what is published until then lies before what comes. It is
// how long a slowHand of 2000 a second takes for firstBudget messages, and twice the 50 ms between
// which it takes some: until it takes the first, and until it takes the next ones.
const atFirst = firstBudget*time.Second/2000 + 2*50*time.Millisecond

// TestABacklogHidesNoOtherTenant: a tenant with a backlog holds nobody up who has little to do, is
// published in the order of its due times, and costs the store a bounded number of reads.
func TestABacklogHidesNoOtherTenant(t *testing.T) {
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			inBubble(t, shards, func(t *testing.T, r *rig) {
				const n = 30_000
				h := r.slowHand(nil, 100, 50*time.Millisecond) // 2000 a second
				r.start("d1")
				time.Sleep(5 * time.Second)
				at := time.Now().Add(10 * time.Second).Truncate(time.Second)
				much := r.of("much", schema.Normal, n, at, 0)
				little := r.of("little", schema.Normal, 120, at.Add(-time.Second), 100*time.Millisecond)
				time.Sleep(40 * time.Second)
				h.once(t, "much", much)
				late := h.once(t, "little", little)
				if most := slices.Max(late[:30]); most > atFirst {
					t.Errorf("one of the other tenant was in an executor's hand %v late, want at most %v", most, atFirst)
				}
				if most := slices.Max(late[30:]); most > 20*time.Millisecond {
					t.Errorf("after 2s one of the other tenant was in an executor's hand %v late, want at most 20ms", most)
				}
				reads := 0
				for _, k := range r.store.reads() {
					reads += k
				}
				if reads > 3*n {
					t.Errorf("%d rows were read for %d runs, want at most %d", reads, n, 3*n)
				} else {
					t.Logf("%d rows were read for %d runs, the other tenant was at most %v late, later %v", reads, n, slices.Max(late[:30]), slices.Max(late[30:]))
				}
			})
		})
	}
}

// scattered returns n entries of a tenant that are due anywhere in span from at on, over the shards
// of the rig.
func (r *rig) scattered(tenant string, n int, at time.Time, span time.Duration, rng *rand.Rand) []schema.Entry {
	entries := make([]schema.Entry, n)
	for i := range entries {
		due := at.Add(time.Duration(rng.Int64N(span.Milliseconds())) * time.Millisecond)
		entries[i] = r.entry(due, schema.Shard(rng.IntN(r.shards)), schema.Spec{Tenant: tenant})
	}
	r.put(entries...)
	return entries
}

// TestAHundredTimesTheLoadBesideMovesNobody: the p99, over five seeds, of how late one of 10 runs a
// second comes into an executor's hand moves by at most a fifth or 20 ms when another tenant has
// 1,000 a second and so much behind it that executors have no rest. The other's load begins 4 s
// before what is measured: what executors can do is known by then.
func TestAHundredTimesTheLoadBesideMovesNobody(t *testing.T) {
	const (
		before, span = 4 * time.Second, 4 * time.Second
		rate, times  = 10, 100
	)
	// Executors take so many every 50 ms; the other tenant has a backlog when its load begins.
	p99 := func(hands, backlog int, beside bool) time.Duration {
		var late []time.Duration
		for seed := range uint64(5) {
			inBubble(t, 4, func(t *testing.T, r *rig) {
				rng := rand.New(rand.NewPCG(seed, 1))
				h := r.slowHand(nil, hands, 50*time.Millisecond)
				r.start("d1")
				time.Sleep(5 * time.Second)
				at := time.Now().Add(10 * time.Second).Truncate(time.Second)
				little := r.scattered("little", rate*int(span.Seconds()), at, span, rng)
				if beside {
					r.of("much", schema.Normal, backlog, at.Add(-before), 0)
					r.scattered("much", times*rate*int((before+span).Seconds()), at.Add(-before), before+span, rng)
				}
				time.Sleep(time.Until(at.Add(span)))
				if waits := backlog + times*rate*int((before+span).Seconds()) - len(h.all()); beside && waits < 500 {
					t.Fatalf("seed %d: %d of the other tenant wait in the end: executors had a rest", seed, waits)
				}
				time.Sleep(time.Second)
				late = append(late, h.once(t, fmt.Sprintf("seed %d, little", seed), little)...)
			})
		}
		slices.Sort(late)
		return max(late[(len(late)*99+99)/100-1], 0) // what is in a hand before its time starts on time
	}
	for _, c := range []struct {
		name           string
		hands, backlog int
		most           time.Duration
	}{
		{"executors do twice what is due", 100, 10_000, 20 * time.Millisecond},
		{"executors do four fifths of what is due", 40, 0, 50 * time.Millisecond}, // a step of theirs: whoever comes waits for the next
	} {
		alone, beside := p99(c.hands, c.backlog, false), p99(c.hands, c.backlog, true)
		if most := max(alone/5, c.most); beside-alone > most {
			t.Errorf("%s: p99 = %v beside another tenant, %v alone, want at most %v more", c.name, beside, alone, most)
		}
		t.Logf("%s: p99 = %v alone, %v beside another tenant", c.name, alone, beside)
	}
}

// TestDueTimesAreTheOrderWithinATenant: what waits of a tenant and priority is published in the
// order of due times, over all shards, but for what one shard holds in memory and another has yet
// to read again. While the budget refuses a flow, that is at most what a shard published of it
// within window.Span, which is most at the beginning, when what executors can do is being found
// out.
func TestDueTimesAreTheOrderWithinATenant(t *testing.T) {
	const apart = 200 * time.Microsecond // two entries; of a shard shards times as much
	inBubble(t, 4, func(t *testing.T, r *rig) {
		published := make([][]time.Time, r.shards)
		r.harm(func(e inproc.Event) inproc.Verdict {
			if e.Point == inproc.Publish {
				published[e.Entry.Shard()] = append(published[e.Entry.Shard()], time.Now())
			}
			return inproc.Verdict{}
		})
		h := r.slowHand(nil, 50, 50*time.Millisecond) // 1000 a second
		r.start("d1")
		time.Sleep(5 * time.Second)
		entries := r.of("t", schema.Normal, 10_000, time.Now().Add(5*time.Second).Truncate(time.Second), apart)
		time.Sleep(30 * time.Second)
		h.once(t, "all", entries)
		held := 0 // by a shard, of what waits: what it published within window.Span
		for _, at := range published {
			first := 0
			for i := range at {
				for at[i].Sub(at[first]) >= window.Span {
					first++
				}
				held = max(held, i-first+1)
			}
		}
		var latest time.Time
		worst := time.Duration(0)
		for _, s := range h.all() {
			due := s.env.Entry.Due()
			worst = max(worst, latest.Sub(due))
			latest = later(latest, due)
		}
		if most := time.Duration(held*r.shards) * apart; worst > most {
			t.Errorf("an entry came after one that was due %v later, want at most the %v that a shard may be ahead of another", worst, most)
		} else {
			t.Logf("worst inversion: %v of at most %v", worst, most)
		}
	})
}

// TestThroughputFollowsWeights: tenants that all have a backlog are published by their weights,
// which may change meanwhile.
func TestThroughputFollowsWeights(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, r *rig) {
		const n = 30_000
		r.shares = map[string]int{"b": 2, "c": 4}
		h := r.slowHand(nil, 100, 50*time.Millisecond) // 2000 a second
		r.start("d1")
		time.Sleep(5 * time.Second)
		at := time.Now().Add(5 * time.Second).Truncate(time.Second)
		for _, tenant := range []string{"a", "b", "c"} {
			r.of(tenant, schema.Normal, n, at, 0)
		}
		shares := func(from, to time.Time) (a, b, c float64) {
			count := make(map[string]float64)
			for _, s := range h.all() {
				if !s.at.Before(from) && s.at.Before(to) {
					count[s.env.Entry.Spec.Tenant]++
				}
			}
			sum := count["a"] + count["b"] + count["c"]
			return count["a"] / sum, count["b"] / sum, count["c"] / sum
		}
		within := func(what string, got, want float64) {
			t.Helper()
			if got < want*0.9 || got > want*1.1 {
				t.Errorf("%s: share %.3f, want %.3f to a tenth", what, got, want)
			}
		}
		time.Sleep(7 * time.Second)
		from := time.Now()
		time.Sleep(8 * time.Second)
		a, b, c := shares(from, time.Now())
		within("weight 1", a, 1./7)
		within("weight 2", b, 2./7)
		within("weight 4", c, 4./7)
		r.mu.Lock()
		r.shares = map[string]int{"a": 3}
		r.mu.Unlock()
		time.Sleep(2 * time.Second) // until it is heard of, and what was in the stream is through
		from = time.Now()
		time.Sleep(5 * time.Second)
		a, b, c = shares(from, time.Now())
		within("weight 3 by now", a, 3./5)
		within("weight 1 by now", b, 1./5)
		within("weight 1 by now", c, 1./5)
	})
}

// TestCriticalDoesNotWaitForLow: what waits of one priority holds up none of another.
func TestCriticalDoesNotWaitForLow(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		low := r.handOf(schema.Low, nil, 50, 50*time.Millisecond)
		critical := r.handOf(schema.Critical, nil, 50, 50*time.Millisecond)
		r.start("d1")
		time.Sleep(5 * time.Second)
		at := time.Now().Add(5 * time.Second).Truncate(time.Second)
		r.of("t", schema.Low, 20_000, at, 0)
		urgent := r.of("t", schema.Critical, 100, at.Add(5*time.Second), 10*time.Millisecond)
		time.Sleep(20 * time.Second)
		if n := len(low.all()); n > 16_000 {
			t.Fatalf("%d low are through: there is no backlog", n)
		}
		if most := slices.Max(critical.once(t, "critical", urgent)); most > 50*time.Millisecond {
			t.Errorf("a critical one was %v late, want at most 50ms", most)
		}
	})
}

// TestCriticalOvertakesAHundredThousandLow: what is critical and due at once is in an executor's
// hand within 2 s, however much of the same tenant is low and waits.
func TestCriticalOvertakesAHundredThousandLow(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, r *rig) {
		const n = 100_000
		low := r.handOf(schema.Low, nil, 50, 50*time.Millisecond) // 1000 a second
		critical := r.handOf(schema.Critical, nil, 50, 50*time.Millisecond)
		r.start("d1")
		time.Sleep(5 * time.Second)
		at := time.Now().Add(5 * time.Second).Truncate(time.Second)
		r.of("t", schema.Low, n, at, 0)
		time.Sleep(time.Until(at.Add(5 * time.Second)))
		urgent := r.of("t", schema.Critical, 100, time.Now().Truncate(time.Millisecond), 0)
		for i := range urgent {
			r.conn.Near(urgent[i].ID.Shard(), urgent[i:i+1])
		}
		if through := len(low.all()); through < n/100 || through > n/10 {
			t.Fatalf("%d of %d low are through, want some, and the others waiting", through, n)
		}
		time.Sleep(5 * time.Second)
		most := slices.Max(critical.once(t, "critical", urgent))
		if most > 2*time.Second {
			t.Errorf("a critical one was %v late, want at most 2s", most)
		}
		t.Logf("the last of %d critical was %v late", len(urgent), most)
	})
}

// TestAnOldTurnIsUsed: beside a tenant of great weight with an overdue backlog, and executors so
// slow that turns come more rarely than what was read becomes too old, a run that is on time is
// published when it is its turn.
func TestAnOldTurnIsUsed(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		r.shares = map[string]int{"much": 100}
		h := r.slowHand(nil, 6, 100*time.Millisecond) // 60 a second: a round takes 1.7 s
		much := r.of("much", schema.Normal, 9000, time.Now(), 0)
		time.Sleep(3 * time.Minute)
		r.start("d1")
		time.Sleep(30 * time.Second)
		little := r.of("little", schema.Normal, 5, time.Now().Add(10*time.Second).Truncate(time.Second), time.Second)
		time.Sleep(40 * time.Second)
		if n := len(h.all()); n > len(much)-100 {
			t.Fatalf("%d of %d were published: the backlog is about to be over", n, len(much))
		}
		if late := slices.Max(h.once(t, "little", little)); late > 20*time.Second {
			t.Errorf("one who was on time was in an executor's hand %v late, want at most 20s", late)
		}
	})
}

// TestMemoryOfABacklog: however much is due of a tenant, a shard holds shardstate.MaxHeld of it and
// remembers no more ids.
func TestMemoryOfABacklog(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		s := r.shardOf(r.idle(), 0)
		now := time.Now().Truncate(time.Second)
		s.scan.Start(now, 0)
		entries := r.of("much", schema.Normal, 20*shardstate.MaxHeld, now, 0)
		little := r.of("little", schema.Low, 10, now.Add(time.Millisecond), 0)
		s.d.depth.SetBudget(depth.Subject{Lane: 0, Priority: schema.Normal}, 0)
		began := now
		for ; !s.state.Has(little[9].ID); now = now.Add(10 * time.Millisecond) {
			s.scan.start(t.Context(), now)
			for s.scan.busy || s.resume.busy {
				(<-s.posts)(now)
			}
			s.publish.flush(t.Context(), now)
			s.resume.readOn(t.Context(), now)
			size, waiting := s.state.Size(), s.state.Flows.Of(&entries[0], shardstate.OnTime).Waiting()
			if waiting > shardstate.MaxHeld || size.Known > shardstate.MaxHeld+scanPage || size.Open > shardstate.MaxHeld+scanPage {
				t.Fatalf("%d wait, %d ids are known, %d entries open, want at most %d of each", waiting, size.Known, size.Open, shardstate.MaxHeld)
			}
			if now.Sub(began) > time.Minute {
				t.Fatalf("after a minute the other tenant was not reached: the scan is at %v, the unread range is %v", s.scan.Seen, s.scan.Unread)
			}
		}
		s.workers.Wait()
		if f := s.state.Flows.Of(&little[0], shardstate.OnTime); f.AnySpilled() {
			t.Error("the other tenant was spilled")
		}
		if least := time.Duration(float64(len(entries)-shardstate.MaxHeld-spillBurst) / spillRows * float64(time.Second)); now.Sub(began) < least {
			t.Errorf("%d rows were spilled in %v, want %v at least", len(entries), now.Sub(began), least)
		}
	})
}

// TestMemoryOfABacklogOverManyShards: a dispatcher of many shards holds maxHeldAll envelopes of
// what is due, each shard its part, whoever has much to do and whatever can be published; and it
// remembers no more ids than these and a page.
func TestMemoryOfABacklogOverManyShards(t *testing.T) {
	const shards, tenants = 16, 8
	inBubble(t, shards, func(t *testing.T, r *rig) {
		d := r.idle()
		d.owned.Store(shards)
		d.depth.SetBudget(depth.Subject{Lane: 0, Priority: schema.Normal}, 0) // nothing may be published
		now := time.Now().Truncate(time.Second)
		const each = 3 * maxHeldAll / shards / tenants // of a tenant, in a shard
		for i := range tenants {
			r.of(fmt.Sprintf("tenant-%d", i), schema.Normal, each*shards, now.Add(time.Duration(i)*time.Millisecond), 0)
		}
		all := make([]*shard, shards)
		for i := range all {
			all[i] = r.shardOf(d, schema.Shard(i))
			all[i].scan.Start(now, all[i].id)
		}
		most := 0
		for end := now.Add(3 * time.Second); now.Before(end); now = now.Add(10 * time.Millisecond) {
			held := 0
			for _, s := range all {
				s.scan.start(t.Context(), now)
				for s.scan.busy || s.resume.busy {
					(<-s.posts)(now)
				}
				s.publish.flush(t.Context(), now)
				s.resume.readOn(t.Context(), now)
				envelopes := 0
				for o := range s.state.All() {
					if o.Env != nil {
						envelopes++
					}
				}
				if limit := maxHeldAll / shards; envelopes > limit || s.state.Size().Known > limit+scanPage {
					t.Fatalf("shard %d holds %d envelopes and knows %d ids, want at most %d and %d", s.id, envelopes, s.state.Size().Known, limit, limit+scanPage)
				}
				held += envelopes
			}
			if most = max(most, held); held > maxHeldAll {
				t.Fatalf("%d envelopes are held in all, want at most %d", held, maxHeldAll)
			}
		}
		for _, s := range all {
			for s.scan.busy || s.resume.busy {
				(<-s.posts)(now)
			}
			s.workers.Wait()
			if s.scan.More || s.scan.Read.Before(now) || s.scan.Unread.Open(now) {
				t.Errorf("the scan of shard %d has not come to the end of what is due: it is at %v, the unread range is %v", s.id, s.scan.Seen, s.scan.Unread)
			}
		}
		if most < maxHeldAll/2 {
			t.Errorf("at most %d envelopes were held, want a good part of the %d that may be: this shows nothing", most, maxHeldAll)
		}
		t.Logf("of %d entries %d were held at most", each*shards*tenants, most)
	})
}
