package cassandra

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

// The statements about dead letters; the words are those of statements.go.
const (
	// dead_letters of one partition; written in batches of it. Idempotent. An absent payload is
	// left unset, and the resolution as it is.
	insertDeadLetter statement = `INSERT INTO dead_letters (tenant, day, run_id, spec, payload, last) VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// One row of dead_letters. Idempotent. It leaves nothing once its cell has expired.
	putResolution statement = `UPDATE dead_letters USING TIMESTAMP ? AND TTL ? SET fate = ? WHERE tenant = ? AND day = ? AND run_id = ?`
	// One row of dead_letters. Idempotent.
	selectDeadLetter statement = `SELECT spec, payload, last, fate, writetime(last) FROM dead_letters WHERE tenant = ? AND day = ? AND run_id = ?`
	// A slice of one partition of dead_letters, newest first. Idempotent.
	selectDeadLetters statement = `SELECT run_id, spec, last, fate, writetime(last) FROM dead_letters WHERE tenant = ? AND day = ? AND run_id < ?`
	// A slice of one partition of dead_letters, newest first, without what rows hold. Idempotent.
	countDeadLetters statement = `SELECT writetime(last), writetime(fate) FROM dead_letters WHERE tenant = ? AND day = ?`
	// At most maxIDsPerRead rows of one partition of dead_letters. The write time tells letters
	// from resolutions without a letter. Idempotent.
	selectResolutions statement = `SELECT run_id, fate, writetime(last) FROM dead_letters WHERE tenant = ? AND day = ? AND run_id IN ?`
)

// PutDeadLetters implements schema.DeadLetterStore. Batches over the bounds are split.
func (s deadLetterStore) PutDeadLetters(ctx context.Context, letters []schema.DeadLetter) error {
	order := make([]int, len(letters))
	for i := range order {
		order[i] = i
	}
	together := func(a, b int) int {
		return cmp.Or(strings.Compare(letters[a].Tenant, letters[b].Tenant), cmp.Compare(letters[a].Day(), letters[b].Day()))
	}
	slices.SortStableFunc(order, together)
	for len(order) > 0 {
		n := 1
		for n < len(order) && together(order[0], order[n]) == 0 {
			n++
		}
		lines := make([]line, n)
		for i, at := range order[:n] {
			var err error
			if lines[i], err = s.deadLetterLine(&letters[at]); err != nil {
				return fmt.Errorf("put dead letter of %s: %w", letters[at].Run, err)
			}
		}
		if err := s.writeBatches(ctx, insertDeadLetter, lines); err != nil {
			return fmt.Errorf("put %d dead letters: %w", n, err)
		}
		order = order[n:]
	}
	return nil
}

func (s deadLetterStore) deadLetterLine(l *schema.DeadLetter) (line, error) {
	last, err := l.EncodeLast()
	if err != nil {
		return line{}, err
	}
	text := l.Entry.Text()
	size := len(text) + len(l.Entry.Payload) + len(last) + 64
	switch {
	case len(text) == 0:
		return line{}, errNoText
	case size > maxRowBytes:
		return line{}, fmt.Errorf("%d bytes: %w", size, schema.ErrTooLarge)
	}
	return line{
		args:  []any{l.Tenant, dayOf(l.Day()), uuid(l.Run), text, cell(l.Entry.Payload), last, l.Written, s.ttl(l.Expires)},
		bytes: size,
	}, nil
}

// PutResolution implements schema.DeadLetterStore.
func (s deadLetterStore) PutResolution(ctx context.Context, tenant string, run schema.RunID, f schema.Resolution, expires time.Time) error {
	text, err := schema.EncodeResolution(&f)
	if err == nil {
		err = s.write(ctx, putResolution, f.At.UnixMicro(), s.ttl(expires), text, tenant, dayOf(schema.DeadLetterDay(run)), uuid(run))
	}
	if err != nil {
		return fmt.Errorf("put resolution of dead letter %s: %w", run, err)
	}
	return nil
}

// DeadLetter implements schema.DeadLetterStore.
func (s deadLetterStore) DeadLetter(ctx context.Context, tenant string, run schema.RunID) (schema.DeadLetter, error) {
	var text, payload, last, resolution []byte
	var written *int64
	err := s.one(ctx, selectDeadLetter, []any{tenant, dayOf(schema.DeadLetterDay(run)), uuid(run)}, &text, &payload, &last, &resolution, &written)
	if err == nil && written == nil {
		err = schema.ErrNotFound // a resolution without a letter
	}
	if err != nil {
		return schema.DeadLetter{}, fmt.Errorf("read dead letter %s: %w", run, err)
	}
	return s.loadDeadLetter(tenant, run, text, payload, last, resolution, *written), nil
}

func (s deadLetterStore) loadDeadLetter(tenant string, run schema.RunID, text, payload, last, resolution []byte, written int64) schema.DeadLetter {
	l := schema.LoadDeadLetter(tenant, run, text, payload, last, resolution, written)
	_ = s.damage.Found("dead_letters", run.String(), l.Fault)
	return l
}

// DeadLetters implements schema.DeadLetterStore.
func (s deadLetterStore) DeadLetters(ctx context.Context, tenant string, day int, before schema.RunID, limit int) ([]schema.DeadLetter, error) {
	upper := highestID
	if !before.IsZero() {
		upper = uuid(before)
	}
	letters, err := readPages(ctx, s.core, selectDeadLetters, &s.deadRows, limit, []any{tenant, dayOf(day), upper},
		func(iter *gocql.Iter) (l schema.DeadLetter, size int, keep, more bool) {
			var run gocql.UUID
			var text, last, resolution []byte
			var written *int64
			if !iter.Scan(&run, &text, &last, &resolution, &written) {
				return l, 0, false, false
			}
			size = len(text) + len(last) + len(resolution) + 64
			if written == nil {
				return l, size, false, true
			}
			return s.loadDeadLetter(tenant, schema.RunID(run), text, nil, last, resolution, *written), size, true, true
		})
	if err != nil {
		return nil, fmt.Errorf("read dead letters of day %d: %w", day, err)
	}
	return letters, nil
}

// Resolutions implements schema.DeadLetterStore.
func (s deadLetterStore) Resolutions(ctx context.Context, tenant string, day int, runs []schema.RunID) (map[schema.RunID]*schema.Resolution, error) {
	all := make(map[schema.RunID]*schema.Resolution)
	if len(runs) == 0 {
		return all, nil
	}
	if len(runs) > maxIDsPerRead {
		return nil, fmt.Errorf("read resolutions: %d: %w", len(runs), errManyIDs)
	}
	type found struct {
		run        schema.RunID
		resolution *schema.Resolution
	}
	rows, err := readPages(ctx, s.core, selectResolutions, &s.smallRows, math.MaxInt, []any{tenant, dayOf(day), uuids(runs)},
		func(iter *gocql.Iter) (f found, size int, keep, more bool) {
			var run gocql.UUID
			var text []byte
			var written *int64
			if !iter.Scan(&run, &text, &written) {
				return f, 0, false, false
			}
			resolution, err := schema.DecodeResolution(text)
			_ = s.damage.Found("dead_letters", schema.RunID(run).String(), err)
			return found{schema.RunID(run), resolution}, len(text) + 64, written != nil, true
		})
	if err != nil {
		return nil, fmt.Errorf("read %d resolutions of day %d: %w", len(runs), day, err)
	}
	for _, f := range rows {
		all[f.run] = f.resolution
	}
	return all, nil
}

// CountDeadLetters implements schema.DeadLetterIndex.
func (s deadLetterStore) CountDeadLetters(ctx context.Context, at schema.TenantDay, limit int) (schema.DeadLetterCount, error) {
	waits, err := readPages(ctx, s.core, countDeadLetters, &s.smallRows, limit, []any{at.Tenant, dayOf(at.Day)},
		func(iter *gocql.Iter) (waits bool, size int, keep, more bool) {
			var last, resolution *int64
			if !iter.Scan(&last, &resolution) {
				return false, 0, false, false
			}
			return resolution == nil, 64, last != nil, true
		})
	if err != nil {
		return schema.DeadLetterCount{}, fmt.Errorf("count dead letters of day %d: %w", at.Day, err)
	}
	n := schema.DeadLetterCount{Looked: len(waits)}
	for _, w := range waits {
		if w {
			n.Waiting++
		}
	}
	return n, nil
}
