package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

const (
	// unhealthyAfter is for how long scans, publications or probes fail before a dispatcher is
	// unhealthy.
	unhealthyAfter = 10 * time.Second
	// healthyAfter is for how long nothing may fail before it is healthy again. After a relapse
	// within relapseWithin it doubles, up to healthyAfterMost: a link that flaps changes the ring
	// seldom.
	healthyAfter     = 10 * time.Second
	healthyAfterMost = 2 * time.Minute
	relapseWithin    = 5 * time.Minute
	// failureAge is for how long a failed scan or publication counts, if no other follows.
	failureAge = storeTimeout + 5*time.Second
	// probeEvery is how often store and queue are probed where nothing else shows that they answer.
	probeEvery = time.Second
	// probeTimeout is after how long a probe that has not come back has failed.
	probeTimeout = 3 * time.Second
)

// path is something that dispatching depends on, and that fails by itself.
type path int

const (
	probeStore path = iota
	probeQueue
	scanning
	publication
	paths
)

// pathNames say what fails.
var pathNames = [paths]string{"the store does not answer", "the queue does not answer", "scans fail", "publications fail"}

// failure is a stretch of failures without a success in between.
type failure struct {
	began time.Time // when the first of them began; zero = the last one succeeded
	last  time.Time // when the last one was noted …
	err   error     // … and what it was
}

// health finds out whether a dispatcher reaches what it needs. It does no I/O and reads no clock.
type health struct {
	mu        sync.Mutex
	failing   [paths]failure
	succeeded [paths]time.Time // when each last did
	unhealthy bool
	cause     error         // while unhealthy: what failed
	since     time.Time     // while unhealthy: since when nothing fails; zero = something does
	wait      time.Duration // while unhealthy: for how long nothing must fail
	recovered time.Time     // when it was last healthy again
}

// note takes in, at now, how something went that began at began; nil: it succeeded.
func (h *health) note(w path, began, now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &h.failing[w]
	if err == nil {
		*f, h.succeeded[w] = failure{}, now
		return
	}
	if f.began.IsZero() || began.Before(f.began) {
		f.began = began
	}
	f.last, f.err = now, err
}

// why returns what made the dispatcher unhealthy; nil while it is healthy.
func (h *health) why() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.unhealthy {
		return nil
	}
	return h.cause
}

// works reports whether w succeeded within the last two periods of probes.
func (h *health) works(w path, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now.Sub(h.succeeded[w]) < 2*probeEvery
}

// forget forgets what failed: the process was stopped since.
func (h *health) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failing, h.since = [paths]failure{}, time.Time{}
}

// judge returns whether the dispatcher is healthy, and whether that has changed.
func (h *health) judge(now time.Time) (healthy, changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fails, longest := false, time.Duration(0)
	for w := range h.failing {
		f := &h.failing[w]
		until := now
		if path(w) == scanning || path(w) == publication {
			if now.Sub(f.last) > failureAge {
				*f = failure{} // nothing was scanned, or published, here since
			}
			until = f.last
		}
		if !f.began.IsZero() {
			fails, longest = true, max(longest, until.Sub(f.began))
		}
	}
	switch {
	case !h.unhealthy && longest >= unhealthyAfter:
		h.wait = min(2*h.wait, healthyAfterMost)
		if h.wait == 0 || now.Sub(h.recovered) >= relapseWithin {
			h.wait = healthyAfter
		}
		h.unhealthy, h.since, h.cause = true, time.Time{}, h.causes()
		return false, true
	case !h.unhealthy:
	case fails:
		h.since = time.Time{}
	case h.since.IsZero():
		h.since = now
	case now.Sub(h.since) >= h.wait:
		h.unhealthy, h.recovered = false, now
		return true, true
	}
	return !h.unhealthy, false
}

// causes names all that fails. The caller holds mu.
func (h *health) causes() error {
	var all []error
	for w := range h.failing {
		if f := &h.failing[w]; !f.began.IsZero() {
			all = append(all, fmt.Errorf("%s: %w", pathNames[w], f.err))
		}
	}
	return errors.Join(all...)
}

// Unhealthy returns why this dispatcher is unhealthy, so that others take its shards; nil if it is
// not.
func (d *Dispatcher) Unhealthy() error { return d.health.why() }

// watchHealth tells the ring whether this dispatcher is healthy. It probes store and queue every
// second, unless scans and publications succeed.
func (d *Dispatcher) watchHealth(ctx context.Context) {
	var probes sync.WaitGroup
	defer probes.Wait()
	probed := 0
	probes.Go(func() {
		d.probe(ctx, probeStore, func(ctx context.Context) error {
			if d.health.works(scanning, d.now()) {
				return nil
			}
			probed++
			shard := schema.Shard(probed % max(d.ring.Snapshot().Shards(), 1)) // #nosec G115 -- a shard
			p := schema.Partition{Bucket: schema.BucketOf(d.now()), Shard: shard}
			_, err := d.store.EntryIDs(ctx, p, schema.IDRange{}, 1)
			return err
		})
	})
	probes.Go(func() {
		d.probe(ctx, probeQueue, func(ctx context.Context) error {
			if d.health.works(publication, d.now()) {
				return nil
			}
			_, err := d.queue.Load(ctx, queue.Lane(0), schema.Normal)
			return err
		})
	})
	d.metrics.healthy.Set(1)
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		healthy, changed := d.health.judge(d.now())
		if !changed {
			continue
		}
		if healthy {
			d.metrics.healthy.Set(1)
			d.log.Info("this dispatcher reaches store and queue again: it takes shards")
		} else {
			d.metrics.healthy.Set(0)
			d.log.Error("this dispatcher is unhealthy: others take its shards, unless all are", "err", d.health.why())
		}
		if err := d.ring.ReportHealth(healthy); err != nil && ctx.Err() == nil {
			d.log.Warn("health could not be reported to the ring", "healthy", healthy, "err", err)
		}
	}
}

// probe calls f every probeEvery until ctx ends, and notes how it went. A call that does not come
// back by its timeout has failed, and the next one waits for it.
func (d *Dispatcher) probe(ctx context.Context, w path, f func(ctx context.Context) error) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		began := d.now()
		done := make(chan error, 1)
		go func() { // it may hang for longer than this dispatcher lives: nobody waits for it then
			bounded, cancel := context.WithTimeout(ctx, probeTimeout)
			defer cancel()
			done <- f(bounded)
		}()
		late := time.NewTimer(probeTimeout)
		select {
		case err := <-done:
			d.noted(ctx, w, began, err)
		case <-late.C:
			d.noted(ctx, w, began, context.DeadlineExceeded)
			select {
			case <-done: //nolint:errcheck // what it says by now is old
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		late.Stop()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// noted notes how something went, unless it was cancelled, or the process was stopped meanwhile.
func (d *Dispatcher) noted(ctx context.Context, w path, began time.Time, err error) {
	if ctx.Err() == nil && !(err != nil && d.halt.Halted()) {
		d.health.note(w, began, d.now(), err)
	}
}

// unanswered leaves out errors of a publication that are answers: any dispatcher would get the
// same.
func unanswered(err error) error {
	if errors.Is(err, queue.ErrFull) || errors.Is(err, queue.ErrTooLarge) {
		return nil
	}
	return err
}
