package admission

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/lease"
)

const (
	// wakeFor bounds for how long after a slot was given back runs that wait for it are tried to be
	// woken.
	wakeFor = time.Minute
	// maxLimits bounds the idle limits of which the last state of the lease is remembered.
	maxLimits = 10_000
)

// SlotLimiterConfig is what a slot limiter needs.
type SlotLimiterConfig struct {
	Store   schema.LeaseStore
	Live    *bucketer.Liveness
	Name    string                                               // of the executor
	Session func(now time.Time) (id string, alive bool)          // the executor's
	Wake    func(ctx context.Context, key schema.LimitKey) error // wakes runs that wait for a slot of the limit
	Now     func() time.Time
	Log     *slog.Logger
}

// SlotLimiter acquires slots of limits and gives them back. Requests of one limit that come while
// its lease is being written are served together: a limit costs an executor one conditional write
// at a time, however many runs want it.
type SlotLimiter struct {
	SlotLimiterConfig

	mu     sync.Mutex
	limits map[schema.LimitKey]*limitState
	calls  sync.WaitGroup
	ending chan struct{} // closed when nothing more is tried twice
}

// limitState is what is known of one limit.
type limitState struct {
	lease    schema.Lease // as it stood last; zero key: not known
	requests []*slotRequest
	busy     bool
	held     map[schema.RunID]struct{} // by attempts that are here
}

// slotRequest is what an attempt wants of a limit.
type slotRequest struct {
	run     schema.RunID
	session string
	limit   int  // of a request for a slot: the limit
	release bool // it gives one back
	answer  chan slotReply
}

// slotReply is what became of a request.
type slotReply struct {
	state SlotState
	err   error // the store's: nothing is known
}

// SlotState says whether a run has a slot.
type SlotState int

// What a run has of a limit.
const (
	NoSlot        SlotState = iota // as many run as may
	HasSlot                        // it has one, under our session
	SlotElsewhere                  // it has one under another session, or another attempt here has it
)

// NewSlotLimiter returns a limiter that knows no lease. Close ends it.
func NewSlotLimiter(c SlotLimiterConfig) *SlotLimiter {
	return &SlotLimiter{SlotLimiterConfig: c, limits: make(map[schema.LimitKey]*limitState), ending: make(chan struct{})}
}

// Acquire asks for a slot for a run under the session, of a limit of most. After an error the run
// may have a slot all the same: the caller releases it.
func (l *SlotLimiter) Acquire(ctx context.Context, key schema.LimitKey, run schema.RunID, session string, most int) (SlotState, error) {
	l.mu.Lock()
	k := l.limit(key)
	if _, here := k.held[run]; here {
		l.mu.Unlock()
		return SlotElsewhere, nil
	}
	k.held[run] = struct{}{}
	l.mu.Unlock()
	a := l.request(ctx, key, slotRequest{run: run, session: session, limit: most})
	if a.err == nil && a.state != HasSlot {
		l.forget(key, run)
	}
	return a.state, a.err
}

// forget notes that no attempt here has the run's slot.
func (l *SlotLimiter) forget(key schema.LimitKey, run schema.RunID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.limits[key]; k != nil {
		delete(k.held, run)
	}
}

// limit returns what is known of a limit; mu is held.
func (l *SlotLimiter) limit(key schema.LimitKey) *limitState {
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
		k = &limitState{held: make(map[schema.RunID]struct{})}
		l.limits[key] = k
	}
	return k
}

// request has a request served, and waits for the reply.
func (l *SlotLimiter) request(ctx context.Context, key schema.LimitKey, w slotRequest) slotReply {
	w.answer = make(chan slotReply, 1)
	l.mu.Lock()
	k := l.limit(key)
	k.requests = append(k.requests, &w)
	if !k.busy {
		k.busy = true
		l.calls.Go(func() { l.serve(context.WithoutCancel(ctx), key, k) })
	}
	l.mu.Unlock()
	select {
	case a := <-w.answer:
		return a
	case <-ctx.Done():
		return slotReply{err: ctx.Err()}
	}
}

