package check_test

import (
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// The forged world: every instant is told in milliseconds after t0.
var t0 = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }

const (
	firstRead  = 600_000
	secondRead = 630_000
)

// The jobs of clean, by line. Each is the plainest case of its kind.
const (
	onTime = iota + 1
	immediate
	retried
	cancelled
	rescheduled
	refused
	unknownRan
	unknownSilent
	pastDeadline
	notDue
	failedForGood
	lateSuccess
	redelivered
	jobs = redelivered
)

func ref(line int) check.Ref     { return check.Ref{Source: "s1", Line: line} }
func id(line int) string         { return fmt.Sprintf("run-%02d", line) }
func num(ms float64) *float64    { return &ms }
func codeOf(o check.Outcome) int { return map[check.Outcome]int{"succeeded": 200, "failed": 500}[o] }

func attempt(number, start, finish int, outcome check.Outcome) check.Attempt {
	return check.Attempt{Number: number, StartedAt: at(start), FinishedAt: at(finish), Outcome: outcome, StatusCode: codeOf(outcome)}
}

// world is a history that is easy to change by line.
type world struct{ check.History }

func (w *world) ask(line int) *check.Ask { return &w.Asked[line-1] }

func (w *world) ack(line int) *check.Ack {
	return &w.Acks[slices.IndexFunc(w.Acks, func(a check.Ack) bool { return a.Ref == ref(line) })]
}

func (w *world) unack(line int) {
	w.Acks = slices.DeleteFunc(w.Acks, func(a check.Ack) bool { return a.Ref == ref(line) })
}

func (w *world) obs(line int) *check.Observation {
	return &w.Runs[slices.IndexFunc(w.Runs, func(o check.Observation) bool { return o.ID == id(line) })]
}

func (w *world) unobserve(line int) {
	w.Runs = slices.DeleteFunc(w.Runs, func(o check.Observation) bool { return o.ID == id(line) })
}

// both changes the run in both readings.
func (w *world) both(line int, change func(*check.Run)) {
	o := w.obs(line)
	change(&o.First.Run)
	change(&o.Second.Run)
}

// see adds an arrival that is answered 1 ms later.
func (w *world) see(line, number, arrival, status int) *check.Sighting {
	w.Seen = append(w.Seen, check.Sighting{
		Run: id(line), Ref: ref(line), Attempt: number, At: at(arrival), End: at(arrival + 1), Status: status,
	})
	return &w.Seen[len(w.Seen)-1]
}

func (w *world) sighting(line int) *check.Sighting {
	return &w.Seen[slices.IndexFunc(w.Seen, func(s check.Sighting) bool { return s.Run == id(line) })]
}

func (w *world) unsee(line int) {
	w.Seen = slices.DeleteFunc(w.Seen, func(s check.Sighting) bool { return s.Run == id(line) })
}

// observe adds two equal readings of a run.
func (w *world) observe(line int, state check.State, attempts ...check.Attempt) {
	run := check.Run{ID: id(line), State: state, Attempts: attempts, DeadLetter: state == check.Failed}
	if len(attempts) > 0 {
		run.StartedAt = attempts[0].StartedAt
		run.FinishedAt = attempts[len(attempts)-1].FinishedAt
	}
	second := run
	second.Attempts = slices.Clone(attempts)
	w.Runs = append(w.Runs, check.Observation{
		ID: id(line), Ref: ref(line),
		First:  check.Reading{Status: check.Found, At: at(firstRead), Run: run},
		Second: check.Reading{Status: check.Found, At: at(secondRead), Run: second},
	})
}

// succeed makes line a run that started at start, seen by the sink.
func (w *world) succeed(line, start int) {
	w.see(line, 1, start+1, 200)
	w.observe(line, check.Succeeded, attempt(1, start, start+3, "succeeded"))
}

// clean is a history without a fault, with one job of every allowed kind.
func clean() *world {
	w := &world{check.History{SeenAll: true}}
	for line := 1; line <= jobs; line++ {
		w.Asked = append(w.Asked, check.Ask{Ref: ref(line), At: at(10_000)})
		switch line {
		case refused:
			w.Acks = append(w.Acks, check.Ack{Ref: ref(line), Status: 422, At: at(100)})
		case unknownRan:
			w.Acks = append(w.Acks, check.Ack{Ref: ref(line), Status: 503, At: at(100)})
		case unknownSilent:
			w.Acks = append(w.Acks, check.Ack{Ref: ref(line), Status: 0, At: at(100)})
		default:
			w.Acks = append(w.Acks, check.Ack{Ref: ref(line), ID: id(line), Status: 201, At: at(100)})
		}
	}

	w.succeed(onTime, 10_004)
	w.both(onTime, func(r *check.Run) { r.LatenessMS = num(4) })

	w.ask(immediate).At = time.Time{}
	w.ask(immediate).Key = "k"
	w.succeed(immediate, 130)

	w.see(retried, 1, 10_003, 500)
	w.see(retried, 2, 11_500, 200)
	w.observe(retried, check.Succeeded, attempt(1, 10_002, 10_005, "failed"), attempt(2, 11_499, 11_502, "succeeded"))

	w.Changes = append(w.Changes, check.Change{Run: id(cancelled), Kind: check.Cancel, Requested: at(5_000), Acked: at(5_010)})
	w.observe(cancelled, check.Cancelled)

	w.Changes = append(w.Changes, check.Change{
		Run: id(rescheduled), Kind: check.Reschedule, Due: at(60_000), Requested: at(6_000), Acked: at(6_010),
	})
	w.succeed(rescheduled, 60_002)

	w.succeed(unknownRan, 10_002)

	w.ask(pastDeadline).Misfire.Deadline = 5 * time.Second
	w.observe(pastDeadline, check.Missed)
	w.both(pastDeadline, func(r *check.Run) { r.FinishedAt = at(15_000) })

	w.ask(notDue).At = at(secondRead + 1)
	w.observe(notDue, check.Pending)

	w.see(failedForGood, 1, 10_003, 404)
	w.observe(failedForGood, check.Failed, attempt(1, 10_002, 10_004, "failed"))
	w.both(failedForGood, func(r *check.Run) { r.Attempts[0].StatusCode = 404 })

	w.succeed(lateSuccess, 10_002)
	w.sighting(lateSuccess).Attempt = 5
	w.obs(lateSuccess).First.Run.State = check.Failed
	w.obs(lateSuccess).First.Run.Attempts = []check.Attempt{attempt(5, 10_000, 10_100, "lost")}
	w.obs(lateSuccess).Second.Run.Attempts = []check.Attempt{
		attempt(5, 10_000, 10_100, "lost"), attempt(5, 10_002, 610_000, "succeeded"),
	}

	w.succeed(redelivered, 10_001)
	w.see(redelivered, 1, 12_000, 200)
	w.both(redelivered, func(r *check.Run) { r.Attempts[0].Redispatched = true })
	return w
}

// cleanReport is what Judge says of clean, lateness and texts aside.
func cleanReport() check.Report {
	return check.Report{
		Asked: jobs, Acknowledged: jobs - 3, Refused: 1, Unknown: 2, UnknownRan: 1,
		Done: 7, DoneFailed: 1, Cancelled: 1, MissedByPolicy: 1, NotDue: 1,
		DuplicateExecutions: 1, LateSuccesses: 1, DeadLetters: 1,
		SeenAll: true, Sightings: 10,
	}
}
