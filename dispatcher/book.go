package dispatcher

import (
	"container/heap"
	"slices"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// book is what a shard's owner remembers of the shard's entries: which it has met, which are open, which wait
// for publication. It does no I/O and reads no clock. Everything in it can be made anew from the rows.
type book struct {
	// known are the ids met that are not swept yet: a sweep looks only at others. What is queued has the flow among whose rows
	// it is on time: if those are read again from before it, it stays known.
	known map[schema.EntryID]*flow
	open  map[schema.EntryID]*opened
	// openIn counts the open entries by bucket: the first bucket with one holds settled back.
	openIn map[schema.Bucket]int

	held   [4]heldHeap // published their lead before they are due; by priority, as in schema.Priorities
	behind []*opened
	lined  map[*opened]struct{} // due, and in their tenant's line

	flows   map[flowKey]*flow
	passed  map[*flow]struct{} // flows with rows that were passed over
	reading pageRange          // the page of such rows that is being read; zero = none is
	waiting [2]int             // entries that wait in memory: on time, behind
}

// pageRange is where the rows of a page lie: after `after`, and up to `to`.
type pageRange struct{ after, to schema.EntryID }

func (p pageRange) has(id schema.EntryID) bool {
	return id.Compare(p.after) > 0 && id.Compare(p.to) <= 0
}

// phase is where an open entry stands with its dispatcher.
type phase uint8

const (
	waiting    phase = iota // held, or behind: not published
	lined                   // the budget refused it: its turn will come
	pacing                  // it waits for a start of its task's rate, or is being deferred to one
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
	parked   bool // it waits in a list of its own: toDecide or catchUps
	first    bool // it was met by the scan or its hint, and never published
	paced    bool // it has a start of its task's rate

	flow  *flow  // among whose entries it waits; nil = it never did
	claim *claim // while it is lined

	// env is what is to be published; nil from the receipt on.
	env *queue.Envelope

	receipt   queue.Receipt
	published time.Time // when the receipt came; zero = never by us
	looked    time.Time // when its rows were last looked at
	notBefore time.Time // no publication before this

	session holder // whose fall ends the attempt under way; zero if none is known
}

// unsure reports whether only its rows can tell how an entry stands: an attempt is under way, or no notice came for a while after it was published.
func (o *opened) unsure(now time.Time) bool {
	return o.phase == watching || o.phase == published && now.Sub(o.published) > settleAfter
}

// holder is a session by its executor and id, and whether the attempt is claimed under it.
type holder struct {
	executor, id string
	guarded      bool
}

func holderOf(ref *schema.SessionRef) holder { return holder{ref.Executor, ref.ID, ref.Guarded} }

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
		known:  make(map[schema.EntryID]*flow),
		open:   make(map[schema.EntryID]*opened),
		openIn: make(map[schema.Bucket]int),
		lined:  make(map[*opened]struct{}),
		flows:  make(map[flowKey]*flow),
		passed: make(map[*flow]struct{}),
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
	b.known[id] = nil
	return true
}

