package dispatcher

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/progress"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// TestALargeBacklogIsLeftOut: a backlog larger than what can be spilled in a few seconds delays no
// run that is due after it. Runs that are due with it wait for as long as it takes to read it once.
// Nothing of what the scan left out is lost, and nothing is published twice.
func TestALargeBacklogIsLeftOut(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: make test-all runs it")
	}
	for _, c := range []struct {
		name string
		span time.Duration // over which the backlog is due
	}{{"at one instant", 0}, {"over some seconds", 4 * time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 2, func(t *testing.T, r *rig) {
				const n = 3 * spillRows
				h := r.slowHand(nil, 1000, 50*time.Millisecond) // 20,000 a second
				r.start("d1")
				time.Sleep(5 * time.Second)
				at := time.Now().Add(10 * time.Second).Truncate(time.Minute).Add(time.Minute - c.span/2) // over the end of a bucket
				rng := rand.New(rand.NewPCG(1, 1))
				var much []schema.Entry
				if c.span == 0 {
					much = r.of("much", schema.Normal, n, at, 0)
				} else {
					much = r.scattered("much", n, at, c.span, rng)
				}
				with := r.scattered("little", 50, at, c.span+time.Millisecond, rng)
				after := r.scattered("little", 300, at.Add(c.span+time.Second), 10*time.Second, rng)
				time.Sleep(time.Until(at.Add(time.Minute)))
				h.once(t, "much", much)
				once := n * time.Second / spillRows
				if most := slices.Max(h.once(t, "little, due with it", with)); most > c.span+2*once {
					t.Errorf("one that was due with the backlog was %v late, want at most %v", most, c.span+2*once)
				}
				if most := slices.Max(h.once(t, "little, due after it", after)); most > 100*time.Millisecond {
					t.Errorf("one that was due after the backlog was %v late, want at most 100ms", most)
				}
				time.Sleep(3 * time.Minute)
				for shard := range r.shards {
					if lag := r.lag(schema.Shard(shard)); lag > 3 {
						t.Errorf("settled of shard %d lags by %d buckets in the end, want 3", shard, lag)
					}
				}
			})
		})
	}
}

// TestAnUnreadRangeOutlivesFaults: whatever happens while an unread range is read, what is in it is
// published. If the store fails the same page is read again. The next owner finds it as it finds
// all that was left behind.
func TestAnUnreadRangeOutlivesFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		same  bool // the one who left it out reads it
		fault func(t *testing.T, r *rig, n *node)
	}{
		{"the store fails", true, func(t *testing.T, r *rig, n *node) {
			for _, op := range []string{"Entries", "Attempts", "Entries"} {
				r.fail(op, true)
				time.Sleep(700 * time.Millisecond)
				r.fail(op, false)
				time.Sleep(100 * time.Millisecond)
			}
			if counted(t, n.metrics.failures.WithLabelValues("resume")) == 0 {
				t.Error("no page of what was left out failed; want some")
			}
		}},
		{"its owner dies", false, func(_ *testing.T, r *rig, n *node) {
			n.stop()
			time.Sleep(3 * time.Second)
			r.own("d2")
			r.start("d2")
		}},
		{"its owner was stopped for a while", false, func(_ *testing.T, _ *rig, n *node) { n.jump(3 * time.Second) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, r *rig) {
				const n = 3 * spillRows / 2
				h := r.slowHand(nil, 1000, 50*time.Millisecond) // 20,000 a second
				d := r.start("d1")
				time.Sleep(5 * time.Second)
				at := time.Now().Add(10 * time.Second).Truncate(time.Minute).Add(time.Minute)
				entries := r.of("much", schema.Normal, n, at, 0)
				entries = append(entries, r.scattered("little", 50, at, time.Millisecond, rand.New(rand.NewPCG(1, 1)))...)
				time.Sleep(time.Until(at.Add(500 * time.Millisecond)))
				if counted(t, d.metrics.unreadRanges) == 0 {
					t.Fatal("nothing was left out by the time of the fault")
				}
				c.fault(t, r, d)
				time.Sleep(time.Until(at.Add(3 * time.Minute)))
				if c.same {
					h.once(t, "runs", entries)
				}
				h.least(t, entries)
				time.Sleep(3 * time.Minute)
				if lag := r.lag(0); lag > 3 {
					t.Errorf("settled lags by %d buckets in the end, want 3", lag)
				}
			})
		})
	}
}

