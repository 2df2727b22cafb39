package bucketer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	// sessionCacheAge is how long a session that was seen to stand is believed to stand: well below the time
	// after which a silent one may be declared dead.
	sessionCacheAge = time.Second
	// sessionCacheSize bounds the sessions kept in memory; beyond it the cache is emptied.
	sessionCacheSize = 10_000
)

// SessionReader reads sessions.
type SessionReader interface {
	Session(ctx context.Context, executor string) (schema.Session, error)
}

// SessionSwapper declares sessions dead.
type SessionSwapper interface {
	SwapSession(ctx context.Context, was, is schema.Session) error
}

// Liveness tells which sessions stand. A session stands until it has been declared dead or replaced:
// an expired one that nobody declared dead is alive. For a claim one that was replaced stands until it would have been declared dead (schema.Session).
type Liveness struct {
	store   SessionReader
	declare SessionSwapper // nil: only look
	now     func() time.Time
	halted  func() bool // now may be wrong: nothing is declared

	mu   sync.Mutex
	seen map[sessionKey]seenSession
}

// sessionKey is one session of one executor, for what is claimed under it or for the rest. An executor draws an id at every start, so what
// is known of its last session says nothing about its next one.
type sessionKey struct {
	executor, id string
	guarded      bool
}

func refKey(ref *schema.SessionRef) sessionKey {
	return sessionKey{ref.Executor, ref.ID, ref.Guarded}
}

type seenSession struct {
	stands bool // false is for ever: a session that fell never stands again
	at     time.Time
}

// NewLiveness returns a Liveness that reads sessions from store.
func NewLiveness(store SessionReader, now func() time.Time) *Liveness {
	return &Liveness{store: store, now: now, seen: make(map[sessionKey]seenSession)}
}

// Of returns a function for schema.Fold that tells which of the sessions named in attempts stand, having
// read each session that stands at most once a second, and one that fell not again.
func (l *Liveness) Of(ctx context.Context, attempts []schema.Attempt) (func(schema.SessionRef) bool, error) {
	standing := make(map[sessionKey]bool)
	for i := range attempts {
		a := &attempts[i]
		if a.Record != nil || a.Session == nil {
			continue
		}
		key := refKey(a.Session)
		if _, asked := standing[key]; asked {
			continue
		}
		stands, err := l.stands(ctx, key)
		if err != nil {
			return nil, err
		}
		standing[key] = stands
	}
	return func(ref schema.SessionRef) bool { return standing[refKey(&ref)] }, nil
}

// NewReaper returns a Liveness that also declares dead what it meets more than schema.SessionGrace past its
// expiry: by a conditional write on what it read, so that a renewal in between wins. While halted says that the clock may have
// been set it declares nothing, since everybody's session has expired by a clock that is far ahead.
func NewReaper(store schema.SessionStore, now func() time.Time, halted func() bool) *Liveness {
	l := NewLiveness(store, now)
	l.declare, l.halted = store, halted
	return l
}

func (l *Liveness) stands(ctx context.Context, key sessionKey) (bool, error) {
	if key.id == "" {
		return false, nil
	}
	now := l.now()
	l.mu.Lock()
	seen, ok := l.seen[key]
	l.mu.Unlock()
	if ok && (!seen.stands || now.Sub(seen.at) < sessionCacheAge) {
		return seen.stands, nil
	}
	stored, err := l.session(ctx, key.executor, now)
	if err != nil {
		return false, err
	}
	judged := now
	if l.halted != nil && l.halted() {
		judged = time.Time{} // by a clock that may be wrong nothing is over
	}
	ref := schema.SessionRef{Executor: key.executor, ID: key.id, Guarded: key.guarded}
	seen = seenSession{stands: stored.Supports(ref, judged), at: now}
	l.mu.Lock()
	if len(l.seen) >= sessionCacheSize {
		clear(l.seen)
	}
	l.seen[key] = seen
	l.mu.Unlock()
	return seen.stands, nil
}

// session reads the session of an executor (zero: none), and declares it dead if that is due and is ours to do.
func (l *Liveness) session(ctx context.Context, executor string, now time.Time) (schema.Session, error) {
	stored, err := l.store.Session(ctx, executor)
	if err != nil && !errors.Is(err, schema.ErrNotFound) {
		return schema.Session{}, fmt.Errorf("session of %s: %w", executor, err)
	}
	if l.declare != nil && stored.ID != "" && stored.Over(now) && !l.halted() {
		switch err := l.declare.SwapSession(ctx, stored, schema.Session{Executor: executor}); {
		case err == nil:
			stored = schema.Session{}
		case !errors.Is(err, schema.ErrConflict):
			return schema.Session{}, fmt.Errorf("declare session of %s dead: %w", executor, err)
		}
	}
	return stored, nil
}
