package jetstream

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// class is the priority and pool of messages: what a consumer is for.
type class struct {
	priority schema.Priority
	pool     queue.Pool
}

// String says what messages of the class are.
func (c class) String() string {
	if c.pool == "" {
		return "runs of priority " + string(c.priority)
	}
	return "runs of priority " + string(c.priority) + " for executors with " + string(c.pool)
}

// knownPools are the pools whose consumers this process keeps, in the order in which they became
// known. Their consumers stay when nobody has those labels any more.
type knownPools struct {
	mu  sync.Mutex
	all []queue.Pool
}

// add adds a pool, and reports whether it is new.
func (k *knownPools) add(name queue.Pool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if name == "" || slices.Contains(k.all, name) {
		return false
	}
	k.all = append(k.all, name)
	return true
}

// classes returns the classes that have consumers: those of no pool first, then in the order in
// which the pools became known.
func (ss *streams) classes() []class {
	ss.pools.mu.Lock()
	pools := append([]queue.Pool{""}, ss.pools.all...)
	ss.pools.mu.Unlock()
	all := make([]class, 0, len(pools)*len(schema.Priorities))
	for _, name := range pools {
		for _, p := range schema.Priorities {
			all = append(all, class{p, name})
		}
	}
	return all
}

// pool is the messages of one pool or, without a name, those for any executor.
type pool struct {
	q    *Queue
	name queue.Pool
}

func (q *Queue) all() pool { return pool{q: q} }

// Pool implements queue.Pools. The consumers of a new pool are made by the watch of the streams;
// until then a Fetch waits, and a Load fails.
func (q *Queue) Pool(name queue.Pool) queue.PoolQueue {
	if q.streams.pools.add(name) {
		q.streams.checkSoon()
	}
	return pool{q, name}
}

// Fetch implements queue.Consumer.
func (o pool) Fetch(ctx context.Context, n queue.Lane, p schema.Priority, limit int, wait time.Duration) ([]queue.Delivery, error) {
	ds, err := o.fetch(ctx, n, p, limit, wait)
	if err != nil {
		return nil, fmt.Errorf("fetch of lane %d, %s%s: %w", n, p.Or(), o.suffix(), err)
	}
	return ds, nil
}

// Front implements queue.Inspector.
func (o pool) Front(ctx context.Context, n queue.Lane, p schema.Priority) (queue.Front, error) {
	f, err := o.front(ctx, n, p)
	if err != nil {
		return queue.Front{}, fmt.Errorf("front of lane %d, %s%s: %w", n, p.Or(), o.suffix(), err)
	}
	return f, nil
}

// Load implements queue.Inspector.
func (o pool) Load(ctx context.Context, n queue.Lane, p schema.Priority) (queue.Load, error) {
	l, err := o.load(ctx, n, p)
	if err != nil {
		return queue.Load{}, fmt.Errorf("load of lane %d, %s%s: %w", n, p.Or(), o.suffix(), err)
	}
	return l, nil
}

func (o pool) suffix() string {
	if o.name == "" {
		return ""
	}
	return " for " + string(o.name)
}
