package dispatcher

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// shard is one shard's owner: an actor. Its fields belong to the goroutine of run; workers read and write the store and
// post what they found. At most one worker of each kind is under way.
type shard struct {
	d    *Dispatcher
	id   schema.Shard
	lane queue.Lane
	log  *slog.Logger

	book *book
	scan scanner

	cursor     schema.Cursor // as stored
	haveCursor bool
	sweptTo    time.Time      // everything due before it has been met, and may be forgotten …
	sweepAfter schema.EntryID // … and of the stretch after it what lies up to here
	recentDone bool           // the slice before the take-over has been met

	starved time.Time // when the budget was last refused
	sent    tally

	sweeping, looking, advancing, handing, asking    bool
	lookNow                                          []schema.EntryID // to be looked at as soon as possible
	nextSettle, nextSweep, nextAdvance, nextSessions time.Time

	// Of recurring jobs: entries to be asked about again, catch-up entries whose time has come, and how far the jobs are looked through.
	toDecide, catchUps                []schema.EntryID
	mended                            schema.JobID
	deciding, catching, mending       bool
	nextDecide, nextCatchUp, nextMend time.Time

	events  chan func(now time.Time) // from workers
	mail    mailbox
	workers sync.WaitGroup
}

// mailbox takes what arrives from outside without making the sender wait.
type mailbox struct {
	ring chan struct{} // cap 1: something has arrived

	mu       sync.Mutex
	near     []schema.Entry
	notices  []schema.Notice
	receipts []receipt
}

type receipt struct {
	o       *opened
	receipt queue.Receipt
	err     error
}

// maxMail bounds the near hints and the notices that wait in a mailbox; more are dropped, as advice may be.
const maxMail = 50_000

func (m *mailbox) wake() {
	select {
	case m.ring <- struct{}{}:
	default:
	}
}

func (m *mailbox) addNear(entries []schema.Entry) {
	m.mu.Lock()
	if len(m.near) < maxMail {
		m.near = append(m.near, entries...)
	}
	m.mu.Unlock()
	m.wake()
}

func (m *mailbox) addNotices(notices []schema.Notice) {
	m.mu.Lock()
	if len(m.notices) < maxMail {
		m.notices = append(m.notices, notices...)
	}
	m.mu.Unlock()
	m.wake()
}

// addReceipt is never refused: there is one for each publication, and those are bounded.
func (m *mailbox) addReceipt(r receipt) {
	m.mu.Lock()
	m.receipts = append(m.receipts, r)
	m.mu.Unlock()
	m.wake()
}

func (m *mailbox) take() (near []schema.Entry, notices []schema.Notice, receipts []receipt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	near, notices, receipts = m.near, m.notices, m.receipts
	m.near, m.notices, m.receipts = nil, nil, nil
	return near, notices, receipts
}

func newShard(d *Dispatcher, id schema.Shard) *shard {
	return &shard{
		d: d, id: id, lane: queue.Lane(int(id) % d.lanes), log: d.log.With("shard", int(id)),
		book: newBook(), events: make(chan func(time.Time), 16), mail: mailbox{ring: make(chan struct{}, 1)},
	}
}

