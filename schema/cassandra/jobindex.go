package cassandra

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
	"golang.org/x/sync/errgroup"
)

// name is who has a name, and since when; a zero holder means nobody.
type name struct {
	holder schema.JobID
	since  time.Time
}

// RegisterName implements schema.JobIndex.
func (s jobIndex) RegisterName(
	ctx context.Context, tenant, called string, id schema.JobID, at time.Time,
) (holder schema.JobID, since time.Time, mine bool, err error) {
	n, err := s.registerName(ctx, tenant, called, name{id, at.UTC().Truncate(time.Millisecond)})
	if err != nil {
		return schema.JobID{}, time.Time{}, false, fmt.Errorf("register name %q of %s: %w", called, tenant, err)
	}
	return n.holder, n.since, n.holder == id, nil
}

func (s jobIndex) registerName(ctx context.Context, tenant, called string, wanted name) (name, error) {
	row := make(map[string]any)
	applied, err := s.swap(ctx, registerName, rowKey{tenant, called}, row, tenant, called, gocql.UUID(wanted.holder), wanted.since)
	switch {
	case errors.Is(err, schema.ErrUnknown):
		stands, readErr := s.readName(ctx, tenant, called)
		switch {
		case readErr != nil:
			return name{}, readAgain(err, readErr)
		case stands.holder.IsZero():
			return name{}, err // its condition still holds: it may yet be done
		}
		return stands, nil
	case err != nil:
		return name{}, err
	case applied:
		return wanted, nil
	}
	holder, _ := row["job_id"].(gocql.UUID)
	since, _ := row["taken_at"].(time.Time)
	return name{schema.JobID(holder), since.UTC()}, nil
}

// TransferName implements schema.JobIndex.
func (s jobIndex) TransferName(ctx context.Context, tenant, called string, from, to schema.JobID, at time.Time) error {
	if err := s.transferName(ctx, tenant, called, from, name{to, at.UTC().Truncate(time.Millisecond)}); err != nil {
		return fmt.Errorf("transfer name %q of %s: %w", called, tenant, err)
	}
	return nil
}

func (s jobIndex) transferName(ctx context.Context, tenant, called string, from schema.JobID, to name) error {
	if from.IsZero() {
		return schema.ErrConflict
	}
	row, key := make(map[string]any), rowKey{tenant, called}
	var applied bool
	var err error
	if to.holder.IsZero() {
		applied, err = s.swap(ctx, dropName, key, row, tenant, called, gocql.UUID(from))
	} else {
		applied, err = s.swap(ctx, transferName, key, row, gocql.UUID(to.holder), to.since, tenant, called, gocql.UUID(from))
	}
	switch {
	case errors.Is(err, schema.ErrUnknown):
		return s.settleName(ctx, tenant, called, from, to, err)
	case err != nil:
		return err
	case !applied:
		return schema.ErrConflict
	}
	return nil
}

// settleName decides a transfer of unknown outcome by reading who has the name.
func (s jobIndex) settleName(ctx context.Context, tenant, called string, from schema.JobID, to name, unknown error) error {
	stands, err := s.readName(ctx, tenant, called)
	switch {
	case err != nil:
		return readAgain(unknown, err)
	case stands.holder == to.holder && (to.holder != from || stands.since.Equal(to.since)):
		return nil
	case stands.holder == from:
		return unknown // its condition still holds: it may yet be done
	}
	return schema.ErrConflict
}

// JobByName implements schema.JobIndex.
func (s jobIndex) JobByName(ctx context.Context, tenant, called string) (schema.JobID, time.Time, error) {
	n, err := s.readName(ctx, tenant, called)
	if err == nil && n.holder.IsZero() {
		err = schema.ErrNotFound
	}
	if err != nil {
		return schema.JobID{}, time.Time{}, fmt.Errorf("read name %q of %s: %w", called, tenant, err)
	}
	return n.holder, n.since, nil
}

// readName reads who has a name, as every conditional write that was begun before has left it.
func (s jobIndex) readName(ctx context.Context, tenant, called string) (name, error) {
	var holder gocql.UUID
	var since time.Time
	err := s.oneSerial(ctx, selectName, []any{tenant, called}, &holder, &since)
	if errors.Is(err, schema.ErrNotFound) {
		return name{}, nil
	}
	return name{schema.JobID(holder), since.UTC()}, err
}

// ListJob implements schema.JobIndex. Its write timestamp is the id's time or, with an expiry, the
// µs after it, so that an expiry replaces never. Of equal timestamps Cassandra keeps the later
// expiry.
func (s jobIndex) ListJob(ctx context.Context, tenant string, id schema.JobID, expires time.Time) error {
	if err := s.write(ctx, insertListed, s.listing(tenant, id, expires)...); err != nil {
		return fmt.Errorf("list job %s of %s: %w", id, tenant, err)
	}
	return nil
}

// listing returns the values of insertListed.
func (s jobIndex) listing(tenant string, id schema.JobID, expires time.Time) []any {
	written := schema.EntryID(id).Time().UnixMicro()
	if !expires.IsZero() {
		written++
	}
	return []any{tenant, onlySlice, gocql.UUID(id), written, s.ttl(expires)}
}

