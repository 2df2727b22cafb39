package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// clockEvery is how often the clock is compared with the others'.
	clockEvery = 5 * time.Second
	// maxOffset is how far off it may be: beyond, the node neither dispatches nor writes.
	maxOffset = 2 * time.Second
	// clockTimeout bounds one reading.
	clockTimeout = time.Second
	// maxSlip is how far wall and monotonic clock may drift apart after a comparison: beyond, the clock was set since.
	maxSlip = 500 * time.Millisecond
)

// timeSource is a clock elsewhere.
type timeSource struct {
	name string
	time func(ctx context.Context) (time.Time, error)
}

// clock compares the node's clock with the median of others'. Until the first comparison, and from the moment the clock is set until
// the next, nobody knows whether it is right, so it counts as off.
type clock struct {
	sources []timeSource
	now     func() time.Time
	mono    func() time.Duration // a clock that nobody sets; nil: it is not noticed that ours was
	set     <-chan struct{}      // asks for a comparison at once, because the clock may have been set; nil: never
	log     *slog.Logger
	last    atomic.Pointer[comparison] // nil: none yet
	// changed is called when the clock is found to be off, and when it is right again.
	changed func(off bool)
}

// comparison is what was known of the clock at one time.
type comparison struct {
	at     time.Time     // when it began, by our clock …
	mono   time.Duration // … and by the one that nobody sets
	offset time.Duration // of our clock against the median
}

// Off reports whether the clock is off by more than it may be, or may be.
func (c *clock) Off() bool { return c.Err() != nil }

// Err tells how far off the clock is, if it is, or why that is not known.
func (c *clock) Err() error {
	last := c.last.Load()
	if last == nil {
		return errors.New("the clock has not been compared with others yet")
	}
	// Wall time alone: the monotonic readings of both would hide the very difference.
	if slip := c.now().Round(0).Sub(last.at.Round(0)) - (c.steady() - last.mono); c.mono != nil && slip.Abs() > maxSlip {
		return fmt.Errorf("the clock was set by %v and has not been compared with others since", slip.Round(time.Millisecond))
	}
	return last.err()
}

func (c *clock) steady() time.Duration {
	if c.mono == nil {
		return 0
	}
	return c.mono()
}

func (c *comparison) err() error {
	if c.offset > maxOffset || c.offset < -maxOffset {
		return fmt.Errorf("the clock is off by %v against the median of the others", c.offset.Round(time.Millisecond))
	}
	return nil
}

// run compares every clockEvery, and as soon as set asks for it, until ctx ends.
func (c *clock) run(ctx context.Context) {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for {
		c.compare(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-c.set:
		}
	}
}

// compare reads the other clocks. One that does not answer has no say; if none does, what was known stays as it was. A clock that is set
// meanwhile counts as off until the next comparison: what was read before says nothing of it.
func (c *clock) compare(ctx context.Context) {
	found := &comparison{at: c.now(), mono: c.steady()}
	var offsets []time.Duration
	for _, s := range c.sources {
		bounded, cancel := context.WithTimeout(ctx, clockTimeout)
		sent := c.now()
		theirs, err := s.time(bounded)
		cancel()
		if err != nil {
			continue
		}
		// They read theirs somewhere between sent and now: the middle is off by half the time that took at most.
		took := c.now().Sub(sent)
		if took > clockTimeout {
			continue
		}
		offsets = append(offsets, sent.Add(took/2).Sub(theirs))
	}
	if len(offsets) == 0 {
		return
	}
	var was error
	if last := c.last.Load(); last != nil {
		was = last.err()
	}
	found.offset = median(offsets)
	c.last.Store(found)
	is := found.err()
	if (is == nil) == (was == nil) {
		return
	}
	if is != nil {
		c.log.Error("this node stops dispatching and refuses writes", "err", is)
	} else {
		c.log.Info("the clock is right again")
	}
	if c.changed != nil {
		c.changed(is != nil)
	}
}

// median returns the middle offset; of two middles the one nearer to zero, since a node alone against one
// other cannot know which of them is wrong.
func median(offsets []time.Duration) time.Duration {
	slices.Sort(offsets)
	n := len(offsets)
	if n%2 == 1 {
		return offsets[n/2]
	}
	low, high := offsets[n/2-1], offsets[n/2]
	if low.Abs() < high.Abs() {
		return low
	}
	return high
}
