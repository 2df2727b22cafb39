package inproc

import (
	"container/heap"
	"strconv"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// message is one stored envelope, until it is acknowledged.
type message struct {
	lane      *stream
	subject   *subject
	seq       uint64
	wire      []byte
	entry     schema.EntryID
	published time.Time
	delivered int       // how often it was handed out
	deadline  time.Time // while handed out: when it comes back
	state     state
}

type state int

const (
	ready state = iota
	held        // handed out, its deadline runs
	done
)

// stream is one incarnation of a lane's stream. The broker's mutex guards it.
type stream struct {
	incarnation string
	last        uint64 // sequence
	bytes       int
	subjects    map[class]*subject
	ids         map[string]uint64 // message id → sequence, for queue.DuplicateWindow
	idAges      []idAge           // the same, oldest first
}

type idAge struct {
	id string
	at time.Time
}

// class is the priority and pool of messages.
type class struct {
	priority schema.Priority
	pool     queue.Pool
}

// subject is the messages of one class, and the one durable consumer that they have.
type subject struct {
	ready   bySequence
	held    int        // messages handed out
	returns byDeadline // when they come back; entries of messages that moved on are skipped
	all     []*message // in order of sequence; finished ones leave from the front
	live    int        // messages not finished
	// delivered counts what was handed out.
	delivered uint64
	changed   chan struct{} // closed when a message may have become ready; nil while no Fetch waits
}

func newStream(incarnation uint64) *stream {
	s := &stream{
		incarnation: strconv.FormatUint(incarnation, 10),
		subjects:    make(map[class]*subject),
		ids:         make(map[string]uint64),
	}
	return s
}

// subject returns the messages of a class.
func (s *stream) subject(c class) *subject {
	sub, ok := s.subjects[c]
	if !ok {
		sub = new(subject)
		s.subjects[c] = sub
	}
	return sub
}

// store keeps an envelope. Unless again is set it is refused as a duplicate when its id was seen
// within the window: then the sequence is that of the first and known is true.
func (s *stream) store(now time.Time, c class, id string, entry schema.EntryID, wire []byte, maxBytes int, again bool) (seq uint64, known bool, err error) {
	for len(s.idAges) > 0 && now.Sub(s.idAges[0].at) >= queue.DuplicateWindow {
		delete(s.ids, s.idAges[0].id)
		s.idAges = s.idAges[1:]
	}
	if first, ok := s.ids[id]; ok && !again {
		return first, true, nil
	}
	if s.bytes+len(wire) > maxBytes {
		return 0, false, queue.ErrFull
	}
	s.last++
	if !again {
		s.ids[id] = s.last
		s.idAges = append(s.idAges, idAge{id, now})
	}
	sub := s.subject(c)
	m := &message{lane: s, subject: sub, seq: s.last, wire: wire, entry: entry, published: now}
	s.bytes += len(wire)
	sub.all = append(sub.all, m)
	sub.live++
	heap.Push(&sub.ready, m)
	sub.wake()
	return m.seq, false, nil
}

// take hands out at most limit ready messages, oldest first. If there is none it returns the next
// instant at which a held one comes back, zero if none is held.
func (s *subject) take(now time.Time, limit, maxHeld int) (taken []*message, next time.Time) {
	for len(s.returns) > 0 {
		r := s.returns[0]
		stale := r.m.state != held || !r.m.deadline.Equal(r.at)
		if !stale && r.at.After(now) {
			next = r.at
			break
		}
		heap.Pop(&s.returns)
		if !stale {
			s.release(r.m)
		}
	}
	for len(taken) < limit && len(s.ready) > 0 && s.held < maxHeld {
		m := heap.Pop(&s.ready).(*message)
		m.state = held
		m.delivered++
		s.held++
		s.delivered++
		s.hold(m, now.Add(queue.AckWait))
		taken = append(taken, m)
	}
	return taken, next
}

// hold sets when a held message comes back.
func (s *subject) hold(m *message, until time.Time) {
	if m.state != held {
		return
	}
	m.deadline = until
	heap.Push(&s.returns, comeback{until, m})
}

// release makes a held message ready again.
func (s *subject) release(m *message) {
	if m.state != held {
		return
	}
	s.held--
	m.state = ready
	heap.Push(&s.ready, m)
	s.wake()
}

// finish ends a message, no matter which node holds it: acknowledgements are not fenced.
func (s *subject) finish(m *message) {
	switch m.state {
	case done:
		return
	case held:
		s.held--
	case ready:
		for i, r := range s.ready {
			if r == m {
				heap.Remove(&s.ready, i)
				break
			}
		}
	}
	m.state = done
	m.lane.bytes -= len(m.wire)
	s.live--
	for len(s.all) > 0 && s.all[0].state == done {
		s.all[0] = nil
		s.all = s.all[1:]
	}
	s.wake() // room below the bound of held messages
}

// wake signals waiting fetches that a message may have become ready.
func (s *subject) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// wait returns the channel that the next wake closes.
func (s *subject) wait() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// bySequence is a heap of ready messages.
type bySequence []*message

func (h bySequence) Len() int           { return len(h) }
func (h bySequence) Less(i, j int) bool { return h[i].seq < h[j].seq }
func (h bySequence) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *bySequence) Push(m any)        { *h = append(*h, m.(*message)) }
func (h *bySequence) Pop() any          { return pop((*[]*message)(h)) }

// comeback is the instant at which a message was to come back when it was last held.
type comeback struct {
	at time.Time
	m  *message
}

// byDeadline is a heap of comebacks.
type byDeadline []comeback

func (h byDeadline) Len() int           { return len(h) }
func (h byDeadline) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h byDeadline) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byDeadline) Push(c any)        { *h = append(*h, c.(comeback)) }
func (h *byDeadline) Pop() any          { return pop((*[]comeback)(h)) }

func pop[T any](h *[]T) T {
	var none T
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = none
	*h = old[:len(old)-1]
	return last
}
