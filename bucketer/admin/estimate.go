package admin

import (
	"context"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	// estimateIDs is how many ids one read of a partition takes, and estimateReads how many reads one
	// count takes.
	estimateIDs   = 500
	estimateReads = 3
	// herdIDs is how many ids of one ms must have been read, that the rest of that ms is estimated.
	herdIDs = 100
	// hashes is how many hashes an id may have.
	hashes = float64(1 << 62)
)

// estimateRows returns about how many rows a partition has. One of fewer than estimateIDs rows is
// counted. Of one that has more:
//
//	a ms with a herd            the ids of a ms are in the order of their hashes, which are spread
//	                            evenly: if k ids cover a part q of all hashes, there are k/q
//	what lies after estimateReads   as many rows a second as before, herds left out
func estimateRows(ctx context.Context, store IDReader, p schema.Partition) (rows float64, err error) {
	var r schema.IDRange
	var even float64 // rows that are in no herd
	for range estimateReads {
		ids, err := store.EntryIDs(ctx, p, r, estimateIDs)
		if err != nil {
			return 0, err
		}
		rows += float64(len(ids))
		even += float64(len(ids))
		if len(ids) < estimateIDs {
			return rows, nil
		}
		last := ids[len(ids)-1]
		r.After = last
		read, covered := ofLastMilli(ids)
		if read < herdIDs || covered <= 0 {
			continue
		}
		rest := float64(read) * (hashes - float64(last.Hash())) / covered
		rows += rest
		even -= float64(read)
		r.After = schema.LastID(last.Time(), p.Shard)
	}
	passed := r.After.Time().Sub(p.Bucket.Start()) + time.Millisecond
	return rows + even*float64(schema.BucketSpan-passed)/float64(passed), nil
}

// ofLastMilli returns how many of the ids have the time of the last one, and which part of all hashes
// they cover.
func ofLastMilli(ids []schema.EntryID) (n int, covered float64) {
	last := ids[len(ids)-1]
	first := len(ids) - 1
	for first > 0 && ids[first-1].Time().Equal(last.Time()) {
		first--
	}
	from := float64(0) // the ms begins within the ids
	if first == 0 {
		from = float64(ids[0].Hash())
	}
	return len(ids) - first, float64(last.Hash()) - from
}
