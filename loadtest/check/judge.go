package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrHistory: the history contradicts itself. That is a fault of the test, not of the system.
var ErrHistory = errors.New("history contradicts itself")

// Judge judges h by the rules of the package comment. It is a pure function of h. The error is
// ErrHistory: two jobs or tasks under one name, an answer to a job that was not asked for, or a run
// observed twice.
func Judge(h History) (Report, error) {
	j := judge{
		h: h, bound: h.Late, jobs: make(map[Ref]*job, len(h.Asked)), runs: make(map[string]*run, len(h.Asked)),
		reported: newLateness(), seen: newLateness(), faults: map[Kind][]Fault{}, settled: make(map[string]struct{}, len(h.Settled)),
	}
	for _, id := range h.Settled {
		j.settled[id] = struct{}{}
	}
	if err := errors.Join(h.faultsOfTasks(), j.gather()); err != nil {
		return Report{}, err
	}
	j.existing()
	j.explain()
	for _, id := range j.ids {
		r := j.runs[id]
		if r.job != nil {
			j.times(r)
			j.placed(r)
			j.preempted(r)
		}
		j.executions(r)
		j.guarantee(r)
		j.contents(r, "")
		j.retries(r)
		j.outcome(r)
		j.watch(r)
		j.required(r)
		j.deadLetters(r)
		if r.acked() {
			j.verdict(r)
		}
	}
	j.limits()
	j.unique()
	return j.sum(), nil
}

// job is one asked job with its answers.
type job struct {
	*Ask
	acked, maybe, refused bool
	ran                   bool // unknown only: a run was found
	answers               int
	answered              time.Time // when its last answer was read, or given up; zero: it is not known
	unanswered            bool      // an answer came at no known time
}

// run is everything in the history about one run.
type run struct {
	id      string
	job     *job      // nil: nothing explains this run
	ackedAt time.Time // zero: not acknowledged
	seen    []*Sighting
	watched []Watched
	obs     *Observation
	changes []Change // in order of request
	// supposed: job is a guess: one of its unique key
	supposed bool
}

func (r *run) acked() bool { return !r.ackedAt.IsZero() }

func (r *run) ref() Ref {
	switch {
	case r.job != nil:
		return r.job.Ref
	case len(r.seen) > 0 && !r.seen[0].Ref.IsZero():
		return r.seen[0].Ref
	case r.obs != nil:
		return r.obs.Ref
	default:
		return Ref{}
	}
}

func (r *run) asked() *Ask {
	if r.job == nil {
		return nil
	}
	return r.job.Ask
}

// found returns the readings that brought the run, in order.
func (r *run) found() []*Reading {
	var rs []*Reading
	if r.obs == nil {
		return nil
	}
	for _, reading := range []*Reading{&r.obs.First, &r.obs.Second} {
		if reading.Status == Found {
			rs = append(rs, reading)
		}
	}
	return rs
}

// attempts returns those of all readings, in order.
func (r *run) attempts() []*Attempt {
	var all []*Attempt
	for _, reading := range r.found() {
		for i := range reading.Run.Attempts {
			all = append(all, &reading.Run.Attempts[i])
		}
	}
	return all
}

// started reports whether the sink or any reading shows a start.
func (r *run) started() bool {
	return len(r.seen) > 0 || slices.ContainsFunc(r.found(), func(reading *Reading) bool {
		_, ok := reading.Run.started()
		return ok
	})
}

// A judge has a method for each rule, so more than 25: each adds to one report, and reads one history.
type judge struct {
	h              History
	jobs           map[Ref]*job
	runs           map[string]*run
	found          []found  // answers that a job was there
	ids            []string // of runs, sorted
	settled        map[string]struct{}
	rep            Report
	bound          LatenessBound
	reported, seen lateness
	faults         map[Kind][]Fault
}

func (j *judge) fault(kind Kind, r *run, format string, args ...any) {
	if fs := j.faults[kind]; len(fs) < MaxFaults {
		j.faults[kind] = append(fs, Fault{Kind: kind, Run: r.id, Job: r.ref().String(), Reason: fmt.Sprintf(format, args...)})
	}
}

// run returns the run of that id, made if it is new.
func (j *judge) run(id string) *run {
	r := j.runs[id]
	if r == nil {
		r = &run{id: id}
		j.runs[id] = r
	}
	return r
}

// gather sorts the history by job and by run.
func (j *judge) gather() error {
	for i := range j.h.Asked {
		a := &j.h.Asked[i]
		if j.jobs[a.Ref] != nil {
			return fmt.Errorf("%w: job %s asked for twice", ErrHistory, a.Ref)
		}
		j.jobs[a.Ref] = &job{Ask: a}
	}
	if err := j.gatherAcks(); err != nil {
		return err
	}
	for i := range j.h.Seen {
		s := &j.h.Seen[i]
		r := j.run(s.Run)
		r.seen = append(r.seen, s)
	}
	for _, w := range j.h.States {
		r := j.run(w.Run)
		r.watched = append(r.watched, w)
	}
	for i := range j.h.Runs {
		o := &j.h.Runs[i]
		r := j.run(o.ID)
		if r.obs != nil {
			return fmt.Errorf("%w: run %s observed twice", ErrHistory, o.ID)
		}
		r.obs = o
	}
	for _, c := range j.h.Changes {
		r := j.run(c.Run)
		r.changes = append(r.changes, c)
	}
	j.ids = make([]string, 0, len(j.runs))
	for id, r := range j.runs {
		j.ids = append(j.ids, id)
		slices.SortStableFunc(r.seen, func(a, b *Sighting) int { return a.At.Compare(b.At) })
		slices.SortStableFunc(r.changes, func(a, b Change) int { return a.Requested.Compare(b.Requested) })
	}
	slices.Sort(j.ids)
	return nil
}

