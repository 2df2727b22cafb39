package embedded

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/damage"
	"carillon.dev/carillon/schema/document"
)

const (
	defaultShards    = 64
	defaultRetention = 7 * 24 * time.Hour

	diskCache   = 64 << 20 // bytes of blocks
	memoryCache = 8 << 20
	memTable    = 32 << 20 // bytes; memtables start small and grow up to it

	maxRow = 1 << 20 // bytes of the cells of one row that are written at once

	stripes = 256 // locks of rows
)

// Config says where a store lies. The zero value is a store in memory.
type Config struct {
	// Dir is the directory; it is made if it is not there. "" keeps everything in memory.
	Dir string
	// Shards and Retention become the settings of a store that is new; one that exists keeps its
	// own. 0 means 64 shards and 7 days.
	Shards    int
	Retention time.Duration
	// NoSync acknowledges writes before they are synced to the disk. A crash of the machine loses
	// the last ones. A store in memory never syncs.
	NoSync bool
	// Now is the store's clock: what has expired by it is not returned. Default time.Now.
	Now func() time.Time
	// Logger takes Pebble's messages and rows that cannot be understood. Default: nothing is
	// logged.
	Logger *slog.Logger
	// Registerer takes the metrics; nil: none.
	Registerer prometheus.Registerer
	// Replicate is called with what each write changed, once it is held, for another copy of the
	// rows to take in: tests have data centres. It must not wait. Nil: there is no other copy.
	Replicate func([]Mutation)
}

// Validate reports every fault of c.
func (c Config) Validate() error {
	var faults []error
	if c.Shards < 0 || c.Shards > schema.MaxShards {
		faults = append(faults, fmt.Errorf("shards: %d is not within 1…%d", c.Shards, schema.MaxShards))
	}
	if c.Retention < 0 {
		faults = append(faults, fmt.Errorf("retention: %v is negative", c.Retention))
	}
	return errors.Join(faults...)
}

func (c Config) withDefaults() Config {
	if c.Shards == 0 {
		c.Shards = defaultShards
	}
	if c.Retention == 0 {
		c.Retention = defaultRetention
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Store is a schema.Store in Pebble. It is safe for concurrent use. A store that was opened within
// a testing/synctest bubble must be closed within it.
//
// It is put together of one type a role of schema.Store, which all work on the same core. Its own
// methods open, close and expire.
type Store struct {
	*core
	document.Roles
	entryStore
	markStore
	attemptStore
	outputStore
	sessionStore
	keyStore
	cursorStore
	jobStore
	jobIndex
	historyStore
	decisionStore
	leaseStore
	waitListStore
	apiKeyStore
	auditStore
	statsStore
	deadLetterStore
	epochStore
}

// The roles, each in the file of its name unless another is given. Settings are read by the
// cursorStore.
type (
	entryStore      struct{ *core }
	markStore       struct{ *core } // entries.go
	attemptStore    struct{ *core }
	outputStore     struct{ *core } // attempts.go
	sessionStore    struct{ *core }
	keyStore        struct{ *core } // idempotency.go
	cursorStore     struct{ *core }
	jobStore        struct{ *core }
	jobIndex        struct{ *core }
	historyStore    struct{ *core }
	decisionStore   struct{ *core } // leases.go
	leaseStore      struct{ *core }
	waitListStore   struct{ *core } // waitlist.go
	apiKeyStore     struct{ *core }
	auditStore      struct{ *core }
	statsStore      struct{ *core } // audit.go
	deadLetterStore struct{ *core }
	epochStore      struct{ *core }
)

// newStore returns the store of all roles on c.
func newStore(c *core) *Store {
	return &Store{
		core:            c,
		Roles:           document.New(documents{c}, c.damage),
		entryStore:      entryStore{c},
		markStore:       markStore{c},
		attemptStore:    attemptStore{c},
		outputStore:     outputStore{c},
		sessionStore:    sessionStore{c},
		keyStore:        keyStore{c},
		cursorStore:     cursorStore{c},
		jobStore:        jobStore{c},
		jobIndex:        jobIndex{c},
		historyStore:    historyStore{c},
		decisionStore:   decisionStore{c},
		leaseStore:      leaseStore{c},
		waitListStore:   waitListStore{c},
		apiKeyStore:     apiKeyStore{c},
		auditStore:      auditStore{c},
		statsStore:      statsStore{c},
		deadLetterStore: deadLetterStore{c},
		epochStore:      epochStore{c},
	}
}

// core is what all roles share: the database, the clock, and the locks of rows.
type core struct {
	db    *pebble.DB
	now   func() time.Time
	write *pebble.WriteOptions

	damage *damage.Log

	replicate func([]Mutation) // nil: there is no other copy
	// applying is held while writes are made where there is another copy: what one of them has read
	// of a row stands until it is committed.
	applying sync.Mutex

	// life is held for reading by every call, and for writing by Close and while Expire decides:
	// see invariant 2.
	life   sync.RWMutex
	closed bool

	seed  maphash.Seed
	locks [stripes]sync.RWMutex // of rows, by hash of their key: shared by writes without a condition
}

var (
	_ schema.Store      = (*Store)(nil)
	_ schema.EpochStore = (*Store)(nil)
)

// ErrInUse: another process has the directory open.
var ErrInUse = errors.New("in use by another carillon")

// Open opens the store, and makes it if it is not there. A new store gets settings and, for every
// shard, its first cursor: epoch 1, both watermarks two buckets before now. A directory can be open
// once at a time: ErrInUse.
func Open(cfg Config) (_ *Store, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open embedded store: %w", err)
	}
	cfg = cfg.withDefaults()
	opts := &pebble.Options{
		// without it Pebble watches the disk, by a goroutine that outlives a failed Open
		FS:                 vfs.Default,
		FormatMajorVersion: pebble.FormatNewest,
		Merger:             merger,
		MemTableSize:       memTable,
		DisableTableStats:  true, // nothing here asks for them
		Logger:             pebbleLog{cfg.Logger},
	}
	rows, err := damage.New(cfg.Logger, cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("open embedded store: register metrics: %w", err)
	}
	s := newStore(&core{now: cfg.Now, write: pebble.Sync, damage: rows, seed: maphash.MakeSeed()})
	cacheSize := int64(diskCache)
	if cfg.Dir == "" {
		opts.FS, opts.DisableWAL, cacheSize = vfs.NewMem(), true, memoryCache
		// A store in memory is for tests, in whose bubbles weeks pass. Pebble's own scheduler wakes
		// ten times a second, which was most of their time. With this one, a compaction that has
		// to wait begins when another ends.
		opts.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	}
	if cfg.Dir == "" || cfg.NoSync {
		s.write = pebble.NoSync
	}
	opts.Cache = pebble.NewCache(cacheSize)
	defer opts.Cache.Unref() // the database holds its own reference
	s.db, err = pebble.Open(cfg.Dir, opts)
	switch {
	case errors.Is(err, syscall.EAGAIN): // what the system says of a lock that is held
		return nil, fmt.Errorf("open embedded store: the folder %s is %w", cfg.Dir, ErrInUse)
	case err != nil:
		return nil, fmt.Errorf("open embedded store: %w", err)
	}
	if err := s.initialize(cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("open embedded store: %w", err), s.Close())
	}
	s.replicate = cfg.Replicate
	return s, nil
}

