package wan

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxUnderWay bounds the frames of one direction that are under way; the next are lost, as on a
	// line that is full. At 40 ms it is 400,000 frames a second, more than a hub carries.
	maxUnderWay = 1 << 14
	// maxFrame is more than any frame has that a TAP device of the usual MTU hands over.
	maxFrame = 1 << 16
)

// A frame is on its way until at.
type frame struct {
	at   time.Time
	data []byte
}

// A line is one direction between two regions.
type line struct {
	cut    atomic.Bool
	delay  atomic.Int64 // nanoseconds
	frames chan frame

	passed, bytes, lost atomic.Int64
}

// send puts a frame under way, unless the line is cut or full.
func (l *line) send(f []byte, now time.Time) {
	if !l.cut.Load() {
		select {
		case l.frames <- frame{now.Add(time.Duration(l.delay.Load())), f}:
			return
		default:
		}
	}
	l.lost.Add(1)
}

// deliver writes frames to the receiver's port when they are due, in the order in which they were
// sent, until ctx ends.
func (l *line) deliver(ctx context.Context, to io.Writer) {
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		var f frame
		select {
		case <-ctx.Done():
			return
		case f = <-l.frames:
		}
		if wait := time.Until(f.at); wait > 0 {
			due.Reset(wait)
			select {
			case <-ctx.Done():
				return
			case <-due.C:
			}
		}
		// A port whose device is down takes nothing.
		if l.cut.Load() || !wrote(to, f.data) {
			l.lost.Add(1)
			continue
		}
		l.passed.Add(1)
		l.bytes.Add(int64(len(f.data)))
	}
}

func wrote(to io.Writer, data []byte) bool {
	_, err := to.Write(data)
	return err == nil
}

// A hub carries frames between ports, one for each region.
type hub struct {
	number int
	ports  []io.ReadWriteCloser
	lines  [][]*line // from, to; none from a port to itself
}

func newHub(number int, ports []io.ReadWriteCloser, delay time.Duration) *hub {
	h := &hub{number: number, ports: ports, lines: make([][]*line, len(ports))}
	for i := range ports {
		h.lines[i] = make([]*line, len(ports))
		for j := range ports {
			if i != j {
				h.lines[i][j] = &line{frames: make(chan frame, maxUnderWay)}
				h.lines[i][j].delay.Store(int64(delay))
			}
		}
	}
	return h
}

// run carries frames until ctx ends or a port can no longer be read, and then closes the ports. It
// returns that port's error.
func (h *hub) run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var all sync.WaitGroup
	for i := range h.ports {
		all.Go(func() { end(h.read(i)) })
		for j, l := range h.lines[i] {
			if l != nil {
				all.Go(func() { l.deliver(ctx, h.ports[j]) })
			}
		}
	}
	<-ctx.Done()
	cause := context.Cause(ctx)
	for _, p := range h.ports {
		_ = p.Close() // ends its reader; of a device that may be gone
	}
	all.Wait()
	if errors.Is(cause, ctx.Err()) { // nothing of ours
		return nil
	}
	return cause
}

// read sends what comes from port i on its way until the port fails.
func (h *hub) read(i int) error {
	buffer := make([]byte, maxFrame)
	for {
		n, err := h.ports[i].Read(buffer)
		if err != nil {
			return err
		}
		port, all, ok := portOf(buffer[:n], h.number, len(h.ports))
		if !ok || !all && port == i {
			continue
		}
		// The lines share it: nobody changes it.
		data := append([]byte(nil), buffer[:n]...)
		now := time.Now()
		for j, l := range h.lines[i] {
			if l != nil && (all || j == port) {
				l.send(data, now)
			}
		}
	}
}
