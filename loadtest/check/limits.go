package check

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// This file judges limits: how many runs of a job or task are under way at once, and how many of a
// task start in a span. The sink is the only witness.
//
// # At once
//
// A call counts from its arrival to the end that the sink noted, which precedes the answer. A slot
// is released after the answer, so there is no tolerance. Two calls of one run of a job may not
// overlap: such a run has one slot. A task has a slot for each execution: two calls of one run,
// which at_least_once allows, both count, and their overlap is no fault.
//
// Where the caller hung up, the slot is free before the work is over (DESIGN section 7,
// "Admission"):
//
//	the executor recorded the attempt  the call counts up to HangUp before the sink saw the hang-up
//	it did not: it died                the slot stands until its session is declared dead, so the call
//	                                   counts for SlotHeld at least; longer work is outlived, no fault
//
// # Rates
//
// In a span start at most what the rate allows in the span + [RateSlack], plus one (DESIGN section
// 7, "Rates"). Every arrival is a start, of later attempts too. All spans between two arrivals are
// judged:
//
//	k(i) = i − rate · t(i)
//	arrivals i … j are too many if k(j) − k(i) > rate · slack
//
// So the least k(i) before j is enough to know.

const (
	// HangUp is how long after its caller had hung up a sink may see it at most, also where many
	// processes share two cores.
	HangUp = time.Second
	// SlotHeld is how long after its arrival a call keeps the slot if its executor died: at least 6
	// s left of the session + 2 s until it is declared dead − at most 1 s on the way.
	SlotHeld = 7 * time.Second
	// RateSlack bounds the distance between a start and its reservation.
	RateSlack = 6 * time.Second
	// DeferredAfter is the least lateness of a run that a rate has deferred.
	DeferredAfter = 100 * time.Millisecond
	// WaitedAfter is how late a run starts that has waited for a slot.
	WaitedAfter = time.Second
)

// The kinds of fault about limits. Each is also a counter of [SlotCount] or [RateCount].
const (
	FaultOver  Kind = "beyond the limit"
	FaultTwice Kind = "two calls of a run at once"
	FaultRate  Kind = "beyond the rate"
)

// Rate is how many runs may start in a span; its JSON is that of the API: "100/s", "10/m",
// "1000/h". The zero Rate is none.
type Rate struct {
	Count int
	Per   time.Duration
}

var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// UnmarshalText reads a rate.
func (r *Rate) UnmarshalText(text []byte) error {
	count, unit, _ := strings.Cut(string(text), "/")
	n, err := strconv.Atoi(count)
	per, ok := rateUnits[unit]
	if err != nil || n < 1 || !ok {
		return fmt.Errorf("read rate: %q is none", text)
	}
	*r = Rate{n, per}
	return nil
}

// MarshalText writes the input of UnmarshalText; the error is nil.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// String returns r as the API writes it, "" for none.
func (r Rate) String() string {
	for unit, per := range rateUnits {
		if per == r.Per {
			return strconv.Itoa(r.Count) + "/" + unit
		}
	}
	return ""
}

// perSecond returns the starts a second.
func (r Rate) perSecond() float64 { return float64(r.Count) / r.Per.Seconds() }

// Task is a task with limits that did not change after its first run; its JSON is that of the API.
type Task struct {
	Name string `json:"name"`
	Rate Rate   `json:"rate,omitzero"`
	// MaxConcurrent is how many of its runs may be under way at once; 0 = any number.
	MaxConcurrent int `json:"max_concurrent,omitempty"`
}

// A SlotCount sums up what shares a limit on runs at once: the jobs with one limit and on_limit, or
// a task.
type SlotCount struct {
	// Of is "queue", "skip" or "cancel_oldest", or the name of a task.
	Of    string `json:"of"`
	Limit int    `json:"limit"` // of each job
	Jobs  int    `json:"jobs"`
	Runs  int    `json:"runs"`
	Calls int    `json:"calls"`
	// Most is the most calls at once, of one job.
	Most int `json:"most_at_once"`
	// Waited runs first started at least WaitedAfter late. Skipped and Cancelled are so because of
	// the limit.
	Waited    int `json:"waited"`
	Skipped   int `json:"skipped"`
	Cancelled int `json:"cancelled_by_limit"`
	// Outlived calls: the receiver worked on after the slot was free, since the executor had died.
	Outlived int `json:"outlived_calls"`
	// Doubled calls, of a task, came while another one of the same run was under way.
	Doubled int `json:"doubled_calls"`

	// Over counts calls that came while the limit was reached. Twice counts calls, of jobs, that
	// came during another call of the same run.
	Over  int `json:"beyond_the_limit"`
	Twice int `json:"calls_of_one_run_at_once"`
}

// Broken returns how many things were found that the limit excludes.
func (c *SlotCount) Broken() int { return c.Over + c.Twice }

