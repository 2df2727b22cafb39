package cassandra

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
	"golang.org/x/sync/errgroup"
)

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
