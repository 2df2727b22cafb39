package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// Bounds of waiting for NATS.
const (
	dialTimeout    = 2 * time.Second        // of one attempt to connect
	callTimeout    = 2 * time.Second        // of one request to JetStream
	listenTimeout  = 500 * time.Millisecond // until the server knows a subscription
	pingInterval   = 2 * time.Second        // a server that misses two pings counts as lost
	reconnectWait  = 250 * time.Millisecond
	flusherTimeout = 5 * time.Second
	retryPause     = 500 * time.Millisecond // between attempts to connect or to make streams
	retryPauseMax  = 5 * time.Second
)

// Queue is a connection to NATS. It is safe for concurrent use. Its methods are those of
// queue.Queue: everything else is in the types that it is made of.
type Queue struct {
	*connection
	streams *streams
	pub     *publisher
	inbox   *inbox
	clocks  []*serverClock // one for each URL
}

var _ queue.Queue = (*Queue)(nil)

// Connect connects to NATS and makes the streams. While that fails, it logs why and retries, until
// ctx ends or a server refuses the log-in. Once connected, the queue reconnects for ever. The
// caller must Close it.
func Connect(ctx context.Context, cfg Config) (*Queue, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	q := newQueue(cfg.withDefaults())
	if err := q.retry(ctx, "connect to nats", q.dial); err != nil {
		q.stop()
		return nil, err
	}
	if err := q.start(ctx); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return q, nil
}

// newQueue returns a queue that is not connected.
func newQueue(cfg Config) *Queue {
	q := &Queue{connection: newConnection(cfg)}
	q.metrics = newMetrics(q.Ready)
	q.streams = newStreams(q.connection)
	q.pub = newPublisher(q)
	// The receipts of publications under way are lost with the connection, and maybe what was asked
	// of the streams.
	q.lost = func() { q.pub.failAll(fmt.Errorf("%w: lost the connection", errNoReceipt)) }
	q.again = q.streams.checkSoon
	q.inbox = newInbox(q)
	for _, u := range cfg.URLs {
		q.clocks = append(q.clocks, newServerClock(q, u))
	}
	return q
}

// start starts what needs the first connection.
func (q *Queue) start(ctx context.Context) error {
	if err := q.retry(ctx, "make streams", q.streams.ensureAll); err != nil {
		return err
	}
	if err := q.pub.listen(); err != nil {
		return err
	}
	if q.cfg.Registerer != nil {
		for _, c := range q.metrics.collectors() {
			if err := q.cfg.Registerer.Register(c); err != nil {
				return fmt.Errorf("register metrics: %w", err)
			}
		}
	}
	q.running.Go(q.streams.watch)
	q.running.Go(q.pub.expire)
	return nil
}

// Close ends the connection: publications under way end with queue.ErrClosed, subscriptions end,
// and others get the messages that this node holds after queue.AckWait. Close waits for callbacks
// under way, so it must not be called from one.
func (q *Queue) Close() error {
	q.mu.Lock()
	first := !q.closed
	q.closed = true
	q.mu.Unlock()
	if !first {
		q.running.Wait()
		return nil
	}
	q.stop()
	err := q.nc.FlushTimeout(callTimeout) // acknowledgements that were just sent
	if !q.nc.IsConnected() {
		err = nil // no server to send them to
	}
	q.nc.Close()
	q.pub.close()
	q.running.Wait()
	for _, c := range q.clocks {
		c.close()
	}
	if q.cfg.Registerer != nil {
		for _, c := range q.metrics.collectors() {
			q.cfg.Registerer.Unregister(c)
		}
	}
	if err != nil {
		return fmt.Errorf("close nats: %w", err)
	}
	return nil
}

// errReconnecting says it as the client does.
var errReconnecting = errors.New("nats: " + nats.RECONNECTING.String())

// Ready implements queue.Prober. Each write of jobs asks, so it does not wait for the connection,
// which is locked while something is written to it.
func (q *Queue) Ready() error {
	if _, err := q.current(); err != nil {
		return err
	}
	if !q.connected.Load() {
		return errReconnecting
	}
	if err := q.streams.health.Load(); err != nil {
		return *err
	}
	return nil
}

// Time implements queue.Prober: the clock of the server that leads the stream of lane 0.
func (q *Queue) Time(ctx context.Context) (time.Time, error) {
	if _, err := q.current(); err != nil {
		return time.Time{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := q.js.Stream(ctx, q.streams.lanes[0].stream)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask nats for the time: %w", err)
	}
	return s.CachedInfo().TimeStamp.UTC(), nil
}

// Front implements queue.Inspector.
func (q *Queue) Front(ctx context.Context, n queue.Lane, p schema.Priority) (queue.Front, error) {
	return q.all().Front(ctx, n, p)
}

func (o pool) front(ctx context.Context, n queue.Lane, p schema.Priority) (queue.Front, error) {
	q := o.q
	l, err := q.streams.lane(n)
	if err != nil {
		return queue.Front{}, err
	}
	if _, err := q.current(); err != nil {
		return queue.Front{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	f := queue.Front{}
	// By the stream's leader, not by a direct get: a replica may lack the newest messages.
	m, err := l.handle.Load().stream.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(q.cfg.Names.RunOf(n, p, o.name)))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		f.Empty = true
	case err != nil:
		q.streams.checkIfGone(err)
		return queue.Front{}, err
	default:
		f.Sequence = m.Sequence
	}
	// After the read, never before: see the package comment.
	s, err := q.js.Stream(ctx, l.stream)
	if err != nil {
		q.streams.checkIfGone(err)
		return queue.Front{}, err
	}
	l.learn(s)
	f.Stream = incarnation(s)
	return f, nil
}

// Load implements queue.Inspector.
func (q *Queue) Load(ctx context.Context, n queue.Lane, p schema.Priority) (queue.Load, error) {
	return q.all().Load(ctx, n, p)
}

func (o pool) load(ctx context.Context, n queue.Lane, p schema.Priority) (queue.Load, error) {
	q := o.q
	l, err := q.streams.lane(n)
	if err != nil {
		return queue.Load{}, err
	}
	if _, err := q.current(); err != nil {
		return queue.Load{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := q.js.Consumer(ctx, l.stream, queue.ConsumerOf(p, o.name))
	if err != nil {
		q.streams.checkIfGone(err)
		return queue.Load{}, err
	}
	info := c.CachedInfo()
	return queue.Load{
		Waiting: int(info.NumPending), // #nosec G115 -- bounded by the stream
		Held:    info.NumAckPending, Delivered: info.Delivered.Consumer,
	}, nil
}
