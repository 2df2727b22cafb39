package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/queue/jetstream"
	"carillon.dev/carillon/schema"
)

// talk connects, and has a worker on another connection serve subject.
func talk(t *testing.T, subject string, serve func(nc *nats.Conn, m *nats.Msg)) (*jetstream.Queue, *nats.Conn) {
	t.Helper()
	cfg := jetstream.Config{Server: start(t), Names: uniqueNames()}
	q := connect(t, cfg)
	nc, _ := dial(t, cfg)
	if _, err := nc.Subscribe(subject, func(m *nats.Msg) { serve(nc, m) }); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	return q, nc
}

func TestRequestHearsEveryReplyInOrder(t *testing.T) {
	const replies = 1000
	q, _ := talk(t, "work.talk", func(nc *nats.Conn, m *nats.Msg) {
		for i := range replies {
			if err := nc.Publish(m.Reply, fmt.Appendf(nil, "%s %d", m.Data, i)); err != nil {
				t.Errorf("reply: %v", err)
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all sync.WaitGroup
	for n := range 20 { // each hears its own
		all.Go(func() {
			next := 0
			err := q.Request(ctx, "work.talk", nil, fmt.Append(nil, n), func(r queue.Reply) bool {
				if want := fmt.Sprintf("%d %d", n, next); string(r.Body) != want {
					t.Errorf("reply: got %q, want %q", r.Body, want)
				}
				next++
				return next < replies/2
			})
			if err != nil || next != replies/2 {
				t.Errorf("Request %d: heard %d replies, %v; want %d, and no more", n, next, err, replies/2)
			}
		})
	}
	all.Wait()
}

// TestAWorkerCannotGuessOtherInboxes: where a result goes tells a worker nothing of where receipts
// and pulls are answered, though it may publish there too.
func TestAWorkerCannotGuessOtherInboxes(t *testing.T) {
	const alike = len("_INBOX.") + 4 // that many letters are not the same by chance
	where := make(chan string, 10)
	q, nc := talk(t, "work.where", func(_ *nats.Conn, m *nats.Msg) {
		where <- m.Reply
		_ = m.Respond(nil)
	})
	others := make(chan string, 10)
	for _, subject := range []string{"*.run.>", "$JS.API.CONSUMER.MSG.NEXT.>"} {
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) { others <- m.Reply }); err != nil {
			t.Fatalf("subscribe: %v", err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := q.Request(ctx, "work.where", nil, nil, func(queue.Reply) bool { return false }); err != nil {
		t.Fatalf("Request: %v", err)
	}
	publish(t, q, envelope(t, 1))
	if _, err := q.Fetch(ctx, 0, schema.Normal, 1, time.Second); err != nil {
		t.Fatalf("Fetch: %v", err)
	}
	seen := <-where
	for range 2 {
		if other := <-others; other[:alike] == seen[:alike] {
			t.Errorf("a worker that is to answer in %s may guess %s", seen, other)
		}
	}
}

// TestAWorkerIsAnsweredInItsInboxAlone: what is published goes out under our permissions, so a
// worker does not say where to. It said so, and had the stream deleted.
func TestAWorkerIsAnsweredInItsInboxAlone(t *testing.T) {
	heard := make(chan string, 10)
	named := []string{"$JS.API.STREAM.DELETE.X", "carillon.signal.task", "somebody.else", "", "_INBOX.mine", "_INBOX_user.mine"}
	q, nc := talk(t, "work.name", func(nc *nats.Conn, m *nats.Msg) {
		for _, to := range named {
			if err := nc.PublishMsg(&nats.Msg{Subject: m.Reply, Reply: to, Data: []byte(to)}); err != nil {
				t.Errorf("reply: %v", err)
			}
		}
	})
	if _, err := nc.Subscribe(">", func(m *nats.Msg) {
		if m.Header.Get("Carillon-Ack") != "" || m.Header.Get(queue.HeaderGone) != "" {
			heard <- m.Subject
		}
	}); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n := 0
	if err := q.Request(ctx, "work.name", nil, nil, func(r queue.Reply) bool {
		if want := strings.HasPrefix(string(r.Body), "_INBOX"); (r.Answer != nil) != want {
			t.Errorf("a word that names %q can be answered: %v, want %v", r.Body, r.Answer != nil, want)
		}
		if n++; r.Answer != nil {
			r.Answer(map[string]string{"Carillon-Ack": "true"}, nil)
		}
		return n < len(named)-1 // the last one comes too late
	}); err != nil || n != len(named)-1 {
		t.Fatalf("Request = %v after %d words, want %d", err, n, len(named)-1)
	}
	for _, want := range []string{"_INBOX.mine", "_INBOX_user.mine"} {
		select {
		case got := <-heard:
			if got != want {
				t.Errorf("answered on %q, want %q", got, want)
			}
		case <-ctx.Done():
			t.Fatalf("nothing heard on %q", want)
		}
	}
}

func TestRequestAnswersItsWorker(t *testing.T) {
	answers := make(chan string, 10)
	again := make(chan *nats.Msg, 1)
	q, nc := talk(t, "work.ack", func(nc *nats.Conn, m *nats.Msg) {
		end := &nats.Msg{Subject: m.Reply, Header: nats.Header{"Carillon-Word": {"result"}}, Data: []byte("x")}
		go func() { // the subscription goes on
			answer, err := nc.RequestMsg(end, patience)
			if err != nil {
				answers <- err.Error()
				return
			}
			answers <- answer.Header.Get("Carillon-Ack")
			again <- end
		}()
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := q.Request(ctx, "work.ack", nil, nil, func(r queue.Reply) bool {
		r.Answer(map[string]string{"Carillon-Ack": "yes"}, nil)
		return false
	})
	if err != nil {
		t.Fatalf("Request: %v", err)
	}
	if got := <-answers; got != "yes" {
		t.Errorf("the end was answered with %q, want yes", got)
	}
	answer, err := nc.RequestMsg(<-again, patience)
	if err != nil || answer.Header.Get(queue.HeaderGone) != "true" {
		t.Errorf("the end said again was answered with %v, %v; want %s", answer, err, queue.HeaderGone)
	}
}

// TestReplyToNoRequest: a reply under a token that was never given out is answered that nobody
// waits for it, and is heard by nobody who waits for his own.
func TestReplyToNoRequest(t *testing.T) {
	inboxes := make(chan string, 1)
	q, nc := talk(t, "work.mine", func(_ *nats.Conn, m *nats.Msg) { inboxes <- m.Reply })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	heard := make(chan string, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- q.Request(ctx, "work.mine", nil, nil, func(r queue.Reply) bool {
			heard <- string(r.Body)
			return false
		})
	}()
	inbox := <-inboxes
	prefix, token := inbox[:strings.LastIndex(inbox, ".")+1], inbox[strings.LastIndex(inbox, ".")+1:]
	for name, other := range map[string]string{
		"another of its form": strings.Repeat("A", len(token)),
		"a part of one":       token[:len(token)-1],
		"one and more":        token + "A",
		"in another case":     strings.ToLower(token),
	} {
		answer, err := nc.Request(prefix+other, []byte("not mine"), patience)
		if err != nil || answer.Header.Get(queue.HeaderGone) != "true" {
			t.Fatalf("%s: the reply was answered with %v, %v; want %s", name, answer, err, queue.HeaderGone)
		}
		// which asks for no answer
		if err := nc.Publish(prefix+other, []byte("not mine")); err != nil {
			t.Fatalf("%s: reply: %v", name, err)
		}
	}
	if err := nc.Publish(inbox, []byte("mine")); err != nil {
		t.Fatalf("reply: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Request: %v", err)
	}
	if got := <-heard; got != "mine" || len(heard) > 0 {
		t.Errorf("the request heard %q and %d more, want its own reply alone", got, len(heard))
	}
}

func TestRequestOfASecretInbox(t *testing.T) {
	subjects := make(chan string, 2)
	q, _ := talk(t, "work.who", func(nc *nats.Conn, m *nats.Msg) {
		subjects <- m.Reply
		if err := m.Respond(nil); err != nil {
			t.Errorf("respond: %v", err)
		}
	})
	for range 2 {
		if err := q.Request(t.Context(), "work.who", nil, nil, func(queue.Reply) bool { return false }); err != nil {
			t.Fatalf("Request: %v", err)
		}
	}
	one, two := <-subjects, <-subjects
	if token := one[strings.LastIndex(one, ".")+1:]; one == two || len(token) < 26 {
		t.Errorf("inboxes %q and %q: want two, of which one cannot be told by the other", one, two)
	}
}

// TestReplyTooLargeForTheServer: the worker's own client refuses it, and the executor hears
// nothing: its time-out ends it.
func TestReplyTooLargeForTheServer(t *testing.T) {
	refused := make(chan error, 1)
	q, _ := talk(t, "work.large", func(_ *nats.Conn, m *nats.Msg) { refused <- m.Respond(make([]byte, 100<<20)) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		if err := <-refused; !errors.Is(err, nats.ErrMaxPayload) {
			t.Errorf("a reply of 100 MB: %v, want ErrMaxPayload", err)
		}
		cancel()
	}()
	err := q.Request(ctx, "work.large", nil, nil, func(queue.Reply) bool { t.Error("a reply of 100 MB was heard"); return false })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Request: got %v, want it to wait until it is cancelled", err)
	}
}

func TestCloseEndsRequests(t *testing.T) {
	asked := make(chan struct{})
	q, _ := talk(t, "work.never", func(*nats.Conn, *nats.Msg) { close(asked) })
	ended := make(chan error, 1)
	go func() {
		ended <- q.Request(context.Background(), "work.never", nil, nil, func(queue.Reply) bool { return false })
	}()
	<-asked
	if err := q.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, queue.ErrClosed) {
			t.Errorf("Request when the queue is closed: %v, want ErrClosed", err)
		}
	case <-time.After(patience):
		t.Error("Request goes on after Close")
	}
}
