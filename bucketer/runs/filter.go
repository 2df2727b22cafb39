package runs

import (
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

// Filter selects runs by what they say. Its zero fields select all.
type Filter struct {
	// States: the run is in one of them, or is shown so (Run.Shown). So a run that waits for other
	// jobs is among those that are pending, and among those that wait.
	States []schema.State
	Task   string
	Host   string            // its HTTP call goes there, as Calls says
	Labels map[string]string // it has all of these labels
	Key    string            // it was made with this idempotency key, as its row tells
	// Late selects the runs whose first start came later than that after they were due (by the
	// lateness that is shown), those that could have started for longer and have not, and those
	// that were missed; nil: any.
	Late *time.Duration
	// Error is part of the last error of the run (LastError), in letters of either case; "": any.
	Error string `json:",omitempty"`
	// Says returns the error of an attempt as it is shown; nil: as it is recorded.
	Says func(*schema.Record) string `json:"-"`
	// CreatedBy made the run's job, or asked for the run (schema.Spec); "": anybody.
	CreatedBy string `json:",omitempty"`
	// OneOff: the run is that of a one-off job.
	OneOff bool `json:",omitempty"`
	// Workflows: runs of workflows are selected whatever Task says: the tasks are those of their
	// steps.
	Workflows bool `json:"-"`
	// Calls reports whether what a run does goes to Host; nil if there is no Host. Calls of it may come
	// from several goroutines.
	Calls func(spec *schema.Spec) bool `json:"-"`
}

// Window selects runs by due time, From ≤ due < To, and by what they say.
type Window struct {
	Tenant   string
	From, To time.Time // zero To: no end, which Holds alone takes
	Filter
}

// Holds reports whether the run is one of those that w selects.
func (w *Window) Holds(r *Run, now time.Time) bool {
	e := r.standing()
	due := e.Due()
	return e.Spec.Tenant == w.Tenant && !due.Before(w.From) && (w.To.IsZero() || due.Before(w.To)) && w.MayMatch(e, &r.Entry) && w.Matches(r, now)
}

// MayMatch reports whether the run of these rows may match, by the rows alone: the one that starts
// it, and the one that it was born with.
func (f *Filter) MayMatch(starts, birth *schema.Entry) bool {
	if f.Task != "" && starts.Spec.Task != f.Task && (!f.Workflows || birth.Spec.Workflow == nil) || f.Key != "" && birth.Spec.Key != f.Key {
		return false
	}
	if f.Calls != nil && !f.Calls(&starts.Spec) || f.OneOff && (!birth.Spec.Job.IsZero() || birth.Spec.Step != nil) || f.CreatedBy != "" && birth.Spec.CreatedBy != f.CreatedBy {
		return false
	}
	for name, value := range f.Labels {
		if has, ok := starts.Spec.Labels[name]; !ok || has != value {
			return false
		}
	}
	mayBe := func(s schema.State) bool {
		switch s {
		case schema.StateStuck:
			return starts.Spec.Kind == schema.KindJoin
		case schema.StateWaiting:
			return starts.Spec.Kind == schema.KindJoin || birth.Spec.Workflow != nil || birth.Spec.Step != nil
		}
		return true
	}
	return len(f.States) == 0 || slices.ContainsFunc(f.States, mayBe)
}

// Matches reports whether a run that may match does so at now.
func (f *Filter) Matches(r *Run, now time.Time) bool {
	if len(f.States) > 0 && !slices.Contains(f.States, r.State) && !slices.Contains(f.States, r.Shown()) {
		return false
	}
	if f.Error != "" && !hasText(r.LastError(f.Says), f.Error) {
		return false
	}
	return f.Late == nil || r.isLate(*f.Late, now)
}

// hasText reports whether part is in text, in letters of either case.
func hasText(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// isAny reports whether f selects all.
func (f *Filter) isAny() bool {
	return !f.asksAttempts() && f.Task == "" && f.Host == "" && f.Key == "" && len(f.Labels) == 0 && !f.OneOff && f.CreatedBy == ""
}

// asksAttempts reports whether the rows of runs alone do not say whether they match.
func (f *Filter) asksAttempts() bool { return len(f.States) > 0 || f.AsksDue() }

// AsksDue reports whether f selects no run that is due later than now.
func (f *Filter) AsksDue() bool { return f.Late != nil || f.Error != "" }

// standing returns the entry that says what the run is now: its own, or the one that it was moved to.
func (r *Run) standing() *schema.Entry {
	if r.Current.ID.IsZero() {
		return &r.Entry
	}
	return &r.Current
}

// Due returns when the run is due now: a reschedule changes that.
func (r *Run) Due() time.Time { return r.standing().Due() }

// LastError returns why the last attempt failed that has an error, and why the run was given up if
// it was; "": neither is recorded. says returns the error of an attempt as it is shown; nil: as it
// is recorded.
func (r *Run) LastError(says func(*schema.Record) string) string {
	if says == nil {
		says = func(rec *schema.Record) string { return rec.Error }
	}
	var last, givenUp string
	for i := range r.Attempts {
		a := &r.Attempts[i]
		switch {
		case a.Record == nil || a.Unstarted():
		case a.Number == 0 && a.Record.Ruined():
			givenUp = a.Record.Error
		case a.Number > 0:
			if text := says(a.Record); text != "" {
				last = text
			}
		}
	}
	if last == "" || givenUp == "" {
		return last + givenUp
	}
	return last + "; " + givenUp
}

// Shown returns the state in which callers see the run: its state, unless it has not ended and waits.
func (r *Run) Shown() schema.State {
	step := r.Entry.Spec.Step
	switch {
	case r.State.Terminal():
	case r.standing().Spec.Kind == schema.KindJoin && schema.IsStuck(&r.Entry, r.Entry.Marks, r.Attempts):
		return schema.StateStuck
	case r.standing().Spec.Kind == schema.KindJoin, r.Waits, step != nil && step.Wait != nil:
		return schema.StateWaiting
	}
	return r.State
}

// NextAttempt returns when the next attempt of a run is due that failed and is tried again; zero:
// none is, or its rows do not say so.
func (r *Run) NextAttempt() (at time.Time) {
	if r.State != schema.StateRetrying {
		return at
	}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Number == 0 || a.Unstarted() || a.Record == nil || a.Record.Outcome == schema.Superseded {
			continue
		}
		if at = (time.Time{}); !a.Record.Next.IsZero() {
			at = a.Record.Next.Time()
		}
	}
	return at
}

// Deferral returns the record that put the start of the run off the furthest, nil if none did. One
// from before the run was moved to a later due time does not.
func (r *Run) Deferral() (last *schema.Record) {
	for i := range r.Attempts {
		a := &r.Attempts[i]
		rec := a.Record
		if a.Number == 0 && rec != nil && rec.Outcome == schema.Replaced && rec.Reason == schema.Deferred && !a.Unstarted() && rec.To.Time().After(r.Due()) && (last == nil || rec.To.Time().After(last.To.Time())) {
			last = rec
		}
	}
	return last
}

// HeldBack returns the record that says what holds a run back that has not started, or is to start
// again: a limit, which is its Reason, or a deferral. Nil: nothing does.
func (r *Run) HeldBack() *schema.Record {
	if r.State != schema.StatePending && r.State != schema.StateRetrying {
		return nil
	}
	if held := schema.LimitHold(r.Attempts); held != nil && !held.Finished.Before(r.Due()) {
		return held
	}
	if put := r.Deferral(); put != nil && put.To.Time().After(r.NextAttempt()) {
		return put
	}
	return nil
}

// The words of runs that wait for other jobs, and for a slot (WaitsFor).
const (
	waitsForJobs = "jobs"
	WaitsForSlot = "slot"
)

// SlotAwaited reports whether what held a run back (HeldBack) was the rate of its task, and the
// time that this gave it has come. The run waits in memory then, and no row says for which slot.
func SlotAwaited(held *schema.Record, now time.Time) bool {
	return held != nil && held.Reason == schema.Deferred && held.Cause == schema.CauseRate && held.To.Time().Before(now)
}

// WaitsFor says in one word for what a run waits at now that may not start yet: other jobs, a
// limit, a slot, or the cause of a deferral; "": for nothing that is known.
func (r *Run) WaitsFor(now time.Time) string {
	if !r.State.Terminal() && r.standing().Spec.Kind == schema.KindJoin {
		return waitsForJobs
	}
	switch held := r.HeldBack(); {
	case held == nil:
		return ""
	case SlotAwaited(held, now):
		return WaitsForSlot
	case held.Reason == schema.Deferred:
		return string(held.Cause)
	default:
		limit, _, _ := strings.Cut(held.Reason, ":")
		return limit
	}
}

// mayWait reports whether the run may be a workflow run of which nothing but waits is under way.
func (r *Run) mayWait() bool { return r.Entry.Spec.Workflow != nil && r.State == schema.StateRunning }

// Started returns when the first attempt of the run started; zero: none has.
func (r *Run) Started() time.Time {
	var first time.Time
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Number == 0 || a.Unstarted() && !a.Preempted() {
			continue
		}
		if at := startOf(a); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// startOf returns when an attempt started; zero: it has not, or its rows do not say so.
func startOf(a *schema.Attempt) time.Time {
	switch {
	case a.Record != nil && !a.Record.Started.IsZero():
		return a.Record.Started
	case a.Session != nil:
		return a.Session.Started
	}
	return time.Time{}
}

// Lateness returns the start of the run's first attempt less the later of due time and acceptance, to
// the ms; false: it has not started.
func (r *Run) Lateness() (time.Duration, bool) {
	at, e := r.Started(), r.standing()
	return at.Sub(e.Spec.Start(e.ID)).Truncate(time.Millisecond), !at.IsZero()
}

// isLate reports whether the run is late by more than that: see Filter.
func (r *Run) isLate(by time.Duration, now time.Time) bool {
	if r.State == schema.StateMissed {
		return true
	}
	if late, started := r.Lateness(); started {
		return late > by
	}
	e := r.standing()
	waits := r.State.Terminal() || r.Shown() != r.State // it may not start yet, or never
	return !waits && now.Sub(e.Spec.Start(e.ID)) > by
}
