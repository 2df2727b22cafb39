package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"carillon.dev/carillon/dispatcher/queue"
)

const (
	// receiptTimeout bounds the wait for a receipt. Publishing the same message again is harmless
	// within queue.DuplicateWindow.
	receiptTimeout = 3 * time.Second
	expireInterval = 250 * time.Millisecond

	codeStoreFailed        = 10077 // among others: the stream is full
	codeInsufficientBytes  = 10047 // the servers' storage is full
	codeInsufficientMemory = 10028
)

// errNoReceipt says that the message may or may not be stored.
var errNoReceipt = errors.New("no receipt")

// publisher sends envelopes and matches receipts. Unlike that of nats.go, it needs no timer, no
// goroutine and no map entry for a message, and it ends every publication when the connection is
// lost.
type publisher struct {
	q     *Queue
	inbox string // receipts go to <inbox>.<slot>.<use>
	free  chan int

	mu     sync.Mutex
	slots  [queue.MaxPublishing]publication
	closed bool
}

// publication is one envelope under way.
type publication struct {
	use         uint64 // distinguishes the publications that used a slot
	done        func(queue.Receipt, error)
	lane        *lane
	incarnation string // known before the message was sent
	since       time.Time
}

func newPublisher(q *Queue) *publisher {
	p := &publisher{q: q, inbox: drawInbox(), free: make(chan int, queue.MaxPublishing)}
	for n := range queue.MaxPublishing {
		p.free <- n
	}
	return p
}

// listen subscribes to the receipts.
func (p *publisher) listen() error {
	sub, err := p.q.subscribe(p.inbox+".*.*", p.receive)
	if err != nil {
		return err
	}
	// There are at most MaxPublishing receipts, and late ones of publications that timed out.
	return sub.SetPendingLimits(-1, -1)
}

// Publish implements queue.Publisher.
func (q *Queue) Publish(ctx context.Context, n queue.Lane, env *queue.Envelope, done func(queue.Receipt, error)) error {
	if err := q.pub.publish(ctx, n, env, done); err != nil {
		return fmt.Errorf("publish %s: %w", env.Entry.ID, err)
	}
	return nil
}

func (p *publisher) publish(ctx context.Context, n queue.Lane, env *queue.Envelope, done func(queue.Receipt, error)) error {
	l, err := p.q.streams.lane(n)
	if err != nil {
		return err
	}
	wire, err := env.Encode()
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var slot int
	select {
	case slot = <-p.free:
	case <-ctx.Done():
		return ctx.Err()
	case <-p.q.stopping.Done():
		return queue.ErrClosed
	}

	pub := publication{done: done, lane: l, incarnation: l.handle.Load().incarnation, since: time.Now()}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		p.free <- slot
		return queue.ErrClosed
	}
	turn := p.slots[slot].use + 1
	pub.use = turn
	p.slots[slot] = pub
	p.mu.Unlock()
	p.q.metrics.underWay.Inc()

	err = p.q.nc.PublishMsg(&nats.Msg{
		Subject: p.q.cfg.Names.RunOf(n, env.Entry.Spec.Priority, env.Pool),
		Reply:   p.inbox + "." + strconv.Itoa(slot) + "." + strconv.FormatUint(turn, 36),
		Header:  nats.Header{jetstream.MsgIDHeader: {env.MessageID()}},
		Data:    wire,
	})
	if err != nil {
		// Nothing was sent. Publish returns the error, unless the loss of the connection has ended
		// the publication.
		if _, open := p.take(slot, turn); open {
			p.release(slot)
			return err
		}
	}
	return nil
}

// take ends a publication and returns it, unless it has ended. The caller calls done and then
// release.
func (p *publisher) take(slot int, turn uint64) (publication, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.slots[slot]
	if s.done == nil || s.use != turn {
		return publication{}, false
	}
	pub := *s
	*s = publication{use: turn}
	return pub, true
}

