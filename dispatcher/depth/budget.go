package depth

import (
	"math"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
)

const (
	// targetSpan is for how long what waits in a subject should keep executors busy. Less means
	// idle executors until the next reading takes effect; more means entries that are too old at
	// their start.
	targetSpan = 400 * time.Millisecond
	// minTarget and maxTarget bound the target depth. leastTarget is the lower bound once executors
	// are loaded: what waits in a stream delays a tenant that has little to do.
	minTarget   = 1000
	leastTarget = 100
	maxTarget   = 10_000
	// maxYield bounds the part of what it published that a dispatcher yields at a reading.
	maxYield = 0.2
)

// budget is what may be published of a subject until the next reading of its load.
type budget struct {
	left      int // negative once newcomers took more than there was
	given     int // left as the last reading set it
	published int // since the last reading

	// As of the last reading:
	waiting   int
	delivered uint64
	at        time.Time
	drain     float64 // messages a second, of all executors together
	loaded    bool    // something waited at the last two readings: drain is what executors can do

	asked  time.Time
	queues queues
}

// grant shares out what is left among those that are queued.
func (b *budget) grant() (granted []*Ticket) {
	for b.left > 0 {
		t := b.queues.next()
		if t == nil {
			break
		}
		b.left--
		b.published++
		granted = append(granted, t)
	}
	return granted
}

// observe sets the budget from a reading; the formula stands in the package comment.
func (b *budget) observe(load queue.Load, at time.Time, portion float64) {
	first, span := b.at.IsZero(), at.Sub(b.at)
	if !first && span >= 0 && span < readApart {
		return
	}
	growth, part := load.Waiting-b.waiting, portion
	if all := growth + int(load.Delivered-b.delivered); !first && load.Delivered >= b.delivered && all > 0 {
		part = (portion + min(float64(b.published)/float64(all), 1)) / 2
	}
	b.measure(load, at)
	published, target := float64(b.published), float64(b.target())
	missing := target - float64(load.Waiting)
	left := published*(1-min(maxYield, portion, 1-portion)) + (missing-float64(growth))*part
	switch {
	case max(load.Waiting, b.waiting) < int(target)/4: // executors take all there is
		left = published + max(published/2, target*portion)
	case float64(load.Waiting) < 2*target:
		left = max(left, portion*target/10)
		if !first {
			left = max(left, portion*(b.drain*min(span, ReadEvery).Seconds()+min(missing, 0)))
		}
	case growth > 0:
		left = min(left, published/2)
	}
	b.left = max(int(math.Round(left)), 0)
	b.given, b.published = b.left, 0
	b.waiting, b.delivered, b.at = load.Waiting, load.Delivered, at
}

// measure moves the drain half of the way to what was seen since the last reading. It does not fall
// while nothing waits: executors might drain more than there was.
func (b *budget) measure(load queue.Load, at time.Time) {
	span := at.Sub(b.at).Seconds()
	if b.at.IsZero() || span <= 0 || load.Delivered < b.delivered {
		return
	}
	seen := float64(load.Delivered-b.delivered) / span
	b.loaded = load.Waiting > 0 && b.waiting > 0
	if seen > b.drain || b.loaded {
		b.drain += (seen - b.drain) / 2
	}
}

// target is how many messages should wait.
func (b *budget) target() int {
	least := minTarget
	if b.loaded && b.drain > 0 {
		least = leastTarget
	}
	return min(max(int(b.drain*targetSpan.Seconds()), least), maxTarget)
}
