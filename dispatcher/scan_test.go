package dispatcher

import (
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/progress"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// inBubble runs a test with a rig in a synctest bubble.
func inBubble(t *testing.T, shards int, f func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, shards)
		defer r.close()
		f(t, r)
	})
}

// TestEveryRowIsReadOnce: in steady state, over the boundaries of buckets, a row is read once and
// published depth.Lead before it is due.
func TestEveryRowIsReadOnce(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		r.start("d1")
		time.Sleep(30 * time.Second)
		start := time.Now()
		var entries []schema.Entry
		for i := range 600 {
			entries = append(entries, r.entry(start.Add(5*time.Second+time.Duration(i)*311*time.Millisecond), schema.Shard(i%2), schema.Spec{}))
		}
		r.put(entries...)
		time.Sleep(5 * time.Minute)
		reads := r.store.reads()
		for i := range entries {
			h.only(&entries[i])
			if n := reads[entries[i].ID]; n != 1 {
				t.Errorf("row due at %v was read %d times, want once", entries[i].Due(), n)
			}
		}
		if n := r.counts.Tally("EntriesByID").Calls + r.counts.Tally("Attempts").Calls; n != 0 {
			t.Errorf("%d looks, want none", n)
		}
	})
}

// TestIdleShardsAreCheap: an idle shard costs at most 1.42 statements a second. Both rounds of late
// reads are among them, from the beginning.
func TestIdleShardsAreCheap(t *testing.T) {
	inBubble(t, 8, func(t *testing.T, r *rig) {
		r.start("d1")
		time.Sleep(2 * time.Minute)
		r.counts.Reset()
		const span = 10 * time.Minute
		time.Sleep(span)
		calls := 0
		for op, tally := range r.counts.Tallies() {
			t.Logf("%s: %d", op, tally.Calls)
			if op == "Listening" { // the node's, however many shards it has: once a second
				continue
			}
			calls += tally.Calls
			if op == "AdvanceCursor" {
				calls += tally.Calls // two statements in Cassandra: each number has its own timestamp
			}
		}
		if rate := float64(calls) / 8 / span.Seconds(); rate > 1.42 || rate < 1 {
			t.Errorf("%.3f statements a shard and second, want 1.0 to 1.42", rate)
		}
	})
}

func TestRowsAtTheBoundaryOfABucket(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		r.start("d1")
		end := schema.BucketOf(time.Now()).End()
		var entries []schema.Entry
		for _, at := range []time.Duration{-time.Second, -time.Millisecond, 0, time.Millisecond, time.Second, 59999 * time.Millisecond, time.Minute} {
			entries = append(entries, r.entry(end.Add(at), 0, schema.Spec{}))
		}
		r.put(entries...)
		time.Sleep(3 * time.Minute)
		for i := range entries {
			h.only(&entries[i])
		}
	})
}

// TestABurstIsScannedInPages: more rows at one instant than a page or the memory of a shard holds
// are published as fast as the queue takes them, each once; the memory keeps its bound.
func TestABurstIsScannedInPages(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		const n = 5*shardstate.MaxHeld + 17
		h := r.hand(nil)
		r.start("d1")
		time.Sleep(5 * time.Second)
		at := time.Now().Add(20 * time.Second)
		entries := make([]schema.Entry, n)
		for i := range entries {
			entries[i] = r.entry(at, 0, schema.Spec{})
		}
		r.put(entries...)
		time.Sleep(18400*time.Millisecond + progress.ScanEvery) // scanned, not yet about to be published
		if read := len(r.store.reads()); read > shardstate.MaxHeld+scanPage {
			t.Errorf("%d rows were read before any was published, want at most %d", read, shardstate.MaxHeld+scanPage)
		}
		time.Sleep(2 * time.Minute)
		last := at
		ids := make(map[schema.EntryID]int)
		for _, s := range h.all() {
			ids[s.env.Entry.ID]++
			if s.at.After(last) {
				last = s.at
			}
			if s.env.Redispatch {
				t.Fatalf("%v was published as a redispatch: the sweep overtook the scan", s.env.Entry.ID)
			}
		}
		if len(ids) != n || len(h.all()) != n {
			t.Errorf("%d entries were published in %d messages, want %d of each", len(ids), len(h.all()), n)
		}
		// Once a second 2,000 would take 5 s; what bounds it is the budget: 2,500 at first, 10,000
		// more a second later.
		if late := last.Sub(at); late > 2*time.Second {
			t.Errorf("the last of %d was published %v late, want less than 2 s", n, late)
		}
	})
}

