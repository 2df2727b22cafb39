package sim

import (
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// perMinute is the quota of runs a minute of the tenant where it has one: less than half of what
// its recurring jobs ask for.
const perMinute = 45

// minutesCost is how late runs of recurring jobs may be by that quota: they wait until long after
// the jobs are paused.
const minutesCost = settle

// admittedBefore bounds the time from the admission of a run, by which it is counted, to its start:
// it is held until it is due, and rows may be read and written in between.
func (s *Scenario) admittedBefore() time.Duration {
	if s.calm() {
		return time.Second
	}
	return 20 * time.Second
}

// living tells how many nodes share a quota, and notes the fewest that it ever told.
func (l *life) living() int {
	n := len(l.view.Snapshot().Members())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fewest == 0 || n < l.fewest {
		l.fewest = n
	}
	return n
}

// judgeMinutes judges that no process started more runs of schedules, in any span, than its share
// of the quota of runs a minute allows: what is left after a rest, and what is added in the span.
func (w *world) judgeMinutes(seen []check.Sighting) {
	if w.s.PerMinute == 0 {
		return
	}
	starts := make(map[string][]time.Time)
	counted := make(map[string]bool) // of each process
	for _, s := range seen {
		if run := s.Caller + s.Run; s.Attempt == 1 && !counted[run] {
			counted[run] = true
			starts[s.Caller] = append(starts[s.Caller], s.At)
		}
	}
	w.c.mu.Lock()
	shares := make(map[string]int)
	for caller, l := range w.c.processes {
		l.mu.Lock()
		if l.fewest > 0 {
			shares[caller] = (w.s.PerMinute + l.fewest - 1) / l.fewest
		}
		l.mu.Unlock()
	}
	w.c.mu.Unlock()
	for caller, at := range starts {
		slices.SortFunc(at, time.Time.Compare)
		if i, j, most := overdrawn(at, shares[caller], w.s.admittedBefore()); j > i {
			w.c.fault("%s started %d runs of schedules within %v, want at most %d: its share of %d a minute is %d",
				caller, j-i+1, at[j].Sub(at[i]), most, w.s.PerMinute, shares[caller])
		}
	}
}

// overdrawn returns the first and the last of starts, in their order, that are more than a share of
// runs a minute allows, and how many that are: the share at once, and what comes in the time
// between. Each start may be that much later than its admission.
func overdrawn(starts []time.Time, share int, later time.Duration) (first, last, most int) {
	for j := range starts {
		for i := range j {
			most = share + int(float64(share)*(starts[j].Sub(starts[i])+later).Minutes()) + 1
			if j-i+1 > most {
				return i, j, most
			}
		}
	}
	return 0, 0, 0
}

func TestOverdrawn(t *testing.T) {
	began := time.Unix(0, 0)
	for _, c := range []struct {
		name   string
		every  time.Duration
		starts int
		over   bool
	}{
		{"the share at once", 0, 16, false},
		{"more than that", 0, 17, true},
		{"the share again and again", 4 * time.Second, 100, false},
		{"twice the share, for long", 2 * time.Second, 100, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var at []time.Time
			for i := range c.starts {
				at = append(at, began.Add(time.Duration(i)*c.every))
			}
			if _, last, _ := overdrawn(at, 15, time.Second); (last > 0) != c.over {
				t.Errorf("overdrawn of %d starts %v apart = %t, want %t", c.starts, c.every, last > 0, c.over)
			}
		})
	}
}
