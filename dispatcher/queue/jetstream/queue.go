package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// Bounds of waiting for NATS.
const (
	dialTimeout    = 2 * time.Second // of one attempt to connect
	callTimeout    = 2 * time.Second // of one request to JetStream
	pingInterval   = 2 * time.Second // a server that misses two pings counts as lost
	reconnectWait  = 250 * time.Millisecond
	flusherTimeout = 5 * time.Second
	retryPause     = 500 * time.Millisecond // between attempts to connect or to make streams
	retryPauseMax  = 5 * time.Second
)

// Queue is a connection to NATS. It is safe for concurrent use.
type Queue struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	nc      *nats.Conn
	js      jetstream.JetStream
	lanes   []*lane
	pub     *publisher
	inbox   *inbox
	clocks  []*serverClock // one for each URL

	health   atomic.Pointer[error] // of the last check of the streams; nil pointer = healthy
	checkNow chan struct{}         // asks for a check of the streams at once

	ensuring sync.Mutex // one at a time makes streams

	mu sync.Mutex
	// ends when the connection is lost or closed: no answers come any more
	session  context.Context
	end      context.CancelFunc
	closed   bool
	stopping context.Context // ends with Close
	stop     context.CancelFunc
	running  sync.WaitGroup // the watch, and the goroutine of every subscription
}

var _ queue.Queue = (*Queue)(nil)

// Connect connects to NATS and makes the streams. While that fails, it logs why and retries, until
// ctx ends or a server refuses the log-in. Once connected, the queue reconnects for ever. The
// caller must Close it.
func Connect(ctx context.Context, cfg Config) (*Queue, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	q := &Queue{cfg: cfg, log: cfg.Logger, metrics: newMetrics(), checkNow: make(chan struct{}, 1)}
	q.stopping, q.stop = context.WithCancel(context.Background())
	q.session, q.end = context.WithCancel(q.stopping)
	q.pub = newPublisher(q)
	q.inbox = newInbox(q)
	for _, u := range cfg.URLs {
		q.clocks = append(q.clocks, newServerClock(q, u))
	}
	for n := range cfg.Lanes {
		q.lanes = append(q.lanes, newLane(queue.Lane(n), cfg.Names))
	}
	if err := q.retry(ctx, "connect to nats", q.dial); err != nil {
		q.stop()
		return nil, err
	}
	if err := q.start(ctx); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return q, nil
}

// start starts what needs the first connection.
func (q *Queue) start(ctx context.Context) error {
	if err := q.retry(ctx, "make streams", q.EnsureStreams); err != nil {
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
	q.running.Go(q.watch)
	q.running.Go(q.pub.expire)
	return nil
}

// retry calls act until it succeeds, ctx ends, or the server refuses the log-in. It logs every
// failure.
func (q *Queue) retry(ctx context.Context, what string, act func(context.Context) error) error {
	pause := retryPause
	for {
		err := act(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w (%w)", what, ctx.Err(), err)
		}
		if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
			return fmt.Errorf("%s: the log-in was refused: %w", what, err)
		}
		q.log.Warn("waiting for nats", "act", what, "err", err, "again_in", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, retryPauseMax)
	}
}

// options returns what all connections have in common.
func (q *Queue) options() (nats.Options, error) {
	opts := nats.Options{
		Servers:            q.cfg.URLs,
		Name:               q.cfg.Name,
		User:               q.cfg.User,
		Password:           q.cfg.Password,
		Token:              q.cfg.Token,
		TLSConfig:          q.cfg.TLS,
		Secure:             q.cfg.TLS != nil,
		AllowReconnect:     true,
		MaxReconnect:       -1,
		ReconnectWait:      reconnectWait,
		ReconnectJitter:    reconnectWait,
		ReconnectJitterTLS: reconnectWait,
		// for acknowledgements, signals and answers to workers; requests must not wait in it
		ReconnectBufSize:     nats.DefaultReconnectBufSize,
		Timeout:              dialTimeout,
		DrainTimeout:         nats.DefaultDrainTimeout,
		PingInterval:         pingInterval,
		MaxPingsOut:          nats.DefaultMaxPingOut,
		FlusherTimeout:       flusherTimeout,
		SubChanLen:           nats.DefaultMaxChanLen,
		IgnoreAuthErrorAbort: true,
	}
	if q.cfg.Server != nil {
		opts.InProcessServer = q.cfg.Server
	}
	if q.cfg.Credentials != "" {
		if err := nats.UserCredentials(q.cfg.Credentials)(&opts); err != nil {
			return nats.Options{}, fmt.Errorf("credentials: %w", err)
		}
	}
	return opts, nil
}

// dial makes the connection.
func (q *Queue) dial(context.Context) error {
	opts, err := q.options()
	if err != nil {
		return err
	}
	opts.DisconnectedErrCB, opts.ReconnectedCB, opts.AsyncErrorCB = q.disconnected, q.reconnected, q.asyncError
	nc, err := opts.Connect()
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(callTimeout))
	if err != nil {
		nc.Close()
		return err
	}
	q.nc, q.js = nc, js
	q.log.Info("connected to nats", "url", q.where(nc), "server", nc.ConnectedServerName(), "version", nc.ConnectedServerVersion())
	return nil
}

