package cassandra

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocql/gocql"

	"carillon.dev/carillon/schema"
)

// DefaultRegionsKeyspace is where the epochs of homes and the beats of regions lie.
const DefaultRegionsKeyspace = "carillon_regions"

// regionScope is the one partition of beats.
const regionScope = "all"

// The statements of EpochStore. They are of the keyspace of regions, which has copies in every data
// centre: all are QUORUM of all of them, conditional ones commit at QUORUM. Beats are also read at
// LOCAL_QUORUM, where it is asked what one data centre has, and at EACH_QUORUM, where it is asked
// whether each of them answers.
const (
	// One row of epochs, conditional. Not idempotent.
	insertEpoch statement = `INSERT INTO epochs (home, epoch, region, written_by, reason, at) VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS`
	// One row of epochs, serial where an outcome is to be found out. Idempotent.
	selectEpoch statement = `SELECT region, written_by, reason, at FROM epochs WHERE home = ? AND epoch = ?`
	// The first rows of one partition of epochs, the newest first. Idempotent.
	selectEpochs statement = `SELECT epoch, region, written_by, reason, at FROM epochs WHERE home = ? LIMIT ?`
	// One row of beats; the timestamp is that of Beat.Stamp, so that the later one stays.
	// Idempotent.
	insertBeat statement = `INSERT INTO beats (scope, region, beat) VALUES (?, ?, ?) USING TIMESTAMP ?`
	// One partition of beats, in the order of regions. Idempotent.
	selectBeats statement = `SELECT beat FROM beats WHERE scope = ?`
)

// regionTables are the tables of the keyspace of regions. A quorum of another data centre takes
// milliseconds; a read that waits for one that is cut off would take seconds, so it asks another
// replica soon.
var regionTables = []string{
	`CREATE TABLE IF NOT EXISTS %s.epochs (home text, epoch bigint, region text, written_by text, reason text, at timestamp, PRIMARY KEY ((home), epoch))
 WITH CLUSTERING ORDER BY (epoch DESC) AND speculative_retry = 'MIN(99p,50ms)'`,
	`CREATE TABLE IF NOT EXISTS %s.beats (scope text, region text, beat text, PRIMARY KEY ((scope), region))
 WITH speculative_retry = 'MIN(99p,50ms)'`,
}

// EpochStore keeps epochs and beats in a keyspace with copies in the data centres of all regions,
// and of the witness. It has a session of its own: it must not wait behind bulk work. Its
// coordinators are nodes of our data centre, as for everything else.
type EpochStore struct{ *core }

var (
	_ schema.EpochStore = (*EpochStore)(nil)
	_ schema.LocalBeats = (*EpochStore)(nil)
)

