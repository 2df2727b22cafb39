package inproc

import (
	"context"
	"errors"
	"sync"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// DefaultMaxBytes bounds a stream unless Config says otherwise.
const DefaultMaxBytes = 64 << 20

// PublishTimeout is how long a publication waits for its receipt.
const PublishTimeout = 3 * time.Second

// ErrNoAnswer says that no answer came in time, because of a cut or a Fault.
var ErrNoAnswer = errors.New("no answer")

// Config is how a broker behaves. The zero value is a network without faults.
type Config struct {
	MaxBytes int // bound of one stream, bytes of envelopes; 0 = DefaultMaxBytes
	// MaxAckPending bounds the deliveries held of a lane and priority; 0 = queue.MaxAckPending.
	MaxAckPending int
	Fault         Fault // nil: none
}

// Worker answers requests. It may block until ctx ends.
type Worker func(ctx context.Context, headers map[string]string, body []byte) (reply []byte, replyHeaders map[string]string)

// Broker plays the servers: streams, their consumers, and subscriptions.
type Broker struct {
	cfg Config

	mu           sync.Mutex
	streams      map[queue.Lane]*stream
	incarnations uint64
	conns        map[*Conn]struct{}
	listeners    map[channel][]*listener
	workers      map[string]Worker
	timers       map[*time.Timer]struct{} // of delayed messages
	closed       bool
}

// channel is what one subscribes to: hints or notices of a shard, or signals of a topic.
type channel struct {
	point Point
	shard schema.Shard
	topic string
}

// listener is one subscription of one connection.
type listener struct {
	conn *Conn
	box  *mailbox
	hear func(wire []byte)
}

// New makes a broker without streams; a lane's stream is made at its first use.
func New(cfg Config) *Broker {
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	if cfg.MaxAckPending == 0 {
		cfg.MaxAckPending = queue.MaxAckPending
	}
	return &Broker{
		cfg:       cfg,
		streams:   make(map[queue.Lane]*stream),
		conns:     make(map[*Conn]struct{}),
		listeners: make(map[channel][]*listener),
		workers:   make(map[string]Worker),
		timers:    make(map[*time.Timer]struct{}),
	}
}

// Connect makes a connection, which its user must Close. Its name is what a Fault sees.
func (b *Broker) Connect(name string) *Conn {
	c := &Conn{
		broker:   b,
		name:     name,
		window:   make(chan struct{}, queue.MaxPublishing),
		pending:  make(map[*publication]struct{}),
		changed:  make(chan struct{}),
		receipts: newMailbox(),
	}
	b.mu.Lock()
	b.conns[c] = struct{}{}
	b.mu.Unlock()
	return c
}

// DeleteStream deletes a lane's stream, with its messages and known message ids. The next use makes
// a new incarnation, whose sequences start at 1.
func (b *Broker) DeleteStream(lane queue.Lane) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.streams[lane]
	if !ok {
		return
	}
	delete(b.streams, lane)
	for _, sub := range s.subjects {
		sub.wake() // a waiting Fetch finds the new stream
	}
}

// Serve makes w answer the requests for subject, in place of any other, until stop is called.
func (b *Broker) Serve(subject string, w Worker) (stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.workers[subject] = w
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.workers, subject)
	}
}

// Close closes every connection and forgets what is delayed.
func (b *Broker) Close() {
	b.mu.Lock()
	b.closed = true
	for t := range b.timers {
		t.Stop()
	}
	clear(b.timers)
	conns := make([]*Conn, 0, len(b.conns))
	for c := range b.conns {
		conns = append(conns, c)
	}
	b.mu.Unlock()
	for _, c := range conns {
		_ = c.Close() // always nil
	}
}

// stream returns the lane's stream, and makes it if there is none. The caller holds mu.
func (b *Broker) stream(lane queue.Lane) *stream {
	s, ok := b.streams[lane]
	if !ok {
		b.incarnations++
		s = newStream(b.incarnations)
		b.streams[lane] = s
	}
	return s
}

// verdict asks the fault function.
func (b *Broker) verdict(e Event) Verdict {
	if b.cfg.Fault == nil {
		return Verdict{}
	}
	return b.cfg.Fault(e)
}

// after calls f once d has passed, at once if d is 0. The caller must not hold mu.
func (b *Broker) after(d time.Duration, f func()) {
	if d <= 0 {
		f()
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		b.mu.Lock()
		_, due := b.timers[t]
		delete(b.timers, t)
		b.mu.Unlock()
		if due {
			f()
		}
	})
	b.timers[t] = struct{}{}
}

// deliver passes wire on to every listener of ch, as far as cuts and faults allow.
func (b *Broker) deliver(from *Conn, ch channel, wire []byte) {
	if from.down() != nil {
		return
	}
	v := b.verdict(Event{Point: ch.point, Conn: from.name, Shard: ch.shard, Topic: ch.topic})
	if v.Drop {
		return
	}
	copies := 1
	if v.Double {
		copies = 2
	}
	b.after(v.Delay, func() {
		b.mu.Lock()
		listeners := append([]*listener(nil), b.listeners[ch]...)
		b.mu.Unlock()
		for _, l := range listeners {
			if l.conn.down() != nil {
				continue
			}
			for range copies {
				l.box.put(func() { l.hear(wire) })
			}
		}
	})
}

// listen adds a listener and returns what removes it.
func (b *Broker) listen(c *Conn, ch channel, hear func(wire []byte)) (cancel func(), err error) {
	l := &listener{conn: c, hear: hear}
	if err := c.own(l); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners[ch] = append(b.listeners[ch], l)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		kept := b.listeners[ch][:0:0]
		for _, other := range b.listeners[ch] {
			if other != l {
				kept = append(kept, other)
			}
		}
		b.listeners[ch] = kept
		l.box.close(false)
	}, nil
}
