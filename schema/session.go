package schema

import (
	"context"
	"errors"
	"slices"
	"time"
)

const (
	// SessionGrace is how long after its expiry a session may be declared dead, by the clock of
	// whoever does it. It covers the difference of two right clocks, and sessionMargin in true
	// time.
	SessionGrace  = MaxClockDifference + sessionMargin
	sessionMargin = 2 * time.Second
	// MaxFormer bounds the earlier lives that a session remembers. An executor that starts more
	// often than that within a session's life waits.
	MaxFormer = 32
)

// ErrRestarts: an executor started so often that its session cannot remember all lives whose claims
// stand. It may try again a little later.
var ErrRestarts = errors.New("the executor started too often within the life of a session")

// Session is an executor's lease on life. It stands for every attempt that names it.
type Session struct {
	Executor string
	ID       string    // drawn at every start of the executor; "" = none
	Expires  time.Time // by the executor's clock, ms
	// Former are the sessions of the executor's earlier lives, the oldest first. A life that was
	// replaced is over, and its runs are lost. But its last calls may still be worked on, or it was
	// only stopped and has not noticed. So its claims stand until it could have been declared dead.
	Former []FormerSession
	// Unclear: the stored Former cannot be understood. Then every claim of an earlier life stands
	// until this session falls or is renewed. A claim that stands too long costs a wait; one that
	// falls too early would start a run twice.
	Unclear bool
	// Released says, by home, that no slot of a limit is in use that the executor took before this
	// epoch of the home: its region has lost the home, and so cannot write that into the leases.
	Released map[string]int64
}

// FormerSession is a session that was replaced before it was declared dead.
type FormerSession struct {
	ID      string    `json:"session"`
	Expires time.Time `json:"expires"` // as it last said
}

// over reports whether a session with that expiry may be declared dead at now.
func over(expires, now time.Time) bool { return now.After(expires.Add(SessionGrace)) }

// After returns s as it replaces was at now, as its renewal or as the session of the executor's
// next life. The next life remembers was. s forgets former sessions that are over; at the zero now
// none is. ErrRestarts: there is too much to remember.
func (s Session) After(was Session, now time.Time) (Session, error) {
	if was.Unclear && was.ID != s.ID && !was.Over(now) {
		// what it remembered is not known: until it falls nobody takes its place
		return s, ErrRestarts
	}
	former := slices.Clone(was.Former)
	if was.ID != "" && was.ID != s.ID {
		former = append(former, FormerSession{ID: was.ID, Expires: was.Expires})
	}
	s.Former = slices.DeleteFunc(former, func(f FormerSession) bool { return over(f.Expires, now) })
	if len(s.Former) > MaxFormer {
		return s, ErrRestarts
	}
	return s, nil
}

// Left returns what a life that ends at now leaves of s: no session, or, while claims of earlier
// lives stand, one that is nobody's, under id.
func (s Session) Left(id string, now time.Time) Session {
	left := Session{Executor: s.Executor}
	for _, f := range s.Former {
		if over(f.Expires, now) {
			continue
		}
		left.ID, left.Former = id, append(left.Former, f)
		if f.Expires.After(left.Expires) {
			left.Expires = f.Expires
		}
	}
	return left
}

// Over reports whether s may be declared dead at now, and with it all that it remembers.
func (s Session) Over(now time.Time) bool {
	return over(s.Expires, now) && !slices.ContainsFunc(s.Former, func(f FormerSession) bool { return !over(f.Expires, now) })
}

// Supports reports whether s, as it is stored for the executor of ref, says at now that ref stands.
// It does if it is ref's session or, for a claim, if it remembers that session and it is not over.
// It does not for slots that were released.
// At the zero now nothing is over.
func (s Session) Supports(ref SessionRef, now time.Time) bool {
	switch {
	case ref.ID == "":
		return false
	case s.ID == ref.ID:
		return ref.Epoch == 0 || ref.Epoch >= s.Released[ref.Home]
	}
	if ref.Guarded && s.Unclear && s.ID != "" {
		return true
	}
	return ref.Guarded && slices.ContainsFunc(s.Former, func(f FormerSession) bool { return f.ID == ref.ID && !over(f.Expires, now) })
}

// SessionStore holds the executors' sessions, by conditional writes only.
type SessionStore interface {
	// SwapSession replaces was (as read; zero ID: none) by is. A zero is.ID removes it: the session
	// is declared dead. ErrConflict: another stands, or other values do.
	SwapSession(ctx context.Context, was, is Session) error
	// Session returns the session of an executor as every conditional write before has left it
	// (SERIAL), or ErrNotFound.
	Session(ctx context.Context, executor string) (Session, error)
}
