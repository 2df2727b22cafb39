package forward_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer/httpapi/forward"
)

// far is another region, to which a Forwarder connects by pipes.
type far struct {
	*testing.T
	f *forward.Forwarder

	mu    sync.Mutex
	cut   bool // what is sent is not answered, and dials are not
	dials int
	wait  chan struct{} // answers wait for it
	conns []net.Conn
}

// inCut runs test in a bubble with another region.
func inCut(t *testing.T, test func(w *far)) {
	synctest.Test(t, func(t *testing.T) {
		w := &far{T: t, wait: make(chan struct{})}
		w.f, _ = forwarder(t, forward.Config{APIs: map[string][]string{"us": {"http://us.test"}}})
		forward.DialBy(w.f, w.dial)
		test(w)
		w.f.Close()
		for _, c := range w.conns {
			_ = c.Close()
		}
		synctest.Wait()
	})
}

func (w *far) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
}

func (w *far) isCut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut
}

func (w *far) dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	w.dials++
	cut := w.cut
	w.mu.Unlock()
	if cut {
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
		return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
	}
	near, there := net.Pipe()
	w.mu.Lock()
	w.conns = append(w.conns, near, there)
	w.mu.Unlock()
	go func() {
		for in := bufio.NewReader(there); ; {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if w.isCut() {
				continue
			}
			<-w.wait
			_, _ = io.WriteString(there, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	}()
	return near, nil
}

func (w *far) send(ctx context.Context, answer func(*http.Response)) error {
	return w.f.Send(ctx, "us", forward.Request{Method: "POST", Target: "/v1/jobs", Body: []byte("{}")}, answer)
}

// dialled fails the test unless so many connections were asked for.
func (w *far) dialled(when string, want int) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dials != want {
		w.Errorf("%s: %d connections were asked for, want %d", when, w.dials, want)
	}
}

// TestARegionThatIsCutOff: requests on connections of before the cut are unknown after the
// time-out; then the region is left alone, those connections are not used again, and nothing more
// is sent.
func TestARegionThatIsCutOff(t *testing.T) {
	inCut(t, func(w *far) {
		var both sync.WaitGroup
		for range 2 { // two connections
			both.Go(func() {
				if err := w.send(w.Context(), func(*http.Response) {}); err != nil {
					w.Errorf("Send = %v, want nil", err)
				}
			})
		}
		synctest.Wait()
		close(w.wait)
		both.Wait()
		w.dialled("before the cut", 2)
		w.set(true)
		began := time.Now()
		if err := w.send(w.Context(), never{w.T}.answer); !errors.Is(err, forward.ErrUnknown) || time.Since(began) != 10*time.Second {
			w.Errorf("Send on a connection of before = %v after %v, want ErrUnknown after the time-out", err, time.Since(began))
		}
		if err := w.send(w.Context(), never{w.T}.answer); !errors.Is(err, forward.ErrUnreachable) {
			w.Errorf("Send just after = %v, want ErrUnreachable", err)
		}
		w.dialled("while it is left alone", 2)
		time.Sleep(time.Second)
		if err := w.send(w.Context(), never{w.T}.answer); !errors.Is(err, forward.ErrUnreachable) {
			w.Errorf("Send later = %v, want ErrUnreachable, for the other connection of before is not used", err)
		}
		w.dialled("after that", 3)
		w.set(false)
		time.Sleep(time.Second)
		if err := w.send(w.Context(), func(*http.Response) {}); err != nil {
			w.Errorf("Send after the cut = %v, want nil", err)
		}
	})
}

// TestACallerWithoutTime: that its own time is over says nothing of the region.
func TestACallerWithoutTime(t *testing.T) {
	inCut(t, func(w *far) {
		close(w.wait)
		w.set(true)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		if err := w.send(ctx, never{w.T}.answer); !errors.Is(err, forward.ErrUnreachable) {
			w.Errorf("Send = %v, want ErrUnreachable", err)
		}
		w.set(false)
		if err := w.send(w.Context(), func(*http.Response) {}); err != nil {
			w.Errorf("Send of another caller = %v, want nil at once", err)
		}
		w.dialled("afterwards", 2)
	})
}

// TestAConnectionThatIsDead: where nothing could be written on a connection of before, and no new
// one is taken, nothing was sent, and the region is left alone. Of a request with a key it may be
// said that this is not known, since it may be sent again.
func TestAConnectionThatIsDead(t *testing.T) {
	for _, key := range []string{"", "k"} {
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		f, _ := forwarder(t, forward.Config{APIs: map[string][]string{"us": {s.URL}}, Rest: time.Hour})
		r := forward.Request{Method: "POST", Target: "/", Header: http.Header{}, Body: []byte("{}")}
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		if err := f.Send(t.Context(), "us", r, func(*http.Response) {}); err != nil {
			t.Fatal(err)
		}
		died := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
			died = got.Reused
			_ = s.Listener.Close()
			_ = got.Conn.Close()
		}})
		if err := f.Send(ctx, "us", r, never{t}.answer); !died || !errors.Is(err, forward.ErrUnreachable) && (key == "" || !errors.Is(err, forward.ErrUnknown)) {
			t.Errorf("key %q: Send on a connection that is dead (%v) = %v, want ErrUnreachable", key, died, err)
		}
		if err := f.Send(t.Context(), "us", r, never{t}.answer); !errors.Is(err, forward.ErrUnreachable) || !strings.Contains(err.Error(), "a moment ago") {
			t.Errorf("key %q: Send afterwards = %v, want that the region is left alone", key, err)
		}
		s.Close()
	}
}
