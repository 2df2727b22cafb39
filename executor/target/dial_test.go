package target

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

func TestOfDialsThatAreLeftTheFirstEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			mu    sync.Mutex
			ended []string
			dials sync.WaitGroup
		)
		release := map[string]chan struct{}{}
		d := newDialer(func(ctx context.Context, _, address string) (net.Conn, error) {
			select {
			case <-ctx.Done():
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, address)
				return nil, ctx.Err()
			case <-release[address]:
				return nil, errors.New("nobody there")
			}
		}, nil, 3)
		var attempts []context.CancelFunc
		for i := range 7 {
			attempt, cancel := context.WithCancel(t.Context())
			attempts = append(attempts, cancel)
			address := "host:" + strconv.Itoa(i)
			release[address] = make(chan struct{})
			ctx := context.WithoutCancel(withDials(attempt)) // as net/http does
			dials.Go(func() { _, _ = d.dial(ctx, "tcp", address) })
			synctest.Wait()
		}
		after := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(ended, want) {
				t.Errorf("%s: ended %v, want %v", what, ended, want)
			}
		}
		for _, i := range []int{2, 0, 1} {
			attempts[i]()
			synctest.Wait()
		}
		after("three attempts of seven have ended")
		attempts[3]()
		after("a fourth ends", "host:2")
		attempts[4]()
		after("a fifth ends", "host:2", "host:0")
		close(release["host:3"])
		after("a dial is over", "host:2", "host:0")
		attempts[5]()
		after("a sixth ends", "host:2", "host:0")
		close(release["host:6"])
		synctest.Wait()
		attempts[6]()
		after("an attempt ends whose dial is over", "host:2", "host:0")
		if n := d.orphans.Len(); n != 3 {
			t.Errorf("left: %d, want 3", n)
		}
		for _, i := range []string{"host:1", "host:4", "host:5"} {
			close(release[i])
		}
		dials.Wait()
		if n := d.orphans.Len(); n != 0 {
			t.Errorf("left when all are over: %d, want 0", n)
		}
	})
}

// What a host that says nothing costs is its handshake: the dialer must have that in its hand too.
func TestHTTPDialsDoNotOutliveTheirAttemptsInNumbers(t *testing.T) {
	t.Run("of calls", func(t *testing.T) {
		dialsDoNotOutlive(t, func(url string, _ int) Call { return callTo(url) })
	})
	t.Run("of tokens", func(t *testing.T) {
		dialsDoNotOutlive(t, func(url string, i int) Call {
			c := callTo("http://127.0.0.1:1/")
			c.Work.HTTP.Auth = &schema.HTTPAuth{OAuth2: &schema.ClientCredentials{TokenURL: url, ClientID: strconv.Itoa(i), Secret: "s"}}
			c.Values = auth.Values{"s": {[]byte(secretText)}}
			return c
		})
	})
}

// dialsDoNotOutlive has attempts time out that wait for a host that says nothing.
func dialsDoNotOutlive(t *testing.T, call func(url string, i int) Call) {
	t.Helper()
	const attempts, most = 10, 3
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	opened, closed := make(chan struct{}, attempts), make(chan struct{}, attempts)
	var server sync.WaitGroup
	var kept []net.Conn
	server.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			kept = append(kept, c)
			opened <- struct{}{}
			server.Go(func() {
				_, _ = io.Copy(io.Discard, c) // and says nothing
				closed <- struct{}{}
			})
		}
	})
	t.Cleanup(func() {
		for _, c := range kept { // nothing is accepted any more
			_ = c.Close()
		}
		server.Wait()
	})
	t.Cleanup(func() { _ = l.Close() })
	h := newHTTP(t, HTTPConfig{maxOrphans: most})
	ctx, cancel := context.WithCancelCause(t.Context())
	var running sync.WaitGroup
	for i := range attempts {
		running.Go(func() {
			if res := h.Run(ctx, call("https://"+l.Addr().String()+"/", i)); res.Outcome != schema.TimedOut {
				t.Errorf("Run: got %+v, want a time-out", res)
			}
		})
	}
	for range attempts {
		<-opened
	}
	cancel(ErrTimeout)
	running.Wait()
	soon := time.After(connectTimeout / 2) // by itself a handshake ends after connectTimeout
	for n := range attempts - most {
		select {
		case <-closed:
		case <-soon:
			t.Fatalf("of %d connections that were being made %d were ended, want %d", attempts, n, attempts-most)
		}
	}
}

// A host that takes longer to connect to than attempts have must come to be connected.
func TestHTTPDialOfAnAttemptThatEndedServesTheNext(t *testing.T) {
	shaken, hold := make(chan struct{}, 8), make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		shaken <- struct{}{}
		<-hold
		return nil, nil //nolint:nilnil // as it was
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	h := newHTTP(t, HTTPConfig{MaxConnsPerHost: 1, tls: s.Client().Transport.(*http.Transport).TLSClientConfig})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-shaken
		cancel(ErrTimeout)
	}()
	if res := h.Run(ctx, callTo(s.URL)); res.Outcome != schema.TimedOut {
		t.Fatalf("Run while the handshake is held: got %+v, want a time-out", res)
	}
	close(hold)
	if res := h.Run(t.Context(), callTo(s.URL)); res.Outcome != schema.Succeeded {
		t.Errorf("Run after it: got %+v, want a success", res)
	}
	if n := len(shaken); n != 0 {
		t.Errorf("the second attempt made %d connections of its own, want it to have the one of the first", n)
	}
}
