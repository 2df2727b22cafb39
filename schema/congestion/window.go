// Package congestion bounds the calls that one process has under way at a server which may be asked
// for more than it can answer.
//
// Where answers take longer than callers wait, a server works on questions that nobody waits for any
// more. The callers ask again, and it never catches up, even when the load has long gone. A Window
// prevents that: it shrinks while most answers are slow, until what is under way is answered in time.
//
// # Invariants
//
//  1. Never more calls are under way than the most that the window may hold. While nothing is slow
//     that is its size.
//  2. Its size is never below the least that it may hold: some calls always find out whether the
//     server has recovered.
//  3. A size that shrinks takes effect as calls end; none is cut short.
//
// It keeps nothing: after a crash it begins at its most.
package congestion

import (
	"context"
	"sync"
	"time"
)

const (
	// span is how long answers are counted before the size is judged.
	span = time.Second
	// slowShare is the share of slow answers above which the server is congested. One slow node of
	// three makes up to two thirds of the answers slow, and then fewer questions help nobody.
	slowShare = 0.75
	// A congested span leaves shrinkTo of the size; any other adds a part in growBy of it.
	// Additive growth, as in TCP (RFC 5681), would take minutes from the least to the most.
	shrinkTo = 0.6
	growBy   = 4
)

// Window is how many calls may be under way. Its methods may be called from several goroutines.
type Window struct {
	least, most int
	slow        time.Duration

	// places holds one element for each call under way, and one for each place withheld.
	places chan struct{}

	mu       sync.Mutex
	size     int
	withheld int // places of the channel that nobody gets: most - size, as soon as calls have ended
	since    time.Time
	late     int // answers of this span that were slow …
	all      int // … and all of them
}

// New returns a window of most calls that shrinks to least. An answer that takes longer than slow is
// a slow one; callers wait for longer than that.
func New(least, most int, slow time.Duration) *Window {
	return &Window{least: least, most: most, slow: slow, places: make(chan struct{}, most), size: most}
}

// Acquire waits until another call may be under way. False means that ctx ended first. The caller
// calls Release when the call has ended.
func (w *Window) Acquire(ctx context.Context) bool {
	select {
	case w.places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Release says that a call has ended.
func (w *Window) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.withheld < w.most-w.size {
		w.withheld++ // its place is the one to withhold
		return
	}
	<-w.places
}

// Observe notes how long an answer took, or the wait for one that did not come; now is when it
// ended. Once a span it judges the size.
func (w *Window) Observe(took time.Duration, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.since) >= span {
		switch {
		case float64(w.late) > slowShare*float64(w.all):
			w.size = max(w.least, int(shrinkTo*float64(w.size)))
		case w.size < w.most:
			w.size = min(w.most, w.size+max(1, w.size/growBy))
		}
		w.since, w.late, w.all = now, 0, 0
		for ; w.withheld > w.most-w.size; w.withheld-- {
			<-w.places
		}
	}
	w.all++
	if took > w.slow {
		w.late++
	}
}

// Size returns how many calls may be under way.
func (w *Window) Size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size
}

// UnderWay returns how many are.
func (w *Window) UnderWay() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.places) - w.withheld
}
