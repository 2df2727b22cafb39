package bench

import (
	"context"
	"errors"
	"slices"
	"time"

	"carillon.dev/carillon/loadtest/plot"
	"carillon.dev/carillon/loadtest/wait"
)

const (
	// heapEvery is how often the heap is looked at while a backlog waits.
	heapEvery = 5 * time.Second
	// heapGrown bounds the growth of the heap of all nodes together, in bytes. Dispatchers and
	// executors hold that much in memory; a backlog stays in the store.
	heapGrown = 128 << 20
)

// A BesideBacklog is a tenant alone, and beside another one with a backlog. The sink tells the
// lateness. The heap is the live heap of all nodes together, after a collection, in bytes.
type BesideBacklog struct {
	Backlog    int       `json:"backlog"`
	Left       int       `json:"backlog_left"` // when the last run of the other tenant fell due
	Rate       int       `json:"rate"`         // of the tenant with little to do, runs a second
	Span       float64   `json:"span_s"`
	Alone      *Lateness `json:"alone_ms"`
	Beside     *Lateness `json:"beside_ms"`
	Moved      float64   `json:"p99_moved_ms"`
	Allowed    float64   `json:"p99_allowed_ms"`
	HeapBefore float64   `json:"heap_before"`
	HeapMost   float64   `json:"heap_most"` // from the backlog's instant to its last run
	Missed     int       `json:"missed"`
	heap       plot.Curve
}

// behind is PartBacklog.
func (b fairness) besideBacklog(ctx context.Context, sys system, f FairConfig, r *FairResult) error {
	o := &BesideBacklog{Backlog: f.Backlog, Rate: f.Rate, Span: b.cfg.Span.Seconds(), heap: plot.Curve{Name: "alive"}}
	little := jobs{n: max(int(float64(f.Rate)*o.Span), 1), span: b.cfg.Span, tenant: "little"}
	alone, err := b.runGroup(ctx, sys, f.Work, []jobs{little}, []time.Duration{0})
	if err != nil {
		return err
	}
	o.HeapBefore = b.memory(ctx, sys)[nodeKind].Heap
	stop := b.watchHeap(ctx, sys)
	beside, err := b.runGroup(ctx, sys, f.Work, []jobs{little, {n: f.Backlog, tenant: "much"}}, []time.Duration{criticalAfter, 0})
	heap := stop()
	if err != nil {
		return err
	}
	was, missed := alone.starts(0)
	is, missedBeside := beside.starts(0)
	much, missedMuch := beside.starts(1)
	if len(was) == 0 || len(is) == 0 {
		return errors.New("no run began")
	}
	o.Missed = missed + missedBeside + missedMuch
	o.Alone, o.Beside = latenessOf(was), latenessOf(is)
	o.Moved, o.Allowed = o.Beside.P99-o.Alone.P99, max(movedPart*o.Alone.P99, movedMS)
	o.Left = after(much, beside.t0.Add(criticalAfter+b.cfg.Span))
	o.count(heap, beside.t0)
	r.Backlog = o
	return nil
}

// after returns how many of starts, which are in order of time, lie after at.
func after(starts []start, at time.Time) int {
	n, _ := slices.BinarySearchFunc(starts, at.Add(1), func(s start, at time.Time) int { return s.at.Compare(at) })
	return len(starts) - n
}

// count adds the readings of the heap from t0 on.
func (o *BesideBacklog) count(heap []heapSeen, t0 time.Time) {
	for _, h := range heap {
		if h.at.Before(t0) {
			continue
		}
		o.HeapMost = max(o.HeapMost, h.bytes)
		o.heap.Add(h.at.Sub(t0).Seconds(), h.bytes/(1<<20))
	}
}

// heapSeen is one reading of the live heap of all nodes together.
type heapSeen struct {
	at    time.Time
	bytes float64
}

// watchHeap reads the heap every heapEvery until it is stopped, and returns the readings.
func (b fairness) watchHeap(ctx context.Context, sys system) (stop func() []heapSeen) {
	var seen []heapSeen
	end := wait.Every(ctx, heapEvery, func(ctx context.Context) {
		if bytes := b.memory(ctx, sys)[nodeKind].Heap; bytes > 0 && ctx.Err() == nil {
			seen = append(seen, heapSeen{time.Now(), bytes})
		}
	})
	return func() []heapSeen {
		end()
		return seen
	}
}
