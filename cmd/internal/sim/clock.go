package sim

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"
)

const (
	// compareEvery, offLimit, slipLimit and compareTimeout are those of a real node (cmd/internal/node/clock.go).
	compareEvery   = 5 * time.Second
	offLimit       = 2 * time.Second
	slipLimit      = 500 * time.Millisecond
	compareTimeout = time.Second
	// trusted is how far off a clock can be at most before its node knows: what was in order at the last comparison, and
	// what a step or a slew may add without being noticed.
	trusted = offLimit + slipLimit
	// slewRate is how fast a clock is slewed at most, as chrony does it: 83,333 ppm.
	slewRate = 1.0 / 12
)

// machine is the clock of a node's machine, which outlives the node's process. A step moves the wall clock alone; a slew makes wall and
// monotonic clock go faster or slower until an offset is worked off, so nothing within the machine shows it.
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

// read returns what a process on the machine reads at t, as time.Now tells it outside of a bubble: with a monotonic reading.
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

// withMonotonic returns wall with a monotonic reading. In a bubble time.Now has none, and no function of package time
// makes one, so it is written where it lies; a test of this package fails if a release of Go moves it.
func withMonotonic(wall time.Time, mono time.Duration) time.Time {
	seconds := wall.Unix() - year1885.Unix()
	raw := instant{wall: 1<<63 | uint64(seconds)<<30 | uint64(wall.Nanosecond()), ext: int64(mono), loc: time.UTC} //nolint:gosec // both are positive
	return *(*time.Time)(unsafe.Pointer(&raw))                                                                     //nolint:gosec // see above
}

// comparer does for a simulated node what the clock of cmd/internal/node does for a real one: it compares with the median of the
// store's and the queue's clock, and from the moment the clock is set until the next comparison it counts as off.
type comparer struct {
	sources []func(context.Context) (time.Time, error)
	now     func() time.Time
	set     <-chan struct{}
	changed func(off bool)
	log     *slog.Logger
	last    atomic.Pointer[comparison] // nil: none yet
}

type comparison struct {
	at     time.Time // when it began
	offset time.Duration
}

func (c *comparison) off() bool { return c.offset.Abs() > offLimit }

// Off reports that the clock is off by more than it may be, or may be.
func (c *comparer) Off() bool {
	last := c.last.Load()
	if last == nil {
		return true
	}
	now := c.now()
	slip := now.Round(0).Sub(last.at.Round(0)) - now.Sub(last.at)
	return slip.Abs() > slipLimit || last.off()
}

// run compares until ctx ends. It returns nil.
func (c *comparer) run(ctx context.Context) error {
	tick := time.NewTicker(compareEvery)
	defer tick.Stop()
	for {
		c.compare(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-c.set:
		}
	}
}

func (c *comparer) compare(ctx context.Context) {
	began := c.now()
	var offsets []time.Duration
	for _, source := range c.sources {
		bounded, cancel := context.WithTimeout(ctx, compareTimeout)
		sent := c.now()
		theirs, err := source(bounded)
		cancel()
		took := c.now().Sub(sent)
		if err == nil && took <= compareTimeout {
			offsets = append(offsets, sent.Add(took/2).Round(0).Sub(theirs))
		}
	}
	if len(offsets) == 0 {
		return
	}
	// Of two, the one nearer to zero.
	found := &comparison{at: began, offset: slices.MinFunc(offsets, func(a, b time.Duration) int { return int(a.Abs() - b.Abs()) })}
	was := c.last.Swap(found)
	if wasOff := was != nil && was.off(); wasOff != found.off() {
		c.log.Info("clock compared", "off", found.off(), "offset", found.offset)
		c.changed(found.off())
	}
}
