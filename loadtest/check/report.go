package check

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// MaxFaults bounds how many faults of one kind a [Report] spells out. The counters are not bounded.
const MaxFaults = 20

// Kind names a fault.
type Kind string

// The kinds of fault. Each is also a counter of [Report].
const (
	FaultMissed             Kind = "missed"
	FaultEarly              Kind = "early"
	FaultUnexpected         Kind = "unexpected"
	FaultGhost              Kind = "ghost"
	FaultDuplicateExecution Kind = "duplicate execution"
	FaultDuplicateOutcome   Kind = "duplicate outcome"
	FaultReversed           Kind = "end that did not last"
	FaultUnfinished         Kind = "unfinished"
	FaultUnreadable         Kind = "unreadable"
	FaultUnseen             Kind = "unseen"
	FaultOverlap            Kind = "overlap"
	FaultSecondStart        Kind = "second start"
	FaultFence              Kind = "bad fence"
	FaultUntrue             Kind = "untrue outcome"
	FaultRewritten          Kind = "rewritten record"
	FaultEarlyEnd           Kind = "failed for good too soon"
	FaultFinalRetried       Kind = "retry of a final answer"
	FaultUnrecorded         Kind = "call without a record"
	FaultAltered            Kind = "altered call"
	FaultUnexplained        Kind = "duplicate without a redispatch"
	FaultCalledTwice        Kind = "one attempt started twice by one process"
	FaultExcessAttempt      Kind = "attempt beyond the bound"
	FaultEarlyRetry         Kind = "retry too soon"
	FaultTooLate            Kind = "too late"
	FaultPastDeadline       Kind = "started past its deadline"
	FaultNotUnique          Kind = "not the only one of its unique key"
	FaultElsewhere          Kind = "started outside of the region that it requires"
	FaultWaitsSilently      Kind = "waits for its region, and does not say so"
	FaultMisplaced          Kind = "started by an executor without its labels"
	FaultPreempted          Kind = "pre-emption against the rules"
	FaultNoDeadLetter       Kind = "failed without a dead letter"
	FaultSurplusDeadLetter  Kind = "dead letter of a run that should have none"
)

// Fault is one thing found, in words for a person.
type Fault struct {
	Kind   Kind   `json:"kind"`
	Run    string `json:"run,omitempty"`
	Job    string `json:"job,omitempty"` // the Ref of the job, as "source/line"
	Reason string `json:"reason"`
}

