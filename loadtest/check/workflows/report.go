package workflows

import (
	"io"

	"carillon.dev/carillon/loadtest/check"
)

// The kinds of fault that package check has not. Each is also a counter of [Report].
const (
	FaultExtra  check.Kind = "extra"
	FaultStuck  check.Kind = "stuck"
	FaultUntrue check.Kind = "untrue"
)

// Report is the judgement.
type Report struct {
	// Triggers = Acknowledged + Unknown. UnknownRan is how many of Unknown were found to have a run.
	Triggers     int `json:"triggers"`
	Acknowledged int `json:"acknowledged"`
	Unknown      int `json:"unknown"`
	UnknownRan   int `json:"unknown_ran"`
	// DoneFailed is how many of the acknowledged runs have failed, as their definition and the answers
	// make it.
	DoneFailed int `json:"done_failed"`

	// Forgiven are acknowledged runs with calls in a loss. Only that they ended is judged (rule
	// 10).
	Forgiven int `json:"forgiven,omitempty"`

	// StepRuns were called: runs of steps, Items of them of items. FailedSteps, Skipped and Waits count
	// steps: those that have failed, were not to run, or waited for a time.
	StepRuns    int `json:"step_runs"`
	Items       int `json:"items"`
	FailedSteps int `json:"failed_steps"`
	Skipped     int `json:"skipped_steps"`
	Waits       int `json:"waits"`
	// Retried counts calls of attempts beyond the first.
	Retried int `json:"retried_calls"`

	// Missed counts runs that the API does not know, and steps that were never called; of a step with
	// items once for all.
	Missed int `json:"missed"`
	// Extra counts runs of steps, attempts beyond the bound, calls of other addresses, and workflow runs
	// that nobody asked for.
	Extra int `json:"extra"`
	// Stuck counts workflow runs without an end.
	Stuck int `json:"stuck"`
	// Untrue counts states of workflow runs and of steps.
	Untrue int `json:"untrue"`
	// Early counts runs of steps.
	Early int `json:"early"`

	// DuplicateExecutions counts surplus calls, Unexplained the attempts of which the records do not
	// explain them, CalledTwice the runs of steps of which one process has started an attempt twice.
	DuplicateExecutions int `json:"duplicate_executions"`
	Unexplained         int `json:"unexplained_duplicates"`
	CalledTwice         int `json:"called_twice_by_one_process"`

	// Unreadable counts workflow runs, Unread runs of steps that were called twice, Unlisted windows of
	// time.
	Unreadable int `json:"unreadable"`
	Unread     int `json:"unread_steps"`
	Unlisted   int `json:"unlisted"`

	// SeenAll is [History.SeenAll]; Sightings is the number of arrivals at the sink.
	SeenAll   bool `json:"seen_all"`
	Sightings int  `json:"sightings"`

	// Late is from when the condition of a step was met until its first call, by the sink.
	Late    check.Lateness      `json:"lateness_seen"`
	Bound   check.LatenessBound `json:"lateness_bound,omitzero"`
	TooLate int                 `json:"too_late"`

	Faults []check.Fault `json:"faults"`
}

// Failed reports whether a promise was broken, or too much is unknown to confirm it.
func (r *Report) Failed() bool {
	broken := r.Missed + r.Extra + r.Stuck + r.Untrue + r.Early + r.Unexplained + r.CalledTwice + r.TooLate
	unknown := r.Unreadable + r.Unread + r.Unlisted
	return broken+unknown > 0 || !r.SeenAll
}

// sum makes the report.
func (j *judge) sum() Report {
	rep := j.rep
	rep.Triggers, rep.Unlisted, rep.Bound = len(j.h.Triggers), j.h.Unlisted, j.h.Late
	rep.SeenAll, rep.Sightings, rep.Late = j.h.SeenAll, len(j.h.Seen), check.SumLateness(j.late)
	rep.Faults = []check.Fault{}
	for _, k := range []check.Kind{
		check.FaultMissed, FaultExtra, FaultStuck, FaultUntrue, check.FaultEarly, check.FaultUnexplained, check.FaultCalledTwice, check.FaultTooLate,
		check.FaultUnreadable, check.FaultDuplicateExecution,
	} {
		rep.Faults = append(rep.Faults, j.faults[k]...)
	}
	return rep
}

// WriteJSON writes r as indented JSON, for machines and for keeping.
func (r *Report) WriteJSON(w io.Writer) error {
	return check.WriteJSON(w, struct {
		*Report
		Failed bool `json:"failed"`
	}{r, r.Failed()})
}

// WriteText writes r as a table, for people.
func (r *Report) WriteText(w io.Writer) error {
	p, flush := check.NewTable(w, 0)
	p("workflow runs\t%d\t(acknowledged %d, unknown %d of which %d ran)", r.Triggers, r.Acknowledged, r.Unknown, r.UnknownRan)
	p("of which failed\t%d\t(as they had to)", r.DoneFailed)
	p("runs of steps\t%d\t(of items %d; steps that failed %d, were skipped %d, waited %d; calls of later attempts %d)",
		r.StepRuns, r.Items, r.FailedSteps, r.Skipped, r.Waits, r.Retried)
	if r.Forgiven > 0 {
		p("not judged but for their end\t%d\t(called in a span whose writes may have been lost)", r.Forgiven)
	}
	p("missed\t%d\t", r.Missed)
	p("extra\t%d\t", r.Extra)
	p("stuck\t%d\t", r.Stuck)
	p("untrue\t%d\t", r.Untrue)
	p("early\t%d\t", r.Early)
	p("duplicate executions\t%d\t(allowed as far as they are explained; unexplained %d, called twice by one process %d)", r.DuplicateExecutions, r.Unexplained, r.CalledTwice)
	p("unreadable\t%d\t(runs of steps that were called twice %d, windows not listed %d)", r.Unreadable, r.Unread, r.Unlisted)
	p("too late\t%d\t(bound: %s)", r.TooLate, r.Bound)
	p("sink saw\t%d\t(record complete: %t)", r.Sightings, r.SeenAll)
	l := r.Late
	p("start after those before, ms\t\t(p50 %.1f, p90 %.1f, p99 %.1f, p99.9 %.1f, max %.1f of %d)", l.P50, l.P90, l.P99, l.P999, l.Max, l.Count)
	check.WriteFaults(p, r.Faults, r.Failed())
	return flush()
}
