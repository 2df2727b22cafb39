package notifications

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const (
	// stepEvery is how often the incidents of a tenant are read. An idle tenant that has rules
	// costs a read of a partition or two each time.
	stepEvery = 5 * time.Second
	// tenantsAtOnce bounds the tenants of one node that are worked on at once.
	tenantsAtOnce = 4
	// stepTimeout bounds a step of a tenant. What it has not read by then, the next one does.
	stepTimeout = 30 * time.Second
	// logFailureEvery is how often the failure of a step is logged.
	logFailureEvery = 10 * time.Second
)

// Config wires a Notifier.
type Config struct {
	Bucketer *bucketer.Bucketer
	// Store is the store of the Bucketer.
	Store bucketer.Store
	Rules *Rules
	// Owns reports whether this node owns a shard now. It does no I/O. Two nodes that own one, for
	// some seconds, cost reads, and no message.
	Owns   func(schema.Shard) bool
	Logger *slog.Logger
}

// Notifier tells the tenants whose shards this node owns.
type Notifier struct {
	core    *bucketer.Bucketer
	store   bucketer.Store
	rules   *Rules
	owns    func(schema.Shard) bool
	log     *slog.Logger
	logSome rate.Sometimes
	tenants map[string]*tenant
}

// New returns a Notifier that does nothing until Run.
func New(c Config) *Notifier {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Notifier{
		core: c.Bucketer, store: c.Store, rules: c.Rules, owns: c.Owns, log: c.Logger,
		logSome: rate.Sometimes{Interval: logFailureEvery}, tenants: make(map[string]*tenant),
	}
}

// Run notifies until ctx ends, and returns nil.
func (n *Notifier) Run(ctx context.Context) error {
	tick := time.NewTicker(stepEvery)
	defer tick.Stop()
	for {
		n.step(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// step takes one step of each tenant that is ours.
func (n *Notifier) step(ctx context.Context) {
	settings, err := n.core.InForce()
	if err != nil {
		return // we may not write now
	}
	ours := make(map[string]bool)
	for _, name := range n.core.Notifying() {
		shard := n.core.Regions().KeyedShard(name, schema.HashOf("notifications", name), settings.Shards)
		ours[name] = n.owns(shard)
		if ours[name] && n.tenants[name] == nil {
			n.tenants[name] = newTenant(n, name)
		}
	}
	for name := range n.tenants {
		if !ours[name] {
			delete(n.tenants, name)
		}
	}
	var g errgroup.Group
	g.SetLimit(tenantsAtOnce)
	var mu sync.Mutex
	for name, t := range n.tenants {
		g.Go(func() error {
			bounded, cancel := context.WithTimeout(ctx, stepTimeout)
			defer cancel()
			err := t.step(bounded, n.core.Now())
			if err == nil || ctx.Err() != nil {
				return nil
			}
			n.rules.metrics.failures.Inc()
			mu.Lock()
			defer mu.Unlock()
			n.logSome.Do(func() { n.log.Warn("a tenant could not be notified: it is tried again", "tenant", name, "err", err) })
			return nil
		})
	}
	_ = g.Wait() // each was logged
}
