package inproc

import (
	"context"
	"fmt"
	"sync"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// Conn is the connection of one node. It is safe for concurrent use. It has the 18 methods of
// queue.Queue, those that a simulation needs to cut it off, and few others.
type Conn struct {
	broker   *Broker
	name     string
	window   chan struct{} // one token for each publication under way
	receipts *mailbox

	mu        sync.Mutex
	cut       bool
	closed    bool
	changed   chan struct{} // closed and replaced when cut or closed change
	pending   map[*publication]struct{}
	listeners []*listener
}

var _ queue.Queue = (*Conn)(nil)

// Cut takes the node off the network: messages from it and to it are lost, and others get the
// messages that it holds after queue.AckWait.
func (c *Conn) Cut() { c.setCut(true) }

// Heal ends a Cut.
func (c *Conn) Heal() { c.setCut(false) }

func (c *Conn) setCut(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut == cut || c.closed {
		return
	}
	c.cut = cut
	close(c.changed)
	c.changed = make(chan struct{})
}

// Close ends the connection: every publication under way ends with queue.ErrClosed, every
// subscription ends, and others get the messages that the node holds after queue.AckWait. It waits
// for callbacks under way, so it must not be called from one. The error is always nil.
func (c *Conn) Close() error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	var pending []*publication
	if first {
		close(c.changed)
		c.changed = make(chan struct{})
		for p := range c.pending {
			pending = append(pending, p)
		}
	}
	listeners := c.listeners
	c.mu.Unlock()

	for _, p := range pending {
		c.finish(p, queue.Receipt{}, queue.ErrClosed)
	}
	c.receipts.close(true)
	<-c.receipts.ended
	for _, l := range listeners {
		l.box.close(false)
		<-l.box.ended
	}

	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, c)
	for ch, ls := range b.listeners {
		kept := ls[:0:0]
		for _, l := range ls {
			if l.conn != c {
				kept = append(kept, l)
			}
		}
		b.listeners[ch] = kept
	}
	return nil
}

// down returns why the node is off the network, nil if it is not.
func (c *Conn) down() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return queue.ErrClosed
	case c.cut:
		return ErrNoAnswer
	}
	return nil
}

// own gives the listener its mailbox.
func (c *Conn) own(l *listener) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return queue.ErrClosed
	}
	l.box = newMailbox()
	c.listeners = append(c.listeners, l)
	return nil
}

// publication is one envelope under way.
type publication struct {
	done    func(queue.Receipt, error)
	timeout *time.Timer
}

// finish ends a publication, unless it has ended.
func (c *Conn) finish(p *publication, r queue.Receipt, err error) {
	c.mu.Lock()
	_, open := c.pending[p]
	delete(c.pending, p)
	timeout := p.timeout
	c.mu.Unlock()
	if !open {
		return
	}
	if timeout != nil {
		timeout.Stop()
	}
	c.receipts.put(func() {
		p.done(r, err)
		<-c.window
	})
}

// Publish implements queue.Publisher.
func (c *Conn) Publish(ctx context.Context, lane queue.Lane, env *queue.Envelope, done func(queue.Receipt, error)) error {
	wire, err := env.Encode()
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		c.mu.Lock()
		changed, closed := c.changed, c.closed
		c.mu.Unlock()
		if closed {
			return fmt.Errorf("publish %s: %w", env.Entry.ID, queue.ErrClosed)
		}
		select {
		case c.window <- struct{}{}:
			return c.publish(lane, env, wire, done)
		case <-ctx.Done():
		case <-changed: // cut, healed or closed
		}
	}
	return fmt.Errorf("publish %s: %w", env.Entry.ID, ctx.Err())
}

func (c *Conn) publish(lane queue.Lane, env *queue.Envelope, wire []byte, done func(queue.Receipt, error)) error {
	p := &publication{done: done}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		<-c.window
		return fmt.Errorf("publish %s: %w", env.Entry.ID, queue.ErrClosed)
	}
	c.pending[p] = struct{}{}
	p.timeout = time.AfterFunc(PublishTimeout, func() { c.finish(p, queue.Receipt{}, ErrNoAnswer) })
	cut := c.cut
	c.mu.Unlock()

	e := Event{Point: Publish, Conn: c.name, Lane: lane, Priority: env.Entry.Spec.Priority.Or(), Entry: env.Entry.ID}
	to := class{e.Priority, env.Pool}
	v := c.broker.verdict(e)
	if cut || v.Drop {
		return nil // it ends by its time-out
	}
	id := env.MessageID()
	c.broker.after(v.Delay, func() { c.store(p, e, to, id, wire, v.Double) })
	return nil
}

