package schema

import (
	"errors"
	"slices"
	"time"
)

const (
	// SessionGrace is how long after its expiry a session may be declared dead, by the clock of whoever does. It
	// covers what two right clocks may differ by, and sessionMargin in true time.
	SessionGrace  = MaxClockDifference + sessionMargin
	sessionMargin = 2 * time.Second
	// MaxFormer bounds the earlier lives that a session remembers: an executor that starts more often than that within a session's life waits.
	MaxFormer = 32
)

// ErrRestarts: an executor started so often that its session cannot remember all of its lives whose claims stand. It may try again a little later.
var ErrRestarts = errors.New("the executor started too often within the life of a session")

// Session is an executor's proof of life: it stands for every attempt that names it.
type Session struct {
	Executor string
	ID       string    // drawn at every start of the executor; "" = none
	Expires  time.Time // by the executor's clock, ms
	// Former are the sessions of earlier lives of the executor that this one took the place of, the oldest first. A life that was replaced is over, and what it
	// ran is lost; but its last calls may still be worked on, or it is not dead and only stopped, and has not noticed. So what it claimed
	// stands until it would have been declared dead.
	Former []FormerSession
	// Unclear: what is stored of Former cannot be understood. Then every claim of an earlier life stands until this session falls or is
	// renewed, which writes Former again: a claim that stands for too long is waited for, one that falls too early starts a run twice.
	Unclear bool
}

// FormerSession is a session that was replaced before it was declared dead.
type FormerSession struct {
	ID      string    `json:"session"`
	Expires time.Time `json:"expires"` // as it last said
}

// over reports whether a session that is not renewed any more may be declared dead at now.
func over(expires, now time.Time) bool { return now.After(expires.Add(SessionGrace)) }

// After returns s as it takes the place of was at now: as its renewal, or as that of the executor's next life, which remembers was. It forgets
// what is over; at the zero now nothing is. ErrRestarts: there is too much to remember.
func (s Session) After(was Session, now time.Time) (Session, error) {
	if was.Unclear && was.ID != s.ID && !was.Over(now) {
		return s, ErrRestarts // what it remembered is not known: until it falls nobody takes its place
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

// Left returns what a life that ends at now leaves of s: no session, or for as long as what earlier lives claimed stands, one that is nobody's, under id.
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

// Supports reports whether s, as it is stored for the executor of ref, says at now that ref stands: its session itself, or for a claim one that
// was replaced and is not over. At the zero now nothing is.
func (s Session) Supports(ref SessionRef, now time.Time) bool {
	switch {
	case ref.ID == "":
		return false
	case s.ID == ref.ID:
		return true
	}
	if ref.Guarded && s.Unclear && s.ID != "" {
		return true
	}
	return ref.Guarded && slices.ContainsFunc(s.Former, func(f FormerSession) bool { return f.ID == ref.ID && !over(f.Expires, now) })
}
