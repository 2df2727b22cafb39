package workflows

import (
	"encoding/json"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// WaitSlack is how much sooner than its time after those before it a wait may be over: its owner read
// its clock before it read the rows that say how they ended.
const WaitSlack = 2 * time.Second

// fate is what becomes of a step in a run.
type fate struct {
	// known: it is known whether the step runs. runs: it does.
	known, runs bool
	// verdict is how it counts for the steps after it: succeeded or failed; "" = not known yet.
	verdict check.State
	// from is the earliest instant at which it may have started, or have been skipped. ended is the
	// same for its end. Zero: not known.
	from, ended time.Time
}

// state returns what an if sees of the step.
func (f *fate) state() string {
	switch {
	case f.verdict == "":
		return ""
	case !f.runs:
		return string(check.Skipped)
	}
	return string(f.verdict)
}

// expect says what becomes of a step, after what became of those before it. asked is when the run was
// asked for. The end of a step that runs is left open.
func expect(n *node, all []fate, payload json.RawMessage, asked time.Time) fate {
	f := afterOthers(n, all, asked)
	if !f.known || !f.runs {
		return f
	}
	if n.holds != nil {
		holds, known := n.holds(payload, func(step int) string { return all[step].state() })
		switch {
		case !known:
			return fate{}
		case !holds:
			f.runs, f.verdict, f.ended = false, check.Succeeded, f.from
		}
	}
	return f
}

// afterOthers says what the condition of a step comes to (package comment, "Which steps run").
func afterOthers(n *node, all []fate, asked time.Time) fate {
	open := 0
	worst := check.Succeeded
	firsts := map[check.State]time.Time{} // by verdict: when the first step may have ended so
	last := asked
	for _, k := range n.before {
		b := &all[k]
		if b.verdict == "" {
			open++
			continue
		}
		if b.verdict == check.Failed {
			worst = check.Failed
		}
		if first, seen := firsts[b.verdict]; !seen || b.ended.Before(first) {
			firsts[b.verdict] = b.ended
		}
		if b.ended.After(last) {
			last = b.ended
		}
	}
	runs := func(from time.Time) fate { return fate{known: true, runs: true, from: from} }
	skipped := func(as check.State, at time.Time) fate { return fate{known: true, verdict: as, from: at, ended: at} }
	switch n.When {
	case "all_done", "always":
		if open == 0 {
			return runs(last)
		}
	case "any_succeeded", "any_failed":
		wanted := check.Succeeded
		if n.When == "any_failed" {
			wanted = check.Failed
		}
		first, met := firsts[wanted]
		switch {
		case met && open == 0:
			return runs(first)
		case met: // one whose end is not known may have been the first
			return runs(time.Time{})
		case open == 0:
			return skipped(worst, last)
		}
	default:
		first, failed := firsts[check.Failed]
		switch {
		case failed && open == 0:
			return skipped(check.Failed, first)
		case failed:
			return skipped(check.Failed, time.Time{})
		case open == 0:
			return runs(last)
		}
	}
	return fate{}
}

// waited ends a step that waits: it succeeds when its time comes.
func (f *fate) waited(w *Wait) {
	if f.known {
		f.verdict = check.Succeeded
	}
	if !f.from.IsZero() {
		f.ended = f.from.Add(max(time.Duration(w.For)-WaitSlack, 0))
	}
}

// add takes an end of one run of a step into that of the step: it has failed if one has, and has ended
// when all have.
func (f *fate) add(verdict check.State, ended time.Time) {
	if f.verdict == "" || verdict == check.Failed {
		f.verdict = verdict
	}
	if ended.After(f.ended) {
		f.ended = ended
	}
}
