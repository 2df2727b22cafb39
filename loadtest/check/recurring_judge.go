package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// SkipAfter is how late a run of a job with the policy skip may be, without a shorter deadline
// (DESIGN section 5).
const SkipAfter = time.Minute

// JudgeRecurring judges recurring jobs by the rules of the package comment. It is a pure function
// of h. The error is ErrHistory: a job created twice, or a schedule that the judge cannot compute.
func JudgeRecurring(h RecurringHistory) (RecurringReport, error) {
	j := newRecurringJudge(h)
	jobs, err := j.gather()
	if err != nil {
		return RecurringReport{}, err
	}
	for _, job := range jobs {
		j.job(job)
	}
	return j.sum(), nil
}

// Unsettled returns the ids of acknowledged jobs with a target without a verdict, or with one that
// time may mend. They are worth reading again. Errors are those of JudgeRecurring.
func Unsettled(h RecurringHistory) ([]string, error) {
	j := newRecurringJudge(h)
	jobs, err := j.gather()
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, job := range jobs {
		open := func() int {
			return j.rep.Missed + j.rep.Unfinished + j.rep.Unreadable + j.fills.Missed + j.fills.Unfinished + j.fills.Unreadable
		}
		before := open()
		j.job(job)
		if open() > before {
			ids = append(ids, job.id)
		}
	}
	return ids, nil
}

type recurringJudge struct {
	h     RecurringHistory
	rep   RecurringReport
	fills BackfillReport
	base  judge // judges what a run is judged for whatever it is a run of
	stops *stopJudge
}

func newRecurringJudge(h RecurringHistory) *recurringJudge {
	kills := slices.Clone(h.Kills)
	for _, s := range h.Stops {
		kills = append(kills, Kill{At: s.From})
	}
	return &recurringJudge{
		h: h, stops: newStopJudge(h.Stops),
		base: judge{h: History{SeenAll: h.SeenAll, Kills: kills, Calm: h.Calm, Doubles: h.Doubles, StreamLosses: h.StreamLosses}, bound: h.Late, reported: newLateness(), seen: newLateness(), faults: map[Kind][]Fault{}},
	}
}

// recurringRun is one run of a job, and which of its phases may have planned it.
type recurringRun struct {
	run
	due, nominal int64
	phases       []*phase
	shown        *JobRun // as it was read last; nil: it is not in the job's history
}

func (j *recurringJudge) fault(kind Kind, of *recurringJob, id, format string, args ...any) {
	j.base.fault(kind, &run{id: id, job: &job{Ask: &Ask{Ref: of.ref}}}, format, args...)
}

// gather sorts the history by job. Jobs that were never acknowledged are left out; their runs are
// no fault.
func (j *recurringJudge) gather() ([]*recurringJob, error) {
	jobs := make(map[Ref]*recurringJob)
	ids := make(map[string]*recurringJob)
	for i := range j.h.Events {
		e := &j.h.Events[i]
		job := jobs[e.Ref]
		if job == nil {
			job = &recurringJob{ref: e.Ref, kills: j.h.Kills, off: j.h.Off}
			jobs[e.Ref] = job
		}
		job.events = append(job.events, e)
		switch {
		case e.Refused:
			j.rep.Changes.Refused++
		case e.Acked.IsZero():
			j.rep.Changes.Unknown++
		default:
			j.rep.Changes.count(e.Kind)
		}
		if e.Kind != JobCreated || e.Acked.IsZero() {
			continue
		}
		if job.id != "" || ids[e.Job.ID] != nil {
			return nil, fmt.Errorf("%w: job %s created twice, or under the id of another", ErrHistory, e.Ref)
		}
		job.id, job.acked = e.Job.ID, e.Acked
		ids[job.id] = job
	}
	for i := range j.h.Jobs {
		if job := ids[j.h.Jobs[i].ID]; job != nil {
			job.read = &j.h.Jobs[i]
		}
	}
	for i := range j.h.Backfills {
		b := &j.h.Backfills[i]
		job := jobs[b.Ref]
		if job == nil || b.To.IsZero() || b.To.After(b.Requested) {
			return nil, fmt.Errorf("%w: a backfill of job %s, which is none, or up to a time to come", ErrHistory, b.Ref)
		}
		job.asked = append(job.asked, b)
	}
	for i := range j.h.Seen {
		s := &j.h.Seen[i]
		job := jobs[s.Ref]
		if job == nil || job.wholly(func(e *JobEvent) bool { return e.Refused }) {
			j.rep.Unexpected++
			j.base.fault(FaultUnexpected, &run{id: s.Run, seen: []*Sighting{s}}, "it names a job that was not asked for, or was refused")
			continue
		}
		job.seen = append(job.seen, s)
	}
	var known []*recurringJob
	for _, job := range slices.SortedFunc(maps.Values(jobs), func(a, b *recurringJob) int {
		return cmp.Or(cmp.Compare(a.ref.Source, b.ref.Source), cmp.Compare(a.ref.Line, b.ref.Line))
	}) {
		if j.rep.Jobs++; job.id == "" {
			continue
		}
		j.rep.JobsAcknowledged++
		if err := job.plan(j.h.End); err != nil {
			return nil, err
		}
		known = append(known, job)
	}
	return known, nil
}

