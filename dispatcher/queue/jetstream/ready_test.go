package jetstream_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/queue/jetstream"
	"carillon.dev/carillon/dispatcher/queue/jetstream/embedded"
)

// holding is a server to which writes wait while it is held.
type holding struct {
	*embedded.Server
	held    atomic.Bool
	waits   chan struct{} // a write waits
	release chan struct{}
}

func (h *holding) InProcessConn() (net.Conn, error) {
	conn, err := h.Server.InProcessConn()
	return heldConn{conn, h}, err
}

type heldConn struct {
	net.Conn
	by *holding
}

func (c heldConn) Write(p []byte) (int, error) {
	if c.by.held.CompareAndSwap(true, false) {
		close(c.by.waits)
		<-c.by.release
	}
	return c.Conn.Write(p)
}

// TestReadyDoesNotWaitForWrites: every write of jobs asks whether the queue is ready, and the
// client locks its connection while it writes to a server that is slow.
func TestReadyDoesNotWaitForWrites(t *testing.T) {
	server, err := embedded.Start(embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatalf("embedded.Start: %v", err)
	}
	t.Cleanup(server.Close)
	h := &holding{Server: server, waits: make(chan struct{}), release: make(chan struct{})}
	q := connect(t, jetstream.Config{Server: h})
	release := sync.OnceFunc(func() { close(h.release) })
	t.Cleanup(release) // before the queue is closed
	h.held.Store(true)
	go q.Signal("topic", []byte("waits"))
	select {
	case <-h.waits:
	case <-time.After(patience):
		t.Fatal("nothing is written")
	}
	ready := make(chan error, 1)
	go func() { ready <- q.Ready() }()
	select {
	case err := <-ready:
		if err != nil {
			t.Errorf("Ready while a write waits = %v", err)
		}
	case <-time.After(patience):
		t.Error("Ready waits for a write")
	}
	release()
}