// least fails the test unless each entry was published.
func (h *hand) least(t *testing.T, entries []schema.Entry) {
	t.Helper()
	seen := make(map[schema.EntryID]bool)
	for _, s := range h.all() {
		seen[s.env.Entry.ID] = true
	}
	missed := 0
	for i := range entries {
		if !seen[entries[i].ID] {
			missed++
		}
	}
	if missed > 0 {
		t.Errorf("of %d runs %d were not published, want all", len(entries), missed)
	}
}

// TestWhatWasFoundIsNotPlannedOnAgain: where rows are read again, nothing is decided about the jobs
// of known ones: they may have run by now.
func TestWhatWasFoundIsNotPlannedOnAgain(t *testing.T) {
	for _, way := range []string{"unread range", "spilled rows"} {
		t.Run(way, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, r *rig) {
				s := r.shardOf(r.idle(), 0)
				now := time.Now()
				due := now.Add(-5 * time.Minute).Truncate(time.Millisecond)
				ofNoJob := func(n uint64) schema.Entry {
					return r.entry(due, 0, schema.Spec{Job: schema.MakeJobID(due, 0, n), Generation: due.UnixMicro(), Nominal: due})
				}
				met, unmet := ofNoJob(1), ofNoJob(2)
				r.put(met, unmet)
				s.scan.Start(now, 0)
				s.state.Find(met.ID)
				if way == "unread range" {
					s.scan.Unread = progress.Unread{After: progress.Below(schema.FirstID(due, 0)), To: due.Add(time.Second)}
					s.resume.readUnread(t.Context(), now)
				} else {
					f := s.state.Flows.Of(&met, shardstate.OnTime)
					s.state.Flows.Spill(f, schema.FirstID(due, 0))
					s.resume.readSpilled(t.Context(), f, now)
				}
				for s.resume.busy {
					(<-s.posts)(now)
				}
				s.workers.Wait()
				for _, e := range []*schema.Entry{&met, &unmet} {
					rows, err := r.inner.Attempts(t.Context(), e.ID.Partition(), []schema.RunID{e.ID})
					if err != nil {
						t.Fatal(err)
					}
					if want := e == &unmet; (len(rows) == 1) != want {
						t.Errorf("%d records of a run that was found: %t; want one only of the other", len(rows), !want)
					}
				}
			})
		})
	}
}

// TestAnUnreadRangeIsReported: the metric says since when the oldest rows that were left out have
// been due, over all shards.
func TestAnUnreadRangeIsReported(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, r *rig) {
		d := r.idle()
		now := time.Now()
		told := func() float64 {
			d.reportBacklog(now)
			return gauged(t, d.metrics.backlog.unread)
		}
		if got := told(); got != 0 {
			t.Errorf("unread_seconds = %g, want 0 while nothing was left out", got)
		}
		shards := []*shard{r.shardOf(d, 0), r.shardOf(d, 1)}
		for i, s := range shards {
			s.scan.Unread = progress.Unread{After: schema.FirstID(now.Add(-time.Duration(i+1)*time.Minute), s.id), To: now}
			s.reportUnread()
		}
		if got := told(); got != 120 {
			t.Errorf("unread_seconds = %g, want 120, as of the second shard", got)
		}
		shards[1].relinquish()
		if got := told(); got != 60 {
			t.Errorf("unread_seconds = %g, want 60 once the second shard is another's", got)
		}
	})
}
