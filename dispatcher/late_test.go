package dispatcher

import (
	"testing"
	"time"

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

// TestARowBehindTheSweepIsFound: a row that comes to lie where the sweep has been is started all the same: minutes
// late by the first read, and after Cassandra's hints are over by the second. What is done is not read again.
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
		h.wantOnce(late.ID, at, lateAfter+2*watchStep)
		hinted := r.run(at.Add(-30*time.Second), 0)
		time.Sleep(hintAfter + 10*time.Minute)
		h.wantOnce(hinted.ID, at, hintAfter+2*watchStep)
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

// TestARowBehindAnotherOwnersSweepIsFound: what a dead owner, or a client, had on its way when it died is found by the next owner.
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
		time.Sleep(lateAfter + 5*time.Minute)
		h.wantOnce(late.ID, at, lateAfter+2*watchStep)
		if got := counted(t, second.metrics.late); got != 1 {
			t.Errorf("%v late rows were found, want 1", got)
		}
	})
}

// TestALateRowIsFoundOverATakeOver: its finder dies before it has handed the row on, and the next owner finds it again.
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
