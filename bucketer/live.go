package bucketer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"carillon.dev/carillon/schema"
)

const (
	// sessionCacheAge is how long a session that was seen to stand is believed to stand. It is well
	// below the time after which a silent session may be declared dead.
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

// Liveness tells which sessions stand. A session stands until it is declared dead or replaced: an
// expired session that no node declared dead is alive. For claims a replaced session stands until
// it would have been declared dead (schema.Session).
//
// Sessions of another region are decided there. Here they stand until they could be declared dead:
// what is replicated says no more, and what was written here would in the end overwrite what stands
// there.
type Liveness struct {
	store   SessionReader
	declare SessionSwapper // nil: only look
	now     func() time.Time
	halted  func() bool // now may be wrong: nothing is declared; nil: it is not
	regions *Regions

	reads singleflight.Group // by executor: concurrent callers share one read
	begun atomic.Int64       // reads

	mu   sync.Mutex
	seen map[sessionKey]seenSession
}

// sessionKey is one session of one executor, for what is claimed under it, for slots that it took
// in one epoch of a home, or for the rest. An executor draws an id at every start. So what is known
// of its last session says nothing about its next one.
type sessionKey struct {
	executor, id string
	guarded      bool
	home         string // of slots of a limit: see schema.Block
	epoch        int64
}

func refKey(ref *schema.SessionRef) sessionKey {
	return sessionKey{ref.Executor, ref.ID, ref.Guarded, ref.Home, ref.Epoch}
}

type seenSession struct {
	stands bool // false is final: a session that fell never stands again
	at     time.Time
}

// NewLiveness returns a Liveness that reads sessions from store. regions tells the executors of our
// region; nil: there are no regions.
func NewLiveness(store SessionReader, now func() time.Time, regions *Regions) *Liveness {
	return &Liveness{store: store, now: now, regions: regions, seen: make(map[sessionKey]seenSession)}
}

// Of returns a function for schema.Fold that tells which of the sessions named in attempts stand.
// It reads each standing session at most once a second, and a fallen one not again.
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

// NewReaper returns a Liveness that also declares sessions dead that it finds more than
// schema.SessionGrace past their expiry. It does so by a conditional write on what it read, so a
// renewal in between wins. While halted says that the clock may have been set, it declares nothing:
// by a clock that is far ahead every session has expired.
func NewReaper(store schema.SessionStore, now func() time.Time, halted func() bool, regions *Regions) *Liveness {
	l := NewLiveness(store, now, regions)
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
	asked := l.begun.Load()
	read, err := l.session(ctx, key.executor)
	if err != nil {
		return false, err
	}
	ref := schema.SessionRef{Executor: key.executor, ID: key.id, Guarded: key.guarded, Home: key.home, Epoch: key.epoch}
	if !l.supports(read, ref) && read.number <= asked {
		// This read was under way when we asked, so the session may be younger. The next read is
		// not.
		if read, err = l.session(ctx, key.executor); err != nil {
			return false, err
		}
	}
	seen = seenSession{stands: l.supports(read, ref), at: read.at}
	l.mu.Lock()
	if len(l.seen) >= sessionCacheSize {
		clear(l.seen)
	}
	l.seen[key] = seen
	l.mu.Unlock()
	return seen.stands, nil
}

// supports reports whether a session stands by what was read.
func (l *Liveness) supports(read sessionRead, ref schema.SessionRef) bool {
	judged := read.at
	if l.halted != nil && l.halted() {
		judged = time.Time{} // by a clock that may be wrong nothing has expired
	}
	return read.session.Supports(ref, judged)
}

// sessionRead is the session of an executor (zero: none) as it was read.
type sessionRead struct {
	session schema.Session
	number  int64     // of this process's reads, in the order in which they began
	at      time.Time // when it began
}

// session reads the session of an executor. Concurrent callers share one read: hundreds of starts
// at once cost one read by consensus.
func (l *Liveness) session(ctx context.Context, executor string) (sessionRead, error) {
	for {
		answer := l.reads.DoChan(executor, func() (any, error) {
			read := sessionRead{number: l.begun.Add(1), at: l.now()}
			var err error
			read.session, err = l.readSession(ctx, executor, read.at)
			return read, err
		})
		select {
		case r := <-answer:
			if r.Shared && isContext(r.Err) && ctx.Err() == nil {
				continue // the context of the caller that began the read ended
			}
			read, _ := r.Val.(sessionRead)
			return read, r.Err
		case <-ctx.Done():
			return sessionRead{}, fmt.Errorf("session of %s: %w", executor, ctx.Err())
		}
	}
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// readSession reads the session of an executor (zero: none). A reaper declares it dead if that is
// due.
func (l *Liveness) readSession(ctx context.Context, executor string, now time.Time) (schema.Session, error) {
	stored, err := l.store.Session(ctx, executor)
	if err != nil && !errors.Is(err, schema.ErrNotFound) {
		return schema.Session{}, fmt.Errorf("session of %s: %w", executor, err)
	}
	switch {
	case stored.ID == "" || !stored.Over(now) || l.halted != nil && l.halted():
		return stored, nil
	case !l.regions.HasExecutor(executor):
		return schema.Session{}, nil
	}
	if l.declare != nil {
		switch err := l.declare.SwapSession(ctx, stored, schema.Session{Executor: executor}); {
		case err == nil:
			stored = schema.Session{}
		case !errors.Is(err, schema.ErrConflict):
			return schema.Session{}, fmt.Errorf("declare session of %s dead: %w", executor, err)
		}
	}
	return stored, nil
}
