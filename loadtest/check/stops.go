package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// stopSlack is how long the system may take from the decision that a target is in time to its
	// start.
	stopSlack = time.Second
	// stopPatience is how long the system may take to decide on what a stop left of a job, from its
	// first look at it: catch-up is rate limited and yields to work that is on time. A target in
	// time at the end of it must run.
	stopPatience = 30 * time.Second
	// stopAhead is how long before its due time a target may have been handed to an executor. Such
	// a target runs after the stop in any case.
	stopAhead = 5 * time.Second
)

// PolicyCount counts the targets of the jobs of one misfire policy that were due while no node ran,
// or up to the instant at which their job was looked at again.
type PolicyCount struct {
	Policy   string `json:"policy"`
	Deadline Span   `json:"deadline,omitempty"`
	Jobs     int    `json:"jobs"`
	Targets  int    `json:"targets"`
	// RunMin to RunMax of them must run by the policy; they differ by those on the boundary. The
	// others must be recorded as missed.
	RunMin int `json:"run_min"`
	RunMax int `json:"run_max"`
	// Ran and Missed are what was seen; Missed are recorded, as the policy allows.
	Ran    int `json:"ran"`
	Missed int `json:"missed"`
	// Broken counts jobs of which more or fewer ran than computed.
	Broken int `json:"broken"`
}

type policyKey struct {
	policy   string
	deadline time.Duration
}

// stopJudge compares the runs after stops with the policies, job by job.
type stopJudge struct {
	stops  []Stop
	counts map[policyKey]*PolicyCount
}

func newStopJudge(stops []Stop) *stopJudge {
	return &stopJudge{stops, map[policyKey]*PolicyCount{}}
}

// job judges the targets of a job, which are in order.
func (s *stopJudge) job(j *recurringJudge, of *recurringJob, targets []*target) {
	for _, stop := range s.stops {
		from, to := stop.From.UnixMilli(), stop.To.UnixMilli()
		// The job was looked at again when the first of them was treated, in one way or the other.
		looked := int64(0)
		for _, t := range targets {
			if at := t.treated(); t.due >= from && t.due < to && at >= to && (looked == 0 || at < looked) {
				looked = at
			}
		}
		if looked == 0 {
			continue
		}
		var due []*target
		for _, t := range targets {
			if t.due >= from && t.due <= looked {
				due = append(due, t)
			}
		}
		s.compare(j, of, due, stop, looked)
	}
}

func (s *stopJudge) compare(j *recurringJudge, of *recurringJob, due []*target, stop Stop, looked int64) {
	m := due[0].misfire
	c := s.counts[policyKey{m.Policy, m.Deadline}]
	if c == nil {
		c = &PolicyCount{Policy: m.Policy, Deadline: Span(m.Deadline)}
		s.counts[policyKey{m.Policy, m.Deadline}] = c
	}
	expect := survivors
	if limit := time.Duration(looked-due[0].due) * time.Millisecond; m.Policy == "run_latest" && limit > SkipAfter {
		expect = latest
	}
	least, most, broken := expect(due, stop, looked)
	ran, recorded := 0, 0
	for _, t := range due {
		switch {
		case t.ran():
			ran++
		case t.missed != nil:
			recorded++
		}
	}
	c.Jobs++
	c.Targets += len(due)
	c.RunMin += least
	c.RunMax += most
	c.Ran += ran
	c.Missed += recorded
	switch {
	case broken != "":
	case ran < least || ran > most:
		broken = fmt.Sprintf("%s (deadline %s) says that %d to %d run", m.Policy, m.Deadline, least, most)
	case ran+recorded != len(due):
		broken = "of the others nothing is said"
	}
	if broken != "" {
		c.Broken++
		j.rep.PolicyBroken++
		j.fault(FaultPolicy, of, "", "of %d targets from %s on, looked at %s, %d ran and %d were recorded as missed; %s",
			len(due), stamp(time.UnixMilli(due[0].due)), stamp(time.UnixMilli(looked)), ran, recorded, broken)
	}
}