// release frees the slot.
func (p *publisher) release(slot int) {
	p.q.metrics.underWay.Dec()
	p.free <- slot
}

// end ends a publication, unless it has ended.
func (p *publisher) end(slot int, turn uint64, answer func(publication) (queue.Receipt, error)) {
	pub, open := p.take(slot, turn)
	if !open {
		return
	}
	r, err := answer(pub)
	outcome := outcomeStored
	switch {
	case errors.Is(err, queue.ErrFull):
		outcome = outcomeFull
	case err != nil:
		outcome = outcomeUnknown
	case r.Known:
		outcome = outcomeKnown
	}
	p.q.metrics.published[outcome].Inc()
	pub.done(r, err)
	p.release(slot)
}

// receive matches a receipt.
func (p *publisher) receive(m *nats.Msg) {
	slotText, turnText, ok := strings.Cut(m.Subject[len(p.inbox)+1:], ".")
	slot, err := strconv.Atoi(slotText)
	turn, err2 := strconv.ParseUint(turnText, 36, 64)
	if !ok || err != nil || err2 != nil || slot < 0 || slot >= queue.MaxPublishing {
		return // not one of our subjects
	}
	p.end(slot, turn, func(pub publication) (queue.Receipt, error) { return p.read(m, pub) })
}

// read reads what the stream answered.
func (p *publisher) read(m *nats.Msg, pub publication) (queue.Receipt, error) {
	if len(m.Data) == 0 {
		// The status 503: no stream stores this subject. The stream is deleted or has no leader.
		p.q.streams.checkSoon()
		return queue.Receipt{}, fmt.Errorf("%w: no stream answers", errNoReceipt)
	}
	var ack struct {
		Error     *jetstream.APIError `json:"error"`
		Sequence  uint64              `json:"seq"`
		Duplicate bool                `json:"duplicate"`
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil {
		return queue.Receipt{}, fmt.Errorf("%w: %w", errNoReceipt, err)
	}
	if e := ack.Error; e != nil {
		if isFull(e) {
			return queue.Receipt{}, fmt.Errorf("%w (%s)", queue.ErrFull, e.Description)
		}
		return queue.Receipt{}, fmt.Errorf("%w: %w", errNoReceipt, e)
	}
	if !ack.Duplicate && pub.lane.suggestsNewStream(ack.Sequence) {
		p.q.streams.checkSoon()
	}
	return queue.Receipt{Stream: pub.incarnation, Sequence: ack.Sequence, Known: ack.Duplicate}, nil
}

// isFull reports whether the stream or the servers' storage is full. Only the text distinguishes a
// full stream from other failures to store.
func isFull(e *jetstream.APIError) bool {
	switch e.ErrorCode {
	case codeInsufficientBytes, codeInsufficientMemory:
		return true
	case codeStoreFailed:
		return strings.Contains(e.Description, "maximum")
	}
	return false
}

// expire ends publications that have waited for too long, until the queue is closed.
func (p *publisher) expire() {
	tick := time.NewTicker(expireInterval)
	defer tick.Stop()
	for {
		select {
		case <-p.q.stopping.Done():
			return
		case now := <-tick.C:
			p.fail(now.Add(-receiptTimeout), errNoReceipt)
		}
	}
}

// failAll ends all publications.
func (p *publisher) failAll(err error) { p.fail(time.Now().Add(time.Hour), err) }

// fail ends the publications that are under way since before that instant.
func (p *publisher) fail(before time.Time, err error) {
	for slot := range p.slots {
		p.mu.Lock()
		s := &p.slots[slot]
		old := s.done != nil && s.since.Before(before)
		turn := s.use
		p.mu.Unlock()
		if old {
			p.end(slot, turn, func(publication) (queue.Receipt, error) { return queue.Receipt{}, err })
		}
	}
}

// close ends all publications, and refuses new ones.
func (p *publisher) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.failAll(queue.ErrClosed)
}
