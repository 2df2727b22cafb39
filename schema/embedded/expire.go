package embedded

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"carillon.dev/carillon/schema"
)

// maxExpiredRows is how many rows with an expiry of their own one batch removes.
const maxExpiredRows = 10_000

// lifetimes collects how long the rows of a batch keep their buckets. A batch has few buckets,
// mostly one.
type lifetimes struct {
	first  lifetime
	others map[schema.Bucket]int64
}

// lifetime is until when rows of a bucket live: ms since the Unix epoch, foreverMS for always.
type lifetime struct {
	bucket schema.Bucket
	until  int64
}

// foreverMS stands for never, as the latest of all expiries.
const foreverMS = 1<<63 - 1

// add notes that a row of b lives until expires, rounded up to the minute, so that most rows of a
// bucket say the same.
func (l *lifetimes) add(b schema.Bucket, expires time.Time) {
	until := untilMS(expires)
	switch {
	case l.first.until == 0 || l.first.bucket == b:
		l.first = lifetime{b, max(l.first.until, until)}
	case l.others == nil:
		l.others = map[schema.Bucket]int64{b: until}
	default:
		l.others[b] = max(l.others[b], until)
	}
}

// untilMS returns the end of the minute of expires, in ms since the Unix epoch.
func untilMS(expires time.Time) int64 {
	if expires.IsZero() {
		return foreverMS
	}
	return schema.BucketOf(expires).End().UnixMilli()
}

// merge adds what was noted to b: a max-register for each bucket.
func (l *lifetimes) merge(b *pebble.Batch) error {
	if l.first.until == 0 {
		return nil
	}
	if err := mergeLifetime(b, l.first.bucket, l.first.until); err != nil {
		return err
	}
	for bucket, until := range l.others {
		if err := mergeLifetime(b, bucket, until); err != nil {
			return err
		}
	}
	return nil
}

func mergeLifetime(b *pebble.Batch, bucket schema.Bucket, until int64) error {
	key := func(dst []byte) []byte { return appendBucket(dst, tableBuckets, bucket) }
	return mergeCells(b, 1+8, key, cell{column: colValue, timestamp: until})
}

// Expire gives back the space of rows that have expired by now. Such rows are not returned whether
// it is called or not. Call it about once a minute. It returns how many buckets it removed.
//
//	buckets, periods of history   when all their rows have expired, by one range for each stretch
//	audit log, counts             whole days and hours past their retention
//	other rows with an expiry     one by one, found under x
func (s *Store) Expire(ctx context.Context, now time.Time) (buckets int, err error) {
	if buckets, err = s.expireBuckets(ctx, now); err != nil {
		return buckets, fmt.Errorf("expire buckets: %w", err)
	}
	if err := s.expireByTime(ctx, now); err != nil {
		return buckets, fmt.Errorf("expire audit entries and counts: %w", err)
	}
	for {
		rows, err := s.expireRows(ctx, now)
		if err != nil {
			return buckets, fmt.Errorf("expire rows: %w", err)
		}
		if rows < maxExpiredRows {
			return buckets, nil
		}
	}
}

func (s *Store) expireBuckets(ctx context.Context, now time.Time) (buckets int, err error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	s.leave()
	// No write may be under way between the look at the lifetimes and the removal: it could make a
	// bucket live longer.
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return 0, fmt.Errorf("%w: the store is closed", schema.ErrUnavailable)
	}
	b := s.db.NewBatch()
	defer closeQuietly(b)
	var from, to schema.Bucket // the stretch that is being removed, if from < to
	flush := func() error {
		if from == to {
			return nil
		}
		defer func() { from = to }()
		return deleteBuckets(b, from, to)
	}
	remove := func(key, value []byte) (bool, error) {
		row, err := parseRow(value)
		if err != nil {
			return false, err
		}
		bucket := schema.Bucket(readInt(key[1:]))
		if until := row[colValue-1].timestamp; until > now.UnixMilli() {
			return true, flush()
		}
		buckets++
		if from == to {
			from = bucket
		}
		to = bucket + 1 // what lies between two expired buckets is empty
		return true, nil
	}
	for _, r := range [...]struct{ from, to schema.Bucket }{
		{math.MinInt64, schema.BucketOf(now)}, // rows of later buckets are not even due
		{schema.StepBucket(time.UnixMilli(0)), schema.StepBucket(now)},
	} {
		if err == nil {
			err = s.scan(appendBucket(nil, tableBuckets, r.from), appendBucket(nil, tableBuckets, r.to), remove)
		}
		if err == nil {
			err = flush()
		}
	}
	if err == nil {
		err = s.expirePeriods(b, now.UnixMilli())
	}
	if err != nil || b.Empty() {
		return 0, err
	}
	return buckets, s.commit(b)
}

// deleteBuckets adds the removal of everything in the buckets [from, to) to b.
func deleteBuckets(b *pebble.Batch, from, to schema.Bucket) error {
	for _, t := range append(bucketTables[:], tableBuckets) {
		if err := b.DeleteRange(appendBucket(nil, t, from), appendBucket(nil, t, to), nil); err != nil {
			return err
		}
	}
	return nil
}

// expireRows removes at most maxExpiredRows rows that have an expiry of their own and are past it.
// It returns how many it looked at.
func (s *Store) expireRows(ctx context.Context, now time.Time) (int, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	b := s.db.NewBatch()
	defer closeQuietly(b)
	nowMS := now.UnixMilli()
	var keys [][]byte
	lower := []byte{byte(tableRowExpiry)}
	err := s.scan(lower, appendInt(lower[:1:1], nowMS+1), func(key, _ []byte) (bool, error) {
		keys = append(keys, append([]byte(nil), key[1+8:]...))
		return len(keys) < maxExpiredRows, b.Delete(key, nil)
	})
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	for _, key := range keys {
		if err := s.dropRow(key, nowMS); err != nil {
			return 0, err
		}
	}
	return len(keys), s.commit(b)
}

// dropRow removes the row at key, unless it was written again and lives longer.
func (s *Store) dropRow(key []byte, nowMS int64) error {
	defer s.lock(key)()
	row, err := s.row(key)
	if err != nil || row.at(colValue, nowMS) != nil {
		return err
	}
	// who loses this delete finds the row by its expiry again
	if err := s.db.Delete(key, pebble.NoSync); err != nil {
		return fmt.Errorf("%w: %w", schema.ErrUnknown, err)
	}
	return nil
}
