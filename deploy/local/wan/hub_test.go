package wan

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A fakePort is a TAP device in memory: in is what the region sends.
type fakePort struct {
	in   chan []byte
	once sync.Once
	shut chan struct{}

	mu       sync.Mutex
	received []arrival
	down     bool
}

type arrival struct {
	after time.Duration // since the test began
	text  string
}

func (p *fakePort) Read(b []byte) (int, error) {
	select {
	case f, ok := <-p.in:
		if !ok {
			return 0, io.ErrUnexpectedEOF
		}
		return copy(b, f), nil
	case <-p.shut:
		return 0, io.EOF
	}
}

func (p *fakePort) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return 0, errors.New("the device is down")
	}
	p.received = append(p.received, arrival{time.Since(epoch), string(b[headerBytes:])})
	return len(b), nil
}

func (p *fakePort) Close() error { p.once.Do(func() { close(p.shut) }); return nil }

// epoch is when every bubble begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// A bench is a hub of three regions in a bubble.
type bench struct {
	t     *testing.T
	ports []*fakePort
	board *switchboard
	ended chan error
	end   context.CancelFunc
}

func newBench(t *testing.T, delay time.Duration) *bench {
	b := &bench{t: t, ended: make(chan error, 1)}
	var ports []io.ReadWriteCloser
	for range 3 {
		p := &fakePort{in: make(chan []byte), shut: make(chan struct{})}
		b.ports = append(b.ports, p)
		ports = append(ports, p)
	}
	h := newHub(3, ports, delay)
	b.board = &switchboard{[]Region{{Name: "eu"}, {Name: "us"}, {Name: "witness"}}, h}
	ctx, end := context.WithCancel(t.Context())
	b.end = end
	go func() { b.ended <- h.run(ctx) }()
	return b
}

// send has region from send text to region to (both from 0); to -1 is everyone.
func (b *bench) send(from, to int, text string) {
	frame := append(bytes.Repeat([]byte{0xff}, 6), make([]byte, headerBytes-6)...)
	if to >= 0 {
		copy(frame, hardware(3, to+1))
	}
	b.ports[from].in <- append(frame, text...)
	synctest.Wait()
}

func (b *bench) do(r request) {
	b.t.Helper()
	if err := b.board.do(r); err != nil {
		b.t.Fatalf("%+v: %v", r, err)
	}
}

func (b *bench) close() {
	b.t.Helper()
	b.end()
	if err := <-b.ended; err != nil {
		b.t.Errorf("run = %v, want nil when it is told to end", err)
	}
}

// received checks what a region has received by now.
func (b *bench) received(region int, want ...arrival) {
	b.t.Helper()
	synctest.Wait()
	p := b.ports[region]
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.received, want) {
		b.t.Errorf("region %d received %v, want %v", region, p.received, want)
	}
}

func (b *bench) link(from, to string) Link {
	for _, l := range b.board.links() {
		if l.From == from && l.To == to {
			return l
		}
	}
	b.t.Fatalf("no link from %s to %s", from, to)
	return Link{}
}

const ms = time.Millisecond

func TestFramesTakeTheDelayOfTheirDirection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 40*ms)
		defer b.close()
		b.do(request{Act: actDelay, From: "us", To: "eu", Delay: 90 * ms})
		b.send(0, 1, "there")
		b.send(1, 0, "back")
		time.Sleep(ms) // frames of two senders that arrive at one instant have no order
		b.send(2, -1, "to all")
		time.Sleep(38 * ms)
		b.received(1)
		time.Sleep(time.Second)
		b.received(0, arrival{41 * ms, "to all"}, arrival{90 * ms, "back"})
		b.received(1, arrival{40 * ms, "there"}, arrival{41 * ms, "to all"})
		b.received(2)
		if l := b.link("eu", "us"); l.Frames != 1 || l.Bytes != headerBytes+5 || l.Lost != 0 || l.Delay != 40*ms {
			t.Errorf("link = %+v, want one frame of 19 bytes", l)
		}
	})
}

// TestFramesKeepTheirOrder: also if the delay falls while some are under way.
func TestFramesKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 100*ms)
		defer b.close()
		b.send(0, 1, "1")
		b.do(request{Act: actDelay, Delay: 10 * ms})
		b.send(0, 1, "2")
		time.Sleep(time.Second)
		b.received(1, arrival{100 * ms, "1"}, arrival{100 * ms, "2"})
		b.send(0, 1, "3")
		time.Sleep(time.Second)
		b.received(1, arrival{100 * ms, "1"}, arrival{100 * ms, "2"}, arrival{1010 * ms, "3"})
	})
}

