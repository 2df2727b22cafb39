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
	anew       bool           // another one took its place: this tenure is to end, and another one to begin
	sweptTo    time.Time      // everything due before it has been met, and may be forgotten …
	sweepAfter schema.EntryID // … and of the stretch after it what lies up to here
	late       lateSweep      // what is read again, long after
	recentDone bool           // the slice before the take-over has been met

	took  time.Time // when the shard became ours
	halts int       // how often the process had been stopped by then

	starved   time.Time // when the budget last refused something on time
	passUntil time.Time // no rows are read before this that might have to be passed over …
	scanPass  time.Time // … by the scan, which waits for what it passed over itself

	deferring []deferral // to be put off by the rates of their tasks …
	putting   bool       // … and some are

	resuming   bool      // rows that were passed over, or left out, are being read
	nextResume time.Time // rows that were passed over are not thought of before
	gapNext    bool      // it is the gap's turn

	sweeping, looking, advancing, handing, asking    bool
	lookNow                                          []schema.EntryID // to be looked at as soon as possible
	nextSettle, nextSweep, nextAdvance, nextSessions time.Time

	// Of recurring jobs: entries to be asked about again, catch-up entries whose time has come, and how far the jobs are looked through.
	toDecide, catchUps                []schema.EntryID
	mended                            schema.JobID
	deciding, catching, mending       bool
	nextDecide, nextCatchUp, nextMend time.Time

	// Of limits: how far those that something waits for are looked through.
	woken    schema.LimitKey
	waking   bool
	nextWake time.Time

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
	grants   []*claim
	starts   []startGrant
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

// addGrant is never refused: there is one for each entry that waits in a line.
func (m *mailbox) addGrant(c *claim) {
	m.mu.Lock()
	m.grants = append(m.grants, c)
	m.mu.Unlock()
	m.wake()
}

// addStart is never refused: there is one for each entry that waits for a start.
func (m *mailbox) addStart(g startGrant) {
	m.mu.Lock()
	m.starts = append(m.starts, g)
	m.mu.Unlock()
	m.wake()
}

// mail is what a mailbox held.
type mail struct {
	near     []schema.Entry
	notices  []schema.Notice
	receipts []receipt
	grants   []*claim
	starts   []startGrant
}

func (m *mailbox) take() mail {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := mail{m.near, m.notices, m.receipts, m.grants, m.starts}
	m.near, m.notices, m.receipts, m.grants, m.starts = nil, nil, nil, nil, nil
	return all
}

func newShard(d *Dispatcher, id schema.Shard) *shard {
	return &shard{
		d: d, id: id, lane: laneOf(id, d.lanes), log: d.log.With("shard", int(id)),
		book: newBook(), late: lateSweep{were: make(map[schema.Bucket]digest)}, events: make(chan func(time.Time), 16), mail: mailbox{ring: make(chan struct{}, 1)},
	}
}

// laneOf returns the lane of a shard.
func laneOf(id schema.Shard, lanes int) queue.Lane { return queue.Lane(int(id) % lanes) }

// run owns the shard until ctx ends, or until its cursor turns out to be another one. Taking over: scan ahead from now; then the slice before now; then everything from the
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
	defer s.relinquish()
	defer s.d.metrics.settledLag.DeleteLabelValues(s.label())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	s.halts = s.d.halt.Halts()
	start := s.d.now()
	s.took = start
	s.scan.from(start, s.id)
	s.nextMend = start.Add(mendEvery * time.Duration(s.id+1) / schema.MaxShards * 61 % mendEvery)
	s.nextWake = start.Add(wakeEvery * time.Duration(s.id+1) / schema.MaxShards * 61 % wakeEvery)
	s.sweepRecent(ctx, start.Add(-recent), start)
	s.readCursor(ctx)

	// Shards are scanned at different instants of the second.
	offset := scanEvery * time.Duration(s.id) / schema.MaxShards * 61 % scanEvery
	nextScan := start
	for {
		now := s.d.now()
		if s.d.halt.Halted() || s.d.halt.Halts() != s.halts { // in this order: what is noted meanwhile is counted first
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
			// A scan that comes more seldom than the one before read ahead for would come too late.
			if end := s.scan.ahead.Add(-scanSlack - Lead); nextScan.After(end.Add(scanSlack / 2)) {
				nextScan = later(end, now.Add(scanBusy))
			}
		}
		s.upkeep(ctx, now)
		wake := s.flush(ctx, now)
		if len(s.deferring) > 0 && !s.putting {
			s.startDefer(ctx, now)
		}
		for _, at := range []time.Time{nextScan, s.readOn(ctx, now)} {
			if wake.IsZero() || !at.IsZero() && at.Before(wake) {
				wake = at
			}
		}
		timer := time.NewTimer(max(wake.Sub(s.d.now()), 0))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case f := <-s.events:
			f(s.d.now())
		case <-s.mail.ring:
		case <-timer.C:
		}
		timer.Stop()
		if s.anew {
			return
		}
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
	mail := s.mail.take()
	for _, r := range mail.receipts {
		s.received(ctx, r, now)
	}
	for _, n := range mail.notices {
		s.done(n.Entry)
	}
	for _, c := range mail.grants {
		s.granted(ctx, c, now)
	}
	for _, g := range mail.starts {
		s.started(g, now)
	}
	for i := range mail.near {
		s.hinted(&mail.near[i], now)
	}
}

