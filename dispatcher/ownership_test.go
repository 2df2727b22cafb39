package dispatcher

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"carillon.dev/carillon/schema"
)

func (r *rig) own(names ...string) {
	r.t.Helper()
	if err := r.ring.Set(members(names...), nil, r.shards); err != nil {
		r.t.Fatal(err)
	}
}

// TestShardsFollowTheRing: a shard is taken at once, and given up 3 s after a live peer was seen to
// own it.
func TestShardsFollowTheRing(t *testing.T) {
	inBubble(t, 4, func(t *testing.T, r *rig) {
		r.own()
		d := r.start("d1")
		synctest.Wait()
		if got := d.Owned(); got != 0 {
			t.Errorf("Owned = %d in an empty ring, want 0", got)
		}
		r.own("d1")
		synctest.Wait()
		if got := d.Owned(); got != 4 {
			t.Errorf("Owned = %d alone, want 4", got)
		}
		r.own("d2")
		time.Sleep(handover - time.Second)
		if got := d.Owned(); got != 4 {
			t.Errorf("Owned = %d before the hand-over is over, want 4", got)
		}
		r.own("d1", "d2")
		synctest.Wait()
		r.own("d2")
		time.Sleep(handover + time.Second)
		if got := d.Owned(); got != 0 {
			t.Errorf("Owned = %d after the hand-over, want 0", got)
		}
	})
}

// TestTwoOwners: a shard with two owners loses no run and publishes none twice that its stream
// knows.
func TestTwoOwners(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		start := time.Now()
		a := r.start("d1")
		entries := r.before(300, start.Add(20*time.Second))
		more := r.before(300, start.Add(80*time.Second))
		time.Sleep(2 * time.Second)
		r.start("d1") // another process under that name, as if each had its own view of the ring
		time.Sleep(100 * time.Second)
		a.stop()
		time.Sleep(3 * time.Minute)
		for _, e := range append(entries, more...) {
			if n := len(h.sights(e.ID)); n < 1 || n > 2 {
				t.Fatalf("published %s, want once or twice", describe(h.sights(e.ID)))
			}
		}
		if got, most := len(h.all()), 660; got > most {
			t.Errorf("%d messages for 600 runs, want at most %d", got, most)
		}
		if lag := r.lag(0); lag > 2 {
			t.Errorf("settled lags by %d buckets, want 2", lag)
		}
	})
}

// TestAHaltStartsEverythingAnew: what a process that was stopped remembers is thrown away, and made
// anew from the rows.
func TestAHaltStartsEverythingAnew(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		n := r.start("d1")
		time.Sleep(10 * time.Second)
		done, held := r.run(time.Now().Add(3*time.Second), 0), r.run(time.Now().Add(61*time.Second), 0)
		time.Sleep(30 * time.Second)
		n.jump(3 * time.Second)
		time.Sleep(time.Minute)
		h.only(&done)
		if seen := h.sights(held.ID); len(seen) != 1 {
			t.Errorf("published %s, want once", describe(seen))
		}
		if got := counted(t, n.metrics.takeovers); got != 2 {
			t.Errorf("the shard was taken over %v times, want once at the start and once after the halt", got)
		}
	})
}

// TestAClockThatIsOffDispatchesNothing: the node says that it dispatches no shard for as long, so
// that those of all nodes add up to all shards while another one has them.
func TestAClockThatIsOffDispatchesNothing(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		n := r.start("d1")
		for _, step := range []struct {
			off  bool
			want float64
		}{{false, 1}, {true, 0}, {false, 1}} {
			n.off.Store(step.off)
			time.Sleep(10 * time.Second)
			if got := testutil.ToFloat64(n.metrics.owned); got != step.want {
				t.Errorf("off %t: %v shards are dispatched here, want %v", step.off, got, step.want)
			}
		}
	})
}

