package forward_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer/httpapi/forward"
)

// pipes is a listener of connections within a test.
type pipes struct {
	conns chan net.Conn
	over  context.Context
	close func()
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.over.Done():
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { p.close(); return nil }

func (pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// cable is a connection whose bytes are lost once it is cut.
type cable struct {
	net.Conn
	cut *atomic.Bool
}

func (c cable) Write(b []byte) (int, error) {
	if c.cut.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestASharedConnectionThatIsDead: one of HTTP/2 that is silent, and answers no ping, is given up
// long before the time-out, and another one is made.
func TestASharedConnectionThatIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, stop := context.WithCancel(t.Context())
		l := pipes{make(chan net.Conn), over, stop}
		versions := make(chan int, 10)
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { versions <- r.ProtoMajor }))
		_ = s.Listener.Close()
		s.Listener, s.EnableHTTP2 = l, true
		s.StartTLS()
		defer s.Close()
		f, _ := forwarder(t, forward.Config{APIs: map[string][]string{"us": {"https://example.com"}}})
		defer f.Close()
		var cuts []*atomic.Bool
		forward.DialBy(f, func(context.Context) (net.Conn, error) {
			near, there := net.Pipe()
			l.conns <- there
			cuts = append(cuts, new(atomic.Bool))
			return cable{near, cuts[len(cuts)-1]}, nil
		})
		forward.Trust(f, s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs)
		send := func(answer func(*http.Response)) error {
			return f.Send(t.Context(), "us", forward.Request{Method: "POST", Target: "/"}, answer)
		}
		read := func(r *http.Response) { _, _ = io.Copy(io.Discard, r.Body) }
		if err := send(read); err != nil {
			t.Fatal(err)
		}
		if v := <-versions; v != 2 {
			t.Fatalf("HTTP/%d was spoken, want 2", v)
		}
		cuts[0].Store(true)
		began := time.Now()
		if err := send(never{t}.answer); !errors.Is(err, forward.ErrUnknown) || time.Since(began) > 5*time.Second {
			t.Errorf("Send on a connection that is dead = %v after %v, want ErrUnknown within 5 s", err, time.Since(began))
		}
		if err := send(read); err != nil || len(cuts) != 2 {
			t.Errorf("Send afterwards = %v, on connection %d, want nil on a new one", err, len(cuts))
		}
	})
}
