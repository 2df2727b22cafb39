package dispatcher

import (
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/progress"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

func TestHints(t *testing.T) {
	accepted := func(e *schema.Entry) time.Time { return time.UnixMicro(e.Spec.Accepted).UTC() }
	t.Run("behind the scan is published at once", func(t *testing.T) {
		inBubble(t, 1, func(t *testing.T, r *rig) {
			h := r.hand(nil)
			r.start("d1")
			time.Sleep(10100 * time.Millisecond)
			r.fail("Entries", true) // the scan would find it as well
			e := r.run(time.Now(), 0)
			r.conn.Near(0, []schema.Entry{e})
			synctest.Wait()
			seen := h.sights(e.ID)
			if len(seen) != 1 || seen[0].env.Redispatch || !seen[0].env.CheckedAt.Equal(accepted(&e)) {
				t.Errorf("published %s, want once, as fresh as its acceptance", describe(seen))
			}
			r.conn.Near(0, []schema.Entry{e}) // heard twice
			r.fail("Entries", false)
			time.Sleep(time.Minute)
			if got := len(h.sights(e.ID)); got != 1 {
				t.Errorf("published %d times, want once", got)
			}
		})
	})
	t.Run("ahead of the scan is left to it", func(t *testing.T) {
		inBubble(t, 1, func(t *testing.T, r *rig) {
			h := r.hand(nil)
			r.start("d1")
			time.Sleep(10100 * time.Millisecond)
			e := r.run(time.Now().Add(4*time.Second), 0)
			r.conn.Near(0, []schema.Entry{e})
			time.Sleep(10 * time.Second)
			h.only(&e)
			if got := h.sights(e.ID)[0].env.CheckedAt; !got.After(accepted(&e)) {
				t.Errorf("checked at %v, want the scan's time", got)
			}
		})
	})
	t.Run("of a row that a scan under way has missed is not left to its flow", func(t *testing.T) {
		inBubble(t, 1, func(t *testing.T, r *rig) {
			s := r.shardOf(r.idle(), 0)
			now := time.Now()
			s.scan.Start(now, 0)
			older := r.run(now.Add(-2*time.Second), 0)
			s.state.Flows.Spill(s.state.Flows.Of(&older, shardstate.OnTime), older.ID)
			s.scan.start(t.Context(), now)
			synctest.Wait() // it has read what is there by now, and is not through with it
			read, missed := r.run(now.Add(-time.Second), 0), r.run(now.Add(500*time.Millisecond), 0)
			s.scan.hinted(&read, now)
			s.scan.hinted(&missed, now)
			(<-s.posts)(now)
			if s.state.Has(read.ID) {
				t.Error("a row before the front was taken at once, want it read with those before it")
			}
			if !s.state.Has(missed.ID) {
				t.Error("the row is not known, and the flow's next page may end before it")
			}
			s.workers.Wait()
		})
	})
	t.Run("a lost one is found by the sweep", func(t *testing.T) {
		inBubble(t, 1, func(t *testing.T, r *rig) {
			h := r.hand(nil)
			r.start("d1")
			time.Sleep(11 * time.Second)
			// The scan has gone on to the next bucket: it cannot find what comes behind it in this
			// one.
			end := schema.BucketOf(time.Now()).End()
			time.Sleep(time.Until(end) - 100*time.Millisecond)
			e := r.run(time.Now(), 0)
			time.Sleep(sliceSpan + 10*time.Second + 2*progress.ScanEvery)
			if seen := h.sights(e.ID); len(seen) != 1 || !seen[0].env.Redispatch {
				t.Errorf("published %s, want once, by the sweep", describe(seen))
			}
		})
	})
	t.Run("of a reschedule that was left aside is published under its own id", func(t *testing.T) {
		inBubble(t, 1, func(t *testing.T, r *rig) {
			h := r.hand(always(lose)) // as an executor does that finds it unnamed
			r.start("d1")
			time.Sleep(10 * time.Second)
			run := r.run(time.Now().Add(time.Hour), 0)
			e := r.entry(time.Now().Add(3*time.Second), 0, schema.Spec{Kind: schema.KindReschedule, Of: run.ID})
			r.put(e)
			time.Sleep(4 * time.Second)
			h.change(nil)
			r.conn.Near(0, []schema.Entry{e})
			synctest.Wait()
			seen := h.sights(e.ID)
			if len(seen) != 2 || seen[0].env.Redispatch || !seen[1].env.Redispatch || seen[0].id == seen[1].id {
				t.Errorf("published %s, want again at once, as a redispatch under another id", describe(seen))
			}
		})
	})
	t.Run("of a reschedule has the same id for two owners, as while a shard is handed over", func(t *testing.T) {
		inBubble(t, 1, func(t *testing.T, r *rig) {
			now := time.Now()
			e := r.entry(now.Add(5*time.Second), 0, schema.Spec{Kind: schema.KindReschedule, Of: r.run(now.Add(time.Hour), 0).ID})
			var ids []string
			for range 2 {
				s := r.shardOf(r.idle(), 0)
				s.scan.Start(now, 0)
				s.scan.hinted(&e, now)
				p, ok := s.state.Pending(e.ID)
				if !ok || !p.Env.Redispatch {
					t.Fatal("the hint publishes nothing, want a redispatch")
				}
				ids = append(ids, p.Env.MessageID())
			}
			if first := (&queue.Envelope{Entry: e}).MessageID(); ids[0] != ids[1] || ids[0] == first {
				t.Errorf("the owners publish it as %q; the first publication is %q. Want one id, and another than that", ids, first)
			}
		})
	})
	t.Run("of another shard or unreadable is ignored", func(t *testing.T) {
		inBubble(t, 2, func(t *testing.T, r *rig) {
			s := r.shardOf(r.idle(), 0)
			now := time.Now()
			s.scan.Start(now, 0)
			other := r.entry(now.Add(-time.Second), 1, schema.Spec{})
			broken := schema.LoadEntry(schema.MakeEntryID(now.Add(-time.Second), 0, 1), []byte("?"), nil, schema.Marks{})
			s.scan.hinted(&other, now)
			s.scan.hinted(&broken, now)
			if s.state.Size().Open != 0 {
				t.Errorf("%d entries were taken from such hints, want none", s.state.Size().Open)
			}
		})
	})
	t.Run("beyond the bound is left to the sweep", func(t *testing.T) {
		inBubble(t, 1, func(t *testing.T, r *rig) {
			s := r.shardOf(r.idle(), 0)
			now := time.Now()
			s.scan.Start(now, 0)
			for i := range shardstate.MaxHeld + 10 {
				e := schema.Entry{ID: schema.MakeEntryID(now.Add(-time.Second), 0, uint64(i))}
				s.scan.hinted(&e, now)
			}
			if s.state.Size().Open != shardstate.MaxHeld || s.state.Size().Known != shardstate.MaxHeld {
				t.Errorf("%d open and %d known, want %d of each: the sweep must find the others", s.state.Size().Open, s.state.Size().Known, shardstate.MaxHeld)
			}
		})
	})
}

// TestMailboxIsBounded: advice beyond the bound is dropped, receipts never are.
func TestMailboxIsBounded(t *testing.T) {
	m := mailbox{wakeUp: make(chan struct{}, 1)}
	for range maxMail/1000 + 5 {
		m.addHints(make([]schema.Entry, 1000))
		m.addNotices(make([]schema.Notice, 1000))
	}
	for range maxMail + 5 {
		m.addReceipt(receipt{})
	}
	all := m.take()
	near, notices, receipts := all.hints, all.notices, all.receipts
	if len(near) != maxMail || len(notices) != maxMail || len(receipts) != maxMail+5 {
		t.Errorf("take = %d hints, %d notices, %d receipts, want %d, %d, %d", len(near), len(notices), len(receipts), maxMail, maxMail, maxMail+5)
	}
}

// TestHintsOfJobs: a run of a job that is hinted starts if the job's row lets it. The run is not read.
func TestHintsOfJobs(t *testing.T) {
	each := func(t *testing.T, spoil func(r *rig, job *schema.Job), check func(r *rig, h *hand, e *schema.Entry)) {
		inBubble(t, 1, func(t *testing.T, r *rig) {
			h := r.hand(nil)
			n := r.start("d1")
			time.Sleep(10100 * time.Millisecond)
			b := r.writer(n.conn)
			job := r.job(b, spec(time.Hour, nil))
			time.Sleep(10 * time.Second)
			e, err := b.RunOf(&job, schema.TriggerManual, bucketer.CeilMilli(time.Now()), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			r.put(e)
			spoil(r, &job)
			r.conn.Near(0, []schema.Entry{e})
			synctest.Wait()
			check(r, h, &e)
		})
	}
	t.Run("one that it lets start", func(t *testing.T) {
		each(t, func(r *rig, _ *schema.Job) {
			r.fail("EntriesByID", true)
			r.fail("Attempts", true)
		}, func(_ *rig, h *hand, e *schema.Entry) {
			seen := h.sights(e.ID)
			if len(seen) != 1 || seen[0].env.Redispatch || !seen[0].env.CheckedAt.Equal(time.UnixMicro(e.Spec.Accepted)) {
				t.Errorf("published %s, want once, as fresh as its acceptance", describe(seen))
			}
		})
	})
	t.Run("one whose job was cancelled", func(t *testing.T) {
		each(t, func(r *rig, job *schema.Job) {
			if _, err := r.writer(r.conn).CancelJob(r.t.Context(), "t", job.ID, 0); err != nil {
				t.Fatal(err)
			}
		}, func(r *rig, h *hand, e *schema.Entry) {
			if got := len(h.sights(e.ID)); got != 0 {
				t.Errorf("published %d times, want never", got)
			}
			if rec := r.outcome(e); rec == nil || rec.Outcome != schema.Cancelled {
				t.Errorf("its record is %+v, want that it was cancelled", rec)
			}
		})
	})
	t.Run("one whose job cannot be read at first", func(t *testing.T) {
		each(t, func(r *rig, _ *schema.Job) { r.fail("Jobs", true) }, func(r *rig, h *hand, e *schema.Entry) {
			if got := len(h.sights(e.ID)); got != 0 {
				t.Errorf("published %d times, want not yet", got)
			}
			r.fail("Jobs", false)
			time.Sleep(2 * decideEvery)
			if got := len(h.sights(e.ID)); got != 1 {
				t.Errorf("published %d times, want once", got)
			}
		})
	})
}
