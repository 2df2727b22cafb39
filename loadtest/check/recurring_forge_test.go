package check_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// The jobs of a clean recurring world, by line.
const (
	steady    = iota + 1 // every 10 s, moved by 500 ms
	cronned              // a cron with seconds
	pausing              // every 10 s, paused at 35 s, resumed at 75 s
	updating             // every 10 s, then every 7 s from 42 s on
	ending               // every 10 s, cancelled at 63 s
	latest               // every 10 s, run_latest
	all                  // every 10 s, run_all
	deadlined            // every 10 s, run_all with a deadline of 40 s
	skipping             // every 10 s, skip
	bounded              // every 10 s from 20 s up to 85 s, moved by 9 s
	// a cron every 15 s from 30 s up to 90 s, which it would name, moved by 1 s
	fenced
	recurring = fenced
)

const (
	rEnd      = 300_000 // of the observation
	stopFrom  = 120_000 // no node ran
	stopTo    = 225_000
	lookedAt  = 226_000 // by every job, after the stop
	rFirst    = 400_000
	rSecond   = 430_000
	createdAt = 1_000
)

// rid is the id of a run of a line that is due at ms after t0, a UUID of version 8 with its time in
// front.
func rid(line, due int) string {
	h := fmt.Sprintf("%012x", at(due).UnixMilli())
	return fmt.Sprintf("%s-%s-8%03x-8000-%012x", h[:8], h[8:], line, line)
}

func jobID(line int) string { return fmt.Sprintf("job-%02d", line) }

// recurringWorld is a recurring history that is easy to change.
type recurringWorld struct{ check.RecurringHistory }

// within is v with a start and an end, as the API shows them.
func within(v check.JobView, start, end int) check.JobView {
	text := fmt.Sprintf(`{"start":%q,"end":%q}`, at(start).Format(time.RFC3339Nano), at(end).Format(time.RFC3339Nano))
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	return v
}

// view is a job as the API shows it, from the fields that differ; it is read from JSON, so that is
// tested too.
func view(line, generation int, state, schedule, jitter, misfire string, next ...int) check.JobView {
	text := fmt.Sprintf(`{"id":%q,"tenant":"default","state":%q,"generation":%d,"schedule":%s,"jitter":%q,"misfire":%s`,
		jobID(line), state, generation, schedule, jitter, misfire)
	if len(next) == 2 {
		text += fmt.Sprintf(`,"next_run":{"id":"x","nominal_at":%q,"due_at":%q}`, at(next[0]).Format(time.RFC3339Nano), at(next[1]).Format(time.RFC3339Nano))
	}
	var v check.JobView
	if err := json.Unmarshal([]byte(text+"}"), &v); err != nil {
		panic(err)
	}
	return v
}

func every(d string) string {
	return fmt.Sprintf(`{"every":%q,"anchor":%q}`, d, t0.Format(time.RFC3339Nano))
}

func (w *recurringWorld) event(line int, kind check.JobEventKind, requested, acked int, v check.JobView) {
	w.Events = append(w.Events, check.JobEvent{Ref: ref(line), Kind: kind, Requested: at(requested), Acked: at(acked), Job: v})
}

func (w *recurringWorld) of(line int) *check.JobHistory {
	return &w.Jobs[slices.IndexFunc(w.Jobs, func(j check.JobHistory) bool { return j.ID == jobID(line) })]
}

// put adds a run to both readings of the job's history.
func (w *recurringWorld) put(line int, r check.JobRun) {
	h := w.of(line)
	h.First.Runs, h.Second.Runs = append(h.First.Runs, r), append(h.Second.Runs, r)
}

// both changes a run in both readings.
func (w *recurringWorld) both(line, due int, change func(*check.JobRun)) {
	h := w.of(line)
	for _, runs := range [][]check.JobRun{h.First.Runs, h.Second.Runs} {
		change(&runs[slices.IndexFunc(runs, func(r check.JobRun) bool { return r.ID == rid(line, due) })])
	}
}

// forget takes a run out of both readings and the sink's record.
func (w *recurringWorld) forget(line, due int) {
	h := w.of(line)
	is := func(r check.JobRun) bool { return r.ID == rid(line, due) }
	h.First.Runs, h.Second.Runs = slices.DeleteFunc(h.First.Runs, is), slices.DeleteFunc(h.Second.Runs, is)
	w.unseeRun(line, due)
}

func (w *recurringWorld) unseeRun(line, due int) {
	w.Seen = slices.DeleteFunc(w.Seen, func(s check.Sighting) bool { return s.Run == rid(line, due) })
}

// arrive adds an arrival at the sink.
func (w *recurringWorld) arrive(line, due, number, arrival int) {
	w.Seen = append(w.Seen, check.Sighting{
		Run: rid(line, due), Ref: ref(line), Attempt: number, Due: at(due), At: at(arrival), End: at(arrival + 1), Status: 200,
	})
}

