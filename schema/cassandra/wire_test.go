package cassandra

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/gocql/gocql"
)

// wire stands between a store and its server, and loses what a test tells it to.
type wire struct {
	dropAnswers  atomic.Int64 // answers with a result still to be lost
	dropRequests atomic.Int64 // requests to execute something still to be lost
	// answers with a result still to be replaced: too few replicas were up for the commit
	deny atomic.Int64
	lost atomic.Int64 // what was lost so far

	mu    sync.Mutex
	cut   bool // no connection stands or can be made
	conns map[net.Conn]struct{}
	last  string        // the statement, by its id, that was asked for last
	held  string        // the statement whose requests are held back; "" = none
	back  []heldRequest // those held back
	holds chan struct{} // told of each
}

// heldRequest is a request that has not been sent on yet.
type heldRequest struct {
	conn  net.Conn
	frame []byte
}

// deniedFrame returns the answer "unavailable" at LOCAL_QUORUM in place of another.
func deniedFrame(frame []byte) []byte {
	body := binary.BigEndian.AppendUint32(nil, uint32(gocql.ErrCodeUnavailable))
	const text = "injected"
	body = append(binary.BigEndian.AppendUint16(body, uint16(len(text))), text...)
	body = binary.BigEndian.AppendUint16(body, uint16(gocql.LocalQuorum))
	body = binary.BigEndian.AppendUint32(body, 2)
	body = binary.BigEndian.AppendUint32(body, 1)
	denied := bytes.Clone(frame[:frameHeader])
	// no flags: it was not compressed, and carries no warnings
	denied[1], denied[4] = 0, opError
	binary.BigEndian.PutUint32(denied[5:], uint32(len(body))) // #nosec G115 -- small
	return append(denied, body...)
}

const (
	frameHeader = 9
	opError     = 0x00
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
		if frame[4] == opResult && c.wire.take(&c.wire.deny) {
			frame = deniedFrame(frame)
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
	if len(b) > 4 && b[4] == opExecute && c.wire.holdBack(c.Conn, b) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// holdLast holds back, from now on, every request of the statement that was asked for last, and
// returns a channel that is told of each of up to room.
func (w *wire) holdLast(room int) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held, w.holds = w.last, make(chan struct{}, room)
	return w.holds
}

// holdBack holds back the request if it is to be.
func (w *wire) holdBack(conn net.Conn, frame []byte) bool {
	n := int(binary.BigEndian.Uint16(frame[frameHeader:]))
	id := string(frame[frameHeader+2 : frameHeader+2+n])
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = id
	if w.held != id {
		return false
	}
	w.back = append(w.back, heldRequest{conn, bytes.Clone(frame)})
	w.holds <- struct{}{}
	return true
}

// heldBack counts the requests held back.
func (w *wire) heldBack() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.back)
}

// letGo sends on what was held back, and holds back nothing more.
func (w *wire) letGo() error {
	w.mu.Lock()
	back := w.back
	w.held, w.back = "", nil
	w.mu.Unlock()
	var faults []error
	for _, r := range back {
		_, err := r.conn.Write(r.frame)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