// survivors computes how many of the targets must run (DESIGN section 5): those within the limit
// when they were started or missed. broken says what contradicts the policy although the number may
// be right.
func survivors(due []*target, _ Stop, looked int64) (least, most int, broken string) {
	limit, limited := due[0].misfire.limit()
	for _, t := range due {
		late := ms(t.treated() - t.due)
		if !limited || late < limit {
			least++
		}
		if !limited || late <= limit+stopSlack {
			most++
		}
		if limited && t.ran() && late > limit+stopSlack {
			broken = fmt.Sprintf("the one due %s started %s late, of %s that it may be", stamp(time.UnixMilli(t.due)), late, limit)
		}
		if !t.ran() && limited && ms(looked-t.due)+stopPatience < limit {
			broken = fmt.Sprintf("the one due %s was in time and was given up %s later", stamp(time.UnixMilli(t.due)), ms(t.treated()-looked))
		}
	}
	return least, most, broken
}

// latest computes how many targets of an overdue job with run_latest must run (DESIGN section 5).
// After the stop all targets due by then are missed but the last. That one runs unless it is later
// than the limit, and those after it run by themselves. The instant of the decision is not seen: it
// lies between the end of the stop and looked.
func latest(due []*target, stop Stop, looked int64) (least, most int, broken string) {
	for len(due) > 1 && due[0].ran() && due[0].due < stop.From.Add(stopAhead).UnixMilli() {
		due = due[1:] // given away before the stop
		least, most = least+1, most+1
	}
	to := stop.To.UnixMilli()
	own := 0 // that were due after the stop: they may have run by themselves
	for _, t := range due[1:] {
		if t.due > to {
			own++
		}
	}
	limit, limited := due[0].misfire.limit()
	given := 0
	for given < len(due) && !due[given].ran() {
		given++
	}
	tooLate := given > 0 && limited && ms(due[given-1].treated()-due[given-1].due) >= limit
	if !tooLate {
		least++
	}
	most += 1 + own
	switch {
	case given == len(due) && !tooLate:
		broken = "the latest did not run"
	case slices.ContainsFunc(due[given:], func(t *target) bool { return !t.ran() }):
		broken = "one was given up after one that ran"
	}
	return least, most, broken
}

// ms is a number of milliseconds.
func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// treated returns when a target was first started or recorded as missed; 0 if neither happened.
func (t *target) treated() int64 {
	at := int64(0)
	note := func(x time.Time) {
		if ms := x.UnixMilli(); !x.IsZero() && (at == 0 || ms < at) {
			at = ms
		}
	}
	for _, r := range t.runs {
		if first, ok := r.firstStart(); ok {
			note(first)
		}
	}
	if t.missed != nil {
		note(t.missed.shown.FinishedAt)
	}
	return at
}

func (t *target) ran() bool {
	return slices.ContainsFunc(t.runs, func(r *recurringRun) bool {
		_, ok := r.firstStart()
		return ok
	})
}

func (s *stopJudge) sum() []PolicyCount {
	keys := slices.SortedFunc(maps.Keys(s.counts), func(a, b policyKey) int {
		return cmp.Or(cmp.Compare(a.policy, b.policy), cmp.Compare(a.deadline, b.deadline))
	})
	all := make([]PolicyCount, len(keys))
	for i, k := range keys {
		all[i] = *s.counts[k]
	}
	return all
}

// String returns c in a line.
func (c PolicyCount) String() string {
	name := c.Policy
	if c.Deadline > 0 {
		name += " (deadline " + time.Duration(c.Deadline).String() + ")"
	}
	computed := fmt.Sprint(c.RunMin)
	if c.RunMax != c.RunMin {
		computed += fmt.Sprintf(" to %d", c.RunMax)
	}
	return fmt.Sprintf("%s: of %d targets of %d jobs %s to run, %d ran, %d recorded as missed, jobs that differ %d",
		name, c.Targets, c.Jobs, computed, c.Ran, c.Missed, c.Broken)
}
