package inproc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// Near implements schema.Hints.
func (c *Conn) Near(shard schema.Shard, entries []schema.Entry) {
	for wire := range queue.EncodeHints(entries) {
		c.broker.deliver(c, channel{point: Hint, shard: shard}, wire)
	}
}

// SubscribeNear implements queue.Bus.
func (c *Conn) SubscribeNear(shard schema.Shard, f func([]schema.Entry)) (cancel func(), err error) {
	return c.broker.listen(c, channel{point: Hint, shard: shard}, func(wire []byte) {
		if entries, err := queue.ParseHints(wire); err == nil {
			f(entries)
		}
	})
}

// Done implements schema.Notices.
func (c *Conn) Done(shard schema.Shard, notices []schema.Notice) {
	for wire := range queue.EncodeNotices(notices) {
		c.broker.deliver(c, channel{point: Notice, shard: shard}, wire)
	}
}

// SubscribeDone implements queue.Bus.
func (c *Conn) SubscribeDone(shard schema.Shard, f func([]schema.Notice)) (cancel func(), err error) {
	return c.broker.listen(c, channel{point: Notice, shard: shard}, func(wire []byte) {
		if notices, err := queue.ParseNotices(wire); err == nil {
			f(notices)
		}
	})
}

// Signal implements queue.Signals.
func (c *Conn) Signal(topic string, body []byte) {
	c.broker.deliver(c, channel{point: Signal, topic: topic}, slices.Clone(body))
}

// SubscribeSignal implements queue.Signals.
func (c *Conn) SubscribeSignal(topic string, f func([]byte)) (cancel func(), err error) {
	return c.broker.listen(c, channel{point: Signal, topic: topic}, f)
}

// Reachable implements queue.Requester.
func (c *Conn) Reachable() bool { return c.down() == nil }

// Request implements queue.Requester. The worker runs on the caller's goroutine, and replies once.
func (c *Conn) Request(ctx context.Context, subject string, headers map[string]string, body []byte, hear func(queue.Reply) bool) error {
	if err := queue.CheckHeaders(headers); err != nil {
		return fmt.Errorf("request %s: %w", subject, err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("request %s: %w", subject, err)
	}
	if err := c.down(); err != nil {
		if errors.Is(err, ErrNoAnswer) {
			err = queue.ErrOffline
		}
		return fmt.Errorf("request %s: %w", subject, err)
	}
	c.broker.mu.Lock()
	worker := c.broker.workers[subject]
	c.broker.mu.Unlock()
	if worker == nil {
		return fmt.Errorf("request %s: %w", subject, queue.ErrNoWorker)
	}
	var r queue.Reply
	r.Body, r.Headers = worker(ctx, maps.Clone(headers), slices.Clone(body))
	if ctx.Err() == nil && hear(r) {
		<-ctx.Done() // nothing more comes
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("request %s: %w", subject, err)
	}
	return nil
}
