package admin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

// refreshingCache answers from memory what it read lately.
//
//	age of the value     what a call does
//	below fresh          takes it
//	fresh to maxAge      one call reads it again; the others take it as it is
//	above, or unknown    one call reads it; the others wait for that call
//
// So neither a slow store nor many callers at once are felt before a value is too old.
type refreshingCache[K comparable, V any] struct {
	read   func(ctx context.Context, k K) (V, error)
	now    func() time.Time
	fresh  time.Duration
	maxAge time.Duration
	size   int         // bounds the weight of values; beyond it what was not found goes first, then everything
	weigh  func(V) int // nil: each weighs 1

	mu       sync.Mutex
	values   map[K]*cachedValue[V]
	weight   int // of values
	inFlight map[K]*inFlightCall[V]
	changes  int // counts forget: what was read across a change may be out of date
}

type cachedValue[V any] struct {
	value   V
	err     error // nil or schema.ErrNotFound
	at      time.Time
	weight  int
	reading bool // a call is reading it again
}

// inFlightCall is a read of a value that is unknown or too old.
type inFlightCall[V any] struct {
	done      chan struct{} // closed when value, err and abandoned are set
	value     V
	err       error
	abandoned bool // the caller's context ended

	changes int // of the cache when the call began
}

func newRefreshingCache[K comparable, V any](
	read func(ctx context.Context, k K) (V, error), now func() time.Time, fresh, maxAge time.Duration, size int,
) *refreshingCache[K, V] {
	return &refreshingCache[K, V]{
		read: read, now: now, fresh: fresh, maxAge: maxAge, size: size,
		values: make(map[K]*cachedValue[V]), inFlight: make(map[K]*inFlightCall[V]),
	}
}

// of returns what read answers for k, or answered less than maxAge ago. It remembers no errors but
// schema.ErrNotFound.
func (c *refreshingCache[K, V]) of(ctx context.Context, k K) (V, error) {
	now := c.now()
	c.mu.Lock()
	cached, ok := c.values[k]
	usable := ok && now.Sub(cached.at) < c.maxAge
	if usable && (cached.reading || now.Sub(cached.at) < c.fresh) {
		defer c.mu.Unlock()
		return cached.value, cached.err
	}
	var call *inFlightCall[V]
	if !usable {
		if call = c.inFlight[k]; call != nil && call.changes == c.changes {
			c.mu.Unlock()
			return c.wait(ctx, k, call)
		}
		call = &inFlightCall[V]{done: make(chan struct{}), changes: c.changes}
		c.inFlight[k] = call
	}
	if ok {
		cached.reading = true
	}
	changes := c.changes
	c.mu.Unlock()

	value, err := c.read(ctx, k)
	c.mu.Lock()
	defer c.mu.Unlock()
	if ok {
		cached.reading = false
	}
	if call != nil {
		call.value, call.err, call.abandoned = value, err, ctx.Err() != nil
		close(call.done)
		if c.inFlight[k] == call {
			delete(c.inFlight, k)
		}
	}
	switch {
	case err != nil && !errors.Is(err, schema.ErrNotFound):
		if usable {
			return cached.value, cached.err
		}
		return value, err
	case c.changes != changes: // right for a call that began before the change, not for later ones
		return value, err
	}
	c.remove(k)
	weight := 1
	if c.weigh != nil {
		weight = c.weigh(value)
	}
	if c.weight+weight > c.size {
		c.prune(c.size - weight)
	}
	c.values[k] = &cachedValue[V]{value: value, err: err, at: now, weight: weight}
	c.weight += weight
	return value, err
}

// wait waits for the read of another caller.
func (c *refreshingCache[K, V]) wait(ctx context.Context, k K, call *inFlightCall[V]) (value V, err error) {
	select {
	case <-ctx.Done():
		return value, fmt.Errorf("%w: %w", schema.ErrUnavailable, context.Cause(ctx))
	case <-call.done:
	}
	if call.abandoned && call.err != nil {
		return c.of(ctx, k)
	}
	return call.value, call.err
}

// prune makes room: at most most stays. Questions about what does not exist must not drive out what
// does. The caller holds mu.
func (c *refreshingCache[K, V]) prune(most int) {
	for k, cached := range c.values {
		if cached.err != nil {
			c.remove(k)
		}
	}
	if c.weight > most {
		clear(c.values)
		c.weight = 0
	}
}

// remove takes out what is kept of k. The caller holds mu.
func (c *refreshingCache[K, V]) remove(k K) {
	if cached, ok := c.values[k]; ok {
		c.weight -= cached.weight
		delete(c.values, k)
	}
}

// forget has k read again.
func (c *refreshingCache[K, V]) forget(k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(k)
	c.changes++
}
