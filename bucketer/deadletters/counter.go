// Package deadletters counts the dead letters that wait, of all tenants, for the gauge
// carillon_dead_letters_waiting.
//
// Letters lie by tenant and day (schema.DeadLetterStore). Whoever writes one notes its tenant and
// day first, under the day in which its run ended (runs.DeadLetterQueue). A letter leaves a fixed
// time after that end. So the notes of that many days name every day of every tenant that has
// letters, and a count of these days is the truth: nothing is added up, so nothing can drift.
//
// Each node counts the tenants whose shards it owns. The sum over nodes is the number of all.
//
// # What it costs
//
// A pass reads one small partition for each day of retention, and one slice for each day of a
// tenant that has letters, of at most maxLooked of them. It takes readsPerSecond reads a second at
// most, of which a large slice takes several. The next pass begins passEvery later. So 1,000 days
// of tenants with few letters are counted in 50 s; 100,000 letters of ten days in ten seconds.
//
// # What it is not
//
// A number is as old as the last pass. Of a day with more than maxLooked letters only the newest of
// these are looked at. Letters that a version wrote which did not note them are not counted; they
// are listed all the same. When shards change hands, a tenant is missing until its new owner has
// counted it, or is counted twice for some seconds.
//
// # If we crash
//
// The next owner of the shards counts anew: nothing is kept.
package deadletters

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const (
	// passEvery is the time between two passes.
	passEvery = time.Minute
	// soon is the time to the next pass after one that could not be begun or failed.
	soon = 5 * time.Second
	// readsPerSecond bounds the reads of a node. One that looks at n letters takes 1 +
	// n/lettersARead.
	readsPerSecond = 20
	lettersARead   = 500
	// maxLooked bounds the letters that are looked at of a tenant's day.
	maxLooked = 10_000
	// notesPage bounds the notes of one read.
	notesPage = 1000
	// ahead is how far the clocks of others may be ahead of ours.
	ahead = 10 * time.Second
)

// Config wires a Counter.
type Config struct {
	Bucketer *bucketer.Bucketer
	Store    schema.DeadLetterIndex
	// Owns reports whether this node owns a shard now. It does no I/O.
	Owns func(schema.Shard) bool
	// Retention is how long dead letters are kept; default schema.DeadLetterRetention.
	Retention  time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Counter counts the dead letters of the tenants whose shards this node owns.
type Counter struct {
	core      *bucketer.Bucketer
	store     schema.DeadLetterIndex
	owns      func(schema.Shard) bool
	retention time.Duration
	log       *slog.Logger
	logSome   rate.Sometimes
	pace      *rate.Limiter
	failures  prometheus.Counter
	waiting   *prometheus.Desc

	mu     sync.Mutex
	whole  bool             // a pass has come to its end
	counts map[string]count // by tenant
}

// count is what waits of a tenant.
type count struct {
	shard   schema.Shard
	waiting int
}

// New returns a Counter that does nothing until Run.
func New(c Config) *Counter {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	n := &Counter{
		core: c.Bucketer, store: c.Store, owns: c.Owns, retention: cmp.Or(c.Retention, schema.DeadLetterRetention), log: c.Logger,
		logSome: rate.Sometimes{Interval: 10 * time.Minute},
		pace:    rate.NewLimiter(readsPerSecond, 1+maxLooked/lettersARead),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_dead_letter_count_failures_total", Help: "Times that dead letters could not be counted, since the store could not be read: the numbers stay as they were.",
		}),
		waiting: prometheus.NewDesc("carillon_dead_letters_waiting",
			"Dead letters that wait to be replayed or discarded, of the tenants that this node counts: the sum over nodes is all. "+
				"They are counted once a minute, or slower where there are many; of a tenant's day, the newest 10,000 are looked at.", nil, nil),
		counts: make(map[string]count),
	}
	c.Registerer.MustRegister(n, n.failures)
	return n
}

// Describe implements prometheus.Collector.
func (c *Counter) Describe(ch chan<- *prometheus.Desc) { ch <- c.waiting }

// Collect implements prometheus.Collector. Before the first pass has ended nothing is known, so
// there is no number. A tenant whose shard went elsewhere is not counted here any more.
func (c *Counter) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	known := make([]count, 0, len(c.counts))
	for _, of := range c.counts {
		known = append(known, of)
	}
	whole := c.whole
	c.mu.Unlock()
	if !whole {
		return
	}
	sum := 0
	for _, of := range known {
		if c.owns(of.shard) {
			sum += of.waiting
		}
	}
	ch <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(sum))
}

// Run counts until ctx ends, and returns nil.
func (c *Counter) Run(ctx context.Context) error {
	for {
		pause := passEvery
		switch err := c.pass(ctx, c.core.Now()); {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, bucketer.ErrNotReady):
			pause = soon
		default:
			c.failures.Inc()
			c.logSome.Do(func() { c.log.Warn("dead letters could not be counted: it is tried again", "err", err) })
			pause = soon
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// pass counts once. After an error what was counted before stands.
func (c *Counter) pass(ctx context.Context, now time.Time) error {
	settings, err := c.core.InForce()
	if err != nil {
		return err
	}
	days, err := c.days(ctx, now, func(tenant string) schema.Shard {
		return c.core.Regions().KeyedShard(tenant, schema.HashOf("dead letters", tenant), settings.Shards)
	})
	if err != nil {
		return err
	}
	counts := make(map[string]count)
	for _, d := range days {
		n, err := c.store.CountDeadLetters(ctx, d.TenantDay, maxLooked)
		if err != nil {
			return err
		}
		counts[d.Tenant] = count{d.shard, counts[d.Tenant].waiting + n.Waiting}
		if err := c.pace.WaitN(ctx, 1+n.Looked/lettersARead); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts, c.whole = counts, true
	return nil
}

// day is a tenant's day with letters, and the shard whose owner counts it.
type day struct {
	schema.TenantDay
	shard schema.Shard
}

// days returns the days of our tenants in which letters may lie, each once.
func (c *Counter) days(ctx context.Context, now time.Time, shardOf func(tenant string) schema.Shard) (days []day, err error) {
	first, last := schema.PeriodOf(now.Add(-c.retention)), schema.PeriodOf(now.Add(ahead))
	for ended := first; ended <= last; ended++ {
		for after := (schema.TenantDay{}); ; {
			page, err := c.store.NotedDeadLetters(ctx, ended, after, notesPage)
			if err != nil {
				return nil, err
			}
			for _, at := range page {
				if shard := shardOf(at.Tenant); c.owns(shard) {
					days = append(days, day{at, shard})
				}
			}
			if err := c.pace.WaitN(ctx, 1+len(page)/lettersARead); err != nil {
				return nil, err
			}
			if len(page) < notesPage {
				break
			}
			after = page[len(page)-1]
		}
	}
	slices.SortFunc(days, func(a, b day) int { return cmp.Or(strings.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Day, b.Day)) })
	return slices.Compact(days), nil
}
