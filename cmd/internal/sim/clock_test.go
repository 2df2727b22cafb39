package sim

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"carillon.dev/carillon/cmd/internal/clockcheck"
	"carillon.dev/carillon/schema"
)

const (
	// trusted is how far off a clock can be at most before its node knows: what was in order at the
	// last comparison, and what a step or a slew may add without being noticed.
	trusted = schema.MaxClockError
	// slewRate is how fast a clock is slewed at most, as chrony does it: 83,333 ppm.
	slewRate = 1.0 / 12
)

// machine is the clock of a node's machine, which outlives the node's process. A step moves the
// wall clock alone; a slew makes wall and monotonic clock go faster or slower until an offset is
// worked off, so nothing within the machine shows it.
type machine struct {
	began   time.Time     // the monotonic clock's zero
	stepped time.Duration // by which the wall clock was set
	slewed  time.Duration // by which both clocks had been slewed when the present slew began …
	since   time.Time     // … which was then
	target  time.Duration // and by which they will be when it ends
}

// slew returns by how much both clocks have been slewed at t.
func (m *machine) slew(t time.Time) time.Duration {
	done := time.Duration(float64(t.Sub(m.since)) * slewRate)
	return m.slewed + min(max(m.target-m.slewed, -done), done)
}

// offset returns how far the wall clock is off at t.
func (m *machine) offset(t time.Time) time.Duration { return m.stepped + m.slew(t) }

// step sets the wall clock by d.
func (m *machine) step(d time.Duration) { m.stepped += d }

// discipline slews what the clock is off at t away.
func (m *machine) discipline(t time.Time) {
	m.slewed, m.since = m.slew(t), t
	m.target = -m.stepped
}

// correct ends any slew at t and steps the clock to where it is right.
func (m *machine) correct(t time.Time) {
	m.slewed, m.since = m.slew(t), t
	m.target, m.stepped = m.slewed, -m.slewed
}

// read returns what a process on the machine reads at t, as time.Now tells it outside of a bubble:
// with a monotonic reading.
func (m *machine) read(t time.Time) time.Time {
	return withMonotonic(t.Add(m.offset(t)), time.Hour+t.Sub(m.began)+m.slew(t))
}

// instant is the memory of a time.Time.
type instant struct {
	wall uint64 // 1 bit: has a monotonic reading; 33 bits: seconds since 1885; 30 bits: nanoseconds
	ext  int64  // the monotonic reading
	loc  *time.Location
}

var year1885 = time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC)

// withMonotonic returns wall with a monotonic reading. In a bubble time.Now has none, and no
// function of package time makes one, so it is written where it lies; a test of this package fails
// if a release of Go moves it.
func withMonotonic(wall time.Time, mono time.Duration) time.Time {
	seconds := wall.Unix() - year1885.Unix()
	raw := instant{wall: 1<<63 | uint64(seconds)<<30 | uint64(wall.Nanosecond()), ext: int64(mono), loc: time.UTC} //nolint:gosec // both are positive
	return *(*time.Time)(unsafe.Pointer(&raw))                                                                     //nolint:gosec // see above
}

// references is how many hosts serve the store and the queue, where that is not the nodes' own
// machines.
const references = 3

// clocks returns the clocks of the hosts that serve the store and the queue, of each both, as the
// node can ask them.
func (n *Node) clocks(store schema.Store, conn interface {
	Time(context.Context) (time.Time, error)
},
) (clocks []schema.HostClock) {
	add := func(host string, read func(time.Time) time.Time) {
		for _, ask := range []func(context.Context) (time.Time, error){store.Time, conn.Time} {
			clocks = append(clocks, schema.HostClock{Host: host, Time: func(ctx context.Context) (time.Time, error) {
				if _, err := ask(ctx); err != nil {
					return time.Time{}, err
				}
				n.c.mu.Lock()
				defer n.c.mu.Unlock()
				return read(time.Now()).Round(0), nil
			}})
		}
	}
	if n.c.coLocated {
		for _, m := range n.c.nodes {
			add(m.name, m.machine.read)
		}
		return clocks
	}
	for i := range references {
		add(fmt.Sprintf("reference-%d", i+1), func(now time.Time) time.Time { return now })
	}
	return clocks
}

// newClock returns what compares the clock of the node's machine with those of the hosts.
func (n *Node) newClock(l *life, store schema.Store, set <-chan struct{}) (*clockcheck.Clock, error) {
	return clockcheck.New(clockcheck.Config{
		Sources: func() []schema.HostClock { return n.clocks(store, l.conn) },
		HostOf: func(_ context.Context, server schema.HostClock) (string, error) {
			if server.Host == n.name {
				return "", nil
			}
			return server.Host, nil
		},
		Read: func() (time.Time, time.Duration) {
			now := n.now(l.dead)
			return now, now.Sub(withMonotonic(n.machine.began, 0))
		},
		Set: set, Changed: func(off bool) { n.suspendDispatch(l, off) }, Logger: n.c.log.With("node", n.name, "life", l.number),
	})
}

// TestMachine: what a step and a slew do to the wall clock and to the monotonic one.
func TestMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m := machine{began: began, since: began}
		last := m.read(time.Now())
		passes := func(what string, sleep, wantWall, wantMono time.Duration) {
			t.Helper()
			time.Sleep(sleep)
			now := m.read(time.Now())
			if wall := now.Round(0).Sub(last.Round(0)).Round(time.Microsecond); wall != wantWall {
				t.Errorf("%s: the wall clock passed %v, want %v", what, wall, wantWall)
			}
			if mono := now.Sub(last).Round(time.Microsecond); mono != wantMono {
				t.Errorf("%s: the monotonic clock passed %v, want %v", what, mono, wantMono)
			}
			last = now
		}
		passes("right", 10*time.Second, 10*time.Second, 10*time.Second)
		m.step(-90 * time.Second)
		passes("set back", time.Second, -89*time.Second, time.Second)
		m.step(92 * time.Second)
		passes("set ahead", time.Second, 93*time.Second, time.Second)
		m.discipline(time.Now())
		passes("slewed", 12*time.Second, 11*time.Second, 11*time.Second)
		passes("slewed to the end", 36*time.Second, 35*time.Second, 35*time.Second)
		if off := m.offset(time.Now()); off != 0 {
			t.Errorf("offset after the slew = %v, want 0", off)
		}
		m.step(-6 * time.Second)
		m.discipline(time.Now())
		passes("slewed the other way", 12*time.Second, 7*time.Second, 13*time.Second)
		m.correct(time.Now())
		if off := m.offset(time.Now().Add(time.Minute)); off != 0 {
			t.Errorf("offset a minute after the correction = %v, want 0", off)
		}
		passes("corrected", time.Second, 6*time.Second, time.Second)
	})
}

// TestReadingIsATimeWithAMonotonicReading: time.Time lies in memory as withMonotonic takes it to.
func TestReadingIsATimeWithAMonotonicReading(t *testing.T) {
	wall := time.Date(2026, 2, 28, 23, 59, 59, 123456789, time.UTC)
	a, b := withMonotonic(wall, time.Second), withMonotonic(wall.Add(-time.Hour), 3*time.Second)
	if !a.Equal(a.Round(0)) || !a.Round(0).Equal(wall) {
		t.Errorf("withMonotonic(%v) tells %v", wall, a.Round(0))
	}
	if got := b.Sub(a); got != 2*time.Second {
		t.Errorf("between the readings lie %v by the monotonic clock, want 2s", got)
	}
	if got := b.Round(0).Sub(a.Round(0)); got != -time.Hour {
		t.Errorf("between the readings lie %v by the wall clock, want -1h", got)
	}
}
