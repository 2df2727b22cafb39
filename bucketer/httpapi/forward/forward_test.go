package forward_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer/httpapi/forward"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// forwarder returns one of region eu.
func forwarder(t *testing.T, cfg forward.Config) (*forward.Forwarder, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	cfg.Region, cfg.Registerer = "eu", reg
	f, err := forward.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f, reg
}

// api serves h until the test ends, and returns its URL.
func api(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// nowhere returns a URL at which nobody listens any more.
func nowhere() string {
	s := httptest.NewServer(nil)
	defer s.Close()
	return s.URL
}

// counted fails the test unless the requests to region us had these outcomes and no others.
func counted(t *testing.T, reg *prometheus.Registry, want string) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if n := m.GetCounter().GetValue(); n > 0 {
				got = append(got, fmt.Sprintf("%s=%v", m.GetLabel()[0].GetValue(), n)) // labels are in order: the outcome first
			}
		}
	}
	if line := strings.Join(got, " "); line != want {
		t.Errorf("outcomes %q, want %q", line, want)
	}
}

// never is of requests that have no answer.
type never struct{ *testing.T }

func (n never) answer(*http.Response) { n.Error("answer was called, want an error alone") }

// TestSend: a request arrives as it is, marked, and its answer comes back; an address that takes no
// connection is passed over, and the one that took one is asked first the next time.
func TestSend(t *testing.T) {
	us := api(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		w.Header().Set("Location", "/elsewhere") // is not followed
		w.WriteHeader(http.StatusSeeOther)
		_, _ = io.WriteString(w, strings.Join([]string{r.Method, r.RequestURI, r.Header.Get("Idempotency-Key"), r.Header.Get(forward.Header), string(text)}, " "))
	})
	f, reg := forwarder(t, forward.Config{APIs: map[string][]string{"us": {nowhere(), us + "/base/"}, "ap": nil}})
	if !f.Knows("us") || f.Knows("ap") || f.Knows("eu") {
		t.Error("Knows: want us alone")
	}
	for range 2 {
		got := ""
		err := f.Send(t.Context(), "us", forward.Request{Method: "POST", Target: "/v1/jobs?a=b", Header: http.Header{"Idempotency-Key": {"k"}}, Body: []byte("{}")}, func(r *http.Response) {
			text, err := io.ReadAll(r.Body)
			if got = string(text); err != nil || r.StatusCode != http.StatusSeeOther {
				t.Errorf("answered %d, %v, want 303", r.StatusCode, err)
			}
		})
		if want := "POST /base/v1/jobs?a=b k eu {}"; err != nil || got != want {
			t.Errorf("Send = %q, %v, want %q", got, err, want)
		}
	}
	counted(t, reg, "answered=2")
}

// TestARegionThatIsAway: it is asked once, and then left alone for a while.
func TestARegionThatIsAway(t *testing.T) {
	now := time.Now()
	f, reg := forwarder(t, forward.Config{APIs: map[string][]string{"us": {nowhere(), nowhere()}}, Rest: time.Second, Now: func() time.Time { return now }})
	send := func() error {
		return f.Send(t.Context(), "us", forward.Request{Method: "DELETE", Target: "/"}, never{t}.answer)
	}
	if err := send(); !errors.Is(err, forward.ErrUnreachable) || strings.Count(err.Error(), "connection refused") != 2 {
		t.Errorf("Send = %v, want ErrUnreachable of two addresses", err)
	}
	now = now.Add(999 * time.Millisecond)
	if err := send(); !errors.Is(err, forward.ErrUnreachable) || strings.Contains(err.Error(), "refused") {
		t.Errorf("Send just after = %v, want ErrUnreachable without a dial", err)
	}
	now = now.Add(time.Millisecond)
	if err := send(); !errors.Is(err, forward.ErrUnreachable) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("Send later = %v, want that it was dialled again", err)
	}
	if err := f.Send(t.Context(), "ap", forward.Request{Method: "DELETE", Target: "/"}, never{t}.answer); !errors.Is(err, forward.ErrUnreachable) {
		t.Errorf("Send to a region without an address = %v, want ErrUnreachable", err)
	}
	counted(t, reg, "unreachable=3")
}

// TestWhatWasSentIsNotSentAgain: a request whose answer is lost goes to no other address, for it
// may have been carried out.
func TestWhatWasSentIsNotSentAgain(t *testing.T) {
	var sent atomic.Int64
	cut := api(t, func(http.ResponseWriter, *http.Request) { sent.Add(1); panic(http.ErrAbortHandler) })
	other := api(t, func(http.ResponseWriter, *http.Request) { sent.Add(1) })
	f, reg := forwarder(t, forward.Config{APIs: map[string][]string{"us": {cut, other}}})
	if err := f.Send(t.Context(), "us", forward.Request{Method: "POST", Target: "/", Body: []byte("{}")}, never{t}.answer); !errors.Is(err, forward.ErrUnknown) {
		t.Errorf("Send = %v, want ErrUnknown", err)
	}
	if n := sent.Load(); n != 1 {
		t.Errorf("it was sent %d times, want once", n)
	}
	counted(t, reg, "unknown=1")
}

// TestARegionThatIsSlow: it holds back so many requests and no more, and each for no longer than
// the time-out.
func TestARegionThatIsSlow(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	slow := api(t, func(http.ResponseWriter, *http.Request) { began <- struct{}{}; <-end })
	f, reg := forwarder(t, forward.Config{APIs: map[string][]string{"us": {slow}}, Most: 1})
	done := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- f.Send(ctx, "us", forward.Request{Method: "POST", Target: "/"}, never{t}.answer) }()
	<-began
	if err := f.Send(t.Context(), "us", forward.Request{Method: "POST", Target: "/"}, never{t}.answer); !errors.Is(err, forward.ErrBusy) {
		t.Errorf("Send beside one that is under way = %v, want ErrBusy", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, forward.ErrUnknown) {
		t.Errorf("Send that was given up = %v, want ErrUnknown", err)
	}
	close(end)
	impatient, _ := forwarder(t, forward.Config{APIs: map[string][]string{"us": {slow}}, Timeout: time.Nanosecond})
	if err := impatient.Send(t.Context(), "us", forward.Request{Method: "POST", Target: "/"}, never{t}.answer); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Send with no time = %v, want that it was exceeded", err)
	}
	counted(t, reg, "busy=1 unknown=1")
}

func TestNewNamesEveryFault(t *testing.T) {
	_, err := forward.New(forward.Config{APIs: map[string][]string{"us": {"us.example.com", "ftp://x", "https://u:p@x", "https://x?a=b", "http://"}}})
	if err == nil || strings.Count(err.Error(), "\n") != 5 {
		t.Errorf("New = %v, want six faults", err)
	}
}
