package embedded

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// name is who has a name, and since when.
type name struct {
	holder schema.JobID
	since  time.Time // UTC, ms
}

const nameSize = 16 + 8

func (n name) encode() []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, nameSize), n.holder[:]...), uint64(n.since.UnixMilli())) // #nosec G115 -- bits
}

// decodeName is the inverse of encode.
func decodeName(data []byte) (name, error) {
	if len(data) != nameSize {
		return name{}, unavailable(fmt.Errorf("%w: name of %d bytes", errCorrupt, len(data)))
	}
	ms := int64(binary.BigEndian.Uint64(data[16:])) // #nosec G115 -- bits
	return name{holder: schema.JobID(data[:16]), since: time.UnixMilli(ms).UTC()}, nil
}

// nameAt reads who has the name at key; a zero holder means nobody.
func (s jobIndex) nameAt(key []byte) (name, error) {
	row, err := s.row(key)
	if err != nil {
		return name{}, err
	}
	c := row.at(colValue, s.nowMS())
	if c == nil {
		return name{}, nil
	}
	return decodeName(c.data)
}

// RegisterName implements schema.JobIndex.
func (s jobIndex) RegisterName(
	ctx context.Context, tenant, called string, id schema.JobID, at time.Time,
) (holder schema.JobID, since time.Time, mine bool, err error) {
	n, err := s.claimName(ctx, tenant, called, name{holder: id, since: at.UTC().Truncate(time.Millisecond)})
	if err != nil {
		return schema.JobID{}, time.Time{}, false, fmt.Errorf("register name %q of %s: %w", called, tenant, err)
	}
	return n.holder, n.since, n.holder == id, nil
}

func (s jobIndex) claimName(ctx context.Context, tenant, called string, wanted name) (name, error) {
	if err := s.enter(ctx); err != nil {
		return name{}, err
	}
	defer s.leave()
	key := appendName(nil, tableJobNames, tenant, called)
	defer s.lock(key)()
	stands, err := s.nameAt(key)
	if err != nil || !stands.holder.IsZero() {
		return stands, err
	}
	return wanted, s.setRow(key, wanted.encode(), time.Time{})
}

// TransferName implements schema.JobIndex.
func (s jobIndex) TransferName(ctx context.Context, tenant, called string, from, to schema.JobID, at time.Time) error {
	if err := s.passName(ctx, tenant, called, from, name{holder: to, since: at}); err != nil {
		return fmt.Errorf("transfer name %q of %s: %w", called, tenant, err)
	}
	return nil
}

func (s jobIndex) passName(ctx context.Context, tenant, called string, from schema.JobID, to name) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	key := appendName(nil, tableJobNames, tenant, called)
	defer s.lock(key)()
	switch stands, err := s.nameAt(key); {
	case err != nil:
		return err
	case stands.holder.IsZero() || stands.holder != from:
		return schema.ErrConflict
	case !to.holder.IsZero():
		return s.setRow(key, to.encode(), time.Time{})
	}
	b := s.db.NewBatch()
	defer closeQuietly(b)
	if err := b.Delete(key, nil); err != nil {
		return err
	}
	return s.commit(b)
}

// JobByName implements schema.JobIndex.
func (s jobIndex) JobByName(ctx context.Context, tenant, called string) (schema.JobID, time.Time, error) {
	data, err := s.value(ctx, appendName(nil, tableJobNames, tenant, called))
	var n name
	if err == nil {
		n, err = decodeName(data)
	}
	if err != nil {
		return schema.JobID{}, time.Time{}, fmt.Errorf("read name %q of %s: %w", called, tenant, err)
	}
	return n.holder, n.since, nil
}

// ListJob implements schema.JobIndex. Its write timestamp is the id's time, or the µs after it for
// an expiry, which so replaces never.
func (s jobIndex) ListJob(ctx context.Context, tenant string, id schema.JobID, expires time.Time) error {
	if err := s.listJob(ctx, tenant, id, expires); err != nil {
		return fmt.Errorf("list job %s of %s: %w", id, tenant, err)
	}
	return nil
}

func (s jobIndex) listJob(ctx context.Context, tenant string, id schema.JobID, expires time.Time) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	key := appendNewestFirst(appendName(nil, tableJobIndex, tenant, ""), id)
	c := cell{column: colValue, timestamp: schema.EntryID(id).Time().UnixMicro(), expires: expiryOf(expires)}
	b := s.db.NewBatch()
	defer closeQuietly(b)
	if c.expires != never {
		c.timestamp++
		if err := b.Set(rowExpiryKey(c.expires, key), nil, nil); err != nil {
			return err
		}
	}
	defer s.share(key)() // Expire must not remove what it did not see
	if err := b.Merge(key, appendCell(nil, c), nil); err != nil {
		return err
	}
	return s.commit(b)
}

// ListJobs implements schema.JobBatchStore: one batch, all of it or nothing.
func (s jobIndex) ListJobs(ctx context.Context, tenant string, ids []schema.JobID) error {
	rows := make([]rowWrite, len(ids))
	for i, id := range ids {
		rows[i] = rowWrite{
			key:   appendNewestFirst(appendName(nil, tableJobIndex, tenant, ""), id),
			cells: []cell{{column: colValue, timestamp: schema.EntryID(id).Time().UnixMicro(), expires: never}},
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if err := s.putRows(ctx, rows...); err != nil {
		return fmt.Errorf("list %d jobs of %s: %w", len(ids), tenant, err)
	}
	return nil
}

// JobIDs implements schema.JobIndex.
func (s jobIndex) JobIDs(ctx context.Context, tenant string, before schema.JobID, limit int) ([]schema.JobID, error) {
	var ids []schema.JobID
	prefix := appendName(nil, tableJobIndex, tenant, "")
	err := s.list(ctx, prefix, beforeID(before), limit, func(rest []byte, row *cells, nowMS int64) (bool, error) {
		if row.at(colValue, nowMS) == nil {
			return false, nil
		}
		ids = append(ids, readNewestFirst(rest))
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read job ids of %s: %w", tenant, err)
	}
	return ids, nil
}