// Report is the judgement. Counters count runs unless they say otherwise.
//
//	Acknowledged = Done + Cancelled + MissedByPolicy + Missed + Unfinished + NotDue + Unreadable
type Report struct {
	// Asked = Acknowledged + Refused + Unknown + Existing, in jobs. A job without a key that was
	// acknowledged twice adds a run to Acknowledged, and to this sum.
	Asked        int `json:"asked"`
	Acknowledged int `json:"acknowledged"`
	Refused      int `json:"refused"`
	Unknown      int `json:"unknown"`
	// UnknownRan is how many of Unknown were found to have a run. They may.
	UnknownRan int `json:"unknown_ran"`

	// Done: started, and ended in succeeded or failed (or in cancelled, on request).
	Done int `json:"done"`
	// DoneFailed is the part of Done that ended in failed.
	DoneFailed int `json:"done_failed"`
	// Cancelled: never started, as asked.
	Cancelled int `json:"cancelled"`
	// MissedByPolicy: recorded as missed, and the job's misfire policy or deadline says so.
	MissedByPolicy int `json:"missed_by_policy"`
	// Missed: due, never started or without any trace, and nothing that was asked explains it.
	Missed int `json:"missed"`
	// Unfinished: started or cancelled, and without an end at the last read. It fails: there is no
	// verdict.
	Unfinished int `json:"unfinished"`
	// NotDue: pending, and due after the last read. No verdict yet.
	NotDue int `json:"not_due"`
	// Unreadable: acknowledged, and at least one of the two reads brought no answer.
	Unreadable int `json:"unreadable"`
	// UnreadableOthers: the same for listed runs that were not acknowledged.
	UnreadableOthers int `json:"unreadable_others"`
	// Unlisted counts windows of time that could not be listed: unexpected runs may hide there.
	Unlisted int `json:"unlisted"`
	// Unseen: succeeded says the API, but an incomplete record of the sink does not show it.
	Unseen int `json:"unseen"`

	Early      int `json:"early"`
	Unexpected int `json:"unexpected"`
	Ghosts     int `json:"ghosts_after_cancel"`
	// DuplicateExecutions counts surplus executions, not runs.
	DuplicateExecutions int `json:"duplicate_executions"`
	DuplicateOutcomes   int `json:"duplicate_outcomes"`
	// LateSuccesses: failed, missed or cancelled at the first read, succeeded at the second, as
	// at_least_once allows.
	LateSuccesses int `json:"late_successes"`
	// Reversed runs were seen at an end and later in another state. Watched runs were read all
	// along.
	Reversed int `json:"reversed_ends"`
	Watched  int `json:"watched"`

	// DeadLetters have no resolution yet. NoDeadLetter runs have failed without a dead letter or a
	// resolution. SurplusDeadLetters are of runs that should have none.
	DeadLetters        int `json:"dead_letters"`
	NoDeadLetter       int `json:"failed_without_dead_letter"`
	SurplusDeadLetters int `json:"dead_letters_too_many"`
	// ExcessAttempts have a number above the bound. EarlyRetries came before the wait that the
	// policy or the receiver asked for was over. AskedToWait counts the calls after an answer with
	// Retry-After: without any, nothing shows that it is obeyed.
	ExcessAttempts int `json:"excess_attempts"`
	EarlyRetries   int `json:"early_retries"`
	AskedToWait    int `json:"asked_to_wait"`

	Answers

	// Guarantees sums up runs by guarantee, in the order of their names.
	Guarantees []GuaranteeCount `json:"guarantees"`

	// Limits and Rates are those of tasks.
	Limits []SlotCount `json:"limits,omitempty"`
	Rates  []RateCount `json:"rates,omitempty"`

	// Forgiven is what a power cut may have taken; nil = no cut was stated.
	Forgiven *Forgiven `json:"forgiven,omitempty"`

	// SeenAll is [History.SeenAll]; Sightings is the number of arrivals at the sink.
	SeenAll   bool `json:"seen_all"`
	Sightings int  `json:"sightings"`

	// Reported is lateness by the API, Seen by the sink, both of acknowledged runs.
	Reported Lateness `json:"lateness_reported"`
	Seen     Lateness `json:"lateness_seen"`
	// Bound is [History.Late]. TooLate counts runs beyond its maximum, and one for each quantile
	// beyond it.
	Bound   LatenessBound `json:"lateness_bound,omitzero"`
	TooLate int           `json:"too_late"`
	// PastDeadline runs first started when their misfire policy did not let them any more.
	PastDeadline int `json:"past_deadline"`
	// Misplaced runs were started by an executor that lacks labels which they require.
	Misplaced int `json:"misplaced"`
	// Preemptions is how often runs were stopped for critical ones, WronglyPreempted how many runs
	// were stopped that must not be, too often, or without starting again.
	Preemptions      int `json:"preemptions"`
	WronglyPreempted int `json:"wrongly_preempted"`

	// Existing jobs were answered with one that was there, of their unique key. NotUnique runs were
	// created within the window of another of their unique key, or were answered to a job of
	// another.
	Existing  int `json:"existing,omitempty"`
	NotUnique int `json:"not_unique"`

	// Elsewhere runs started, by the API, in another region than the one that they require.
	// WaitedForRegion were seen to wait for it, and WaitedSilently to wait without saying so, while
	// it did not serve their home.
	Elsewhere       int `json:"started_elsewhere"`
	WaitedForRegion int `json:"waited_for_region"`
	WaitedSilently  int `json:"waited_silently"`

	Faults []Fault `json:"faults"`
}

// Failed reports whether a promise was broken, or too much is unknown to confirm it.
func (r *Report) Failed() bool {
	broken := r.Reversed + r.Missed + r.Early + r.Unexpected + r.Ghosts + r.DuplicateOutcomes + r.NoDeadLetter + r.SurplusDeadLetters + r.ExcessAttempts + r.EarlyRetries + r.TooLate + r.PastDeadline + r.Misplaced + r.WronglyPreempted + r.NotUnique + r.Elsewhere + r.WaitedSilently +
		r.broken()
	broken += brokenGuarantees(r.Guarantees) + brokenLimits(r.Limits, r.Rates)
	unknown := r.Unreadable + r.UnreadableOthers + r.Unlisted + r.Unfinished
	return broken+unknown > 0
}

// WriteJSON writes r as indented JSON, for machines and for keeping.
func (r *Report) WriteJSON(w io.Writer) error {
	return WriteJSON(w, struct {
		*Report
		Failed bool `json:"failed"`
	}{r, r.Failed()})
}

// WriteJSON writes a report as indented JSON.
func WriteJSON(w io.Writer, report any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(report); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// NewTable returns a func that adds a row to a table in w, cells apart by tabs, and one that writes it.
func NewTable(w io.Writer, flags uint) (row func(format string, args ...any), flush func() error) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', flags)
	row = func(format string, args ...any) { _, _ = fmt.Fprintf(tw, format+"\n", args...) } // Flush has its errors
	return row, func() error {
		if err := tw.Flush(); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		return nil
	}
}

