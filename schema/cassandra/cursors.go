package cassandra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocql/gocql"
	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/schema"
)

// errHalfCursor is a cursor of which one register was never written: every writer writes both.
var errHalfCursor = errors.New("cursor without both its registers")

// Cursors implements schema.CursorStore.
func (s cursorStore) Cursors(ctx context.Context) ([]schema.Cursor, error) {
	var fault error
	cursors, err := readPages(ctx, s.core, selectCursors, &s.smallRows, schema.MaxShards, nil,
		func(iter *gocql.Iter) (c schema.Cursor, size int, keep, more bool) {
			var dispatched, settled *int64
			if !iter.Scan(&c.Shard, &c.Epoch, &dispatched, &settled) {
				return c, 0, false, false
			}
			if dispatched == nil || settled == nil {
				fault = fmt.Errorf("shard %d: %w", c.Shard, errHalfCursor)
				return c, 64, false, true
			}
			c.Dispatched, c.Settled = schema.Bucket(*dispatched), schema.Bucket(*settled)
			return c, 64, true, true
		})
	if err == nil {
		err = fault
	}
	if err != nil {
		return nil, fmt.Errorf("read cursors: %w", err)
	}
	slices.SortFunc(cursors, func(a, b schema.Cursor) int { return cmp.Compare(a.Shard, b.Shard) })
	return cursors, nil
}

// Cursor implements schema.CursorStore.
func (s cursorStore) Cursor(ctx context.Context, shard schema.Shard) (schema.Cursor, error) {
	c := schema.Cursor{Shard: shard}
	var dispatched, settled *int64
	err := s.one(ctx, selectCursor, []any{int(shard)}, &c.Epoch, &dispatched, &settled)
	if err == nil && (dispatched == nil || settled == nil) {
		err = errHalfCursor
	}
	if err != nil {
		return schema.Cursor{}, fmt.Errorf("read cursor of shard %d: %w", shard, err)
	}
	c.Dispatched, c.Settled = schema.Bucket(*dispatched), schema.Bucket(*settled)
	return c, nil
}

// AdvanceCursor implements schema.CursorStore. Each register's write time is the end of its bucket
// in µs: of two writes in any order the higher bucket stays.
func (s cursorStore) AdvanceCursor(ctx context.Context, c schema.Cursor) error {
	err := s.repeat(ctx, raiseDispatched, writing, func() error {
		b := s.session.NewBatch(gocql.UnloggedBatch).WithContext(ctx).DefaultTimestamp(false).
			SpeculativeExecutionPolicy(s.speculation)
		b.Entries = []gocql.BatchEntry{
			{
				Stmt: string(raiseDispatched), Idempotent: true,
				Args: []any{c.Dispatched.End().UnixMicro(), int64(c.Dispatched), int(c.Shard), c.Epoch},
			},
			{
				Stmt: string(raiseSettled), Idempotent: true,
				Args: []any{c.Settled.End().UnixMicro(), int64(c.Settled), int(c.Shard), c.Epoch},
			},
		}
		return s.session.ExecuteBatch(b)
	})
	if err != nil {
		return fmt.Errorf("advance cursor of shard %d: %w", c.Shard, err)
	}
	return nil
}

// The one row of settings that schema.Settings lies in.
const (
	settingsScope = "cluster"
	settingsName  = "core"
)

// storedSettings is schema.Settings as it lies in its row.
type storedSettings struct {
	Shards    int                 `json:"shards"`
	Retention schema.Duration     `json:"retention"`
	History   []schema.ShardCount `json:"history,omitempty"`
}

// Settings implements schema.SettingsStore.
func (s cursorStore) Settings(ctx context.Context) (schema.Settings, error) {
	var text []byte
	if err := s.one(ctx, selectSetting, []any{settingsScope, settingsName}, &text); err != nil {
		return schema.Settings{}, fmt.Errorf("read settings: %w", err)
	}
	stored, err := schema.Decode[storedSettings](text, "settings")
	if err != nil {
		return schema.Settings{}, s.damage.Found("settings", settingsName, err)
	}
	return schema.Settings{Shards: stored.Shards, Retention: stored.Retention.Std(), History: stored.History}, nil
}

var _ schema.Syncer = (*Store)(nil)

// syncPage is how many rows are read at once to have all data centres hold them.
const syncPage = 100

// SyncPartition implements schema.Syncer.
func (s *Store) SyncPartition(ctx context.Context, p schema.Partition) (rows int, err error) {
	for _, st := range []statement{syncEntries, syncPayloads, syncAttempts, syncParts} {
		n, err := s.sync(ctx, st, int64(p.Bucket), int(p.Shard))
		rows += n
		if err != nil {
			return rows, fmt.Errorf("compare %s of %s: %w", st.table(), p, err)
		}
	}
	return rows, nil
}

