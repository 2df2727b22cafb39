package sink_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/sink"
)

func call(ctx context.Context, s http.Handler, run string, attempt int) int {
	r := httptest.NewRequest(http.MethodPost, "/hook/s1/5", strings.NewReader(`{"ref":"s1/5"}`)).WithContext(ctx)
	r.Header.Set("Carillon-Run-Id", run)
	r.Header.Set("Carillon-Attempt", fmt.Sprint(attempt))
	r.Header.Set("Carillon-Fence", "42")
	r.Header.Set("Carillon-Due-At", "2026-11-21T10:00:00.000Z")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code
}

// file is a record that may be read while it is written.
type file struct {
	mu sync.Mutex
	b  []byte
}

func (f *file) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.b = append(f.b, p...)
	return len(p), nil
}

func (f *file) Bytes() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.b)
}

// run starts s.Run and returns what stops it.
func run(t *testing.T, s *sink.Sink) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	}
}

func read(t *testing.T, b []byte) ([]check.Sighting, bool) {
	t.Helper()
	seen, all, err := journal.ReadSeen(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("ReadSeen: %v", err)
	}
	return seen, all
}

func TestEveryCallIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out file
		s := sink.New(&out)
		stop := run(t, s)
		var wg sync.WaitGroup
		for n := range 500 {
			wg.Go(func() {
				if code := call(t.Context(), s, fmt.Sprint("run-", n), 1); code != 200 {
					t.Errorf("call = %d, want 200", code)
				}
			})
		}
		wg.Wait()
		at := time.Now()
		stop()
		seen, all := read(t, out.Bytes())
		if len(seen) != 500 || !all {
			t.Fatalf("record holds %d arrivals, complete %t, want 500, true", len(seen), all)
		}
		got := seen[0]
		got.Run, got.Sent = "", nil
		want := check.Sighting{
			Ref: check.Ref{Source: "s1", Line: 5}, Attempt: 1, Fence: 42, Due: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
			From: "192.0.2.1", At: at.UTC(), End: at.UTC(), Status: 200,
		}
		if got != want {
			t.Errorf("arrival = %+v, want %+v", got, want)
		}
	})
}

// brokenBody ends in an error after its first bytes, as that of a caller does that dies.
type brokenBody struct{ io.Reader }

func (b brokenBody) Read(p []byte) (int, error) {
	if n, err := b.Reader.Read(p); err == nil {
		return n, nil
	}
	return 0, io.ErrUnexpectedEOF
}

func TestWhatCallsCarryIsRecorded(t *testing.T) {
	var out file
	s := sink.New(&out)
	stop := run(t, s)
	large := strings.Repeat("x", 100_000)
	for i, body := range []io.Reader{strings.NewReader(large), brokenBody{strings.NewReader("ab")}} {
		r := httptest.NewRequest(http.MethodPost, "/s1/5", body)
		r.Header.Set("Carillon-Run-Id", "r")
		r.Header.Set("Idempotency-Key", "k")
		r.Header.Set("Carillon-Job-Id", "j")
		r.Header.Set("Content-Type", "text/plain")
		r.Header.Set("X-Team", "a")
		r.RemoteAddr = []string{"127.0.0.1:7", "[2001:db8::7]:7"}[i]
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
	stop()
	seen, _ := read(t, out.Bytes())
	want := &check.Sent{Key: "k", Job: "j", Type: "text/plain", Body: check.Hash(0).Add([]byte(large)), Custom: check.Hash(0).AddHeader("X-Team", "a")}
	if len(seen) != 2 || seen[0].Sent == nil || *seen[0].Sent != *want || seen[1].Sent != nil {
		t.Errorf("the record has %+v, want two arrivals: one with %+v, and one with a body that was cut short, of which nothing is known", seen, want)
	} else if seen[0].From != "" || seen[1].From != "2001:db8::7" {
		t.Errorf("the record has calls from %q and %q, want none for this machine and 2001:db8::7", seen[0].From, seen[1].From)
	}
}

func TestArrivalsAreInTheFileSoonAndMarkedWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out file
		s := sink.New(&out)
		stop := run(t, s)
		defer stop()
		call(t.Context(), s, "r1", 1)
		time.Sleep(sink.FlushEvery + time.Millisecond)
		synctest.Wait()
		if seen, all := read(t, out.Bytes()); len(seen) != 1 || all {
			t.Errorf("after one flush: %d arrivals, complete %t, want 1, false", len(seen), all)
		}
		time.Sleep(sink.FlushEvery)
		synctest.Wait()
		if seen, all := read(t, out.Bytes()); len(seen) != 1 || !all {
			t.Errorf("after an idle flush: %d arrivals, complete %t, want 1, true", len(seen), all)
		}
		size := len(out.Bytes())
		time.Sleep(10 * sink.FlushEvery)
		synctest.Wait()
		if len(out.Bytes()) != size {
			t.Errorf("an idle sink wrote %d bytes more, want none", len(out.Bytes())-size)
		}
	})
}

func TestStats(t *testing.T) {
	s := sink.New(&bytes.Buffer{})
	callAt(t.Context(), s, "/fail/s1/5", 1)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/stats", nil))
	var got sink.Stats
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("GET /stats: %v", err)
	}
	if got.Seen != 1 || got.Failed != 1 || got.Dropped != 0 || got.Buffered == 0 {
		t.Errorf("GET /stats = %+v, want one seen, one failed, some bytes waiting", got)
	}
}

// full fails as a full disk does.
type full struct{}

var errFull = errors.New("no space")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestRunEndsWhenTheRecordCannotBeWritten(t *testing.T) {
	if err := sink.New(full{}).Run(t.Context()); !errors.Is(err, errFull) {
		t.Errorf("Run = %v, want %v", err, errFull)
	}
}

func BenchmarkSinkOverLoopback(b *testing.B) {
	s := sink.New(&bytes.Buffer{})
	srv := httptest.NewServer(s)
	defer srv.Close()
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer c.CloseIdleConnections()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			resp, err := c.Post(srv.URL+"/s1/1", "application/json", strings.NewReader(`{}`))
			if err != nil {
				b.Error(err)
				return
			}
			_ = resp.Body.Close()
		}
	})
}
