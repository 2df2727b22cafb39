package target

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// speak starts a server that reads one request a connection and hands the connection to f, until
// the test ends.
func speak(t *testing.T, f func(conn net.Conn)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, _ = io.Copy(io.Discard, r.Body)
				}
				f(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return "http://" + l.Addr().String() + "/"
}

func TestHTTPSurvivesBadAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, c := range map[string]struct {
		answer string
		want   string // the error; "" = a success
	}{
		"nothing":                   {"", "the connection was closed"},
		"garbage":                   {"\x00\xff\x13\x37 s3cret\r\n\r\n", "the answer is not valid HTTP"},
		"another protocol":          {"SSH-2.0-OpenSSH_9.9\r\n", "the answer is not valid HTTP"},
		"half a status line":        {"HTTP/1.1 20", "the answer is not valid HTTP"},
		"a status that is no digit": {"HTTP/1.1 2x0 OK\r\n\r\n", "the answer is not valid HTTP"},
		"a negative status":         {"HTTP/1.1 -200 OK\r\n\r\n", "the answer is not valid HTTP"},
		"HTTP/9":                    {"HTTP/9.9 200 OK\r\n\r\n", ""},
		"half the headers":          {ok + "X: y", "the connection was closed"},
		"a header without colon":    {ok + "s3cret\r\n\r\n", "the answer is not valid HTTP"},
		"two lengths":               {ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", "the connection failed"},
		"a length that is no digit": {ok + "Content-Length: s3cret\r\n\r\n", "the answer is not valid HTTP"},
		"a length of 2^63":          {ok + "Content-Length: 9223372036854775808\r\n\r\n", "the answer is not valid HTTP"},
		"a huge length":             {ok + "Content-Length: 9223372036854775807\r\n\r\nab", "the answer broke off: the connection was closed"},
		"a body cut short":          {ok + "Content-Length: 10\r\n\r\nab", "the answer broke off: the connection was closed"},
		"a chunk cut short":         {ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nab", "the answer broke off: the connection was closed"},
		"a chunk size of garbage":   {ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\nab", "the answer broke off: the answer is not valid HTTP"},
		"a chunk size too large":    {ok + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nab", "the answer broke off: the answer is not valid HTTP"},
		"an unknown encoding":       {ok + "Transfer-Encoding: s3cret\r\n\r\nab", "the answer is not valid HTTP"},
		"a body without length":     {ok + "\r\nab", ""},
		"a switch of protocols":     {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nab", "answered 101 Switching Protocols"},
		"only an interim answer":    {"HTTP/1.1 100 Continue\r\n\r\n", "the connection was closed"},
		"an interim answer":         {"HTTP/1.1 103 Early Hints\r\n\r\n" + ok + "\r\n", ""},
		"a status of no class":      {"HTTP/1.1 999 s3cret\r\n\r\n", "answered 999"},
		"a redirect to nowhere":     {"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", "answered 302 Found"},
		"a body of garbage, no 2xx": {"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab", "answered 400 Bad Request"},
	} {
		t.Run(name, func(t *testing.T) {
			url := speak(t, func(conn net.Conn) { _, _ = io.WriteString(conn, c.answer) })
			res := newHTTP(t, HTTPConfig{}).Run(t.Context(), callTo(url))
			if (res.Outcome == schema.Succeeded) != (c.want == "") || res.Error != c.want || res.Final != (res.Status == 400) {
				t.Errorf("Run answered %q: got %+v, want the error %q", c.answer, res, c.want)
			}
		})
	}
}

func TestHTTPRandomAnswersAreFailures(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const whole = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
	var answer []byte
	url := speak(t, func(conn net.Conn) { _, _ = conn.Write(answer) })
	h := newHTTP(t, HTTPConfig{})
	for range 300 {
		answer = []byte(whole)
		for range 1 + r.IntN(4) {
			answer[r.IntN(len(answer))] = byte(r.IntN(256))
		}
		res := h.Run(t.Context(), callTo(url))
		if res.Outcome != schema.Succeeded && (res.Outcome != schema.Failed || res.Error == "") {
			t.Errorf("Run answered %q: got %+v, want a success or an explained failure", answer, res)
		}
	}
}

func TestHTTPBoundsWhatIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		head, again, want string
	}{
		"endless headers":         {"HTTP/1.1 200 OK\r\n", "X-Filler: " + strings.Repeat("x", 1000) + "\r\n", "the headers of the answer are too large"},
		"one endless header":      {"HTTP/1.1 200 OK\r\nX: ", strings.Repeat("x", 1000), "the headers of the answer are too large"},
		"an endless status line":  {"HTTP/1.1 200 ", strings.Repeat("x", 1000), "the headers of the answer are too large"},
		"endless interim answers": {"", "HTTP/1.1 103 Early Hints\r\nX: " + strings.Repeat("x", 1000) + "\r\n\r\n", "the headers of the answer are too large"},
		"an endless body":         {"HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 1000), ""},
		"endless chunks":          {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", ""},
		"endless trailers":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "X-Filler: " + strings.Repeat("x", 1000) + "\r\n", "the answer broke off: the answer is not valid HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			url := speak(t, func(conn net.Conn) {
				_, _ = io.WriteString(conn, c.head)
				for block := bytes.Repeat([]byte(c.again), 20); ; {
					n, err := conn.Write(block)
					sent.Add(int64(n))
					if err != nil {
						return // the client hung up: what this test waits for
					}
				}
			})
			res := newHTTP(t, HTTPConfig{MaxBody: 100_000}).Run(t.Context(), callTo(url))
			if res.Error != c.want || res.Final || len(res.Output) > 100_000 {
				t.Errorf("Run: got %s, %q and %d bytes after %d sent, want the error %q", res.Outcome, res.Error, len(res.Output), sent.Load(), c.want)
			}
		})
	}
}

