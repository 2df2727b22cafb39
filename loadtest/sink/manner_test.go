package sink_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/sink"
)

// callAt calls an address of the sink and returns the status; 0 if the connection was closed
// instead.
func callAt(ctx context.Context, s http.Handler, path string, attempt int) (status int) {
	status, _ = answered(ctx, s, path, attempt)
	return status
}

// answered is callAt, with the answer's header.
func answered(ctx context.Context, s http.Handler, path string, attempt int) (status int, header http.Header) {
	r := httptest.NewRequest(http.MethodPost, path, http.NoBody).WithContext(ctx)
	r.Header.Set("Carillon-Run-Id", "r1")
	r.Header.Set("Carillon-Attempt", fmt.Sprint(attempt))
	w := httptest.NewRecorder()
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			status, header = 0, nil
		default:
			panic(p)
		}
	}()
	s.ServeHTTP(w, r)
	return w.Code, w.Result().Header
}

func TestAddressesSayHowTheyAreAnswered(t *testing.T) {
	const never = 0
	rows := []struct {
		path    string
		answers []int // of attempts 1, 2, 3
	}{
		{"/s1/5", []int{200, 200, 200}},
		{"/hook/s1/5", []int{200, 200, 200}},
		{"/fail/s1/5", []int{500, 500, 500}},
		{"/fail-2/s1/5", []int{500, 500, 200}},
		{"/fail-x/s1/5", []int{200, 200, 200}},
		{"/status-404/s1/5", []int{404, 404, 404}},
		{"/status-204/fail-1/s1/5", []int{500, 204, 204}},
		{"/status-42/s1/5", []int{200, 200, 200}},
		{"/fail-2/status-429/s1/5", []int{429, 429, 200}},
		{"/status-404/fail-1/s1/5", []int{404, 200, 200}},
		{"/after-3s/s1/5", []int{200, 200, 200}},
		{"/cut-1/s1/5", []int{never, 200, 200}},
		{"/cut/s1/5", []int{never, never, never}},
		{"/fail/5", []int{200, 200, 200}}, // the source is called so
	}
	for _, row := range rows {
		t.Run(row.path, func(t *testing.T) {
			s := sink.New(&bytes.Buffer{})
			if got := callAt(t.Context(), s, row.path, 0); got != row.answers[0] {
				t.Errorf("a call without an attempt's number at %s = %d, want %d", row.path, got, row.answers[0])
			}
			for i, want := range row.answers {
				if got := callAt(t.Context(), s, row.path, i+1); got != want {
					t.Errorf("attempt %d at %s = %d, want %d", i+1, row.path, got, want)
				}
			}
		})
	}
}

// TestFailuresAskToWait: what a failure asks for by Retry-After is what the record tells; what
// nobody was told is not in it.
func TestFailuresAskToWait(t *testing.T) {
	rows := []struct {
		path    string
		attempt int
		header  string // of the answer
		after   time.Duration
	}{
		{"/status-429/after-3s/s1/1", 1, "3", 3 * time.Second},
		{"/after-3s/status-429/s1/2", 7, "3", 3 * time.Second},
		{"/fail-1/status-429/after-1m/s1/3", 1, "60", time.Minute},
		{"/fail-1/status-429/after-1m/s1/4", 2, "", 0},
		{"/fail/after-2s/s1/5", 1, "2", 2 * time.Second},
		{"/work-1s/status-500/after-2s/s1/6", 1, "2", 2 * time.Second},
		{"/status-500/after-1001ms/s1/7", 1, "2", 2 * time.Second},
		{"/status-500/after-1000h/s1/8", 1, "86400", sink.MaxRetryAfter},
		{"/status-500/after--3s/s1/9", 1, "", 0},
		{"/status-500/after-soon/s1/10", 1, "", 0},
		{"/status-204/after-3s/s1/11", 1, "", 0},
		{"/work-5s/status-500/after-2s/s1/12", 1, "", 0}, // its caller goes away
		{"/status-500/after-2s/cut/s1/13", 1, "", 0},
	}
	synctest.Test(t, func(t *testing.T) {
		var out file
		s := sink.New(&out)
		stop := run(t, s)
		for _, row := range rows {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			if _, got := answered(ctx, s, row.path, row.attempt); got.Get("Retry-After") != row.header {
				t.Errorf("attempt %d at %s: Retry-After = %q, want %q", row.attempt, row.path, got.Get("Retry-After"), row.header)
			}
			cancel()
		}
		stop()
		seen, all := read(t, out.Bytes())
		if len(seen) != len(rows) || !all {
			t.Fatalf("record holds %d arrivals, complete %t, want %d, true", len(seen), all, len(rows))
		}
		for i, got := range seen {
			if got.RetryAfter != rows[i].after {
				t.Errorf("the record of attempt %d at %s tells of %v, want %v", rows[i].attempt, rows[i].path, got.RetryAfter, rows[i].after)
			}
		}
	})
}

func TestWorkIsDoneToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out file
		s := sink.New(&out)
		stop := run(t, s)
		at := time.Now().UTC()
		hungUp, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if got := callAt(t.Context(), s, "/work-2s/fail-1/s1/1", 1); got != 500 {
				t.Errorf("work that fails = %d, want 500", got)
			}
		})
		wg.Go(func() { callAt(hungUp, s, "/work-2s/s1/2", 1) })
		time.Sleep(time.Second)
		if got := s.Stats(); got.Open != 2 || got.Seen != 2 || got.Runs != 1 {
			t.Errorf("Stats = %+v while both are worked on, want two of one run seen and open", got)
		}
		wg.Wait()
		stop()
		seen, all := read(t, out.Bytes())
		if len(seen) != 2 || !all || s.Stats().Open != 0 {
			t.Fatalf("record holds %d arrivals, complete %t, open %d, want 2, true, 0", len(seen), all, s.Stats().Open)
		}
		for _, got := range seen {
			status, gone := 500, time.Time{}
			if got.Ref.Line == 2 {
				status, gone = 0, at.Add(300*time.Millisecond)
			}
			if !got.At.Equal(at) || !got.End.Equal(at.Add(2*time.Second)) || got.Status != status || !got.Gone.Equal(gone) {
				t.Errorf("line %d: %s to %s, status %d, gone %s; want %s and 2 s later, %d, %s", got.Ref.Line, got.At, got.End, got.Status, got.Gone, at, status, gone)
			}
		}
	})
}

func TestWhatHangsEndsWithItsCallerOrAtTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sink.New(&bytes.Buffer{})
		at := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		callAt(ctx, s, "/hang/s1/1", 1)
		if took := time.Since(at); took != time.Second {
			t.Errorf("a hanging call ended %s after its caller came, want 1s", took)
		}
		if got := callAt(t.Context(), s, "/hang/s1/1", 1); got != 0 || time.Since(at) != time.Second+sink.MaxHold {
			t.Errorf("a hanging call with a patient caller = %d after %s, want its end without an answer after %s", got, time.Since(at), sink.MaxHold)
		}
	})
}

// Over a real connection: the caller's going away is seen, a cut call has no answer, and a dripped
// answer flows.
func TestMannersOverAConnection(t *testing.T) {
	var out file
	s := sink.New(&out)
	stop := run(t, s)
	srv := httptest.NewServer(s)
	client := srv.Client()

	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/drip/s1/1", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("a dripped answer = %v, %v, want 200", resp, err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 3)); err != nil {
		t.Errorf("read three bytes of a dripped answer: %v", err)
	}
	cancel()
	_ = resp.Body.Close()

	if resp, err := client.Post(srv.URL+"/cut/s1/2", "application/json", strings.NewReader("{}")); err == nil {
		_ = resp.Body.Close()
		t.Errorf("a cut call = %d, want an error", resp.StatusCode)
	}
	srv.Close() // waits for the calls
	stop()
	seen, all := read(t, out.Bytes())
	if len(seen) != 2 || !all {
		t.Fatalf("record holds %+v, complete %t, want two arrivals, true", seen, all)
	}
	want := check.Sighting{Ref: check.Ref{Source: "s1", Line: 1}}
	if got := seen[0]; got.Ref != want.Ref || got.Gone.IsZero() || got.Status != 0 || got.End.Before(got.Gone) {
		t.Errorf("the dripped call = %+v, want its caller gone, and its end after that", got)
	}
	if got := seen[1]; !got.Gone.IsZero() || got.Status != 0 || got.End.IsZero() {
		t.Errorf("the cut call = %+v, want an end without an answer", got)
	}
}
