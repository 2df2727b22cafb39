package workflows

import (
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// calls sums up the calls of one run of a step.
type calls struct {
	succeeded time.Time // the earliest end of a call that was answered 2xx; zero: none was
	refused   time.Time // the earliest end of one that was refused
	highest   int       // the highest number of an attempt, and …
	last      time.Time // … when its first call came
}

// callsOf sums up calls, which are in order of time.
func callsOf(seen []*check.Sighting) *calls {
	c := new(calls)
	for _, s := range seen {
		end := s.End
		if end.IsZero() {
			end = s.At
		}
		switch {
		case s.Succeeded():
			c.succeeded = earliest(c.succeeded, end)
		case s.Refused():
			c.refused = earliest(c.refused, end)
		}
		if s.Attempt > c.highest {
			c.highest, c.last = s.Attempt, s.At
		}
	}
	return c
}

// earliest returns the earlier of two instants; zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// end returns the earliest instant at which the run may have ended so; zero: not known.
func (c *calls) end(verdict check.State) time.Time {
	switch {
	case verdict == check.Succeeded:
		return c.succeeded
	case !c.refused.IsZero():
		return c.refused
	}
	return c.last
}

// verdict says how a run of a step has ended; "": not at all. Where the answers leave it open, the
// records of the run count, if they were read, and what the API says of the step.
func (j *judge) verdict(r *run, i int, id string, c *calls) check.State {
	n := &r.steps[i]
	attempts := c.highest
	var recorded check.State
	if o := j.records[id]; o != nil && o.Second.Status == check.Found {
		recorded = o.Second.Run.State
		for k := range o.Second.Run.Attempts {
			attempts = max(attempts, o.Second.Run.Attempts[k].Number)
		}
	}
	succeeded, used := !c.succeeded.IsZero(), attempts >= n.maxAttempts()
	switch {
	case succeeded && used && recorded == check.Failed:
		return check.Failed
	case succeeded:
		if used || n.ForEach == nil && r.over && r.said(i) == check.Failed {
			j.suspects[id] = struct{}{}
		}
		return check.Succeeded
	case !c.refused.IsZero() || used:
		return check.Failed
	}
	if r.over {
		j.suspects[id] = struct{}{}
	}
	return ""
}

// said returns what the API says of a step; "" if it says nothing.
func (r *run) said(i int) check.State {
	if r.shown == nil || i >= len(r.shown.Steps) {
		return ""
	}
	return r.shown.Steps[i].State
}

// judgeEach judges the calls of a step's run one by one. They are in order of time.
func (j *judge) judgeEach(r *run, n *node, id string, seen []*check.Sighting) {
	doubled := false
	for i, s := range seen {
		switch {
		case s.Ref != n.ref:
			j.extra(r.Ref.String(), id, "a call of step %s names %s, its address %s", n.Name, refText(s.Ref), n.ref)
		case s.Attempt > n.maxAttempts():
			j.extra(r.Ref.String(), id, "step %s was called as attempt %d of %d", n.Name, s.Attempt, n.maxAttempts())
		}
		if s.Attempt > 1 {
			j.rep.Retried++
		}
		for _, before := range seen[:i] {
			doubled = doubled || before.Attempt == s.Attempt
		}
		for _, before := range seen[:i] {
			if !before.FailedBy(s.At) {
				j.rep.DuplicateExecutions++
				j.fault(check.FaultDuplicateExecution, r.Ref.String(), id, "step %s: attempt %d came at %s, attempt %d of %s had not failed",
					n.Name, s.Attempt, stamp(s.At), before.Attempt, stamp(before.At))
				break
			}
		}
	}
	if !doubled {
		return
	}
	j.suspects[id] = struct{}{}
	o := j.records[id]
	if o == nil || o.Second.Status != check.Found {
		j.rep.Unread++
		j.fault(check.FaultUnreadable, r.Ref.String(), id, "step %s was called twice as one attempt, and its records were not read", n.Name)
		return
	}
	if why := check.StartedTwice(o.Second.Run.Attempts); why != "" {
		j.rep.CalledTwice++
		j.fault(check.FaultCalledTwice, r.Ref.String(), id, "step %s: %s", n.Name, why)
	}
	for _, why := range check.SurplusCalls(o.Second.Run.Attempts, seen, func(int) bool { return false }) {
		j.rep.Unexplained++
		j.fault(check.FaultUnexplained, r.Ref.String(), id, "step %s: %s", n.Name, why)
	}
}

// early judges the first call of a step's run. f is what is known of the step before its calls are
// looked at.
func (j *judge) early(r *run, n *node, id string, first time.Time, f fate) {
	switch {
	case !f.known:
		j.rep.Early++
		j.fault(check.FaultEarly, r.Ref.String(), id, "step %s was called at %s, and its condition (%s after %q) was never met",
			n.Name, stamp(first), orDefault(n.When), n.After)
	case first.Before(f.from):
		j.rep.Early++
		j.fault(check.FaultEarly, r.Ref.String(), id, "step %s was called at %s, %s before its condition (%s after %q) can have been met",
			n.Name, stamp(first), f.from.Sub(first), orDefault(n.When), n.After)
	}
}

// lateness judges how late a step was called first.
func (j *judge) lateness(r *run, n *node, id string, late time.Duration) {
	j.late = append(j.late, max(late, 0))
	if bound := j.h.Late.Max; bound > 0 && late > bound {
		j.rep.TooLate++
		j.fault(check.FaultTooLate, r.Ref.String(), id, "step %s was called %s after its condition was met, of %s that it may take", n.Name, late, bound)
	}
}

func orDefault(when string) string {
	if when == "" {
		return "all_succeeded"
	}
	return when
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
