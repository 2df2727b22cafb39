package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// LimitKey names a limit on how many runs may be under way at once, and with it what waits for that limit. It is stored, and never changes.
type LimitKey string

// jobLimit is how the keys of jobs' own limits begin.
const jobLimit = "job/"

// JobLimit returns the key of a job's concurrency.
func JobLimit(id JobID) LimitKey { return LimitKey(jobLimit + id.String()) }

// Job returns the job whose limit it is; false if it is none's.
func (k LimitKey) Job() (JobID, bool) {
	text, ok := strings.CutPrefix(string(k), jobLimit)
	if !ok {
		return JobID{}, false
	}
	id, err := ParseJobID(text)
	return id, err == nil
}

// Lease returns the key of the lease that counts the limit's slots.
func (k LimitKey) Lease() string { return "slots/" + string(k) }

// Slots is what the lease of a limit says: who has its slots, one by one (the runs of a job) or in blocks (executors, for the runs of a task). The lease is a register, written by conditional writes only, so no more slots
// are ever given than there are. Nobody is its holder in the lease's own sense: each slot names its own.
//
// A slot has no clock. It is its holder's for as long as the holder's session stands, and whoever finds that session dead takes it away. One that is kept
// for a run whose turn has come is nobody's yet: it counts until its time has run out, and to take it away earlier or later
// costs the run its turn or others a wait, and nothing else.
type Slots struct {
	Taken []Slot `json:"taken,omitempty"`
	// Blocks are slots that executors have, of a limit whose slots runs do not take one by one (see Apportion).
	Blocks []Block `json:"blocks,omitempty"`
	// Low is a hint for who reads what waits for the limit (bucketer.Wake): somebody saw that nothing due
	// before it waits any more. Unix ms; 0: nobody said so. A run that waits again may still come before it.
	Low int64 `json:"low,omitempty"`
}

// Slot is one run that is under way, or whose turn it is.
type Slot struct {
	Run RunID `json:"run"`
	// Executor and Session are under whose session the run is under way; none: the slot is kept.
	Executor string `json:"executor,omitempty"`
	Session  string `json:"session,omitempty"`
	// Until is how long a slot is kept for its run.
	Until time.Time `json:"until,omitzero"`
}

// Kept reports whether the slot waits for its run.
func (s *Slot) Kept() bool { return s.Session == "" }

// ref returns under what the slot is held: as a claim, it outlasts the restart of its executor, whose callee may still be at work.
func (s *Slot) ref() SessionRef {
	return SessionRef{Executor: s.Executor, ID: s.Session, Guarded: true}
}

// Slots returns what the lease of a limit says.
func (l Lease) Slots() (Slots, error) {
	var s Slots
	if len(l.Record) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(l.Record, &s); err != nil {
		return s, fmt.Errorf("decode slots: %w", err)
	}
	return s, nil
}

// WithSlots returns the lease that says s, as it is swapped for l at now: under a higher fence, so that two swaps are never taken for one.
func (l Lease) WithSlots(s Slots, now time.Time) (Lease, error) {
	is := Lease{Key: l.Key, Fence: l.NextFence(now)}
	if len(s.Taken) == 0 && len(s.Blocks) == 0 && s.Low == 0 {
		return is, nil
	}
	text, err := encodeCell(s, "slots")
	is.Record = text
	return is, err
}

// Of returns the slot of a run.
func (s *Slots) Of(run RunID) (Slot, bool) {
	if i := s.index(run); i >= 0 {
		return s.Taken[i], true
	}
	return Slot{}, false
}

func (s *Slots) index(run RunID) int {
	return slices.IndexFunc(s.Taken, func(t Slot) bool { return t.Run == run })
}

// Prune takes away what is nobody's any more at now: the slots of sessions that fell, and those that were kept for too long.
func (s *Slots) Prune(now time.Time, live func(SessionRef) bool) {
	s.Taken = slices.DeleteFunc(slices.Clone(s.Taken), func(t Slot) bool {
		if t.Kept() {
			return !now.Before(t.Until)
		}
		return !live(t.ref())
	})
	s.Blocks = slices.DeleteFunc(slices.Clone(s.Blocks), func(b Block) bool { return !live(b.ref()) })
}

// Acquire gives a slot to a run under the session of an executor, if fewer than limit are taken or one is kept for it. A run has one slot at most: it is
// refused while it has one under another session, and left as it is under the same.
func (s *Slots) Acquire(run RunID, executor, session string, limit int) bool {
	slot := Slot{Run: run, Executor: executor, Session: session}
	i := s.index(run)
	switch {
	case i < 0 && s.taken() >= limit:
		return false
	case i < 0:
		s.Taken = append(slices.Clone(s.Taken), slot)
	case s.Taken[i] == slot:
	case !s.Taken[i].Kept():
		return false
	default:
		s.Taken = slices.Clone(s.Taken)
		s.Taken[i] = slot
	}
	return true
}

// Keep keeps a slot for a run until then, if fewer than limit are taken and it has none.
func (s *Slots) Keep(run RunID, until time.Time, limit int) bool {
	if s.taken() >= limit || s.index(run) >= 0 {
		return false
	}
	s.Taken = append(slices.Clone(s.Taken), Slot{Run: run, Until: until.UTC()})
	return true
}

// Release takes the slot of a run from the session; also what is kept for it if the session is "". False means that it has none.
func (s *Slots) Release(run RunID, session string) bool {
	i := s.index(run)
	if i < 0 || s.Taken[i].Session != session {
		return false
	}
	s.Taken = slices.Delete(slices.Clone(s.Taken), i, i+1)
	return true
}

// Sessions returns rows of attempts that name the sessions of slots and blocks, which is how liveness is asked for.
func (s *Slots) Sessions() []Attempt {
	var rows []Attempt
	for i := range s.Taken {
		if t := &s.Taken[i]; !t.Kept() {
			rows = append(rows, Attempt{Run: t.Run, Session: new(t.ref())})
		}
	}
	for i := range s.Blocks {
		rows = append(rows, Attempt{Session: new(s.Blocks[i].ref())})
	}
	return rows
}
