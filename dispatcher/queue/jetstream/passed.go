package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// A replicated stream may lose its newest messages when all its servers lose power, while its consumers
// remember that they delivered them. The next messages get sequences that the consumer has passed: it
// never delivers them. nats-server 2.15 mends that for consumers with one replica; with several it
// deletes such messages minutes later. So we look for a message that stays in the stream although its
// consumer's acknowledgements have passed it, and make that consumer anew. It then delivers all that the
// stream holds. What an executor has in hand is delivered once more; its claim refuses that.

const (
	// passedEvery is the distance of two looks at the oldest message of each consumer.
	passedEvery = 3 * time.Second
	// passedFor is for how long an acknowledged message must stay before its consumer is made anew. An
	// acknowledged message goes when the servers have agreed on it, as a rule within milliseconds.
	passedFor = 5 * time.Second
)

// errPassed: a consumer was deleted, and is to be made anew.
var errPassed = errors.New("the consumer had passed messages of its stream")

// delivering is a consumer, and what is known of the oldest message that it has to deliver.
type delivering struct {
	stream, subject, consumer string

	oldest uint64 // its sequence, at the last look
	// passed is when the consumer, made at the instant made, was first seen to have passed it.
	passed, made time.Time
}

// delivering returns all consumers of runs.
func (ss *streams) delivering() (all []*delivering) {
	for _, l := range ss.lanes {
		for _, p := range schema.Priorities {
			all = append(all, &delivering{stream: l.stream, subject: ss.cfg.Names.Run(l.n, p), consumer: queue.ConsumerName(p)})
		}
	}
	return all
}

// look deletes the consumer, and returns errPassed, if it has passed the oldest message.
func (d *delivering) look(ctx context.Context, js jetstream.JetStream, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := js.Stream(ctx, d.stream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", d.stream, err)
	}
	var oldest uint64
	if s.CachedInfo().State.Msgs > 0 {
		m, err := s.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(d.subject))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case err != nil:
			return fmt.Errorf("oldest message of %s: %w", d.subject, err)
		default:
			oldest = m.Sequence
		}
	}
	if oldest == 0 || oldest != d.oldest {
		d.oldest, d.passed = oldest, time.Time{}
		return nil
	}
	c, err := s.Consumer(ctx, d.consumer)
	if err != nil {
		return fmt.Errorf("consumer %s of %s: %w", d.consumer, d.stream, err)
	}
	switch info := c.CachedInfo(); {
	case info.AckFloor.Stream < oldest:
		d.passed = time.Time{}
		return nil
	case d.passed.IsZero() || !d.made.Equal(info.Created):
		d.passed, d.made = now, info.Created // another node may have made it anew
		return nil
	case now.Sub(d.passed) < passedFor:
		return nil
	}
	d.oldest = 0
	if err := s.DeleteConsumer(ctx, d.consumer); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("consumer %s of %s: %w", d.consumer, d.stream, err)
	}
	return fmt.Errorf("consumer %s of %s: %w", d.consumer, d.stream, errPassed)
}
