package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A phase is a job between two of its changes. All instants are ms since the Unix epoch; never =
// for ever.
type phase struct {
	active bool
	// of a change of unknown outcome, or with an unknown offset: nothing can be said
	// against its runs
	unknown bool
	times   times
	offset  int64
	told    bool // the offset is known
	misfire Misfire

	from     int64 // a run of it may be due from here
	required int64 // … and must be, from here
	// … up to, not including, here: the request of the next change, or the end of the observation
	until int64
	// a run of it may start up to here: the next change was acknowledged, and ChangeGrace and what
	// clocks are off have passed
	starts int64
	over   int64 // … and any attempt of a run of it up to here: the same of a cancel of the job

	asked, acked time.Time // the change that began it; zero acked = of unknown outcome
	cancels      bool      // that was a cancel
	// what it asked of its runs; nil: of unknown outcome, and it may have asked for something else
	ask *Ask
}

const never = int64(1) << 60

// recurringJob is everything in the history about one job.
type recurringJob struct {
	ref    Ref
	id     string
	acked  time.Time // of its creation
	events []*JobEvent
	read   *JobHistory
	seen   []*Sighting
	asked  []*Backfill

	phases []phase
	faults []string // what is wrong with its offset

	kills    []Kill
	off      time.Duration // as in [RecurringHistory]
	occupied []occupation
}

// plan makes the phases of a job of its events.
func (j *recurringJob) plan(end time.Time) error {
	slices.SortStableFunc(j.events, func(a, b *JobEvent) int { return a.Requested.Compare(b.Requested) })
	var last *JobEvent // the last one that was acknowledged
	for _, e := range j.events {
		switch {
		case e.Refused:
			continue
		case !e.Acked.IsZero() && last != nil && e.Job.Generation == last.Job.Generation:
			continue // it changed nothing
		}
		p := phase{
			unknown: e.Acked.IsZero(), active: e.Acked.IsZero() || e.Job.State == "active" || e.Job.State == "finished",
			asked: e.Requested, acked: e.Acked, cancels: e.Kind == JobCancelled,
			from: e.Requested.UnixMilli(), required: ceilMS(e.Acked), until: never, starts: never, over: never,
		}
		if e.Kind != JobCreated {
			p.required = ceilMS(e.Acked.Add(ChangeGrace))
		}
		if last != nil && e.Kind != JobUpdated {
			p.ask = j.phases[len(j.phases)-1].ask // only an update asks for anything else
		}
		if p.unknown {
			p.required = never
		} else {
			p.ask = &Ask{Ref: j.ref, Guarantee: e.Job.Guarantee, MaxAttempts: e.Job.Retry.MaxAttempts}
			p.misfire = Misfire{Policy: cmp.Or(e.Job.Misfire.Policy, "run_latest"), Deadline: time.Duration(e.Job.Misfire.Deadline)}
			var err error
			if p.times, err = timesOf(&e.Job); err != nil {
				return fmt.Errorf("%w: job %s: %w", ErrHistory, e.Ref, err)
			}
			j.learnOffset(&p, e, last)
			// the first nominal time comes after the creation; that of a change, its due time
			if e.Kind == JobCreated {
				p.from, p.required = p.from+p.offset, p.required+p.offset
			} else if p.required != never { // whatever it is due after
				p.required = max(p.required, j.acked.UnixMilli()+1+p.offset)
			}
			last = e
		}
		for i := range j.phases {
			before := &j.phases[i]
			before.until = min(before.until, p.from)
			if !p.unknown {
				past := e.Acked.Add(ChangeGrace + j.off).UnixMilli()
				before.starts = min(before.starts, past)
				if e.Job.State == "cancelled" {
					before.over = min(before.over, past)
				}
			}
		}
		j.phases = append(j.phases, p)
	}
	for i := range j.phases {
		j.phases[i].until = min(j.phases[i].until, end.UnixMilli())
	}
	return nil
}

// askOf returns the terms of a run: those of the phases that may have planned it and had not ended
// when it first started; without any, those of all phases. Where they name different guarantees the
// run has the least; otherwise the last phase counts.
func (j *recurringJob) askOf(r *recurringRun) *Ask {
	phases := r.phases
	if first, began := r.firstStart(); began {
		phases = slices.DeleteFunc(slices.Clone(phases), func(p *phase) bool { return first.UnixMilli() > p.starts })
	}
	if len(phases) == 0 {
		for i := range j.phases {
			phases = append(phases, &j.phases[i])
		}
	}
	is, guarantee := Ask{Ref: j.ref}, Guarantee("")
	for i, p := range phases {
		said := AtLeastOnce
		if p.ask != nil {
			is = *p.ask
			said = policyOf(p.ask).guarantee
		}
		if i > 0 && guarantee != said {
			said = AtLeastOnce
		}
		guarantee = said
	}
	is.Guarantee = guarantee
	return &is
}