// TestTakingOver: what the former owner left is published, the slice before the take-over first;
// what is done is not.
func TestTakingOver(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		now := time.Now()
		old := r.run(now.Add(10*time.Second), 0)
		time.Sleep(2 * time.Minute)
		now = time.Now()
		recently, ahead, done := r.run(now.Add(-2*time.Second), 0), r.run(now.Add(time.Second), 0), r.run(now.Add(-time.Second), 0)
		r.ended(&done, 1, schema.Record{Outcome: schema.Succeeded})
		r.start("d1")
		synctest.Wait()
		if seen := h.sights(recently.ID); len(seen) != 1 || !seen[0].env.Redispatch {
			t.Errorf("the recent one was published %s, want at once, as a redispatch", describe(seen))
		}
		time.Sleep(2 * time.Minute)
		h.only(&ahead)
		if seen := h.sights(old.ID); len(seen) != 1 || !seen[0].env.Redispatch || seen[0].at.Before(h.sights(recently.ID)[0].at) {
			t.Errorf("the old one was published %s, want once, as a redispatch, after the recent one", describe(seen))
		}
		if n := len(h.sights(done.ID)); n != 0 {
			t.Errorf("a finished run was published %d times", n)
		}
	})
}

// TestTakingOverABusyShard: what nobody dispatched between a death and the take-over is published
// at once, also where more was due in the ten seconds before than one reading takes: it read the
// oldest, and left these to the sweep.
func TestTakingOverABusyShard(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		n := r.start("d1")
		from := time.Now().Add(5 * time.Second)
		entries := make([]schema.Entry, 6000) // 400 a second
		for i := range entries {
			entries[i] = r.entry(from.Add(time.Duration(i)*2500*time.Microsecond), 0, schema.Spec{})
		}
		r.put(entries...)
		time.Sleep(15 * time.Second)
		n.stop()
		time.Sleep(3 * time.Second)
		r.start("d1")
		time.Sleep(20 * time.Second)
		worst := time.Duration(0)
		for _, s := range h.all() {
			worst = max(worst, s.at.Sub(s.env.Entry.Due()))
		}
		if most := 4 * time.Second; worst > most || len(h.all()) != len(entries) {
			t.Errorf("%d of %d were published, up to %v late, want each once and at most %v", len(h.all()), len(entries), worst, most)
		}
	})
}

// TestTakingOverStartsFromSettled: what was published and not finished lies between settled and
// dispatched.
func TestTakingOverStartsFromSettled(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		e := r.run(time.Now().Add(10*time.Second), 0)
		time.Sleep(5 * time.Minute)
		c := r.cursor(0)
		c.Dispatched = schema.BucketOf(time.Now()) - 2
		if err := r.inner.AdvanceCursor(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		r.start("d1")
		time.Sleep(time.Minute)
		if seen := h.sights(e.ID); len(seen) != 1 || !seen[0].env.Redispatch {
			t.Errorf("published %s, want once, as a redispatch", describe(seen))
		}
	})
}

// TestTakingOverWhileTheStoreFails: every step of it is repeated.
func TestTakingOverWhileTheStoreFails(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		old := r.run(time.Now().Add(time.Second), 0)
		time.Sleep(2 * time.Minute)
		recently := r.run(time.Now().Add(-5*time.Second), 0)
		for _, op := range []string{"Cursor", "Entries", "Attempts"} {
			r.fail(op, true)
		}
		r.start("d1")
		for _, op := range []string{"Cursor", "Entries", "Attempts"} {
			time.Sleep(5 * time.Second)
			if n := len(h.all()); n != 0 {
				t.Errorf("%d messages while the store fails, want none", n)
			}
			r.fail(op, false)
		}
		time.Sleep(time.Minute)
		for _, e := range []schema.Entry{old, recently} {
			if seen := h.sights(e.ID); len(seen) != 1 || !seen[0].env.Redispatch {
				t.Errorf("published %s, want once, as a redispatch", describe(seen))
			}
		}
	})
}