// TestABacklogIsPublishedFresh: what waits for budget is read again before it is published, since
// an executor would have to inspect each run of which the row was read too long ago. Where 2,000
// are drained a second, 12,000 of one instant were up to 6 s old.
func TestABacklogIsPublishedFresh(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		const n = 12_000
		h := r.slowHand(nil, 200, 100*time.Millisecond)
		r.start("d1")
		time.Sleep(5 * time.Second)
		at := time.Now().Add(10 * time.Second)
		entries := make([]schema.Entry, n)
		for i := range entries {
			entries[i] = r.entry(at, 0, schema.Spec{})
		}
		r.put(entries...)
		time.Sleep(30 * time.Second)
		ids := make(map[schema.EntryID]int)
		var oldest time.Duration
		for _, s := range h.all() {
			ids[s.env.Entry.ID]++
			oldest = max(oldest, s.at.Sub(s.env.CheckedAt))
			if s.env.Redispatch {
				t.Fatalf("%v was published as a redispatch", s.env.Entry.ID)
			}
		}
		if len(ids) != n || len(h.all()) != n {
			t.Errorf("%d entries were published in %d messages, want %d of each", len(ids), len(h.all()), n)
		}
		// 1 s of waiting to be published, and what waits in the stream.
		if most := rereadAfter + 800*time.Millisecond; oldest > most {
			t.Errorf("a row was read %v before an executor had it, want at most %v", oldest, most)
		}
		reads := 0
		for _, k := range r.store.reads() {
			reads += k
		}
		if reads > 2*n {
			t.Errorf("%d rows were read for %d runs, want at most %d", reads, n, 2*n)
		} else {
			t.Logf("%d rows were read for %d runs, the oldest was %v old", reads, n, oldest)
		}
	})
}

// TestACancelWhileItWaitsIsSeen: a row that is read again says what happened to it meanwhile.
func TestACancelWhileItWaitsIsSeen(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		d := r.idle()
		s := r.shardOf(d, 0)
		now := time.Now()
		s.scan.Start(now, 0)
		e, kept := r.run(now.Add(-time.Second), 0), r.run(now.Add(-time.Second), 0)
		s.scan.found(t.Context(), []schema.Entry{e, kept}, nil, time.Time{}, now.Add(-1500*time.Millisecond), now)
		if _, err := r.inner.CancelRun(t.Context(), e.ID, schema.EntryID{}, schema.Cancel{At: now}, now.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		s.publish.flush(t.Context(), now)
		if n := s.state.Size().Open; n != 0 {
			t.Fatalf("%d are open after a flush of stale rows, want them read again", n)
		}
		s.resume.readOn(t.Context(), now)
		for s.resume.busy {
			(<-s.posts)(now)
		}
		var held []*shardstate.Pending // on time
		for p := range s.state.All() {
			if p.Live(shardstate.Waiting) && p.Flow.Side == shardstate.OnTime {
				held = append(held, p)
			}
		}
		if len(held) != 1 || held[0].ID != kept.ID {
			t.Fatalf("%d are held, want only the one that was not cancelled", len(held))
		}
		if got := held[0].Env.CheckedAt; !got.Equal(now) {
			t.Errorf("it was checked at %v, want %v", got, now)
		}
		s.workers.Wait()
	})
}

