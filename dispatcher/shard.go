package dispatcher

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/progress"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// shard is one shard's owner: an actor. Its fields belong to the goroutine of run. Workers read and
// write the store, and post what they found. Of each kind of work one worker at most is under way.
//
// Each part owns the fields of one kind of work, and embeds the shard to reach the others.
type shard struct {
	d    *Dispatcher
	id   schema.Shard
	lane queue.Lane
	log  *slog.Logger

	state *shardstate.State

	publish    publisher    // publish.go: what is due, to the queue
	deferring  deferrer     // defer.go: what waits for a start of its task's rate
	scan       scanner      // scan.go: rows ahead of their time
	resume     resumer      // resume.go: rows that were spilled or left out
	sweep      sweeper      // sweep.go: ids behind their time
	late       lateReader   // late.go: ids again, minutes and hours later
	inspect    inspector    // inspect.go: where entries stand, by their rows
	settle     settler      // settle.go: entries without a notice
	replace    replacer     // replace.go: watch entries for what is open for long
	cursor     cursors      // cursor.go: dispatched and settled
	recurring  recurring    // recurring.go: jobs, catch-up, jobs without a next run
	limits     limits       // limits.go: wait lists of limits
	workflows  workflows    // workflows.go: workflow runs
	planEvents eventPlanner // events.go: what events start

	tookOver   time.Time // when the shard became ours
	halts      int       // how often the process had been stopped by then
	epoch      int64     // in which our region served the home then; 0: there are no regions
	replaced   bool      // somebody replaced our cursor: this tenure ends, and another one begins
	spillPause time.Time // no rows are read before this that may have to be spilled

	posts   chan func(now time.Time) // from workers
	mail    mailbox
	workers sync.WaitGroup
}

func newShard(d *Dispatcher, id schema.Shard) *shard {
	s := &shard{
		d: d, id: id, lane: laneOf(id, d.lanes), log: d.log.With("shard", int(id)),
		state: shardstate.New(), posts: make(chan func(time.Time), 16), mail: mailbox{wakeUp: make(chan struct{}, 1)},
	}
	s.publish.shard, s.deferring.shard = s, s
	s.scan.shard, s.resume.shard = s, s
	s.sweep.shard, s.cursor.shard = s, s
	s.late = lateReader{shard: s, LateReads: progress.NewLateReads()}
	s.inspect.shard, s.settle.shard, s.replace.shard = s, s, s
	s.recurring.shard, s.limits.shard, s.planEvents.shard = s, s, s
	s.workflows = workflows{shard: s, runs: make(map[schema.RunID]*workflowRun)}
	return s
}

// laneOf returns the lane of a shard.
func laneOf(id schema.Shard, lanes int) queue.Lane { return queue.Lane(int(id) % lanes) }

// spread returns a part of period for a shard, so that shards do the same work at different times.
func spread(period time.Duration, id schema.Shard) time.Duration {
	return period * time.Duration(id) / schema.MaxShards * 61 % period
}

// run owns the shard until ctx ends, its cursor was replaced, or our region does not serve its home
// any more. It takes over in this order:
// scan ahead from now; look at the slice before now; sweep everything from the settled cursor on.
// That sweep is the one that follows the scan later; it begins behind.
func (s *shard) run(ctx context.Context) {
	hints, err := s.d.queue.SubscribeNear(s.id, s.mail.addHints)
	if err != nil {
		s.log.Warn("no near hints: rows due soon will wait for the sweep", "err", err)
		hints = func() {}
	}
	defer hints()
	done, err := s.d.queue.SubscribeDone(s.id, s.mail.addNotices)
	if err != nil {
		s.log.Warn("no notices: every entry will be inspected", "err", err)
		done = func() {}
	}
	defer done()
	defer s.workers.Wait()
	defer s.relinquish()
	defer s.d.metrics.settledLag.DeleteLabelValues(s.label())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	s.halts = s.d.halt.Halts()
	var served bool
	if s.epoch, served = s.d.homes.epoch(s.id); !served {
		return
	}
	start := s.d.now()
	s.tookOver = start
	s.scan.Start(start, s.id)
	s.recurring.nextMend = start.Add(spread(mendEvery, s.id+1))
	s.limits.nextWake = start.Add(spread(wakeEvery, s.id+1))
	s.sweep.recent(ctx, start.Add(-recent), start)
	s.cursor.read(ctx)

	offset := spread(progress.ScanEvery, s.id)
	nextScan := start
	for {
		now := s.d.now()
		// In this order: a stop that is noted meanwhile was counted first.
		if s.d.halt.Halted() || s.d.halt.Halts() != s.halts {
			// Nothing held in memory may be acted on: the dispatcher will start this shard anew.
			select {
			case <-ctx.Done():
				return
			case <-time.After(retryPublish):
				continue
			}
		}
		if !s.served() {
			return
		}
		s.readMail(ctx, now)
		if !nextScan.After(now) {
			s.scan.start(ctx, now)
			s.scan.SetPace()
			nextScan = now.Truncate(s.scan.Every).Add(offset % s.scan.Every)
			for !nextScan.After(now) {
				nextScan = nextScan.Add(s.scan.Every)
			}
			nextScan = s.scan.NextAfter(nextScan, now)
		}
		s.upkeep(ctx, now)
		wake := s.publish.flush(ctx, now)
		s.deferring.start(ctx, now)
		s.planEvents.start(ctx, now)
		for _, at := range []time.Time{nextScan, s.resume.readOn(ctx, now), s.workflows.wake} {
			if wake.IsZero() || !at.IsZero() && at.Before(wake) {
				wake = at
			}
		}
		timer := time.NewTimer(max(wake.Sub(s.d.now()), 0))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case f := <-s.posts:
			f(s.d.now())
		case <-s.mail.wakeUp:
		case <-timer.C:
		}
		timer.Stop()
		if s.replaced {
			return
		}
	}
}