func TestHTTPHeadersOfATaskCannotSmuggle(t *testing.T) {
	var calls atomic.Int64
	url := speak(t, func(conn net.Conn) {
		calls.Add(1)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	})
	h := newHTTP(t, HTTPConfig{})
	for name, header := range map[string][2]string{
		"CR LF in a value": {"X", "a\r\nInjected: s3cret"}, "LF in a value": {"X", "a\ns3cret"}, "CR in a value": {"X", "a\rs3cret"}, "NUL in a value": {"X", "s3cret\x00"},
		"CR LF in a name": {"X: a\r\nInjected", "s3cret"}, "a space in a name": {"X Y", "s3cret"}, "an empty name": {"", "s3cret"}, "a colon": {"X:", "s3cret"},
	} {
		call := callTo(url)
		call.Work.HTTP.Headers = map[string]string{header[0]: header[1]}
		if res := h.Run(t.Context(), call); res.Outcome != schema.Failed || !res.Final || res.Error != "a header of the task cannot be sent" {
			t.Errorf("%s: Run: got %+v, want a final failure that repeats nothing", name, res)
		}
	}
	for name, change := range map[string]func(*schema.HTTPTarget){
		"method": func(h *schema.HTTPTarget) { h.Method = "GET / HTTP/1.1\r\nX: y\r\n\r\nGET" }, "CONNECT": func(h *schema.HTTPTarget) { h.Method = "CONNECT" },
		"URL": func(h *schema.HTTPTarget) { h.URL = "http://a\r\nb/" }, "scheme": func(h *schema.HTTPTarget) { h.URL = "file:///etc/passwd" },
		"gopher": func(h *schema.HTTPTarget) { h.URL = "gopher://127.0.0.1/_x" }, "ftp": func(h *schema.HTTPTarget) { h.URL = "ftp://127.0.0.1/" }, "data": func(h *schema.HTTPTarget) { h.URL = "data:text/plain,x" },
		"no host": func(h *schema.HTTPTarget) { h.URL = "http:///x" }, "opaque": func(h *schema.HTTPTarget) { h.URL = "http:x" }, "no URL": func(h *schema.HTTPTarget) { h.URL = "" },
	} {
		call := callTo(url)
		change(call.Work.HTTP)
		if res := h.Run(t.Context(), call); res.Outcome != schema.Failed || !res.Final || res.Error == "" {
			t.Errorf("%s: Run: got %+v, want a final failure", name, res)
		}
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("the server was called %d times, want 0", n)
	}
}

