package target

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// A redirect is a way to have us call what the task itself may not: every hop is looked at as the
// first is.
func TestHTTPFollowsNoRedirectToADeniedAddress(t *testing.T) {
	port, open, closed := pair(t)
	for name, c := range map[string]struct {
		location string
		answers  map[string][][]string // of look-ups
		error    string                // "" = any
	}{
		"loopback":                     {"http://127.0.0.2:" + port, nil, "127.0.0.2: address is not allowed"},
		"loopback, as one number":      {"http://2130706434:" + port, nil, ""},
		"loopback, IPv6":               {"http://[::1]:" + port, nil, "::1: address is not allowed"},
		"unspecified":                  {"http://0.0.0.0:" + port, nil, "0.0.0.0: address is not allowed"},
		"unspecified, IPv6":            {"http://[::]:" + port, nil, "::: address is not allowed"},
		"IPv4 in IPv6":                 {"http://[::ffff:127.0.0.2]:" + port, nil, ""},
		"metadata of a cloud":          {"http://169.254.169.254/latest/meta-data/", nil, "169.254.169.254: address is not allowed"},
		"metadata, IPv6":               {"http://[fd00:ec2::254]/", nil, "fd00:ec2::254: address is not allowed"},
		"metadata of another":          {"http://168.63.129.16/", nil, "168.63.129.16: address is not allowed"},
		"metadata of a third":          {"http://100.100.100.200/", nil, "100.100.100.200: address is not allowed"},
		"private":                      {"http://10.0.0.1/", nil, "10.0.0.1: address is not allowed"},
		"link-local":                   {"http://[fe80::1%25lo]/", nil, ""},
		"NAT64":                        {"http://[64:ff9b::7f00:2]:" + port, nil, "64:ff9b::7f00:2: address is not allowed"},
		"6to4":                         {"http://[2002:7f00:2::1]:" + port, nil, "2002:7f00:2::1: address is not allowed"},
		"Teredo":                       {"http://[2001:0:7f00:2::1]:" + port, nil, "2001:0:7f00:2::1: address is not allowed"},
		"a name of a private address":  {"http://inner.test:" + port, map[string][][]string{"inner.test": {{"10.0.0.1"}}}, "inner.test: address is not allowed"},
		"a name of the metadata":       {"http://meta.test", map[string][][]string{"meta.test": {{"169.254.169.254"}}}, "meta.test: address is not allowed"},
		"the same name, which rebinds": {"http://hooks.test:" + port + "/again", map[string][][]string{"hooks.test": {{"127.0.0.1"}, {"127.0.0.2"}}}, "hooks.test: address is not allowed"},
		"a file":                       {"file:///etc/passwd", nil, "redirected to something that is not an http or https URL"},
		"gopher":                       {"gopher://127.0.0.2:" + port + "/_x", nil, "redirected to something that is not an http or https URL"},
		"ftp":                          {"ftp://127.0.0.2:" + port, nil, "redirected to something that is not an http or https URL"},
		"data":                         {"data:text/plain,x", nil, "redirected to something that is not an http or https URL"},
		"a socket":                     {"unix:///run/docker.sock", nil, "redirected to something that is not an http or https URL"},
		"user and another host":        {"http://hooks.test:" + port + "@127.0.0.2:" + port, nil, "127.0.0.2: address is not allowed"},
		"a backslash":                  {"http://127.0.0.2:" + port + `\@hooks.test`, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			first := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Location"] = []string{c.location}
				w.WriteHeader(http.StatusTemporaryRedirect)
			})
			at := netip.MustParseAddrPort(first.Listener.Addr().String())
			answers := map[string][][]string{"hooks.test": {{"127.0.0.1"}}}
			for name, a := range c.answers {
				answers[name] = a
			}
			n := &names{answers: answers}
			h := newHTTP(t, HTTPConfig{AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, resolver: n.resolver()})
			was := open.Load()
			res := h.Run(t.Context(), callTo("http://hooks.test:"+portOf(at)))
			if res.Outcome != schema.Failed || c.error != "" && res.Error != c.error {
				t.Errorf("Run redirected to %q: got %+v, want a failure with %q", c.location, res, c.error)
			}
			if n := closed.Load(); n != 0 {
				t.Fatalf("the denied address was called %d times", n)
			}
			if n := open.Load() - was; n != 0 {
				t.Errorf("another server was called %d times", n)
			}
		})
	}
}

