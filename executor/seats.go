package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const (
	// limitTries bounds how often slots are asked for again because another executor was faster.
	limitTries = 12
	// maxLimits bounds the limits of which it is remembered how they stood last, besides those that are asked about.
	maxLimits = 10_000
)

// seats asks limits for slots and gives them back. What is wished of one limit while it is being asked is asked for together, so a limit costs an
// executor a conditional write at a time, however many runs want it.
type seats struct {
	store schema.LeaseStore
	live  *bucketer.Liveness
	name  string
	now   func() time.Time
	log   *slog.Logger

	mu     sync.Mutex
	limits map[schema.LimitKey]*limit
	asking sync.WaitGroup
	ending chan struct{} // closed when nothing more is tried twice
}

// limit is what is known of one limit.
type limit struct {
	lease  schema.Lease // as it stood last; zero key: not known
	wishes []*slotWish
	busy   bool
	held   map[schema.RunID]struct{} // by attempts that are here
}

// slotWish is what an attempt wants of a limit.
type slotWish struct {
	run     schema.RunID
	session string
	most    int  // of a wish for a slot: the limit
	leave   bool // it gives one back
	answer  chan slotAnswer
}

// slotAnswer is what became of a wish.
type slotAnswer struct {
	seat seating
	err  error // the store's: nothing is known
}

// seating says whether a run has a slot.
type seating int

const (
	noSeat seating = iota // as many run as may
	seated                // it has one, under our session
	taken                 // it has one under another session, or another attempt here has it
)

// errBusyLimit: the limit is asked by many at once.
var errBusyLimit = errors.New("the limit's slots keep changing")

func newSeats(store schema.LeaseStore, live *bucketer.Liveness, name string, now func() time.Time, log *slog.Logger) *seats {
	return &seats{store: store, live: live, name: name, now: now, log: log, limits: make(map[schema.LimitKey]*limit), ending: make(chan struct{})}
}

// take asks for a slot for a run under the session. With an error it may have got one all the same: drop sees to that.
func (l *seats) take(ctx context.Context, key schema.LimitKey, run schema.RunID, session string, most int) (seating, error) {
	l.mu.Lock()
	k := l.limit(key)
	if _, here := k.held[run]; here {
		l.mu.Unlock()
		return taken, nil
	}
	k.held[run] = struct{}{}
	l.mu.Unlock()
	a := l.ask(ctx, key, slotWish{run: run, session: session, most: most})
	if a.err == nil && a.seat != seated {
		l.unhold(key, run)
	}
	return a.seat, a.err
}

// unhold notes that no attempt here has the run's slot.
func (l *seats) unhold(key schema.LimitKey, run schema.RunID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.limits[key]; k != nil {
		delete(k.held, run)
	}
}

// limit returns what is known of a limit; mu is held.
func (l *seats) limit(key schema.LimitKey) *limit {
	k := l.limits[key]
	if k == nil {
		if len(l.limits) >= maxLimits {
			for other, o := range l.limits { // any that is idle
				if !o.busy && len(o.held) == 0 {
					delete(l.limits, other)
					break
				}
			}
		}
		k = &limit{held: make(map[schema.RunID]struct{})}
		l.limits[key] = k
	}
	return k
}

// ask has a wish granted, or not, and waits for the answer.
func (l *seats) ask(ctx context.Context, key schema.LimitKey, w slotWish) slotAnswer {
	w.answer = make(chan slotAnswer, 1)
	l.mu.Lock()
	k := l.limit(key)
	k.wishes = append(k.wishes, &w)
	if !k.busy {
		k.busy = true
		l.asking.Go(func() { l.serve(context.WithoutCancel(ctx), key, k) })
	}
	l.mu.Unlock()
	select {
	case a := <-w.answer:
		return a
	case <-ctx.Done():
		return slotAnswer{err: ctx.Err()}
	}
}

