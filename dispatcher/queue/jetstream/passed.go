package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"carillon.dev/carillon/dispatcher/queue"
)

// A replicated stream may lose its newest messages when all its servers lose power, while its
// consumers remember that they delivered them. The next messages get sequences that the consumer
// has passed: it never delivers them, and they stay. nats-server 2.15 mends that for consumers with
// one replica; with several it deletes such messages minutes later. We look for it, and mend it
// sooner:
//
//	it has acknowledged messages that the        they are deleted
//	stream holds
//	the consumer has delivered more than the     its messages are deleted, and it is made anew: it would
//	stream has ever held                         pass those that come next
//
// What was deleted the dispatcher publishes again, as it sees that the stream no longer holds it,
// and says that it may have been delivered. A consumer that is made anew does not know which
// messages it delivered before, and an executor that is given such a message must know: so none of
// them are left.
//
// Nobody publishes events again, and taking one in twice changes nothing: of events nothing is
// deleted, and the consumer is made anew in both cases.

// passedEvery is the distance of two looks at a consumer. What two of them see is mended. An
// acknowledged message goes when the servers have agreed on it, as a rule within milliseconds.
const passedEvery = 3 * time.Second

// errPassed: a consumer was deleted, and is to be made anew.
var errPassed = errors.New("the consumer had passed messages of its stream")

// delivering is a consumer that may have passed messages of its stream.
type delivering struct {
	stream, subject, consumer string
	again                     bool // somebody publishes again what is deleted
	seen                      passed
}

// passed is what a look has seen; the zero value: nothing is wrong.
type passed struct {
	made   time.Time // when the consumer was made
	ahead  uint64    // so far it has delivered, which is more than the stream has ever held; else 0
	oldest uint64    // else: the oldest message, which it has acknowledged
}

// delivering returns all consumers of runs.
func (ss *streams) delivering() (all []*delivering) {
	for _, of := range ss.classes() {
		for _, l := range ss.lanes {
			all = append(all, &delivering{stream: l.stream, subject: ss.cfg.Names.RunOf(l.n, of.priority, of.pool), consumer: queue.ConsumerOf(of.priority, of.pool), again: true})
		}
	}
	return all
}

// alsoOfPools returns consumers with those of pools that have become known.
func (ss *streams) alsoOfPools(consumers []*delivering) []*delivering {
	runs := 0
	for _, d := range consumers {
		if d.again {
			runs++
		}
	}
	if want := ss.delivering(); len(want) > runs { // pools are only added, at the end
		return append(consumers, want[runs:]...)
	}
	return consumers
}

// look mends what it sees, if the look before has seen the same, and reports whether it did. It
// returns errPassed if the consumer is to be made anew.
func (d *delivering) look(ctx context.Context, js jetstream.JetStream) (mended bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	was := d.seen
	d.seen = passed{}
	s, floor, now, err := d.read(ctx, js)
	if err != nil {
		return false, fmt.Errorf("consumer %s of %s: %w", d.consumer, d.stream, err)
	}
	switch {
	case now == passed{}:
		return false, nil
	case now != was:
		d.seen = now
		return false, nil
	}
	if d.again {
		which := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(d.subject)}
		if now.ahead == 0 {
			which = append(which, jetstream.WithPurgeSequence(floor+1))
		}
		if err := s.Purge(ctx, which...); err != nil {
			return false, fmt.Errorf("delete what consumer %s of %s has passed: %w", d.consumer, d.stream, err)
		}
		if now.ahead == 0 {
			return true, nil
		}
	}
	if err := s.DeleteConsumer(ctx, d.consumer); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, fmt.Errorf("delete consumer %s of %s: %w", d.consumer, d.stream, err)
	}
	return true, fmt.Errorf("consumer %s of %s: %w", d.consumer, d.stream, errPassed)
}

// read reads how the consumer and its stream stand. All messages up to floor are acknowledged.
func (d *delivering) read(ctx context.Context, js jetstream.JetStream) (s jetstream.Stream, floor uint64, p passed, err error) {
	c, err := js.Consumer(ctx, d.stream, d.consumer)
	if err != nil {
		return nil, 0, p, err
	}
	// In this order: a consumer that is well has not delivered more than the stream holds later.
	if s, err = js.Stream(ctx, d.stream); err != nil {
		return nil, 0, p, err
	}
	info, state := c.CachedInfo(), s.CachedInfo().State
	floor = info.AckFloor.Stream
	switch {
	case info.Delivered.Stream > state.LastSeq:
		return s, floor, passed{made: info.Created, ahead: info.Delivered.Stream}, nil
	case state.Msgs == 0 || state.FirstSeq > floor:
		return s, floor, p, nil
	}
	m, err := s.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(d.subject))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound), err == nil && m.Sequence > floor:
		return s, floor, p, nil
	case err != nil:
		return nil, 0, p, err
	}
	return s, floor, passed{made: info.Created, oldest: m.Sequence}, nil
}