// A RateCount sums up the runs of a task with a rate.
type RateCount struct {
	Task   string `json:"task"`
	Rate   Rate   `json:"rate"`
	Runs   int    `json:"runs"`
	Starts int    `json:"starts"` // arrivals at the sink, of all attempts
	// Uncalled attempts were recorded as lost and never arrived: their process died before the
	// call.
	Uncalled int `json:"uncalled"`
	// Deferred runs first started at least DeferredAfter after their due time.
	Deferred int `json:"deferred"`
	// Seconds lie between the first start and the last.
	Seconds float64 `json:"seconds"`
	// Burst is by how many starts the fullest span exceeded its rate, without the first start.
	Burst float64 `json:"burst"`

	// Over counts starts that came too soon after those before them.
	Over int `json:"beyond_the_rate"`
}

// PerSecond returns the starts a second from the first to the last.
func (c *RateCount) PerSecond() float64 {
	if c.Seconds <= 0 {
		return 0
	}
	return float64(c.Starts-1) / c.Seconds
}

// A held is a call and how long it has its slot.
type held struct {
	*Sighting
	run   *run
	until time.Time
	died  bool // its executor did, before the work was over
}

// holds returns the calls of a run with their slots. all: the sink's record has no gap.
func (r *run) holds(all bool) []held {
	calls := make([]held, len(r.seen))
	for i, s := range r.seen {
		calls[i] = held{Sighting: s, run: r}
		calls[i].until, calls[i].died = r.slotUntil(i, all)
	}
	return calls
}

// slotUntil returns until when call number i has its slot at least, and whether its executor died
// before.
func (r *run) slotUntil(i int, all bool) (until time.Time, died bool) {
	s := r.seen[i]
	end := s.End
	if end.IsZero() {
		if !all {
			return s.At, false
		}
		end = time.UnixMilli(never) // the sink was at work on it until it was stopped
	}
	switch {
	case s.Gone.IsZero():
		return end, false
	case r.recorded(i):
		until = latestOf(s.At, s.Gone.Add(-HangUp))
	default:
		until, died = latestOf(s.Gone, s.At.Add(SlotHeld)), true
	}
	if end.Before(until) {
		until = end
	}
	return until, died
}

func latestOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// recorded reports whether the executor of call number i recorded the attempt. Of two calls under
// one number the record is the last one's.
func (r *run) recorded(i int) bool {
	number := r.seen[i].Attempt
	if slices.ContainsFunc(r.seen[i+1:], func(s *Sighting) bool { return s.Attempt == number }) {
		return false
	}
	return slices.ContainsFunc(r.attempts(), func(a *Attempt) bool {
		return a.Number == number && a.Outcome != "" && a.Outcome != OutcomeLost && a.Outcome != OutcomeSuperseded
	})
}

type faultFunc func(kind Kind, r *run, format string, args ...any)

// judge adds the calls under one limit, in any order. alone: a run has one slot at most.
func (c *SlotCount) judge(calls []held, alone bool, fault faultFunc) {
	slices.SortStableFunc(calls, func(a, b held) int { return a.At.Compare(b.At) })
	var open []held
	for _, call := range calls {
		c.Calls++
		if call.died && !call.End.Equal(call.until) {
			c.Outlived++
		}
		open = slices.DeleteFunc(open, func(h held) bool { return !h.until.After(call.At) })
		switch i := slices.IndexFunc(open, func(h held) bool { return h.run == call.run }); {
		case i < 0:
		case !alone:
			c.Doubled++
		default:
			c.Twice++
			fault(FaultTwice, call.run, "attempt %d arrived %s, attempt %d of %s was under way until %s",
				call.Attempt, stamp(call.At), open[i].Attempt, stamp(open[i].At), untilText(open[i].until))
		}
		if len(open) >= c.Limit {
			c.Over++
			fault(FaultOver, call.run, "attempt %d arrived %s as number %d of %d, run %s of %s was under way until %s",
				call.Attempt, stamp(call.At), len(open)+1, c.Limit, open[0].run.id, stamp(open[0].At), untilText(open[0].until))
		}
		open = append(open, call)
		c.Most = max(c.Most, len(open))
	}
}

func untilText(t time.Time) string {
	if t.UnixMilli() == never {
		return "the end of the record"
	}
	return stamp(t)
}

// judge counts the starts, in any order, and calls fault for each that came too soon. Later starts
// are not judged against it.
func (c *RateCount) judge(starts []held, fault faultFunc) {
	slices.SortStableFunc(starts, func(a, b held) int { return a.At.Compare(b.At) })
	c.Starts = len(starts)
	if len(starts) == 0 {
		return
	}
	begin := starts[0].At
	c.Seconds = starts[len(starts)-1].At.Sub(begin).Seconds()
	const rounding = 1e-6
	rate, least := c.Rate.perSecond(), math.Inf(1)
	number, fullest := 0, held{}
	for _, s := range starts {
		k := float64(number) - rate*s.At.Sub(begin).Seconds()
		if k < least {
			least, fullest = k, s
		}
		c.Burst = max(c.Burst, k-least)
		if k-least > rate*RateSlack.Seconds()+rounding {
			c.Over++
			fault(FaultRate, s.run, "attempt %d started %s: with those from %s on that is more than %s, also if it were good for %s longer",
				s.Attempt, stamp(s.At), stamp(fullest.At), c.Rate, RateSlack)
			continue
		}
		number++
	}
}

