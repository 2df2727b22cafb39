package dispatcher

import (
	"context"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/progress"
	"carillon.dev/carillon/schema"
)

// started returns the messages of a run, whichever entry they carry.
func (h *hand) started(run schema.RunID) []sight {
	h.mu.Lock()
	defer h.mu.Unlock()
	var of []sight
	for _, s := range h.seen {
		if s.env.Entry.Run() == run {
			of = append(of, s)
		}
	}
	return of
}

// wantOnce fails the test unless the run was published once, within most of since.
func (h *hand) wantOnce(run schema.RunID, since time.Time, most time.Duration) {
	h.r.t.Helper()
	seen := h.started(run)
	if len(seen) != 1 || seen[0].at.Sub(since) > most {
		h.r.t.Errorf("published %s, want once within %v of %s", describe(seen), most, since.Format("15:04:05"))
	}
}

// TestARowBehindTheSweepIsFound: a row that comes to lie where the sweep has been is started all
// the same: minutes late by the first read, and after Cassandra's hints are over by the second.
// What is done is not read again.
func TestARowBehindTheSweepIsFound(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		d := r.start("d1")
		time.Sleep(3 * time.Minute)
		done := r.run(time.Now().Add(5*time.Second), 0)
		time.Sleep(4 * time.Minute)
		r.counts.Reset()
		late := r.run(time.Now().Add(-3*time.Minute), 0)
		at := time.Now()
		time.Sleep(10 * time.Minute)
		h.wantOnce(late.ID, at, progress.LateAfter+2*watchStep)
		hinted := r.run(at.Add(-30*time.Second), 0)
		time.Sleep(progress.HintAfter + 10*time.Minute)
		h.wantOnce(hinted.ID, at, progress.HintAfter+2*watchStep)
		h.only(&done)
		if got := counted(t, d.metrics.late); got != 2 {
			t.Errorf("%v late rows were found, want 2", got)
		}
		if lag := r.lag(0); lag > 2 {
			t.Errorf("settled lags by %d buckets, want 2", lag)
		}
		if rows := r.counts.Tally("EntriesByID").Calls; rows > 40 {
			t.Errorf("rows were read %d times by id, want few", rows)
		}
	})
}

// TestARowBehindAnotherOwnersSweepIsFound: what a dead owner, or a client, had on its way when it
// died is found by the next owner.
func TestARowBehindAnotherOwnersSweepIsFound(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		d := r.start("d1")
		time.Sleep(10 * time.Minute)
		due := time.Now().Add(-2 * time.Minute)
		d.stop()
		time.Sleep(3 * time.Second)
		second := r.start("d1")
		for c := r.cursor(0); c.Settled < schema.BucketOf(due); c = r.cursor(0) {
			time.Sleep(time.Second) // until it is settled as well
		}
		late := r.run(due, 0)
		at := time.Now()
		time.Sleep(progress.LateAfter + 5*time.Minute)
		h.wantOnce(late.ID, at, progress.LateAfter+2*watchStep)
		if got := counted(t, second.metrics.late); got != 1 {
			t.Errorf("%v late rows were found, want 1", got)
		}
	})
}

// TestALateRowIsFoundOverATakeOver: its finder dies before it has replaced the row, and the next
// owner finds it again.
func TestALateRowIsFoundOverATakeOver(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		d := r.start("d1")
		time.Sleep(10 * time.Minute)
		late := r.run(time.Now().Add(-time.Minute), 0)
		r.fail("PutEntries", true)
		for counted(t, d.metrics.late) == 0 {
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Second)
		d.stop()
		r.fail("PutEntries", false)
		at := time.Now()
		r.start("d1")
		time.Sleep(10 * time.Minute)
		h.wantOnce(late.ID, at, 2*watchStep+time.Minute)
	})
}

// outcome returns the one record about the entry among the attempts of its run, nil if there is
// none.
func (r *rig) outcome(e *schema.Entry) *schema.Record {
	r.t.Helper()
	attempts, err := r.inner.Attempts(context.Background(), e.Run().Partition(), []schema.RunID{e.Run()})
	if err != nil {
		r.t.Fatal(err)
	}
	var about *schema.Record
	for i := range attempts {
		if rec := attempts[i].Record; rec != nil && rec.Entry == e.ID {
			if about != nil {
				r.t.Errorf("records about %s: %+v and %+v, want one", e.ID, about, rec)
			}
			about = rec
		}
	}
	return about
}

