package node

import (
	"context"
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
)

// timeSource is a clock elsewhere.
type timeSource struct {
	name string
	time func(ctx context.Context) (time.Time, error)
}

// clock compares the node's clock with the median of others'.
type clock struct {
	sources []timeSource
	now     func() time.Time
	log     *slog.Logger
	offset  atomic.Int64 // of our clock against the median, ns
	// changed is called when the clock is found to be off, and when it is right again.
	changed func(off bool)
}

// Off reports whether the clock is off by more than it may be.
func (c *clock) Off() bool { return c.Err() != nil }

// Err tells how far off the clock is, if it is.
func (c *clock) Err() error {
	if off := time.Duration(c.offset.Load()); off > maxOffset || off < -maxOffset {
		return fmt.Errorf("the clock is off by %v against the median of the others", off.Round(time.Millisecond))
	}
	return nil
}

func (c *clock) run(ctx context.Context) {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for {
		c.compare(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// compare reads the other clocks. One that does not answer has no say; if none does, what was known stays.
func (c *clock) compare(ctx context.Context) {
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
	was := c.Err()
	c.offset.Store(int64(median(offsets)))
	is := c.Err()
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
