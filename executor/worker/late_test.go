package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"carillon.dev/carillon/dispatcher/queue/jetstream/embedded"
	"carillon.dev/carillon/executor/worker"
)

// offered offers a run with that much time left, of which nobody says when it is 0, and returns the
// last word of the worker, which is answered that it was heard.
func offered(t *testing.T, server *embedded.Server, subject string, left time.Duration) string {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(server))
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer nc.Close()
	words, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	m := &nats.Msg{Subject: subject, Reply: words.Subject, Data: []byte(`{"n": 0}`), Header: nats.Header{
		"Carillon-Run-Id": {"r"}, "Carillon-Attempt": {"1"}, "Carillon-Fence": {"1"}, "Carillon-Due-At": {"2026-11-21T09:30:00.000Z"},
		"Carillon-Timeout-Ms": {"60000"},
	}}
	if left != 0 {
		m.Header.Set("Carillon-Deadline", time.Now().Add(left).UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	if err := nc.PublishMsg(m); err != nil {
		t.Fatalf("offer a run: %v", err)
	}
	for {
		word, err := words.NextMsg(patience)
		if err != nil {
			t.Fatalf("hear of a run: %v", err)
		}
		switch said := word.Header.Get("Carillon-Word"); said {
		case "declined":
			return said
		case "result":
			if err := nc.PublishMsg(&nats.Msg{Subject: word.Reply, Header: nats.Header{"Carillon-Ack": {"true"}}}); err != nil {
				t.Fatalf("answer: %v", err)
			}
			if err := nc.Flush(); err != nil {
				t.Fatalf("flush: %v", err)
			}
			return said
		}
	}
}

// TestWhatComesAfterItsDeadlineIsDeclined: a request that lay in a client's buffer was executed
// long after its attempt had timed out, since its time-out began when it came.
func TestWhatComesAfterItsDeadlineIsDeclined(t *testing.T) {
	r := newRig(t)
	begun := make(chan struct{}, 10)
	r.work(worker.Config{}, func(context.Context, worker.Run) (any, error) {
		begun <- struct{}{}
		return nil, nil
	})
	for name, c := range map[string]struct {
		left time.Duration
		want string
	}{
		"in time":     {time.Hour, "result"},
		"late":        {-time.Hour, "declined"},
		"no deadline": {0, "result"},
	} {
		if got := offered(t, r.server, "work.a", c.left); got != c.want {
			t.Errorf("%s: the worker says %q, want %q", name, got, c.want)
		}
	}
	if len(begun) != 2 {
		t.Errorf("%d runs were begun, want 2", len(begun))
	}
}