// TestWhatIsDoneIsNotNewAgain: a run that waited until the sweep had been where it is due is
// published as it was read. Were it read again, one that is due after it and done would be, too,
// and nobody knows of that any more.
func TestWhatIsDoneIsNotNewAgain(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		d := r.idle()
		s := r.shardOf(d, 0)
		now := time.Now()
		s.scan.Start(now, 0)
		late, over := r.run(now.Add(-25*time.Second), 0), r.run(now.Add(-24*time.Second), 0)
		s.scan.found(t.Context(), []schema.Entry{over}, nil, time.Time{}, now, now)
		s.publish.flush(t.Context(), now)
		r.ended(&over, 1, schema.Record{Outcome: schema.Succeeded})
		s.publish.done(over.ID)
		s.scan.found(t.Context(), []schema.Entry{late}, nil, time.Time{}, now.Add(-20*time.Second), now)
		s.sweep.to = now.Add(-20 * time.Second)
		s.state.Swept(s.sweep.to)
		s.publish.flush(t.Context(), now)
		s.resume.readOn(t.Context(), now)
		for s.resume.busy {
			(<-s.posts)(now)
		}
		if o := pending(s, late.ID); o == nil || o.Phase != shardstate.Publishing {
			t.Errorf("what was late is open as %+v, want it published", o)
		}
		if o := pending(s, over.ID); o != nil {
			t.Errorf("what was done is to be published again, as %+v", *o.Env)
		}
		s.workers.Wait()
	})
}

// TestARowIsReadAgainOnce: what has become too old a second time is published, and so is what an
// executor inspects in any case.
func TestARowIsReadAgainOnce(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		d := r.idle()
		s := r.shardOf(d, 0)
		now := time.Now()
		s.scan.Start(now, 0)
		e := r.run(now.Add(-time.Second), 0)
		again := r.entry(now.Add(-2*time.Second), 0, schema.Spec{Kind: schema.KindRetry, Of: e.ID, Attempt: 2})
		s.scan.found(t.Context(), []schema.Entry{e, again}, nil, time.Time{}, now.Add(-1500*time.Millisecond), now)
		s.publish.flush(t.Context(), now)
		if o := pending(s, again.ID); o == nil || o.Phase != shardstate.Publishing {
			t.Errorf("a retry is open as %+v, want it published", o)
		}
		if pending(s, e.ID) != nil {
			t.Fatal("a stale row is open after a flush, want it read again")
		}
		s.resume.readOn(t.Context(), now)
		for s.resume.busy {
			(<-s.posts)(now)
		}
		later := now.Add(1500 * time.Millisecond)
		s.publish.flush(t.Context(), later)
		if o := pending(s, e.ID); o == nil || o.Phase != shardstate.Publishing {
			t.Errorf("after it was read again and became too old again it is open as %+v, want it published", o)
		}
		s.workers.Wait()
	})
}

// TestBusyShardsReadLate: where much is due, rows are read no longer than about a second before
// their start.
func TestBusyShardsReadLate(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		r.start("d1")
		from := time.Now().Add(10 * time.Second)
		for i := range 8000 {
			r.put(r.entry(from.Add(time.Duration(i)*time.Millisecond), 0, schema.Spec{}))
		}
		time.Sleep(20 * time.Second)
		oldest := time.Duration(0)
		for _, s := range h.all() {
			if due := s.env.Entry.Due(); due.After(from.Add(2 * time.Second)) {
				oldest = max(oldest, due.Sub(s.env.CheckedAt))
			}
		}
		if n, most := len(h.all()), progress.ScanBusy+progress.ScanSlack+depth.Lead+50*time.Millisecond; n != 8000 || oldest > most {
			t.Errorf("%d of 8000 were published, a row was read up to %v before it was due, want at most %v", n, oldest, most)
		}
	})
}

// TestFailedScanOfAnEmptyBucketIsRepeated: what a scan that failed should have read was left to the
// sweep if nothing had been read of the bucket before.
func TestFailedScanOfAnEmptyBucketIsRepeated(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		r.start("d1")
		time.Sleep(10 * time.Second)
		e := r.run(time.Now().Add(4*time.Second), 0)
		time.Sleep(2100 * time.Millisecond)
		r.fail("Entries", true)
		time.Sleep(1400 * time.Millisecond)
		r.fail("Entries", false)
		time.Sleep(5 * time.Second)
		seen := h.sights(e.ID)
		if len(seen) != 1 || seen[0].env.Redispatch {
			t.Errorf("published %s, want once by the scan", describe(seen))
		}
	})
}

