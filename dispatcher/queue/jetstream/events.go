package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

const (
	eventBatch    = 64               // events of one pull, which are taken in at once
	eventPull     = time.Second      // how long a pull waits
	eventsPending = 1024             // unacknowledged at most, of all nodes
	eventAgain    = time.Second      // until an event comes again that could not be taken in
	eventBytes    = 64 << 20         // of the stream; beyond it publishers are refused
	eventConsumer = "carillon_nodes" // durable, shared by all nodes
)

// ConsumeEvents hands events that clients published on NATS to f, several at once, until ctx ends. It
// makes their stream. An event is acknowledged when f returns nil or queue.ErrRefused, and comes again
// otherwise: so f may see it more than once, with the same key. It returns nil.
func (q *Queue) ConsumeEvents(ctx context.Context, f func(ctx context.Context, e queue.PublishedEvent) error) error {
	r := &eventReader{q, f}
	var failed error // the last time
	looked, consumer := time.Now(), []*delivering{{stream: q.cfg.Names.EventStream(), subject: q.cfg.Names.Events(), consumer: eventConsumer}}
	for ctx.Err() == nil {
		c, err := q.streams.ensureEvents(ctx)
		for err == nil && ctx.Err() == nil {
			failed, err = nil, r.pull(ctx, c)
			if now := time.Now(); err == nil && now.Sub(looked) >= passedEvery {
				looked, err = now, q.streams.lookAt(consumer)
			}
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if failed == nil || failed.Error() != err.Error() {
			q.log.Warn("events from nats cannot be read: to be tried again", "stream", q.cfg.Names.EventStream(), "err", err)
		}
		failed = err
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
	return nil
}

// ensureEvents makes the stream of events and its consumer, or finds them.
func (ss *streams) ensureEvents(ctx context.Context) (jetstream.Consumer, error) {
	if _, err := ss.current(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	s, err := ss.js.Stream(ctx, ss.cfg.Names.EventStream())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		cfg := ss.streamConfig(ss.lanes[0], jetstream.StreamConfig{})
		cfg.Name, cfg.Subjects, cfg.Description = ss.cfg.Names.EventStream(), []string{ss.cfg.Names.Events()}, "events that clients publish, until they are taken in; made by carillon"
		cfg.MaxBytes, cfg.MaxMsgSize = eventBytes, schema.MaxPayload+4096 // and its headers
		s, err = ss.withReplicas(cfg, func(cfg jetstream.StreamConfig) (jetstream.Stream, error) {
			return ss.js.CreateOrUpdateStream(ctx, cfg)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("stream of events: %w", err)
	}
	c, err := s.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: eventConsumer, Description: "events to be taken in", DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: queue.AckWait, MaxAckPending: eventsPending, MaxDeliver: -1,
	})
	if err != nil {
		return nil, fmt.Errorf("consumer of events: %w", err)
	}
	return c, nil
}

// eventReader hands events to f.
type eventReader struct {
	*Queue
	f func(ctx context.Context, e queue.PublishedEvent) error
}

// pull pulls once, and hands what came to f.
func (q *eventReader) pull(ctx context.Context, c jetstream.Consumer) error {
	batch, err := c.Fetch(eventBatch, jetstream.FetchMaxWait(eventPull))
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for m := range batch.Messages() {
		wg.Go(func() { q.take(ctx, m) })
	}
	wg.Wait()
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, jetstream.ErrNoMessages) {
		return err
	}
	return nil
}

func (q *eventReader) take(ctx context.Context, m jetstream.Msg) {
	e := queue.PublishedEvent{Body: m.Data(), Key: m.Headers().Get(nats.MsgIdHdr)}
	e.Tenant, e.Name, _ = q.cfg.Names.ParseEvent(m.Subject())
	if e.Key == "" {
		meta, err := m.Metadata()
		if err != nil {
			q.metrics.malformed.Inc()
			_ = m.Term() // no message of a stream
			return
		}
		// A stream that was made anew counts from 1 again, but stores at another instant.
		e.Key = strconv.FormatInt(meta.Timestamp.UnixNano(), 10) + "/" + strconv.FormatUint(meta.Sequence.Stream, 10)
	}
	err := q.f(ctx, e)
	switch {
	case err == nil:
		err = m.Ack()
	case errors.Is(err, queue.ErrRefused):
		err = m.Term()
	default:
		q.log.Debug("an event from nats was not taken in: it comes again", "event", e.Name, "tenant", e.Tenant, "err", err)
		err = m.NakWithDelay(eventAgain)
	}
	if err != nil {
		q.metrics.unsent.Inc() // it comes again
	}
}
