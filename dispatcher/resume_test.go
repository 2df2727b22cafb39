package dispatcher

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// TestNoRowIsLostBetweenAPageAndTheSweep: a page of a flow's rows is being read again, and its end
// may be where the flow has caught up. A row of the flow that comes after the page was read, or is
// given up after it was sorted, was left to the flow by the sweep, and by the flow to the sweep: it
// was never started.
func TestNoRowIsLostBetweenAPageAndTheSweep(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  func(s *shard, other *schema.Entry)                              // before the page is read
		between func(ctx context.Context, s *shard, r *rig, other *schema.Entry) // after it was sorted
	}{
		{"a row that is held late", func(*shard, *schema.Entry) {}, func(_ context.Context, _ *shard, r *rig, other *schema.Entry) { r.put(*other) }},
		{"a row that was undecided, and is too old when it is decided", func(s *shard, other *schema.Entry) {
			s.state.Find(other.ID)
			s.recurring.undecided(other, true, time.Now())
		}, func(ctx context.Context, s *shard, r *rig, other *schema.Entry) {
			r.put(*other)
			s.recurring.publishFirst(pending(s, other.ID), &inspected{entry: *other, checked: time.Now().Add(-2 * time.Second)})
			s.publish.flush(ctx, time.Now())
		}},
	} {
		for _, ends := range []string{"before", "during", "after"} {
			t.Run(fmt.Sprintf("%s, and the page ends %s the sweep", c.name, ends), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, r, due, stop := resuming(t)
					defer stop()
					other := r.entry(due.Add(2*time.Second), 0, schema.Spec{})
					c.before(s, &other)
					page := s.pageUnderWay(t, r, due)
					c.between(t.Context(), s, r, &other)
					if s.state.Has(other.ID) {
						t.Fatal("the row is known: this is to be about one that is not")
					}
					time.Sleep(time.Until(s.sweep.to.Add(sliceSpan + bucketer.Grace + time.Second)))
					if ends == "before" {
						page(time.Now())
					}
					s.sweep.start(t.Context(), time.Now())
					for n := 0; s.sweep.busy; n++ {
						(<-s.posts)(time.Now())
						if n == 0 && ends == "during" {
							page(time.Now())
						}
					}
					if ends == "after" {
						page(time.Now())
					}
					if !s.sweep.to.After(other.Due()) {
						t.Fatalf("swept to %v, want past the row, due at %v", s.sweep.to, other.Due())
					}
					if !s.state.Has(other.ID) && !s.state.Flows.Of(&other, shardstate.OnTime).Spilled(other.ID) {
						t.Error("the row is behind the sweep, neither known nor to be read again: it is lost")
					}
				})
			})
		}
	}
}

// resuming makes a shard whose sweep is about to come to a slice, in which due lies, and whose scan
// has come further.
func resuming(t *testing.T) (s *shard, r *rig, due time.Time, stop func()) {
	r = newRig(t, 1)
	s = r.shardOf(r.idle(), 0)
	due = time.Now().Truncate(time.Minute).Add(time.Minute + sliceSpan/2)
	time.Sleep(time.Until(due.Add(-time.Second)))
	s.sweep.to = due.Truncate(sliceSpan)
	s.sweep.recentDone, s.cursor.known = true, true
	s.scan.Start(due.Add(30*time.Second), 0)
	return s, r, due, func() {
		s.workers.Wait()
		r.close()
	}
}

// pageUnderWay has a row that is due at due become too old before it is published, so that a page
// from it on is read. It returns the last step of the page, after it was read and sorted.
func (s *shard) pageUnderWay(t *testing.T, r *rig, due time.Time) (last func(now time.Time)) {
	t.Helper()
	e := r.run(due, 0)
	s.state.Find(e.ID)
	s.state.Add(&queue.Envelope{Entry: e, CheckedAt: time.Now()})
	time.Sleep(time.Until(due.Add(7 * time.Second)))
	s.publish.flush(t.Context(), time.Now())
	if s.state.Has(e.ID) {
		t.Fatal("the row is not given up: this is to be about one that is read again")
	}
	s.resume.readOn(t.Context(), time.Now())
	(<-s.posts)(time.Now())
	return <-s.posts
}