// served reports whether our region serves the home of the shard in the epoch in which it took the
// shard. If not, nothing is published of it, and the tenure ends.
func (s *shard) served() bool {
	epoch, served := s.d.homes.epoch(s.id)
	return served && epoch == s.epoch
}

// readMail takes in what arrived since the last time.
func (s *shard) readMail(ctx context.Context, now time.Time) {
	mail := s.mail.take()
	for _, r := range mail.receipts {
		s.publish.confirmed(ctx, r, now)
	}
	for i := range mail.notices {
		s.workflows.finished(&mail.notices[i])
	}
	for _, t := range mail.granted {
		s.publish.granted(ctx, t, now)
	}
	for _, r := range mail.reservations {
		s.deferring.reserved(r, now)
	}
	for i := range mail.hints {
		s.scan.hinted(&mail.hints[i], now)
	}
}

// upkeep starts what is due of the slow work.
func (s *shard) upkeep(ctx context.Context, now time.Time) {
	s.sweep.upkeep(ctx, now)
	s.settle.upkeep(ctx, now)
	s.cursor.upkeep(ctx, now)
	s.recurring.upkeep(ctx, now)
	s.late.upkeep(ctx, now)
	s.limits.upkeep(ctx, now)
	s.workflows.upkeep(ctx, now)
}

// relinquish withdraws every ticket, and returns what was granted meanwhile: others may use it.
func (s *shard) relinquish() {
	s.d.unread.set(s.id, unread{})
	s.deferring.leave()
	for p := range s.state.Queued() {
		if t := p.Ticket; !s.d.depth.Withdraw(t) {
			s.d.depth.Return(t.Subject, t.Tenant)
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
		case s.posts <- func(now time.Time) { post(now, err) }:
		case <-ctx.Done():
		}
	})
}

// retry runs f on the shard's goroutine after a pause.
func (s *shard) retry(ctx context.Context, f func()) {
	s.workers.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryStep):
		}
		select {
		case s.posts <- func(time.Time) { f() }:
		case <-ctx.Done():
		}
	})
}

// failed counts and logs an error of a worker, unless we are stopping.
func (s *shard) failed(ctx context.Context, step string, err error) {
	if ctx.Err() == nil {
		s.d.metrics.failures.WithLabelValues(step).Inc()
		s.d.logEvery[step].Do(func() { s.log.Warn("step failed, of this and maybe other shards", "step", step, "err", err) })
	}
}

// limit is how many entries of a side the shard may hold in memory.
func (s *shard) limit(side shardstate.Side) int {
	if side == shardstate.Overdue {
		return shardstate.MaxHeld
	}
	return min(max(maxHeldAll/max(s.d.Owned(), 1), shardstate.MinHeld), shardstate.MaxHeld)
}

// countSpilled takes rows out of what may be spilled in a second. Once that is used up, what may
// have to be spilled is not read for a while.
func (s *shard) countSpilled(rows int, now time.Time) {
	if rows == 0 {
		return
	}
	s.d.metrics.spilled.Add(float64(rows))
	if wait := s.d.spillRate.ReserveN(now, rows).DelayFrom(now); wait > 0 {
		s.spillPause = now.Add(wait)
	}
}

// subject returns where an entry is published.
func (s *shard) subject(p *shardstate.Pending) depth.Subject {
	return depth.Subject{Lane: s.lane, Priority: p.Priority, Pool: p.Pool}
}

func (s *shard) label() string { return strconv.Itoa(int(s.id)) }
