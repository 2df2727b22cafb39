package shardstate

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// modelled is what the naive model of a State remembers of a pending entry.
type modelled struct {
	o          *Pending
	phase      Phase
	redispatch bool
	notBefore  time.Time
	queued     int // in order of queueing, while it is overdue
}

// model says what a State must answer, by looking through everything.
type model struct {
	known map[schema.EntryID]bool
	open  map[schema.EntryID]*modelled
	queue int
}

func (m *model) due(now time.Time) *Pending {
	var held, overdue *modelled
	for _, e := range m.open {
		switch {
		case e.phase != Waiting:
		case e.redispatch && (overdue == nil || e.queued < overdue.queued):
			overdue = e
		case !e.redispatch && (held == nil || cmp.Or(m.at(e).Compare(m.at(held)), e.o.ID.Compare(held.o.ID)) < 0):
			held = e
		}
	}
	switch {
	case held != nil && !m.at(held).After(now):
		return held.o
	case overdue != nil && !overdue.notBefore.After(now):
		return overdue.o
	}
	return nil
}

func (m *model) at(e *modelled) time.Time {
	if at := e.o.ID.Time().Add(-depth.Lead); at.After(e.notBefore) {
		return at
	}
	return e.notBefore
}

func (m *model) first(phases ...Phase) schema.Bucket {
	first := schema.BucketOf(origin.Add(time.Hour))
	for id, e := range m.open {
		if len(phases) == 0 || slices.Contains(phases, e.phase) {
			first = min(first, id.Bucket())
		}
	}
	return first
}

var atLead = depth.Leads{depth.Lead, depth.Lead, depth.Lead, depth.Lead}

const retry = 250 * time.Millisecond

var origin = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// TestStateIsItsModel: whatever the order of what happens to entries, a State returns those on time
// in the order of their due times and then the others in the order in which they came, holds the
// cursors back for what is pending, and remembers nothing in the end.
func TestStateIsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := New()
		m := &model{known: make(map[schema.EntryID]bool), open: make(map[schema.EntryID]*modelled)}
		now := origin
		anID := rapid.Custom(func(t *rapid.T) schema.EntryID {
			return schema.MakeEntryID(origin.Add(time.Duration(rapid.IntRange(0, 3*60).Draw(t, "s"))*time.Second), 1, uint64(rapid.IntRange(0, 2).Draw(t, "hash")))
		})
		open := func(t *rapid.T) *modelled {
			if len(m.open) == 0 {
				t.Skip("nothing is open")
			}
			ids := make([]schema.EntryID, 0, len(m.open))
			for id := range m.open {
				ids = append(ids, id)
			}
			slices.SortFunc(ids, schema.EntryID.Compare)
			return m.open[rapid.SampledFrom(ids).Draw(t, "open")]
		}
		queued := func(e *modelled, env *queue.Envelope) {
			m.queue++
			e.phase, e.redispatch, e.queued = Waiting, env.Redispatch, m.queue
		}
		t.Repeat(map[string]func(*rapid.T){
			"find": func(t *rapid.T) {
				id := anID.Draw(t, "id")
				_, isOpen := m.open[id]
				if got, want := b.Find(id), !m.known[id] && !isOpen; got != want {
					t.Fatalf("Find(%v) = %v, want %v", id.Time(), got, want)
				} else if !want {
					return
				}
				m.known[id] = true
				e := schema.Entry{ID: id}
				switch rapid.IntRange(0, 2).Draw(t, "how") {
				case 0: // cancelled before it was met
				case 1:
					b.Watch(&e, now)
					m.open[id] = &modelled{o: b.open[id], phase: Watching}
				case 2:
					env := &queue.Envelope{Entry: e, Redispatch: rapid.Bool().Draw(t, "redispatch")}
					x := &modelled{o: b.Add(env)}
					m.open[id] = x
					queued(x, env)
				}
			},
			"take": func(t *rapid.T) {
				o := b.Due(now, &atLead)
				if o == nil {
					t.Skip("nothing is due")
				}
				b.Take(o)
				m.open[o.ID].phase = Publishing
			},
			"receipt": func(t *rapid.T) {
				e := open(t)
				if e.phase != Publishing {
					t.Skip("not under way")
				}
				if rapid.Bool().Draw(t, "stored") {
					e.o.Phase, e.o.Env = Published, nil
					e.phase = Published
					return
				}
				e.o.NotBefore, e.notBefore = now.Add(retry), now.Add(retry)
				b.Hold(e.o)
				queued(e, e.o.Env)
			},
			"again": func(t *rapid.T) {
				e := open(t)
				if e.phase != Published && e.phase != Watching {
					t.Skip("on its way")
				}
				e.o.Env = &queue.Envelope{Entry: schema.Entry{ID: e.o.ID}, Redispatch: true}
				b.Hold(e.o)
				queued(e, e.o.Env)
			},
			"done": func(t *rapid.T) {
				id := anID.Draw(t, "id")
				if len(m.open) > 0 && rapid.Bool().Draw(t, "known") {
					id = open(t).o.ID
				}
				_, want := m.open[id]
				if got := b.Done(id); got != want {
					t.Fatalf("Done(%v) = %v, want %v", id.Time(), got, want)
				}
				delete(m.open, id)
			},
			"swept": func(t *rapid.T) {
				to := origin.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "to")) * time.Second)
				b.Swept(to)
				for id := range m.known {
					if id.Time().Before(to) {
						delete(m.known, id)
					}
				}
			},
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 20_000).Draw(t, "ms")) * time.Millisecond)
			},
			"": func(t *rapid.T) {
				got, want := b.Due(now, &atLead), m.due(now)
				if got != want {
					t.Fatalf("Due = %+v, want %+v", got, want)
				}
				if at, ok := b.NextDue(&atLead); got == nil && ok && !at.After(now) {
					t.Fatalf("NextDue = %v, not after now %v, and nothing is due", at, now)
				}
				last := schema.BucketOf(origin.Add(2 * time.Minute))
				if got, want := b.Settled(last), min(last, m.first()-1); got != want {
					t.Fatalf("Settled = %d, want %d", got, want)
				}
				if got, want := b.Dispatched(last), min(last, m.first(Waiting, Publishing)-1); got != want {
					t.Fatalf("Dispatched = %d, want %d", got, want)
				}
				for range 3 {
					id := anID.Draw(t, "asked")
					_, isOpen := m.open[id]
					if got, want := b.Has(id), isOpen || m.known[id]; got != want {
						t.Fatalf("Has(%v) = %v, want %v", id.Time(), got, want)
					}
				}
			},
		})
		for id := range m.open {
			b.Done(id)
		}
		b.Swept(origin.Add(time.Hour))
		if o := b.Due(origin.Add(time.Hour), &atLead); o != nil {
			t.Fatalf("Due = %v after everything was done", o.ID)
		}
		if size := b.Size(); size != (Size{}) || b.Flows.Waiting(OnTime)+b.Flows.Waiting(Overdue) != 0 {
			t.Fatalf("an idle state remembers %+v, want nothing", size)
		}
	})
}
