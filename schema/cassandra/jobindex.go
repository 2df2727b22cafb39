package cassandra

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
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
	applied, err := s.swap(ctx, registerName, row, tenant, called, gocql.UUID(wanted.holder), wanted.since)
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
	row := make(map[string]any)
	var applied bool
	var err error
	if to.holder.IsZero() {
		applied, err = s.swap(ctx, dropName, row, tenant, called, gocql.UUID(from))
	} else {
		applied, err = s.swap(ctx, transferName, row, gocql.UUID(to.holder), to.since, tenant, called, gocql.UUID(from))
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
	written := schema.EntryID(id).Time().UnixMicro()
	if !expires.IsZero() {
		written++
	}
	if err := s.write(ctx, insertListed, tenant, onlySlice, gocql.UUID(id), written, s.ttl(expires)); err != nil {
		return fmt.Errorf("list job %s of %s: %w", id, tenant, err)
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