// serve asks for what is wished of a limit until nothing is.
func (l *seats) serve(ctx context.Context, key schema.LimitKey, k *limit) {
	for {
		l.mu.Lock()
		wishes := k.wishes
		k.wishes = nil
		if len(wishes) == 0 {
			k.busy = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		answers, err := l.grant(bounded, key, k, wishes)
		cancel()
		for i, w := range wishes {
			if err != nil {
				w.answer <- slotAnswer{err: err}
			} else {
				w.answer <- slotAnswer{seat: answers[i]}
			}
		}
	}
}

// grant swaps the lease of a limit for one in which the wishes are granted as far as there are slots, and answers each. What it does not know anew it
// takes from how the lease stood last: if that is outdated the swap says so, and nothing is refused before the lease was read.
func (l *seats) grant(ctx context.Context, key schema.LimitKey, k *limit, wishes []*slotWish) ([]seating, error) {
	lease, anew := k.lease, false
	defer func() { k.lease = lease }()
	for try := range limitTries {
		var err error
		if lease.Key == "" {
			if lease, err = l.read(ctx, key); err != nil {
				return nil, err
			}
			anew = true
		}
		slots, err := lease.Slots()
		if err != nil {
			return nil, err
		}
		before := len(slots.Taken)
		if anew {
			stands, err := l.live.Of(ctx, slots.Sessions())
			if err != nil {
				return nil, err
			}
			slots.Prune(l.now(), stands)
		}
		changed := len(slots.Taken) != before
		answers := make([]seating, len(wishes))
		refused := false
		for i, w := range wishes {
			var did bool
			answers[i], did = w.of(&slots, l.name)
			changed = changed || did
			refused = refused || !w.leave && answers[i] != seated
		}
		if refused && !anew {
			lease = schema.Lease{}
			continue
		}
		if !changed {
			return answers, nil
		}
		now := l.now()
		is, err := lease.WithSlots(slots, now)
		if err != nil {
			return nil, err
		}
		is.Key = key.Lease()
		stood, err := l.store.SwapLease(ctx, lease, is, bucketer.SlotsExpire(&slots, now))
		switch {
		case err == nil:
			lease = is
			return answers, nil
		case errors.Is(err, schema.ErrConflict):
			lease, anew = stood, true
		case errors.Is(err, schema.ErrUnknown) && ctx.Err() == nil:
			// Read and asked again: what stands then, if it was done, grants the same; if it was not, another swap shuts it out.
			lease = schema.Lease{}
		default:
			lease = schema.Lease{}
			return nil, err
		}
		bucketer.SlotsPause(ctx, try)
	}
	return nil, fmt.Errorf("%w: %w", schema.ErrUnavailable, errBusyLimit)
}

// of grants the wish in s, if there is room, and reports whether that changed anything.
func (w *slotWish) of(s *schema.Slots, executor string) (seating, bool) {
	if w.leave {
		return noSeat, s.Release(w.run, w.session)
	}
	was, has := s.Of(w.run)
	if s.Acquire(w.run, executor, w.session, w.most) {
		return seated, !has || was.Kept()
	}
	if has {
		return taken, false
	}
	return noSeat, false
}

// read reads the lease of a limit, such that every swap before is decided.
func (l *seats) read(ctx context.Context, key schema.LimitKey) (schema.Lease, error) {
	lease, err := l.store.Lease(ctx, key.Lease())
	if errors.Is(err, schema.ErrNotFound) {
		return schema.Lease{Key: key.Lease()}, nil
	}
	return lease, err
}

// seat is what an attempt has of a limit.
type seat struct {
	key     schema.LimitKey
	session string
}

// enter asks the limit of the run's job for a slot, where as many runs are under way as may does what the job says of that, and reports whether the
// attempt may begin; if not, the message has been dealt with.
func (a *attempt) enter(ctx context.Context, k known) bool {
	x, e := a.x, a.entry
	key := schema.JobLimit(e.Spec.Job)
	session, alive := x.keeper.ample(x.now())
	if !alive {
		a.giveBackLater(ctx)
		return false
	}
	seat := &seat{key, session}
	is, err := a.sit(ctx, seat, k.limit.Limit)
	switch {
	case err != nil:
		a.postpone(ctx, "take a slot", err)
		return false
	case is == seated:
		return true
	case is == noSeat && !a.queues(k):
		if done := a.makeWay(ctx, key, k); done {
			return false
		}
	}
	if is == noSeat {
		if err := x.writer.AddToWaitList(ctx, key, e); err != nil {
			a.postpone(ctx, "hold back", err)
			return false
		}
		// What left its slot before the row could be seen has woken nobody.
		if is, err = a.sit(ctx, seat, k.limit.Limit); err != nil {
			a.postpone(ctx, "take a slot", err)
			return false
		}
	}
	switch is {
	case seated:
		// Its row stays: the message may go back before it begins, and wait again. Who wakes it sees by its session cell that it has begun, and takes the
		// row out once it is over.
		a.listed = true
		return true
	case taken: // it runs, or did until now: its rows will tell
		a.giveBackLater(ctx)
	default:
		a.waits = true
		x.metrics.passed.WithLabelValues("limit").Inc()
		a.put(x.writer.NotStarted(*e, schema.Record{Outcome: schema.Replaced, Reason: "concurrency: " + k.many()}, x.now()), true)
	}
	return false
}

// sit asks for a slot, and notes it if there is one.
func (a *attempt) sit(ctx context.Context, s *seat, most int) (seating, error) {
	is, err := a.x.limits.take(ctx, s.key, a.entry.Run(), s.session, most)
	switch {
	case err != nil:
		a.seat = s // it may be ours all the same
		a.rise()
	case is == seated:
		a.seat, a.sat = s, true
	}
	return is, err
}

// queues reports whether the run waits for a slot, whatever the job says: it has begun before, or is one of many that were asked for one by one.
func (a *attempt) queues(k known) bool {
	switch k.limit.OnLimit {
	case schema.OnLimitSkip:
		return k.number > 1 || a.entry.Spec.Trigger == schema.TriggerBackfill
	case schema.OnLimitCancelOldest:
		return a.entry.Spec.Trigger == schema.TriggerBackfill
	}
	return true
}

// makeWay does what the job says of a run for which there is no slot, other than to wait. True means that the run has ended by that, or that the message went back.
func (a *attempt) makeWay(ctx context.Context, key schema.LimitKey, k known) bool {
	if k.limit.OnLimit == schema.OnLimitSkip {
		a.notStarted(ctx, schema.Record{Outcome: schema.Missed, Reason: "skipped: " + k.many()})
		return true
	}
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	over, err := a.x.writer.CancelOldest(bounded, key, a.entry, k.limit.Limit)
	cancel()
	switch {
	case err != nil:
		a.postpone(ctx, "make room", err)
	case over:
		a.notStarted(ctx, schema.Record{Outcome: schema.Cancelled, Reason: "cancel_oldest: later runs of the job were due"})
	default:
		return false
	}
	return true
}

// many says how many runs there are as there may be.
func (k known) many() string {
	if k.limit.Limit == 1 {
		return "a run of the job was under way"
	}
	return fmt.Sprintf("%d runs of the job were under way", k.limit.Limit)
}

// rise gives the slot back and wakes who waits for it. It does not wait: the slot is the session's until then, and comes back with its end at the latest.
func (a *attempt) rise() {
	x, s, run := a.x, a.seat, a.entry.Run()
	if s == nil {
		return
	}
	a.seat = nil
	x.limits.asking.Go(func() {
		x.vacate(s.key, run, s.session)
		x.limits.unhold(s.key, run)
	})
}

// unkeep gives the slot back that was kept for the run, if it came to an end without it.
func (a *attempt) unkeep() {
	if a.entry.Spec.Kind != schema.KindFromWaitList || a.sat || a.waits || a.returned.Load() {
		return
	}
	x, key, run := a.x, schema.JobLimit(a.entry.Spec.Job), a.entry.Run()
	x.limits.asking.Go(func() { x.vacate(key, run, "") })
}

// end waits until every slot has been given back, or been tried to for a last time.
func (l *seats) end() {
	close(l.ending)
	l.asking.Wait()
}

// vacate takes the slot of a run out of a limit, however long that takes while the session stands that has it, and wakes who waits, which others would do as well.
func (x *Executor) vacate(key schema.LimitKey, run schema.RunID, session string) {
	began, left := time.Now(), false
	for {
		bounded, cancel := context.WithTimeout(context.Background(), storeTimeout) // whatever has ended: the slot of a run that is over must come back
		var err error
		if !left {
			err = x.limits.ask(bounded, key, slotWish{run: run, session: session, leave: true}).err
			left = err == nil || session == ""
		}
		if left && err == nil {
			_, err = x.writer.WakeWaiters(bounded, key, x.looker.live)
		}
		cancel()
		if err == nil {
			return
		}
		current, _ := x.keeper.current(x.now())
		if left && time.Since(began) >= vacateFor || session != "" && current != session {
			x.log.Warn("a slot is left to whoever looks after its limit", "limit", key, "run", run, "err", err)
			return
		}
		select {
		case <-x.limits.ending:
			return
		case <-time.After(postponeFor):
		}
	}
}
