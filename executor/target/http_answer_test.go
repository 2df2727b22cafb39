package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
)

func TestHTTPVerdictOfEveryStatus(t *testing.T) {
	final := func(status int) bool {
		return status >= 400 && status < 500 && status != 408 && status != 425 && status != 429
	}
	var status int
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	h := newHTTP(t, HTTPConfig{})
	for status = 200; status < 600; status++ {
		res := h.Run(t.Context(), callTo(s.URL))
		want := Result{Outcome: schema.Failed, Status: status, Final: final(status)}
		if status < 300 {
			want.Outcome = schema.Succeeded
		}
		if res.Outcome != want.Outcome || res.Status != want.Status || res.Final != want.Final || res.RetryAfter != 0 {
			t.Errorf("Run answered %d: got %+v, want %+v", status, res, want)
		}
		if failed := res.Outcome != schema.Succeeded; failed != strings.HasPrefix(res.Error, fmt.Sprintf("answered %d", status)) {
			t.Errorf("Run answered %d: got the error %q, want one exactly where it failed", status, res.Error)
		}
	}
}

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		header string
		want   time.Duration
	}{
		"absent":                    {"", 0},
		"zero":                      {"0", 0},
		"seconds":                   {"120", 2 * time.Minute},
		"spaces around":             {" 7 ", 7 * time.Second},
		"leading zeros":             {"0007", 7 * time.Second},
		"a day":                     {"86400", 24 * time.Hour},
		"more than a day":           {"86401", 24 * time.Hour},
		"more than a duration":      {"9223372037", 24 * time.Hour},
		"more than an int64":        {strings.Repeat("9", 400), 24 * time.Hour},
		"negative":                  {"-5", 0},
		"signed":                    {"+5", 0},
		"a fraction":                {"1.5", 0},
		"with a unit":               {"5s", 0},
		"words":                     {"soon", 0},
		"date":                      {"Sat, 21 Nov 2026 10:00:30 GMT", 30 * time.Second},
		"date, RFC 850":             {"Saturday, 21-Nov-26 10:00:30 GMT", 30 * time.Second},
		"date, asctime":             {"Sat Nov 21 10:00:30 2026", 30 * time.Second},
		"date in the past":          {"Sat, 21 Nov 2026 09:00:00 GMT", 0},
		"date in the far past":      {"Thu, 01 Jan 1970 00:00:00 GMT", 0},
		"date more than a day off":  {"Mon, 23 Nov 2026 10:00:00 GMT", 24 * time.Hour},
		"date centuries off":        {"Fri, 31 Dec 9999 23:59:59 GMT", 24 * time.Hour},
		"date that does not exist":  {"Sat, 31 Feb 2026 10:00:00 GMT", 0},
		"date in RFC 3339":          {"2026-11-21T10:00:30Z", 0},
		"digits that are not ASCII": {"١٢", 0},
	} {
		if got := parseRetryAfter(c.header, now); got != c.want {
			t.Errorf("%s: parseRetryAfter(%.40q): got %s, want %s", name, c.header, got, c.want)
		}
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, s := range []string{"", "5", "-1", "Sat, 21 Nov 2026 10:00:30 GMT", "99999999999999999999"} {
		f.Add(s, int64(0))
	}
	f.Fuzz(func(t *testing.T, s string, unix int64) {
		if got := parseRetryAfter(s, time.Unix(unix, 0)); got < 0 || got > MaxRetryAfter {
			t.Errorf("parseRetryAfter(%q, %d): got %s, want between 0 and %s", s, unix, got, MaxRetryAfter)
		}
	})
}

func TestHTTPHeedsRetryAfterWhereItApplies(t *testing.T) {
	var status int
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(status)
	})
	h := newHTTP(t, HTTPConfig{})
	for want, list := range map[time.Duration][]int{
		2 * time.Minute: {429, 503},
		0:               {200, 400, 404, 408, 425, 500, 502, 504},
	} {
		for _, status = range list {
			if res := h.Run(t.Context(), callTo(s.URL)); res.RetryAfter != want {
				t.Errorf("Run answered %d with Retry-After 120: got %s, want %s", status, res.RetryAfter, want)
			}
		}
	}
}

