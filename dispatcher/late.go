package dispatcher

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// Rows may come to lie behind the sweep: those of a writer that died, or gave up, while its write was on its way. Nobody
// was told of them, so nobody is owed them, but they are there to be seen, and must not wait for ever. So the ids
// of each bucket are read again, twice. The sweep has noted how many there were and what they add up to, and
// only where that has changed are they looked at. What is found open is handed on to a watch entry, which is due
// within two minutes: so it does not depend on this owner's life.
const (
	// lateAfter is when a bucket is read again for the first time: writes may be on their way for minutes, in the
	// queues of a client, its kernel or a coordinator.
	lateAfter = 5 * time.Minute
	// hintAfter is when it is read for the second time: when Cassandra's hints are over, which are kept for three hours.
	// Buckets that another owner swept are not, since what they held is not known any more.
	hintAfter = 3*time.Hour + 15*time.Minute
	// latePace is the distance of two reads, of sweepPage ids or of what is known of lookBatch of them.
	latePace = 250 * time.Millisecond
)

// lateAfters are the distances of the rounds.
var lateAfters = [...]time.Duration{lateAfter, hintAfter}

// digest says what ids there were: if one more is there, it is another one.
type digest struct {
	n   int
	sum uint64
}

func (d *digest) add(ids []schema.EntryID) {
	d.n += len(ids)
	for i := range ids {
		d.sum += binary.BigEndian.Uint64(ids[i][:8])*31 + binary.BigEndian.Uint64(ids[i][8:])
	}
}

// lateSweep is how far the later reads of a shard's buckets have come.
type lateSweep struct {
	swept digest                         // of the bucket that is being swept, up to where the sweep is
	were  map[schema.Bucket]digest       // of those that were swept here
	next  [len(lateAfters)]schema.Bucket // to be read again, in each round

	busy bool
	at   time.Time // nothing is read before

	round int              // of the bucket that is being read
	ids   []schema.EntryID // what was read of it so far, and is still to be looked at
	now   digest           // what was read of it so far
	looks bool             // it is read whole, and its ids are looked at
}

// from starts the rounds where a shard's sweep starts, at now. Buckets that the owner before us swept are read again as well, from one
// before where it was. When it stopped is not known: it was there when the bucket before first was settled, and at now at the latest.
func (l *lateSweep) from(first schema.Bucket, now time.Time) {
	stopped := first.Start().Add(bucketer.Grace)
	if now.Before(stopped) {
		stopped = now
	}
	l.next = [...]schema.Bucket{schema.BucketOf(stopped.Add(-bucketer.Grace-lateAfter)) - 1, first}
}

// sweptPart notes what was swept, and, if whole, that it was the rest of bucket b.
func (l *lateSweep) sweptPart(part digest, b schema.Bucket, whole bool) {
	l.swept.n, l.swept.sum = l.swept.n+part.n, l.swept.sum+part.sum
	if whole {
		l.were[b], l.swept = l.swept, digest{}
	}
}

// due returns the round whose next bucket is to be read, of those that were swept before `swept`; false if there is none.
func (l *lateSweep) due(swept schema.Bucket, now time.Time) (round int, ok bool) {
	if len(l.ids) > 0 || l.looks || l.now.n > 0 {
		return l.round, true
	}
	for i, after := range lateAfters {
		for l.next[i] < swept && !now.Before(l.next[i].End().Add(bucketer.Grace+after)) {
			if _, known := l.were[l.next[i]]; known || i == 0 {
				return i, true
			}
			l.next[i]++
		}
	}
	return 0, false
}

// changed reports whether a bucket that was read whole is to be looked at, and notes what it holds by now.
func (l *lateSweep) changed(b schema.Bucket) bool {
	was, known := l.were[b]
	if known {
		l.were[b] = l.now
	}
	return !known || was != l.now
}

// done goes on to the next bucket.
func (l *lateSweep) done() {
	if l.round == len(lateAfters)-1 {
		delete(l.were, l.next[l.round])
	}
	l.next[l.round]++
	l.ids, l.now, l.looks = nil, digest{}, false
}

// startLate takes the next step of reading buckets again, unless the sweep has not come so far.
func (s *shard) startLate(ctx context.Context, now time.Time) {
	l := &s.late
	l.at = now.Add(sliceSpan)
	round, ok := l.due(schema.BucketOf(s.sweptTo), now)
	if !ok {
		return
	}
	l.round, l.busy, l.at = round, true, now.Add(latePace)
	p := schema.Partition{Bucket: l.next[round], Shard: s.id}
	if l.looks {
		s.lookLate(ctx, p)
		return
	}
	r := schema.IDRange{}
	if len(l.ids) > 0 {
		r.After = l.ids[len(l.ids)-1]
	}
	var ids []schema.EntryID
	s.work(ctx, func(ctx context.Context) (err error) {
		ids, err = s.d.store.EntryIDs(ctx, p, r, sweepPage)
		return err
	}, func(now time.Time, err error) {
		l.busy = false
		if err != nil {
			s.failed(ctx, "late", err)
			l.at = now.Add(scanEvery)
			return
		}
		l.now.add(ids)
		l.ids = append(l.ids, ids...)
		if len(ids) == sweepPage {
			return
		}
		if l.looks = len(l.ids) > 0 && l.changed(p.Bucket); !l.looks {
			l.done()
		}
	})
}

// lookLate looks at some of the ids of a bucket that has changed. What nobody has begun is handed on.
func (s *shard) lookLate(ctx context.Context, p schema.Partition) {
	l := &s.late
	n := min(len(l.ids), lookBatch)
	ids := slices.DeleteFunc(slices.Clone(l.ids[:n]), s.book.has)
	var mets []met
	s.work(ctx, func(ctx context.Context) error {
		// Of most there are attempts: their rows need not be read.
		begun, err := s.d.writer.Attempts(ctx, p, ids)
		if err != nil {
			return err
		}
		mets, err = s.meetIDs(ctx, slices.DeleteFunc(ids, func(id schema.EntryID) bool { return len(begun[id]) > 0 }))
		return err
	}, func(now time.Time, err error) {
		l.busy = false
		if err != nil {
			s.failed(ctx, "late", err)
			l.at = now.Add(scanEvery)
			return
		}
		for i := range mets {
			m := &mets[i]
			id := m.entry.ID
			passed := s.book.flowOf(&m.entry, false).passes(id) || s.book.flowOf(&m.entry, true).passes(id)
			if m.standing.Over || m.verdict == bucketer.Dropped || passed || s.book.has(id) {
				continue
			}
			s.d.metrics.late.Inc()
			s.log.Warn("a row came to lie behind the sweep: it is started late", "entry", id, "due", m.entry.Due())
			s.book.watch(&m.entry, now) // startHandOn takes it from here, or a look
		}
		if l.ids = l.ids[n:]; len(l.ids) == 0 {
			l.done()
		}
	})
}
