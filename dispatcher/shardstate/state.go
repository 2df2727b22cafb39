package shardstate

import (
	"iter"
	"maps"
	"time"

	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// State is what the owner of a shard remembers of its entries.
type State struct {
	Flows Flows

	// known are the ids found that are not swept yet: the sweep inspects only others. An id that
	// waits maps to the flow among whose rows it is on time.
	known map[schema.EntryID]*Flow
	open  map[schema.EntryID]*Pending
	// openIn counts the pending entries by bucket: the first bucket with one holds settled back.
	openIn map[schema.Bucket]int
	order  order
	queued map[*Pending]struct{}
}

// New returns a State that knows nothing.
func New() *State {
	return &State{
		Flows:  newFlows(),
		known:  make(map[schema.EntryID]*Flow),
		open:   make(map[schema.EntryID]*Pending),
		openIn: make(map[schema.Bucket]int),
		queued: make(map[*Pending]struct{}),
	}
}

// Has reports whether an id is pending, or was found and is not swept yet.
func (s *State) Has(id schema.EntryID) bool {
	if _, ok := s.known[id]; ok {
		return true
	}
	_, ok := s.open[id]
	return ok
}

// Find notes an id, and reports whether it was new.
func (s *State) Find(id schema.EntryID) bool {
	if s.Has(id) {
		return false
	}
	s.known[id] = nil
	return true
}

// Note notes an id, pending or not, as one of the rows of f; nil: of no flow yet.
func (s *State) Note(id schema.EntryID, f *Flow) {
	if _, ok := s.known[id]; !ok {
		s.known[id] = f
	}
}

// Pending returns a pending entry.
func (s *State) Pending(id schema.EntryID) (*Pending, bool) {
	p, ok := s.open[id]
	return p, ok
}

// All returns the pending entries, in no order. Phases may be changed meanwhile.
func (s *State) All() iter.Seq[*Pending] { return maps.Values(s.open) }

// Queued returns the entries that wait for budget, in no order.
func (s *State) Queued() iter.Seq[*Pending] { return maps.Keys(s.queued) }

// Add makes an entry pending that is to be published at its time, or as overdue if it is a
// redispatch.
func (s *State) Add(env *queue.Envelope) *Pending {
	e := &env.Entry
	p := s.put(e)
	p.Env = env
	s.Hold(p)
	return p
}

// Watch makes an entry pending that is not to be published for now. One that is pending stays as it
// is.
func (s *State) Watch(e *schema.Entry, inspected time.Time) *Pending {
	if p, ok := s.open[e.ID]; ok {
		return p
	}
	p := s.put(e)
	p.Phase, p.Inspected = Watching, inspected
	return p
}

func (s *State) put(e *schema.Entry) *Pending {
	p := &Pending{
		ID: e.ID, Run: e.Run(), Kind: e.Spec.Kind, Priority: e.Spec.Priority.Or(),
		Workflow: e.Spec.Workflow != nil, Step: e.Spec.Step,
	}
	s.open[p.ID] = p
	s.openIn[p.ID.Bucket()]++
	return p
}

// Hold has an entry wait for its time. It has an envelope, and does not wait anywhere.
func (s *State) Hold(p *Pending) {
	p.Phase = Waiting
	tenant := p.Env.Entry.Spec.Tenant
	onTime := s.Flows.get(FlowKey{tenant, p.Priority, OnTime})
	onTime.last = later(onTime.last, p.ID.Time())
	if _, ok := s.known[p.ID]; ok {
		s.known[p.ID] = onTime
	}
	if p.Flow = onTime; p.Env.Redispatch {
		p.Flow = s.Flows.get(FlowKey{tenant, p.Priority, Overdue})
	}
	s.Flows.count(p.Flow, 1)
	s.order.push(p)
}

// HoldAgain has an entry that waits elsewhere, or is being published, wait for its time again.
func (s *State) HoldAgain(p *Pending) {
	s.release(p)
	p.Ticket = nil
	s.Hold(p)
}

// Done closes an entry, and reports whether it was pending.
func (s *State) Done(id schema.EntryID) bool {
	p, ok := s.open[id]
	if !ok {
		return false
	}
	delete(s.open, id)
	s.release(p)
	bucket := id.Bucket()
	if s.openIn[bucket]--; s.openIn[bucket] == 0 {
		delete(s.openIn, bucket)
	}
	p.Env = nil // drops it from the order
	return true
}

// release counts an entry no more among those that wait. The order drops it once it has no
// envelope.
func (s *State) release(p *Pending) {
	if p.Live(Waiting) || p.Phase == Queued || p.Phase == Reserving {
		s.Flows.count(p.Flow, -1)
	}
	if p.Phase == Queued {
		p.Flow.queued--
		delete(s.queued, p)
	}
}

// Due returns the next Waiting entry to be published at now, or nil. It stays where it is, until
// one of Take, Queue and Reserve.
func (s *State) Due(now time.Time, leads *depth.Leads) *Pending { return s.order.due(now, leads) }

// NextDue returns when Due will return something; false if nothing waits for its time.
func (s *State) NextDue(leads *depth.Leads) (time.Time, bool) { return s.order.next(leads) }

// Take has what Due returned be published.
func (s *State) Take(p *Pending) {
	s.release(p)
	p.Phase = Publishing
	s.order.pop(p)
}

// Queue has what Due returned wait for budget.
func (s *State) Queue(p *Pending, t *depth.Ticket) {
	p.Phase, p.Ticket = Queued, t
	p.Flow.queued++
	s.queued[p] = struct{}{}
	s.order.pop(p)
}

// Reserve has what Due returned wait for a start of its task's rate.
func (s *State) Reserve(p *Pending) {
	p.Phase = Reserving
	s.order.pop(p)
}

// Granted has an entry be published whose ticket was granted.
func (s *State) Granted(p *Pending) {
	s.release(p)
	p.Phase, p.Ticket = Publishing, nil
}

// GiveUp forgets first, which was taken, and every entry of its flow that waits and may be reread:
// their rows are spilled. It returns the tickets of those that were queued.
func (s *State) GiveUp(first *Pending, may func(*Pending) bool) (tickets []*depth.Ticket) {
	f, all := first.Flow, []*Pending{first}
	for _, p := range s.order.onTime[f.Priority.Rank()] {
		if p.Flow == f && p.Live(Waiting) && may(p) {
			all = append(all, p)
		}
	}
	for p := range s.queued {
		if p.Flow == f && may(p) {
			all = append(all, p)
			tickets = append(tickets, p.Ticket)
		}
	}
	for _, p := range all {
		if s.Flows.Spill(f, p.ID); p.ID.Compare(f.reread) > 0 {
			f.reread = p.ID
		}
		delete(s.known, p.ID)
		s.Done(p.ID)
	}
	return tickets
}

// Swept forgets the ids that are due before t, but for spilled rows, and flows of which nothing
// waits.
func (s *State) Swept(t time.Time) {
	for id, f := range s.known {
		if id.Time().Before(t) && !f.Spilled(id) {
			delete(s.known, id)
		}
	}
	s.Flows.swept(t)
}

// Dispatched returns the last bucket without an unconfirmed entry, if all up to swept was found.
func (s *State) Dispatched(swept schema.Bucket) schema.Bucket {
	last := swept
	for id, p := range s.open {
		if p.Phase.Unconfirmed() {
			last = min(last, id.Bucket()-1)
		}
	}
	return s.Flows.below(last)
}

// Settled returns the last bucket without a pending entry, if all up to swept was found.
func (s *State) Settled(swept schema.Bucket) schema.Bucket {
	last := swept
	for bucket := range s.openIn {
		last = min(last, bucket-1)
	}
	return s.Flows.below(last)
}

// Watched returns the entries with an attempt under way, by its session.
func (s *State) Watched() map[Session][]schema.EntryID {
	var of map[Session][]schema.EntryID
	for id, p := range s.open {
		if p.Phase != Watching || p.Session == (Session{}) {
			continue
		}
		if of == nil {
			of = make(map[Session][]schema.EntryID)
		}
		of[p.Session] = append(of[p.Session], id)
	}
	return of
}

// Size is how much a State remembers.
type Size struct{ Known, Open, Buckets, OnTime, Overdue, Flows int }

// Size returns how much s remembers.
func (s *State) Size() Size {
	size := Size{Known: len(s.known), Open: len(s.open), Buckets: len(s.openIn), Overdue: len(s.order.overdue), Flows: len(s.Flows.all)}
	for _, h := range s.order.onTime {
		size.OnTime += len(h)
	}
	return size
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