// limits judges the tasks that have any.
func (j *judge) limits() {
	for _, t := range j.h.Tasks {
		var calls []held
		runs, late, deferred, uncalled := 0, 0, 0, 0
		for _, id := range j.ids {
			r := j.runs[id]
			if r.job == nil || r.job.Task != t.Name {
				continue
			}
			calls = append(calls, r.holds(j.h.SeenAll)...)
			if !r.acked() && len(r.seen) == 0 {
				continue
			}
			runs++
			uncalled += uncalledOf(r)
			if len(r.seen) == 0 {
				continue
			}
			if from, ok := base(terms(r.job.At, r.ackedAt, r.changes, j.h.Off), r.seen[0].At); ok {
				if wait := r.seen[0].At.Sub(from); wait >= WaitedAfter {
					late, deferred = late+1, deferred+1
				} else if wait >= DeferredAfter {
					deferred++
				}
			}
		}
		if t.MaxConcurrent > 0 {
			c := SlotCount{Of: t.Name, Limit: t.MaxConcurrent, Runs: runs, Waited: late}
			c.judge(slices.Clone(calls), false, j.fault)
			j.rep.Limits = append(j.rep.Limits, c)
		}
		if t.Rate != (Rate{}) {
			c := RateCount{Task: t.Name, Rate: t.Rate, Runs: runs, Uncalled: uncalled, Deferred: deferred}
			c.judge(calls, j.fault)
			j.rep.Rates = append(j.rep.Rates, c)
		}
	}
	j.quota()
	slices.SortFunc(j.rep.Limits, compareSlots)
	slices.SortFunc(j.rep.Rates, func(a, b RateCount) int { return cmp.Compare(a.Task, b.Task) })
}

// uncalledOf counts the attempts of a run that were recorded as lost and never arrived.
func uncalledOf(r *run) int {
	lost := make(map[int]bool) // by number: there are two readings of each
	for _, a := range r.attempts() {
		if a.Outcome == OutcomeLost && !slices.ContainsFunc(r.seen, func(s *Sighting) bool { return s.Attempt == a.Number }) {
			lost[a.Number] = true
		}
	}
	return len(lost)
}

// OfTenant is what a SlotCount is of that sums up all runs of the tenant, under its quota.
const OfTenant = "the tenant's quota"

// quota judges how many runs of the tenant were under way at once, if it has a quota of them. Like
// a task it has a slot for each execution.
func (j *judge) quota() {
	if j.h.Quota == 0 {
		return
	}
	c := SlotCount{Of: OfTenant, Limit: j.h.Quota}
	var calls []held
	for _, id := range j.ids {
		r := j.runs[id]
		if len(r.seen) > 0 {
			c.Runs++
		}
		calls = append(calls, r.holds(j.h.SeenAll)...)
	}
	c.judge(calls, false, j.fault)
	j.rep.Limits = append(j.rep.Limits, c)
}

func compareSlots(a, b SlotCount) int {
	return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Limit, b.Limit))
}

// faultsOfTasks reports contradictions about tasks.
func (h *History) faultsOfTasks() error {
	var faults []error
	known := make(map[string]bool)
	for _, t := range h.Tasks {
		if t.Name == "" || known[t.Name] {
			faults = append(faults, fmt.Errorf("%w: task %q named twice, or without a name", ErrHistory, t.Name))
		}
		known[t.Name] = true
	}
	return errors.Join(faults...)
}

// brokenLimits returns how many things were found that limits and rates exclude.
func brokenLimits(limits []SlotCount, rates []RateCount) int {
	broken := 0
	for i := range limits {
		broken += limits[i].Broken()
	}
	for i := range rates {
		broken += rates[i].Over
	}
	return broken
}

// writeLimits writes a table of limits and one of rates, each if there are any.
func writeLimits(w io.Writer, limits []SlotCount, rates []RateCount) error {
	p, flush := NewTable(w, tabwriter.AlignRight)
	if len(limits) > 0 {
		p("\nat once\tlimit\tjobs\truns\tcalls\tmost\twaited\tskipped\tcancelled\toutlived\tdoubled\tbeyond\ttwice\t")
	}
	for i := range limits {
		c := &limits[i]
		p("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t",
			c.Of, c.Limit, c.Jobs, c.Runs, c.Calls, c.Most, c.Waited, c.Skipped, c.Cancelled, c.Outlived, c.Doubled, c.Over, c.Twice)
	}
	if len(rates) > 0 {
		p("\ntask\trate\truns\tstarts\tdeferred\tseconds\ta second\tburst\tbeyond\t")
	}
	for i := range rates {
		c := &rates[i]
		p("%s\t%s\t%d\t%d\t%d\t%.1f\t%.1f\t%.1f\t%d\t", c.Task, c.Rate, c.Runs, c.Starts, c.Deferred, c.Seconds, c.PerSecond(), c.Burst, c.Over)
	}
	return flush()
}
