package bucketer

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer/payload"
	"carillon.dev/carillon/bucketer/retention"
	"carillon.dev/carillon/schema"
)

// The times and bounds of intake.
const (
	// Grace is how long after its due time a row is still swept up by its dispatcher.
	Grace = 10 * time.Second
	// LateAfter is when a row counts as too late for its sweep: half the grace, so that a clock
	// offset, a slow read and the sweep itself fit into the other half.
	LateAfter = Grace / 2
	// TaskChangeWithin is how long after the answer an executor may still act as before a cancel or
	// a change. What clocks differ by comes on top.
	TaskChangeWithin = 2 * time.Second
	// NearSpan is how close to its due time a row may lie behind its dispatcher's scan.
	NearSpan = 5 * time.Second
	// settingsEvery is how often the settings are read again.
	settingsEvery = 10 * time.Second

	// MaxChunk bounds the jobs of one SubmitBatch.
	MaxChunk = 4096
	// BatchRows and batchBytes bound one batch of rows.
	BatchRows  = 100
	batchBytes = 96 << 10
	// spreadRows is how many rows of a bucket an import puts into a shard before it turns to the
	// next one; the first shard takes a whole batch. A batch costs a store as much as ten of its
	// rows on top (loadtest/CAPACITY.md), so spreading costs up to (10 + 64)/64 ÷ (10 + 100)/100 =
	// 1.05 times as much, and a chunk that is due in one minute lies in all of 64 shards.
	spreadRows = 64
	// A partition's leftovers of fewer than leftoverRows rows share batches of at most mixedRows.
	leftoverRows = 5
	mixedRows    = 50
	// callsInFlight bounds the batches that a node writes, and the reads by id, at once.
	callsInFlight = 64
	// KeepAtOnce bounds the runs that one call keeps at once (keep.go).
	KeepAtOnce = 16
	// keyedWays is over how many shards the keyed lines of a (tenant, bucket) are spread. They are
	// few, so that one read answers for many lines. More would cost, in writes and as many reads of
	// a chunk that is due over 10 minutes (TestStatementsOfIntake):
	//
	//	ways        8   9   10   12   16    32    64
	//	writes      77  85  92   108  140   249   344 (400 reads)
	//
	// A ninth costs 10 %. Unkeyed lines take turns, chunk by chunk; the shard of a keyed line is a
	// function of its key, or the line that is sent again would not be found.
	keyedWays = 8
	// LateTries bounds how often a late entry may itself be too late. Then the outcome is unknown.
	LateTries = 5
	// MaxPartitionBytes is about the most that intake puts into one partition (fill.go).
	MaxPartitionBytes = 64 << 20
	// ReadIDs is how many rows one read by id asks for. It is the bound of schema's contract.
	ReadIDs = 100
)

// Store is what the bucketer needs of a store.
type Store interface {
	schema.EntryWriter
	schema.EntryReader
	schema.MarkStore
	schema.AttemptStore
	schema.OutputStore
	schema.KeyStore
	schema.SettingsStore
	schema.TaskStore
	schema.RateStore
	schema.JobStore
	schema.JobBatchStore
	schema.JobIndex
	schema.HistoryStore
	schema.DecisionStore
	schema.SubscriptionStore
	schema.NotificationStore
	schema.IncidentStore
	schema.CalendarStore
	schema.DeadLetterStore
	schema.DeadLetterIndex
	schema.LeaseStore
	schema.WaitListStore
	Tenant(ctx context.Context, name string) (schema.Tenant, error)
	Session(ctx context.Context, executor string) (schema.Session, error)
	PutAudit(ctx context.Context, entries []schema.AuditEntry) error
}

// Signaller tells every node something at once (queue.Signals has it).
type Signaller interface {
	Signal(topic string, body []byte)
}

// Bus carries signals to every node, and from them.
type Bus interface {
	Signaller
	SubscribeSignal(topic string, f func(body []byte)) (cancel func(), err error)
}

// TaskListeners are the nodes that must know of a change of a task before it is answered.
type TaskListeners struct {
	Bus     Bus
	Members func() []string // the names of living nodes, as far as is known
}