// ListJobs implements schema.JobBatchStore. Batches over the bounds are split.
func (s jobIndex) ListJobs(ctx context.Context, tenant string, ids []schema.JobID) error {
	lines := make([]line, len(ids))
	for i, id := range ids {
		lines[i] = line{args: s.listing(tenant, id, time.Time{}), bytes: len(tenant) + 64}
	}
	if err := s.writeBatches(ctx, insertListed, lines); err != nil {
		return fmt.Errorf("list %d jobs of %s: %w", len(ids), tenant, err)
	}
	return nil
}

// JobIDs implements schema.JobIndex.
func (s jobIndex) JobIDs(ctx context.Context, tenant string, before schema.JobID, limit int) ([]schema.JobID, error) {
	upper := highestID
	if !before.IsZero() {
		upper = gocql.UUID(before)
	}
	ids, err := readPages(ctx, s.core, selectListed, &s.listRows, limit, []any{tenant, onlySlice, upper},
		func(iter *gocql.Iter) (schema.JobID, int, bool, bool) {
			var id gocql.UUID
			more := iter.Scan(&id)
			return schema.JobID(id), 48, true, more
		})
	if err != nil {
		return nil, fmt.Errorf("read job ids of %s: %w", tenant, err)
	}
	return ids, nil
}

// Lines of history of one job and period share a partition, but lines that are written together
// mostly belong to different jobs. So partitions of fewer than sharedRows lines share batches of at
// most mixedRows. That costs a third of single statements, and as much a line as batches of ten
// lines of one partition, of which there would be many more.
const (
	sharedRows = 20
	mixedRows  = 50
	// historyWrites bounds the batches of one call that are under way.
	historyWrites = 8
)

// PutJobRuns implements schema.HistoryStore. Batches over the bounds are split.
func (s historyStore) PutJobRuns(ctx context.Context, runs []schema.JobRun) error {
	whole, mixed, err := s.historyLines(runs)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(historyWrites)
	for _, lines := range append(whole, slices.Collect(slices.Chunk(mixed, mixedRows))...) {
		group.Go(func() error {
			if err := s.writeBatches(ctx, insertJobRun, lines); err != nil {
				return fmt.Errorf("put %d lines of history: %w", len(lines), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// historyLines returns what is to be written: the lines of each partition that has many, and those
// of all others together.
func (s historyStore) historyLines(runs []schema.JobRun) (whole [][]line, mixed []line, err error) {
	order := make([]int, len(runs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return comparePartitions(&runs[a], &runs[b]) })
	for len(order) > 0 {
		n := 1
		for n < len(order) && comparePartitions(&runs[order[0]], &runs[order[n]]) == 0 {
			n++
		}
		lines := make([]line, n)
		for i, at := range order[:n] {
			if lines[i], err = s.historyLine(&runs[at]); err != nil {
				return nil, nil, fmt.Errorf("put history of %s, run %s: %w", runs[at].Job, runs[at].Run, err)
			}
		}
		if n < sharedRows {
			mixed = append(mixed, lines...)
		} else {
			whole = append(whole, lines)
		}
		order = order[n:]
	}
	return whole, mixed, nil
}

func comparePartitions(a, b *schema.JobRun) int {
	return cmp.Or(bytes.Compare(a.Job[:], b.Job[:]), cmp.Compare(a.Period(), b.Period()))
}

func (s historyStore) historyLine(r *schema.JobRun) (line, error) {
	text, err := schema.EncodeJobRun(r)
	if err != nil {
		return line{}, err
	}
	size := len(text) + 64
	if size > maxRowBytes {
		return line{}, fmt.Errorf("%d bytes: %w", size, schema.ErrTooLarge)
	}
	return line{
		args:  []any{gocql.UUID(r.Job), r.Period(), uuid(r.Run), text, r.Written, s.ttl(r.Expires)},
		bytes: size,
	}, nil
}

// JobRuns implements schema.HistoryStore.
func (s historyStore) JobRuns(ctx context.Context, id schema.JobID, period int, before schema.RunID, limit int) ([]schema.JobRun, error) {
	upper := highestID
	if !before.IsZero() {
		upper = uuid(before)
	}
	runs, err := readPages(ctx, s.core, selectJobRuns, &s.historyRows, limit, []any{gocql.UUID(id), period, upper},
		func(iter *gocql.Iter) (r schema.JobRun, size int, keep, more bool) {
			var run gocql.UUID
			var text []byte
			var written int64
			if !iter.Scan(&run, &text, &written) {
				return r, 0, false, false
			}
			r, err := schema.DecodeJobRun(text) // else the run's own rows tell
			_ = s.damage.Found("job_runs", schema.RunID(run).String(), err)
			r.Job, r.Run, r.Written = id, schema.RunID(run), written
			return r, len(text) + 64, true, true
		})
	if err != nil {
		return nil, fmt.Errorf("read history of %s in period %d: %w", id, period, err)
	}
	return runs, nil
}
