package jetstream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/queue/jetstream"
	"carillon.dev/carillon/dispatcher/queue/jetstream/embedded"
	"carillon.dev/carillon/schema"
)

// line leads to a server, and can be cut.
type line struct {
	to string

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

// lead makes a line to the server at url, and returns the URL of its other end.
func lead(t *testing.T, url string) (*line, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	l := &line{to: strings.TrimPrefix(url, "nats://")}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { l.carry(near) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		l.set(true)
		all.Wait()
	})
	return l, "nats://" + listener.Addr().String()
}

// set cuts the line, or mends it.
func (l *line) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	if cut {
		for _, c := range l.conns {
			_ = c.Close()
		}
		l.conns = nil
	}
}

func (l *line) carry(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer far.Close()
	l.mu.Lock()
	cut := l.cut
	l.conns = append(l.conns, near, far)
	l.mu.Unlock()
	if cut {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far)
		_ = near.Close()
	})
	_, _ = io.Copy(far, near)
	_ = far.Close()
	back.Wait()
}

// until waits for a state of the queue.
func until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for begun := time.Now(); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("after %v the queue is not %s", patience, what)
		}
	}
}

// TestARequestWithoutAConnectionIsNotKept: the client kept requests that were made while it was not
// connected, and sent them to workers when it was again: long after their askers had given up, and
// beside what had been asked since.
func TestARequestWithoutAConnectionIsNotKept(t *testing.T) {
	server, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: true})
	if err != nil {
		t.Fatalf("embedded.Start: %v", err)
	}
	t.Cleanup(server.Close)
	l, url := lead(t, server.URL())
	q := connect(t, jetstream.Config{URLs: []string{url}})
	nc, _ := dial(t, jetstream.Config{Server: server})
	heard := make(chan string, 10)
	if _, err := nc.Subscribe("work.late", func(m *nats.Msg) {
		heard <- string(m.Data)
		if err := m.Respond(nil); err != nil {
			t.Errorf("respond: %v", err)
		}
	}); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	ask := func(text string, patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return q.Request(ctx, "work.late", nil, []byte(text), func(queue.Reply) bool { return false })
	}
	if err := ask("before", patience); err != nil || !q.Reachable() {
		t.Fatalf("Request: %v, Reachable: %v; want an answer and true", err, q.Reachable())
	}
	l.set(true)
	until(t, "cut off", func() bool { return q.Ready() != nil })
	if q.Reachable() {
		t.Error("Reachable without a connection: true")
	}
	if err := ask("meanwhile", time.Second); !errors.Is(err, queue.ErrOffline) {
		t.Errorf("Request without a connection: %v, want ErrOffline", err)
	}
	l.set(false)
	until(t, "connected again", func() bool { return q.Ready() == nil })
	if err := ask("after", patience); err != nil || !q.Reachable() {
		t.Errorf("Request when connected again: %v, Reachable: %v; want an answer and true", err, q.Reachable())
	}
	if got := []string{<-heard, <-heard}; got[0] != "before" || got[1] != "after" {
		t.Errorf("the worker heard %q first, want what was asked before and after", got)
	}
}

// TestAPullWithoutAConnectionIsNotKept: the client kept pulls that were made while it was not
// connected. When it was again, it sent them, and the session that had made them ended: what the
// server answered was read by nobody, and came again after AckWait.
func TestAPullWithoutAConnectionIsNotKept(t *testing.T) {
	server, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: true})
	if err != nil {
		t.Fatalf("embedded.Start: %v", err)
	}
	t.Cleanup(server.Close)
	l, url := lead(t, server.URL())
	q := connect(t, jetstream.Config{URLs: []string{url}, Lanes: 1})
	nc, _ := dial(t, jetstream.Config{Server: server})
	pulls, err := nc.SubscribeSync("$JS.API.CONSUMER.MSG.NEXT.>")
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	l.set(true)
	until(t, "cut off", func() bool { return q.Ready() != nil })
	if ds, err := q.Fetch(t.Context(), 0, schema.Normal, 7, 100*time.Millisecond); err != nil || len(ds) > 0 {
		t.Errorf("Fetch without a connection = %d messages, %v, want none", len(ds), err)
	}
	l.set(false)
	until(t, "connected again", func() bool { return q.Ready() == nil })
	publish(t, q, envelope(t, 1))
	fetch(t, q).Ack() // pulls one message
	m, err := pulls.NextMsg(patience)
	if err != nil {
		t.Fatalf("NextMsg: %v", err)
	}
	if !strings.Contains(string(m.Data), `"batch":1,`) {
		t.Errorf("the first pull after the cut asks %s, want that of the fetch after it", m.Data)
	}
}

// TestTheMetricSaysWhetherNATSAnswers: carillon_queue_ready is 1, 0 while there is no connection,
// and 1 again. There was only a counter of connections that had come back, so nothing was seen of
// one that stayed away.
func TestTheMetricSaysWhetherNATSAnswers(t *testing.T) {
	server, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: true})
	if err != nil {
		t.Fatalf("embedded.Start: %v", err)
	}
	t.Cleanup(server.Close)
	l, url := lead(t, server.URL())
	reg := prometheus.NewRegistry()
	connect(t, jetstream.Config{URLs: []string{url}, Registerer: reg})
	ready := func() float64 {
		families, err := reg.Gather()
		if err != nil {
			t.Fatalf("Gather: %v", err)
		}
		for _, f := range families {
			if f.GetName() == "carillon_queue_ready" {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatal("there is no metric carillon_queue_ready")
		return 0
	}
	until(t, "ready by its metric", func() bool { return ready() == 1 })
	l.set(true)
	until(t, "away by its metric", func() bool { return ready() == 0 })
	l.set(false)
	until(t, "ready again by its metric", func() bool { return ready() == 1 })
}
