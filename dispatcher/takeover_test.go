package dispatcher

import (
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/progress"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// TestATakeOverAddsNothingToWhatWasPublished: everything of the last 20 s that had no outcome was
// published again, under ids of its own. What the owner before had published lay in the stream, or
// ran without a trace, and was started twice. Then all of it waited until the stream had let go,
// also what nobody had published.
func TestATakeOverAddsNothingToWhatWasPublished(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(always(keep))
		n := r.start("d1")
		due := time.Now().Add(10 * time.Second).Truncate(time.Millisecond)
		ends, stays := r.run(due, 0), r.run(due, 0)
		time.Sleep(time.Until(due.Add(100 * time.Millisecond)))
		n.stop()
		missed := r.run(time.Now().Add(-time.Second), 0) // nobody has published it
		dead := r.run(time.Now().Add(-time.Second), 0)   // whoever ran it died
		r.attempt(schema.Attempt{Run: dead.ID, Number: 1, Fence: 1, Session: &schema.SessionRef{Executor: "x", ID: "over", Started: time.Now(), Entry: dead.ID}})
		h.change(func(env *queue.Envelope) fate {
			if env.Entry.ID == stays.ID {
				return keep
			}
			return finish
		})
		r.start("d1")
		time.Sleep(2 * progress.ScanEvery)
		for _, row := range []struct {
			name string
			id   schema.EntryID
			own  bool
		}{{"nobody has published", missed.ID, false}, {"whoever ran it died", dead.ID, true}} {
			seen := h.sights(row.id)
			if len(seen) != 1 || !seen[0].env.Redispatch || (seen[0].env.Dispatch != "") != row.own {
				t.Errorf("%s: published %s, want a redispatch at once, under an id of its own: %t", row.name, describe(seen), row.own)
			}
		}
		time.Sleep(30 * time.Second)
		for _, id := range []schema.EntryID{ends.ID, stays.ID} {
			if seen := h.sights(id); len(seen) != 1 {
				t.Errorf("what had been published was published %s, want once", describe(seen))
			}
		}
	})
}

// TestATakeOverPublishesWhatWasNamedSince: the owner before published an entry that starts its run
// only while moved_to names it, before it was named, and an executor passed it over. The next owner
// published it under the same id, and the stream, which keeps one of the two, swallowed it: the run
// came 15 s late and more.
func TestATakeOverPublishesWhatWasNamedSince(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(always(lose)) // as an executor does that finds an entry unnamed
		n := r.start("d1")
		time.Sleep(10 * time.Second)
		run := r.run(time.Now().Add(time.Hour), 0)
		moved := r.entry(time.Now().Add(3*time.Second), 0, schema.Spec{Kind: schema.KindReschedule, Of: run.ID})
		r.put(moved)
		time.Sleep(4 * time.Second)
		n.stop()
		if seen := h.sights(moved.ID); len(seen) != 1 {
			t.Fatalf("published %s, want once so far", describe(seen))
		}
		if _, err := r.inner.MoveRun(t.Context(), run.ID, schema.EntryID{}, moved.ID, run.Expires); err != nil {
			t.Fatal(err)
		}
		h.change(nil)
		r.start("d1")
		time.Sleep(2 * progress.ScanEvery)
		if seen := h.sights(moved.ID); len(seen) != 2 || !seen[1].env.Redispatch {
			t.Errorf("published %s, want again at once after the take-over", describe(seen))
		}
	})
}