// SyncShard implements schema.Syncer.
func (s *Store) SyncShard(ctx context.Context, shard schema.Shard) (rows int, err error) {
	rows, err = s.sync(ctx, syncJobs, int(shard), onlySlice)
	if err != nil {
		return rows, fmt.Errorf("compare jobs of shard %d: %w", shard, err)
	}
	n, err := s.sync(ctx, syncCursors, int(shard))
	if err != nil {
		return rows + n, fmt.Errorf("compare cursors of shard %d: %w", shard, err)
	}
	return rows + n, nil
}

// sync reads a partition of a quorum of every data centre, and counts its rows.
func (s *core) sync(ctx context.Context, st statement, args ...any) (rows int, err error) {
	var state []byte
	for {
		var page int
		var next []byte
		err := s.repeat(ctx, st, reading, func() error {
			iter := s.query(ctx, st, args...).Consistency(gocql.EachQuorum).PageSize(syncPage).PageState(state).Iter()
			page, next = iter.NumRows(), append([]byte(nil), iter.PageState()...)
			return iter.Close()
		})
		if err != nil {
			return rows, err
		}
		rows += page
		if len(next) == 0 {
			return rows, nil
		}
		state = next
	}
}

var _ schema.CopyStore = (*Store)(nil)

// confirmsAtOnce bounds the questions to all data centres that are under way.
const confirmsAtOnce = 64

// Confirm implements schema.CopyStore: every row is read at EACH_QUORUM, with all its columns, so
// that read repair writes what a data centre lacks before the answer. All are asked for at once.
func (s *Store) Confirm(ctx context.Context, rows schema.Copies) error {
	var g errgroup.Group
	ask := func(st statement, args ...any) {
		g.Go(func() error {
			if err := s.confirm(ctx, st, args...); err != nil {
				return fmt.Errorf("confirm a row of %s everywhere: %w", st.table(), err)
			}
			return nil
		})
	}
	byPartition := make(map[schema.Partition][]schema.EntryID)
	for _, id := range rows.Entries {
		byPartition[id.Partition()] = append(byPartition[id.Partition()], id)
	}
	for p, ids := range byPartition {
		for some := range slices.Chunk(ids, maxIDsPerRead) {
			g.Go(func() error { return s.confirmEntries(ctx, p, some) })
		}
	}
	for _, k := range rows.Keys {
		ask(confirmKey, k.Tenant, k.Name)
	}
	for _, id := range rows.Jobs {
		ask(confirmJob, int(id.Shard()), onlySlice, gocql.UUID(id))
	}
	for _, id := range rows.Listed {
		ask(confirmListed, rows.Tenant, onlySlice, gocql.UUID(id))
	}
	for _, n := range rows.Names {
		ask(confirmName, n.Tenant, n.Name)
	}
	for _, u := range rows.Subscriptions {
		ask(confirmSubscription, u.Tenant, u.Event, gocql.UUID(u.Subscriber))
	}
	for _, key := range rows.Leases {
		ask(confirmLease, leasePrefix+key)
	}
	return g.Wait()
}

// confirmEntries confirms rows of one partition of runs, and the payloads that lie apart.
func (s *Store) confirmEntries(ctx context.Context, p schema.Partition, ids []schema.EntryID) error {
	var large []schema.EntryID
	err := s.each(ctx, confirmEntries, func(iter *gocql.Iter) {
		large = large[:0]
		var id, moved gocql.UUID
		var payload, spec, cancelled []byte
		for iter.Scan(&id, &payload, &spec, &moved, &cancelled) {
			e := schema.LoadEntry(schema.EntryID(id), spec, payload, schema.Marks{})
			if at, ok := e.LargePayload(); ok {
				large = append(large, at)
			}
		}
	}, int64(p.Bucket), int(p.Shard), uuids(ids))
	for _, at := range large {
		if err == nil {
			of := at.Partition()
			err = s.confirm(ctx, confirmPayload, int64(of.Bucket), int(of.Shard), uuid(at))
		}
	}
	if err != nil {
		return fmt.Errorf("confirm %d entries of %s everywhere: %w", len(ids), p, err)
	}
	return nil
}

// confirm reads rows of st at EACH_QUORUM. What they say is not of interest.
func (s *core) confirm(ctx context.Context, st statement, args ...any) error {
	return s.each(ctx, st, func(*gocql.Iter) {}, args...)
}

// each reads one page of st at EACH_QUORUM. It waits for another region, so it does not count for
// how much is under way in ours (window, speculation), and is sent once, again only if nothing was
// sent.
func (s *core) each(ctx context.Context, st statement, scan func(*gocql.Iter), args ...any) error {
	select {
	case s.confirms <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", schema.ErrUnavailable, ctx.Err())
	}
	defer func() { <-s.confirms }()
	start := time.Now()
	iter := s.session.Query(string(st), args...).WithContext(ctx).Idempotent(true).Consistency(gocql.EachQuorum).
		SetSpeculativeExecutionPolicy(gocql.NonSpeculativeExecution{}).RetryPolicy(nil).PageSize(syncPage).Iter()
	scan(iter)
	err := translate(iter.Close(), reading)
	s.metrics.observe(st, time.Since(start), err)
	return err
}