// where names the server of a connection. One in this process has no address, and the client would
// make one up.
func (q *Queue) where(nc *nats.Conn) string {
	if q.cfg.Server != nil {
		return "in process"
	}
	return nc.ConnectedUrlRedacted()
}

func (q *Queue) disconnected(_ *nats.Conn, err error) {
	q.mu.Lock()
	q.end()
	closed := q.closed
	if !closed {
		q.session, q.end = context.WithCancel(q.stopping)
	}
	q.mu.Unlock()
	if closed {
		return
	}
	q.log.Warn("lost the connection to nats", "err", err)
	// The answers to requests under way are lost with the connection.
	q.pub.failAll(fmt.Errorf("%w: lost the connection", errNoReceipt))
}

func (q *Queue) reconnected(nc *nats.Conn) {
	q.metrics.reconnected.Inc()
	q.log.Info("connected to nats again", "url", q.where(nc), "server", nc.ConnectedServerName())
	q.mu.Lock()
	// Requests sent while the connection was down may be lost: check again.
	q.end()
	if !q.closed {
		q.session, q.end = context.WithCancel(q.stopping)
	}
	q.mu.Unlock()
	q.checkSoon()
}

func (q *Queue) asyncError(_ *nats.Conn, sub *nats.Subscription, err error) {
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	q.log.Warn("nats reports an error", "subject", subject, "err", err)
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

// current returns the session of the connection.
func (q *Queue) current() (context.Context, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, queue.ErrClosed
	}
	return q.session, nil
}

// spawn runs f in a goroutine that Close waits for, and reports whether the queue was still open.
func (q *Queue) spawn(f func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.running.Go(f)
	}
	return !q.closed
}

// subscribe makes an asynchronous subscription whose goroutine Close waits for.
func (q *Queue) subscribe(subject string, f nats.MsgHandler) (*nats.Subscription, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, queue.ErrClosed)
	}
	sub, err := q.nc.Subscribe(subject, f)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	q.running.Add(1)
	sub.SetClosedHandler(func(string) { q.running.Done() })
	return sub, nil
}

// lane returns the lane with that number.
func (q *Queue) lane(n queue.Lane) (*lane, error) {
	if n < 0 || int(n) >= len(q.lanes) {
		return nil, fmt.Errorf("there is no lane %d of %d", n, len(q.lanes))
	}
	return q.lanes[n], nil
}

// Ready implements queue.Prober.
func (q *Queue) Ready() error {
	if _, err := q.current(); err != nil {
		return err
	}
	if s := q.nc.Status(); s != nats.CONNECTED {
		return fmt.Errorf("nats: %s", s)
	}
	if err := q.health.Load(); err != nil {
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
	s, err := q.js.Stream(ctx, q.lanes[0].stream)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask nats for the time: %w", err)
	}
	return s.CachedInfo().TimeStamp.UTC(), nil
}

// Front implements queue.Inspector.
func (q *Queue) Front(ctx context.Context, n queue.Lane, p schema.Priority) (queue.Front, error) {
	f, err := q.front(ctx, n, p)
	if err != nil {
		return queue.Front{}, fmt.Errorf("front of lane %d, %s: %w", n, p.Or(), err)
	}
	return f, nil
}

func (q *Queue) front(ctx context.Context, n queue.Lane, p schema.Priority) (queue.Front, error) {
	l, err := q.lane(n)
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
	m, err := l.handle.Load().stream.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(q.cfg.Names.Run(n, p)))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		f.Empty = true
	case err != nil:
		q.checkIfGone(err)
		return queue.Front{}, err
	default:
		f.Sequence = m.Sequence
	}
	// After the read, never before: see the package comment.
	s, err := q.js.Stream(ctx, l.stream)
	if err != nil {
		q.checkIfGone(err)
		return queue.Front{}, err
	}
	l.learn(s)
	f.Stream = incarnation(s)
	return f, nil
}

// Load implements queue.Inspector.
func (q *Queue) Load(ctx context.Context, n queue.Lane, p schema.Priority) (queue.Load, error) {
	l, err := q.load(ctx, n, p)
	if err != nil {
		return queue.Load{}, fmt.Errorf("load of lane %d, %s: %w", n, p.Or(), err)
	}
	return l, nil
}

func (q *Queue) load(ctx context.Context, n queue.Lane, p schema.Priority) (queue.Load, error) {
	l, err := q.lane(n)
	if err != nil {
		return queue.Load{}, err
	}
	if _, err := q.current(); err != nil {
		return queue.Load{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := q.js.Consumer(ctx, l.stream, queue.ConsumerName(p))
	if err != nil {
		q.checkIfGone(err)
		return queue.Load{}, err
	}
	info := c.CachedInfo()
	return queue.Load{
		Waiting: int(info.NumPending), // #nosec G115 -- bounded by the stream
		Held:    info.NumAckPending, Delivered: info.Delivered.Consumer,
	}, nil
}