// TestScanForgetsWhatTheSweepHasFound: after scans had failed for a while, a row that the sweep had
// found, and that was done, was published once more as if for the first time.
func TestScanForgetsWhatTheSweepHasFound(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		d := r.idle()
		s := r.shardOf(d, 0)
		now := time.Now()
		s.sweep.to = now
		swept, ahead := r.entry(now.Add(-time.Second), 0, schema.Spec{}), r.entry(now.Add(time.Second), 0, schema.Spec{})
		s.scan.found(t.Context(), []schema.Entry{swept, ahead}, nil, time.Time{}, now, now)
		if s.state.Has(swept.ID) || !s.state.Has(ahead.ID) {
			t.Errorf("has(swept) = %v, has(ahead) = %v, want false, true", s.state.Has(swept.ID), s.state.Has(ahead.ID))
		}
	})
}

// TestRowsBehindTheLastOneRead: a row written between the last id read and the horizon is found by
// the next scan, without a hint.
func TestRowsBehindTheLastOneRead(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		r.start("d1")
		time.Sleep(10 * time.Second)
		first := r.run(time.Now().Add(time.Second), 0)
		time.Sleep(3 * time.Second)
		behind := r.run(time.Now().Add(-time.Second), 0)
		time.Sleep(progress.ScanEvery + 100*time.Millisecond)
		h.only(&first)
		if seen := h.sights(behind.ID); len(seen) != 1 {
			t.Errorf("a row behind the scan was published %s, want once by the next scan", describe(seen))
		}
	})
}

func TestMarkedRunsAreNotPublished(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		at := time.Now().Add(10 * time.Second)
		cancelled, moved := r.run(at, 0), r.run(at, 0)
		to := r.entry(at.Add(time.Minute), 0, schema.Spec{Kind: schema.KindReschedule, Of: moved.ID})
		r.put(to)
		if _, err := r.inner.CancelRun(t.Context(), cancelled.ID, schema.EntryID{}, schema.Cancel{At: time.Now()}, at.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.inner.MoveRun(t.Context(), moved.ID, schema.EntryID{}, to.ID, at.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		r.start("d1")
		time.Sleep(6 * time.Minute)
		if n := len(h.sights(cancelled.ID)) + len(h.sights(moved.ID)); n != 0 {
			t.Errorf("%d marked runs were published, want none", n)
		}
		h.only(&to)
		if lag := r.lag(0); lag > 2 {
			t.Errorf("settled lags by %d buckets, want 2", lag)
		}
	})
}

// TestFaultyRowsAreMissed: a row that cannot be understood is recorded as missed, also if that
// fails at first, and holds nothing up.
func TestFaultyRowsAreMissed(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		at := time.Now().Add(10 * time.Second)
		id := schema.MakeEntryID(at, 0, 9)
		broken := schema.LoadEntry(id, []byte("{not a spec"), nil, schema.Marks{})
		broken.Expires = at.Add(time.Hour)
		good := r.entry(at, 0, schema.Spec{})
		r.put(broken, good)
		r.fail("PutAttempts", true)
		r.start("d1")
		time.Sleep(12 * time.Second)
		r.fail("PutAttempts", false)
		time.Sleep(4 * time.Minute)
		h.only(&good)
		if n := len(h.sights(id)); n != 0 {
			t.Errorf("a row that cannot be understood was published %d times", n)
		}
		attempts, err := r.inner.Attempts(t.Context(), id.Partition(), []schema.RunID{id})
		if err != nil || len(attempts) == 0 || attempts[0].Number != 0 || attempts[0].Record.Outcome != schema.Missed {
			t.Errorf("Attempts = %+v, %v, want attempt 0: missed", attempts, err)
		}
		if lag := r.lag(0); lag > 2 {
			t.Errorf("settled lags by %d buckets, want 2", lag)
		}
	})
}
