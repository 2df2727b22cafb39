package inproc

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// Fetch implements queue.Consumer.
func (c *Conn) Fetch(ctx context.Context, lane queue.Lane, p schema.Priority, limit int, wait time.Duration) ([]queue.Delivery, error) {
	return pool{c, ""}.Fetch(ctx, lane, p, limit, wait)
}

// Fetch implements queue.Consumer.
func (c pool) Fetch(ctx context.Context, lane queue.Lane, p schema.Priority, limit int, wait time.Duration) ([]queue.Delivery, error) {
	if limit < 1 {
		return nil, fmt.Errorf("fetch of lane %d, %s: limit %d", lane, p.Or(), limit)
	}
	end := time.Now().Add(wait)
	for {
		c.mu.Lock()
		changed, cut, closed := c.changed, c.cut, c.closed
		c.mu.Unlock()
		if closed {
			return nil, fmt.Errorf("fetch of lane %d, %s: %w", lane, p.Or(), queue.ErrClosed)
		}
		now := time.Now()
		wake := end
		var arrived <-chan struct{}
		if !cut && ctx.Err() == nil {
			taken, next, more := c.take(now, lane, class{p.Or(), c.of}, limit)
			if len(taken) > 0 {
				return taken, nil
			}
			arrived = more
			if !next.IsZero() && next.Before(wake) {
				wake = next
			}
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		if !end.After(now) {
			if cut {
				return nil, fmt.Errorf("fetch of lane %d, %s: %w", lane, p.Or(), ErrNoAnswer)
			}
			return nil, nil
		}
		timer := time.NewTimer(wake.Sub(now))
		select {
		case <-ctx.Done():
		case <-changed:
		case <-arrived:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// take takes the messages that are ready and asks the fault for each. If there is none, it returns
// when a held message comes back, and a channel that is closed when something changes.
func (c *Conn) take(now time.Time, lane queue.Lane, of class, limit int) ([]queue.Delivery, time.Time, <-chan struct{}) {
	b := c.broker
	b.mu.Lock()
	sub := b.stream(lane).subject(of)
	taken, next := sub.take(now, limit, b.cfg.MaxAckPending)
	var changed <-chan struct{}
	if len(taken) == 0 {
		changed = sub.wait()
	}
	counts := make([]int, len(taken))
	for i, m := range taken {
		counts[i] = m.delivered
	}
	b.mu.Unlock()

	deliveries := make([]queue.Delivery, 0, len(taken))
	for i, m := range taken {
		e := Event{Point: Delivery, Conn: c.name, Lane: lane, Priority: of.priority, Entry: m.entry}
		v := b.verdict(e)
		if v.Drop {
			continue
		}
		if v.Double || v.Delay > 0 {
			b.mu.Lock()
			if v.Delay > 0 {
				m.delivered--
				sub.hold(m, now.Add(v.Delay))
			} else {
				sub.release(m)
			}
			b.mu.Unlock()
		}
		if v.Delay > 0 {
			continue
		}
		env, _, err := queue.Parse(m.wire)
		if err != nil {
			panic("inproc: " + err.Error()) // it was encoded here
		}
		deliveries = append(deliveries, &delivery{conn: c, m: m, event: e, env: env, redelivered: counts[i] > 1})
	}
	if len(taken) > 0 && len(deliveries) == 0 {
		next = now // check again at once: there may be more
	}
	return deliveries, next, changed
}

// delivery is a message that a node holds.
type delivery struct {
	conn        *Conn
	m           *message
	event       Event
	env         queue.Envelope
	redelivered bool
	ended       atomic.Bool
}

func (d *delivery) Envelope() *queue.Envelope { return &d.env }

func (d *delivery) Published() time.Time { return d.m.published }

func (d *delivery) Redelivered() bool { return d.redelivered }

func (d *delivery) Ack() {
	if !d.ended.Swap(true) {
		d.send(Ack, d.m.subject.finish)
	}
}

func (d *delivery) Return() {
	if !d.ended.Swap(true) {
		d.send(Return, d.m.subject.release)
	}
}

func (d *delivery) Hold() {
	if !d.ended.Load() {
		d.send(Hold, func(m *message) { m.subject.hold(m, time.Now().Add(queue.AckWait)) })
	}
}

// send applies do to the message, as far as cuts and faults allow.
func (d *delivery) send(point Point, do func(*message)) {
	if d.conn.down() != nil {
		return
	}
	e := d.event
	e.Point = point
	b := d.conn.broker
	v := b.verdict(e)
	if v.Drop {
		return
	}
	b.after(v.Delay, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		do(d.m)
	})
}