func TestConfigReportsEveryFault(t *testing.T) {
	_, err := New(Config{Lanes: -1})
	for _, what := range []string{"name", "incarnation", "store", "queue", "ring", "writer", "halt", "lanes"} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("New of nothing = %v, want it to name %q", err, what)
		}
	}
}

// TestATakeOverHidesNoTenant: what a tenant left behind in an outage does not hide what others did,
// which were behind it.
func TestATakeOverHidesNoTenant(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		const n = 20_000
		h := r.slowHand(nil, 100, 50*time.Millisecond) // 2000 a second
		at := time.Now().Add(time.Second).Truncate(time.Second)
		much := r.of("much", schema.Normal, n, at, 0)
		little := r.of("little", schema.Normal, 100, at.Add(2*time.Minute), time.Second)
		time.Sleep(5 * time.Minute)
		r.start("d1")
		began := time.Now()
		now := r.of("little", schema.Normal, 100, began.Add(2*time.Second), 50*time.Millisecond)
		time.Sleep(3 * time.Second)
		if c := r.cursor(0); c.Settled >= much[0].ID.Bucket() || c.Dispatched >= much[0].ID.Bucket() {
			t.Errorf("cursor = %+v, want it before bucket %d, of which rows were spilled", c, much[0].ID.Bucket())
		}
		time.Sleep(5 * time.Minute)
		for i := range little {
			seen := h.sights(little[i].ID)
			if len(seen) != 1 {
				t.Fatalf("published %s, want once", describe(seen))
			}
			if took := seen[0].at.Sub(began); took > 3*time.Second {
				t.Fatalf("one that was due %v before the take-over was published %v after it, want at most 3s", began.Sub(little[i].Due()), took)
			}
		}
		if most := slices.Max(h.once(t, "now", now)); most > atFirst {
			t.Errorf("a run on time was %v late, want at most %v", most, atFirst)
		}
		ids := make(map[schema.EntryID]int)
		for _, s := range h.all() {
			ids[s.env.Entry.ID]++
		}
		for i := range much {
			if ids[much[i].ID] != 1 {
				t.Fatalf("one of the backlog was published %d times, want once", ids[much[i].ID])
			}
		}
		if lag := r.lag(0); lag > 3 {
			t.Errorf("settled lags by %d buckets in the end, want 3", lag)
		}
	})
}

// TestATakeOverMeetsWhatIsRecentAtOnce: what was due since the owner died is published as fast as
// executors take it. What the budget had refused by then was no reason to leave the rest to the
// sweep, which comes to it 10 to 20 s later, nor is it that it has been due for longer than a death
// takes to be noticed.
func TestATakeOverMeetsWhatIsRecentAtOnce(t *testing.T) {
	const n, span = 4000, 8 * time.Second
	for _, after := range []time.Duration{0, 5 * time.Second, 11 * time.Second, 30 * time.Second} { // the last was due
		t.Run(after.String(), func(t *testing.T) {
			inBubble(t, 8, func(t *testing.T, r *rig) {
				h := r.slowHand(nil, 100, 50*time.Millisecond) // 2000 a second
				entries := r.of("t", schema.Normal, n, time.Now().Truncate(time.Millisecond), span/n)
				time.Sleep(span + after)
				r.start("d1")
				began := time.Now()
				time.Sleep(8 * time.Second)
				seen := make(map[schema.EntryID]time.Time)
				for _, s := range h.all() {
					seen[s.env.Entry.ID] = s.at
				}
				late, missed := 0, 0
				for i := range entries {
					if at, ok := seen[entries[i].ID]; !ok {
						missed++
					} else if at.Sub(began) > 2*n*time.Second/2000 {
						late++
					}
				}
				if missed+late > 0 {
					t.Errorf("of %d runs %d were in an executor's hand later than %v after the take-over, and %d not after 8 s", n, late, 2*n*time.Second/2000, missed)
				}
			})
		})
	}
}