// OpenEpochs connects to the keyspace of regions, which cfg.Keyspace names here. cfg.Registerer is
// not used: the other session counts. ErrNotMigrated: there is no such keyspace, or it has no
// tables.
func OpenEpochs(ctx context.Context, cfg Config) (*EpochStore, error) {
	cfg.Registerer = nil
	cfg.Keyspace = or(cfg.Keyspace, DefaultRegionsKeyspace)
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s, err := connect(ctx, cfg, cfg.Keyspace)
	if err != nil {
		return nil, err
	}
	e := &EpochStore{s.core}
	if _, err := e.Beats(ctx); err != nil {
		if noSuchTable(err) {
			err = fmt.Errorf("%w: keyspace %s has no tables", ErrNotMigrated, cfg.Keyspace)
		}
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// Check returns ErrReplication, and what to do about it, unless the keyspace has the copies of r,
// and no others.
func (s *EpochStore) Check(ctx context.Context, r *Regions) error {
	var p placement
	if err := s.one(ctx, selectReplication, []any{s.cfg.Keyspace}, &p.replication); err != nil {
		return fmt.Errorf("read the replication of keyspace %s: %w", s.cfg.Keyspace, err)
	}
	return p.judgeShared(s.cfg.Keyspace, r)
}

// Close closes all connections.
func (s *EpochStore) Close() error {
	s.session.Close()
	return nil
}

// Epochs implements schema.EpochStore.
func (s *EpochStore) Epochs(ctx context.Context, homes []string) ([]schema.Epoch, error) {
	newest := make([]schema.Epoch, len(homes))
	errs := make([]error, len(homes))
	var all sync.WaitGroup
	for i, home := range homes { // at once: one that is slow costs its own time alone
		newest[i].Home = home
		all.Go(func() {
			log, err := s.EpochLog(ctx, home, 1)
			if err == nil && len(log) > 0 {
				newest[i] = log[0]
			}
			errs[i] = err
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return newest, nil
}

// EpochLog implements schema.EpochStore.
func (s *EpochStore) EpochLog(ctx context.Context, home string, limit int) ([]schema.Epoch, error) {
	var log []schema.Epoch
	err := s.repeat(ctx, selectEpochs, reading, func() error {
		log = log[:0]
		iter := s.query(ctx, selectEpochs, home, limit).Consistency(gocql.Quorum).Iter()
		e := schema.Epoch{Home: home}
		for iter.Scan(&e.Number, &e.Region, &e.By, &e.Reason, &e.At) {
			e.At = e.At.UTC()
			log = append(log, e)
		}
		return iter.Close()
	})
	if err != nil {
		return nil, fmt.Errorf("read epochs of home %s: %w", home, err)
	}
	return log, nil
}

// InsertEpoch implements schema.EpochStore.
func (s *EpochStore) InsertEpoch(ctx context.Context, e schema.Epoch) (schema.Epoch, error) {
	e.At = e.At.UTC().Truncate(time.Millisecond)
	stands, err := s.insert(ctx, e)
	if err == nil && !stands.Same(e) {
		err = schema.ErrConflict
	}
	if err != nil {
		return stands, fmt.Errorf("insert epoch %d of home %s: %w", e.Number, e.Home, err)
	}
	return stands, nil
}

// insert returns the epoch that stands under the number of e.
func (s *EpochStore) insert(ctx context.Context, e schema.Epoch) (schema.Epoch, error) {
	if err := e.Validate(); err != nil {
		return schema.Epoch{}, err
	}
	if len(e.Home)+len(e.Region)+len(e.By)+len(e.Reason) > maxRowBytes {
		return schema.Epoch{}, schema.ErrTooLarge
	}
	stands, row := schema.Epoch{Home: e.Home, Number: e.Number}, make(map[string]any)
	var applied bool
	err := s.repeat(ctx, insertEpoch, conditional, func() (err error) {
		clear(row)
		applied, err = s.session.Query(string(insertEpoch), e.Home, e.Number, e.Region, e.By, e.Reason, e.At).WithContext(ctx).
			Idempotent(false).RetryPolicy(nil).Consistency(gocql.Quorum).SerialConsistency(serialOf[insertEpoch]).MapScanCAS(row)
		return err
	})
	switch {
	case errors.Is(err, schema.ErrUnknown):
		readErr := s.oneSerial(ctx, selectEpoch, []any{e.Home, e.Number}, &stands.Region, &stands.By, &stands.Reason, &stands.At)
		switch {
		case errors.Is(readErr, schema.ErrNotFound):
			return schema.Epoch{}, err // it may yet be done
		case readErr != nil:
			return schema.Epoch{}, readAgain(err, readErr)
		}
		stands.At = stands.At.UTC()
		return stands, nil
	case err != nil:
		return schema.Epoch{}, err
	case applied:
		return e, nil
	}
	stands.Region, _ = row["region"].(string)
	stands.By, _ = row["written_by"].(string)
	stands.Reason, _ = row["reason"].(string)
	at, _ := row["at"].(time.Time)
	stands.At = at.UTC()
	return stands, nil
}

// PutBeat implements schema.EpochStore.
func (s *EpochStore) PutBeat(ctx context.Context, b schema.Beat) error {
	b.At = b.At.UTC().Truncate(time.Millisecond)
	text, err := json.Marshal(b)
	if err == nil {
		err = s.repeat(ctx, insertBeat, writing, func() error {
			return s.query(ctx, insertBeat, regionScope, b.Region, string(text), b.Stamp().UnixMicro()).Consistency(gocql.Quorum).Exec()
		})
	}
	if err != nil {
		return fmt.Errorf("write beat of region %s: %w", b.Region, err)
	}
	return nil
}

// Beats implements schema.EpochStore.
func (s *EpochStore) Beats(ctx context.Context) ([]schema.Beat, error) {
	return s.beats(ctx, gocql.Quorum)
}

// BeatsHere implements schema.LocalBeats.
func (s *EpochStore) BeatsHere(ctx context.Context) ([]schema.Beat, error) {
	return s.beats(ctx, gocql.LocalQuorum)
}

// BeatsEverywhere returns the beats as a quorum of every data centre has them.
// schema.ErrUnavailable: one of them does not answer, which may be that of the witness.
func (s *EpochStore) BeatsEverywhere(ctx context.Context) ([]schema.Beat, error) {
	return s.beats(ctx, gocql.EachQuorum)
}

func (s *EpochStore) beats(ctx context.Context, level gocql.Consistency) ([]schema.Beat, error) {
	var beats []schema.Beat
	err := s.repeat(ctx, selectBeats, reading, func() error {
		beats = beats[:0]
		iter := s.query(ctx, selectBeats, regionScope).Consistency(level).Iter()
		var text string
		var fault error
		for iter.Scan(&text) {
			b, err := schema.Decode[schema.Beat]([]byte(text), "beat")
			fault = errors.Join(fault, err)
			beats = append(beats, b)
		}
		return errors.Join(iter.Close(), fault)
	})
	if err != nil {
		return nil, fmt.Errorf("read beats: %w", err)
	}
	return beats, nil
}

// Regions says where the keyspace of regions is to lie, and which epochs a migration begins with.
type Regions struct {
	Keyspace string         // DefaultRegionsKeyspace unless given
	Copies   map[string]int // of each row, by data centre: those of the regions, and the witness
	Homes    []string       // each gets its first epoch, in which the region of its name serves it
}

// validate reports every fault of r.
func (r *Regions) validate() error {
	if r == nil {
		return nil
	}
	var faults []error
	if k := or(r.Keyspace, DefaultRegionsKeyspace); !identifier.MatchString(k) {
		faults = append(faults, fmt.Errorf("keyspace of regions: %q is not a small letter followed by at most 47 of a-z, 0-9, _", k))
	}
	if len(r.Copies) < 2 {
		faults = append(faults, fmt.Errorf("keyspace of regions: %d data centres, at least 2 are needed", len(r.Copies)))
	}
	for dc, n := range r.Copies {
		if !datacenter.MatchString(dc) || n < 1 || n > 9 {
			faults = append(faults, fmt.Errorf("keyspace of regions: %d copies in data centre %q: 1 to 9 in a name of A-Z, a-z, 0-9, . _ -", n, dc))
		}
	}
	if len(r.Homes) == 0 {
		faults = append(faults, errors.New("keyspace of regions: no homes"))
	}
	return errors.Join(faults...)
}

// replication returns the CQL map of the copies, in the order of data centres.
func (r *Regions) replication() string {
	parts := []string{"'class': 'NetworkTopologyStrategy'"}
	for dc, n := range r.Copies {
		parts = append(parts, fmt.Sprintf("'%s': %d", dc, n))
	}
	slices.Sort(parts[1:])
	return "{" + strings.Join(parts, ", ") + "}"
}

// migrateRegions makes the keyspace of regions and its tables, and writes the first epoch of each
// home that has none. Each statement may be repeated, and those of two processes at once are the
// same.
func (m *migrator) migrateRegions(ctx context.Context) error {
	r := m.opts.Regions
	if r == nil {
		return nil
	}
	keyspace := or(r.Keyspace, DefaultRegionsKeyspace)
	if m.cfg.Keyspace == keyspace {
		return fmt.Errorf("keyspace %s is that of everything else: regions need one of their own", keyspace)
	}
	s, err := connect(ctx, m.cfg, "")
	if err != nil {
		return err
	}
	err = m.ddl(ctx, s, fmt.Sprintf("CREATE KEYSPACE IF NOT EXISTS %s WITH replication = %s AND durable_writes = true", keyspace, r.replication()))
	for _, text := range regionTables {
		if err == nil {
			err = m.ddl(ctx, s, fmt.Sprintf(text, keyspace))
		}
	}
	if err = errors.Join(err, s.Close()); err != nil || m.opts.DryRun {
		return err
	}
	cfg := m.cfg
	cfg.Keyspace = keyspace
	e, err := OpenEpochs(ctx, cfg)
	if err != nil {
		return err
	}
	if err = e.Check(ctx, r); err == nil { // it may have been there before
		err = m.firstEpochs(ctx, e, r.Homes)
	}
	return errors.Join(err, e.Close())
}

// firstEpochs writes the first epoch of each home that has none.
func (m *migrator) firstEpochs(ctx context.Context, s schema.EpochStore, homes []string) error {
	newest, err := s.Epochs(ctx, homes)
	if err != nil {
		return err
	}
	for _, e := range newest {
		if e.Number > 0 {
			continue
		}
		first := schema.Epoch{Home: e.Home}.Next(e.Home, owner(), "the first", m.cfg.Now())
		switch stands, err := s.InsertEpoch(ctx, first); {
		case errors.Is(err, schema.ErrConflict):
			m.say("home %s is served by region %s (epoch %d)", stands.Home, stands.Region, stands.Number)
		case err != nil:
			return err
		default:
			m.say("home %s is served by region %s from now on", e.Home, e.Home)
		}
	}
	return nil
}