func TestHTTPKeepsTheHeadOfAnAnswer(t *testing.T) {
	whole := bytes.Repeat([]byte("0123456789abcdef"), (2<<20)/16)
	for name, c := range map[string]struct {
		size, limit, want int
		chunked           bool
	}{
		"empty":               {0, 0, 0, false},
		"one byte":            {1, 0, 1, false},
		"small":               {2000, 0, 2000, false},
		"small, chunked":      {2000, 0, 2000, true},
		"exactly kept":        {1 << 20, 0, 1 << 20, true},
		"more than is kept":   {1<<20 + 1, 0, 1 << 20, true},
		"within the bound":    {300_000, 400_000, 300_000, false},
		"exactly the limit":   {300_000, 300_000, 300_000, false},
		"more than the limit": {2 << 20, 300_000, 300_000, false},
		"and chunked":         {2 << 20, 300_000, 300_000, true},
		"small limit":         {2000, 100, 100, false},
		"at a small limit":    {100, 100, 100, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if c.chunked {
					http.NewResponseController(w).Flush() //nolint:errcheck // the body that follows is checked
				}
				_, _ = w.Write(whole[:c.size]) // a client that has enough hangs up
			})
			h := newHTTP(t, HTTPConfig{MaxBody: c.limit})
			res := h.Run(t.Context(), callTo(s.URL))
			if res.Outcome != schema.Succeeded || !bytes.Equal(res.Output, whole[:c.want]) {
				t.Errorf("Run answered %d bytes: got %s, %d bytes of output, want a success and the first %d", c.size, res.Outcome, len(res.Output), c.want)
			}
			if cut := c.size > c.want; res.OutputCut != cut {
				t.Errorf("Run answered %d bytes, of which %d are kept: cut is %t, want %t", c.size, c.want, res.OutputCut, cut)
			}
			if cap(res.Output) > 2<<20 {
				t.Errorf("Run answered %d bytes: holds %d, want at most %d", c.size, cap(res.Output), 2<<20)
			}
		})
	}
}

// reader counts what is read of an endless body.
type reader struct{ read int64 }

func (r *reader) Read(p []byte) (int, error) {
	r.read += int64(len(p))
	return len(p), nil
}

func TestReadBodyEndsAtTheLimit(t *testing.T) {
	for _, length := range []int64{-1, math.MaxInt64} {
		for _, limit := range []int{1, 511, freeOutput, freeOutput + 1, 1 << 20} {
			r := new(reader)
			keep := min(limit, 200_000)
			b, err := (&HTTP{maxBody: limit, maxOutput: keep}).readBody(r, length, ByteGrant{})
			if err != nil || len(b.kept) != keep || !b.cut || r.read > int64(limit)+1 {
				t.Errorf("readBody of an endless body, limit %d: got %d bytes of %d read, cut %t, %v; want %d of at most %d", limit, len(b.kept), r.read, b.cut, err, keep, limit+1)
			}
		}
	}
}

func TestReadBodyTakesRoom(t *testing.T) {
	room := NewByteBudget(6 * grantStep) // half of it for one tenant
	h := &HTTP{maxBody: 1 << 20, maxOutput: 1 << 20}
	first, err := h.readBody(new(reader), -1, room.Grant("t"))
	if err != nil || len(first.kept) != freeOutput+3*grantStep || first.memory.bytes != 3*grantStep || !first.cut {
		t.Errorf("readBody with room for %d: got %d bytes, %d of room, cut %t, %v", 3*grantStep, len(first.kept), first.memory.bytes, first.cut, err)
	}
	second, err := h.readBody(new(reader), -1, room.Grant("t"))
	if err != nil || len(second.kept) != freeOutput || second.memory.bytes != 0 || !second.cut {
		t.Errorf("readBody without room: got %d bytes, %d of room, cut %t, %v; want the first %d", len(second.kept), second.memory.bytes, second.cut, err, freeOutput)
	}
	first.memory.Release()
	if third, err := h.readBody(new(reader), -1, room.Grant("t")); err != nil || third.memory.bytes != 3*grantStep {
		t.Errorf("readBody with room again: got %d bytes of it, %v", third.memory.bytes, err)
	}
}

func TestEndedSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		cause error
		want  Result
	}{
		"time-out":   {ErrTimeout, Result{Outcome: schema.TimedOut, Error: "no complete answer before the time-out"}},
		"wrapped":    {fmt.Errorf("x: %w", ErrCancelled), Result{Outcome: schema.Cancelled, Error: "cancelled"}},
		"cancelled":  {ErrCancelled, Result{Outcome: schema.Cancelled, Error: "cancelled"}},
		"stopped":    {ErrStopped, Result{Outcome: schema.Failed, Error: ErrStopped.Error()}},
		"no cause":   {nil, Result{Outcome: schema.Failed, Error: ErrStopped.Error()}},
		"some cause": {errors.New("secret"), Result{Outcome: schema.Failed, Error: ErrStopped.Error()}},
		"deadline":   {context.DeadlineExceeded, Result{Outcome: schema.TimedOut, Error: "no complete answer before the time-out"}},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(c.cause)
		if got := Ended(ctx); got.Outcome != c.want.Outcome || got.Error != c.want.Error || got.Final {
			t.Errorf("%s: ended: got %+v, want %+v", name, got, c.want)
		}
	}
}

// Each end of an attempt at each point of the call. The server waits for the client to hang up, so
// that no test waits for time.
func TestHTTPEndsWithItsContext(t *testing.T) {
	type state struct{ reached, gone chan struct{} }
	points := map[string]func(w http.ResponseWriter){
		"before the answer": func(http.ResponseWriter) {},
		"after the headers": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		},
		"in the body": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte("some"))
			_ = http.NewResponseController(w).Flush()
		},
		"in the body of a final answer": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte("some"))
			_ = http.NewResponseController(w).Flush()
		},
	}
	for point, f := range points {
		for cause, want := range map[error]schema.Outcome{ErrTimeout: schema.TimedOut, ErrCancelled: schema.Cancelled, ErrStopped: schema.Failed} {
			t.Run(point+", "+cause.Error(), func(t *testing.T) {
				st := state{make(chan struct{}), make(chan struct{})}
				s := serve(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body) // before its end a server does not notice that the client is gone
					f(w)
					close(st.reached)
					<-r.Context().Done()
					close(st.gone)
				})
				h := newHTTP(t, HTTPConfig{})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				go func() {
					<-st.reached
					cancel(cause)
				}()
				res := h.Run(ctx, callTo(s.URL))
				if res.Outcome != want || res.Final {
					t.Errorf("Run: got %+v, want %s and no final failure", res, want)
				}
				<-st.gone // the connection was dropped, not left to the server
			})
		}
	}
}

func TestHTTPDoesNothingAfterItsContext(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was called") })
	h := newHTTP(t, HTTPConfig{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrCancelled)
	if res := h.Run(ctx, callTo(s.URL)); res.Outcome != schema.Cancelled {
		t.Errorf("Run after its end: got %+v, want cancelled", res)
	}
}

// drip is a body that gives a byte a minute.
type drip struct{ ctx context.Context }

func (d drip) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Minute):
		p[0] = '.'
		return 1, nil
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}

func (drip) Close() error { return nil }

func TestHTTPDripFeedEndsWithTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHTTP(t, HTTPConfig{})
		begin := time.Now()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour+time.Second, ErrTimeout)
		defer cancel()
		res := h.read(ctx, "default", &http.Response{StatusCode: 200, ContentLength: -1, Body: drip{ctx}})
		if took := time.Since(begin); res.Outcome != schema.TimedOut || took != time.Hour+time.Second || len(res.Output) != 60 || res.Status != 200 {
			t.Errorf("read of a byte a minute: got %+v after %s, want timed_out after 1h0m1s with 60 bytes and the status", res, took)
		}
	})
}
