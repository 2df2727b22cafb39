package tally

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	// waitNames bounds the names of which waiting runs are counted each for itself. Others are counted
	// without a name, by cause; wait lists beyond it are not counted.
	waitNames = 200
	// heldFor is for how long a wait list is told of after it was looked at last: its shard may have
	// gone to another node, which looks at it every 5 s.
	heldFor = 30 * time.Second
	// triesMost bounds the instants at which starts of one name are tried, before those that have
	// passed are forgotten.
	triesMost = 256
)

// Held is the reason of runs on the wait list of their job's limit.
const Held = "concurrency"

// Wait is how many runs are due and may not start, for one reason.
type Wait struct {
	Tenant string // "": of any, where there are too many names
	Task   string
	Job    string // its name, of runs that are of no task
	Reason string // a schema.Cause, or Held
	Runs   int64
	More   bool      // there may be more
	Oldest time.Time // since when the first of them is due
}

// Waits knows runs that are due and may not start: those whose start this node deferred, until it is
// tried, and those on wait lists that it looks after. It is in memory alone: a node that begins knows
// none. A run that is cancelled counts until its start would have been tried.
//
// Its methods may be called concurrently; a nil Waits counts nothing.
type Waits struct {
	now func() time.Time

	mu       sync.Mutex
	deferred map[waitName]map[int64]waitSum // by the Unix second before which the start is tried
	held     map[schema.LimitKey]heldRuns
}

type waitName struct{ tenant, task, job, reason string }

type waitSum struct {
	runs   int64
	oldest time.Time
}

// heldRuns are the runs on a wait list, as they were at `at`.
type heldRuns struct {
	wait Wait
	at   time.Time
}

// NewWaits returns a Waits that knows none.
func NewWaits(now func() time.Time) *Waits {
	return &Waits{now: now, deferred: make(map[waitName]map[int64]waitSum), held: make(map[schema.LimitKey]heldRuns)}
}

// Deferred notes entries that stand in for entries that may not start yet, for a cause. Each is tried
// at its due time.
func (w *Waits) Deferred(entries []schema.Entry, cause schema.Cause) {
	if w == nil || len(entries) == 0 {
		return
	}
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		if !e.Due().After(now) {
			continue
		}
		due := e.LatenessFrom()
		if due.After(now) { // of a later attempt it is not known
			due = now
		}
		tries := w.triesOf(waitName{e.Spec.Tenant, e.Spec.Task, jobOfNone(&e.Spec), string(cause)}, now)
		at := e.Due().Unix() + 1
		tries[at] = tries[at].with(due)
	}
}

// jobOfNone returns the name of a spec's job, if that is of no task.
func jobOfNone(s *schema.Spec) string {
	if s.Task != "" {
		return ""
	}
	return s.JobName
}

func (s waitSum) with(due time.Time) waitSum {
	if s.runs == 0 || due.Before(s.oldest) {
		s.oldest = due
	}
	s.runs++
	return s
}

// triesOf returns where the runs of a name are counted; mu is held.
func (w *Waits) triesOf(name waitName, now time.Time) map[int64]waitSum {
	tries := w.deferred[name]
	if tries == nil && len(w.deferred) >= waitNames {
		w.forget(now)
	}
	if tries == nil && len(w.deferred) >= waitNames {
		name = waitName{reason: name.reason}
		tries = w.deferred[name]
	}
	if tries == nil {
		tries = make(map[int64]waitSum)
		w.deferred[name] = tries
	}
	if len(tries) >= triesMost {
		forgetTries(tries, now)
	}
	return tries
}

// forget drops starts that have been tried, and names that have no others; mu is held.
func (w *Waits) forget(now time.Time) {
	for name, tries := range w.deferred {
		if forgetTries(tries, now); len(tries) == 0 {
			delete(w.deferred, name)
		}
	}
}

func forgetTries(tries map[int64]waitSum, now time.Time) {
	for at := range tries {
		if at <= now.Unix() {
			delete(tries, at)
		}
	}
}

// Held notes that so many runs wait for the limit of a job, of which the first has been due since
// oldest; more: there may be more. first is what one of them says.
func (w *Waits) Held(limit schema.LimitKey, first *schema.Spec, runs int, more bool, oldest time.Time) {
	if w == nil {
		return
	}
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if runs == 0 {
		delete(w.held, limit)
		return
	}
	if _, known := w.held[limit]; !known && len(w.held) >= waitNames {
		return
	}
	w.held[limit] = heldRuns{Wait{first.Tenant, first.Task, first.JobName, Held, int64(runs), more, oldest}, now}
}

// All returns what waits now, the most runs first.
func (w *Waits) All() (all []Wait) {
	if w == nil {
		return nil
	}
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(now)
	for name, tries := range w.deferred {
		wait := Wait{Tenant: name.tenant, Task: name.task, Job: name.job, Reason: name.reason}
		for _, sum := range tries {
			wait.Runs += sum.runs
			if wait.Oldest.IsZero() || sum.oldest.Before(wait.Oldest) {
				wait.Oldest = sum.oldest
			}
		}
		all = append(all, wait)
	}
	for limit, h := range w.held {
		if now.Sub(h.at) > heldFor {
			delete(w.held, limit)
			continue
		}
		all = append(all, h.wait)
	}
	slices.SortFunc(all, func(a, b Wait) int {
		return cmp.Or(
			cmp.Compare(b.Runs, a.Runs), a.Oldest.Compare(b.Oldest), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Task, b.Task),
			cmp.Compare(a.Job, b.Job), cmp.Compare(a.Reason, b.Reason),
		)
	})
	return all
}