// TestACutLosesWhatIsUnderWay, and only in its direction.
func TestACutLosesWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 40*ms)
		defer b.close()
		b.send(0, 1, "under way")
		time.Sleep(20 * ms)
		b.do(request{Act: actCut, From: "eu", To: "us"})
		b.do(request{Act: actCut, From: "eu", To: "us"}) // again
		b.send(0, 1, "into the cut")
		b.send(1, 0, "the other way")
		b.send(0, 2, "elsewhere")
		time.Sleep(time.Second)
		b.received(1)
		b.received(0, arrival{60 * ms, "the other way"})
		b.received(2, arrival{60 * ms, "elsewhere"})
		if l := b.link("eu", "us"); !l.Cut || l.Lost != 2 || l.Frames != 0 {
			t.Errorf("link = %+v, want it cut and two lost", l)
		}
		b.do(request{Act: actHeal, From: "eu", To: "us"})
		b.do(request{Act: actHeal})
		b.send(0, 1, "healed")
		time.Sleep(time.Second)
		b.received(1, arrival{1060 * ms, "healed"})
	})
}

func TestALineThatIsFullLosesFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 40*ms)
		defer b.close()
		const more = 10
		frame := append([]byte(hardware(3, 2)), make([]byte, headerBytes-6)...)
		for range maxUnderWay + more {
			b.ports[0].in <- frame
		}
		time.Sleep(time.Second)
		if l := b.link("eu", "us"); l.Frames+l.Lost != maxUnderWay+more || l.Lost == 0 || l.Lost > more {
			t.Errorf("link = %+v, want 1 to %d of %d lost", l, more, maxUnderWay+more)
		}
	})
}

// TestADeviceThatIsDownIsNoEnd: it takes nothing until it is up again. One that is gone ends the
// hub.
func TestADeviceThatIsDownIsNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 0)
		set := func(down bool) { b.ports[1].mu.Lock(); b.ports[1].down = down; b.ports[1].mu.Unlock() }
		set(true)
		b.send(0, 1, "lost")
		set(false)
		b.send(0, 1, "heard")
		b.received(1, arrival{0, "heard"})
		close(b.ports[2].in)
		if err := <-b.ended; !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("run = %v, want the error of the device that is gone", err)
		}
		for i, p := range b.ports {
			select {
			case <-p.shut:
			default:
				t.Errorf("port %d is open after the end", i)
			}
		}
	})
}

func TestAskForWhatIsNotThere(t *testing.T) {
	board := &switchboard{[]Region{{Name: "eu"}, {Name: "us"}}, newHub(3, make([]io.ReadWriteCloser, 2), 0)}
	for _, r := range []request{
		{Act: actCut, From: "eu", To: "mars"},
		{Act: actCut, From: "eu", To: "eu"},
		{Act: actDelay, Delay: -1},
		{Act: actDelay, Delay: time.Hour},
		{Act: "burn"},
	} {
		if err := board.do(r); err == nil {
			t.Errorf("%+v: no error", r)
		}
	}
	for _, l := range board.links() {
		if l.Cut || l.Delay != 0 {
			t.Errorf("link = %+v, want it unchanged", l)
		}
	}
}

// TestControl asks the socket of a network whose devices are in memory.
func TestControl(t *testing.T) {
	number := MaxNumber
	guard, err := listen(number)
	for ; errors.Is(err, ErrTaken) && number > 0; guard, err = listen(number) {
		number--
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = guard.Close() }()
	if _, err := listen(number); !errors.Is(err, ErrTaken) {
		t.Errorf("a second program may listen: %v, want ErrTaken", err)
	}
	ctx, end := context.WithCancel(t.Context())
	board := &switchboard{[]Region{{Name: "eu"}, {Name: "us"}}, newHub(number, make([]io.ReadWriteCloser, 2), 40*ms)}
	served := make(chan struct{})
	go func() { serve(ctx, guard, board); close(served) }()
	c := NewControl(number)
	for _, err := range []error{c.Cut(ctx, "eu", "us"), c.Delay(ctx, "", "", 7*ms), c.Cut(ctx, "us", ""), c.Heal(ctx, "us", "eu")} {
		if err != nil {
			t.Error(err)
		}
	}
	if err := c.Cut(ctx, "eu", "mars"); err == nil {
		t.Error("Cut of a region that is not there: no error")
	}
	links, err := c.Links(ctx)
	if want := []Link{{From: "eu", To: "us", Cut: true, Delay: 7 * ms}, {From: "us", To: "eu", Delay: 7 * ms}}; err != nil || !slices.Equal(links, want) {
		t.Errorf("Links = %+v, %v, want %+v", links, err, want)
	}
	end()
	<-served
	_ = guard.Close()
	if _, err := c.Links(t.Context()); err == nil {
		t.Error("Links of a network that nobody runs: no error")
	}
}