// store stores a publication in the stream and answers it.
func (c *Conn) store(p *publication, e Event, to class, id string, wire []byte, double bool) {
	b := c.broker
	b.mu.Lock()
	now := time.Now()
	s := b.stream(e.Lane)
	seq, known, err := s.store(now, to, id, e.Entry, wire, b.cfg.MaxBytes, false)
	if double && err == nil {
		// A second copy that does not fit is left out.
		_, _, _ = s.store(now, to, id, e.Entry, wire, b.cfg.MaxBytes, true)
	}
	r := queue.Receipt{Stream: s.incarnation, Sequence: seq, Known: known}
	b.mu.Unlock()
	if err != nil {
		r, err = queue.Receipt{}, fmt.Errorf("publish %s: %w", e.Entry, err)
	}
	e.Point = Receipt
	v := b.verdict(e)
	if v.Drop || c.down() != nil {
		return // the time-out tells
	}
	b.after(v.Delay, func() { c.finish(p, r, err) })
}

// Front implements queue.Inspector.
func (c *Conn) Front(ctx context.Context, lane queue.Lane, p schema.Priority) (queue.Front, error) {
	return pool{c, ""}.Front(ctx, lane, p)
}

// Load implements queue.Inspector.
func (c *Conn) Load(ctx context.Context, lane queue.Lane, p schema.Priority) (queue.Load, error) {
	return pool{c, ""}.Load(ctx, lane, p)
}

// Pool implements queue.Pools.
func (c *Conn) Pool(name queue.Pool) queue.PoolQueue { return pool{c, name} }

// pool is the messages of one pool, as a connection sees them.
type pool struct {
	*Conn
	of queue.Pool
}

// Front implements queue.Inspector.
func (c pool) Front(ctx context.Context, lane queue.Lane, p schema.Priority) (queue.Front, error) {
	if err := c.reach(ctx); err != nil {
		return queue.Front{}, fmt.Errorf("front of lane %d, %s: %w", lane, p.Or(), err)
	}
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	s := c.broker.stream(lane)
	all := s.subject(class{p.Or(), c.of}).all
	if len(all) == 0 {
		return queue.Front{Stream: s.incarnation, Empty: true}, nil
	}
	return queue.Front{Stream: s.incarnation, Sequence: all[0].seq}, nil
}

// Load implements queue.Inspector.
func (c pool) Load(ctx context.Context, lane queue.Lane, p schema.Priority) (queue.Load, error) {
	if err := c.reach(ctx); err != nil {
		return queue.Load{}, fmt.Errorf("load of lane %d, %s: %w", lane, p.Or(), err)
	}
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	s := c.broker.stream(lane).subject(class{p.Or(), c.of})
	return queue.Load{Waiting: s.live - s.held, Held: s.held, Delivered: s.delivered}, nil
}

// reach returns an error if the broker cannot be reached: at once if the connection is closed or
// ctx has ended, after PublishTimeout if it is cut.
func (c *Conn) reach(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := c.down()
	if err != ErrNoAnswer { //nolint:errorlint // down returns the very value
		return err
	}
	t := time.NewTimer(PublishTimeout)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return err
	}
}

// Ready implements queue.Prober.
func (c *Conn) Ready() error { return c.down() }

// Time implements queue.Prober: the broker has the clock of the process.
func (c *Conn) Time(ctx context.Context) (time.Time, error) {
	if err := c.reach(ctx); err != nil {
		return time.Time{}, fmt.Errorf("ask for the time: %w", err)
	}
	return time.Now().UTC(), nil
}

// Clocks implements queue.Prober: the clock of this process.
func (c *Conn) Clocks() []schema.HostClock { return []schema.HostClock{{Time: c.Time}} }
