package bucketer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

// beliefs answers from memory what it read lately. One caller at a time reads again what is getting old, while the others take it
// as it is, and one reads what is not known, while the others wait for that; so neither a slow store nor a herd of callers is felt until what is known is too old to be believed.
type beliefs[K comparable, V any] struct {
	read  func(ctx context.Context, k K) (V, error)
	now   func() time.Time
	fresh time.Duration // younger than this, it is not read again
	age   time.Duration // older than this, it is not believed
	size  int           // of known; beyond it what was not found is forgotten, and then everything

	mu      sync.Mutex
	known   map[K]*belief[V]
	asked   map[K]*question[V]
	changes int // heard of so far: what was read across one may be out of date
}

type belief[V any] struct {
	value   V
	err     error // nil or schema.ErrNotFound
	at      time.Time
	reading bool // somebody reads it again
}

// question is a read of what was not known.
type question[V any] struct {
	answered chan struct{} // closed when what follows is set
	value    V
	err      error
	dropped  bool // whoever asked gave up

	changes int // heard of when it was asked
}

func newBeliefs[K comparable, V any](
	read func(ctx context.Context, k K) (V, error), now func() time.Time, fresh, age time.Duration, size int,
) *beliefs[K, V] {
	return &beliefs[K, V]{read: read, now: now, fresh: fresh, age: age, size: size, known: make(map[K]*belief[V]), asked: make(map[K]*question[V])}
}

// of returns what read answers for k, or answered not longer ago than age. Errors other than schema.ErrNotFound are not
// remembered.
func (b *beliefs[K, V]) of(ctx context.Context, k K) (V, error) {
	now := b.now()
	b.mu.Lock()
	known, ok := b.known[k]
	believed := ok && now.Sub(known.at) < b.age
	if believed && (known.reading || now.Sub(known.at) < b.fresh) {
		defer b.mu.Unlock()
		return known.value, known.err
	}
	var q *question[V]
	if !believed {
		if q = b.asked[k]; q != nil && q.changes == b.changes {
			b.mu.Unlock()
			return b.answer(ctx, k, q)
		}
		q = &question[V]{answered: make(chan struct{}), changes: b.changes}
		b.asked[k] = q
	}
	if ok {
		known.reading = true
	}
	changes := b.changes
	b.mu.Unlock()

	value, err := b.read(ctx, k)
	b.mu.Lock()
	defer b.mu.Unlock()
	if ok {
		known.reading = false
	}
	if q != nil {
		q.value, q.err, q.dropped = value, err, ctx.Err() != nil
		close(q.answered)
		if b.asked[k] == q {
			delete(b.asked, k)
		}
	}
	switch {
	case err != nil && !errors.Is(err, schema.ErrNotFound):
		if believed {
			return known.value, known.err
		}
		return value, err
	case b.changes != changes: // right for a call that began before the change, not for later ones
		return value, err
	}
	if !ok && len(b.known) >= b.size {
		b.prune()
	}
	b.known[k] = &belief[V]{value: value, err: err, at: now}
	return value, err
}

// answer waits for what somebody else has asked.
func (b *beliefs[K, V]) answer(ctx context.Context, k K, q *question[V]) (value V, err error) {
	select {
	case <-ctx.Done():
		return value, fmt.Errorf("%w: %w", schema.ErrUnavailable, context.Cause(ctx))
	case <-q.answered:
	}
	if q.dropped && q.err != nil {
		return b.of(ctx, k)
	}
	return q.value, q.err
}

// prune makes room: who asks for what does not exist must not drive out what does. The caller holds mu.
func (b *beliefs[K, V]) prune() {
	for k, known := range b.known {
		if known.err != nil {
			delete(b.known, k)
		}
	}
	if len(b.known) >= b.size {
		clear(b.known)
	}
}

// forget has k read again.
func (b *beliefs[K, V]) forget(k K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.known, k)
	b.changes++
}
