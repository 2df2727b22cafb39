package dispatcher

import (
	"context"
	"time"

	"carillon.dev/carillon/bucketer/tally"
	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// publisher hands what is due to the queue, as far as the budget reaches.
type publisher struct {
	*shard
	starved time.Time   // when the budget last refused an entry that is on time
	lots    []tally.Lot // published and not counted by name yet, at most maxLots
}

// maxLots bounds the lots that are counted by name under one lock.
const maxLots = 64

// flush publishes what is due, a chunk of it at most; what the budget refuses is queued. It returns
// when it is to be called again; zero = nothing waits for its time.
func (w *publisher) flush(ctx context.Context, now time.Time) (wake time.Time) {
	defer w.count()
	leads := w.d.depth.Leads(w.lane)
	for n := 0; ctx.Err() == nil; n++ {
		p := w.state.Due(now.Add(flushSlack), &leads)
		if p == nil {
			break
		}
		if n == flushChunk {
			return now
		}
		if p.Kind.Plans() {
			w.state.Take(p)
			p.Phase, p.Env, p.Parked = shardstate.Watching, nil, true
			if p.Kind == schema.KindCatchUp {
				w.recurring.catchUps = append(w.recurring.catchUps, p.ID)
			} else {
				w.planEvents.ids = append(w.planEvents.ids, p.ID)
			}
			continue
		}
		if p.Kind == schema.KindWatch && !p.Env.Redispatch {
			// A watch entry starts nothing by itself: it is inspected.
			w.state.Take(p)
			p.Phase, p.Env = shardstate.Watching, nil
			w.settle.next = append(w.settle.next, p.ID)
			continue
		}
		if p.Workflow {
			w.state.Take(p)
			p.Phase, p.Env = shardstate.Watching, nil
			w.workflows.due(p, false)
			continue
		}
		if !w.deferring.reserve(p, now) {
			continue
		}
		p.Pool = w.d.pools.For(&p.Env.Entry)
		if !w.d.depth.Take(w.subject(p), p.Flow.Tenant, now) {
			w.queue(p, now)
			continue
		}
		w.state.Take(p)
		if !w.send(ctx, p, now) {
			break
		}
	}
	at, ok := w.state.NextDue(&leads)
	if !ok {
		return time.Time{}
	}
	return at
}

// queue puts what is due and was refused into its tenant's line.
func (w *publisher) queue(p *shardstate.Pending, now time.Time) {
	f := p.Flow
	f.Refused(now)
	if f.Side == shardstate.OnTime {
		w.starved = now
	}
	t := &depth.Ticket{
		Subject: w.subject(p), Tenant: f.Tenant, Overdue: f.Side == shardstate.Overdue,
		At: p.PublishAt(depth.Lead), ID: p.ID, To: &w.mail,
	}
	w.state.Queue(p, t)
	w.d.depth.Queue(t)
}

// granted publishes an entry whose ticket was granted, or returns what was granted.
func (w *publisher) granted(ctx context.Context, t *depth.Ticket, now time.Time) {
	p, ok := w.state.Pending(t.ID)
	if !ok || p.Ticket != t || !p.Live(shardstate.Queued) { // done meanwhile
		w.d.depth.Return(t.Subject, t.Tenant)
		return
	}
	w.state.Granted(p)
	if p.Reserved && !now.Before(p.Env.Entry.Due().Add(schema.ReservationLife/2)) { // too late for its reservation
		w.d.depth.Return(t.Subject, t.Tenant)
		w.state.HoldAgain(p)
		return
	}
	w.send(ctx, p, now)
}

// send hands an entry to the queue that was taken from the budget. One that is outdated is read
// again, once; after that an executor looks at it. It reports whether to go on.
func (w *publisher) send(ctx context.Context, p *shardstate.Pending, now time.Time) bool {
	if isOutdated(p, now) && w.mayReread(p) {
		w.d.depth.Return(w.subject(p), p.Flow.Tenant)
		w.reread(p)
		return true
	}
	if !w.served() {
		w.d.depth.Return(w.subject(p), p.Flow.Tenant)
		return false // this tenure ends
	}
	p.Env.Epoch, p.Env.Pool = w.epoch, p.Pool
	p.Flow.Sent(now)
	if err := w.d.queue.Publish(ctx, w.lane, p.Env, func(r queue.Receipt, err error) {
		w.mail.addReceipt(receipt{p, r, err})
	}); err != nil {
		w.mail.addReceipt(receipt{p, queue.Receipt{}, err})
		return false
	}
	if !p.Sent { // else the stream may have it: it counts once
		w.d.metrics.published.WithLabelValues(string(p.Priority)).Inc()
		if spec := &p.Env.Entry.Spec; !p.Env.Redispatch && !wasHandedOut(spec) {
			w.noteDue(spec)
		}
	}
	p.Sent = true
	return true
}

// wasHandedOut reports whether an executor has had the attempt of an entry before, and deferred the
// start or put the run on a wait list. A start that a dispatcher deferred has not been handed out
// (bucketer.Writer.Defer). A watch entry is published as one that was before.
func wasHandedOut(spec *schema.Spec) bool {
	return spec.Deferrals > 0 || spec.Kind == schema.KindFromWaitList
}

// noteDue notes an entry that was published for the first time. Those of equal names that follow
// each other are one lot.
func (w *publisher) noteDue(spec *schema.Spec) {
	k := tally.KeyOf(spec, "")
	if n := len(w.lots); n > 0 && w.lots[n-1].Key == k {
		w.lots[n-1].Due++
		return
	}
	if len(w.lots) == maxLots {
		w.count()
	}
	w.lots = append(w.lots, tally.Lot{Key: k, Due: 1})
}

// count counts what was noted.
func (w *publisher) count() {
	w.d.tally.Due(w.lots)
	due := int64(0)
	for i := range w.lots {
		due += w.lots[i].Due
	}
	w.d.metrics.due.Add(float64(due))
	clear(w.lots) // they hold names
	w.lots = w.lots[:0]
}

// confirmed notes where a publication lies, or has it published again.
func (w *publisher) confirmed(ctx context.Context, r receipt, now time.Time) {
	p := r.p
	w.d.noted(ctx, publication, now, unanswered(r.err))
	if p.Env == nil || ctx.Err() != nil {
		return // done meanwhile
	}
	if r.err != nil {
		w.d.metrics.publishFailures.Inc()
		// Published again under the same id: if it was stored after all, the stream knows it.
		p.NotBefore = now.Add(retryPublish)
		w.state.Hold(p)
		return
	}
	p.Phase, p.Receipt, p.PublishedAt, p.Env = shardstate.Published, r.receipt, now, nil
}

// done closes an entry, and withdraws its ticket.
func (w *publisher) done(id schema.EntryID) {
	if p, ok := w.state.Pending(id); ok && p.Phase == shardstate.Queued {
		w.d.depth.Withdraw(p.Ticket)
	}
	w.state.Done(id)
}

// publishAgain has an inspected entry published of which nothing says that it must not start.
//
//	who may have published it before           id of the message       why
//	another owner                              a first publication's   the stream keeps one of the two
//	we; or its rows have a dead attempt        its own                 the first one may be gone
//	anybody; only moved_to has it start a run  its own                 the first one was acknowledged
//
// The stream knows the first id for queue.DuplicateWindow; an executor that has the message leaves
// a trace in the rows long before that.
func (w *publisher) publishAgain(m *inspected, now time.Time) {
	w.redispatch(m.entry, checkedAt(m.verdict, m.checked), now)
	first, ok := m.entry.First()
	byName := ok && first != m.entry.Run()
	if p, _ := w.state.Pending(m.entry.ID); p.PublishedAt.IsZero() && len(m.standing.Dead) == 0 && !byName {
		p.Env.Dispatch = ""
	}
}

// redispatch has an entry published that may have been published before.
func (w *publisher) redispatch(e schema.Entry, checked, now time.Time) {
	env := &queue.Envelope{Entry: e, CheckedAt: checked, Redispatch: true, Dispatch: w.d.dispatchID()}
	w.d.metrics.redispatched.Inc()
	p, ok := w.state.Pending(e.ID)
	if !ok {
		w.state.Add(env).Inspected = now
		return
	}
	p.Env, p.Inspected, p.Parked, p.NeverPublished, p.Sent = env, now, false, false, false
	w.state.Hold(p)
}

// isOutdated reports whether p is late and was read so long ago that an executor would look at its
// rows. One that an executor looks at anyway gains nothing by being read again.
func isOutdated(p *shardstate.Pending, now time.Time) bool {
	return !p.Env.Redispatch && !p.Env.CheckedAt.IsZero() && p.Run == p.ID &&
		now.Sub(p.PublishAt(depth.Lead)) > rereadLate && now.Sub(p.Env.CheckedAt) > rereadAfter
}

// mayReread reports whether p may be read again with what waits of its flow. Each row is read again
// once: else, where turns are rarer than rows grow old, it would never be published. Rows that the
// sweep has passed are not, unless they were spilled then: what was published there and is done may
// be forgotten, and would be taken for new. Nor are steps: no scan finds their rows.
func (w *publisher) mayReread(p *shardstate.Pending) bool {
	return !p.ID.IsStep() && !p.Flow.Reread(p.ID) && (!p.ID.Time().Before(w.sweep.to) || p.Flow.Spilled(p.ID))
}

// reread has p, which was taken, and what waits of its flow read again.
func (w *publisher) reread(p *shardstate.Pending) {
	for _, t := range w.state.GiveUp(p, w.mayReread) {
		w.d.depth.Withdraw(t)
	}
	w.resume.nextTry = time.Time{}
	w.d.metrics.rereads.Inc()
}
