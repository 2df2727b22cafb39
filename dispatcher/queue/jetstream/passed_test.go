package jetstream

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"carillon.dev/carillon/dispatcher/queue/jetstream/embedded"
)

// ahead is JetStream whose consumers have acknowledged up to floor, whatever the stream holds. A single
// server mends that when it starts; three of them do not, and cannot be brought there but by cutting
// their power (chaos scenario power-all).
type ahead struct {
	jetstream.JetStream
	floor uint64
}

func (a *ahead) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := a.JetStream.Stream(ctx, name)
	return aheadStream{s, a}, err
}

type aheadStream struct {
	jetstream.Stream
	a *ahead
}

func (s aheadStream) Consumer(ctx context.Context, name string) (jetstream.Consumer, error) {
	c, err := s.Stream.Consumer(ctx, name)
	return aheadConsumer{c, s.a}, err
}

type aheadConsumer struct {
	jetstream.Consumer
	a *ahead
}

func (c aheadConsumer) CachedInfo() *jetstream.ConsumerInfo {
	info := *c.Consumer.CachedInfo()
	info.AckFloor.Stream = c.a.floor
	return &info
}

// TestAConsumerThatHasPassedMessagesIsDeleted: and no other.
func TestAConsumerThatHasPassedMessagesIsDeleted(t *testing.T) {
	srv, err := embedded.Start(embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "s", Subjects: []string{"a", "b"}, Retention: jetstream.WorkQueuePolicy})
	if err != nil {
		t.Fatal(err)
	}
	remake := func() {
		t.Helper()
		if _, err := s.CreateOrUpdateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "c", FilterSubject: "b", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
			t.Fatal(err)
		}
	}
	publish := func(subject string) {
		t.Helper()
		if _, err := js.Publish(t.Context(), subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	remake()
	a := &ahead{js, 9}
	now := time.Now()
	d := &delivering{stream: "s", subject: "b", consumer: "c"}
	look := func(after time.Duration, want error) {
		t.Helper()
		now = now.Add(after)
		if err := d.look(t.Context(), a, now); !errors.Is(err, want) {
			t.Fatalf("look = %v, want %v", err, want)
		}
	}
	publish("a") // of another consumer
	for range 4 {
		look(passedFor, nil)
	}
	publish("b") // 2
	a.floor = 1
	for range 4 {
		look(passedFor, nil) // it waits for an executor
	}
	a.floor = 9
	look(passedFor, nil) // first seen to be passed
	look(passedFor-1, nil)
	a.floor = 1
	look(1, nil) // not any more
	a.floor = 9
	look(passedFor, nil)
	if err := s.DeleteConsumer(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	remake()             // by another node
	look(passedFor, nil) // it is first seen now
	look(passedFor, errPassed)
	if _, err := s.Consumer(t.Context(), "c"); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Fatalf("the consumer that has passed a message stands: %v", err)
	}
	remake()
	look(passedFor, nil)
	if err := s.DeleteMsg(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	publish("b")
	look(passedFor, nil) // another message
	look(passedFor, nil)
	look(passedFor, errPassed)
}