// Config wires a Bucketer and, by package engine, what writes through it.
type Config struct {
	Store   Store
	Hints   schema.Hints
	Signals Signaller
	// Listeners must know of a change of a task before it is answered (package tasks). Nil means
	// this node alone.
	Listeners *TaskListeners
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Halted reports that this node may not take jobs in, because it was stopped or its clock is
	// off. What follows from runs is written nevertheless, by a clock that does not go back, once
	// Halted was false for the first time. Nil means never.
	Halted func() bool
	// Regions says which homes our region serves; nil: there are no regions.
	Regions *Regions
	// Missed is told of runs of a job that were recorded as missed for a reason before an executor was
	// asked; nil: nobody is. It must not block.
	Missed func(spec *schema.Spec, reason string, runs int64)
	// WorkflowEnded is told of runs of workflows that have ended, once the store holds it; nil: nobody
	// is. It must not block, nor keep what it is given.
	WorkflowEnded func(e *schema.Entry, rec *schema.Record)
	// Waits is told of runs that are due and may not start; nil: nobody is. It must not block.
	Waits Waits
	// DeadLetterRetention is how long a dead letter is kept (package runs); default
	// schema.DeadLetterRetention. The nodes of a cluster share it.
	DeadLetterRetention time.Duration
	// RetentionDay is how long a day of a tenant's retention lasts; default schema.RetentionDay.
	// Simulations shorten it.
	RetentionDay time.Duration
	// PublicURL is the base URL under which people reach the console, without a slash at its end:
	// messages of notifications link to it. "": they have no links. The nodes of a cluster share
	// it.
	PublicURL  string
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Validate reports every fault of c.
func (c Config) Validate() error {
	var faults []error
	if c.Store == nil {
		faults = append(faults, errors.New("bucketer: no store"))
	}
	if c.Hints == nil {
		faults = append(faults, errors.New("bucketer: no hints"))
	}
	if c.Signals == nil {
		faults = append(faults, errors.New("bucketer: no signals"))
	}
	if c.DeadLetterRetention < 0 {
		faults = append(faults, errors.New("bucketer: dead letters are kept for a negative time"))
	}
	if c.RetentionDay < 0 {
		faults = append(faults, errors.New("bucketer: a day of a retention is negative"))
	}
	return errors.Join(faults...)
}

// Bucketer takes jobs in. Its methods, and those of its parts, may be called from any goroutine.
type Bucketer struct {
	*Writer
	halted   func() bool
	regions  *Regions
	fill     *fill
	tasks    *TaskCache
	payloads payload.Cache
}

// New returns a Bucketer, which refuses writes until Watch has read the settings.
func New(c Config) (*Bucketer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Waits == nil {
		c.Waits = noWaits{}
	}
	if c.Halted == nil {
		c.Halted = func() bool { return false }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	known := &clock{wall: c.Now, halted: c.Halted}
	keeping := retention.New(c.Store, c.Logger)
	w := &Writer{
		Rows:      &Rows{store: c.Store, calls: make(chan struct{}, callsInFlight)},
		listening: &listening{from: c.Store, logger: c.Logger, now: c.Now, keeping: keeping},
		lives:     &lives{Known: keeping, day: cmp.Or(c.RetentionDay, schema.RetentionDay)},
		hints:     c.Hints, missed: c.Missed, waits: c.Waits, clock: known, now: known.now, log: c.Logger, metrics: newMetrics(c.Registerer),
	}
	return &Bucketer{Writer: w, halted: c.Halted, regions: c.Regions, fill: newFill(), tasks: NewTaskCache(c.Store, c.Now)}, nil
}

// Watch reads the settings now and every 10 s, and asks how full partitions are, until ctx ends. It
// returns nil.
func (b *Bucketer) Watch(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { b.sizeAll(ctx) })
	wg.Go(func() { b.watchListening(ctx) })
	wg.Go(func() { b.WatchRetentions(ctx) })
	tick := time.NewTicker(settingsEvery)
	defer tick.Stop()
	for {
		if err := b.Refresh(ctx); err != nil && ctx.Err() == nil {
			b.log.Warn("settings could not be read", "err", err)
		}
		b.fill.forget(schema.BucketOf(b.now().Add(-Grace)))
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Refresh reads the settings. Until it has succeeded once every write is refused with ErrNotReady.
func (b *Bucketer) Refresh(ctx context.Context) error {
	s, err := b.store.Settings(ctx)
	if err != nil {
		return err
	}
	b.settings.Store(&s)
	return nil
}

// Now returns the time by which rows are judged: it does not go back while the wall clock is not
// to be trusted.
func (b *Bucketer) Now() time.Time { return b.now() }

// Halted reports that this node may not take jobs in now.
func (b *Bucketer) Halted() bool { return b.halted() }

// CountRefused counts a job that was refused before anything was written.
func (b *Bucketer) CountRefused(reason string) { b.metrics.refused.WithLabelValues(reason).Inc() }

// Ready reports whether writes are taken, and if not, why.
func (b *Bucketer) Ready() error {
	_, err := b.InForce()
	return err
}

// InForce returns the settings, or ErrNotReady while this node takes no writes.
func (b *Bucketer) InForce() (*schema.Settings, error) {
	s := b.settings.Load()
	if s == nil || b.halted() {
		return nil, ErrNotReady
	}
	return s, nil
}

// MayWrite returns nil if this node may write into a shard now for somebody who is told so:
// ErrNotReady, or a schema.NotServedError.
func (b *Bucketer) MayWrite(shard schema.Shard) error {
	if _, err := b.InForce(); err != nil {
		return err
	}
	return b.regions.Serves(shard)
}

// Regions returns which homes our region serves; nil: there are no regions.
func (b *Bucketer) Regions() *Regions { return b.regions }

// ShardsEver returns the highest number of shards that ids may have been given.
func (b *Bucketer) ShardsEver() (int, error) {
	s := b.settings.Load()
	if s == nil {
		return 0, ErrNotReady
	}
	n := s.Shards
	for _, h := range s.History {
		n = max(n, h.Shards)
	}
	return n, nil
}
