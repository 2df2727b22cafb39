package embedded

import (
	"net"
	"sync"
	"time"
)

const (
	// mostBehind bounds what was written and that the server has not read, bytes.
	mostBehind = 1 << 20
	// closeWait bounds the wait of Close for the server to read what was written.
	closeWait = time.Second
)

// behind is a connection whose writes do not wait for the server to read: the pipe to it has no
// buffer, unlike a socket, and the client holds a lock while it writes.
type behind struct {
	net.Conn

	mu     sync.Mutex
	change sync.Cond // of what is below
	buf    []byte    // written, and not yet taken by run
	err    error     // why the last write failed
	closed bool
	done   chan struct{} // closed when run has ended
}

func newBehind(conn net.Conn) *behind {
	b := &behind{Conn: conn, done: make(chan struct{})}
	b.change.L = &b.mu
	go b.run()
	return b
}

// run passes on what was written, until the connection is closed or fails.
func (b *behind) run() {
	defer close(b.done)
	var taken []byte
	for {
		b.mu.Lock()
		for len(b.buf) == 0 && !b.closed {
			b.change.Wait()
		}
		if len(b.buf) == 0 {
			b.mu.Unlock()
			return
		}
		taken, b.buf = b.buf, taken[:0]
		b.change.Broadcast()
		b.mu.Unlock()
		if _, err := b.Conn.Write(taken); err != nil {
			b.mu.Lock()
			b.err = err
			b.change.Broadcast()
			b.mu.Unlock()
			return
		}
	}
}

// Write takes p over. It waits while the server is mostBehind behind.
func (b *behind) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.buf) > 0 && len(b.buf)+len(p) > mostBehind && b.err == nil && !b.closed {
		b.change.Wait()
	}
	switch {
	case b.err != nil:
		return 0, b.err
	case b.closed:
		return 0, net.ErrClosed
	}
	b.buf = append(b.buf, p...)
	b.change.Broadcast()
	return len(p), nil
}

// SetDeadline and SetWriteDeadline are for the reads alone: a write is passed on later.
func (b *behind) SetDeadline(t time.Time) error { return b.SetReadDeadline(t) }

func (b *behind) SetWriteDeadline(time.Time) error { return nil }

// Close closes the connection once the server has read what was written, at most closeWait later.
func (b *behind) Close() error {
	b.mu.Lock()
	b.closed = true
	b.change.Broadcast()
	b.mu.Unlock()
	select {
	case <-b.done:
	case <-time.After(closeWait):
	}
	return b.Conn.Close()
}