// gatherAcks ties runs to jobs. A job with a key has one run: the first acknowledgement names it,
// and a run under another id has no job. A job without a key has a run for each acknowledgement.
func (j *judge) gatherAcks() error {
	acks := make([]*Ack, len(j.h.Acks))
	for i := range j.h.Acks {
		acks[i] = &j.h.Acks[i]
	}
	slices.SortStableFunc(acks, func(a, b *Ack) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	for _, a := range acks {
		jb := j.jobs[a.Ref]
		if jb == nil {
			return fmt.Errorf("%w: an answer to job %s, which was not asked for", ErrHistory, a.Ref)
		}
		jb.answers++
		jb.answered, jb.unanswered = a.At, jb.unanswered || a.At.IsZero()
		switch {
		case a.Existing && (a.ID == "" || a.At.IsZero() || jb.Unique == ""):
			return fmt.Errorf("%w: job %s was there, without an id, a time or a unique key", ErrHistory, a.Ref)
		case a.Existing:
			j.found = append(j.found, found{jb, a})
			j.run(a.ID)
			jb.acked = true
		case a.Status == 200 || a.Status == 201:
			if a.ID == "" || a.At.IsZero() {
				return fmt.Errorf("%w: job %s acknowledged without an id or a time", ErrHistory, a.Ref)
			}
			r := j.run(a.ID)
			if r.job != nil && r.job != jb {
				return fmt.Errorf("%w: run %s acknowledged to jobs %s and %s", ErrHistory, a.ID, r.job.Ref, jb.Ref)
			}
			if r.job == nil && (jb.Key == "" || !jb.acked) {
				r.job, r.ackedAt = jb, a.At
			}
			jb.acked = true
		case a.Status >= 400 && a.Status < 500:
			jb.refused = true
		default:
			jb.maybe = true
		}
	}
	return nil
}

// explain ties each run without an acknowledgement to a job of unknown outcome, and counts the rest
// as unexpected. Runs that name their job come first.
func (j *judge) explain() {
	unknown := 0
	for _, jb := range j.jobs {
		switch {
		case jb.acked:
		case jb.refused && !jb.maybe:
			j.rep.Refused++
		default:
			jb.maybe = true
			unknown++
		}
	}
	j.rep.Unknown = unknown

	var nameless []*run
	for _, id := range j.ids {
		r := j.runs[id]
		if r.job != nil {
			j.crossed(r)
			continue
		}
		if len(r.seen) == 0 && len(r.found()) == 0 {
			continue // only asked for or changed: nothing shows that it exists
		}
		ref := r.ref()
		jb := j.jobs[ref]
		switch {
		case ref.IsZero() && r.id != "":
			nameless = append(nameless, r)
		case jb != nil && r.id != "" && !jb.acked && jb.maybe && !jb.ran:
			jb.ran, r.job = true, jb
			j.rep.UnknownRan++
			j.crossed(r)
		default:
			j.rep.Unexpected++
			j.fault(FaultUnexpected, r, "%s", whyUnexpected(r, jb))
		}
	}
	for _, r := range nameless {
		if j.rep.UnknownRan < unknown {
			j.rep.UnknownRan++
			continue
		}
		j.rep.Unexpected++
		j.fault(FaultUnexpected, r, "no acknowledgement names it, and no job of unknown outcome is left to explain it")
	}
}

func whyUnexpected(r *run, jb *job) string {
	switch {
	case r.id == "":
		return "the sink was called without a run id"
	case jb == nil:
		return "it names a job that was not asked for"
	case jb.acked:
		return "its job was acknowledged under another id"
	case jb.ran:
		return "its job, of unknown outcome, has another run already"
	default:
		return "its job was refused"
	}
}

// crossed finds a run that carries another job's address or payload.
func (j *judge) crossed(r *run) {
	other := Ref{}
	for _, s := range r.seen {
		if !s.Ref.IsZero() && s.Ref != r.job.Ref {
			other = s.Ref
		}
	}
	if r.obs != nil && !r.obs.Ref.IsZero() && r.obs.Ref != r.job.Ref {
		other = r.obs.Ref
	}
	if !other.IsZero() {
		j.rep.Unexpected++
		j.fault(FaultUnexpected, r, "it carries what was asked for as job %s", other)
	}
}

func (j *judge) sum() Report {
	j.quantiles()
	rep := j.rep
	rep.Asked, rep.Bound = len(j.h.Asked), j.h.Late
	rep.Unlisted = j.h.Unlisted
	rep.SeenAll, rep.Sightings = j.h.SeenAll, len(j.h.Seen)
	rep.Reported, rep.Seen = j.reported.sum(), j.seen.sum()
	slices.SortFunc(rep.Guarantees, compareGuarantees)
	rep.Faults = []Fault{}
	for _, k := range []Kind{
		FaultMissed, FaultEarly, FaultUnexpected, FaultGhost, FaultDuplicateOutcome, FaultReversed, FaultOverlap, FaultSecondStart, FaultFence,
		FaultUntrue, FaultEarlyEnd, FaultFinalRetried, FaultUnrecorded, FaultUnexplained, FaultCalledTwice, FaultAltered, FaultRewritten, FaultNoDeadLetter, FaultSurplusDeadLetter, FaultExcessAttempt, FaultEarlyRetry, FaultOver, FaultTwice, FaultRate, FaultTooLate, FaultPastDeadline, FaultMisplaced, FaultPreempted, FaultNotUnique, FaultElsewhere, FaultWaitsSilently, FaultUnreadable, FaultUnfinished,
		FaultUnseen, FaultDuplicateExecution,
	} {
		rep.Faults = append(rep.Faults, j.faults[k]...)
	}
	return rep
}
