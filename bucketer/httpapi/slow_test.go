package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// dial opens a connection on which a caller may be as slow as they like.
func dial(t *testing.T, hs *httptest.Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(hs.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ends waits until the server has closed the connection: nothing is logged of it any more.
func ends(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, c); err != nil {
		t.Errorf("the connection does not end: %v", err)
	}
}

func TestSlowCallersAreCut(t *testing.T) {
	hs := serve(t, newStub(), func(c *Config, _ *Deps) { c.BodyTimeout, c.ImportIdle = 50*time.Millisecond, 50*time.Millisecond })
	t.Run("a body that does not come", func(t *testing.T) {
		c := dial(t, hs)
		_, _ = fmt.Fprintf(c, "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 408 {
			t.Errorf("a slow body is answered %d, want 408", resp.StatusCode)
		}
	})
	t.Run("an import that stands still", func(t *testing.T) {
		c := dial(t, hs)
		_, _ = fmt.Fprintf(c, "POST /v1/imports HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: 10000\r\n\r\n%s\n", ndjson, line)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(resp.Body)
		if !strings.Contains(string(text), `"line":1,"id"`) || !strings.Contains(string(text), `"error":{"type":"about:blank","title":"Request Timeout"`) {
			t.Errorf("an import that stands still is answered %s, want its line and then why it was cut", text)
		}
		ends(t, c)
	})
	hs = serve(t, newStub()) // which waits: what is cut must not be taken for slow
	t.Run("a body cut short", func(t *testing.T) {
		c := dial(t, hs)
		_, _ = fmt.Fprintf(c, "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
		_ = c.(*net.TCPConn).CloseWrite()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 400 {
			t.Errorf("a body cut short is answered %d, want 400", resp.StatusCode)
		}
	})
	t.Run("an import cut short", func(t *testing.T) {
		c := dial(t, hs)
		_, _ = fmt.Fprintf(c, "POST /v1/imports HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: 10000\r\n\r\n%s\n%s", ndjson, line, line)
		_ = c.(*net.TCPConn).CloseWrite()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(resp.Body)
		if strings.Contains(string(text), "summary") || strings.Contains(string(text), `"line":2`) || !strings.Contains(string(text), `problem:cut`) {
			t.Errorf("an import cut short is answered %s, want no second line and no summary", text)
		}
		ends(t, c)
	})
}

// FuzzRequests: whatever comes, no answer is a 500, and every error is a problem.
func FuzzRequests(f *testing.F) {
	f.Add("POST", "/v1/jobs", jobBody)
	f.Add("PATCH", "/v1/jobs/01932e5a-7c00-8003-8d2f-5a1b9c3e7f60", `{"a":null}`)
	f.Add("GET", "/v1/runs?from=2026-11-21T10:00:00Z&to=2026-11-21T10:30:00Z&cursor=x&limit=1", "")
	f.Add("PUT", "/v1/tasks/%00", `{"nats":{"subject":"a"}}`)
	f.Add("POST", "/v1/imports?results=errors", "{}\n\x00\n"+line)
	f.Add("DELETE", "/v1/jobs/a%2fb", "")
	b := newStub()
	s, err := New(Config{Now: func() time.Time { return testNow }}, Deps{Jobs: b, Runs: b, Tasks: b, Recurring: b, Workflows: b, Events: b, Joins: b})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, path, body string) {
		req, err := http.NewRequest(method, "http://x.test", strings.NewReader(body))
		if err != nil {
			t.Skip()
		}
		if req.URL, err = req.URL.Parse(path); err != nil {
			t.Skip()
		}
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, req)
		if rec.Code >= 500 {
			t.Fatalf("%q %q %q = %d %s", method, path, body, rec.Code, rec.Body)
		}
		if ct := rec.Header().Get("Content-Type"); rec.Code >= 400 && ct != problemJSON {
			t.Fatalf("%q %q %q = %d of type %q, want a problem", method, path, body, rec.Code, ct)
		}
	})
}
