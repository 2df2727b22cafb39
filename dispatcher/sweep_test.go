package dispatcher

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/progress"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// before puts rows of a bucket that is long past, as a former owner may have left them, and lets
// the cursor lie before it.
func (r *rig) before(n int, at time.Time) []schema.Entry {
	r.t.Helper()
	entries := make([]schema.Entry, n)
	for i := range entries {
		entries[i] = r.entry(at, 0, schema.Spec{})
	}
	r.put(entries...)
	return entries
}

// TestASweepOfMoreThanAPage: many thousands of entries at one millisecond are found by pages of
// ids, within the bound of what may wait, and each is published.
func TestASweepOfMoreThanAPage(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		const n = 20*sweepPage + 1
		h := r.hand(nil)
		at := time.Now().Add(10 * time.Second)
		r.before(n, at)
		time.Sleep(3 * time.Minute)
		r.start("d1")
		time.Sleep(5 * time.Minute)
		ids := make(map[schema.EntryID]bool)
		for _, s := range h.all() {
			ids[s.env.Entry.ID] = true
			if !s.env.Redispatch {
				t.Fatalf("%v, long overdue, was not published as a redispatch", s.env.Entry.ID)
			}
		}
		if len(ids) != n || len(h.all()) != n {
			t.Errorf("%d entries in %d messages, want %d of each", len(ids), len(h.all()), n)
		}
		if lag := r.lag(0); lag > 2 {
			t.Errorf("settled lags by %d buckets, want 2", lag)
		}
	})
}

// TestASweepOfWhatIsKnownInspectsNothing: 20,000 entries at one instant that the scan has found
// cost pages of ids.
func TestASweepOfWhatIsKnownInspectsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("20,000 rows")
	}
	inBubble(t, 1, func(t *testing.T, r *rig) {
		const n = 20_000
		h := r.hand(nil)
		r.start("d1")
		time.Sleep(5 * time.Second)
		r.before(n, time.Now().Add(2500*time.Millisecond))
		time.Sleep(2 * time.Minute)
		if got := len(h.all()); got != n {
			t.Errorf("%d messages, want one for each of %d", got, n)
		}
		if got := r.counts.Tally("Attempts").Calls; got != 0 {
			t.Errorf("%d looks, want none", got)
		}
	})
}

// TestSweptRowsThatAreDoneAreNotPublished: what a former owner published and executors finished is
// found, inspected, and left.
func TestSweptRowsThatAreDoneAreNotPublished(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		entries := r.before(50, time.Now().Add(10*time.Second))
		for i := range entries {
			if i != 7 {
				r.ended(&entries[i], 1, schema.Record{Outcome: schema.Succeeded})
			}
		}
		time.Sleep(3 * time.Minute)
		r.start("d1")
		time.Sleep(3 * time.Minute)
		if got := len(h.all()); got != 1 || len(h.sights(entries[7].ID)) != 1 {
			t.Errorf("%d messages, want one: of what was open", got)
		}
	})
}

