package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
)

const (
	// FlushEvery is how long an arrival stays in memory only.
	FlushEvery = 100 * time.Millisecond
	// MaxBuffered bounds the bytes in memory. Calls beyond it are answered 503, and the record has
	// a gap.
	MaxBuffered = 64 << 20
	// MaxBody bounds how much of a body is read, so that connections are used again.
	MaxBody = 1 << 20

	initialBuffer = 4 << 20
	bodyBuffer    = 8 << 10
)

// seed is that of the hashes of run ids.
var seed = maphash.MakeSeed()

// Stats is the answer to GET /stats.
type Stats struct {
	Seen     int64 `json:"seen"`
	Runs     int64 `json:"runs"`     // of those seen, with different run ids
	Open     int64 `json:"open"`     // of those seen, still to be answered
	Failed   int64 `json:"failed"`   // failed on purpose
	Dropped  int64 `json:"dropped"`  // answered 503, not recorded
	Buffered int   `json:"buffered"` // bytes not yet in the file
}

// Sink is an http.Handler. GET /stats returns its counters; every other request is an arrival.
type Sink struct {
	out io.Writer

	failed, dropped, open atomic.Int64

	mu    sync.Mutex // guards what follows
	buf   []byte
	spare []byte
	seen  int64
	// hashes of the run ids seen: two of a million are the same once in forty million sinks
	runs map[uint64]struct{}
}

// New returns a sink whose Run writes to out.
func New(out io.Writer) *Sink {
	return &Sink{out: out, buf: make([]byte, 0, initialBuffer), spare: make([]byte, 0, initialBuffer), runs: make(map[uint64]struct{})}
}

// Run writes the record until ctx ends, and closes it. The server must have stopped by then, or
// late arrivals are lost. An error means that the record could not be written.
func (s *Sink) Run(ctx context.Context) error {
	var w journal.SeenWriter
	if _, err := s.out.Write(w.Start(nil, time.Now())); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	tick := time.NewTicker(FlushEvery)
	defer tick.Stop()
	marked := int64(-1)
	for {
		select {
		case <-ctx.Done():
			n, _, err := s.flush()
			if err == nil && s.dropped.Load() == 0 {
				_, err = s.out.Write(w.Close(nil, n))
			}
			if err != nil {
				return fmt.Errorf("write record: %w", err)
			}
			return nil
		case <-tick.C:
			n, wrote, err := s.flush()
			if err == nil && !wrote && n != marked && s.dropped.Load() == 0 {
				marked = n
				_, err = s.out.Write(w.Mark(nil, n))
			}
			if err != nil {
				return fmt.Errorf("write record: %w", err)
			}
		}
	}
}

// flush writes the buffer. It returns the number of arrivals in the file, and whether it wrote a
// byte.
func (s *Sink) flush() (n int64, wrote bool, err error) {
	s.mu.Lock()
	full := s.buf
	s.buf, s.spare = s.spare[:0], nil
	n = s.seen
	s.mu.Unlock()

	if len(full) > 0 {
		_, err = s.out.Write(full)
	}
	s.mu.Lock()
	s.spare = full
	s.mu.Unlock()
	return n, len(full) > 0, err
}

// Stats returns the counters.
func (s *Sink) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Seen: s.seen, Runs: int64(len(s.runs)), Open: s.open.Load(), Failed: s.failed.Load(), Dropped: s.dropped.Load(), Buffered: len(s.buf)}
}

// ServeHTTP records the call and answers it.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	if r.Method == http.MethodGet && r.URL.Path == "/stats" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.Stats()) // the caller has gone; nobody is left to tell
		return
	}
	sent := &check.Sent{
		Key: r.Header.Get("Idempotency-Key"), Job: r.Header.Get("Carillon-Job-Id"), Type: r.Header.Get("Content-Type"),
	}
	if r.ContentLength != 0 {
		var whole bool
		if sent.Body, whole = hashBody(r.Body); !whole {
			sent = nil // its caller is gone: an arrival all the same
		}
	}
	for name, values := range r.Header {
		if sent != nil && journal.IsCustom(name) {
			sent.Custom = sent.Custom.AddHeader(name, strings.Join(values, ","))
		}
	}
	a := journal.Arrival{
		Run: r.Header.Get("Carillon-Run-Id"), Path: r.URL.Path, Due: r.Header.Get("Carillon-Due-At"),
		Attempt: headerInt(r, "Carillon-Attempt"), Fence: headerInt(r, "Carillon-Fence"), At: now, Sent: sent,
		From: from(r.RemoteAddr),
	}
	m := mannerOf(a.Path)
	var failed bool
	if a.Status, a.RetryAfter, failed = m.answers(a.Attempt); failed {
		s.failed.Add(1)
	}
	if !m.held() {
		a.End = time.Now()
		if !s.add(&a) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answer(w, a.Status, a.RetryAfter)
		return
	}

	if !s.add(&a) {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	s.open.Add(1)
	defer s.open.Add(-1)
	if a.Gone = m.hold(w, r); !a.Gone.IsZero() || m.hang || m.drip {
		a.Status = 0
	}
	if a.Status == 0 {
		a.RetryAfter = 0 // the caller got no answer
	}
	a.End = time.Now()
	s.mu.Lock()
	s.buf = journal.SeenWriter{}.End(s.buf, &a)
	s.mu.Unlock()
	if !m.drip && (a.Status != 0 || a.Gone.IsZero()) {
		answer(w, a.Status, a.RetryAfter)
	}
}

// buffers are for reading bodies.
var buffers = sync.Pool{New: func() any { return new([bodyBuffer]byte) }}

// hashBody reads a body and returns its hash. It is not whole if it was cut short, or is longer
// than MaxBody.
func hashBody(body io.Reader) (h check.Hash, whole bool) {
	buffer, _ := buffers.Get().(*[bodyBuffer]byte)
	defer buffers.Put(buffer)
	for left := MaxBody; left > 0; {
		n, err := body.Read(buffer[:min(left, bodyBuffer)])
		h, left = h.Add(buffer[:n]), left-n
		if err != nil {
			return h, errors.Is(err, io.EOF)
		}
	}
	return h, false
}

// answer answers with a status, and with Retry-After unless after is 0. Status 0 closes the
// connection.
func answer(w http.ResponseWriter, status int, after time.Duration) {
	if status == 0 {
		panic(http.ErrAbortHandler) // how net/http is told to do so
	}
	if after > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64(after/time.Second), 10))
	}
	w.WriteHeader(status)
}

// add numbers and buffers an arrival. It reports false if there is no room.
func (s *Sink) add(a *journal.Arrival) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.buf) > MaxBuffered {
		s.dropped.Add(1)
		return false
	}
	s.seen++
	s.runs[maphash.String(seed, a.Run)] = struct{}{}
	a.N = s.seen
	s.buf = journal.SeenWriter{}.Arrival(s.buf, a)
	return true
}

// from returns the host of an address; "" for one of this machine.
func from(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if ip, parsed := netip.ParseAddr(host); err != nil || parsed != nil || ip.IsLoopback() {
		return ""
	}
	return host
}

func headerInt(r *http.Request, name string) int64 {
	n, err := strconv.ParseInt(r.Header.Get(name), 10, 64)
	if err != nil {
		return 0 // absent or not a number: the judge sees attempt 0
	}
	return n
}
