package jetstream_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/queue/jetstream"
	"carillon.dev/carillon/schema"
)

// eventSink notes what events it was handed, and answers them.
type eventSink struct {
	mu     sync.Mutex
	seen   []queue.PublishedEvent
	answer func(e queue.PublishedEvent, times int) error
}

func (s *eventSink) take(_ context.Context, e queue.PublishedEvent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	times := 1
	for _, other := range s.seen {
		if other.Key == e.Key {
			times++
		}
	}
	s.seen = append(s.seen, e)
	return s.answer(e, times)
}

// of returns the events that were handed out of a name.
func (s *eventSink) of(name string) (found []queue.PublishedEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.seen {
		if e.Name == name {
			found = append(found, e)
		}
	}
	return found
}

// consume has two nodes take events in until the test ends.
func consume(t *testing.T, s *eventSink, queues ...*jetstream.Queue) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, q := range queues {
		wg.Go(func() { _ = q.ConsumeEvents(ctx, s.take) })
	}
	t.Cleanup(func() { cancel(); wg.Wait() })
}

func TestEventsOfClientsAreTakenIn(t *testing.T) {
	server := start(t)
	cfg := jetstream.Config{Server: server, Lanes: 1}
	nc, js := dial(t, cfg)
	s := &eventSink{answer: func(e queue.PublishedEvent, times int) error {
		switch {
		case e.Name == "twice" && times == 1:
			return errors.New("the store is away")
		case e.Name == "refused":
			return queue.ErrRefused
		}
		return nil
	}}
	consume(t, s, connect(t, cfg), connect(t, cfg))
	publishEvent := func(subject, id, body string) error {
		m := nats.NewMsg(subject)
		m.Data = []byte(body)
		if id != "" {
			m.Header.Set(nats.MsgIdHdr, id)
		}
		_, err := js.PublishMsg(t.Context(), m)
		return err
	}
	until(t, "the stream is there", func() bool {
		return publishEvent(queue.DefaultNames.Event("acme.eu", "file.uploaded"), "id-1", `{"a":1}`) == nil
	})
	if err := publishEvent(queue.DefaultNames.Event("acme.eu", "file.uploaded"), "id-1", `{"a":1}`); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"twice", "refused"} {
		if err := publishEvent(queue.DefaultNames.Event("t", name), "", `1`); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all are taken in", func() bool {
		return len(s.of("file.uploaded")) > 0 && len(s.of("twice")) > 1 && len(s.of("refused")) > 0
	})
	if got := s.of("file.uploaded"); got[0].Tenant != "acme.eu" || got[0].Key != "id-1" || string(got[0].Body) != `{"a":1}` {
		t.Errorf("event = %+v", got[0])
	}
	if got := s.of("twice"); got[0].Key == "" || got[0].Key != got[1].Key {
		t.Errorf("handed out with the keys %q and %q, want the same", got[0].Key, got[1].Key)
	}
	stream, err := js.Stream(t.Context(), queue.DefaultNames.EventStream())
	if err != nil {
		t.Fatal(err)
	}
	until(t, "nothing is left", func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.State.Msgs == 0
	})
	if n := len(s.of("refused")); n != 1 {
		t.Errorf("what is refused was handed out %d times", n)
	}
	// Somebody deletes the stream: it is made anew.
	if err := js.DeleteStream(t.Context(), queue.DefaultNames.EventStream()); err != nil {
		t.Fatal(err)
	}
	until(t, "an event after the stream was deleted", func() bool {
		if err := publishEvent(queue.DefaultNames.Event("t", "later"), "", `1`); err != nil {
			time.Sleep(50 * time.Millisecond)
		}
		return len(s.of("later")) > 0
	})
	// The new stream counts from 1 again: no event has the key of another.
	for range 4 {
		if err := publishEvent(queue.DefaultNames.Event("t", "later"), "", `1`); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "more events of the new stream", func() bool { return len(s.of("later")) >= 5 })
	keys := make(map[string]string)
	for _, name := range []string{"twice", "refused", "later"} {
		for _, e := range s.of(name) {
			if other, ok := keys[e.Key]; ok && other != name {
				t.Errorf("an event %s and an event %s have the key %s", name, other, e.Key)
			}
			keys[e.Key] = name
		}
	}
	// One that is too large is refused by the server: its publisher hears of it.
	var api *natsjs.APIError
	large := `"` + strings.Repeat("x", schema.MaxPayload+8192) + `"`
	if err := publishEvent(queue.DefaultNames.Event("t", "large"), "", large); !errors.As(err, &api) {
		t.Errorf("publish 72 KiB = %v, want the server's refusal", err)
	}
	_ = nc
}