// done closes an entry, and leaves the line for it.
func (s *shard) done(id schema.EntryID) {
	if o, ok := s.book.open[id]; ok && o.phase == lined {
		s.d.budget.withdraw(s.subject(o.priority), o.flow.tenant, o.claim)
	}
	s.book.done(id)
}

// granted publishes an entry whose turn has come, or gives the turn back.
func (s *shard) granted(ctx context.Context, c *claim, now time.Time) {
	o := c.o
	if o.claim != c || o.phase != lined || o.env == nil { // done meanwhile
		s.d.budget.give(s.subject(c.priority), c.tenant)
		return
	}
	s.book.granted(o)
	if o.paced && !now.Before(o.id.Time().Add(schema.ReservationLife/2)) { // its turn came too late for its start
		s.d.budget.give(s.subject(c.priority), c.tenant)
		s.book.requeue(o)
		return
	}
	s.publish(ctx, o, now)
}

// relinquish leaves every line, and gives back what was granted meanwhile: others may use it.
func (s *shard) relinquish() {
	s.d.budget.unread(s.id, unread{})
	s.d.pacer.leave(s)
	for o := range s.book.lined {
		if c := o.claim; !s.d.budget.withdraw(s.subject(c.priority), c.tenant, c) {
			s.d.budget.give(s.subject(c.priority), c.tenant)
		}
	}
}

func (s *shard) subject(p schema.Priority) subject { return subject{s.lane, p} }

// received notes where a publication lies, or queues it again.
func (s *shard) received(ctx context.Context, r receipt, now time.Time) {
	o := r.o
	s.d.noted(ctx, publication, now, unanswered(r.err))
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
		s.book.note(e.ID)
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
	case !s.resuming && s.book.flowOf(e, false).passes(e.ID) && e.ID.Compare(s.scan.front(s.id)) <= 0:
		return // it is read with those before it; beyond the front a scan under way may miss it, and a page ends before it
	case !s.book.meet(e.ID):
		return
	case s.book.waiting[0] >= maxHeld:
		delete(s.book.known, e.ID) // the sweep will find it
		return
	}
	s.d.metrics.hinted.Inc()
	if s.standIn(e, now) {
		return
	}
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

// dispatchAgain queues an entry of which nothing says that it must not start. What another owner may have published goes
// out under the id of a first publication: of the two the stream keeps one for queue.DuplicateWindow, and an executor
// that has it in hand leaves a trace in the rows long before that. Where the rows tell of a dead attempt its message may
// be gone, and one under an id of its own is needed: whoever gets it looks, and sees what others have started. So it is where
// an entry starts its run only while moved_to names it: what was published before that has been acknowledged and gone.
func (s *shard) dispatchAgain(m *met, now time.Time) {
	s.redispatch(m.entry, checkedAt(m.verdict, m.checked), now)
	first, ok := m.entry.First()
	byName := ok && first != m.entry.Run()
	if o := s.book.open[m.entry.ID]; o.published.IsZero() && len(m.standing.Dead) == 0 && !byName {
		o.env.Dispatch = ""
	}
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

// flush publishes what is due, as far as the budget reaches and for one turn; what is refused waits in line. It returns when it is to be called
// again, zero = nothing waits for its time.
func (s *shard) flush(ctx context.Context, now time.Time) (wake time.Time) {
	leads := s.d.budget.leads(s.lane)
	for n := 0; ctx.Err() == nil; n++ {
		o := s.book.due(now.Add(flushSlack), &leads)
		if o == nil {
			break
		}
		if n == flushChunk {
			return now
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
		if !s.pace(o, now) {
			continue
		}
		if !s.d.budget.take(s.subject(o.priority), o.flow.tenant, now) {
			s.line(o, now)
			continue
		}
		s.book.take(o)
		if !s.publish(ctx, o, now) {
			break
		}
	}
	at, ok := s.book.next(&leads)
	if !ok {
		return time.Time{}
	}
	return at
}

// line puts what is due and was refused into its tenant's line.
func (s *shard) line(o *opened, now time.Time) {
	f := o.flow
	if f.refused = now; !f.behind {
		s.starved = now
	}
	c := &claim{o: o, to: s, tenant: f.tenant, priority: o.priority, behind: f.behind, at: o.publishAt(Lead), id: o.id}
	s.book.line(o, c)
	s.d.budget.wait(s.subject(o.priority), f.tenant, c)
}

// publish hands an entry to the queue that was taken from the budget, or has it read again, once, if it has become too old: after that an executor looks at it. It
// reports whether to go on.
func (s *shard) publish(ctx context.Context, o *opened, now time.Time) bool {
	if o.stale(now) && s.rereadable(o) {
		s.d.budget.give(s.subject(o.priority), o.flow.tenant)
		s.reread(o)
		return true
	}
	o.flow.sent.add(now)
	if err := s.d.queue.Publish(ctx, s.lane, o.env, func(r queue.Receipt, err error) {
		s.mail.addReceipt(receipt{o, r, err})
	}); err != nil {
		s.mail.addReceipt(receipt{o, queue.Receipt{}, err})
		return false
	}
	s.d.metrics.published.WithLabelValues(string(o.priority)).Inc()
	return true
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
