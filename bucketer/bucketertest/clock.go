package bucketertest

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// SetClock is a wall clock that can be set, with a monotonic reading. It is not for bubbles, whose
// times have none.
type SetClock struct {
	t      *testing.T
	Began  time.Time
	passed atomic.Int64 // ns by the monotonic clock since it began
	Ahead  atomic.Int64 // ns that the wall clock was set ahead by, whole seconds
	Wrong  atomic.Bool  // the node knows that it may be
}

// NewSetClock returns a clock that is right.
func NewSetClock(t *testing.T) *SetClock { return &SetClock{t: t, Began: time.Now()} }

// Now returns what the clock tells.
func (c *SetClock) Now() time.Time { return SetBack(c.t, c.Right(), -time.Duration(c.Ahead.Load())) }

// Right returns what a clock tells that was never set.
func (c *SetClock) Right() time.Time { return c.Began.Add(time.Duration(c.passed.Load())) }

// Pass lets d pass.
func (c *SetClock) Pass(d time.Duration) { c.passed.Add(int64(d)) }

// Set sets the wall clock by d, and the node notices.
func (c *SetClock) Set(d time.Duration) {
	c.Ahead.Add(int64(d))
	c.Wrong.Store(true)
}

// SetBack returns at as a clock reads it whose wall time was set back by d, whole seconds, and
// whose monotonic reading went on.
func SetBack(t *testing.T, at time.Time, d time.Duration) time.Time {
	t.Helper()
	set := at
	// The first word of a time with a monotonic reading: a flag, 33 bits of seconds, 30 bits of
	// nanoseconds.
	*(*uint64)(unsafe.Pointer(&set)) -= uint64(d/time.Second) << 30 // #nosec G103 G115 -- checked below
	if got := set.Round(0).Sub(at.Round(0)); got != -d || set.Sub(at) != 0 {
		t.Fatalf("set back by %s: the wall clock moved by %s, the monotonic one by %s", d, got, set.Sub(at))
	}
	return set
}