// TestASweepPassesOverWhatFindsNoRoom: a sweep that finds as much of a tenant behind its time as
// may wait goes on to what is others', and the cursors stay before what it spilled.
func TestASweepPassesOverWhatFindsNoRoom(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		s := r.shardOf(r.idle(), 0)
		now := time.Now().Add(time.Hour).Truncate(time.Minute)
		due := now.Add(-30 * time.Minute)
		s.sweep.to = due
		s.scan.Start(now, 0)
		var entries []schema.Entry
		for range shardstate.MaxHeld + sweepPage {
			entries = append(entries, r.entry(due, 0, schema.Spec{Tenant: "much"}))
		}
		for range 5 {
			entries = append(entries, r.entry(due.Add(time.Second), 0, schema.Spec{Tenant: "little"}))
		}
		r.put(entries...)
		for s.sweep.to.Equal(due) {
			s.sweep.start(t.Context(), now)
			for s.sweep.busy {
				(<-s.posts)(now)
			}
			now = now.Add(time.Second)
		}
		s.workers.Wait()
		f := s.state.Flows.Of(&entries[0], shardstate.Overdue)
		if n := f.Waiting(); n < shardstate.MaxHeld/2 || n > shardstate.MaxHeld {
			t.Errorf("%d of a tenant wait in memory, want some, and at most %d", n, shardstate.MaxHeld)
		}
		if n := s.state.Flows.Of(&entries[len(entries)-1], shardstate.Overdue).Waiting(); n != 5 {
			t.Errorf("%d of the other wait, want 5", n)
		}
		if !f.AnySpilled() || f.After().Compare(entries[f.Waiting()-1].ID) < 0 || f.After().Compare(entries[f.Waiting()].ID) >= 0 {
			t.Errorf("spilled: %v from %v on, want from the first that does not wait", f.AnySpilled(), f.After())
		}
		bucket := schema.BucketOf(due)
		if got := s.state.Settled(bucket + 9); got != bucket-1 {
			t.Errorf("settled = %d, want the bucket before what was spilled, %d", got, bucket-1)
		}
		for p := range s.state.All() {
			s.publish.done(p.ID)
		}
		if got := s.state.Dispatched(bucket + 9); got != bucket-1 {
			t.Errorf("dispatched = %d, want the bucket before what was spilled, %d", got, bucket-1)
		}
	})
}

// TestASweepWaitsForTheScan: a sweep reads a slice only after everything in it was read by the
// scan; it overtook a scan that was behind, and had what lay ahead of the scan published as
// redispatches.
func TestASweepWaitsForTheScan(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 40, 0, time.UTC)
	for _, c := range []struct {
		name  string
		read  time.Duration // since the slice's end
		left  time.Duration // from where on the scan left something out, since the slice's end
		sweep bool
	}{
		{"all was read", 0, 0, true},
		{"the scan is behind", -time.Millisecond, 0, false},
		{"the scan left something out", time.Second, -time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, r *rig) {
				s := r.shardOf(r.idle(), 0)
				s.sweep.to = now.Add(-20 * time.Second)
				s.scan.Start(now, 0)
				s.scan.Read = s.sweep.to.Add(sliceSpan + c.read)
				s.scan.Unread = progress.Unread{After: progress.Below(schema.FirstID(s.sweep.to.Add(sliceSpan+c.left), 0)), To: now}
				s.sweep.start(t.Context(), now)
				if s.sweep.busy != c.sweep {
					t.Errorf("sweeping = %v, want %v", s.sweep.busy, c.sweep)
				}
				if s.sweep.busy {
					(<-s.posts)(now)
				}
				s.workers.Wait()
			})
		})
	}
}

// TestAHintDuringASweepIsNoRedispatch: an id that a sweep listed as unmet and that a hint brought
// before the sweep had looked was published twice.
func TestAHintDuringASweepIsNoRedispatch(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		s := r.shardOf(r.idle(), 0)
		now := time.Now().Add(time.Minute)
		e := r.run(now.Add(-15*time.Second), 0)
		s.sweep.to = now.Add(-20 * time.Second)
		s.scan.Start(now, 0)
		s.sweep.start(t.Context(), now)
		(<-s.posts)(now) // the ids
		s.state.Find(e.ID)
		o := s.state.Add(&queue.Envelope{Entry: e})
		o.Phase, o.Env = shardstate.Published, nil
		(<-s.posts)(now) // the look
		s.workers.Wait()
		if o.Phase != shardstate.Published || s.state.Size().Overdue != 0 {
			t.Errorf("phase %d with %d behind, want published and nothing behind", o.Phase, s.state.Size().Overdue)
		}
	})
}

