package dispatcher

import (
	"context"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// deferral is an entry that is to be put off.
type deferral struct {
	o     *opened
	start start
}

// pace sees to it that an entry whose task has a rate has a start of it, and reports whether it may go on now. If not, it waits for one, or is put
// off to the time of its own.
func (s *shard) pace(o *opened, now time.Time) bool {
	e := &o.env.Entry
	r, ok := s.d.pacer.rate(e)
	if !ok {
		return true
	}
	// Published later, an executor would have it ask for another start.
	if inTime := now.Before(e.Due().Add(schema.ReservationLife / 2)); inTime && (o.paced || e.Spec.ReservedRate == r.String()) {
		return true
	}
	o.paced = false
	at, known := s.d.pacer.ask(e, r, &startClaim{o: o, to: s, id: o.id}, now)
	if known && at.suits(e, now) {
		o.paced = true
		return true
	}
	s.book.pace(o)
	if known {
		s.deferring = append(s.deferring, deferral{o, at})
	}
	return false
}

// suits reports whether the entry itself may be started for the start, and needs none to stand in.
func (t start) suits(e *schema.Entry, now time.Time) bool {
	due := e.Due()
	return t.pace != "" && !t.at.After(due.Add(startEarly)) && now.Before(due.Add(schema.ReservationLife/2))
}

// started takes the start that an entry was given.
func (s *shard) started(g startGrant, now time.Time) {
	o := g.o
	switch {
	case o.phase != pacing || o.env == nil: // done meanwhile
	case g.start == start{}: // the rate is another one, or none
		s.book.requeue(o)
	case g.start.suits(&o.env.Entry, now):
		o.paced = true
		s.book.requeue(o)
	default:
		s.deferring = append(s.deferring, deferral{o, g.start})
	}
}

// startDefer puts off what is to be. The entry that stands in is written first, then that it does. If we crash in between, who meets the entry
// next puts it off to another start; who starts second of the two that stand in then finds what the first has written, and a start is lost.
func (s *shard) startDefer(ctx context.Context, now time.Time) {
	n := min(len(s.deferring), deferBatch)
	batch := slices.DeleteFunc(slices.Clone(s.deferring[:n]), func(d deferral) bool { return d.o.phase != pacing || d.o.env == nil })
	if s.deferring = s.deferring[n:]; len(batch) == 0 {
		return
	}
	s.putting = true
	var from, to []schema.Entry
	for _, d := range batch {
		e := &d.o.env.Entry
		at := d.start.at
		if at.Before(now) {
			at = now
		}
		stand, err := s.d.writer.Defer(e, at, d.start.pace, now)
		if err != nil {
			s.failed(ctx, "defer", err) // it waits, and is tried again below
			continue
		}
		from, to = append(from, *e), append(to, stand)
	}
	var handed []schema.EntryID
	s.work(ctx, func(ctx context.Context) (err error) {
		handed, err = s.d.writer.DeferTo(ctx, from, to, schema.CauseRate)
		return err
	}, func(now time.Time, err error) {
		s.putting = false
		for _, id := range handed {
			s.book.done(id)
		}
		s.d.metrics.deferred.Add(float64(len(handed)))
		if err != nil {
			s.failed(ctx, "defer", err)
		}
		for _, d := range batch {
			if o := d.o; o.phase == pacing && o.env != nil {
				o.notBefore = now.Add(retryPublish)
				s.book.requeue(o)
			}
		}
	})
}
