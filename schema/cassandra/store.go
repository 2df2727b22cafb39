package cassandra

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/congestion"
	"carillon.dev/carillon/schema/damage"
	"carillon.dev/carillon/schema/deadletters"
	"carillon.dev/carillon/schema/document"
	"github.com/gocql/gocql"
)

// maxTTL is the longest expiry that Cassandra takes, seconds: 20 years.
const maxTTL = 20 * 365 * 24 * 60 * 60

// Store keeps the rows of schema in one keyspace. Its methods may be called concurrently.
//
// It is put together of one type a role of schema.Store, which all work on the same core. Its own
// methods open, check and close.
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
	historyStore    struct{ *core } // jobindex.go
	decisionStore   struct{ *core } // leases.go
	leaseStore      struct{ *core }
	waitListStore   struct{ *core } // waitlist.go
	apiKeyStore     struct{ *core }
	auditStore      struct{ *core }
	statsStore      struct{ *core } // audit.go
	deadLetterStore struct{ *deadletters.Store }
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
		deadLetterStore: newDeadLetters(c),
	}
}

// core is what all roles share: the session of the driver, its bounds, and what counts and logs.
type core struct {
	cfg         Config
	session     *gocql.Session
	speculation *speculation
	window      *congestion.Window // of the plain statements under way
	confirms    chan struct{}      // a token for each question to all data centres under way
	unknown     *unknownWrites     // nil: there is one data centre
	stop        func()             // ends what runs in the background, and waits for it
	metrics     *metrics
	damage      *damage.Log

	// batchBytes bounds one batch: lower than maxBatchBytes where the server takes less.
	batchBytes atomic.Int64

	entryRows, idRows, attemptRows, outputRows, smallRows, jobRows, listRows, historyRows, deadRows pageSizer
}

var _ schema.Store = (*Store)(nil)

