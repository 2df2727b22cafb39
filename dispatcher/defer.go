package dispatcher

import (
	"context"
	"slices"
	"time"

	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/ratelimit"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// deferrer gets a start for entries whose task has a rate, and defers those whose start lies ahead.
type deferrer struct {
	*shard
	ready []reserved // to be deferred to these reservations
	busy  bool
}

// waiter is an entry of a shard that waits for a start.
type waiter struct {
	s *shard
	p *shardstate.Pending
}

// ID implements ratelimit.Waiter.
func (w *waiter) ID() schema.EntryID { return w.p.ID }

// Reserved implements ratelimit.Waiter.
func (w *waiter) Reserved(r ratelimit.Reservation) { w.s.mail.addReserved(reserved{w.p, r}) }

// reserve reports whether an entry may be published now. If not, it waits for a start of its task's
// rate, or is deferred to the one it has.
func (w *deferrer) reserve(p *shardstate.Pending, now time.Time) bool {
	e := &p.Env.Entry
	rate, ok := w.d.rateLimiter.Rate(e)
	if !ok {
		return true
	}
	// An executor that gets it later would have it ask for another start.
	if inTime := now.Before(e.Due().Add(schema.ReservationLife / 2)); inTime && (p.Reserved || e.Spec.ReservedRate == rate.String()) {
		return true
	}
	p.Reserved = false
	r, known := w.d.rateLimiter.Reserve(e, rate, &waiter{w.shard, p}, now)
	if known && r.Fits(e, now) {
		p.Reserved = true
		return true
	}
	w.state.Reserve(p)
	if known {
		w.ready = append(w.ready, reserved{p, r})
	}
	return false
}

// reserved takes in the start that an entry was given.
func (w *deferrer) reserved(r reserved, now time.Time) {
	switch p := r.p; {
	case !p.Live(shardstate.Reserving): // done meanwhile
	case r.r == ratelimit.Reservation{}: // the rate has changed, or is gone
		w.state.HoldAgain(p)
	case r.r.Fits(&p.Env.Entry, now):
		p.Reserved = true
		w.state.HoldAgain(p)
	default:
		w.ready = append(w.ready, r)
	}
}

// mayHaveStarted reports whether we, or who owned the shard before, may have published the entry.
func (w *deferrer) mayHaveStarted(p *shardstate.Pending) bool {
	return p.Env.Redispatch || p.Env.Entry.Due().Add(-depth.Lead-depth.LeadMost).Before(w.tookOver)
}

// leave has the entries of this shard wait for starts no more. Starts that they were given are
// lost.
func (w *deferrer) leave() {
	w.d.rateLimiter.Leave(func(x ratelimit.Waiter) bool { return x.(*waiter).s == w.shard })
}

// start defers a batch of entries. The late entry is written first, then that it stands in. If we
// crash in between, the next owner defers the entry to another start. Then there are two late
// entries; the one that starts second finds what the first has written, and its start is lost.
func (w *deferrer) start(ctx context.Context, now time.Time) {
	if len(w.ready) == 0 || w.busy {
		return
	}
	n := min(len(w.ready), deferBatch)
	batch := slices.DeleteFunc(slices.Clone(w.ready[:n]), func(r reserved) bool { return !r.p.Live(shardstate.Reserving) })
	if w.ready = w.ready[n:]; len(batch) == 0 {
		return
	}
	w.busy = true
	var from, to []schema.Entry
	for _, r := range batch {
		e := &r.p.Env.Entry
		at := r.r.At
		if at.Before(now) {
			at = now
		}
		again := *e
		again.Spec.MayHaveStarted = e.Spec.MayHaveStarted || w.mayHaveStarted(r.p)
		late, err := w.d.writer.Defer(&again, at, r.r.Rate, now)
		if err != nil {
			w.failed(ctx, "defer", err) // it waits, and is tried again below
			continue
		}
		from, to = append(from, *e), append(to, late)
	}
	var deferred []schema.EntryID
	w.work(ctx, func(ctx context.Context) (err error) {
		deferred, err = w.d.writer.DeferTo(ctx, from, to, schema.CauseRate)
		return err
	}, func(now time.Time, err error) {
		w.busy = false
		for _, id := range deferred {
			w.state.Done(id)
		}
		w.d.metrics.deferred.Add(float64(len(deferred)))
		if err != nil {
			w.failed(ctx, "defer", err)
		}
		for _, r := range batch {
			if p := r.p; p.Live(shardstate.Reserving) {
				p.NotBefore = now.Add(retryPublish)
				w.state.HoldAgain(p)
			}
		}
	})
}
