package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// Near implements schema.Hints.
func (q *Queue) Near(shard schema.Shard, entries []schema.Entry) {
	for wire := range queue.EncodeHints(entries) {
		q.advise(q.cfg.Names.Near(shard), wire)
	}
}

// Done implements schema.Notices. It sends what it is given at once: callers batch.
func (q *Queue) Done(shard schema.Shard, notices []schema.Notice) {
	for wire := range queue.EncodeNotices(notices) {
		q.advise(q.cfg.Names.Done(shard), wire)
	}
}

// Signal implements queue.Signals.
func (q *Queue) Signal(topic string, body []byte) { q.advise(q.cfg.Names.Signal(topic), body) }

// advise sends what may be lost.
func (q *Queue) advise(subject string, wire []byte) {
	if err := q.nc.Publish(subject, wire); err != nil {
		q.metrics.unsent.Inc()
		q.log.Debug("advice could not be sent", "subject", subject, "err", err)
	}
}

// SubscribeNear implements queue.Bus.
func (q *Queue) SubscribeNear(shard schema.Shard, f func([]schema.Entry)) (cancel func(), err error) {
	return q.hear(q.cfg.Names.Near(shard), func(wire []byte) error {
		entries, err := queue.ParseHints(wire)
		if len(entries) > 0 {
			f(entries)
		}
		return err
	})
}

// SubscribeDone implements queue.Bus.
func (q *Queue) SubscribeDone(shard schema.Shard, f func([]schema.Notice)) (cancel func(), err error) {
	return q.hear(q.cfg.Names.Done(shard), func(wire []byte) error {
		notices, err := queue.ParseNotices(wire)
		if len(notices) > 0 {
			f(notices)
		}
		return err
	})
}

// SubscribeSignal implements queue.Signals.
func (q *Queue) SubscribeSignal(topic string, f func([]byte)) (cancel func(), err error) {
	return q.hear(q.cfg.Names.Signal(topic), func(body []byte) error { f(body); return nil })
}

// hear calls f with every message until cancel is called.
func (q *Queue) hear(subject string, f func(wire []byte) error) (cancel func(), err error) {
	sub, err := q.subscribe(subject, func(m *nats.Msg) {
		if err := f(m.Data); err != nil {
			q.metrics.malformed.Inc()
			q.log.Warn("a message cannot be read", "subject", subject, "err", err)
		}
	})
	if err != nil {
		return nil, err
	}
	// The server must know before the caller goes on: what is sent from now on is heard.
	if err := q.nc.FlushTimeout(callTimeout); err != nil && q.nc.IsConnected() {
		q.log.Warn("a subscription may begin late", "subject", subject, "err", err)
	}
	return func() {
		err := sub.Unsubscribe()
		if err != nil && !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, nats.ErrBadSubscription) {
			q.log.Debug("could not end a subscription", "subject", subject, "err", err)
		}
	}, nil
}

// Request implements queue.Requester.
func (q *Queue) Request(ctx context.Context, subject string, headers map[string]string, body []byte) (reply []byte, replyHeaders map[string]string, err error) {
	reply, replyHeaders, err = q.request(ctx, subject, headers, body)
	if err != nil {
		return nil, nil, fmt.Errorf("request %s: %w", subject, err)
	}
	return reply, replyHeaders, nil
}

func (q *Queue) request(ctx context.Context, subject string, headers map[string]string, body []byte) ([]byte, map[string]string, error) {
	if err := queue.CheckHeaders(headers); err != nil {
		return nil, nil, err
	}
	if _, err := q.current(); err != nil {
		return nil, nil, err
	}
	m := &nats.Msg{Subject: subject, Data: body, Header: make(nats.Header, len(headers))}
	for name, value := range headers {
		m.Header[name] = []string{value}
	}
	answer, err := q.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		if errors.Is(err, nats.ErrNoResponders) {
			err = queue.ErrNoWorker
		}
		return nil, nil, err
	}
	first := make(map[string]string, len(answer.Header))
	for name, values := range answer.Header {
		if len(values) > 0 {
			first[name] = values[0]
		}
	}
	return answer.Data, first, nil
}
