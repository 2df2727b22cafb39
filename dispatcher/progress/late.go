package progress

import (
	"encoding/binary"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const (
	// LateAfter is how long after its sweep a bucket is read again: a write may wait for minutes in
	// a client, its kernel or a coordinator.
	LateAfter = 5 * time.Minute
	// HintAfter is when it is read for the last time: after Cassandra's hints, which are kept for 3
	// h.
	HintAfter = 3*time.Hour + 15*time.Minute
	// lateSlack is how far a round may lag, in buckets, before it holds settled back.
	lateSlack = 1
)

// lateAfters are the distances of the rounds.
var lateAfters = [...]time.Duration{LateAfter, HintAfter}

// Digest is the sum of a bucket's ids. If an id is added the digest changes.
type Digest struct {
	n   int
	sum uint64
}

// Add adds ids.
func (d *Digest) Add(ids []schema.EntryID) {
	d.n += len(ids)
	for i := range ids {
		d.sum += binary.BigEndian.Uint64(ids[i][:8])*31 + binary.BigEndian.Uint64(ids[i][8:])
	}
}

// LateReads is how far the later reads of a shard's buckets have come. A row may come to lie behind
// the sweep if its writer died, or gave up, while the write was on its way. So the ids of each
// bucket are read twice more, and its rows are inspected where the digest has changed since the
// sweep, or is not known: another owner swept the bucket.
//
// Nothing of it is stored. Settled stays where the next owner, which begins with Start, reads again
// all that this one has not: see MaySettle.
type LateReads struct {
	sweeping Digest                         // of the bucket being swept, up to where the sweep is
	swept    map[schema.Bucket]Digest       // of the buckets swept, or read again, here
	next     [len(lateAfters)]schema.Bucket // to be read in each round

	// Of the bucket being read:
	round    int
	ids      []schema.EntryID // read, and not inspected yet
	digest   Digest
	inspects bool // it was read whole, and its ids are being inspected
}

// NewLateReads returns LateReads that know no bucket.
func NewLateReads() LateReads { return LateReads{swept: make(map[schema.Bucket]Digest)} }

// reach returns how many buckets before the first one that it sweeps an owner begins a round.
func reach(after time.Duration) schema.Bucket {
	return schema.Bucket(after/schema.BucketSpan) + lateSlack
}

// Start begins the rounds of an owner whose sweep begins with bucket first, which is right after
// settled. What the owner before had not read again lies within reach of settled, however long ago
// it stopped, and however far its rounds lagged.
func (l *LateReads) Start(first schema.Bucket) {
	for i, after := range lateAfters {
		l.next[i] = first - reach(after)
	}
}

// MaySettle returns the last bucket that settled may move to: of those before it within reach of a
// round, the round has still to read some, and the next owner must not leave them out. Rounds that
// are on time leave settled free.
func (l *LateReads) MaySettle() schema.Bucket {
	to := l.next[0] + reach(lateAfters[0]) - 1
	for i, after := range lateAfters {
		to = min(to, l.next[i]+reach(after)-1)
	}
	return to
}

// Swept adds ids that were swept to the digest of bucket b; last says that they were its last ones.
func (l *LateReads) Swept(part Digest, b schema.Bucket, last bool) {
	l.sweeping.n, l.sweeping.sum = l.sweeping.n+part.n, l.sweeping.sum+part.sum
	if last {
		l.swept[b], l.sweeping = l.sweeping, Digest{}
	}
}

// Next returns the bucket to be read now, of those before `swept`; false if there is none.
func (l *LateReads) Next(swept schema.Bucket, now time.Time) (schema.Bucket, bool) {
	if len(l.ids) > 0 || l.inspects || l.digest.n > 0 {
		return l.next[l.round], true
	}
	for i, after := range lateAfters {
		if l.next[i] < swept && !now.Before(l.next[i].End().Add(bucketer.Grace+after)) {
			l.round = i
			return l.next[i], true
		}
	}
	return 0, false
}

// After returns the last id that was read of the bucket; zero = none was.
func (l *LateReads) After() schema.EntryID {
	if len(l.ids) == 0 {
		return schema.EntryID{}
	}
	return l.ids[len(l.ids)-1]
}

// Add takes in a page of the bucket's ids; last says that it was the last page.
func (l *LateReads) Add(ids []schema.EntryID, last bool) {
	l.digest.Add(ids)
	l.ids = append(l.ids, ids...)
	if !last {
		return
	}
	if l.inspects = l.changed() && len(l.ids) > 0; !l.inspects {
		l.done()
	}
}

// changed reports whether the bucket, which was read whole, may hold other ids than at its sweep.
func (l *LateReads) changed() bool {
	b := l.next[l.round]
	was, known := l.swept[b]
	l.swept[b] = l.digest
	return !known || was != l.digest
}

// ToInspect returns the next ids to be inspected, at most limit; none while the bucket is being
// read.
func (l *LateReads) ToInspect(limit int) []schema.EntryID {
	if !l.inspects {
		return nil
	}
	return l.ids[:min(len(l.ids), limit)]
}

// Inspected notes that the next n ids were inspected.
func (l *LateReads) Inspected(n int) {
	if l.ids = l.ids[n:]; len(l.ids) == 0 {
		l.done()
	}
}

// done goes on to the next bucket.
func (l *LateReads) done() {
	if l.round == len(lateAfters)-1 {
		delete(l.swept, l.next[l.round])
	}
	l.next[l.round]++
	l.ids, l.digest, l.inspects = nil, Digest{}, false
}