// ran adds a run that started at start and succeeded.
func (w *recurringWorld) ran(line, nominal, due, start int) {
	w.arrive(line, due, 1, start+1)
	w.put(line, check.JobRun{NominalAt: at(nominal), Trigger: "schedule", Run: check.Run{
		ID: rid(line, due), State: check.Succeeded, DueAt: at(due), StartedAt: at(start), FinishedAt: at(start + 3),
		Attempts: []check.Attempt{attempt(1, start, start+3, "succeeded")},
	}})
}

// gone adds what stands for count nominal times, 10 s apart, that were recorded as missed.
func (w *recurringWorld) gone(line, from, count, recorded int, reason string) {
	w.stretch(line, from, from, count, recorded, reason)
}

// stretch is gone of a job with jitter: the first of them is due at due.
func (w *recurringWorld) stretch(line, from, due, count, recorded int, reason string) {
	w.put(line, check.JobRun{
		NominalAt: at(from), Trigger: "schedule",
		Run:    check.Run{ID: rid(line, due), State: check.Missed, DueAt: at(due), FinishedAt: at(recorded)},
		Missed: &check.Stretch{From: at(from), To: at(from + (count-1)*10_000), Count: count, Reason: reason},
	})
}

func (w *recurringWorld) dropped(line, due int) {
	w.put(line, check.JobRun{
		NominalAt: at(due), Trigger: "schedule",
		Run: check.Run{ID: rid(line, due), State: check.Cancelled, DueAt: at(due), FinishedAt: at(due)},
	})
}

// droppedLost is dropped of a run that was claimed at once, lost with its executor, and recorded
// then.
func (w *recurringWorld) droppedLost(line, due, recorded int) {
	w.dropped(line, due)
	w.both(line, due, func(r *check.JobRun) {
		r.FinishedAt, r.Attempts = at(recorded), []check.Attempt{attempt(1, due, recorded, check.OutcomeLost)}
	})
}

// twice runs a nominal time of the job `latest` a second time, due at 60 s, beside a change that
// says the same again.
func (w *recurringWorld) twice(requested, acked int) {
	w.event(latest, check.JobUpdated, requested, acked, view(latest, 2, "active", every("10s"), "0s", byDefault))
	w.ran(latest, 60_000, 60_000, 60_010)
	for _, r := range []*check.JobReading{&w.of(latest).First, &w.of(latest).Second} {
		r.Runs[len(r.Runs)-1].ID += "0"
	}
	w.Seen[len(w.Seen)-1].Run += "0"
}

// missedBefore has the job `updating` changed to every 5 s with a jitter of 300 ms, acknowledged
// then, and the run of 50 s given up that was planned before.
func (w *recurringWorld) missedBefore(acked int) {
	for i := range w.Events {
		if e := &w.Events[i]; e.Ref == ref(updating) && e.Kind != check.JobCreated {
			v := view(updating, 2, e.Job.State, every("5s"), "1s", byDefault)
			e.Job.Schedule, e.Job.Jitter = v.Schedule, v.Jitter
			if e.Kind == check.JobUpdated {
				e.Requested, e.Acked = at(acked-600), at(acked)
			}
		}
	}
	for n := 49_000; n < 110_000; n += 7_000 {
		w.forget(updating, n)
	}
	w.both(updating, 50_000, func(r *check.JobRun) {
		r.State, r.FinishedAt = check.Missed, at(53_000)
		r.Missed = &check.Stretch{From: at(50_000), To: at(50_000), Count: 1, Reason: "changed: the job was changed before the run could start"}
	})
	for n := 55_000; n < 110_000; n += 5_000 {
		w.ran(updating, n, n+300, n+304)
	}
}

// guarantee has the job of a line ask for a guarantee in every answer; its calls carry fences that
// grow.
func (w *recurringWorld) guarantee(line int, g check.Guarantee) {
	for i := range w.Events {
		if w.Events[i].Ref == ref(line) {
			w.Events[i].Job.Guarantee = g
		}
	}
	for i := range w.Seen {
		if w.Seen[i].Ref == ref(line) {
			w.Seen[i].Fence = int64(w.Seen[i].Attempt)
		}
	}
}

// call returns the last arrival of a run.
func (w *recurringWorld) call(line, due int) *check.Sighting {
	for i := range slices.Backward(w.Seen) {
		if w.Seen[i].Run == rid(line, due) {
			return &w.Seen[i]
		}
	}
	return nil
}

const byDefault = `{"policy":"run_latest"}`

