package cassandra

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocql/gocql"

	"carillon.dev/carillon/schema"
)

// Defaults of MigrateOptions.
const (
	DefaultShards    = 64
	DefaultRetention = 7 * 24 * time.Hour
)

// firstEpoch is the epoch of the first cursors.
const firstEpoch = 1

// How long changing the layout may take.
const (
	ddlTimeout   = 30 * time.Second // one statement: it is flushed to disk on every node
	ddlRetries   = 1                // tries again, if no answer came
	agreeTimeout = 30 * time.Second // all nodes having seen it
)

// MigrateOptions says what Migrate makes where there is nothing yet. What exists stays as it is.
type MigrateOptions struct {
	DryRun bool
	// "3": copies in Config.Datacenter, or "dc1:3", which must be that one. Needed for a new
	// keyspace
	Replication string
	Regions     *Regions      // nil: there are none, and nothing is made of them
	Shards      int           // S; 64 by default
	Retention   time.Duration // how long rows stay after their due time; 7 days by default
	Out         io.Writer     // takes a line for each step; discards by default
}

// Migrated is what Migrate did or, with DryRun, would do.
type Migrated struct {
	Keyspace bool            // created
	Applied  []string        // names of the migrations applied
	Settings bool            // written
	Cursors  int             // first cursors written
	InForce  schema.Settings // the settings after it; zero for a dry run of a new keyspace
}

// migrator is one call of Migrate.
type migrator struct {
	cfg   Config
	opts  MigrateOptions
	known []migration
	did   Migrated
}

// Migrate brings the keyspace to the layout of this version. It creates it, applies the migrations
// that it lacks, one process at a time, and writes the settings and first cursors that it lacks.
// Repeating it is harmless, and so is cutting it short. ErrNewer and ErrChanged mean that nothing
// was applied.
func Migrate(ctx context.Context, cfg Config, opts MigrateOptions) (Migrated, error) {
	m := migrator{cfg: cfg.withDefaults(), opts: opts}
	m.opts.Shards = or(opts.Shards, DefaultShards)
	m.opts.Retention = or(opts.Retention, DefaultRetention)
	if m.opts.Out == nil {
		m.opts.Out = io.Discard
	}
	known, err := loadMigrations(migrationFiles)
	if faults := errors.Join(err, cfg.Validate(), m.opts.validate(m.cfg.Datacenter, m.cfg.Datacenters...)); faults != nil {
		return Migrated{}, faults
	}
	m.known = known
	m.cfg.Timeout = max(m.cfg.Timeout, ddlTimeout)
	m.cfg.Registerer = nil // the store that follows registers its own
	if err := m.run(ctx); err != nil {
		return m.did, fmt.Errorf("migrate keyspace %s: %w", m.cfg.Keyspace, err)
	}
	return m.did, nil
}

// validate reports every fault of o where the data centre is ours.
func (o MigrateOptions) validate(datacenter string, regions ...string) error {
	var faults []error
	if o.Shards < 1 || o.Shards > schema.MaxShards {
		faults = append(faults, fmt.Errorf("shards: %d is not between 1 and %d", o.Shards, schema.MaxShards))
	}
	if o.Retention < time.Hour {
		faults = append(faults, fmt.Errorf("retention: %s is less than 1h", o.Retention))
	}
	if o.Replication != "" {
		_, err := replication(o.Replication, datacenter, regions...)
		faults = append(faults, err)
	}
	return errors.Join(append(faults, o.Regions.validate())...)
}

func (m *migrator) run(ctx context.Context) error {
	if err := m.createKeyspace(ctx); err != nil {
		return err
	}
	if m.did.Keyspace && m.opts.DryRun {
		m.plan(m.known)
		m.did.Settings, m.did.Cursors = true, m.opts.Shards
		m.say("would write settings and the cursors of %d shards", m.opts.Shards)
		return nil
	}
	s, err := connect(ctx, m.cfg, m.cfg.Keyspace)
	if err != nil {
		return err
	}
	if err = m.migrate(ctx, s); err == nil {
		err = m.migrateRegions(ctx)
	}
	return errors.Join(err, s.Close())
}

