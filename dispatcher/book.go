package dispatcher

import (
	"container/heap"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// book is what a shard's owner remembers of the shard's entries: which it has met, which are open, which wait
// for publication. It does no I/O and reads no clock. Everything in it can be made anew from the rows.
type book struct {
	// known are the ids met that are not swept yet: a sweep looks only at others.
	known map[schema.EntryID]struct{}
	open  map[schema.EntryID]*opened
	// openIn counts the open entries by bucket: the first bucket with one holds settled back.
	openIn map[schema.Bucket]int

	held   heldHeap // published Lead before they are due
	behind []*opened
}

// phase is where an open entry stands with its dispatcher.
type phase uint8

const (
	waiting    phase = iota // held, or behind: not published
	publishing              // handed to the queue, no receipt yet
	published               // its stream held it
	watching                // not ours to publish: an attempt is under way, or it waits for its mark
)

// opened is an entry that is not done.
type opened struct {
	id       schema.EntryID
	run      schema.RunID
	kind     schema.Kind
	priority schema.Priority
	phase    phase

	// env is what is to be published; nil from the receipt on.
	env *queue.Envelope

	receipt   queue.Receipt
	published time.Time // when the receipt came; zero = never by us
	looked    time.Time // when its rows were last looked at
	notBefore time.Time // no publication before this

	session holder // whose fall ends the attempt under way; zero if none is known

	parked bool // it waits in a list of its own: toDecide or catchUps
	first  bool // it was met by the scan or its hint, and never published
}

// holder is a session by its executor and id.
type holder struct{ executor, id string }

// watched returns the entries watched because an attempt of theirs is under way, by its session.
func (b *book) watched() map[holder][]schema.EntryID {
	var of map[holder][]schema.EntryID
	for id, o := range b.open {
		if o.phase != watching || o.session == (holder{}) {
			continue
		}
		if of == nil {
			of = make(map[holder][]schema.EntryID)
		}
		of[o.session] = append(of[o.session], id)
	}
	return of
}

func newBook() *book {
	return &book{
		known:  make(map[schema.EntryID]struct{}),
		open:   make(map[schema.EntryID]*opened),
		openIn: make(map[schema.Bucket]int),
	}
}

// has reports whether an id was met: it is open, or is not swept yet.
func (b *book) has(id schema.EntryID) bool {
	if _, ok := b.known[id]; ok {
		return true
	}
	_, ok := b.open[id]
	return ok
}

// meet notes an id and reports whether it was unknown.
func (b *book) meet(id schema.EntryID) bool {
	if b.has(id) {
		return false
	}
	b.known[id] = struct{}{}
	return true
}

// add opens an entry, to be published at its time, or behind it if it is a redispatch.
func (b *book) add(env *queue.Envelope) *opened {
	e := &env.Entry
	o := &opened{id: e.ID, run: e.Run(), kind: e.Spec.Kind, priority: e.Spec.Priority.Or(), env: env}
	b.open[o.id] = o
	b.openIn[o.id.Bucket()]++
	b.queue(o)
	return o
}

// watch opens an entry that is not to be published, unless a later look says otherwise.
func (b *book) watch(e *schema.Entry, looked time.Time) {
	if _, ok := b.open[e.ID]; ok {
		return
	}
	b.open[e.ID] = &opened{id: e.ID, run: e.Run(), kind: e.Spec.Kind, priority: e.Spec.Priority.Or(), phase: watching, looked: looked}
	b.openIn[e.ID.Bucket()]++
}

// queue puts an entry that has an envelope among those that wait.
func (b *book) queue(o *opened) {
	o.phase = waiting
	if o.env.Redispatch {
		b.behind = append(b.behind, o)
		return
	}
	heap.Push(&b.held, o)
}

// done closes an entry.
func (b *book) done(id schema.EntryID) bool {
	o, ok := b.open[id]
	if !ok {
		return false
	}
	delete(b.open, id)
	bucket := id.Bucket()
	if b.openIn[bucket]--; b.openIn[bucket] == 0 {
		delete(b.openIn, bucket)
	}
	o.env = nil // whatever queue it waits in passes over it
	return true
}

// room returns how many more entries may be held for their time if limit may be.
func (b *book) room(limit int) int { return max(limit-len(b.held), 0) }

// forget gives up every entry that is held for its time, as if it had not been met, and returns the first of them: the zero id if there is none.
func (b *book) forget() (first schema.EntryID) {
	for _, o := range b.held {
		if o.env == nil {
			continue // done meanwhile
		}
		if first.IsZero() || o.id.Compare(first) < 0 {
			first = o.id
		}
		delete(b.known, o.id)
		b.done(o.id)
	}
	b.held = b.held[:0]
	return first
}

// behindRoom returns how many more redispatches may wait.
func (b *book) behindRoom() int { return max(maxHeld-len(b.behind), 0) }

// due returns the next entry to be published at now, or nil: those on time first, in order of their due times,
// then those behind theirs. It stays where it is.
func (b *book) due(now time.Time) *opened {
	for len(b.held) > 0 {
		o := b.held[0]
		if o.env != nil {
			if !o.publishAt().After(now) {
				return o
			}
			break
		}
		heap.Pop(&b.held)
	}
	for len(b.behind) > 0 {
		o := b.behind[0]
		if o.env != nil {
			if !o.notBefore.After(now) {
				return o
			}
			break
		}
		b.behind = b.behind[1:]
	}
	return nil
}

// take removes what due returned from where it waits.
func (b *book) take(o *opened) {
	o.phase = publishing
	if len(b.held) > 0 && b.held[0] == o {
		heap.Pop(&b.held)
		return
	}
	b.behind = b.behind[1:]
}

// next returns when due will return something, or false if nothing waits.
func (b *book) next() (time.Time, bool) {
	var at time.Time
	var ok bool
	if len(b.held) > 0 {
		at, ok = b.held[0].publishAt(), true
	}
	if len(b.behind) > 0 && (!ok || b.behind[0].notBefore.Before(at)) {
		at, ok = b.behind[0].notBefore, true
	}
	return at, ok
}

// swept forgets the ids below t: they cannot be met again but by a look.
func (b *book) swept(t time.Time) {
	for id := range b.known {
		if id.Time().Before(t) {
			delete(b.known, id)
		}
	}
}

// dispatched returns the last bucket up to which nothing waits for the queue's receipt, given that everything up to swept was met.
func (b *book) dispatched(swept schema.Bucket) schema.Bucket {
	last := swept
	for id, o := range b.open {
		if o.phase == waiting || o.phase == publishing {
			last = min(last, id.Bucket()-1)
		}
	}
	return last
}

// settled returns the last bucket up to which nothing is open, given that everything up to swept was met.
func (b *book) settled(swept schema.Bucket) schema.Bucket {
	last := swept
	for bucket := range b.openIn {
		last = min(last, bucket-1)
	}
	return last
}

func (o *opened) publishAt() time.Time {
	at := o.id.Time().Add(-Lead)
	if at.Before(o.notBefore) {
		return o.notBefore
	}
	return at
}

// heldHeap orders by time of publication, then by id.
type heldHeap []*opened

func (h heldHeap) Len() int { return len(h) }
func (h heldHeap) Less(i, j int) bool {
	if a, b := h[i].publishAt(), h[j].publishAt(); !a.Equal(b) {
		return a.Before(b)
	}
	return h[i].id.Compare(h[j].id) < 0
}
func (h heldHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push and Pop are container/heap's.
func (h *heldHeap) Push(x any) { *h = append(*h, x.(*opened)) }

// Pop removes the last element.
func (h *heldHeap) Pop() any {
	old := *h
	o := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return o
}
