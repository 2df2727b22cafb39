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
)

// connection is the connection to the servers, with reconnects, and the goroutines that end with
// it.
type connection struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	nc      *nats.Conn
	js      jetstream.JetStream

	connected atomic.Bool // as nc.IsConnected says, which waits while something is written

	lost  func() // called when the connection is lost
	again func() // called when it is there again

	mu sync.Mutex
	// session ends when the connection is lost or closed: no answers come any more.
	session  context.Context
	end      context.CancelFunc
	closed   bool
	stopping context.Context // ends with Close
	stop     context.CancelFunc
	running  sync.WaitGroup // the watch, and the goroutine of every subscription
}

func newConnection(cfg Config) *connection {
	c := &connection{cfg: cfg, log: cfg.Logger}
	c.stopping, c.stop = context.WithCancel(context.Background())
	c.session, c.end = context.WithCancel(c.stopping)
	return c
}

// retry calls act until it succeeds, ctx ends, or the server refuses the log-in. It logs every
// failure.
func (c *connection) retry(ctx context.Context, what string, act func(context.Context) error) error {
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
		c.log.Warn("waiting for nats", "act", what, "err", err, "again_in", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, retryPauseMax)
	}
}

// options returns what all connections have in common.
func (c *connection) options() (nats.Options, error) {
	opts := nats.Options{
		Servers:            c.cfg.URLs,
		Name:               c.cfg.Name,
		User:               c.cfg.User,
		Password:           c.cfg.Password,
		Token:              c.cfg.Token,
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
	if c.cfg.Server != nil {
		opts.InProcessServer = c.cfg.Server
	}
	if c.cfg.TLS != nil {
		c.cfg.TLS.apply(&opts)
	}
	if c.cfg.Credentials != "" {
		if err := nats.UserCredentials(c.cfg.Credentials)(&opts); err != nil {
			return nats.Options{}, fmt.Errorf("credentials: %w", err)
		}
	}
	return opts, nil
}

// dial makes the connection.
func (c *connection) dial(context.Context) error {
	opts, err := c.options()
	if err != nil {
		return err
	}
	opts.DisconnectedErrCB, opts.ReconnectedCB, opts.AsyncErrorCB = c.disconnected, c.reconnected, c.asyncError
	c.connected.Store(true) // nobody asks before it is; the callbacks come in order
	nc, err := opts.Connect()
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(callTimeout))
	if err != nil {
		nc.Close()
		return err
	}
	c.nc, c.js = nc, js
	c.log.Info("connected to nats", "url", c.where(nc), "server", nc.ConnectedServerName(), "version", nc.ConnectedServerVersion())
	return nil
}

// where names the server of a connection. One in this process has no address, and the client would
// make one up.
func (c *connection) where(nc *nats.Conn) string {
	if c.cfg.Server != nil {
		return "in process"
	}
	return nc.ConnectedUrlRedacted()
}

func (c *connection) disconnected(_ *nats.Conn, err error) {
	c.connected.Store(false)
	c.mu.Lock()
	c.end()
	closed := c.closed
	if !closed {
		c.session, c.end = context.WithCancel(c.stopping)
	}
	c.mu.Unlock()
	if closed {
		return
	}
	c.log.Warn("lost the connection to nats", "err", err)
	c.lost()
}

func (c *connection) reconnected(nc *nats.Conn) {
	c.connected.Store(true)
	c.metrics.reconnected.Inc()
	c.log.Info("connected to nats again", "url", c.where(nc), "server", nc.ConnectedServerName())
	c.mu.Lock()
	// Requests sent while the connection was down may be lost: check again.
	c.end()
	if !c.closed {
		c.session, c.end = context.WithCancel(c.stopping)
	}
	c.mu.Unlock()
	c.again()
}

func (c *connection) asyncError(_ *nats.Conn, sub *nats.Subscription, err error) {
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	c.log.Warn("nats reports an error", "subject", subject, "err", err)
}

// current returns the session of the connection.
func (c *connection) current() (context.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, queue.ErrClosed
	}
	return c.session, nil
}

// spawn runs f in a goroutine that Close waits for, and reports whether the queue was still open.
func (c *connection) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running.Go(f)
	}
	return !c.closed
}

// subscribe makes an asynchronous subscription whose goroutine Close waits for.
func (c *connection) subscribe(subject string, f nats.MsgHandler) (*nats.Subscription, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, queue.ErrClosed)
	}
	sub, err := c.nc.Subscribe(subject, f)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	c.running.Add(1)
	sub.SetClosedHandler(func(string) { c.running.Done() })
	return sub, nil
}

// sendAdvice sends a message that may be lost.
func (c *connection) sendAdvice(subject string, wire []byte) {
	if err := c.nc.Publish(subject, wire); err != nil {
		c.metrics.unsent.Inc()
		c.log.Debug("advice could not be sent", "subject", subject, "err", err)
	}
}

// send sends a message that may be lost.
func (c *connection) send(subject string, headers map[string]string, body []byte) {
	err := queue.CheckHeaders(headers)
	if err == nil {
		err = c.nc.PublishMsg(message(subject, headers, body))
	}
	if err != nil {
		c.metrics.unsent.Inc()
		c.log.Debug("an answer to a worker could not be sent", "err", err)
	}
}

// respond answers a delivery.
func (c *connection) respond(reply string, word []byte) {
	if err := c.nc.Publish(reply, word); err != nil {
		c.metrics.unsent.Inc()
	}
}