// createKeyspace creates the keyspace if there is none, and the two tables that migrating itself
// needs.
func (m *migrator) createKeyspace(ctx context.Context) error {
	s, err := connect(ctx, m.cfg, "")
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // never fails
	warnings, upkeep, err := s.check(ctx)
	if err != nil {
		return err
	}
	for _, note := range append(warnings, upkeep...) {
		m.say("note: %s", note)
	}
	exists, err := s.keyspaceExists(ctx, m.cfg.Keyspace)
	if err != nil {
		return err
	}
	if !exists {
		if m.opts.Replication == "" {
			return errors.New("there is no such keyspace: say with which replication to create it")
		}
		m.did.Keyspace = true
		spec, err := replication(m.opts.Replication, m.cfg.Datacenter, m.cfg.Datacenters...)
		if err != nil {
			return err
		}
		if err := m.ddl(ctx, s, fmt.Sprintf("CREATE KEYSPACE IF NOT EXISTS %s WITH replication = %s AND durable_writes = true", m.cfg.Keyspace, spec)); err != nil {
			return err
		}
	}
	for _, table := range []struct{ name, columns string }{
		{"migrations", "scope text, version int, name text, checksum text, applied_at timestamp, applied_by text, PRIMARY KEY ((scope), version)"},
		{"migration_lock", "name text PRIMARY KEY, owner text, taken_at timestamp"},
	} {
		// Nothing can lock before these two exist. A fixed id makes two that create them at once
		// create the same table; Cassandra would be left with two of one name. Asking first whether
		// they exist would tell too early: the answer is yes some time before they can be used.
		err = m.ddl(ctx, s, fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s.%s (%s) WITH ID = %s",
			m.cfg.Keyspace, table.name, table.columns, tableID(m.cfg.Keyspace, table.name)))
		if err != nil {
			return err
		}
	}
	return nil
}

// tableID returns the id of a table that is always the same for the same keyspace and name.
func tableID(keyspace, table string) gocql.UUID {
	sum := sha256.Sum256([]byte("carillon/" + keyspace + "/" + table))
	var id gocql.UUID
	copy(id[:], sum[:])
	id[6] = 0x80 | id[6]&0x0f
	id[8] = 0x80 | id[8]&0x3f
	return id
}

// migrate applies what s lacks, under the lock.
func (m *migrator) migrate(ctx context.Context, s *Store) error {
	done, err := s.appliedMigrations(ctx)
	// another may just be creating it; it is read again under the lock
	if errors.Is(err, ErrNotMigrated) {
		done, err = nil, nil
	}
	if err != nil {
		return err
	}
	open, ahead, err := missing(m.known, done)
	if err != nil {
		return err
	}
	if ahead != "" {
		m.say("note: the next version has applied %s; this one runs beside it", ahead)
	}
	if m.opts.DryRun {
		m.plan(open)
		return nil
	}
	l, err := takeMigrationLock(ctx, s, owner())
	if err != nil {
		return err
	}
	err = m.locked(ctx, s, l)
	return errors.Join(err, l.drop(context.WithoutCancel(ctx)))
}

// locked is the part of migrate that is done by one process at a time.
func (m *migrator) locked(ctx context.Context, s *Store, l *lock) error {
	if err := agree(ctx, s); err != nil {
		return err
	}
	done, err := s.appliedMigrations(ctx) // again: another may have held the lock
	if err != nil {
		return err
	}
	open, _, err := missing(m.known, done)
	if err != nil {
		return err
	}
	for _, mig := range open {
		m.say("applying %s", mig.name)
		for _, text := range mig.statements {
			if err := l.keep(ctx); err != nil {
				return err
			}
			if err := m.ddl(ctx, s, text); err != nil {
				return fmt.Errorf("%s: %w", mig.name, err)
			}
		}
		if err := l.keep(ctx); err != nil {
			return err
		}
		// A duplicate or an unknown outcome is no harm: the checksum is the same, and read below.
		_, err := s.swap(ctx, recordMigration, nil, make(map[string]any), mig.version, mig.name, mig.checksum, m.cfg.Now(), l.owner)
		if err != nil {
			return fmt.Errorf("record %s: %w", mig.name, err)
		}
		m.did.Applied = append(m.did.Applied, mig.name)
	}
	if err := l.keep(ctx); err != nil {
		return err
	}
	return m.first(ctx, s)
}