// wholly reports whether all events of a job are of a kind.
func (j *recurringJob) wholly(is func(*JobEvent) bool) bool {
	return !slices.ContainsFunc(j.events, func(e *JobEvent) bool { return !is(e) })
}

// job judges one job.
func (j *recurringJudge) job(job *recurringJob) {
	for _, f := range job.faults {
		j.rep.Unexpected++
		j.fault(FaultUnexpected, job, "", "%s", f)
	}
	targets := job.targets()
	byNominal := make(map[int64]*target, len(targets))
	for _, t := range targets {
		byNominal[t.nominal] = t
	}
	started := make(map[int64]*recurringRun) // by nominal time
	var fills []*recurringRun
	runs := job.runs()
	job.occupy(runs)
	j.limits(job, runs)
	for _, r := range runs {
		if job.backfilled(r) {
			fills = append(fills, r)
			continue
		}
		j.run(job, r, started)
		if t := byNominal[r.nominal]; t != nil && len(r.phases) > 0 {
			t.runs = append(t.runs, r)
		}
		if r.shown != nil && r.shown.State == Missed {
			j.stretch(job, r, targets)
		}
	}
	unreadable := job.read == nil || job.read.First.Status != Found || job.read.Second.Status != Found
	for _, t := range targets {
		j.verdict(job, t, runs, unreadable)
	}
	j.backfills(job, fills, unreadable)
	if !unreadable {
		j.stops.job(j, job, targets)
	}
}

// The triggers of runs: a schedule names them, or a backfill asked for them.
const (
	bySchedule = "schedule"
	byBackfill = "backfill"
)

// backfilled reports whether a run is of a backfill: its history says so, or it has none and no
// schedule names it.
func (j *recurringJob) backfilled(r *recurringRun) bool {
	if r.shown == nil {
		return len(j.asked) > 0 && len(r.phases) == 0
	}
	return len(j.asked) > 0 && r.shown.Trigger == byBackfill
}

// runs returns everything known of each run of the job, in order of due times.
func (j *recurringJob) runs() []*recurringRun {
	all := make(map[string]*recurringRun)
	of := func(id string) *recurringRun {
		r := all[id]
		if r == nil {
			r = &recurringRun{run: run{id: id, ackedAt: j.acked}}
			all[id] = r
		}
		return r
	}
	for _, s := range j.seen {
		r := of(s.Run)
		r.seen = append(r.seen, s)
	}
	if j.read != nil {
		read := func(reading *JobReading, into func(*Observation) *Reading) {
			for i := range reading.Runs {
				shown := &reading.Runs[i]
				r := of(shown.ID)
				if r.obs == nil {
					r.obs = &Observation{ID: shown.ID, First: Reading{Status: Absent}, Second: Reading{Status: Absent}}
				}
				r.shown = shown
				*into(r.obs) = Reading{Status: Found, At: reading.At, Run: shown.Run}
			}
		}
		read(&j.read.First, func(o *Observation) *Reading { return &o.First })
		read(&j.read.Second, func(o *Observation) *Reading { return &o.Second })
	}
	runs := slices.Collect(maps.Values(all))
	for _, r := range runs {
		slices.SortStableFunc(r.seen, func(a, b *Sighting) int { return a.At.Compare(b.At) })
		r.due = r.claimedDue()
		shown := int64(0)
		if r.shown != nil && !r.shown.NominalAt.IsZero() {
			shown = r.shown.NominalAt.UnixMilli()
		}
		if r.nominal, r.phases = j.naming(r.due, shown); j.backfilled(r) {
			r.nominal, r.phases = shown, nil // its due time says nothing of it
		}
		r.job = &job{Ask: j.askOf(r)}
	}
	slices.SortFunc(runs, func(a, b *recurringRun) int { return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.id, b.id)) })
	return runs
}