// Open connects, checks the server (Check), and checks that the keyspace has the migrations of this
// version. It may have the next one as well, if that only adds. Warnings go to the logger.
//
//	ErrUnavailable                                 nobody answered: try again
//	ErrNotMigrated, ErrNewer, ErrChanged,
//	ErrReplication, ErrRefused                     trying again does not help
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s, err := connect(ctx, cfg, cfg.withDefaults().Keyspace)
	if err != nil {
		return nil, err
	}
	warnings, err := s.Check(ctx)
	for _, w := range warnings {
		s.cfg.Logger.Warn("cassandra differs from what is wanted", "what", w)
	}
	if err == nil {
		err = s.checkMigrated(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if len(s.cfg.Datacenters) > 1 {
		s.bringUnknown()
	}
	return s, nil
}

// connect opens a session in keyspace, or in none if it is empty.
func connect(ctx context.Context, cfg Config, keyspace string) (*Store, error) {
	cfg = cfg.withDefaults()
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	rows, err := damage.New(cfg.Logger, cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	cluster, err := cfg.cluster(keyspace)
	if err != nil {
		return nil, fmt.Errorf("connect to cassandra: %w", err)
	}
	sp := newSpeculation(cluster.PoolConfig.HostSelectionPolicy)
	cluster.PoolConfig.HostSelectionPolicy = sp
	session, err := newSession(ctx, cluster)
	if errors.Is(err, gocql.ErrNoConnectionsStarted) && keyspace != "" {
		// The driver says the same when every node is down and when every node refuses the
		// keyspace.
		if missing := missingKeyspace(ctx, cfg, keyspace); missing != nil {
			err = missing
		}
	}
	if err != nil {
		return nil, fmt.Errorf("connect to cassandra at %v, datacenter %q: %w", cfg.Hosts, cfg.Datacenter, err)
	}
	s := newStore(&core{
		cfg: cfg, session: session, speculation: sp, metrics: m, damage: rows,
		window: congestion.New(minInFlight, maxInFlight, cfg.Timeout/slowPart), confirms: make(chan struct{}, confirmsAtOnce),
	})
	s.batchBytes.Store(maxBatchBytes)
	if err := watch(cfg.Registerer, s.window); err != nil {
		session.Close()
		return nil, err
	}
	return s, nil
}

// missingKeyspace returns ErrNotMigrated if the cluster can be reached and says that it has no such
// keyspace.
func missingKeyspace(ctx context.Context, cfg Config, keyspace string) error {
	s, err := connect(ctx, cfg, "")
	if err != nil {
		return nil // then it is not for the keyspace
	}
	defer func() { _ = s.Close() }() // never fails
	exists, err := s.keyspaceExists(ctx, keyspace)
	if err == nil && !exists {
		return fmt.Errorf("%w: there is no keyspace %s", ErrNotMigrated, keyspace)
	}
	return err
}

// keyspaceExists reports whether the cluster has the keyspace.
func (s *Store) keyspaceExists(ctx context.Context, keyspace string) (bool, error) {
	var replication map[string]string
	err := s.one(ctx, selectReplication, []any{keyspace}, &replication)
	if errors.Is(err, schema.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for keyspace %s: %w", keyspace, err)
	}
	return true, nil
}

// newSession creates a session. The driver takes no context for that: if ctx ends first, the
// session is closed as soon as it exists, which the driver's own time-outs bound.
func newSession(ctx context.Context, cluster *gocql.ClusterConfig) (*gocql.Session, error) {
	type made struct {
		session *gocql.Session
		err     error
	}
	ch := make(chan made, 1)
	go func() {
		session, err := cluster.CreateSession()
		ch <- made{session, err}
	}()
	select {
	case m := <-ch:
		if m.err != nil {
			return nil, sessionError(m.err)
		}
		return m.session, nil
	case <-ctx.Done():
		go func() {
			if m := <-ch; m.session != nil {
				m.session.Close()
			}
		}()
		return nil, fmt.Errorf("%w: %w", schema.ErrUnavailable, ctx.Err())
	}
}

// Close closes all connections. Where there are regions, it waits some seconds for conditional
// writes that others may lack.
func (s *Store) Close() error {
	if s.stop != nil {
		s.stop()
	}
	s.session.Close()
	return nil
}

// Time returns the clock of a node of Cassandra, to the ms.
func (s *Store) Time(ctx context.Context) (time.Time, error) {
	var t time.Time
	err := s.repeat(ctx, selectTime, reading, func() error {
		return s.query(ctx, selectTime).Consistency(gocql.One).Scan(&t)
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("read cassandra's clock: %w", err)
	}
	return t.UTC(), nil
}

// Clocks returns the clock of every host of the local datacenter, to the ms.
func (s *Store) Clocks() []schema.HostClock {
	hosts := s.speculation.hosts()
	clocks := make([]schema.HostClock, len(hosts))
	for i, h := range hosts {
		clocks[i] = schema.HostClock{
			Host: h.ConnectAddress().String(), Time: func(ctx context.Context) (time.Time, error) { return s.timeAt(ctx, h) },
		}
	}
	return clocks
}

// timeAt asks one host for its time, once.
func (s *Store) timeAt(ctx context.Context, h *gocql.HostInfo) (time.Time, error) {
	var t time.Time
	start := time.Now()
	err := s.query(context.WithValue(ctx, onlyKey{}, onlyHost{h}), selectTime).Consistency(gocql.One).
		SetSpeculativeExecutionPolicy(gocql.NonSpeculativeExecution{}).Scan(&t)
	err = translate(err, reading)
	s.metrics.observe(selectTime, time.Since(start), err)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the clock of cassandra at %s: %w", h.ConnectAddress(), err)
	}
	return t.UTC(), nil
}

// ttl returns the seconds from now until expires: at least 1, at most what Cassandra takes. The
// zero time is never, which Cassandra writes as 0.
func (s *core) ttl(expires time.Time) int { return ttlAt(s.cfg.Now(), expires) }

func ttlAt(now, expires time.Time) int {
	if expires.IsZero() {
		return 0
	}
	seconds := expires.Unix() - now.Unix()
	return int(min(max(seconds, 1), maxTTL))
}

func uuid(id schema.EntryID) gocql.UUID { return gocql.UUID(id) }

// uuidOrNil is the value of a cell or condition that a zero id leaves null.
func uuidOrNil(id schema.EntryID) any {
	if id.IsZero() {
		return nil
	}
	return gocql.UUID(id)
}

func uuids(ids []schema.EntryID) []gocql.UUID {
	out := make([]gocql.UUID, len(ids))
	for i, id := range ids {
		out[i] = gocql.UUID(id)
	}
	return out
}

// cell is the value of a cell that is left as it is when there are no bytes for it.
func cell(b []byte) any {
	if len(b) == 0 {
		return gocql.UnsetValue
	}
	return b
}