// first writes the settings and the cursors where there are none.
func (m *migrator) first(ctx context.Context, s *Store) error {
	text, err := json.Marshal(storedSettings{Shards: m.opts.Shards, Retention: schema.Duration(m.opts.Retention)})
	if err != nil {
		return fmt.Errorf("encode settings: %w", err)
	}
	m.did.Settings, err = s.swap(ctx, createSetting, nil, make(map[string]any), settingsScope, settingsName, text)
	if err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	if m.did.InForce, err = s.Settings(ctx); err != nil {
		return err
	}
	// Registers only rise: writing "the bucket before now" over a cursor that stands behind would
	// skip what it has not done. So only shards without any cursor get one; the lock keeps others
	// from doing the same.
	have, err := s.Cursors(ctx)
	if err != nil {
		return err
	}
	// By the clocks of the store, not by that of whoever migrates: a first cursor in the future
	// would have runs passed over. One that lies too early costs a read of an empty bucket.
	now, err := schema.TimeByMost(ctx, s)
	if err != nil {
		return fmt.Errorf("ask for the time: %w", err)
	}
	before := schema.BucketOf(now) - 2
	for shard := range m.did.InForce.Shards {
		c := schema.Cursor{Shard: schema.Shard(shard), Epoch: firstEpoch, Dispatched: before, Settled: before} // #nosec G115 -- at most MaxShards
		if slices.ContainsFunc(have, func(h schema.Cursor) bool { return h.Shard == c.Shard }) {
			continue
		}
		if err := s.AdvanceCursor(ctx, c); err != nil {
			return err
		}
		m.did.Cursors++
	}
	if m.did.Settings {
		m.say("wrote settings: %d shards, retention %s", m.did.InForce.Shards, m.did.InForce.Retention)
	}
	if m.did.Cursors > 0 {
		m.say("wrote the first cursors of %d shards", m.did.Cursors)
	}
	return nil
}

// ddl executes a statement that changes the layout, and waits until all nodes have it. A dry run
// only shows it.
func (m *migrator) ddl(ctx context.Context, s *Store, text string) error {
	if m.opts.DryRun {
		m.say("would run:\n%s;", text)
		return nil
	}
	// A cluster that is slow to change its layout may not answer in time: each statement can be
	// repeated.
	err := repeat(ctx, writing, ddlRetries, func() { m.say("no answer: asking again") }, func() error {
		return s.session.Query(text).WithContext(ctx).Exec()
	})
	if err != nil {
		head, _, _ := strings.Cut(text, "(")
		return fmt.Errorf("%s: %w", strings.TrimSpace(head), err)
	}
	// The driver waits as well, and goes on if they do not agree. The next statement would only add
	// to it.
	return agree(ctx, s)
}

// plan shows what applying open would do.
func (m *migrator) plan(open []migration) {
	for _, mig := range open {
		m.did.Applied = append(m.did.Applied, mig.name)
		m.say("would apply %s:\n%s;", mig.name, strings.Join(mig.statements, ";\n"))
	}
}

func (m *migrator) say(format string, args ...any) {
	// a reader that left does not stop a migration
	_, _ = fmt.Fprintf(m.opts.Out, format+"\n", args...)
}

// agree waits until all nodes have the same layout.
func agree(ctx context.Context, s *Store) error {
	ctx, cancel := context.WithTimeout(ctx, agreeTimeout)
	defer cancel()
	if err := s.session.AwaitSchemaAgreement(ctx); err != nil {
		return fmt.Errorf("wait for all nodes to agree on the layout: %w", translate(err, reading))
	}
	return nil
}