// initialize writes the first rows of a new store, as one batch. It leaves a store that has
// settings alone.
func (s *Store) initialize(cfg Config) error {
	ctx := context.Background()
	switch _, err := s.Settings(ctx); {
	case err == nil:
		return nil
	case !errors.Is(err, schema.ErrNotFound):
		return err
	}
	b := s.db.NewBatch()
	defer closeQuietly(b)
	settings := schema.Settings{Shards: cfg.Shards, Retention: cfg.Retention}
	if err := setSettings(b, settings, cfg.Now()); err != nil {
		return err
	}
	before := schema.BucketOf(cfg.Now()) - 2
	for shard := range cfg.Shards {
		c := schema.Cursor{Shard: schema.Shard(shard), Epoch: 1, Dispatched: before, Settled: before} // #nosec G115 -- validated
		if err := mergeCursor(b, c); err != nil {
			return err
		}
	}
	return s.commit(b)
}

// Close closes the store. It waits for calls under way; later ones answer ErrUnavailable.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close embedded store: %w", err)
	}
	return nil
}

// Time returns the store's clock.
func (s *Store) Time(ctx context.Context) (time.Time, error) {
	if err := s.enter(ctx); err != nil {
		return time.Time{}, fmt.Errorf("read the store's clock: %w", err)
	}
	defer s.leave()
	return s.now().UTC(), nil
}

// Clocks returns this process's clock.
func (s *Store) Clocks() []schema.HostClock { return []schema.HostClock{{Time: s.Time}} }

// enter begins a call; leave ends it. Its error says that nothing was done.
func (s *core) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", schema.ErrUnavailable, err)
	}
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return fmt.Errorf("%w: the store is closed", schema.ErrUnavailable)
	}
	return nil
}

func (s *core) leave() { s.life.RUnlock() }

// nowMS is the instant by which a call judges expiry.
func (s *core) nowMS() int64 { return s.now().UnixMilli() }

// lock takes the lock of the row at key, for a write that depends on what stands there, and returns
// how to release it.
func (s *core) lock(key []byte) (unlock func()) {
	mu := &s.locks[maphash.Bytes(s.seed, key)%stripes]
	mu.Lock()
	return mu.Unlock
}

// lockAll takes the locks of all keys, as lock does.
func (s *core) lockAll(keys ...[]byte) (unlock func()) {
	held := s.stripesOf(keys)
	for _, stripe := range held {
		s.locks[stripe].Lock()
	}
	return func() {
		for _, stripe := range held {
			s.locks[stripe].Unlock()
		}
	}
}

// share keeps all keys from those who lock them, for a write without a condition. Such writes do
// not wait for each other, so that they reach the disk together.
func (s *core) share(keys ...[]byte) (unlock func()) {
	held := s.stripesOf(keys)
	for _, stripe := range held {
		s.locks[stripe].RLock()
	}
	return func() {
		for _, stripe := range held {
			s.locks[stripe].RUnlock()
		}
	}
}

// stripesOf returns the stripes of keys, each once and in one order, so that no two calls wait for
// each other.
func (s *core) stripesOf(keys [][]byte) []uint64 {
	held := make([]uint64, len(keys))
	for i, key := range keys {
		held[i] = maphash.Bytes(s.seed, key) % stripes
	}
	slices.Sort(held)
	return slices.Compact(held)
}

// pebbleLog passes on what Pebble logs.
type pebbleLog struct{ to *slog.Logger }

func (l pebbleLog) Infof(format string, args ...any) {
	l.to.Debug("pebble", "text", fmt.Sprintf(format, args...))
}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.to.Error("pebble failed", "text", fmt.Sprintf(format, args...))
}

// Fatalf is called when Pebble's log of writes cannot be written. Nothing that follows could be
// acknowledged, and Pebble relies on not going on.
func (l pebbleLog) Fatalf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.to.Error("pebble cannot go on", "text", text)
	panic("embedded store cannot go on: " + text)
}