// TestWhatAWatchEntryCannotStandForIsNotReplaced: of the rows that come to lie behind the sweep, a
// catch-up entry was replaced by a watch entry, and what it stood for was never caught up; so was a
// row that cannot be understood, with nothing to start.
func TestWhatAWatchEntryCannotStandForIsNotReplaced(t *testing.T) {
	first := func(r *rig) schema.Entry { return r.entry(time.Now().Add(-20*time.Minute), 0, schema.Spec{}) }
	for _, c := range []struct {
		name   string
		row    func(r *rig) schema.Entry
		reason string // of its record, which says missed
	}{
		{"a catch-up entry", func(r *rig) schema.Entry {
			of := first(r)
			return r.entry(time.Now().Add(-3*time.Minute), 0, schema.Spec{
				Kind: schema.KindCatchUp, Of: of.ID, Job: schema.MakeJobID(time.Now().Add(-time.Hour), 0, 7), Generation: 1,
				Nominal: of.Due(), Until: time.Now().Add(-4 * time.Minute),
			})
		}, "changed: "}, // its job is not there any more
		{"a row that cannot be understood", func(r *rig) schema.Entry {
			e := schema.LoadEntry(first(r).ID, []byte(`{"v":99,"tenant":5}`), nil, schema.Marks{})
			e.ID = schema.MakeEntryID(time.Now().Add(-3*time.Minute), 0, 99)
			e.Expires = time.Now().Add(24 * time.Hour)
			return e
		}, "unreadable: "},
	} {
		for _, fails := range []bool{false, true} {
			name := c.name
			if fails {
				name += ", and its record cannot be written for a while"
			}
			t.Run(name, func(t *testing.T) {
				inBubble(t, 1, func(t *testing.T, r *rig) {
					h := r.hand(nil)
					d := r.start("d1")
					time.Sleep(10 * time.Minute)
					late := c.row(r)
					r.put(late)
					r.fail("PutAttempts", fails)
					for counted(t, d.metrics.late) == 0 {
						time.Sleep(time.Second)
					}
					time.Sleep(time.Minute)
					r.fail("PutAttempts", false)
					time.Sleep(5 * time.Minute)
					if rec := r.outcome(&late); rec == nil || rec.Outcome != schema.Missed || !strings.HasPrefix(rec.Reason, c.reason) {
						t.Errorf("its record is %+v, want one that says missed, %q", rec, c.reason)
					}
					if seen := h.started(late.Run()); len(seen) != 0 {
						t.Errorf("published %s, want never", describe(seen))
					}
				})
			})
		}
	}
}

// TestARowBehindTheSweepIsFoundAfterAnOutage: nobody has the shard for a while, and what the owner
// before, or a client, had on its way comes to lie in a bucket that was settled, and not read again
// by then. Its distance was taken from the next owner's start: what lay between was never read
// again.
func TestARowBehindTheSweepIsFoundAfterAnOutage(t *testing.T) {
	for _, ago := range []time.Duration{3 * time.Minute, bucketer.Grace + progress.LateAfter + 20*time.Second} {
		t.Run("due "+ago.String()+" before it", func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, r *rig) {
				h := r.hand(nil)
				d := r.start("d1")
				time.Sleep(10 * time.Minute)
				due := time.Now().Add(-ago)
				if c := r.cursor(0); c.Settled < schema.BucketOf(due) {
					t.Fatalf("settled is %v, want the bucket of %v or a later one", c.Settled.Start(), due)
				}
				d.stop()
				late := r.run(due, 0)
				time.Sleep(time.Hour)
				r.start("d1")
				at := time.Now()
				time.Sleep(20 * time.Minute)
				h.wantOnce(late.ID, at, 2*watchStep+time.Minute)
			})
		})
	}
}

// TestARowBehindAnOwnersRoundsIsFoundByTheNext: a row may come to lie in a bucket that the owner
// before swept, and read again once. Then no round of any owner read it: it was pending for ever.
func TestARowBehindAnOwnersRoundsIsFoundByTheNext(t *testing.T) {
	for _, c := range []struct {
		name string
		next func(r *rig, d *node) *node // the last owner
	}{
		{"after a restart", func(r *rig, d *node) *node {
			d.stop()
			time.Sleep(3 * time.Second)
			return r.start("d1")
		}},
		{"after a move to another node", func(r *rig, _ *node) *node {
			second := r.start("d2")
			r.own("d2")
			return second
		}},
		{"after a move there and back", func(r *rig, d *node) *node {
			r.start("d2")
			r.own("d2")
			time.Sleep(time.Minute)
			r.own("d1")
			return d
		}},
		{"after the process was stopped", func(_ *rig, d *node) *node {
			d.jump(20 * time.Second)
			return d
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, r *rig) {
				h := r.hand(nil)
				d := r.start("d1")
				time.Sleep(40 * time.Minute)
				moved := time.Now()
				done := r.run(time.Now().Add(5*time.Second), 0)
				time.Sleep(time.Minute)
				d = c.next(r, d)
				time.Sleep(15 * time.Minute) // the next owner's first round is over
				r.counts.Reset()
				late := []schema.Entry{
					r.run(moved.Add(-2*time.Minute), 0),  // where it has been
					r.run(moved.Add(-10*time.Minute), 0), // where only that of the owner before has
				}
				time.Sleep(progress.HintAfter + 5*time.Minute)
				for i := range late {
					h.wantOnce(late[i].ID, late[i].Due(), progress.HintAfter+2*watchStep)
				}
				h.only(&done)
				if got := counted(t, d.metrics.late); got != 2 {
					t.Errorf("%v late rows were found, want 2", got)
				}
				if rows := r.counts.Tally("EntriesByID").Calls; rows > 40 {
					t.Errorf("rows were read %d times by id, want few", rows)
				}
			})
		})
	}
}

