package schema

import (
	"context"
	"slices"
	"time"
)

// What is assumed of clocks. Every other constant that allows for clocks is computed from these, or
// is compared with them by a test.
const (
	// MaxClockOffset is how far a node's clock may be off the majority of hosts (package
	// clockcheck). Beyond it the node neither dispatches nor writes.
	MaxClockOffset = time.Second
	// MaxClockSlip is how far a clock may move unnoticed after a comparison: because it is set, or
	// because it drifts until the next comparison.
	MaxClockSlip = 500 * time.Millisecond
	// MaxClockError is how far a clock that counts as right may be off.
	MaxClockError = MaxClockOffset + MaxClockSlip
	// MaxClockDifference is how far two clocks may differ that both count as right.
	MaxClockDifference = 2 * MaxClockError
)

// Prober tells how the store is.
type Prober interface {
	// Time returns the store's own clock; an error means that it cannot be reached.
	Time(ctx context.Context) (time.Time, error)
}

// HostClock is the clock of one host that serves the store or the queue.
type HostClock struct {
	// Host is the address of the host, without a port; its DNS name until its address is known. It
	// is empty for this process.
	Host string
	// Name is what the configuration calls the host: an address or a DNS name. It may be empty.
	Name string
	// Time asks that host, and no other, what time it is there.
	Time func(ctx context.Context) (time.Time, error)
}

// ClockStore knows the clocks of the hosts that serve the store.
type ClockStore interface {
	// Clocks returns the clock of every host that serves the store, in no order, also of those that
	// do not answer at present. It does no I/O; the caller owns the slice.
	Clocks() []HostClock
}

// TimeByMost returns the median of what the store's hosts say the time is, of two the earlier. So
// one host whose clock is wrong does not decide, if there are three. Hosts that do not answer are
// left out; an error means that none did. Use it for what is decided once, such as a first cursor:
// nodes have a check of their own.
func TimeByMost(ctx context.Context, s interface {
	Prober
	ClockStore
},
) (time.Time, error) {
	var offsets []time.Duration // each against our own clock, since they are asked one after the other
	for _, c := range s.Clocks() {
		if at, err := c.Time(ctx); err == nil {
			offsets = append(offsets, time.Until(at))
		}
	}
	if len(offsets) == 0 {
		return s.Time(ctx)
	}
	slices.Sort(offsets)
	return time.Now().Add(offsets[(len(offsets)-1)/2]).UTC(), nil
}
