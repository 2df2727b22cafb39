package dispatcher

import (
	"context"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// This file is about what the owner before us may have published. Its message may lie in the stream, or an executor may
// run it without a trace in the store yet: published again it could be started twice. So it is not published again
// before the stream has let go of all that it held at the take-over, and its rows have been read after that.

const (
	// lossNoticed is how long an owner that is alive may need to notice that its shard is ours. From then on it publishes
	// nothing that is late (shard.leaving).
	lossNoticed = time.Second
	// takeoverWait bounds the wait for the stream, which may hold a message for long: what started without a look has
	// left a trace by then, and whoever starts later looks first.
	takeoverWait = lossNoticed + queue.FreshFor + queue.TraceWithin
	// clearEvery is how often the stream is asked while something waits for it.
	clearEvery = 200 * time.Millisecond
)

// clearing is what is known of the messages of a priority that were published before the shard was ours.
type clearing struct {
	gone   bool   // the stream holds none of them any more
	stream string // else they lie in this incarnation …
	last   uint64 // … up to this sequence; 0 = not known yet
}

// saw takes in what the front of the stream was at an instant.
func (c *clearing) saw(f queue.Front, took, at time.Time) {
	switch {
	case f.Empty, c.last > 0 && (f.Stream != c.stream || f.Sequence > c.last):
		c.gone = true
	case c.last == 0 && at.Sub(took) >= lossNoticed:
		c.stream, c.last = f.Stream, f.Last
	}
}

// cleared reports whether nothing can be under way of what the owner before us published of a priority, but what the
// rows tell of.
func (s *shard) cleared(p schema.Priority, now time.Time) bool {
	return s.clearings[rank(p.Or())].gone || now.Sub(s.took) >= takeoverWait
}

// readFronts asks the stream what it holds of the given priorities; the answers of others that asked since then will do.
func (s *shard) readFronts(ctx context.Context, want [4]bool, since time.Time) (fronts [4]reading) {
	for i, p := range schema.Priorities {
		if !want[i] {
			continue
		}
		if r, err := s.d.gauge.since(ctx, s.d.queue, subject{s.lane, p}, since, s.d.now); err == nil {
			fronts[i] = r
		} // else it is asked again, or the wait ends
	}
	return fronts
}

// sawFronts takes in what readFronts has read.
func (s *shard) sawFronts(fronts [4]reading) {
	for i, r := range fronts {
		if !r.at.IsZero() {
			s.clearings[i].saw(r.front, s.took, r.at)
		}
	}
}

// hold keeps an entry, of which nothing says that it must not be published, until its priority is cleared.
func (s *shard) hold(e *schema.Entry, now time.Time) {
	s.book.watch(e, now)
	s.unclear = append(s.unclear, e.ID)
}

// clearAt returns when the stream is to be asked, zero = nothing is held.
func (s *shard) clearAt() time.Time {
	if len(s.unclear) == 0 || s.clearingUp {
		return time.Time{}
	}
	return s.nextClear
}

// startClear asks the stream for those that are held, and has looked at those whose priority is cleared.
func (s *shard) startClear(ctx context.Context, now time.Time) {
	var want [4]bool
	var left []schema.EntryID
	for _, id := range s.unclear {
		switch o, open := s.book.open[id]; {
		case !open: // done meanwhile
		case s.cleared(o.priority, now):
			s.lookNow = append(s.lookNow, id)
		default:
			left = append(left, id)
			want[rank(o.priority)] = true
		}
	}
	s.unclear = left
	s.nextClear = now.Add(clearEvery)
	if len(left) == 0 {
		return
	}
	s.clearingUp = true
	var fronts [4]reading
	s.work(ctx, func(ctx context.Context) error {
		fronts = s.readFronts(ctx, want, now)
		return nil
	}, func(now time.Time, _ error) {
		s.clearingUp = false
		s.sawFronts(fronts)
	})
}

// late reports that an owner that loses its shard leaves the entry to the next one, which reads it as one of before.
func (o *opened) late(now time.Time) bool { return o.env.Redispatch || !now.Before(o.id.Time()) }