// What a redirect names may be as long as the headers of an answer; the log has one line for each
// such call.
func TestHTTPLogsHostsInShort(t *testing.T) {
	first := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://[fe80::1%25"+strings.Repeat("x", 32<<10)+"]/")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	var log bytes.Buffer
	h := newHTTP(t, HTTPConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if res := h.Run(t.Context(), callTo(first.URL)); !res.Final || !strings.HasSuffix(res.Error, errDenied.Error()) {
		t.Errorf("Run: got %+v, want a final failure: %v", res, errDenied)
	}
	if n := log.Len(); n == 0 || n > 1<<10 {
		t.Errorf("the log has %d bytes, want a line of at most 1 KiB", n)
	}
}

func portOf(a netip.AddrPort) string {
	_, port, _ := net.SplitHostPort(a.String())
	return port
}

// What is compressed stays so: a bomb is as small as it was sent, and what it would be is nobody's
// memory.
func TestHTTPDoesNotUnpackBombs(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 100 {
		if _, err := z.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	var accepted string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		accepted = r.Header.Get("Accept-Encoding")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
	})
	res := newHTTP(t, HTTPConfig{}).Run(t.Context(), callTo(s.URL))
	if res.Outcome != schema.Succeeded || len(res.Output) > bomb.Len() || !bytes.HasPrefix(bomb.Bytes(), res.Output) {
		t.Errorf("Run answered by a bomb of %d bytes: got %s, %q and %d bytes; want its head as it was sent", bomb.Len(), res.Outcome, res.Error, len(res.Output))
	}
	if accepted != "" {
		t.Errorf("the request accepts %q, want no encoding offered", accepted)
	}
}

// Whoever gives a byte now and then is held to the time-out of the attempt, wherever in the answer
// they do.
func TestHTTPDripsEndWithTheTimeout(t *testing.T) {
	for name, c := range map[string]struct{ head, drip string }{
		"before anything":     {"", ""},
		"in the status line":  {"HTTP/1.1 200 ", "x"},
		"in the headers":      {"HTTP/1.1 200 OK\r\n", "X: y\r\n"},
		"in one header":       {"HTTP/1.1 200 OK\r\nX: ", "y"},
		"interim answers":     {"", "HTTP/1.1 103 Early Hints\r\n\r\n"},
		"in the body":         {"HTTP/1.1 200 OK\r\n\r\n", "x"},
		"in a body of length": {"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", "x"},
		"in chunks":           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"},
		"in a chunk's size":   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "0"},
		"in the trailers":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "X: y\r\n"},
		"a redirect's body":   {"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 1000000\r\n\r\n", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var hungUp atomic.Bool
			url := speak(t, func(conn net.Conn) {
				_, _ = io.WriteString(conn, c.head)
				for {
					_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // a drip each time
					_, err := conn.Read(make([]byte, 1))
					var slow net.Error
					if !errors.As(err, &slow) || !slow.Timeout() {
						hungUp.Store(true)
						return
					}
					if _, err := io.WriteString(conn, c.drip); err != nil {
						hungUp.Store(true)
						return
					}
				}
			})
			ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, ErrTimeout)
			defer cancel()
			began := time.Now()
			res := newHTTP(t, HTTPConfig{}).Run(ctx, callTo(url))
			if res.Outcome != schema.TimedOut || res.Final || res.Health() != Unhealthy {
				t.Errorf("Run: got %+v after %s, want that it timed out", res, time.Since(began))
			}
		})
	}
}