// TestARowBehindRoundsThatLagIsFoundByTheNextOwner: an owner cannot read attempts, so its late
// reads stop at the first bucket that has changed. The next owner reads on where they stopped: it
// took them to have been on time.
func TestARowBehindRoundsThatLagIsFoundByTheNextOwner(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		d := r.start("d1")
		time.Sleep(10 * time.Minute)
		first := r.run(time.Now().Add(-2*time.Minute), 0)
		second := r.run(time.Now().Add(-time.Minute), 0)
		r.fail("Attempts", true)
		time.Sleep(30 * time.Minute)
		d.stop()
		r.fail("Attempts", false)
		at := time.Now()
		r.start("d1")
		time.Sleep(10 * time.Minute)
		h.wantOnce(first.ID, at, 2*watchStep+time.Minute)
		h.wantOnce(second.ID, at, 2*watchStep+time.Minute)
		time.Sleep(20 * time.Minute)
		if lag := r.lag(0); lag > 2 {
			t.Errorf("settled lags by %d buckets, want 2: it waits for the rounds no longer", lag)
		}
	})
}

// TestATakeOverReadsAttemptsOnceABucket: what a take-over costs in the 3¼ h after it. Of each bucket
// that the owner before swept, the ids are read as in steady state, and beyond that the attempts. No
// row is read of what is done.
func TestATakeOverReadsAttemptsOnceABucket(t *testing.T) {
	const span = progress.HintAfter + 5*time.Minute
	const buckets = int(progress.HintAfter/time.Minute) + 10
	cost := func(restart bool) (ids, attempts, rows int) {
		inBubble(t, 1, func(t *testing.T, r *rig) {
			h := r.hand(nil)
			d := r.start("d1")
			for at := time.Now().Add(time.Minute); time.Until(at) < span; at = at.Add(6 * time.Second) {
				r.run(at, 0)
			}
			time.Sleep(span)
			r.counts.Reset()
			if restart {
				d.stop()
				d = r.start("d1")
			}
			time.Sleep(span)
			if seen, want := len(h.all()), int((span-time.Minute)/(6*time.Second)); seen != want {
				t.Errorf("published %d messages, want %d: each run once", seen, want)
			}
			if got := counted(t, d.metrics.late); got != 0 {
				t.Errorf("%v late rows were found, want none", got)
			}
			ids, attempts, rows = r.counts.Tally("EntryIDs").Calls, r.counts.Tally("Attempts").Calls, r.counts.Tally("EntriesByID").Calls
		})
		return ids, attempts, rows
	}
	ids, attempts, rows := cost(false)
	idsAfter, attemptsAfter, rowsAfter := cost(true)
	t.Logf("in %v: %d reads of ids, %d of attempts, %d of rows; after a take-over %d, %d, %d", span, ids, attempts, rows, idsAfter, attemptsAfter, rowsAfter)
	if more := idsAfter - ids; more > 30 {
		t.Errorf("ids were read %d times more than without a take-over, want few", more)
	}
	if more := attemptsAfter - attempts; more > buckets {
		t.Errorf("attempts were read %d times more than without a take-over, want at most once a bucket, %d times", more, buckets)
	}
	if more := rowsAfter - rows; more > 10 {
		t.Errorf("rows were read %d times more than without a take-over, want few", more)
	}
}

// TestLateReadsOfManyShardsAreBounded: after an outage of hours all shards have hours to read again.
// They share what the dispatcher may read in a second, and scans do not wait for it.
func TestLateReadsOfManyShardsAreBounded(t *testing.T) {
	const shards, most = 100, 50 // steps a second: each shard takes one at least
	inBubble(t, shards, func(t *testing.T, r *rig) {
		away := schema.BucketOf(time.Now().Add(-3 * time.Hour))
		for shard := range schema.Shard(shards) {
			c := r.cursor(shard)
			if err := r.inner.AdvanceCursor(t.Context(), schema.Cursor{Shard: shard, Epoch: c.Epoch + 1, Dispatched: away, Settled: away}); err != nil {
				t.Fatal(err)
			}
		}
		d := r.start("d1")
		d.lateRate.SetLimit(most)
		time.Sleep(30 * time.Second) // everything is swept
		r.counts.Reset()
		const span = 30 * time.Second
		time.Sleep(span)
		sweeps := shards * int(span/sliceSpan)
		if got, want := r.counts.Tally("EntryIDs").Calls-sweeps, most*int(span/time.Second); got < want*9/10 || got > want*11/10 {
			t.Errorf("late reads took %d steps in %v, want about %d", got, span, want)
		}
		if got, want := r.counts.Tally("Entries").Calls, shards*int(span/progress.ScanEvery); got < want*9/10 {
			t.Errorf("%d scans in %v, want %d", got, span, want)
		}
		d.lateRate.SetLimit(lateSteps)
		time.Sleep(8 * time.Minute)
		for shard := range schema.Shard(shards) {
			if lag := r.lag(shard); lag > 2 {
				t.Fatalf("settled of shard %d lags by %d buckets, want 2", shard, lag)
			}
		}
	})
}