// TestDispatchedWaitsForWhatIsNotPublished: dispatched moved over buckets whose swept entries still
// waited for the queue.
func TestDispatchedWaitsForWhatIsNotPublished(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		e := r.run(time.Now().Add(10*time.Second), 0)
		time.Sleep(5 * time.Minute)
		r.harm(func(e inproc.Event) inproc.Verdict { return inproc.Verdict{Drop: e.Point == inproc.Publish} })
		r.start("d1")
		time.Sleep(time.Minute)
		if c := r.cursor(0); c.Dispatched >= e.ID.Bucket() {
			t.Errorf("dispatched = %d, want less than bucket %d of what is not published", c.Dispatched, e.ID.Bucket())
		}
		r.harm(nil)
		time.Sleep(2 * time.Minute)
		if len(h.sights(e.ID)) == 0 {
			t.Error("it was never published")
		}
		if lag := r.lag(0); lag > 2 {
			t.Errorf("settled lags by %d buckets, want 2", lag)
		}
	})
}

// TestSettledNeverPassesWhatIsOpen: whatever fails, on its way to settled the cursor passes no
// bucket with a run that has not ended.
func TestSettledNeverPassesWhatIsOpen(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, r *rig) {
				rng := rand.New(rand.NewPCG(seed, 1)) // #nosec G404 -- a seeded test
				t.Logf("seed %d", seed)
				var mu sync.Mutex
				taken, ended := 0, make(map[schema.EntryID]bool)
				r.hand(func(env *queue.Envelope) fate {
					mu.Lock()
					defer mu.Unlock()
					if taken++; taken%3 == 0 {
						return lose
					}
					ended[env.Entry.ID] = true
					return finish
				})
				open := func(id schema.EntryID) bool {
					mu.Lock()
					defer mu.Unlock()
					return !ended[id]
				}
				start := time.Now()
				var entries []schema.Entry
				for range 200 {
					entries = append(entries, r.entry(start.Add(time.Duration(rng.IntN(240_000))*time.Millisecond), 0, schema.Spec{}))
				}
				r.put(entries...)
				n := r.start("d1")
				ops := []string{"Entries", "EntryIDs", "EntriesByID", "Attempts", "Cursor", "AdvanceCursor", "Time", "PutAttempts", "PutEntries"}
				for range 120 {
					for _, op := range ops {
						r.fail(op, rng.IntN(4) == 0)
					}
					drop := rng.IntN(3)
					r.harm(func(e inproc.Event) inproc.Verdict {
						return inproc.Verdict{Drop: drop == 0 && (e.Point == inproc.Publish || e.Point == inproc.Receipt || e.Point == inproc.Notice)}
					})
					switch rng.IntN(30) {
					case 0:
						r.broker.DeleteStream(0)
					case 1:
						n.stop()
						n = r.start("d1")
					}
					time.Sleep(time.Duration(rng.IntN(4000)) * time.Millisecond)
					c := r.cursor(0)
					for i := range entries {
						if b := entries[i].ID.Bucket(); c.Settled >= b && open(entries[i].ID) {
							t.Fatalf("settled = %d, and a run of bucket %d has not ended", c.Settled, b)
						}
					}
					if c.Settled > c.Dispatched {
						t.Fatalf("settled = %d beyond dispatched = %d", c.Settled, c.Dispatched)
					}
				}
				for _, op := range ops {
					r.fail(op, false)
				}
				r.harm(nil)
				time.Sleep(5 * time.Minute)
				for i := range entries {
					if open(entries[i].ID) {
						t.Errorf("the run due at %v never ended", entries[i].Due())
					}
				}
				if lag := r.lag(0); lag > 2 {
					t.Errorf("settled lags by %d buckets when all is done, want 2", lag)
				}
				synctest.Wait()
			})
		})
	}
}

// TestGraceIsLongEnough: what the late rule lets count is there when its slice is swept.
func TestGraceIsLongEnough(t *testing.T) {
	if bucketer.Grace < sliceSpan/2 || recent < bucketer.Grace {
		t.Errorf("grace %v, recent %v: a row held half a grace late must be found by a sweep or a take-over", bucketer.Grace, recent)
	}
}
