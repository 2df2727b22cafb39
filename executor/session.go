package executor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

// sessionKeeper keeps the executor's session alive: one heartbeat, however many runs are under way.
//
// The session stands in the store until another process declares it dead. The executor itself stops
// trusting it at a local deadline, counted from before the last good renewal was sent: no observer
// can declare it dead before that.
type sessionKeeper struct {
	store  schema.SessionStore
	name   string
	now    func() time.Time
	halted func() bool // the wall clock may be wrong
	log    *slog.Logger
	// released returns of which homes slots are released (schema.Session.Released).
	released func() map[string]int64

	mu       sync.Mutex
	session  schema.Session
	deadline time.Time // monotonic: start nothing from then on
	renewed  time.Time // by the monotonic clock: when the last good renewal was sent
}

func newSessionKeeper(store schema.SessionStore, name string, now func() time.Time, halted func() bool, log *slog.Logger) *sessionKeeper {
	return &sessionKeeper{store: store, name: name, now: now, halted: halted, log: log, released: func() map[string]int64 { return nil }}
}

// current returns the session's id, and whether anything may be started under it.
func (k *sessionKeeper) current(now time.Time) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.session.ID, k.session.ID != "" && now.Before(k.deadline)
}

// currentWithReserve is current for attempts whose end others wait for: a claim, a slot of a limit.
// Another executor takes these over [schema.SessionGrace] after the session's expiry, and the
// callee may then still work, though this executor crashed. So such an attempt begins only while
// sessionReserve is left, and overlaps with nothing if the callee needs no more than CalleeTime.
func (k *sessionKeeper) currentWithReserve(now time.Time) (string, bool) {
	return k.current(now.Add(sessionReserve))
}

// lapsed reports whether others may have declared the session dead: it could not be renewed for so
// long.
func (k *sessionKeeper) lapsed(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.session.ID != "" && now.After(k.deadline.Add(schema.SessionGrace))
}

// beat opens the session or renews it.
func (k *sessionKeeper) beat(ctx context.Context) error {
	sent, began := k.now(), time.Now()
	k.mu.Lock()
	was, renewed := k.session, k.renewed
	k.mu.Unlock()
	expires := sent.Add(sessionLife)
	if was.ID != "" && k.halted() {
		// By a clock that was set back the session would be over, and others would start what runs
		// under it. By one that was set ahead it would outlive us by as much.
		expires = was.Expires.Add(began.Sub(renewed))
	}
	is := schema.Session{Executor: k.name, ID: was.ID, Expires: expires.UTC().Truncate(time.Millisecond), Released: k.released()}
	if was.ID == "" {
		// An earlier life under this name is gone: its session ends where ours begins. Its claims
		// stand until it would have been declared dead.
		stored, err := k.store.Session(ctx, k.name)
		if err != nil && !errors.Is(err, schema.ErrNotFound) {
			return fmt.Errorf("open session: %w", err)
		}
		was, is.ID = stored, newSessionID()
	}
	was.Executor = k.name
	is, err := is.After(was, k.judging(sent))
	if err != nil {
		return fmt.Errorf("open session: %w", err)
	}
	err = k.store.SwapSession(ctx, was, is)
	if errors.Is(err, schema.ErrConflict) || errors.Is(err, schema.ErrUnknown) {
		return k.recover(ctx, err)
	}
	if err != nil {
		return fmt.Errorf("renew session: %w", err)
	}
	k.set(is, sent.Add(sessionLife), began)
	return nil
}

// judging returns the time by which earlier lives are forgotten: none are while the clock may be
// wrong.
func (k *sessionKeeper) judging(now time.Time) time.Time {
	if k.halted() {
		return time.Time{}
	}
	return now
}

// recover finds out what stands after a swap that did not go through: ours after all, or another's.
func (k *sessionKeeper) recover(ctx context.Context, cause error) error {
	stored, err := k.store.Session(ctx, k.name)
	if err != nil && !errors.Is(err, schema.ErrNotFound) {
		return fmt.Errorf("read session: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if stored.ID != "" && stored.ID == k.session.ID {
		k.session = stored // an earlier renewal of unknown outcome went through: renew from there
		return fmt.Errorf("renew session: %w", cause)
	}
	if k.session.ID != "" {
		k.log.Warn("session was declared dead: what runs under it counts as lost", "session", k.session.ID)
	}
	k.session, k.deadline = schema.Session{}, time.Time{}
	return fmt.Errorf("renew session: %w", cause)
}

func (k *sessionKeeper) set(s schema.Session, deadline, renewed time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.session, k.deadline, k.renewed = s, deadline, renewed
}

// run renews the session until ctx ends, sooner again after a failure.
func (k *sessionKeeper) run(ctx context.Context) {
	for {
		began, wait := time.Now(), renewEvery
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		if err := k.beat(bounded); err != nil && ctx.Err() == nil {
			k.log.Warn("heartbeat failed", "err", err)
			wait = renewEvery / 6
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait - min(time.Since(began), wait/2)): // from one renewal to the next, however long it takes
		}
	}
}

// close ends the session: nothing runs under it any more. While claims of an earlier life stand, a
// session of no executor is left to say so.
func (k *sessionKeeper) close(ctx context.Context) error {
	k.mu.Lock()
	was := k.session
	k.session, k.deadline = schema.Session{}, time.Time{}
	k.mu.Unlock()
	if was.ID == "" {
		return nil
	}
	if err := k.store.SwapSession(ctx, was, was.Left(newSessionID(), k.judging(k.now()))); err != nil && !errors.Is(err, schema.ErrConflict) {
		return fmt.Errorf("end session: %w", err)
	}
	return nil
}

func newSessionID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
