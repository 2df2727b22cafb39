package jetstream

import (
	"errors"

	"github.com/nats-io/nats.go"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// Near implements schema.Hints.
func (q *Queue) Near(shard schema.Shard, entries []schema.Entry) {
	for wire := range queue.EncodeHints(entries) {
		q.sendAdvice(q.cfg.Names.Near(shard), wire)
	}
}

// Done implements schema.Notices. It sends what it is given at once: callers batch.
func (q *Queue) Done(shard schema.Shard, notices []schema.Notice) {
	for wire := range queue.EncodeNotices(notices) {
		q.sendAdvice(q.cfg.Names.Done(shard), wire)
	}
}

// Signal implements queue.Signals.
func (q *Queue) Signal(topic string, body []byte) { q.sendAdvice(q.cfg.Names.Signal(topic), body) }

// SubscribeNear implements queue.Bus.
func (q *Queue) SubscribeNear(shard schema.Shard, f func([]schema.Entry)) (cancel func(), err error) {
	return q.listen(q.cfg.Names.Near(shard), func(wire []byte) error {
		entries, err := queue.ParseHints(wire)
		if len(entries) > 0 {
			f(entries)
		}
		return err
	})
}

// SubscribeDone implements queue.Bus.
func (q *Queue) SubscribeDone(shard schema.Shard, f func([]schema.Notice)) (cancel func(), err error) {
	return q.listen(q.cfg.Names.Done(shard), func(wire []byte) error {
		notices, err := queue.ParseNotices(wire)
		if len(notices) > 0 {
			f(notices)
		}
		return err
	})
}

// SubscribeSignal implements queue.Signals.
func (q *Queue) SubscribeSignal(topic string, f func([]byte)) (cancel func(), err error) {
	return q.listen(q.cfg.Names.Signal(topic), func(body []byte) error { f(body); return nil })
}

// listen calls f with every message until cancel is called.
func (q *Queue) listen(subject string, f func(wire []byte) error) (cancel func(), err error) {
	sub, err := q.subscribe(subject, func(m *nats.Msg) {
		if err := f(m.Data); err != nil {
			q.metrics.malformed.Inc()
			q.log.Warn("a message cannot be read", "subject", subject, "err", err)
		}
	})
	if err != nil {
		return nil, err
	}
	// Wait until the server knows the subscription, so that it gets everything sent from now on. One
	// that is out of reach learns of it later.
	if q.nc.IsConnected() {
		if err := q.nc.FlushTimeout(listenTimeout); err != nil && q.nc.IsConnected() {
			q.log.Warn("a subscription may begin late", "subject", subject, "err", err)
		}
	}
	return func() {
		err := sub.Unsubscribe()
		if err != nil && !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, nats.ErrBadSubscription) {
			q.log.Debug("could not end a subscription", "subject", subject, "err", err)
		}
	}, nil
}