// learnOffset finds by how much the jitter moves the runs of a phase that began with e. A jitter
// has one offset for the life of the job. Otherwise the next run in the answer shows it, unless
// that may have been planned before the change; else the first run that was surely planned after it
// and before the next one.
func (j *recurringJob) learnOffset(p *phase, e, last *JobEvent) {
	window := time.Duration(e.Job.Jitter).Milliseconds()
	sure := e.Acked.Add(ChangeGrace)
	switch {
	case window == 0:
		p.told = true
	case last != nil && last.Job.Jitter == e.Job.Jitter && j.phases[len(j.phases)-1].told:
		p.told, p.offset = true, j.phases[len(j.phases)-1].offset
	case !p.active:
	case e.Job.NextRun != nil && (e.Kind == JobCreated || e.Job.NextRun.DueAt.After(sure)):
		p.told, p.offset = true, e.Job.NextRun.DueAt.Sub(e.Job.NextRun.NominalAt).Milliseconds()
	case j.read != nil:
		until := j.changedAfter(e)
		for _, r := range slices.Concat(j.read.First.Runs, j.read.Second.Runs) {
			// what did not may be of before
			if _, ran := r.started(); ran && (r.Trigger == "" || r.Trigger == bySchedule) && r.DueAt.After(sure) && r.DueAt.Before(until) {
				p.told, p.offset = true, r.DueAt.Sub(r.NominalAt).Milliseconds()
				until = r.DueAt
			}
		}
	}
	p.unknown = !p.told && p.active
	if p.unknown {
		p.required = never
	}
	if p.told && (p.offset < 0 || p.offset >= max(window, 1)) {
		j.faults = append(j.faults, fmt.Sprintf("its runs are moved by %d ms, and its jitter is %d ms", p.offset, window))
	}
}

// changedAfter returns when the change after e was requested, if it was not refused.
func (j *recurringJob) changedAfter(e *JobEvent) time.Time {
	for _, other := range j.events[slices.Index(j.events, e)+1:] {
		if !other.Refused {
			return other.Requested
		}
	}
	return time.UnixMilli(never)
}

// naming returns the phases that may have planned a run due at due, and its nominal time. Phases
// with different offsets may name two times with one due time: then the API's counts, 0 for none. So it
// does where the offset of a phase is not known.
func (j *recurringJob) naming(due, shown int64) (nominal int64, phases []*phase) {
	for i := range j.phases {
		p := &j.phases[i]
		if !p.active || due < p.from {
			continue
		}
		if p.unknown {
			phases = append(phases, p)
			if nominal == 0 {
				nominal = cmp.Or(shown, due)
			}
			continue
		}
		if p.times.names(due - p.offset) {
			phases = append(phases, p)
			if nominal != shown || nominal == 0 {
				nominal = due - p.offset
			}
		}
	}
	return nominal, phases
}

// target is a nominal time for which a run was asked for.
type target struct {
	nominal, due int64
	misfire      Misfire
	runs         []*recurringRun
	missed       *recurringRun // what says that it was missed
}

// targets returns what was asked for, in order of due times. While a change was under way only what
// both sides of it name is asked for.
func (j *recurringJob) targets() []*target {
	var all []*target
	for i := range j.phases {
		p := &j.phases[i]
		if !p.active || p.unknown {
			continue
		}
		add := func(nominal int64) {
			all = append(all, &target{nominal: nominal, due: nominal + p.offset, misfire: p.misfire})
		}
		p.times.each(p.required-p.offset, p.until-p.offset, add)
		// Both name it, at one due time: either has to run it.
		if i+1 < len(j.phases) {
			if next := &j.phases[i+1]; next.active && !next.unknown && next.offset == p.offset {
				p.times.each(max(p.required, p.until)-p.offset, min(next.required, next.until)-p.offset, func(nominal int64) {
					if next.times.names(nominal) {
						add(nominal)
					}
				})
			}
		}
	}
	slices.SortFunc(all, func(a, b *target) int { return cmp.Compare(a.due, b.due) })
	return all
}
