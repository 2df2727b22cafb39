package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// userInfo is the only request that a server itself answers for any client. The answer carries its
// time.
const userInfo = "$SYS.REQ.USER.INFO"

// errNoTime says that the server does not tell us its time.
var errNoTime = errors.New("the server does not tell its time")

// serverClock asks one server for its time. It has its own connection, because on the queue's
// connection any server of the cluster may answer.
type serverClock struct {
	q    *Queue
	url  string
	name string // the host in the URL
	at   string // scheme, host and port of the URL: it may hold a password as well

	mu      sync.Mutex
	host    string        // its address; name until it was reached
	nc      *nats.Conn    // nil: not connected
	dialing chan struct{} // closed when the attempt to connect ends; nil = none is under way
	err     error         // of the last attempt
	mute    bool          // it does not tell its time: no permission, or no system account
}

func newServerClock(q *Queue, text string) *serverClock {
	c := &serverClock{q: q, url: text}
	if u, err := url.Parse(text); err == nil { // Config.Validate has seen to that
		c.name, c.host, c.at = u.Hostname(), u.Hostname(), u.Scheme+"://"+u.Host
	}
	return c
}

// Clocks implements queue.Prober: the clocks of the configured servers. It leaves out a server that
// does not tell us its time.
func (q *Queue) Clocks() []schema.HostClock {
	if q.cfg.Server != nil {
		return []schema.HostClock{{Time: q.Time}}
	}
	var clocks []schema.HostClock
	for _, c := range q.clocks {
		c.mu.Lock()
		if !c.mute {
			clocks = append(clocks, schema.HostClock{Host: c.host, Name: c.name, Time: c.time})
		}
		c.mu.Unlock()
	}
	return clocks
}

// time asks the server for its time. It connects first if need be.
func (c *serverClock) time(ctx context.Context) (time.Time, error) {
	t, err := c.ask(ctx)
	if errors.Is(err, nats.ErrNoResponders) {
		c.markMute()
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("ask nats at %s for the time: %w", c.at, err)
	}
	return t, nil
}

func (c *serverClock) ask(ctx context.Context) (time.Time, error) {
	nc, err := c.conn(ctx)
	if err != nil {
		return time.Time{}, err
	}
	m, err := nc.RequestWithContext(ctx, userInfo, nil)
	if err != nil {
		return time.Time{}, err
	}
	var answer struct {
		Server struct {
			ID   string    `json:"id"`
			Time time.Time `json:"time"`
		} `json:"server"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return time.Time{}, fmt.Errorf("decode the answer: %w", err)
	}
	if answer.Server.ID != nc.ConnectedServerId() || answer.Server.Time.IsZero() {
		return time.Time{}, errNoTime
	}
	return answer.Server.Time.UTC(), nil
}

// markMute leaves the server out until the next connection to it.
func (c *serverClock) markMute() {
	c.mu.Lock()
	first := !c.mute
	c.mute = true
	c.mu.Unlock()
	if first {
		c.q.log.Warn("a nats server does not tell its time: its clock has no vote", "url", c.at, "request", userInfo)
	}
}

// conn returns the connection. If there is none, it waits for one attempt to connect.
func (c *serverClock) conn(ctx context.Context) (*nats.Conn, error) {
	c.mu.Lock()
	if c.nc != nil && !c.nc.IsClosed() {
		defer c.mu.Unlock()
		return c.nc, nil
	}
	dialing := c.dialing
	if dialing == nil {
		dialing = make(chan struct{})
		if !c.q.spawn(func() { c.dial(dialing) }) {
			c.mu.Unlock()
			return nil, queue.ErrClosed
		}
		c.dialing = dialing
	}
	c.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-dialing:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nc, c.err
}

// dial connects to the server, once, and says so by closing done.
func (c *serverClock) dial(done chan struct{}) {
	opts, err := c.q.options()
	var nc *nats.Conn
	if err == nil {
		opts.Servers, opts.Name = []string{c.url}, opts.Name+" (clock)"
		opts.AllowReconnect, opts.IgnoreDiscoveredServers = false, true
		opts.AsyncErrorCB = func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				c.markMute()
			}
		}
		nc, err = opts.Connect()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nc, c.err, c.dialing = nc, err, nil
	if err == nil {
		c.mute = false
		if host, _, err := net.SplitHostPort(nc.ConnectedAddr()); err == nil {
			c.host = host
		}
	}
	close(done)
}

func (c *serverClock) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nc != nil {
		c.nc.Close()
	}
}
