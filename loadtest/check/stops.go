package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// stopSlack is how long the system may take from deciding what becomes of what a stop left behind to doing it: targets for which
// the policy says something else within it may go either way.
const stopSlack = 5 * time.Second

// PolicyCount tells, of the jobs of one misfire policy, what became of the targets that were due while no node ran and up to the instant
// at which their job was looked at again. Counters but Jobs count targets.
type PolicyCount struct {
	Policy   string `json:"policy"`
	Deadline Span   `json:"deadline,omitempty"`
	Jobs     int    `json:"jobs"`
	Targets  int    `json:"targets"`
	// RunMin to RunMax are how many were to run by the policy, computed; they differ by those on the boundary. The others are to be
	// recorded as missed.
	RunMin int `json:"run_min"`
	RunMax int `json:"run_max"`
	// Ran and Missed (as recorded, and as the policy allows) are what was seen.
	Ran    int `json:"ran"`
	Missed int `json:"missed"`
	// Broken counts jobs of which more or fewer ran than computed.
	Broken int `json:"broken"`
}

type policyKey struct {
	policy   string
	deadline time.Duration
}

// stopJudge compares what ran after stops with what the policies say, job by job.
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
		s.compare(j, of, due, looked)
	}
}

func (s *stopJudge) compare(j *recurringJudge, of *recurringJob, due []*target, looked int64) {
	m := due[0].misfire
	c := s.counts[policyKey{m.Policy, m.Deadline}]
	if c == nil {
		c = &PolicyCount{Policy: m.Policy, Deadline: Span(m.Deadline)}
		s.counts[policyKey{m.Policy, m.Deadline}] = c
	}
	least, most := survivors(due, looked)
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
	if ran < least || ran > most || ran+recorded != len(due) {
		c.Broken++
		j.rep.PolicyBroken++
		j.fault(FaultPolicy, of, "", "of %d targets from %s on, looked at %s, %d ran and %d were recorded as missed; %s (deadline %s) says that %d to %d run",
			len(due), stamp(time.UnixMilli(due[0].due)), stamp(time.UnixMilli(looked)), ran, recorded, m.Policy, m.Deadline, least, most)
	}
}

// survivors computes how many of the targets, all due by looked, are to run when their job is looked at then (DESIGN section 5): those
// that are no later than the limit allows, and of an overdue job that says "run_latest" only the last.
func survivors(due []*target, looked int64) (least, most int) {
	m := due[0].misfire
	limit, limited := m.limit()
	late := func(t *target) time.Duration { return time.Duration(looked-t.due) * time.Millisecond }
	inTime := func(t *target) (surely, perhaps bool) {
		return !limited || late(t)+stopSlack <= limit, !limited || late(t)-stopSlack <= limit
	}
	for _, t := range due {
		surely, perhaps := inTime(t)
		if surely {
			least++
		}
		if perhaps {
			most++
		}
	}
	if m.Policy != "run_latest" || late(due[0]) <= SkipAfter-stopSlack {
		return least, most
	}
	surely, _ := inTime(due[len(due)-1])
	one := 0
	if surely {
		one = 1
	}
	if late(due[0]) <= SkipAfter+stopSlack { // overdue or not: either way
		return min(one, least), most
	}
	// Who decided shortly before took the last that was due then, and those after it ran by themselves.
	recent := 0
	for _, t := range due {
		if late(t) <= stopSlack {
			recent++
		}
	}
	return one, min(most, 1+recent)
}

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

// String says what c holds in a line.
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