// run owns the shard until ctx ends. Taking over: scan ahead from now; then the slice before now; then everything from the
// settled cursor on, which is the same sweep that follows the scan later on, running behind.
func (s *shard) run(ctx context.Context) {
	near, err := s.d.queue.SubscribeNear(s.id, s.mail.addNear)
	if err != nil {
		s.log.Warn("no near hints: rows due soon will wait for the sweep", "err", err)
		near = func() {}
	}
	defer near()
	done, err := s.d.queue.SubscribeDone(s.id, s.mail.addNotices)
	if err != nil {
		s.log.Warn("no notices: every entry will be looked at", "err", err)
		done = func() {}
	}
	defer done()
	defer s.workers.Wait()
	defer s.d.metrics.settledLag.DeleteLabelValues(s.label())

	start := s.d.now()
	s.scan.from(start, s.id)
	s.nextMend = start.Add(mendEvery * time.Duration(s.id+1) / schema.MaxShards * 61 % mendEvery)
	s.sweepRecent(ctx, start.Add(-recent), start)
	s.readCursor(ctx)

	// Shards are scanned at different instants of the second.
	offset := scanEvery * time.Duration(s.id) / schema.MaxShards * 61 % scanEvery
	nextScan := start
	for {
		now := s.d.now()
		if s.d.halt.Halted() {
			// Nothing held in memory may be acted on: the manager will start this shard anew.
			select {
			case <-ctx.Done():
				return
			case <-time.After(retryPublish):
				continue
			}
		}
		s.readMail(ctx, now)
		if !nextScan.After(now) {
			s.startScan(ctx, now)
			s.scan.pace()
			nextScan = now.Truncate(s.scan.every).Add(offset % s.scan.every)
			for !nextScan.After(now) {
				nextScan = nextScan.Add(s.scan.every)
			}
		}
		s.upkeep(ctx, now)
		filled := s.d.budget.next()
		wake, starved := s.flush(ctx, now)
		if !starved {
			filled = nil
		}
		if limit := s.limit(now); s.scan.more && s.book.room(limit) >= min(scanPage, limit/2) {
			s.startScan(ctx, now)
		}
		if wake.IsZero() || nextScan.Before(wake) {
			wake = nextScan
		}
		timer := time.NewTimer(max(wake.Sub(s.d.now()), 0))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case f := <-s.events:
			f(s.d.now())
		case <-s.mail.ring:
		case <-filled:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// work runs f in a worker, with a bounded time, and post on the shard's goroutine with f's error.
func (s *shard) work(ctx context.Context, f func(ctx context.Context) error, post func(now time.Time, err error)) {
	s.workers.Go(func() {
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		err := f(bounded)
		select {
		case s.events <- func(now time.Time) { post(now, err) }:
		case <-ctx.Done():
		}
	})
}

// failed counts and tells an error of a worker, unless we are stopping.
func (s *shard) failed(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		s.d.metrics.failures.WithLabelValues(what).Inc()
		s.d.seldom[what].Do(func() { s.log.Warn("step failed, of this and maybe other shards", "step", what, "err", err) })
	}
}

// readMail takes in receipts, notices and hints.
func (s *shard) readMail(ctx context.Context, now time.Time) {
	near, notices, receipts := s.mail.take()
	for _, r := range receipts {
		s.received(ctx, r, now)
	}
	for _, n := range notices {
		s.book.done(n.Entry)
	}
	for i := range near {
		s.hinted(&near[i], now)
	}
}

// received notes where a publication lies, or queues it again.
func (s *shard) received(ctx context.Context, r receipt, now time.Time) {
	o := r.o
	if o.env == nil || ctx.Err() != nil {
		return // done meanwhile
	}
	if r.err != nil {
		s.d.metrics.publishFailures.Inc()
		// Published again under the same id: if it was stored after all, the stream knows it.
		o.notBefore = now.Add(retryPublish)
		s.book.queue(o)
		return
	}
	o.phase, o.receipt, o.published, o.env = published, r.receipt, now, nil
}

// hinted takes a row of which its writer says that it may lie behind our scan.
func (s *shard) hinted(e *schema.Entry, now time.Time) {
	switch {
	case e.ID.Shard() != s.id || e.Fault != nil:
		return
	case e.Spec.Kind == schema.KindReschedule:
		// Named by its mark only now: what was published before may have been passed over.
		s.book.known[e.ID] = struct{}{}
		if o, ok := s.book.open[e.ID]; ok && o.phase != published && o.phase != watching {
			return
		}
		s.redispatch(*e, now, now)
		return
	case s.decidable(e.ID):
		s.toDecide, s.nextDecide = append(s.toDecide, e.ID), now // its job was made, or changed, only now
		return
	case !s.scan.passed(e.ID):
		return // the scan will find it
	case e.Due().Before(s.sweptTo):
		return // the sweep has met it, or it came too late to count
	case !s.book.meet(e.ID):
		return
	case s.book.room(maxHeld) == 0:
		delete(s.book.known, e.ID) // the sweep will find it
		return
	}
	s.d.metrics.hinted.Inc()
	if e.FirstOfJob() {
		s.undecided(e, true, now) // until its job was looked at
		s.nextDecide = now
		return
	}
	// Nothing can have been said about the run before it was accepted: that is how fresh the row is.
	s.book.add(&queue.Envelope{Entry: *e, CheckedAt: time.UnixMicro(e.Spec.Accepted).UTC()})
}

// decidable reports whether nothing could be said yet of an entry that is open.
func (s *shard) decidable(id schema.EntryID) bool {
	o, ok := s.book.open[id]
	return ok && o.parked && o.kind != schema.KindCatchUp
}

// redispatch queues an entry that may have been published before.
func (s *shard) redispatch(e schema.Entry, checked, now time.Time) {
	env := &queue.Envelope{Entry: e, CheckedAt: checked, Redispatch: true, Dispatch: s.d.dispatchID()}
	s.d.metrics.redispatched.Inc()
	o, ok := s.book.open[e.ID]
	if !ok {
		s.book.add(env).looked = now
		return
	}
	o.env, o.looked, o.parked, o.first = env, now, false, false
	s.book.queue(o)
}

// flush publishes what is due, as far as the budget reaches and for one turn, and returns when it is to be called again, zero = nothing waits,
// and whether it is the budget that something waits for.
func (s *shard) flush(ctx context.Context, now time.Time) (wake time.Time, starved bool) {
	for n := 0; ctx.Err() == nil; n++ {
		o := s.book.due(now.Add(flushSlack))
		if o == nil {
			break
		}
		if n == flushChunk {
			return now, false
		}
		if o.kind == schema.KindCatchUp {
			s.book.take(o)
			o.phase, o.env, o.parked = watching, nil, true
			s.catchUps = append(s.catchUps, o.id)
			continue
		}
		if o.kind == schema.KindWatch && !o.env.Redispatch {
			// A watch entry starts nothing by itself: it is looked at.
			s.book.take(o)
			o.phase, o.env = watching, nil
			s.lookNow = append(s.lookNow, o.id)
			continue
		}
		if !s.d.budget.take(s.lane, o.priority, now) {
			s.starved = now
			return now.Add(retryPublish), true
		}
		if o.stale(now) {
			s.d.budget.give(s.lane, o.priority)
			if s.scan.busy {
				return time.Time{}, false // what it found comes first, and wakes us
			}
			s.reread()
			return now, false
		}
		s.book.take(o)
		s.sent.add(now)
		env := o.env
		if err := s.d.queue.Publish(ctx, s.lane, env, func(r queue.Receipt, err error) {
			s.mail.addReceipt(receipt{o, r, err})
		}); err != nil {
			s.mail.addReceipt(receipt{o, queue.Receipt{}, err})
			break
		}
		s.d.metrics.published.WithLabelValues(string(o.priority)).Inc()
	}
	at, ok := s.book.next()
	if !ok {
		return time.Time{}, false
	}
	return at, false
}

// tally counts what happened in the last appetiteSpan, roughly.
type tally struct {
	since       time.Time
	now, before int
}

func (t *tally) turn(now time.Time) {
	switch d := now.Sub(t.since); {
	case d >= 2*appetiteSpan || d < 0:
		t.since, t.now, t.before = now, 0, 0
	case d >= appetiteSpan:
		t.since, t.now, t.before = t.since.Add(appetiteSpan), 0, t.now
	}
}

func (t *tally) add(now time.Time) {
	t.turn(now)
	t.now++
}

// recent returns the larger of the counts of this span and the one before.
func (t *tally) recent(now time.Time) int {
	t.turn(now)
	return max(t.now, t.before)
}