// cleanRecurring is a history without a fault: jobs of every kind, a stop of all nodes, runs up to
// 20 s after the end.
func cleanRecurring() *recurringWorld {
	w := &recurringWorld{check.RecurringHistory{
		SeenAll: true, End: at(rEnd), Stops: []check.Stop{{From: at(stopFrom), To: at(stopTo)}},
	}}
	for line := 1; line <= recurring; line++ {
		w.Jobs = append(w.Jobs, check.JobHistory{
			ID: jobID(line), First: check.JobReading{Status: check.Found, At: at(rFirst)}, Second: check.JobReading{Status: check.Found, At: at(rSecond)},
		})
	}
	create := func(line int, schedule, jitter, misfire string, next ...int) {
		w.event(line, check.JobCreated, createdAt, createdAt+20, view(line, 1, "active", schedule, jitter, misfire, next...))
	}
	// up runs a job every `every` ms, moved by offset, in [from, to), except while no node ran.
	up := func(line, every, offset, from, to int) {
		for n := (from + every - 1) / every * every; n < to; n += every {
			if due := n + offset; due < stopFrom || due > lookedAt {
				w.ran(line, n, due, due+4)
			}
		}
	}
	late := func(line, from, to int) { // started after the stop, one step a second
		for k, n := 0, from; n <= to; k, n = k+1, n+10_000 {
			w.ran(line, n, n, lookedAt+k*100)
		}
	}

	create(steady, every("10s"), "2s", byDefault, 10_000, 10_500)
	up(steady, 10_000, 500, createdAt, rEnd+20_000)
	w.stretch(steady, 120_000, 120_500, 10, lookedAt, "run_latest: a later run was due")
	w.ran(steady, 220_000, 220_500, lookedAt+5)

	create(cronned, `{"cron":"*/15 * * * * *","timezone":"UTC"}`, "0s", `{"policy":"run_all"}`)
	up(cronned, 15_000, 0, createdAt, rEnd+20_000)
	for n := 120_000; n <= 225_000; n += 15_000 {
		w.ran(cronned, n, n, lookedAt+50)
	}

	create(pausing, every("10s"), "0s", byDefault)
	up(pausing, 10_000, 0, createdAt, 35_000)
	w.event(pausing, check.JobPaused, 35_000, 35_600, view(pausing, 2, "paused", every("10s"), "0s", byDefault))
	w.dropped(pausing, 40_000)
	w.event(pausing, check.JobResumed, 75_000, 75_600, view(pausing, 3, "active", every("10s"), "0s", byDefault))
	up(pausing, 10_000, 0, 78_000, 115_000)
	w.event(pausing, check.JobCancelled, 115_000, 115_600, view(pausing, 4, "cancelled", every("10s"), "0s", byDefault))

	create(updating, every("10s"), "0s", byDefault)
	up(updating, 10_000, 0, createdAt, 41_000)
	w.event(updating, check.JobUpdated, 42_000, 42_600, view(updating, 2, "active", every("7s"), "0s", byDefault))
	w.dropped(updating, 50_000)
	up(updating, 7_000, 0, 44_600, 110_000)
	w.event(updating, check.JobCancelled, 110_000, 110_600, view(updating, 3, "cancelled", every("7s"), "0s", byDefault))

	create(ending, every("10s"), "0s", byDefault)
	up(ending, 10_000, 0, createdAt, 63_000)
	w.event(ending, check.JobCancelled, 63_000, 63_600, view(ending, 2, "cancelled", every("10s"), "0s", byDefault))
	w.dropped(ending, 70_000)

	create(latest, every("10s"), "0s", byDefault)
	up(latest, 10_000, 0, createdAt, rEnd+20_000)
	w.gone(latest, 120_000, 10, lookedAt, "run_latest: a later run was due")
	late(latest, 220_000, 220_000)

	create(all, every("10s"), "0s", `{"policy":"run_all"}`)
	up(all, 10_000, 0, createdAt, rEnd+20_000)
	late(all, 120_000, 220_000)

	create(deadlined, every("10s"), "0s", `{"policy":"run_all","deadline":"40s"}`)
	up(deadlined, 10_000, 0, createdAt, rEnd+20_000)
	w.gone(deadlined, 120_000, 7, lookedAt, "deadline: it could not start within 40s")
	late(deadlined, 190_000, 220_000)

	create(skipping, every("10s"), "0s", `{"policy":"skip"}`)
	up(skipping, 10_000, 0, createdAt, rEnd+20_000)
	w.gone(skipping, 120_000, 5, lookedAt, "skip: it could not start within a minute")
	late(skipping, 170_000, 220_000)

	w.event(bounded, check.JobCreated, createdAt, createdAt+20, within(view(bounded, 1, "active", every("10s"), "10s", byDefault, 20_000, 29_000), 20_000, 85_000))
	up(bounded, 10_000, 9_000, 20_000, 85_000) // the last is due after the end

	w.event(fenced, check.JobCreated, createdAt, createdAt+20,
		within(view(fenced, 1, "active", `{"cron":"*/15 * * * * *","timezone":"UTC"}`, "2s", byDefault, 30_000, 31_000), 30_000, 90_000))
	up(fenced, 15_000, 1_000, 30_000, 90_000)
	return w
}

func judgeRecurring(t *testing.T, h check.RecurringHistory) check.RecurringReport {
	t.Helper()
	rep, err := check.JudgeRecurring(h)
	if err != nil {
		t.Fatalf("JudgeRecurring: %v", err)
	}
	return rep
}

// says checks that the reason of some fault contains text, unless that is empty.
func says(t *testing.T, rep *check.RecurringReport, text string) {
	t.Helper()
	if text != "" && !slices.ContainsFunc(rep.Faults, func(f check.Fault) bool { return strings.Contains(f.Reason, text) }) {
		t.Errorf("no fault says %q: %v", text, rep.Faults)
	}
}