// note notes an id that was met, whatever is known of it.
func (b *book) note(id schema.EntryID) {
	if _, ok := b.known[id]; !ok {
		b.known[id] = nil
	}
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

// queue puts an entry that has an envelope, and does not wait, among those that wait.
func (b *book) queue(o *opened) {
	o.phase = waiting
	tenant := o.env.Entry.Spec.Tenant
	onTime := b.flow(tenant, o.priority, false)
	onTime.last = later(onTime.last, o.id.Time())
	if _, ok := b.known[o.id]; ok {
		b.known[o.id] = onTime
	}
	if o.flow = onTime; o.env.Redispatch {
		o.flow = b.flow(tenant, o.priority, true)
	}
	b.count(o, 1)
	if o.flow.behind {
		b.behind = append(b.behind, o)
		return
	}
	heap.Push(&b.held[rank(o.priority)], o)
}

// count counts an entry among those that wait, or no more.
func (b *book) count(o *opened, n int) {
	o.flow.waiting += n
	b.waiting[side(o.flow.behind)] += n
}

func side(behind bool) int {
	if behind {
		return 1
	}
	return 0
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// rank returns the place of a priority in schema.Priorities; 2, that of normal, for one that is not there.
func rank(p schema.Priority) int {
	if i := slices.Index(schema.Priorities, p); i >= 0 {
		return i
	}
	return 2
}

// done closes an entry.
func (b *book) done(id schema.EntryID) bool {
	o, ok := b.open[id]
	if !ok {
		return false
	}
	delete(b.open, id)
	b.unqueue(o)
	bucket := id.Bucket()
	if b.openIn[bucket]--; b.openIn[bucket] == 0 {
		delete(b.openIn, bucket)
	}
	o.env = nil // whatever queue it waits in passes over it
	return true
}

// unqueue notes that an entry waits no more. What holds it passes over it if it has no envelope any more.
func (b *book) unqueue(o *opened) {
	if o.phase == waiting && o.env != nil || o.phase == lined || o.phase == pacing {
		b.count(o, -1)
	}
	if o.phase == lined {
		o.flow.lined--
		delete(b.lined, o)
	}
}

// forget gives up first, which has been taken, and every entry of its flow that waits and may be, as if it had not been met, and has their rows read again. It
// returns the claims of those that were lined.
func (b *book) forget(first *opened, may func(*opened) bool) (claims []*claim) {
	f, all := first.flow, []*opened{first}
	for _, o := range b.held[rank(f.priority)] {
		if o.flow == f && o.phase == waiting && o.env != nil && may(o) {
			all = append(all, o)
		}
	}
	for o := range b.lined {
		if o.flow == f && may(o) {
			all = append(all, o)
			claims = append(claims, o.claim)
		}
	}
	for _, o := range all {
		if b.pass(f, o.id); o.id.Compare(f.reread) > 0 {
			f.reread = o.id
		}
		delete(b.known, o.id)
		b.done(o.id)
	}
	return claims
}

// due returns the next entry to be published at now, or nil: those on time first, of each priority in order of their due times,
// then those behind theirs. It stays where it is. leads says how long before its due time that is, by priority.
func (b *book) due(now time.Time, leads *[4]time.Duration) *opened {
	for i := range b.held {
		h := &b.held[i]
		for len(*h) > 0 {
			o := (*h)[0]
			if o.env == nil { // done meanwhile
				heap.Pop(h)
				continue
			}
			if o.publishAt(leads[i]).After(now) {
				break
			}
			return o
		}
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

// take removes what due returned from where it waits, to be published.
func (b *book) take(o *opened) {
	b.unqueue(o)
	o.phase = publishing
	b.pop(o)
}

// line removes what due returned from where it waits: it waits for its turn.
func (b *book) line(o *opened, c *claim) {
	o.phase, o.claim = lined, c
	o.flow.lined++
	b.lined[o] = struct{}{}
	b.pop(o)
}

// pace removes what due returned from where it waits: it waits for a start of its task's rate.
func (b *book) pace(o *opened) {
	o.phase = pacing
	b.pop(o)
}

// requeue puts an entry that was lined or pacing, or has been taken, back among those that wait for their time.
func (b *book) requeue(o *opened) {
	b.unqueue(o)
	o.claim = nil
	b.queue(o)
}

// granted takes an entry whose turn has come out of its line, to be published.
func (b *book) granted(o *opened) {
	b.unqueue(o)
	o.phase, o.claim = publishing, nil
}

func (b *book) pop(o *opened) {
	if h := &b.held[rank(o.priority)]; len(*h) > 0 && (*h)[0] == o {
		heap.Pop(h)
		return
	}
	b.behind = b.behind[1:]
}

// next returns when due will return something, or false if nothing waits for its time.
func (b *book) next(leads *[4]time.Duration) (time.Time, bool) {
	var at time.Time
	var ok bool
	for i, h := range b.held {
		if len(h) > 0 {
			if t := h[0].publishAt(leads[i]); !ok || t.Before(at) {
				at, ok = t, true
			}
		}
	}
	if len(b.behind) > 0 && (!ok || b.behind[0].notBefore.Before(at)) {
		at, ok = b.behind[0].notBefore, true
	}
	return at, ok
}

// swept forgets the ids below t: they cannot be met again but by a look, or where their flow's rows are read again. It forgets flows of which
// nothing waits, too.
func (b *book) swept(t time.Time) {
	for id, f := range b.known {
		if id.Time().Before(t) && !f.passes(id) {
			delete(b.known, id)
		}
	}
	for key, f := range b.flows {
		if f.waiting == 0 && !f.over && f.last.Before(t) {
			delete(b.flows, key)
		}
	}
}

// dispatched returns the last bucket up to which nothing waits for the queue's receipt, given that everything up to swept was met.
func (b *book) dispatched(swept schema.Bucket) schema.Bucket {
	last := swept
	for id, o := range b.open {
		if o.phase == waiting || o.phase == lined || o.phase == pacing || o.phase == publishing {
			last = min(last, id.Bucket()-1)
		}
	}
	return b.below(last)
}

// settled returns the last bucket up to which nothing is open, given that everything up to swept was met.
func (b *book) settled(swept schema.Bucket) schema.Bucket {
	last := swept
	for bucket := range b.openIn {
		last = min(last, bucket-1)
	}
	return b.below(last)
}

// below returns last, or the bucket before the first one with rows that were passed over.
func (b *book) below(last schema.Bucket) schema.Bucket {
	for f := range b.passed {
		last = min(last, f.after.Bucket()-1)
	}
	return last
}

func (o *opened) publishAt(lead time.Duration) time.Time {
	at := o.id.Time().Add(-lead)
	if at.Before(o.notBefore) {
		return o.notBefore
	}
	return at
}

// heldHeap orders by time of publication, then by id.
type heldHeap []*opened

func (h heldHeap) Len() int { return len(h) }
func (h heldHeap) Less(i, j int) bool {
	if a, b := h[i].publishAt(Lead), h[j].publishAt(Lead); !a.Equal(b) {
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
