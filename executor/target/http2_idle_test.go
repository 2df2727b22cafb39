package target

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// Who calls another host each time leaves no more connections of HTTP/2 behind than may be idle,
// and those that were in use when the others were ended.
func TestHTTP2IdleConnectionsAreFew(t *testing.T) {
	const most, hosts = 3, 21
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	closed := make(chan struct{}, hosts)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	_ = s.Listener.Close()
	s.Listener, s.EnableHTTP2 = l, true
	s.Config.ConnState = func(_ net.Conn, is http.ConnState) {
		if is == http.StateClosed {
			closed <- struct{}{}
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	trust := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trust.ServerName = "example.com"
	h := newHTTP(t, HTTPConfig{tls: trust, maxIdle: most})
	for i := range hosts {
		url := fmt.Sprintf("https://127.0.0.%d:%d/", i+1, l.Addr().(*net.TCPAddr).Port)
		if res := h.Run(t.Context(), callTo(url)); res.Outcome != schema.Succeeded {
			t.Fatalf("Run: got %+v, want a success", res)
		}
	}
	soon := time.After(idleTimeout / 2) // by themselves they end after idleTimeout
	const want = hosts - 2*most
	for n := range want {
		select {
		case <-closed:
		case <-soon:
			t.Fatalf("of %d connections %d were ended, want %d", hosts, n, want)
		}
	}
}
