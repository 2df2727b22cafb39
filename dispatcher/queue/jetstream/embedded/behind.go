package embedded

import (
	"net"
	"os"
	"sync"
	"time"
)

const (
	// mostBehind bounds what was written and that the server has not read, bytes. One write may be
	// larger: it is taken when nothing else is there.
	mostBehind = 8 << 20
	// closeWait bounds the wait of Close for the server to read what was written. The client holds its
	// lock meanwhile.
	closeWait = 250 * time.Millisecond
)

// behind is a connection whose writes do not wait for the server to read: the pipe to it has no
// buffer, unlike a socket, and the client holds a lock while it writes.
type behind struct {
	net.Conn

	mu       sync.Mutex
	change   sync.Cond // of what is below
	buf      []byte    // written, and not yet taken by run
	passing  int       // bytes that run has taken and the server has not read
	err      error     // why the last write failed
	deadline time.Time // of writes; zero: none
	closed   bool
	done     chan struct{} // closed when run has ended
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
		b.passing = len(taken)
		b.mu.Unlock()
		_, err := b.Conn.Write(taken)
		b.mu.Lock()
		b.passing, b.err = 0, err
		b.change.Broadcast()
		b.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Write takes p over. It waits while the server is mostBehind behind, up to the deadline.
func (b *behind) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := b.deadline; !at.IsZero() && !b.fits(p) {
		defer time.AfterFunc(time.Until(at), func() {
			b.mu.Lock()
			b.change.Broadcast()
			b.mu.Unlock()
		}).Stop()
	}
	for {
		switch {
		case b.err != nil:
			return 0, b.err
		case b.closed:
			return 0, net.ErrClosed
		case b.fits(p):
			b.buf = append(b.buf, p...)
			b.change.Broadcast()
			return len(p), nil
		case !b.deadline.IsZero() && !time.Now().Before(b.deadline):
			return 0, os.ErrDeadlineExceeded
		}
		b.change.Wait()
	}
}

// fits reports whether p may be taken over.
func (b *behind) fits(p []byte) bool {
	waits := len(b.buf) + b.passing
	return waits == 0 || waits+len(p) <= mostBehind
}

// SetWriteDeadline bounds how long writes wait for room, from the next one on.
func (b *behind) SetWriteDeadline(t time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deadline = t
	return nil
}

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (b *behind) SetDeadline(t time.Time) error {
	_ = b.SetWriteDeadline(t) // it does not fail
	return b.SetReadDeadline(t)
}

// Close closes the connection once the server has read what was written, at most closeWait later.
func (b *behind) Close() error {
	b.mu.Lock()
	b.closed = true
	b.change.Broadcast()
	b.mu.Unlock()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-b.done:
	case <-timer.C:
	}
	err := b.Conn.Close()
	<-b.done
	return err
}
