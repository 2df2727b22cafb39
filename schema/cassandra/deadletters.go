package cassandra

import (
	"context"
	"math"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/deadletters"
	"github.com/gocql/gocql"
)

// The statements about dead letters; the words are those of statements.go. The partition is
// (tenant, day), and of a day that is spread also (tenant#part, day): package deadletters.
const (
	// dead_letters of one partition; written in batches of it. Idempotent. An absent payload is
	// left unset, and the resolution as it is.
	insertDeadLetter statement = `INSERT INTO dead_letters (tenant, day, run_id, spec, payload, last) VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// One row of dead_letters. Idempotent. It leaves nothing once its cell has expired.
	putResolution statement = `UPDATE dead_letters USING TIMESTAMP ? AND TTL ? SET fate = ? WHERE tenant = ? AND day = ? AND run_id = ?`
	// At most maxIDsPerRead rows, and the mark, of one partition of dead_letters. The write time of
	// last tells letters from resolutions without a letter. Idempotent.
	selectDeadLetter statement = `SELECT run_id, spec, payload, last, writetime(last), fate, writetime(fate) FROM dead_letters WHERE tenant = ? AND day = ? AND run_id IN ?`
	// The same without what letters hold. Idempotent.
	selectResolutions statement = `SELECT run_id, writetime(last), fate, writetime(fate) FROM dead_letters WHERE tenant = ? AND day = ? AND run_id IN ?`
	// A slice of one partition of dead_letters, newest first. Idempotent.
	selectDeadLetters statement = `SELECT run_id, spec, last, writetime(last), fate, writetime(fate) FROM dead_letters WHERE tenant = ? AND day = ? AND run_id < ?`
	// The same without what rows hold. Idempotent.
	countDeadLetters statement = `SELECT run_id, writetime(last), writetime(fate) FROM dead_letters WHERE tenant = ? AND day = ? AND run_id < ?`
)

// letterTable implements deadletters.Table.
type letterTable struct{ *core }

// newDeadLetters returns the store of dead letters on c.
func newDeadLetters(c *core) deadLetterStore {
	return deadLetterStore{deadletters.New(deadletters.Config{Table: letterTable{c}, Damage: c.damage, MaxRow: maxRowBytes, Now: c.cfg.Now})}
}

// Put implements deadletters.Table. Batches over the bounds are split.
func (t letterTable) Put(ctx context.Context, p deadletters.Partition, rows []deadletters.Row) error {
	lines := make([]line, len(rows))
	for i := range rows {
		r := &rows[i]
		lines[i] = line{
			args:  []any{p.Key, dayOf(p.Day), uuid(r.Run), r.Text, cell(r.Payload), r.Last, r.Written, t.ttl(r.Expires)},
			bytes: len(r.Text) + len(r.Payload) + len(r.Last) + 64,
		}
	}
	return t.writeBatches(ctx, insertDeadLetter, lines)
}

// Resolve implements deadletters.Table.
func (t letterTable) Resolve(ctx context.Context, p deadletters.Partition, r deadletters.Row) error {
	return t.write(ctx, putResolution, r.Resolved, t.ttl(r.Expires), r.Resolution, p.Key, dayOf(p.Day), uuid(r.Run))
}

// Rows implements deadletters.Table.
func (t letterTable) Rows(ctx context.Context, p deadletters.Partition, runs []schema.RunID, whole bool) ([]deadletters.Row, error) {
	st, sizer := selectResolutions, &t.smallRows
	if whole {
		st, sizer = selectDeadLetter, new(pageSizer) // with payloads, which lists are without
	}
	return readPages(ctx, t.core, st, sizer, math.MaxInt, []any{p.Key, dayOf(p.Day), uuids(runs)},
		func(iter *gocql.Iter) (r deadletters.Row, size int, keep, more bool) {
			var run gocql.UUID
			var written, resolved *int64
			if whole {
				more = iter.Scan(&run, &r.Text, &r.Payload, &r.Last, &written, &r.Resolution, &resolved)
			} else {
				more = iter.Scan(&run, &written, &r.Resolution, &resolved)
			}
			r.Run, r.Written, r.Resolved = schema.RunID(run), writeTime(written), writeTime(resolved)
			return r, len(r.Text) + len(r.Payload) + len(r.Last) + len(r.Resolution) + 64, true, more
		})
}

// Newest implements deadletters.Table.
func (t letterTable) Newest(ctx context.Context, p deadletters.Partition, before schema.RunID, limit int, whole bool) ([]deadletters.Row, error) {
	upper := highestID
	if !before.IsZero() {
		upper = uuid(before)
	}
	st, sizer := countDeadLetters, &t.smallRows
	if whole {
		st, sizer = selectDeadLetters, &t.deadRows
	}
	return readPages(ctx, t.core, st, sizer, limit, []any{p.Key, dayOf(p.Day), upper},
		func(iter *gocql.Iter) (r deadletters.Row, size int, keep, more bool) {
			var run gocql.UUID
			var written, resolved *int64
			if whole {
				more = iter.Scan(&run, &r.Text, &r.Last, &written, &r.Resolution, &resolved)
			} else {
				more = iter.Scan(&run, &written, &resolved)
			}
			r.Run, r.Written, r.Resolved = schema.RunID(run), writeTime(written), writeTime(resolved)
			return r, len(r.Text) + len(r.Last) + len(r.Resolution) + 64, true, more
		})
}

// writeTime returns the write time of a cell, µs; 0: it has none.
func writeTime(t *int64) int64 {
	if t == nil {
		return 0
	}
	return *t
}
