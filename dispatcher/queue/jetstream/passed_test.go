package jetstream

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"carillon.dev/carillon/dispatcher/queue/jetstream/embedded"
)

// ahead is JetStream whose consumers say that they have delivered and acknowledged that much more
// than they have. A single server mends that when it starts; three of them do not, and cannot be
// brought there but by cutting their power (chaos scenario power-all).
type ahead struct {
	jetstream.JetStream
	delivered, acknowledged uint64
}

func (a *ahead) Consumer(ctx context.Context, stream, name string) (jetstream.Consumer, error) {
	c, err := a.JetStream.Consumer(ctx, stream, name)
	return aheadConsumer{c, a}, err
}

type aheadConsumer struct {
	jetstream.Consumer
	a *ahead
}

func (c aheadConsumer) CachedInfo() *jetstream.ConsumerInfo {
	info := *c.Consumer.CachedInfo()
	info.Delivered.Stream += c.a.delivered
	info.AckFloor.Stream += c.a.acknowledged
	return &info
}

// passing is a stream with two subjects, and a consumer of the second.
type passing struct {
	*testing.T
	js jetstream.JetStream
	s  jetstream.Stream
	d  delivering
}

func newPassing(t *testing.T, again bool) *passing {
	t.Helper()
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
	p := &passing{t, js, s, delivering{stream: "s", subject: "b", consumer: "c", again: again}}
	p.make()
	return p
}

func (p *passing) make() {
	p.Helper()
	if _, err := p.s.CreateOrUpdateConsumer(p.Context(), jetstream.ConsumerConfig{Durable: "c", FilterSubject: "b", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		p.Fatal(err)
	}
}

func (p *passing) publish(subjects ...string) {
	p.Helper()
	for _, subject := range subjects {
		if _, err := p.js.Publish(p.Context(), subject, nil); err != nil {
			p.Fatal(err)
		}
	}
}

// look looks once at a consumer that is ahead by so many messages.
func (p *passing) look(delivered, acknowledged uint64, mended bool, want error) {
	p.Helper()
	got, err := p.d.look(p.Context(), &ahead{p.js, delivered, acknowledged})
	if got != mended || !errors.Is(err, want) {
		p.Fatalf("look at a consumer that is ahead by %d and %d messages = %v, %v; want %v, %v", delivered, acknowledged, got, err, mended, want)
	}
}

// holds checks how many messages of both subjects the stream holds.
func (p *passing) holds(want uint64) {
	p.Helper()
	info, err := p.s.Info(p.Context())
	if err != nil || info.State.Msgs != want {
		p.Fatalf("the stream holds %+v, %v; want %d messages", info, err, want)
	}
}

func TestConsumersThatAreWellAreLeftAlone(t *testing.T) {
	p := newPassing(t, true)
	p.look(0, 0, false, nil) // nothing was ever published
	p.look(0, 0, false, nil)
	p.publish("a", "b", "b", "a")
	for range 3 {
		p.look(0, 0, false, nil) // all wait
	}
	for range 3 {
		p.look(1, 1, false, nil) // of another consumer
	}
	c, err := p.js.Consumer(t.Context(), "s", "c")
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Next()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		p.look(0, 0, false, nil) // one is in hand
	}
	if err := m.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		p.look(0, 0, false, nil)
	}
	p.look(0, 1, false, nil) // seen once: the servers may be about to delete it
	p.look(0, 0, false, nil)
	p.look(0, 1, false, nil)
	p.look(5, 0, false, nil)
	p.look(0, 0, false, nil)
	p.holds(3)
}

func TestAConsumerAheadOfItsStreamIsMadeAnew(t *testing.T) {
	for _, again := range []bool{true, false} {
		p := newPassing(t, again)
		p.publish("b")
		p.look(3, 0, false, nil)
		if err := p.s.DeleteConsumer(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		p.make()                 // by another node
		p.look(3, 0, false, nil) // it has delivered 3
		p.look(4, 0, false, nil) // it goes on: it is ahead of what was read of the stream alone
		p.publish("a")
		p.look(4, 0, true, errPassed)
		if _, err := p.js.Consumer(t.Context(), "s", "c"); !errors.Is(err, jetstream.ErrConsumerNotFound) {
			t.Fatalf("the consumer that is ahead of its stream stands: %v", err)
		}
		if again {
			p.holds(1) // what it may have delivered is published again, and says so
		} else {
			p.holds(2)
		}
	}
}

func TestMessagesThatAConsumerHasPassedAreDeleted(t *testing.T) {
	p := newPassing(t, true)
	p.publish("a", "b", "b", "b")
	p.look(0, 3, false, nil)
	p.look(0, 3, true, nil) // 2 and 3 go; 1 is not its own, 4 waits
	p.holds(2)
	for range 3 {
		p.look(0, 0, false, nil)
	}
	p.publish("b", "b") // 5, 6
	info, err := p.js.Consumer(t.Context(), "s", "c")
	if err != nil {
		t.Fatal(err)
	}
	floor := info.CachedInfo().AckFloor.Stream
	p.look(0, 5-floor, false, nil)
	if err := p.s.DeleteMsg(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	p.look(0, 5-floor, false, nil) // another one is the oldest
	p.look(0, 5-floor, true, nil)
	p.holds(2)
}

// Nobody publishes an event again.
func TestAConsumerThatHasPassedEventsIsMadeAnew(t *testing.T) {
	p := newPassing(t, false)
	p.publish("b", "b")
	p.look(0, 1, false, nil)
	p.look(0, 1, true, errPassed)
	p.holds(2)
}
