package target

import (
	"container/list"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// MaxOrphanedDials bounds the dials that go on though their attempts have ended, of all hosts
// together.
const MaxOrphanedDials = 512

// dialer makes the connections of an HTTP.
//
// net/http dials for each request that finds no idle connection, and does not end the dial with the
// request. That is of use: a callee that cannot be connected to within the time-out has a
// connection ready for the next attempt, and while all connections are busy, their number grows to
// what is needed. But attempts of a few milliseconds, each to another silent host, would leave any
// number of sockets for 20 s each. So the number of dials that outlast their attempt is bounded:
// one more ends the oldest of them (an orphan).
//
// That fails no other request. The error of a dial goes only to the request that began it, and that
// one is over. Other requests to the host have dials of their own, or wait until they may begin one
// (MaxConnsPerHost); the end of this dial lets them. A connection that is made goes to a request
// that waits for its host, and is bounded from then on as idle connections are.
type dialer struct {
	connect    func(ctx context.Context, network, address string) (net.Conn, error) // asks the guard
	tls        *tls.Config
	maxOrphans int // left

	// endIdle ends the idle connections; it is called for each maxIdle of HTTP/2 that were made.
	// net/http itself bounds the number of those of HTTP/1.1 alone.
	endIdle func()
	maxIdle int64
	made    atomic.Int64

	mu      sync.Mutex
	orphans list.List // of *dial, in the order in which their attempts ended
}

// dial is a connection that is being made.
type dial struct {
	end  context.CancelFunc
	at   *list.Element // in left; nil while its attempt goes on
	over bool
}

// attemptKey is the context key of an attempt's own context, which is what a dial keeps of it.
type attemptKey struct{}

// withDials returns ctx for the requests of an attempt that ends with ctx.
func withDials(ctx context.Context) context.Context {
	return context.WithValue(ctx, attemptKey{}, ctx)
}

func newDialer(connect func(ctx context.Context, network, address string) (net.Conn, error), base *tls.Config, most int) *dialer {
	if base == nil {
		base = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	base = base.Clone()
	if base.NextProtos == nil {
		base.NextProtos = []string{"h2", "http/1.1"}
	}
	return &dialer{connect: connect, tls: base, maxOrphans: most, maxIdle: maxIdle}
}

// dial makes a connection without TLS.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, over := d.begin(ctx)
	defer over()
	return d.connect(ctx, network, address)
}

// dialTLS returns what makes a connection with TLS as base says. The transport would do so by
// itself, but of the attempt only its dial knows.
func (d *dialer) dialTLS(base *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return d.handshake(ctx, base, network, address)
	}
}

func (d *dialer) handshake(ctx context.Context, base *tls.Config, network, address string) (net.Conn, error) {
	ctx, over := d.begin(ctx)
	defer over()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	conn, err := d.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := base.Clone()
	if c.ServerName == "" {
		c.ServerName = host
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	secure := tls.Client(conn, c)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // it was never used
		return nil, err  //nolint:wrapcheck // explain reads it
	}
	if secure.ConnectionState().NegotiatedProtocol == "h2" && d.made.Add(1)%d.maxIdle == 0 {
		d.endIdle()
	}
	return secure, nil
}

// begin returns the context of a dial, which ends if the dial is an orphan and there are too many,
// and what is called when the dial is over.
func (d *dialer) begin(ctx context.Context) (context.Context, func()) {
	attempt, _ := ctx.Value(attemptKey{}).(context.Context)
	ctx, end := context.WithCancel(ctx)
	if attempt == nil { // bounded by time alone
		return ctx, end
	}
	one := &dial{end: end}
	attempted := context.AfterFunc(attempt, func() { d.orphan(one) })
	return ctx, func() {
		attempted()
		d.finish(one)
		end()
	}
}

// orphan notes that the attempt of a dial has ended.
func (d *dialer) orphan(one *dial) {
	d.mu.Lock()
	var first *dial
	if !one.over {
		one.at = d.orphans.PushBack(one)
		if d.orphans.Len() > d.maxOrphans {
			first = d.orphans.Remove(d.orphans.Front()).(*dial)
			first.at = nil
		}
	}
	d.mu.Unlock()
	if first != nil {
		first.end()
	}
}

// finish notes that a dial is over.
func (d *dialer) finish(one *dial) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one.over = true
	if one.at != nil {
		d.orphans.Remove(one.at)
		one.at = nil
	}
}
