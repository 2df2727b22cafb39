package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// LimitKey names a limit on how many runs may be under way at once, and with it the runs that wait
// for it. It is stored, and never changes.
type LimitKey string

// jobLimit is how the keys of jobs' own limits begin.
const jobLimit = "job/"

// JobLimit returns the key of a job's concurrency. Where that has a key of its own, "/" and the
// value follow: see Spec.Limit.
func JobLimit(id JobID) LimitKey { return LimitKey(jobLimit + id.String()) }

// Job returns the job whose limit it is; false if it is no job's.
func (k LimitKey) Job() (JobID, bool) {
	text, ok := strings.CutPrefix(string(k), jobLimit)
	if !ok {
		return JobID{}, false
	}
	job, _, _ := strings.Cut(text, "/")
	id, err := ParseJobID(job)
	return id, err == nil
}

// Lease returns the key of the lease that counts the limit's slots.
func (k LimitKey) Lease() string { return "slots/" + string(k) }

// Slots is what the lease of a limit says: who holds its slots. The runs of a job hold them one by
// one; executors hold them in blocks, for the runs of a task. The lease changes by compare-and-set
// only, so no more slots are given than there are. The lease itself has no holder: each slot names
// its own.
//
// A slot has no clock. It is held while the holder's session stands; any process that finds that
// session dead takes it away. A workflow run has no session: its slot is held until the owner of its
// shard gives it back, which comes after the run's end and before its entry is closed. A slot that is
// kept for a run at the head of the wait list counts until its time is up. To take it away earlier or
// later costs that run its place, or others a wait.
type Slots struct {
	Taken []Slot `json:"taken,omitempty"`
	// Blocks are the slots that executors hold, of a limit whose slots are not taken one by one:
	// see Apportion.
	Blocks []Block `json:"blocks,omitempty"`
	// Low is a hint for who reads the wait list (package concurrency): nothing that was due before it
	// waits any more. Unix ms; 0: unknown. A run that waits again may still come before it.
	Low int64 `json:"low,omitempty"`
}

// Slot is one run that is under way, or for which a slot is kept.
type Slot struct {
	Run RunID `json:"run"`
	// Executor and Session are under which the run is under way; "": the slot is kept.
	Executor string `json:"executor,omitempty"`
	Session  string `json:"session,omitempty"`
	// Until is how long a slot is kept for its run.
	Until time.Time `json:"until,omitzero"`
}

// WorkflowSession is the session of a slot that a workflow run holds.
const WorkflowSession = "workflow"

// OfWorkflow reports whether a workflow run holds the slot.
func (s *Slot) OfWorkflow() bool { return s.Executor == "" && s.Session == WorkflowSession }

// Kept reports whether the slot waits for its run.
func (s *Slot) Kept() bool { return s.Session == "" }

// ref returns the claim under which the slot is held. A claim outlasts the restart of its executor,
// whose callee may still be at work.
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

// WithSlots returns the lease that says s, to be swapped for l at now. Its fence is higher, so that
// two swaps are never taken for one.
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

// Prune takes away the slots of sessions that fell, and those that were kept for too long.
func (s *Slots) Prune(now time.Time, live func(SessionRef) bool) {
	s.Taken = slices.DeleteFunc(slices.Clone(s.Taken), func(t Slot) bool {
		switch {
		case t.OfWorkflow():
			return false
		case t.Kept():
			return !now.Before(t.Until)
		}
		return !live(t.ref())
	})
	s.Blocks = slices.DeleteFunc(slices.Clone(s.Blocks), func(b Block) bool { return !live(b.ref()) })
}

// Acquire gives a slot to a run under the session of an executor, if fewer than limit are held or
// one is kept for the run. A run has one slot at most: while it has one under another session it is
// refused; under the same session nothing changes.
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

// Keep keeps a slot for a run until then, if fewer than limit are held and the run has none.
func (s *Slots) Keep(run RunID, until time.Time, limit int) bool {
	if s.taken() >= limit || s.index(run) >= 0 {
		return false
	}
	s.Taken = append(slices.Clone(s.Taken), Slot{Run: run, Until: until.UTC()})
	return true
}

// Release takes the slot of a run from the session ("": the one that is kept for it). False means
// that there is none.
func (s *Slots) Release(run RunID, session string) bool {
	i := s.index(run)
	if i < 0 || s.Taken[i].Session != session {
		return false
	}
	s.Taken = slices.Delete(slices.Clone(s.Taken), i, i+1)
	return true
}

// Sessions returns rows of attempts that name the sessions of slots and blocks: liveness is asked
// for by such rows.
func (s *Slots) Sessions() []Attempt {
	var rows []Attempt
	for i := range s.Taken {
		if t := &s.Taken[i]; !t.Kept() && !t.OfWorkflow() {
			rows = append(rows, Attempt{Run: t.Run, Session: new(t.ref())})
		}
	}
	for i := range s.Blocks {
		rows = append(rows, Attempt{Session: new(s.Blocks[i].ref())})
	}
	return rows
}
