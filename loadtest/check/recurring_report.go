package check

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// FaultPolicy: after a stop a job ran more or less than its misfire policy says. It is also a
// counter of [RecurringReport].
const FaultPolicy Kind = "policy"

// RecurringReport is the judgement on recurring jobs. A target is a nominal time that had to run:
// from the acknowledgement of the job's creation ([ChangeGrace] after that of a change) to the
// request of the next change, or the end of the observation.
//
//	Targets = Done + MissedByPolicy + Missed + Unfinished + Unreadable, always
type RecurringReport struct {
	Jobs             int         `json:"jobs"`
	JobsAcknowledged int         `json:"jobs_acknowledged"`
	Changes          EventCounts `json:"changes"`
	End              time.Time   `json:"end"` // of the observation

	Targets int `json:"targets"`
	// Done: started, and ended in succeeded or failed (or in cancelled, once under way).
	Done int `json:"done"`
	// DoneFailed is the part of Done that ended in failed.
	DoneFailed int `json:"done_failed"`
	// MissedByPolicy: recorded as missed for a reason that the policy, the limit or a change of the
	// job bears out; or cancelled unstarted because of the limit. MissedReasons counts them by the
	// API's reason, up to the colon.
	MissedByPolicy int            `json:"missed_by_policy"`
	MissedReasons  map[string]int `json:"missed_reasons,omitempty"`
	// Missed: neither started nor recorded, or recorded for no good reason.
	Missed int `json:"missed"`
	// Unfinished: it ran, and the history of its job does not know it (any more) at the last read.
	Unfinished int `json:"unfinished"`
	// Unreadable: the history of its job could not be read twice.
	Unreadable int `json:"unreadable"`
	// Unseen: ended says the API, but an incomplete record of the sink does not show it.
	Unseen int `json:"unseen"`

	// The rest counts runs. Dropped runs were planned and not started, since their job was changed.
	Dropped    int `json:"dropped"`
	Early      int `json:"early"`
	Unexpected int `json:"unexpected"`
	// Ghosts started more than ChangeGrace after the acknowledgement of the change that ended their
	// plan.
	Ghosts int `json:"ghosts_after_change"`
	// DuplicateExecutions counts surplus executions.
	DuplicateExecutions int `json:"duplicate_executions"`
	DuplicateOutcomes   int `json:"duplicate_outcomes"`
	LateSuccesses       int `json:"late_successes"`
	Answers

	// Guarantees sums up runs by guarantee, in the order of their names.
	Guarantees []GuaranteeCount `json:"guarantees,omitempty"`

	// PolicyBroken counts jobs whose runs after a stop differ from their policy; Policies has the
	// counts.
	PolicyBroken int           `json:"policy_broken"`
	Policies     []PolicyCount `json:"policies,omitempty"`

	// Limits sums up jobs with a limit, by on_limit.
	Limits []SlotCount `json:"limits,omitempty"`

	// Backfills is the judgement on backfills; nil: none was asked for.
	Backfills *BackfillReport `json:"backfills,omitempty"`

	SeenAll   bool `json:"seen_all"`
	Sightings int  `json:"sightings"`

	// Lateness is first start − due time of the target.
	Reported Lateness `json:"lateness_reported"`
	Seen     Lateness `json:"lateness_seen"`
	// Bound is [RecurringHistory.Late], and TooLate as in [Report].
	Bound   LatenessBound `json:"lateness_bound,omitzero"`
	TooLate int           `json:"too_late"`

	Faults []Fault `json:"faults"`
}

// EventCounts counts the acknowledged events of recurring jobs by kind, and those that were not.
type EventCounts struct {
	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Paused    int `json:"paused"`
	Resumed   int `json:"resumed"`
	Cancelled int `json:"cancelled"`
	Refused   int `json:"refused"`
	Unknown   int `json:"unknown"`
}

func (c *EventCounts) count(kind JobEventKind) {
	switch kind {
	case JobCreated:
		c.Created++
	case JobUpdated:
		c.Updated++
	case JobPaused:
		c.Paused++
	case JobResumed:
		c.Resumed++
	case JobCancelled:
		c.Cancelled++
	}
}

