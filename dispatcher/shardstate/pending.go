package shardstate

import (
	"time"

	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// Phase is where a pending entry stands with its dispatcher.
type Phase uint8

// The phases; how they follow each other stands in the package comment.
const (
	Waiting    Phase = iota // held in memory for its time, or overdue
	Queued                  // the budget refused it: it has a ticket
	Reserving               // it waits for a start of its task's rate, or is being deferred to one
	Publishing              // handed to the queue, no receipt yet
	Published               // its stream held it
	Watching                // not ours to publish for now
	Finishing               // finished, to be closed once its workflow run was advanced
)

// Unconfirmed reports whether the queue has still to confirm the entry.
func (p Phase) Unconfirmed() bool {
	return p == Waiting || p == Queued || p == Reserving || p == Publishing
}

// Pending is an entry that is not done.
type Pending struct {
	ID             schema.EntryID
	Run            schema.RunID
	Kind           schema.Kind
	Priority       schema.Priority
	Phase          Phase
	Parked         bool // it is in a list of its owner: to be decided, or catch-up entries
	NeverPublished bool // found by the scan or a hint, and not published since
	Reserved       bool // it has a start of its task's rate
	Sent           bool // what Env says was handed to the queue before, which did not confirm it

	Pool queue.Pool // whose executors it is, or was, to be published for; "": all

	Workflow bool         // its run is one of a workflow: it is advanced, not published
	Step     *schema.Step // its run is a step of a workflow

	Flow   *Flow         // among whose entries it waits; nil = it never did
	Ticket *depth.Ticket // while it is Queued

	// Env is what is to be published; nil once the queue has confirmed it, or when it is done.
	Env *queue.Envelope

	Receipt     queue.Receipt
	PublishedAt time.Time // when the receipt came; zero = never by us
	Inspected   time.Time // when its rows were last read
	NotBefore   time.Time // no publication before this

	Session Session // whose death ends the attempt under way; zero = none is known
}

// PublishAt returns when the entry is to be published, lead before its due time.
func (p *Pending) PublishAt(lead time.Duration) time.Time {
	at := p.ID.Time().Add(-lead)
	if at.Before(p.NotBefore) {
		return p.NotBefore
	}
	return at
}

// Live reports whether the entry is in the phase and has an envelope: it may be done, or have moved
// on, since a worker was given it.
func (p *Pending) Live(phase Phase) bool { return p.Phase == phase && p.Env != nil }

// Session names an executor's session, and says whether the attempt under way is claimed under it.
type Session struct {
	Executor, ID string
	Guarded      bool
}

// SessionOf returns the Session that ref names.
func SessionOf(ref *schema.SessionRef) Session { return Session{ref.Executor, ref.ID, ref.Guarded} }

// Finish has an entry of s wait to be closed: it is not published, and not inspected any more.
func (p *Pending) Finish(s *State) {
	s.release(p)
	p.Phase, p.Env, p.Ticket, p.Parked = Finishing, nil, nil, false
}
