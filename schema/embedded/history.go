package embedded

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"carillon.dev/carillon/schema"
)

// historySize is the size of a key of history: table, period, job, run.
const historySize = 1 + 8 + 16 + 16

// PutJobRuns implements schema.HistoryStore: one batch, all of it or nothing.
func (s historyStore) PutJobRuns(ctx context.Context, runs []schema.JobRun) error {
	if len(runs) == 0 {
		return nil
	}
	if err := s.putJobRuns(ctx, runs); err != nil {
		return fmt.Errorf("put %d lines of history: %w", len(runs), err)
	}
	return nil
}

func (s historyStore) putJobRuns(ctx context.Context, runs []schema.JobRun) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	b := s.db.NewBatchWithSize(256 * len(runs))
	defer closeQuietly(b)
	lives := map[int]int64{} // of periods: there are few in a batch
	for i := range runs {
		r := &runs[i]
		text, err := schema.EncodeJobRun(r)
		if err != nil {
			return err
		}
		if len(text) > maxRow {
			return fmt.Errorf("%w: %s has %d bytes", schema.ErrTooLarge, r.Run, len(text))
		}
		c := cell{column: colText, timestamp: r.Written, expires: expiryOf(r.Expires), data: text}
		if err := mergeCells(b, historySize, func(dst []byte) []byte { return appendJobRun(dst, r) }, c); err != nil {
			return err
		}
		lives[r.Period()] = max(lives[r.Period()], untilMS(r.Expires))
	}
	for period, until := range lives {
		key := func(dst []byte) []byte { return appendInt(append(dst, byte(tablePeriods)), int64(period)) }
		if err := mergeCells(b, 1+8, key, cell{column: colValue, timestamp: until}); err != nil {
			return err
		}
	}
	return s.commit(b)
}

// JobRuns implements schema.HistoryStore.
func (s historyStore) JobRuns(ctx context.Context, id schema.JobID, period int, before schema.RunID, limit int) ([]schema.JobRun, error) {
	var runs []schema.JobRun
	prefix := appendHistory(make([]byte, 0, historySize), id, period)
	err := s.list(ctx, prefix, beforeID(before), limit, func(rest []byte, row *cells, nowMS int64) (bool, error) {
		c := row.at(colText, nowMS)
		if c == nil {
			return false, nil
		}
		r, err := schema.DecodeJobRun(c.data) // else the run's own rows tell
		r.Job, r.Run, r.Written = id, readNewestFirst(rest), c.timestamp
		_ = s.damage.Found("job_runs", r.Run.String(), err)
		runs = append(runs, r)
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read history of %s in period %d: %w", id, period, err)
	}
	return runs, nil
}

// appendHistory appends what the keys of a job's lines of one period begin with. The period comes
// first, so that whole periods leave by one range.
func appendHistory(dst []byte, id schema.JobID, period int) []byte {
	return append(appendInt(append(dst, byte(tableHistory)), int64(period)), id[:]...)
}

func appendJobRun(dst []byte, r *schema.JobRun) []byte {
	return appendNewestFirst(appendHistory(dst, r.Job, r.Period()), r.Run)
}

// expirePeriods adds the removal of every period of history all of whose lines have left by nowMS
// to b.
func (s *Store) expirePeriods(b *pebble.Batch, nowMS int64) error {
	lower := []byte{byte(tablePeriods)}
	return s.scan(lower, prefixEnd(lower), func(key, value []byte) (bool, error) {
		row, err := parseRow(value)
		if err != nil || row[colValue-1].timestamp > nowMS {
			return true, err
		}
		period := readInt(key[1:])
		for _, t := range []table{tableHistory, tablePeriods} {
			from, to := appendInt([]byte{byte(t)}, period), appendInt([]byte{byte(t)}, period+1)
			if err := b.DeleteRange(from, to, nil); err != nil {
				return false, err
			}
		}
		return true, nil
	})
}