// TestARowAndItsLateEntryAreNotBothNew: a row was held so late that its writer wrote a late entry
// of it. The row was found by a page of spilled rows and went out as new, so its executor did not
// look; the late entry went out beside it, and its executor looked before there was anything to
// see. A short run was called twice.
func TestARowAndItsLateEntryAreNotBothNew(t *testing.T) {
	for _, c := range []struct {
		name string
		meet func(t *testing.T, s *shard, row, late *schema.Entry)
		want string // of the row, and of its late entry
	}{
		{"the late entry comes before the row is taken", func(t *testing.T, s *shard, row, late *schema.Entry) {
			s.scan.hinted(late, time.Now())
			s.scan.found(t.Context(), []schema.Entry{*row}, nil, time.Time{}, time.Now(), time.Now())
		}, "left, new"},
		{"while the row waits", func(t *testing.T, s *shard, row, late *schema.Entry) {
			s.scan.found(t.Context(), []schema.Entry{*row}, nil, time.Time{}, time.Now(), time.Now())
			s.scan.hinted(late, time.Now())
		}, "inspected, new"},
		{"with the row", func(t *testing.T, s *shard, row, late *schema.Entry) {
			s.scan.found(t.Context(), []schema.Entry{*row, *late}, nil, time.Time{}, time.Now(), time.Now())
		}, "inspected, new"},
		{"when the row is published", func(t *testing.T, s *shard, row, late *schema.Entry) {
			s.scan.found(t.Context(), []schema.Entry{*row}, nil, time.Time{}, time.Now(), time.Now())
			s.publish.flush(t.Context(), time.Now())
			synctest.Wait()
			s.readMail(t.Context(), time.Now())
			s.scan.hinted(late, time.Now())
		}, "published, watched"},
		{"when the row is done", func(t *testing.T, s *shard, row, late *schema.Entry) {
			s.scan.found(t.Context(), []schema.Entry{*row}, nil, time.Time{}, time.Now(), time.Now())
			s.publish.done(row.ID)
			s.scan.hinted(late, time.Now())
		}, "left, new"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, r *rig) {
				s := r.shardOf(r.idle(), 0)
				row := r.run(time.Now().Add(-7*time.Second), 0)
				late := r.entry(time.Now(), 0, schema.Spec{Kind: schema.KindLate, Of: row.ID, For: row.ID})
				s.scan.Start(time.Now().Add(time.Second), 0)
				refilled(s.d)
				c.meet(t, s, &row, &late)
				of := func(id schema.EntryID) string {
					switch o := pending(s, id); {
					case o == nil:
						return "left"
					case o.Phase == shardstate.Watching:
						return "watched"
					case o.Phase == shardstate.Published:
						return "published"
					case o.Env.Redispatch:
						return "inspected"
					}
					return "new"
				}
				if got := of(row.ID) + ", " + of(late.ID); got != c.want {
					t.Errorf("the row and its late entry: %s, want %s", got, c.want)
				}
			})
		})
	}
}

// TestWhatIsDoneIsNotTakenForNew: the rows of a flow are read again from before one that is done.
// The sweep had forgotten it if it had been undecided first, or published as one to be inspected:
// the page published it as new.
func TestWhatIsDoneIsNotTakenForNew(t *testing.T) {
	for _, c := range []struct {
		name string
		meet func(s *shard, e *schema.Entry)
	}{
		{"found on time", func(s *shard, e *schema.Entry) { s.state.Add(&queue.Envelope{Entry: *e, CheckedAt: time.Now()}) }},
		{"undecided first", func(s *shard, e *schema.Entry) {
			s.recurring.undecided(e, true, time.Now())
			s.recurring.publishFirst(pending(s, e.ID), &inspected{entry: *e, checked: time.Now()})
		}},
		{"to be inspected", func(s *shard, e *schema.Entry) { s.publish.redispatch(*e, time.Now(), time.Now()) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, r, due, stop := resuming(t)
				defer stop()
				done := r.run(due.Add(time.Second), 0)
				s.state.Find(done.ID)
				c.meet(s, &done)
				s.publish.done(done.ID)
				e := r.run(due, 0)
				s.state.Flows.Spill(s.state.Flows.Of(&e, shardstate.OnTime), e.ID)
				s.sweep.to = s.sweep.to.Add(sliceSpan)
				s.state.Swept(s.sweep.to)
				s.resume.readOn(t.Context(), time.Now())
				for s.resume.busy {
					(<-s.posts)(time.Now())
				}
				if pending(s, e.ID) == nil {
					t.Error("the row that was spilled is not known, want it read again")
				}
				if pending(s, done.ID) != nil {
					t.Error("what is done was taken for new")
				}
			})
		})
	}
}
