package bucketer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

// sessionCacheAge is how long a session that was seen to stand is believed to stand: well below the time
// after which a silent one may be declared dead.
const sessionCacheAge = time.Second

// SessionReader reads sessions.
type SessionReader interface {
	Session(ctx context.Context, executor string) (schema.Session, error)
}

// SessionSwapper declares sessions dead.
type SessionSwapper interface {
	SwapSession(ctx context.Context, was, is schema.Session) error
}

// Liveness tells which sessions stand. A session stands until it has been declared dead or replaced:
// an expired one that nobody declared dead is alive.
type Liveness struct {
	store   SessionReader
	declare SessionSwapper // nil: only look
	now     func() time.Time

	mu   sync.Mutex
	seen map[string]seenSession // by executor
}

type seenSession struct {
	session schema.Session // zero: none stands
	at      time.Time
}

// NewLiveness returns a Liveness that reads sessions from store.
func NewLiveness(store SessionReader, now func() time.Time) *Liveness {
	return &Liveness{store: store, now: now, seen: make(map[string]seenSession)}
}

// Of returns a function for schema.Fold that tells which of the sessions named in attempts stand, having
// read each executor's session at most once a second.
func (l *Liveness) Of(ctx context.Context, attempts []schema.Attempt) (func(schema.SessionRef) bool, error) {
	standing := make(map[string]string) // executor → session id
	for i := range attempts {
		a := &attempts[i]
		if a.Record != nil || a.Session == nil {
			continue
		}
		if _, asked := standing[a.Session.Executor]; asked {
			continue
		}
		s, err := l.session(ctx, a.Session.Executor)
		if err != nil {
			return nil, err
		}
		standing[a.Session.Executor] = s.ID
	}
	return func(ref schema.SessionRef) bool { return ref.ID != "" && standing[ref.Executor] == ref.ID }, nil
}

// NewReaper returns a Liveness that also declares dead what it meets more than schema.SessionGrace past its
// expiry: by a conditional write on what it read, so that a renewal in between wins.
func NewReaper(store schema.SessionStore, now func() time.Time) *Liveness {
	l := NewLiveness(store, now)
	l.declare = store
	return l
}

func (l *Liveness) session(ctx context.Context, executor string) (schema.Session, error) {
	now := l.now()
	l.mu.Lock()
	s, ok := l.seen[executor]
	l.mu.Unlock()
	if ok && now.Sub(s.at) < sessionCacheAge {
		return s.session, nil
	}
	stored, err := l.store.Session(ctx, executor)
	if err != nil && !errors.Is(err, schema.ErrNotFound) {
		return schema.Session{}, fmt.Errorf("session of %s: %w", executor, err)
	}
	if l.declare != nil && stored.ID != "" && now.After(stored.Expires.Add(schema.SessionGrace)) {
		switch err := l.declare.SwapSession(ctx, stored, schema.Session{Executor: executor}); {
		case err == nil:
			stored = schema.Session{}
		case !errors.Is(err, schema.ErrConflict):
			return schema.Session{}, fmt.Errorf("declare session of %s dead: %w", executor, err)
		}
	}
	l.mu.Lock()
	l.seen[executor] = seenSession{stored, now}
	l.mu.Unlock()
	return stored, nil
}