func TestHTTPErrorsTellNoSecrets(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	tls := httptest.NewUnstartedServer(http.NotFoundHandler())
	tls.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	tls.StartTLS()
	t.Cleanup(tls.Close)
	_, tlsPort, _ := net.SplitHostPort(tls.Listener.Addr().String())
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	_, plainPort, _ := net.SplitHostPort(plain.Listener.Addr().String())
	n := &names{answers: map[string][][]string{"a.test": {{"127.0.0.1"}}, "example.com": {{"127.0.0.1"}}, "inner.test": {{"10.11.12.13"}}, "empty.test": {{}}}}
	h := newHTTP(t, HTTPConfig{resolver: n.resolver()})
	for name, c := range map[string]struct{ origin, want string }{
		"nobody listens":     {"http://user:s3cret@a.test:" + port, "connection refused"},
		"denied":             {"http://user:s3cret@inner.test", "inner.test: address is not allowed"},
		"no such host":       {"http://nowhere.test", "nowhere.test: host not found"},
		"no address":         {"http://empty.test", "empty.test: host not found"},
		"unknown authority":  {"https://example.com:" + tlsPort, "the certificate is signed by an unknown authority"},
		"another's":          {"https://a.test:" + tlsPort, "the certificate is not for this host"},
		"no TLS there":       {"https://a.test:" + plainPort, "the TLS handshake failed"},
		"TLS where not used": {"http://a.test:" + tlsPort, "answered 400 Bad Request"},
	} {
		call := callTo(c.origin + "/s3cret?key=s3cret")
		call.Work.HTTP.Headers = map[string]string{"Authorization": "s3cret"}
		res := h.Run(t.Context(), call)
		if res.Outcome != schema.Failed || res.Error != c.want {
			t.Errorf("%s: Run: got %+v, want a failure with exactly %q", name, res, c.want)
		}
	}
}

func TestHTTPKeepsConnections(t *testing.T) {
	const bound, calls = 8, 400
	var opened atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	h := newHTTP(t, HTTPConfig{MaxConnsPerHost: bound})
	var all sync.WaitGroup
	for range 4 * bound {
		all.Go(func() {
			for range calls / (4 * bound) {
				if res := h.Run(t.Context(), callTo(s.URL)); res.Outcome != schema.Succeeded {
					t.Errorf("Run: got %+v, want a success", res)
				}
			}
		})
	}
	all.Wait()
	if n := opened.Load(); n > bound {
		t.Errorf("%d calls opened %d connections, want at most %d", calls, n, bound)
	}
}

// A connection that dies under a request is a failed attempt: the client must not execute the run a
// second time on its own, whatever headers the task states.
func TestHTTPNeverRepeatsARequest(t *testing.T) {
	for name, headers := range map[string]map[string]string{
		"no headers":                nil,
		"idempotency-key":           {"Idempotency-Key": "x"},
		"x-idempotency-key":         {"X-Idempotency-Key": "x"},
		"x-idempotency-key, as is":  {"x-idempotency-key": "x"},
		"x-idempotency-key, louder": {"X-IDEMPOTENCY-KEY": "x"},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if calls.Add(1) == 1 {
					return // and the connection is kept
				}
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Errorf("hijack: %v", err)
					return
				}
				_ = conn.Close()
			})
			h := newHTTP(t, HTTPConfig{})
			call := callTo(s.URL)
			call.Work.HTTP.Headers = headers
			if res := h.Run(t.Context(), call); res.Outcome != schema.Succeeded {
				t.Fatalf("first Run: got %+v, want a success", res)
			}
			res := h.Run(t.Context(), call)
			if n := calls.Load(); res.Outcome != schema.Failed || res.Final || n != 2 {
				t.Errorf("Run over a kept connection that is closed: got %+v and %d requests, want a failure that is retried, and 2", res, n)
			}
		})
	}
}

func TestHTTPSpeaksHTTP2(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" "+r.Header.Get("Idempotency-Key"))
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	h := newHTTP(t, HTTPConfig{tls: s.Client().Transport.(*http.Transport).TLSClientConfig})
	call := callTo(s.URL)
	if res := h.Run(t.Context(), call); res.Outcome != schema.Succeeded || string(res.Output) != "HTTP/2.0 "+call.Run.String() {
		t.Errorf("Run over https: got %+v with %q, want a success over HTTP/2.0", res, res.Output)
	}
}

func BenchmarkHTTPRun(b *testing.B) {
	s := serve(b, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	h := newHTTP(b, HTTPConfig{})
	call := callTo(s.URL)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			ctx, cancel := context.WithTimeoutCause(b.Context(), time.Minute, ErrTimeout)
			if res := h.Run(ctx, call); res.Outcome != schema.Succeeded {
				b.Errorf("Run: got %+v, want a success", res)
			}
			cancel()
		}
	})
}