// WriteText writes r as a table, for people.
func (r *Report) WriteText(w io.Writer) error {
	p, flush := NewTable(w, 0)
	p("asked\t%d\t", r.Asked)
	p("acknowledged\t%d\t(refused %d, unknown %d of which %d ran)", r.Acknowledged, r.Refused, r.Unknown, r.UnknownRan)
	p("done\t%d\t(of which failed %d; cancelled unstarted %d, missed by policy %d, not due %d)",
		r.Done, r.DoneFailed, r.Cancelled, r.MissedByPolicy, r.NotDue)
	p("missed\t%d\t", r.Missed)
	p("early\t%d\t", r.Early)
	p("unexpected\t%d\t", r.Unexpected)
	p("ghost after cancel\t%d\t", r.Ghosts)
	p("duplicate executions\t%d\t(counted, allowed for at_least_once as far as they are explained)", r.DuplicateExecutions)
	p("duplicate outcomes\t%d\t(late successes %d, allowed for at_least_once)", r.DuplicateOutcomes, r.LateSuccesses)
	p("reversed ends\t%d\t(of %d runs that were looked at all along)", r.Reversed, r.Watched)
	p("retries\t\t(attempts beyond the bound %d, too soon %d; asked by Retry-After to wait %d)", r.ExcessAttempts, r.EarlyRetries, r.AskedToWait)
	p("answers\t\t%s", r.Answers)
	p("dead letters\t%d\t(failed without one %d, of runs that should have none %d)", r.DeadLetters, r.NoDeadLetter, r.SurplusDeadLetters)
	if f := r.Forgiven; f != nil {
		p("acknowledged and lost\t%d\t(of %d that a power cut may take; the oldest %.1f s before it)", f.Lost, f.Acknowledged, f.Oldest)
		p("called before the cut\t%d\t(not judged; called again %d, not ended %d)", f.Repeatable, f.Repeated, f.Unended)
		p("second jobs\t%d\t(not judged; of requests that a region took in and did not answer, as it was cut off)", f.Second)
	}
	p("unfinished\t%d\t", r.Unfinished)
	p("unreadable\t%d\t(runs not acknowledged %d, windows not listed %d)", r.Unreadable, r.UnreadableOthers, r.Unlisted)
	p("too late\t%d\t(bound: %s; past the deadline of a job %d)", r.TooLate, r.Bound, r.PastDeadline)
	if r.Elsewhere+r.WaitedForRegion+r.WaitedSilently > 0 {
		p("required region\t\t(started elsewhere %d, seen to wait for it %d, silently %d)", r.Elsewhere, r.WaitedForRegion, r.WaitedSilently)
	}
	if r.Existing+r.NotUnique > 0 {
		p("unique jobs\t\t(answered with one that was there %d, not the only one %d)", r.Existing, r.NotUnique)
	}
	if r.Preemptions+r.WronglyPreempted > 0 {
		p("pre-emptions\t%d\t(runs against the rules %d)", r.Preemptions, r.WronglyPreempted)
	}
	p("sink saw\t%d\t(record complete: %t; succeeded but unseen %d)", r.Sightings, r.SeenAll, r.Unseen)
	if err := flush(); err != nil {
		return err
	}
	if err := writeGuarantees(w, r.Guarantees); err != nil {
		return err
	}
	if err := writeLimits(w, r.Limits, r.Rates); err != nil {
		return err
	}
	return writeTail(w, r.Reported, r.Seen, r.Faults, r.Failed())
}

// writeGuarantees writes a table of guarantees, unless all are at_least_once.
func writeGuarantees(w io.Writer, counts []GuaranteeCount) error {
	if !slices.ContainsFunc(counts, func(g GuaranteeCount) bool { return g.Guarantee != AtLeastOnce }) {
		return nil
	}
	p, flush := NewTable(w, tabwriter.AlignRight)
	p("\n\truns\tsucceeded\tfailed\tcalls\trepeated\tduplicate\tabandoned\tlost\tsuperseded\tmost attempts\toverlaps\tsecond starts\tbad fences\tuntrue\trewritten\tstale\t")
	for i := range counts {
		g := &counts[i]
		p("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t", g.Guarantee, g.Runs, g.Succeeded, g.Failed, g.Calls, g.Repeated,
			g.Duplicate, g.Abandoned, g.Lost, g.Superseded, g.MostAttempts, g.Overlaps, g.SecondStarts, g.Fences, g.Untrue, g.Rewritten, g.Stale)
	}
	return flush()
}

// writeTail writes the end of both reports: lateness, faults and verdict.
func writeTail(w io.Writer, reported, seen Lateness, faults []Fault, failed bool) error {
	p, flush := NewTable(w, tabwriter.AlignRight)
	p("\nlateness, ms\tp50\tp90\tp99\tp99.9\tmax\truns\t")
	for _, l := range []struct {
		name string
		of   Lateness
	}{{"as reported", reported}, {"as seen by the sink", seen}} {
		p("%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t", l.name, l.of.P50, l.of.P90, l.of.P99, l.of.P999, l.of.Max, l.of.Count)
	}
	WriteFaults(p, faults, failed)
	return flush()
}

// WriteFaults adds faults and the verdict to the end of a table.
func WriteFaults(row func(format string, args ...any), faults []Fault, failed bool) {
	if len(faults) > 0 {
		row("\nfaults (at most %d of a kind):", MaxFaults)
	}
	for _, f := range faults {
		row("  %s: run %s job %s: %s", f.Kind, cmp.Or(f.Run, "?"), cmp.Or(f.Job, "?"), f.Reason)
	}
	verdict := "ok"
	if failed {
		verdict = "FAILED"
	}
	row("\n%s", verdict)
}
