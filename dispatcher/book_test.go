package dispatcher

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// modelled is what the naive model of a book remembers of an open entry.
type modelled struct {
	o          *opened
	phase      phase
	redispatch bool
	notBefore  time.Time
	queued     int // in order of queueing, while it waits behind its time
}

// model says what a book must answer, by looking through everything.
type model struct {
	known map[schema.EntryID]bool
	open  map[schema.EntryID]*modelled
	queue int
}

func (m *model) due(now time.Time) *opened {
	var held, behind *modelled
	for _, e := range m.open {
		switch {
		case e.phase != waiting:
		case e.redispatch && (behind == nil || e.queued < behind.queued):
			behind = e
		case !e.redispatch && (held == nil || cmp.Or(m.at(e).Compare(m.at(held)), e.o.id.Compare(held.o.id)) < 0):
			held = e
		}
	}
	switch {
	case held != nil && !m.at(held).After(now):
		return held.o
	case behind != nil && !behind.notBefore.After(now):
		return behind.o
	}
	return nil
}

func (m *model) at(e *modelled) time.Time {
	if at := e.o.id.Time().Add(-Lead); at.After(e.notBefore) {
		return at
	}
	return e.notBefore
}

func (m *model) first(phases ...phase) schema.Bucket {
	first := schema.BucketOf(origin.Add(time.Hour))
	for id, e := range m.open {
		if len(phases) == 0 || slices.Contains(phases, e.phase) {
			first = min(first, id.Bucket())
		}
	}
	return first
}

var atLead = [4]time.Duration{Lead, Lead, Lead, Lead}

var origin = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// TestBookIsItsModel: whatever the order of what happens to entries, a book publishes those on time in the order of their due
// times and then the others in the order in which they came, holds the cursors back for what is open, and remembers nothing in the end.
func TestBookIsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBook()
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
			e.phase, e.redispatch, e.queued = waiting, env.Redispatch, m.queue
		}
		t.Repeat(map[string]func(*rapid.T){
			"meet": func(t *rapid.T) {
				id := anID.Draw(t, "id")
				_, isOpen := m.open[id]
				if got, want := b.meet(id), !m.known[id] && !isOpen; got != want {
					t.Fatalf("meet(%v) = %v, want %v", id.Time(), got, want)
				} else if !want {
					return
				}
				m.known[id] = true
				e := schema.Entry{ID: id}
				switch rapid.IntRange(0, 2).Draw(t, "how") {
				case 0: // cancelled before it was met
				case 1:
					b.watch(&e, now)
					m.open[id] = &modelled{o: b.open[id], phase: watching}
				case 2:
					env := &queue.Envelope{Entry: e, Redispatch: rapid.Bool().Draw(t, "redispatch")}
					x := &modelled{o: b.add(env)}
					m.open[id] = x
					queued(x, env)
				}
			},
			"take": func(t *rapid.T) {
				o := b.due(now, &atLead)
				if o == nil {
					t.Skip("nothing is due")
				}
				b.take(o)
				m.open[o.id].phase = publishing
			},
			"receipt": func(t *rapid.T) {
				e := open(t)
				if e.phase != publishing {
					t.Skip("not under way")
				}
				if rapid.Bool().Draw(t, "stored") {
					e.o.phase, e.o.env = published, nil
					e.phase = published
					return
				}
				e.o.notBefore, e.notBefore = now.Add(retryPublish), now.Add(retryPublish)
				b.queue(e.o)
				queued(e, e.o.env)
			},
			"again": func(t *rapid.T) {
				e := open(t)
				if e.phase != published && e.phase != watching {
					t.Skip("on its way")
				}
				e.o.env = &queue.Envelope{Entry: schema.Entry{ID: e.o.id}, Redispatch: true}
				b.queue(e.o)
				queued(e, e.o.env)
			},
			"done": func(t *rapid.T) {
				id := anID.Draw(t, "id")
				if len(m.open) > 0 && rapid.Bool().Draw(t, "known") {
					id = open(t).o.id
				}
				_, want := m.open[id]
				if got := b.done(id); got != want {
					t.Fatalf("done(%v) = %v, want %v", id.Time(), got, want)
				}
				delete(m.open, id)
			},
			"swept": func(t *rapid.T) {
				to := origin.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "to")) * time.Second)
				b.swept(to)
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
				got, want := b.due(now, &atLead), m.due(now)
				if got != want {
					t.Fatalf("due = %+v, want %+v", got, want)
				}
				if at, ok := b.next(&atLead); got == nil && ok && !at.After(now) {
					t.Fatalf("next = %v, not after now %v, and nothing is due", at, now)
				}
				last := schema.BucketOf(origin.Add(2 * time.Minute))
				if got, want := b.settled(last), min(last, m.first()-1); got != want {
					t.Fatalf("settled = %d, want %d", got, want)
				}
				if got, want := b.dispatched(last), min(last, m.first(waiting, publishing)-1); got != want {
					t.Fatalf("dispatched = %d, want %d", got, want)
				}
				for range 3 {
					id := anID.Draw(t, "asked")
					_, isOpen := m.open[id]
					if got, want := b.has(id), isOpen || m.known[id]; got != want {
						t.Fatalf("has(%v) = %v, want %v", id.Time(), got, want)
					}
				}
			},
		})
		for id := range m.open {
			b.done(id)
		}
		b.swept(origin.Add(time.Hour))
		if o := b.due(origin.Add(time.Hour), &atLead); o != nil {
			t.Fatalf("due = %v after everything was done", o.id)
		}
		if len(b.known)+len(b.open)+len(b.openIn)+len(b.held[2])+len(b.behind)+len(b.flows)+b.waiting[0]+b.waiting[1] != 0 {
			t.Fatalf("an idle book remembers %d known, %d open in %d buckets, %d held, %d behind, want nothing",
				len(b.known), len(b.open), len(b.openIn), len(b.held[2]), len(b.behind))
		}
	})
}