// replication returns the CQL map for "3" or "dc1:3", copies in the data centre dc; or, for a number,
// in each of those of the regions, if there are any.
func replication(text, dc string, regions ...string) (string, error) {
	name, number, named := strings.Cut(strings.TrimSpace(text), ":")
	if named && len(regions) > 0 {
		return "", fmt.Errorf("replication: %q: with regions it is a number of copies, in the data centre of each", text)
	}
	if !named {
		name, number = dc, name
	}
	if strings.Contains(text, ",") {
		return "", fmt.Errorf("replication: %q names several data centres; %s", text, twoCentres)
	}
	n, err := strconv.Atoi(number)
	switch {
	case err != nil, n < 1, n > 9, !datacenter.MatchString(name):
		return "", fmt.Errorf("replication: %q is neither a number of copies (1 to 9) nor one with its data centre, such as dc1:3", text)
	case name != dc:
		return "", fmt.Errorf("replication: %q: the data centre of the nodes is %s (cassandra.datacenter)", text, dc)
	}
	if len(regions) == 0 {
		regions = []string{name}
	}
	copies := make(map[string]int, len(regions))
	for _, dc := range regions {
		copies[dc] = n
	}
	return (&Regions{Copies: copies}).replication(), nil
}

// owner returns a name for this call: where it runs, for people to read, and random text.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()[:8])
}

const (
	lockName = "migrate"
	// seconds; renewed before every statement, each of which takes at most ddlTimeout twice, and
	// agreeTimeout
	lockTTL = 120
	// how long another's lock is waited for: longer than a dead holder's stands
	lockWait    = 3 * time.Minute
	lockPoll    = 500 * time.Millisecond // how often
	dropTimeout = 5 * time.Second
)

// errLockLost means that the lock ran out or was taken while we held it: another may be migrating.
var errLockLost = errors.New("migration lock was lost")

// lock is the right to migrate the keyspace. It ends by itself when its holder dies.
type lock struct {
	store *Store
	owner string
}

// takeMigrationLock waits until the lock is ours.
func takeMigrationLock(ctx context.Context, s *Store, owner string) (*lock, error) {
	end := s.cfg.Now().Add(lockWait)
	for {
		row := make(map[string]any)
		applied, err := s.swap(ctx, takeLock, nil, row, lockName, owner, s.cfg.Now(), lockTTL)
		holder, _ := row["owner"].(string)
		switch {
		case err != nil && !errors.Is(err, schema.ErrUnknown) && !noSuchTable(err):
			// the node may not have seen it yet
			return nil, fmt.Errorf("take migration lock: %w", err)
		case applied, err == nil && holder == owner: // ours by an earlier try that was not answered
			return &lock{s, owner}, nil
		}
		if s.cfg.Now().After(end) {
			return nil, fmt.Errorf("take migration lock: %w: held by %s for more than %s", schema.ErrConflict, holder, lockWait)
		}
		s.cfg.Logger.Info("waiting for the migration lock", "holder", holder)
		if !wait(ctx, lockPoll) {
			return nil, fmt.Errorf("take migration lock, held by %s: %w", holder, ctx.Err())
		}
	}
}

// keep renews the lock for another lockTTL.
func (l *lock) keep(ctx context.Context) error {
	applied, err := l.store.swap(ctx, keepLock, nil, make(map[string]any), lockTTL, l.owner, l.store.cfg.Now(), lockName, l.owner)
	if err != nil {
		return fmt.Errorf("keep migration lock: %w", err)
	}
	if !applied {
		return errLockLost
	}
	return nil
}

// drop gives the lock back.
func (l *lock) drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dropTimeout)
	defer cancel()
	applied, err := l.store.swap(ctx, dropLock, nil, make(map[string]any), lockName, l.owner)
	if err != nil {
		return fmt.Errorf("drop migration lock (it ends by itself within %d s): %w", lockTTL, err)
	}
	if !applied {
		return errLockLost
	}
	return nil
}