// serve serves the requests of a limit until there are none.
func (l *SlotLimiter) serve(ctx context.Context, key schema.LimitKey, k *limitState) {
	for {
		l.mu.Lock()
		wishes := k.requests
		k.requests = nil
		if len(wishes) == 0 {
			k.busy = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		answers, err := l.update(bounded, key, k, wishes)
		cancel()
		for i, w := range wishes {
			if err != nil {
				w.answer <- slotReply{err: err}
			} else {
				w.answer <- slotReply{state: answers[i]}
			}
		}
	}
}

// update swaps the lease of a limit for one in which the requests are granted as far as there are
// slots, and answers each. It begins with the lease as it stood last: if that is outdated the swap
// says so, and nothing is refused before the lease was read.
func (l *SlotLimiter) update(ctx context.Context, key schema.LimitKey, k *limitState, wishes []*slotRequest) ([]SlotState, error) {
	answers := make([]SlotState, len(wishes))
	stands, err := lease.Update(ctx, l.Store, key.Lease(), k.lease, func(was schema.Lease, fresh bool) (is schema.Lease, expires time.Time, err error) {
		slots, err := was.Slots()
		if err != nil {
			return is, expires, err
		}
		before := len(slots.Taken)
		if fresh {
			stands, err := l.Live.Of(ctx, slots.Sessions())
			if err != nil {
				return is, expires, err
			}
			slots.Prune(l.Now(), stands)
		}
		changed := len(slots.Taken) != before
		refused := false
		for i, w := range wishes {
			var did bool
			answers[i], did = w.apply(&slots, l.Name)
			changed = changed || did
			refused = refused || !w.release && answers[i] != HasSlot
		}
		switch {
		case refused && !fresh:
			return is, expires, lease.ErrStale
		case !changed:
			return is, expires, lease.ErrUnchanged
		}
		now := l.Now()
		is, err = was.WithSlots(slots, now)
		return is, bucketer.SlotsExpire(&slots, now), err
	})
	k.lease = stands
	return answers, err
}

// apply grants the request in s, if there is room, and reports whether that changed anything.
func (w *slotRequest) apply(s *schema.Slots, executor string) (SlotState, bool) {
	if w.release {
		return NoSlot, s.Release(w.run, w.session)
	}
	was, has := s.Of(w.run)
	if s.Acquire(w.run, executor, w.session, w.limit) {
		return HasSlot, !has || was.Kept()
	}
	if has {
		return SlotElsewhere, false
	}
	return NoSlot, false
}

// Close waits until every slot has been given back, or was tried to for a last time.
func (l *SlotLimiter) Close() {
	close(l.ending)
	l.calls.Wait()
}

// Release gives the slot of a run back and wakes the runs that wait for one. It does not wait for
// that: the slot is the session's until then, and comes back with the session's end at the latest.
// Without a session it is the slot that the wait list keeps for the run.
func (l *SlotLimiter) Release(key schema.LimitKey, run schema.RunID, session string) {
	l.calls.Go(func() {
		l.giveBack(key, run, session)
		if session != "" {
			l.forget(key, run)
		}
	})
}

// giveBack takes the slot of a run out of a limit, and wakes the runs that wait. It tries while the
// session stands that has the slot. The owner of the shard would do both later.
func (l *SlotLimiter) giveBack(key schema.LimitKey, run schema.RunID, session string) {
	began, left := time.Now(), false
	for {
		bounded, cancel := context.WithTimeout(context.Background(), storeTimeout) // whatever has ended: the slot of a run that is over must come back
		var err error
		if !left {
			err = l.request(bounded, key, slotRequest{run: run, session: session, release: true}).err
			left = err == nil || session == ""
		}
		if left && err == nil {
			err = l.Wake(bounded, key)
		}
		cancel()
		if err == nil {
			return
		}
		current, _ := l.Session(l.Now())
		if left && time.Since(began) >= wakeFor || session != "" && current != session {
			l.Log.Warn("a slot is left to the owner of its limit's shard", "limit", key, "run", run, "err", err)
			return
		}
		select {
		case <-l.ending:
			return
		case <-time.After(retryAfter):
		}
	}
}
