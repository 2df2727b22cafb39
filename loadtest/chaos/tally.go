package chaos

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// A tally compares jobs with the calls of the sink, line by line. It is for loads that are too
// large for the judge, which reads every run twice. It knows no states: only whether, when and how
// often a run was called. Its methods may be called from several goroutines.
type tally struct {
	mu      sync.Mutex // guards what follows
	sources map[string]*asked
	all     counted
	// since are the same of the time since figures were taken last.
	since counted
}

// asked are the lines of one import, by their number less 1.
type asked struct {
	due  []int64 // in ms of Unix time
	seen []bool
	left int // not seen yet, and not cancelled
	gone []bool
}

// counted are figures of arrivals. Late are ms after the due instant, of first arrivals.
type counted struct {
	arrivals, duplicates, early, strangers, ghosts int
	late                                           []float32
}

func newTally() *tally { return &tally{sources: map[string]*asked{}} }

// ask notes the lines of an import: line i+1 is due at due[i], in ms of Unix time.
func (t *tally) ask(source string, due []int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sources[source] = &asked{due: due, seen: make([]bool, len(due)), gone: make([]bool, len(due)), left: len(due)}
}

// cancel notes that a line was cancelled: it is not to be seen any more.
func (t *tally) cancel(source string, line int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.sources[source]
	if !a.gone[line-1] && !a.seen[line-1] {
		a.left--
	}
	a.gone[line-1] = true
}

// see counts an arrival.
func (t *tally) see(s *check.Sighting) {
	t.mu.Lock()
	defer t.mu.Unlock()
	count := func(of func(c *counted) *int) { *of(&t.all)++; *of(&t.since)++ }
	count(func(c *counted) *int { return &c.arrivals })
	a := t.sources[s.Ref.Source]
	if a == nil || s.Ref.Line < 1 || s.Ref.Line > len(a.due) {
		count(func(c *counted) *int { return &c.strangers })
		return
	}
	i := s.Ref.Line - 1
	if s.At.UnixMilli() < a.due[i] {
		count(func(c *counted) *int { return &c.early })
	}
	switch {
	case a.gone[i]:
		count(func(c *counted) *int { return &c.ghosts })
	case a.seen[i]:
		count(func(c *counted) *int { return &c.duplicates })
	default:
		a.seen[i] = true
		a.left--
		late := float32(float64(s.At.UnixMicro())/1000 - float64(a.due[i]))
		t.all.late, t.since.late = append(t.all.late, late), append(t.since.late, late)
	}
}

// missing is how many lines that were due by an instant have not been seen.
func (t *tally) missing(by time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, a := range t.sources {
		if a.left == 0 {
			continue
		}
		for i, due := range a.due {
			if !a.seen[i] && !a.gone[i] && due <= by.UnixMilli() {
				n++
			}
		}
	}
	return n
}

// take returns the figures since it was called last.
func (t *tally) take() counted {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.since
	t.since = counted{}
	return c
}

// lateness sums up how late first arrivals were.
func (c counted) lateness() check.Lateness {
	if len(c.late) == 0 {
		return check.Lateness{}
	}
	late := slices.Clone(c.late)
	slices.Sort(late)
	at := func(q float64) float64 { return float64(late[min(int(q*float64(len(late))), len(late)-1)]) }
	return check.Lateness{
		Count: int64(len(late)), P50: at(0.5), P90: at(0.9), P99: at(0.99), P999: at(0.999), Max: float64(late[len(late)-1]),
	}
}

// report makes a judge's report from the tally. acknowledged is the number of accepted jobs.
func (t *tally) report(acknowledged int, bound check.LatenessBound, now time.Time) check.Report {
	missed := t.missing(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	cancelled := 0
	for _, a := range t.sources {
		for _, gone := range a.gone {
			if gone {
				cancelled++
			}
		}
	}
	rep := check.Report{
		Asked: acknowledged, Acknowledged: acknowledged, Done: acknowledged - cancelled - missed, Cancelled: cancelled, Missed: missed,
		Early: t.all.early, Unexpected: t.all.strangers, Ghosts: t.all.ghosts, DuplicateExecutions: t.all.duplicates,
		Sightings: t.all.arrivals, SeenAll: true, Seen: t.all.lateness(), Bound: bound,
	}
	for _, ms := range t.all.late {
		if bound.Max > 0 && float64(ms) > float64(bound.Max)/float64(time.Millisecond) {
			rep.TooLate++
		}
	}
	if missed > 0 {
		rep.Faults = append(rep.Faults, check.Fault{Kind: check.FaultMissed, Reason: fmt.Sprintf("%d lines were never seen", missed)})
	}
	return rep
}
