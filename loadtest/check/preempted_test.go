package check

import (
	"testing"
	"time"
)

// TestPreemptedRuns: a run is stopped for critical ones only if it allows that, not too often, it
// uses no attempt up, and it starts again. Its calls that were stopped are no duplicates.
func TestPreemptedRuns(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	sec := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	stopped := func(n int) Sighting { // a call that is stopped after 5 s
		return Sighting{Run: "r", Attempt: 1, Caller: "a", At: sec(n), End: sec(n + 60), Gone: sec(n + 5)}
	}
	done := func(n, attempt int) Sighting {
		return Sighting{Run: "r", Attempt: attempt, Caller: "a", At: sec(n), End: sec(n + 60), Status: 200}
	}
	low := Ask{Preemptible: true}
	for _, c := range []struct {
		name     string
		ask      Ask
		times    int
		state    State
		seen     []Sighting
		attempts []int
		wrong    int
		other    bool // it fails for another reason
	}{
		{name: "never", ask: Ask{}, state: Succeeded, seen: []Sighting{done(0, 1)}, attempts: []int{1}},
		{name: "twice", ask: low, times: 2, state: Succeeded, seen: []Sighting{stopped(0), stopped(10), done(20, 1)}, attempts: []int{1}},
		{name: "it does not allow that", ask: Ask{}, times: 1, state: Succeeded, seen: []Sighting{stopped(0), done(10, 1)}, attempts: []int{1}, wrong: 1},
		{name: "of a task, which may allow it", ask: Ask{Task: "t"}, times: 1, state: Succeeded, seen: []Sighting{stopped(0), done(10, 1)}, attempts: []int{1}},
		{
			name: "guarded", ask: Ask{Preemptible: true, Guarantee: EffectivelyOnce}, times: 1, state: Succeeded,
			seen: []Sighting{{Run: "r", Attempt: 1, Fence: 1, At: at, End: sec(1), Status: 200}}, attempts: []int{1}, wrong: 1,
		},
		{name: "too often", ask: low, times: 4, state: Succeeded, seen: []Sighting{stopped(0), stopped(10), stopped(20), stopped(30), done(40, 1)}, attempts: []int{1}, wrong: 1},
		{
			name: "four times, and two executors had it at once", ask: low, times: 4, state: Succeeded,
			seen: []Sighting{stopped(0), stopped(3), stopped(20), stopped(30), done(40, 1)}, attempts: []int{1},
		},
		{name: "an attempt was used", ask: low, times: 1, state: Succeeded, seen: []Sighting{stopped(0), done(10, 2)}, attempts: []int{2}, wrong: 1, other: true},
		{name: "it has not started again", ask: low, times: 1, state: Missed, seen: []Sighting{stopped(0)}, wrong: 1, other: true},
		{name: "it has not started again yet", ask: low, times: 1, state: Pending, seen: []Sighting{stopped(0)}, other: true},
		{name: "it was stopped once, and called twice after that", ask: low, times: 1, state: Succeeded, seen: []Sighting{stopped(0), done(10, 1), done(20, 1)}, attempts: []int{1}, other: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ref := Ref{Source: "s", Line: 1}
			c.ask.Ref, c.ask.At = ref, at
			run := Run{ID: "r", State: c.state, DueAt: at, StartedAt: at, Preempted: c.times}
			for _, n := range c.attempts {
				run.Attempts = append(run.Attempts, Attempt{Number: n, StartedAt: sec(40), FinishedAt: sec(100), Outcome: OutcomeSucceeded, Redispatched: true})
			}
			reading := Reading{Status: Found, At: sec(600), Run: run}
			rep, err := Judge(History{
				Asked: []Ask{c.ask}, Acks: []Ack{{Ref: ref, ID: "r", Status: 201, At: at}}, Seen: c.seen, SeenAll: true, Calm: true,
				Runs: []Observation{{ID: "r", First: reading, Second: reading}},
			})
			if err != nil || rep.WronglyPreempted != c.wrong || rep.Preemptions != c.times || rep.Failed() != (c.wrong > 0 || c.other) {
				t.Errorf("Judge: stopped %d times, %d wrongly, failed: %v, %v; want %d, %d: %+v", rep.Preemptions, rep.WronglyPreempted, rep.Failed(), err, c.times, c.wrong, rep.Faults)
			}
		})
	}
}

// TestADeadlineIsMetByTheFirstStart: a run that was stopped for a critical one may start again
// after its deadline.
func TestADeadlineIsMetByTheFirstStart(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		first time.Duration
		lost  bool // the first attempt, between its record and its call
		want  int
	}{{first: time.Second}, {first: 20 * time.Second, want: 1}, {first: time.Second, lost: true}, {first: 20 * time.Second, lost: true, want: 1}} {
		first, want := row.first, row.want
		ref := Ref{Source: "s", Line: 1}
		reading := Reading{Status: Found, At: at.Add(time.Hour), Run: Run{
			ID: "r", State: Succeeded, DueAt: at, StartedAt: at.Add(first), Preempted: 1,
			Attempts: []Attempt{{Number: 1, StartedAt: at.Add(time.Minute), FinishedAt: at.Add(2 * time.Minute), Outcome: OutcomeSucceeded}},
		}}
		stopped := Sighting{Run: "r", Attempt: 1, At: at.Add(first), Gone: at.Add(first + time.Second), End: at.Add(time.Hour)}
		last := Sighting{Run: "r", Attempt: 1, At: at.Add(time.Minute), End: at.Add(2 * time.Minute), Status: 200}
		if row.lost {
			reading.Run.Attempts = []Attempt{
				{Number: 1, StartedAt: at.Add(first), FinishedAt: at.Add(30 * time.Second), Outcome: OutcomeLost},
				{Number: 2, StartedAt: at.Add(time.Minute), FinishedAt: at.Add(2 * time.Minute), Outcome: OutcomeSucceeded},
			}
			stopped.At, stopped.Gone, stopped.Attempt, last.Attempt = at.Add(40*time.Second), at.Add(41*time.Second), 2, 2
		}
		rep, err := Judge(History{
			Asked: []Ask{{Ref: ref, At: at, Preemptible: true, Misfire: Misfire{Policy: "run_all", Deadline: 10 * time.Second}}},
			Acks:  []Ack{{Ref: ref, ID: "r", Status: 201, At: at}}, SeenAll: true,
			Seen: []Sighting{stopped, last},
			Runs: []Observation{{ID: "r", First: reading, Second: reading}},
		})
		if err != nil || rep.PastDeadline != want {
			t.Errorf("first start %v late, lost %t: %d runs past their deadlines, %v, want %d: %+v", first, row.lost, rep.PastDeadline, err, want, rep.Faults)
		}
	}
}
