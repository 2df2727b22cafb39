package workflow

import "fmt"

// ActionKind is what may be done for a run.
type ActionKind string

// The kinds of actions.
const (
	// PrepareStep: the step may start. Prepare it, store what came out, and tell Start, Skip or
	// Fail.
	PrepareStep ActionKind = "prepare"
	// LaunchItems: the items from From to before To may have runs. Store them, and tell Launch.
	// That of a step without for_each is item 0.
	LaunchItems ActionKind = "launch"
	// SkipStep: the step cannot start any more, or not all of it. Store that, and tell Skip.
	SkipStep ActionKind = "skip"
	// EndRun: all steps have ended, and so has the run, with Verdict.
	EndRun ActionKind = "end"
)

// Action is something that may be done for a run.
type Action struct {
	Kind     ActionKind
	Step     int     // -1 for EndRun
	From, To int     // of LaunchItems
	Verdict  Verdict // of SkipStep and EndRun
	Reason   string  // of SkipStep, and of EndRun where it did not succeed; in words
}

// Next returns what the facts make possible, in the order of the steps: at most one action for
// each. It depends on nothing but which facts were told. What it says of a step it says until
// somebody tells that it was done; and of a step that may start, or cannot, it never says
// otherwise, unless the run is cancelled meanwhile.
func (p *Progress) Next() []Action {
	if p.open == 0 {
		v, reason := p.outcome()
		return []Action{{Kind: EndRun, Step: -1, Verdict: v, Reason: reason}}
	}
	if p.actions == 0 {
		return nil
	}
	next := make([]Action, 0, p.actions)
	p.eachReady(func(i int) {
		a, _ := p.action(i)
		next = append(next, a)
	})
	return next
}

// action returns what may be done for step i, if anything.
func (p *Progress) action(i int) (Action, bool) {
	s := &p.steps[i]
	when := p.g.steps[i].When.Or()
	stopped := (p.cancelled || p.expired) && when != Always
	if s.verdict != "" {
		return Action{}, false
	}
	if s.started {
		return p.itemAction(i, stopped)
	}
	switch what, v := decide(when, s.before); {
	case what == starts && stopped:
		return Action{Kind: SkipStep, Step: i, Verdict: Cancelled, Reason: p.stopReason(reasonCancelled, reasonExpired)}, true
	case what == starts:
		return Action{Kind: PrepareStep, Step: i}, true
	case what == skips:
		return Action{Kind: SkipStep, Step: i, Verdict: v, Reason: reasonOf(when, v)}, true
	}
	return Action{}, false
}

// itemAction returns what may be done for step i, which was started, if anything.
func (p *Progress) itemAction(i int, stopped bool) (Action, bool) {
	s := &p.steps[i]
	if stopped {
		// What has a run ends by itself; what has none never will have one.
		if s.launched < s.items && s.endedItems() >= s.launched {
			return Action{Kind: SkipStep, Step: i, Verdict: s.worst(Cancelled), Reason: p.stopReason(reasonRest, reasonLate)}, true
		}
		return Action{}, false
	}
	to := s.items
	if f := p.g.steps[i].ForEach; f != nil && f.MaxConcurrent > 0 && f.MaxConcurrent < MaxItems {
		to = min(to, s.endedItems()+int32(f.MaxConcurrent)) // #nosec G115
	}
	if s.launched >= to {
		return Action{}, false
	}
	return Action{Kind: LaunchItems, Step: i, From: int(s.launched), To: int(to)}, true
}

func (p *Progress) stopReason(cancelled, expired string) string {
	if p.cancelled {
		return cancelled
	}
	return expired
}

// outcome returns how a run ended all of whose steps have ended.
func (p *Progress) outcome() (Verdict, string) {
	switch {
	case p.cancelled:
		return Cancelled, "the run was cancelled"
	case p.expired:
		return Failed, "the deadline of the run passed"
	case p.failed > 0:
		return Failed, p.culprit(Failed)
	case p.stopped > 0:
		return Cancelled, p.culprit(Cancelled)
	}
	return Succeeded, ""
}

// culprit names the first step by itself, in an order in which each comes after those before it,
// that has a verdict.
func (p *Progress) culprit(v Verdict) string {
	for _, skipped := range []bool{false, true} { // one that was skipped only hands a verdict on
		for _, i := range p.g.sorted {
			if s := &p.steps[i]; s.verdict == v && s.skipped == skipped {
				was := string(v)
				if v == Cancelled {
					was = "was cancelled"
				}
				return fmt.Sprintf("step %q %s", p.g.steps[i].Name, was)
			}
		}
	}
	return ""
}

// Verdict returns how step i ended; "" if it has not.
func (p *Progress) Verdict(i int) Verdict { return p.steps[i].verdict }

// Running reports whether step i was started and has not ended.
func (p *Progress) Running(i int) bool { return p.steps[i].started && p.steps[i].verdict == "" }

// Started reports whether step i was started, whatever became of it.
func (p *Progress) Started(i int) bool { return p.steps[i].started }

// Skipped reports whether step i was skipped, or the rest of it was.
func (p *Progress) Skipped(i int) bool { return p.steps[i].skipped }

// Outcome returns how the run ended; "" if it has not.
func (p *Progress) Outcome() Verdict {
	if p.open > 0 {
		return ""
	}
	v, _ := p.outcome()
	return v
}

// Counts are the items of a step: how many there are, how many have runs, and how many have ended.
type Counts struct{ Items, Launched, Succeeded, Failed, Cancelled int }

// Counts returns the items of step i; none before it was started.
func (p *Progress) Counts(i int) Counts {
	s := &p.steps[i]
	return Counts{
		Items: int(s.items), Launched: int(s.launched),
		Succeeded: int(s.ended[place(Succeeded)]), Failed: int(s.ended[place(Failed)]), Cancelled: int(s.ended[place(Cancelled)]),
	}
}

// Awaits returns the steps directly before step i that have not ended, in the order of its after.
func (p *Progress) Awaits(i int) []int {
	var open []int
	for _, j := range p.g.after[i] {
		if p.steps[j].verdict == "" {
			open = append(open, int(j))
		}
	}
	return open
}