// claimedDue returns the due time that the run states: in its id, which never changes; else by the
// API; else to the sink. A due time that no target has makes the run unexpected, so it need not be
// believed.
func (r *recurringRun) claimedDue() int64 {
	if ms, ok := idTime(r.id); ok {
		return ms
	}
	if r.shown != nil {
		return r.shown.DueAt.UnixMilli()
	}
	return r.seen[0].Due.UnixMilli()
}

// idTime returns the time in a run's id (DESIGN section 4): the first 48 bits of a version 8 UUID,
// in ms.
func idTime(id string) (int64, bool) {
	if len(id) != 36 || id[8] != '-' || id[14] != '8' {
		return 0, false
	}
	var ms int64
	for _, c := range strings.ToLower(id[:8] + id[9:13]) {
		digit := strings.IndexRune("0123456789abcdef", c)
		if digit < 0 {
			return 0, false
		}
		ms = ms<<4 | int64(digit)
	}
	return ms, true
}

// firstStart returns the first start by any witness; false if there was none.
func (r *recurringRun) firstStart() (time.Time, bool) {
	var first time.Time
	note := func(at time.Time) {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	for _, s := range r.seen {
		note(s.At)
	}
	for _, reading := range r.found() {
		for _, at := range starts(&reading.Run) {
			note(at)
		}
	}
	return first, !first.IsZero()
}

// attempts judges a run's calls, ends and guarantee, whatever asked for it.
func (j *recurringJudge) attempts(job *recurringJob, r *recurringRun) {
	j.base.executions(&r.run)
	j.base.outcome(&r.run)
	j.base.guarantee(&r.run)
	j.base.contents(&r.run, job.id)
}

// run judges one run by itself; started holds the runs of the job that were judged before and have
// started.
func (j *recurringJudge) run(job *recurringJob, r *recurringRun, started map[int64]*recurringRun) {
	first, began := r.firstStart()
	unexpected := func(format string, args ...any) {
		j.rep.Unexpected++
		j.fault(FaultUnexpected, job, r.id, format, args...)
	}
	if r.shown != nil {
		due := time.UnixMilli(r.due)
		switch {
		case r.shown.Trigger != "" && r.shown.Trigger != bySchedule:
			unexpected("it came about by %q, which nobody asked for", r.shown.Trigger)
			return
		case !r.shown.DueAt.Equal(due):
			unexpected("its id says that it is due %s, and the API %s", stamp(due), stamp(r.shown.DueAt))
			return
		}
	}
	j.attempts(job, r)
	switch {
	case len(r.phases) == 0 && !began && r.shown != nil && r.shown.State == Cancelled:
		// planned for a schedule that is none any more, or never was: nothing came of it
		j.rep.Dropped++
		return
	case len(r.phases) == 0:
		unexpected("due %s, which its schedule does not name", stamp(time.UnixMilli(r.due)))
		return
	case r.shown != nil && !r.shown.NominalAt.IsZero() && !slices.ContainsFunc(r.phases, func(p *phase) bool {
		return p.unknown || r.shown.NominalAt.UnixMilli() == r.due-p.offset
	}):
		unexpected("due %s for the nominal time %s: that is not the offset of its job", stamp(time.UnixMilli(r.due)), stamp(r.shown.NominalAt))
	}
	if !began {
		if r.shown != nil && r.shown.State == Cancelled {
			j.rep.Dropped++
		}
		return
	}
	if other := started[r.nominal]; other != nil && !j.nearChange(job, min(r.due, other.due)) {
		unexpected("a second run for %s, beside run %s", stamp(time.UnixMilli(r.nominal)), other.id)
	}
	started[r.nominal] = r
	due := time.UnixMilli(r.due)
	if at, early := j.early(r, due); early {
		j.rep.Early++
		j.fault(FaultEarly, job, r.id, "started %s, due %s", stamp(at), stamp(due))
		return
	}
	j.ghost(job, r, first)
	var seen, reported time.Duration
	if len(r.seen) > 0 {
		seen = r.seen[0].At.Sub(due)
		j.base.seen.record(seen)
	}
	if at, ok := r.reportedStart(); ok {
		reported = at.Sub(due)
		j.base.reported.record(reported)
	}
	if !r.claimLost() { // nobody knows whether it started, or when
		j.base.tooLate(&r.run, max(seen, reported))
	}
}

// early returns the first start before due: a call by more than clocks may be off, a call by its
// caller's own clock, or a start by the API.
func (j *recurringJudge) early(r *recurringRun, due time.Time) (time.Time, bool) {
	for _, s := range r.seen {
		switch {
		case s.At.Add(j.h.Off).Before(due):
			return s.At, true
		case !s.Clock.IsZero() && s.Clock.Before(due):
			return s.Clock, true
		}
	}
	for _, reading := range r.found() {
		for _, at := range starts(&reading.Run) {
			if at.Before(due) {
				return at, true
			}
		}
	}
	return time.Time{}, false
}

const (
	// madeAgainAfter is the least duration of a change that was repeated because its commit was
	// known too late. Others are answered within half a second of the last try.
	madeAgainAfter = time.Second
	// madeAgainFor is how long after the answer to such a change its old side may start runs: 1.9 s
	// after a commit that was retried at least half a second before the answer.
	madeAgainFor = 1400 * time.Millisecond
)

// nearChange reports whether both sides of a change may run one nominal time: the change was
// repeated because its commit was known too late, or clocks are off. dueAt is the earlier of the
// two due times.
func (j *recurringJudge) nearChange(of *recurringJob, dueAt int64) bool {
	due := time.UnixMilli(dueAt)
	return slices.ContainsFunc(of.events, func(e *JobEvent) bool {
		slack := time.Duration(0)
		switch {
		case j.h.Off > 0:
			slack = ChangeGrace + j.h.Off
		case e.Acked.Sub(e.Requested) > madeAgainAfter:
			slack = madeAgainFor
		}
		return e.Kind != JobCreated && !e.Refused && due.After(e.Requested) && (e.Acked.IsZero() || due.Before(e.Acked.Add(slack)))
	})
}

func (r *recurringRun) reportedStart() (time.Time, bool) {
	if r.shown == nil {
		return time.Time{}, false
	}
	return r.shown.started()
}

// ghost judges the first start against the change that ended the run's phases, and after a cancel
// every later start too.
func (j *recurringJudge) ghost(job *recurringJob, r *recurringRun, first time.Time) {
	until, over := int64(0), int64(0)
	for _, p := range r.phases {
		until, over = max(until, p.starts), max(over, p.over)
	}
	ghost := func(what string, at time.Time, end int64) {
		j.rep.Ghosts++
		j.fault(FaultGhost, job, r.id, "%s %s, due %s, the change acknowledged %s", what, stamp(at), stamp(time.UnixMilli(r.due)),
			stamp(time.UnixMilli(end).Add(-ChangeGrace)))
	}
	if first.UnixMilli() > until {
		ghost("started", first, until)
		return
	}
	for _, s := range r.seen {
		if s.At.UnixMilli() > over && !r.underWay(s) {
			ghost("arrived at the sink", s.At, over)
			return
		}
	}
}

func (j *recurringJudge) sum() RecurringReport {
	j.base.quantiles()
	rep := j.rep
	rep.End, rep.Bound, rep.TooLate = j.h.End, j.h.Late, j.base.rep.TooLate
	rep.Answers = j.base.rep.Answers
	rep.DuplicateExecutions, rep.DuplicateOutcomes = j.base.rep.DuplicateExecutions, j.base.rep.DuplicateOutcomes
	rep.LateSuccesses = j.base.rep.LateSuccesses
	rep.SeenAll, rep.Sightings = j.h.SeenAll, len(j.h.Seen)
	rep.Reported, rep.Seen = j.base.reported.sum(), j.base.seen.sum()
	rep.Guarantees = j.base.rep.Guarantees
	slices.SortFunc(rep.Guarantees, compareGuarantees)
	rep.Policies = j.stops.sum()
	slices.SortFunc(rep.Limits, compareSlots)
	if len(j.h.Backfills) > 0 {
		rep.Backfills = &j.fills
	}
	rep.Faults = []Fault{}
	for _, k := range []Kind{
		FaultMissed, FaultEarly, FaultUnexpected, FaultGhost, FaultDuplicateOutcome, FaultOverlap, FaultSecondStart, FaultFence, FaultRewritten, FaultPolicy, FaultCrowded, FaultOver, FaultTwice, FaultTooLate,
		FaultUntrue, FaultEarlyEnd, FaultFinalRetried, FaultUnrecorded, FaultUnexplained, FaultCalledTwice, FaultAltered, FaultUnreadable, FaultUnfinished,
		FaultUnseen, FaultDuplicateExecution,
	} {
		rep.Faults = append(rep.Faults, j.base.faults[k]...)
	}
	return rep
}
