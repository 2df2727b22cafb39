package jetstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"carillon.dev/carillon/dispatcher/queue"
)

// inbox receives replies: one subscription for all requests of the connection. A token in the
// subject names the request.
type inbox struct {
	q      *Queue
	prefix string

	mu      sync.Mutex
	opened  bool
	waiting map[string]*request
}

// request is a request that waits for replies.
type request struct {
	mu    sync.Mutex // one reply at a time; held while hear is called
	hear  func(queue.Reply) bool
	ended bool
	done  chan error // cap 1
}

// Bounds of replies that wait for hear. Replies beyond them are lost, as NATS may lose them.
const (
	maxReplies    = 1 << 20
	maxReplyBytes = 256 << 20
)

// noResponders is the status of the server's reply when nobody listens.
const noResponders = "503"

func newInbox(q *Queue) *inbox {
	return &inbox{q: q, waiting: make(map[string]*request)}
}

// open subscribes at the first request. The server handles the messages of a connection in order,
// so it knows the inbox before it sees the request.
func (b *inbox) open() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened {
		return nil
	}
	b.prefix = drawInbox() + "."
	sub, err := b.q.subscribe(b.prefix+"*", b.receive)
	if err != nil {
		return err
	}
	b.opened = true
	if err := sub.SetPendingLimits(maxReplies, maxReplyBytes); err != nil {
		return fmt.Errorf("bound the inbox: %w", err)
	}
	return nil
}

// receive passes a reply to its request.
func (b *inbox) receive(m *nats.Msg) {
	b.mu.Lock()
	r := b.waiting[strings.TrimPrefix(m.Subject, b.prefix)]
	b.mu.Unlock()
	if r == nil || !r.take(b.reply(m)) {
		if mayAnswer(m.Reply) {
			b.q.send(m.Reply, map[string]string{queue.HeaderGone: "true"}, nil)
		}
	}
}

// inboxPrefix begins the subjects on which clients receive answers, also where each user has a
// prefix (_INBOX_name).
const inboxPrefix = "_INBOX"

// drawInbox returns a random name of an inbox. Names of nats.NewInbox count up, so a worker could
// guess them: it knows the inbox of its result and may publish to all inboxes. It must not be able
// to forge pulls and receipts of JetStream.
func drawInbox() string { return inboxPrefix + "." + rand.Text() }

// mayAnswer reports whether we answer a worker on the subject that it names: only on an inbox. We
// publish with our own permissions, and an empty message on a subject of the JetStream API deletes
// a stream.
func mayAnswer(subject string) bool {
	return strings.HasPrefix(subject, inboxPrefix)
}

// reply makes a Reply of a message.
func (b *inbox) reply(m *nats.Msg) queue.Reply {
	r := queue.Reply{Body: m.Data}
	if len(m.Header) > 0 {
		r.Headers = make(map[string]string, len(m.Header))
		for name, values := range m.Header {
			if len(values) > 0 {
				r.Headers[name] = values[0]
			}
		}
	}
	if to := m.Reply; mayAnswer(to) {
		r.Answer = func(headers map[string]string, body []byte) { b.q.send(to, headers, body) }
	}
	return r
}

// take calls hear with a reply, unless the request has ended.
func (r *request) take(reply queue.Reply) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended:
		return false
	case len(reply.Body) == 0 && reply.Headers["Status"] == noResponders:
		r.ended = true
		r.done <- queue.ErrNoWorker
	case !r.hear(reply):
		r.ended = true
		r.done <- nil
	}
	return true
}

// end makes sure that hear is not called any more.
func (r *request) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

func message(subject string, headers map[string]string, body []byte) *nats.Msg {
	m := &nats.Msg{Subject: subject, Data: body, Header: make(nats.Header, len(headers))}
	for name, value := range headers {
		m.Header[name] = []string{value}
	}
	return m
}

// Request implements queue.Requester.
func (q *Queue) Request(ctx context.Context, subject string, headers map[string]string, body []byte, hear func(queue.Reply) bool) error {
	if err := q.request(ctx, subject, headers, body, hear); err != nil {
		return fmt.Errorf("request %s: %w", subject, err)
	}
	return nil
}

// Reachable implements queue.Requester.
func (q *Queue) Reachable() bool { return q.nc.IsConnected() }

func (q *Queue) request(ctx context.Context, subject string, headers map[string]string, body []byte, hear func(queue.Reply) bool) error {
	if err := queue.CheckHeaders(headers); err != nil {
		return err
	}
	if _, err := q.current(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// The client would buffer the request and send it after it reconnects, when nobody waits for
	// the answer.
	if !q.Reachable() {
		return queue.ErrOffline
	}
	if err := q.inbox.open(); err != nil {
		return err
	}
	r := &request{hear: hear, done: make(chan error, 1)}
	token := rand.Text() // must not be guessed: who knows it may answer
	q.inbox.mu.Lock()
	q.inbox.waiting[token] = r
	q.inbox.mu.Unlock()
	defer func() {
		q.inbox.mu.Lock()
		delete(q.inbox.waiting, token)
		q.inbox.mu.Unlock()
	}()
	m := message(subject, headers, body)
	m.Reply = q.inbox.prefix + token
	if err := q.nc.PublishMsg(m); err != nil {
		switch {
		case errors.Is(err, nats.ErrConnectionClosed):
			err = queue.ErrClosed
		case errors.Is(err, nats.ErrReconnectBufExceeded): // the connection was lost just now
			err = queue.ErrOffline
		}
		return err
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		r.end()
		return ctx.Err()
	case <-q.stopping.Done():
		r.end()
		return queue.ErrClosed
	}
}
