package cassandra

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// wire stands between a store and its server, and loses what a test tells it to.
type wire struct {
	dropAnswers  atomic.Int64 // answers with a result still to be lost
	dropRequests atomic.Int64 // requests to execute something still to be lost
	lost         atomic.Int64 // what was lost so far

	mu    sync.Mutex
	cut   bool // no connection stands or can be made
	conns map[net.Conn]struct{}
}

const (
	frameHeader = 9
	opResult    = 0x08
	opExecute   = 0x0a
	opBatch     = 0x0d
)

var errCut = errors.New("the wire is cut")

// DialContext implements gocql.Dialer.
func (w *wire) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	if cut {
		return nil, errCut
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conns == nil {
		w.conns = make(map[net.Conn]struct{})
	}
	w.conns[conn] = struct{}{}
	return &wireConn{Conn: conn, wire: w}, nil
}

// setCut cuts every connection, or lets new ones be made.
func (w *wire) setCut(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if cut {
		for conn := range w.conns {
			_ = conn.Close()
		}
		clear(w.conns)
	}
}

// take takes one from n, if there is one.
func (w *wire) take(n *atomic.Int64) bool {
	for {
		have := n.Load()
		if have <= 0 {
			return false
		}
		if n.CompareAndSwap(have, have-1) {
			w.lost.Add(1)
			return true
		}
	}
}

// wireConn hands over whole frames or none.
type wireConn struct {
	net.Conn
	wire *wire
	rest []byte // of a frame that was read
}

func (c *wireConn) Read(b []byte) (int, error) {
	for len(c.rest) == 0 {
		var head [frameHeader]byte
		if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
			return 0, err
		}
		frame := make([]byte, frameHeader+int(binary.BigEndian.Uint32(head[5:])))
		copy(frame, head[:])
		if _, err := io.ReadFull(c.Conn, frame[frameHeader:]); err != nil {
			return 0, err
		}
		if frame[4] == opResult && c.wire.take(&c.wire.dropAnswers) {
			continue
		}
		c.rest = frame
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write is given one frame at a time: the driver only joins them for a net.TCPConn.
func (c *wireConn) Write(b []byte) (int, error) {
	if len(b) > 4 && (b[4] == opExecute || b[4] == opBatch) && c.wire.take(&c.wire.dropRequests) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}