// addReason counts a missed target by its reason, up to the colon.
func (r *RecurringReport) addReason(reason string) {
	if r.MissedReasons == nil {
		r.MissedReasons = map[string]int{}
	}
	cause, _, _ := strings.Cut(reason, ":")
	r.MissedReasons[cause]++
}

// Failed reports whether a promise was broken, or too much is unknown to confirm it.
func (r *RecurringReport) Failed() bool {
	broken := r.Missed + r.Early + r.Unexpected + r.Ghosts + r.DuplicateOutcomes + r.PolicyBroken + r.TooLate + r.broken() +
		brokenGuarantees(r.Guarantees) + brokenLimits(r.Limits, nil)
	return broken+r.Unreadable+r.Unfinished > 0 || r.Backfills != nil && r.Backfills.failed()
}

// WriteJSON writes r as indented JSON, for machines and for keeping.
func (r *RecurringReport) WriteJSON(w io.Writer) error {
	return WriteJSON(w, struct {
		*RecurringReport
		Failed bool `json:"failed"`
	}{r, r.Failed()})
}

// Reasons lists the reasons: "deadline 3, run_latest 4"; "none" if there are none.
func (r *RecurringReport) Reasons() string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(r.MissedReasons)) {
		parts = append(parts, fmt.Sprintf("%s %d", reason, r.MissedReasons[reason]))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// WriteText writes r as a table, for people.
func (r *RecurringReport) WriteText(w io.Writer) error {
	p, flush := NewTable(w, 0)
	c := &r.Changes
	p("jobs\t%d\t(acknowledged %d; updated %d, paused %d, resumed %d, cancelled %d; refused %d, unknown %d)",
		r.Jobs, r.JobsAcknowledged, c.Updated, c.Paused, c.Resumed, c.Cancelled, c.Refused, c.Unknown)
	p("targets\t%d\t(up to %s)", r.Targets, stamp(r.End))
	p("done\t%d\t(of which failed %d)", r.Done, r.DoneFailed)
	p("missed by policy\t%d\t(%s)", r.MissedByPolicy, r.Reasons())
	p("missed\t%d\t", r.Missed)
	p("early\t%d\t", r.Early)
	p("unexpected\t%d\t", r.Unexpected)
	p("ghost after change\t%d\t(runs that were planned and dropped: %d)", r.Ghosts, r.Dropped)
	p("duplicate executions\t%d\t(counted, allowed for at_least_once as far as they are explained)", r.DuplicateExecutions)
	p("answers\t\t%s", r.Answers)
	p("duplicate outcomes\t%d\t(late successes %d, allowed for at_least_once)", r.DuplicateOutcomes, r.LateSuccesses)
	p("unfinished\t%d\t", r.Unfinished)
	p("unreadable\t%d\t", r.Unreadable)
	p("too late\t%d\t(bound: %s)", r.TooLate, r.Bound)
	p("sink saw\t%d\t(record complete: %t; ended but unseen %d)", r.Sightings, r.SeenAll, r.Unseen)
	if b := r.Backfills; b != nil {
		p("backfills\t%d\t(acknowledged %d, refused %d, cancelled %d)", b.Asked, b.Acknowledged, b.Refused, b.Cancelled)
		p("  targets\t%d\t(done %d, of which failed %d; missed %d, unfinished %d, unreadable %d)", b.Targets, b.Done, b.DoneFailed, b.Missed, b.Unfinished, b.Unreadable)
		p("  at a time\t%d\t(at the most; jobs with too many: %d; besides targets: %d; untrue: %d)", b.Most, b.Crowded, b.Besides, b.Untrue)
	}
	if len(r.Policies) > 0 {
		p("policy broken\t%d\t(jobs)", r.PolicyBroken)
	}
	for _, c := range r.Policies {
		p("  %s", c)
	}
	if err := flush(); err != nil {
		return err
	}
	if err := writeGuarantees(w, r.Guarantees); err != nil {
		return err
	}
	if err := writeLimits(w, r.Limits, nil); err != nil {
		return err
	}
	return writeTail(w, r.Reported, r.Seen, r.Faults, r.Failed())
}
