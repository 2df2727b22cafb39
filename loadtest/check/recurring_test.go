package check_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"carillon.dev/carillon/loadtest/check"
)

// cleanRecurringReport is what JudgeRecurring says of cleanRecurring, lateness and texts aside.
func cleanRecurringReport() check.RecurringReport {
	// By line: 29 (10 … 290 s); 19 (15 … 285 s); 3 + 4; 4 + 9; 6; 29 each of the four policies; 20
	// … 80 s, and 30 … 75 s.
	const targets = 29 + 19 + (3 + 4) + (4 + 9) + 6 + 4*29 + 7 + 4
	const missed = 10 + 10 + 7 + 5
	return check.RecurringReport{
		Jobs: recurring, JobsAcknowledged: recurring, End: at(rEnd),
		Changes: check.EventCounts{Created: recurring, Updated: 1, Paused: 1, Resumed: 1, Cancelled: 3},
		Targets: targets, Done: targets - missed, MissedByPolicy: missed,
		MissedReasons: map[string]int{"run_latest": 20, "deadline": 7, "skip": 5},
		Dropped:       3, SeenAll: true,
		Policies: []check.PolicyCount{
			{Policy: "run_all", Jobs: 2, Targets: 11 + 8, RunMin: 11 + 8, RunMax: 11 + 8, Ran: 11 + 8},
			{Policy: "run_all", Deadline: check.Span(40 * time.Second), Jobs: 1, Targets: 11, RunMin: 4, RunMax: 4, Ran: 4, Missed: 7},
			{Policy: "run_latest", Jobs: 2, Targets: 22, RunMin: 2, RunMax: 2, Ran: 2, Missed: 20},
			{Policy: "skip", Jobs: 1, Targets: 11, RunMin: 6, RunMax: 6, Ran: 6, Missed: 5},
		},
	}
}

func TestARecurringHistoryWithoutFaults(t *testing.T) {
	w := cleanRecurring()
	rep := judgeRecurring(t, w.RecurringHistory)
	want := cleanRecurringReport()
	want.Sightings = len(w.Seen)
	ignore := cmpopts.IgnoreFields(check.RecurringReport{}, "Reported", "Seen", "Faults", "Guarantees")
	if diff := cmp.Diff(want, rep, ignore); diff != "" {
		t.Errorf("JudgeRecurring of a clean history (-want +got):\n%s\nfaults: %v", diff, rep.Faults)
	}
	if rep.Failed() || len(rep.Faults) > 0 {
		t.Errorf("Failed = %t, faults %v, want neither", rep.Failed(), rep.Faults)
	}
	// all's first run after the stop waited for 106 s
	if l := rep.Reported; l.Count == 0 || l.P50 > 5 || l.Max < 100_000 {
		t.Errorf("Reported = %+v, want a p50 of 4 ms and a max of 106 s", l)
	}
}

func TestFaultsOfRecurringJobsAreFound(t *testing.T) {
	const (
		nominal = 60_000 // of steady
		due     = 60_500
	)
	type counts struct{ Missed, Early, Unexpected, Ghosts, DuplicateOutcomes, Unfinished, Unreadable, PolicyBroken int }
	rows := []struct {
		name  string
		forge func(*recurringWorld)
		want  counts
		says  string // in one of the faults
		ok    bool   // it is no fault
	}{
		{name: "a target without a trace", forge: func(w *recurringWorld) { w.forget(steady, due) }, want: counts{Missed: 1}, says: "neither started nor recorded"},
		{name: "a target of a cron without a trace", forge: func(w *recurringWorld) { w.forget(cronned, 45_000) }, want: counts{Missed: 1}},
		{name: "the last target before the end", forge: func(w *recurringWorld) { w.forget(latest, 290_000) }, want: counts{Missed: 1}},
		{name: "a target at the end is not asked for", forge: func(w *recurringWorld) { w.forget(latest, 300_000) }, ok: true},
		{name: "the last target before a pause was requested", forge: func(w *recurringWorld) { w.forget(pausing, 30_000) }, want: counts{Missed: 1}},
		{name: "the first target after a resume", forge: func(w *recurringWorld) { w.forget(pausing, 80_000) }, want: counts{Missed: 1}},
		{name: "the first target after an update", forge: func(w *recurringWorld) { w.forget(updating, 49_000) }, want: counts{Missed: 1}},
		{name: "a target that both sides of a change name", forge: func(w *recurringWorld) {
			w.event(latest, check.JobUpdated, 59_000, 59_500, view(latest, 2, "active", every("10s"), "0s", byDefault))
			w.forget(latest, 60_000)
		}, want: counts{Missed: 1}},
		{name: "a target that only one side of a change names", forge: func(w *recurringWorld) {
			w.Events[slices.IndexFunc(w.Events, func(e check.JobEvent) bool { return e.Kind == check.JobUpdated })].Requested = at(39_999)
			w.forget(updating, 40_000)
		}, ok: true},
		{name: "a job that stopped going on", forge: func(w *recurringWorld) {
			for d := 230_500; d < rEnd+20_000; d += 10_000 {
				w.forget(steady, d)
			}
		}, want: counts{Missed: 7}},
		{name: "success that the sink never saw", forge: func(w *recurringWorld) { w.unseeRun(steady, due) }, want: counts{Missed: 1}, says: "never saw it"},
		{name: "the same with a gap in the record", forge: func(w *recurringWorld) { w.unseeRun(steady, due); w.SeenAll = false }, ok: true},
		{name: "cancelled, and nobody asked for it", forge: func(w *recurringWorld) {
			w.forget(latest, 60_000)
			w.dropped(latest, 60_000)
		}, want: counts{Missed: 1}, says: "nobody asked for that"},
		{name: "cancelled when it was lost, and nobody asked for it", forge: func(w *recurringWorld) {
			w.forget(latest, 60_000)
			w.droppedLost(latest, 60_000, 66_000)
		}, want: counts{Missed: 1}, says: "nobody asked for that"},
		{name: "cancelled with its job before its retry, since it was lost", forge: func(w *recurringWorld) {
			w.forget(ending, 60_000)
			w.droppedLost(ending, 60_000, 66_000)
		}, ok: true},
		{name: "cancelled with its job, although it was due before and never claimed", forge: func(w *recurringWorld) {
			w.forget(ending, 60_000)
			w.dropped(ending, 60_000)
		}, want: counts{Missed: 1}, says: "nobody asked for that"},
		{name: "missed for a reason that is no policy", forge: func(w *recurringWorld) {
			w.forget(latest, 60_000)
			w.gone(latest, 60_000, 1, 65_000, "no time")
		}, want: counts{Missed: 1}, says: "no reason"},
		{name: "missed by a deadline that it does not have", forge: func(w *recurringWorld) {
			w.forget(all, 60_000)
			w.gone(all, 60_000, 1, 365_000, "deadline: it could not start within 1m0s")
		}, want: counts{Missed: 1}, says: "its policy says nothing"},
		{name: "missed by its deadline, too soon", forge: func(w *recurringWorld) {
			w.forget(deadlined, 60_000)
			w.gone(deadlined, 60_000, 1, 99_999, "deadline: it could not start within 40s")
		}, want: counts{Missed: 1}, says: "39.999s late"},
		{name: "missed by its deadline, just", forge: func(w *recurringWorld) {
			w.forget(deadlined, 60_000)
			w.gone(deadlined, 60_000, 1, 100_000, "deadline: it could not start within 40s")
		}, ok: true},
		{name: "missed for a later run that was not due", forge: func(w *recurringWorld) {
			w.forget(latest, 60_000)
			w.gone(latest, 60_000, 1, 69_999, "run_latest: a later run was due")
		}, want: counts{Missed: 1}, says: "no later run was due"},
		{name: "missed for a later run although all are wanted", forge: func(w *recurringWorld) {
			w.forget(all, 60_000)
			w.gone(all, 60_000, 1, 130_000, "run_latest: a later run was due")
		}, want: counts{Missed: 1}, says: "its policy is run_all"},
		{name: "missed for a change that never was", forge: func(w *recurringWorld) {
			w.forget(latest, 60_000)
			w.gone(latest, 60_000, 1, 65_000, "changed: the job was paused before the run could start")
		}, want: counts{Missed: 1}, says: "no change is near"},
		{name: "missed for a change that came before it could start", forge: func(w *recurringWorld) {
			w.forget(ending, 60_000)
			w.gone(ending, 60_000, 1, 66_000, "changed: the job was cancelled before the run could start")
		}, ok: true},
		{name: "a stretch of another number", forge: func(w *recurringWorld) {
			w.both(latest, 120_000, func(r *check.JobRun) { m := *r.Missed; m.Count = 9; r.Missed = &m })
		}, want: counts{Unexpected: 1}, says: "where the schedule names 10"},

		{name: "the first target after its start", forge: func(w *recurringWorld) { w.forget(bounded, 29_000) }, want: counts{Missed: 1}},
		{name: "the first target of a cron, at its start", forge: func(w *recurringWorld) { w.forget(fenced, 31_000) }, want: counts{Missed: 1}},
		{name: "a nominal time before the start", forge: func(w *recurringWorld) { w.ran(bounded, 10_000, 19_000, 19_004) }, want: counts{Unexpected: 1}, says: "does not name"},
		{name: "due after the start, but for a nominal time before it", forge: func(w *recurringWorld) {
			w.Events[len(w.Events)-2].Job.Start = at(20_001)
		}, want: counts{Unexpected: 1}, says: "does not name"},
		{name: "the last target before the end, due after it by its jitter", forge: func(w *recurringWorld) { w.forget(bounded, 89_000) }, want: counts{Missed: 1}},
		{name: "due before the end, but for a nominal time at it", forge: func(w *recurringWorld) {
			w.Events[len(w.Events)-2].Job.End = at(80_000)
		}, want: counts{Unexpected: 1}, says: "does not name"},
		{name: "a nominal time after the end", forge: func(w *recurringWorld) { w.ran(bounded, 90_000, 99_000, 99_004) }, want: counts{Unexpected: 1}, says: "does not name"},
		{name: "a time of a cron at the end", forge: func(w *recurringWorld) { w.ran(fenced, 90_000, 91_000, 91_004) }, want: counts{Unexpected: 1}, says: "does not name"},
		{name: "the last time of a cron before the end", forge: func(w *recurringWorld) { w.forget(fenced, 76_000) }, want: counts{Missed: 1}},
		{name: "created after its start: what came before is not asked for", forge: func(w *recurringWorld) {
			e := &w.Events[len(w.Events)-2]
			e.Requested, e.Acked = at(44_000), at(45_000)
			w.forget(bounded, 29_000)
			w.forget(bounded, 39_000)
			w.forget(bounded, 49_000)
		}, ok: true},
		{name: "created after its start: what comes after is", forge: func(w *recurringWorld) {
			e := &w.Events[len(w.Events)-2]
			e.Requested, e.Acked = at(34_000), at(35_000)
			w.forget(bounded, 29_000)
			w.forget(bounded, 39_000)
			w.forget(bounded, 49_000)
		}, want: counts{Missed: 1}},
		{name: "due past its end as it may be, started long after it", forge: func(w *recurringWorld) {
			w.forget(bounded, 89_000)
			w.ran(bounded, 80_000, 89_000, 119_000)
		}, ok: true},
		{name: "the last one given up for a later one, of which there is none", forge: func(w *recurringWorld) {
			w.forget(bounded, 89_000)
			w.stretch(bounded, 80_000, 89_000, 1, 110_000, "run_latest: a later run was due")
		}, want: counts{Missed: 1}, says: "no later run was due"},
		{name: "the last but one given up for the last", forge: func(w *recurringWorld) {
			w.forget(bounded, 79_000)
			w.stretch(bounded, 70_000, 79_000, 1, 110_000, "run_latest: a later run was due")
		}, ok: true},
		{name: "a stretch that goes on after the end", forge: func(w *recurringWorld) {
			w.forget(bounded, 79_000)
			w.forget(bounded, 89_000)
			w.stretch(bounded, 70_000, 79_000, 3, 110_000, "changed: the job was cancelled before the run could start")
		}, want: counts{Missed: 2, Unexpected: 1}, says: "where the schedule names 2"},

		{name: "early, as the sink saw it", forge: func(w *recurringWorld) { w.unseeRun(steady, due); w.arrive(steady, due, 1, due-1) }, want: counts{Early: 1}},
		{name: "early, as the API says", forge: func(w *recurringWorld) {
			w.both(steady, due, func(r *check.JobRun) { r.StartedAt = at(due - 1) })
		}, want: counts{Early: 1}},
		{name: "at the nominal time, before the offset", forge: func(w *recurringWorld) {
			w.forget(steady, due)
			w.ran(steady, nominal, nominal, nominal)
		}, want: counts{Unexpected: 1, Missed: 1}, says: "which its schedule does not name"},

		{name: "a run between two targets", forge: func(w *recurringWorld) { w.ran(steady, 63_000, 63_500, 63_504) }, want: counts{Unexpected: 1}},
		{name: "a run that only the sink knows of", forge: func(w *recurringWorld) { w.arrive(steady, 63_500, 1, 63_504) }, want: counts{Unexpected: 1}},
		{name: "a run before the job was asked for", forge: func(w *recurringWorld) { w.ran(latest, 0, 0, 4) }, want: counts{Unexpected: 1}},
		{name: "due after the creation, but for a nominal time before it: not asked for", forge: func(w *recurringWorld) {
			w.Events[0].Requested, w.Events[0].Acked = at(10_100), at(10_200)
			w.forget(steady, 10_500)
		}, ok: true},
		{name: "a run for a nominal time before the creation", forge: func(w *recurringWorld) {
			w.Events[0].Requested, w.Events[0].Acked = at(10_100), at(10_200)
		}, want: counts{Unexpected: 1}},
		{name: "a run between request and acknowledgement", forge: func(w *recurringWorld) {
			w.Events[slices.IndexFunc(w.Events, func(e check.JobEvent) bool { return e.Ref == ref(latest) })].Acked = at(10_001)
		}, ok: true},
		{name: "a second run for one nominal time", forge: func(w *recurringWorld) {
			w.ran(latest, 60_000, 60_000, 60_010)
			for _, r := range []*check.JobReading{&w.of(latest).First, &w.of(latest).Second} {
				r.Runs[len(r.Runs)-1].ID += "0"
			}
			w.Seen[len(w.Seen)-1].Run += "0"
		}, want: counts{Unexpected: 1}, says: "a second run"},
		{name: "a second run for one nominal time, while a change is under way", forge: func(w *recurringWorld) { w.twice(58_000, 61_000) }, ok: true},
		{name: "a second run for one nominal time, after a change", forge: func(w *recurringWorld) { w.twice(55_000, 58_500) }, want: counts{Unexpected: 1}, says: "a second run"},
		{name: "a second run for one nominal time, soon after a change that was made again", forge: func(w *recurringWorld) { w.twice(55_000, 58_700) }, ok: true},
		{name: "a second run for one nominal time, soon after a change that was made once", forge: func(w *recurringWorld) { w.twice(58_100, 58_700) }, want: counts{Unexpected: 1}, says: "a second run"},
		{name: "missed by the side before a change, of which the one after would have had a later instant", forge: func(w *recurringWorld) { w.missedBefore(48_200) }, ok: true},
		{name: "missed by the side before a change, long after it", forge: func(w *recurringWorld) { w.missedBefore(47_900) }, want: counts{Missed: 1}, says: "no change is near"},
		{name: "missed for a change that had not come, by a clock that is slow", forge: func(w *recurringWorld) {
			w.Off = time.Second
			w.missedBefore(48_200)
			w.both(updating, 50_000, func(r *check.JobRun) { r.FinishedAt = at(46_900) })
		}, ok: true},
		{name: "missed for a change that had not come", forge: func(w *recurringWorld) {
			w.missedBefore(48_200)
			w.both(updating, 50_000, func(r *check.JobRun) { r.FinishedAt = at(46_900) })
		}, want: counts{Missed: 1}, says: "no change is near"},
		{name: "a second run for one nominal time, after a change, by clocks that are off", forge: func(w *recurringWorld) {
			w.Off = time.Second
			w.twice(55_000, 58_500)
		}, ok: true},
		{name: "a change of the jitter, whose offset only a later run tells", forge: func(w *recurringWorld) {
			for i := range w.Events {
				if e := &w.Events[i]; e.Ref == ref(updating) && e.Kind != check.JobCreated {
					e.Job.Jitter = check.Span(time.Second)
				}
			}
			for n := 49_000; n < 110_000; n += 7_000 {
				w.forget(updating, n)
				if n+300 < stopFrom {
					w.ran(updating, n, n+300, n+304)
				}
			}
		}, ok: true},
		{name: "a run of a job that nobody asked for", forge: func(w *recurringWorld) { w.arrive(99, 60_000, 1, 60_001) }, want: counts{Unexpected: 1}, says: "not asked for"},
		{name: "a run by hand that nobody asked for", forge: func(w *recurringWorld) {
			w.both(steady, due, func(r *check.JobRun) { r.Trigger = "manual" })
		}, want: counts{Unexpected: 1}, says: `by "manual"`},
		{name: "an offset outside of the jitter", forge: func(w *recurringWorld) {
			for i := range w.Events {
				if w.Events[i].Ref == ref(steady) {
					w.Events[i].Job.Jitter = check.Span(500 * time.Millisecond)
				}
			}
		}, want: counts{Unexpected: 1}, says: "moved by 500 ms"},
		{name: "a due time that its id does not say", forge: func(w *recurringWorld) {
			w.both(steady, due, func(r *check.JobRun) { r.DueAt = at(due + 1) })
		}, want: counts{Unexpected: 1}, says: "its id says"},

		{name: "a run of a paused job", forge: func(w *recurringWorld) { w.ran(pausing, 50_000, 50_000, 50_004) }, want: counts{Ghosts: 1}},
		{name: "a run of a paused job within the grace", forge: func(w *recurringWorld) {
			w.forget(pausing, 40_000)
			w.Events[pauseOf(w)].Acked = at(39_000)
			w.ran(pausing, 40_000, 40_000, 40_004)
		}, ok: true},
		{name: "due before the pause, started long after it", forge: func(w *recurringWorld) {
			w.forget(pausing, 30_000)
			w.ran(pausing, 30_000, 30_000, 37_601)
		}, want: counts{Ghosts: 1}},
		{name: "due before the pause, started long after it by a clock that is off", forge: func(w *recurringWorld) {
			w.Off = time.Second
			w.forget(pausing, 30_000)
			w.ran(pausing, 30_000, 30_000, 37_601)
		}, ok: true},
		{name: "due before the pause, started later than by a clock that is off", forge: func(w *recurringWorld) {
			w.Off = time.Second
			w.forget(pausing, 30_000)
			w.ran(pausing, 30_000, 30_000, 38_601)
		}, want: counts{Ghosts: 1}},
		{name: "a run of the old schedule after the update", forge: func(w *recurringWorld) {
			w.forget(updating, 50_000)
			w.ran(updating, 50_000, 50_000, 50_004)
		}, want: counts{Ghosts: 1}},
		{name: "a run of a cancelled job", forge: func(w *recurringWorld) {
			w.forget(ending, 70_000)
			w.ran(ending, 70_000, 70_000, 70_004)
		}, want: counts{Ghosts: 1}},
		{name: "a retry after the cancel", forge: func(w *recurringWorld) { w.arrive(ending, 60_000, 2, 66_000) }, want: counts{Ghosts: 1}},
		{name: "a retry after an update, before the cancel", forge: func(w *recurringWorld) {
			w.event(ending, check.JobUpdated, 40_500, 40_520, view(ending, 7, "active", every("10s"), "0s", byDefault))
			w.arrive(ending, 30_000, 2, 55_000)
			// by a clock that is slow
			w.both(ending, 30_000, func(r *check.JobRun) { r.Attempts = append(r.Attempts, attempt(2, 54_980, 54_990, "succeeded")) })
		}, ok: true},
		{name: "a retry after an update and the cancel", forge: func(w *recurringWorld) {
			w.event(ending, check.JobUpdated, 40_500, 40_520, view(ending, 7, "active", every("10s"), "0s", byDefault))
			w.arrive(ending, 30_000, 2, 66_000)
		}, want: counts{Ghosts: 1}},
		{name: "a retry of an active job", forge: func(w *recurringWorld) {
			w.arrive(latest, 60_000, 2, 66_000)
			w.both(latest, 60_000, func(r *check.JobRun) { r.Attempts = append(r.Attempts, attempt(2, 65_999, 66_003, "succeeded")) })
		}, ok: true},
		{name: "every call was answered 500, and the run is succeeded", forge: func(w *recurringWorld) {
			w.Seen[slices.IndexFunc(w.Seen, func(s check.Sighting) bool { return s.Run == rid(latest, 60_000) })].Status = 500
		}, says: "answered no call of it so"},
		{name: "a change of unknown outcome: anything may run, and need not", forge: func(w *recurringWorld) {
			w.Events[pauseOf(w)].Acked = time.Time{}
			w.Events[pauseOf(w)].Job = check.JobView{}
			w.ran(pausing, 50_000, 50_000, 50_004)
		}, ok: true},
		{name: "a refused change changes nothing", forge: func(w *recurringWorld) {
			w.Events = append(w.Events, check.JobEvent{Ref: ref(latest), Kind: check.JobPaused, Requested: at(55_000), Refused: true})
			w.forget(latest, 60_000)
		}, want: counts{Missed: 1}},

		{name: "another outcome at the second read", forge: func(w *recurringWorld) {
			w.of(steady).Second.Runs[5].State = check.Failed
			w.of(steady).Second.Runs[5].Attempts = []check.Attempt{attempt(5, due+4, due+7, "failed")}
		}, want: counts{DuplicateOutcomes: 1}},
		{name: "two ends in one read", forge: func(w *recurringWorld) {
			w.both(steady, due, func(r *check.JobRun) {
				r.Attempts = []check.Attempt{attempt(1, due+4, due+7, "succeeded"), attempt(5, due+50, due+60, "failed")}
			})
		}, want: counts{DuplicateOutcomes: 1}},
		{name: "gone from the history", forge: func(w *recurringWorld) {
			w.of(steady).Second.Runs = slices.DeleteFunc(w.of(steady).Second.Runs, func(r check.JobRun) bool { return r.ID == rid(steady, due) })
		}, want: counts{Unfinished: 1}},
		{name: "ran, and never in the history", forge: func(w *recurringWorld) {
			w.forget(steady, due)
			w.arrive(steady, due, 1, due+4)
		}, want: counts{Unfinished: 1}, says: "not in the history"},
		{name: "in the history only at the second read", forge: func(w *recurringWorld) {
			w.of(steady).First.Runs = slices.DeleteFunc(w.of(steady).First.Runs, func(r check.JobRun) bool { return r.ID == rid(steady, due) })
		}, ok: true},
		{name: "a history that could not be read", forge: func(w *recurringWorld) {
			w.of(ending).First = check.JobReading{}
			w.of(ending).Second = check.JobReading{}
		}, want: counts{Unreadable: 6}},
		{name: "a history that nobody read", forge: func(w *recurringWorld) {
			w.Jobs = slices.DeleteFunc(w.Jobs, func(j check.JobHistory) bool { return j.ID == jobID(ending) })
		}, want: counts{Unreadable: 6}},

		{name: "two ran where only the latest is wanted", forge: func(w *recurringWorld) {
			w.both(latest, 120_000, func(r *check.JobRun) {
				r.Missed = &check.Stretch{From: at(120_000), To: at(200_000), Count: 9, Reason: "run_latest: a later run was due"}
			})
			w.ran(latest, 210_000, 210_000, lookedAt+4)
		}, want: counts{PolicyBroken: 1}, says: "run_latest (deadline 0s) says that 1 to 1 run"},
		{name: "more skipped than the policy says", forge: func(w *recurringWorld) {
			w.forget(skipping, 180_000)
			w.forget(skipping, 170_000)
			w.gone(skipping, 170_000, 2, 241_000, "skip: it could not start within a minute")
		}, ok: true},
		{name: "skipped long after the job was looked at", forge: func(w *recurringWorld) {
			w.forget(skipping, 200_000)
			w.gone(skipping, 200_000, 1, 261_000, "skip: it could not start within a minute")
		}, want: counts{PolicyBroken: 1}, says: "was in time and was given up 35s later"},
		{name: "none ran where the latest is wanted", forge: func(w *recurringWorld) {
			w.forget(latest, 220_000)
			w.both(latest, 120_000, func(r *check.JobRun) {
				r.Missed = &check.Stretch{From: at(120_000), To: at(220_000), Count: 11, Reason: "run_latest: a later run was due"}
				r.FinishedAt = at(228_000)
			})
		}, want: counts{Missed: 1, PolicyBroken: 1}, says: "the latest did not run"},
		{name: "a latest that was not", forge: func(w *recurringWorld) {
			w.Stops[0].To = at(215_000)
			w.both(latest, 120_000, func(r *check.JobRun) { r.FinishedAt = at(219_000) })
		}, want: counts{Missed: 1, PolicyBroken: 1}, says: "the latest did not run"},
		{name: "given up after one that ran", forge: func(w *recurringWorld) {
			w.both(latest, 120_000, func(r *check.JobRun) {
				r.Missed = &check.Stretch{From: at(120_000), To: at(140_000), Count: 3, Reason: "run_latest: a later run was due"}
			})
			w.ran(latest, 150_000, 150_000, lookedAt+4)
			w.gone(latest, 160_000, 6, lookedAt, "run_latest: a later run was due")
		}, want: counts{PolicyBroken: 1}},
		{name: "one that was given away before the stop", forge: func(w *recurringWorld) {
			w.forget(latest, 120_000)
			w.ran(latest, 120_000, 120_000, 224_000)
			w.gone(latest, 130_000, 9, lookedAt, "run_latest: a later run was due")
		}, ok: true},
		{name: "too late by its deadline, and started", forge: func(w *recurringWorld) {
			w.both(deadlined, 120_000, func(r *check.JobRun) { m := *r.Missed; m.To, m.Count = at(160_000), 5; r.Missed = &m })
			w.ran(deadlined, 170_000, 170_000, lookedAt+4)
			w.ran(deadlined, 180_000, 180_000, lookedAt+4)
		}, want: counts{PolicyBroken: 1}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := cleanRecurring()
			row.forge(w)
			rep := judgeRecurring(t, w.RecurringHistory)
			got := counts{rep.Missed, rep.Early, rep.Unexpected, rep.Ghosts, rep.DuplicateOutcomes, rep.Unfinished, rep.Unreadable, rep.PolicyBroken}
			if got != row.want || rep.Failed() == row.ok {
				t.Errorf("JudgeRecurring counts %+v, Failed %t, want %+v, %t; faults: %v", got, rep.Failed(), row.want, !row.ok, rep.Faults)
			}
			says(t, &rep, row.says)
			if classes := rep.Done + rep.MissedByPolicy + rep.Missed + rep.Unfinished + rep.Unreadable; rep.Targets != classes {
				t.Errorf("Targets = %d, want the sum of the classes, %d", rep.Targets, classes)
			}
		})
	}
}

func pauseOf(w *recurringWorld) int {
	return slices.IndexFunc(w.Events, func(e check.JobEvent) bool { return e.Kind == check.JobPaused })
}

func TestDuplicateExecutionsOfRecurringJobsAreCounted(t *testing.T) {
	w := cleanRecurring()
	w.arrive(steady, 60_500, 1, 61_000)
	w.both(steady, 60_500, func(r *check.JobRun) { r.Attempts[0].Redispatched = true })
	rep := judgeRecurring(t, w.RecurringHistory)
	if rep.DuplicateExecutions != 1 || rep.Failed() {
		t.Errorf("DuplicateExecutions = %d, Failed %t, want 1, false: %v", rep.DuplicateExecutions, rep.Failed(), rep.Faults)
	}
}

func TestUnsettledJobsAreReadAgain(t *testing.T) {
	w := cleanRecurring()
	if got, err := check.Unsettled(w.RecurringHistory); err != nil || len(got) > 0 {
		t.Errorf("Unsettled of a clean history = %v, %v, want none", got, err)
	}
	w.forget(steady, 60_500)
	w.forget(latest, 60_000)
	w.arrive(latest, 60_000, 1, 60_004)
	w.of(ending).Second = check.JobReading{}
	got, err := check.Unsettled(w.RecurringHistory)
	if want := []string{jobID(steady), jobID(ending), jobID(latest)}; err != nil || !slices.Equal(got, want) {
		t.Errorf("Unsettled = %v, %v, want %v", got, err, want)
	}
}

// The order of what is read does not matter.
func TestRecurringHistoriesHaveNoOrder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	w := cleanRecurring()
	w.forget(steady, 60_500)
	w.arrive(ending, 60_000, 2, 66_000)
	w.arrive(99, 60_000, 1, 66_000)
	want := judgeRecurring(t, w.RecurringHistory)
	for range 20 {
		rng.Shuffle(len(w.Events), func(i, j int) { w.Events[i], w.Events[j] = w.Events[j], w.Events[i] })
		rng.Shuffle(len(w.Jobs), func(i, j int) { w.Jobs[i], w.Jobs[j] = w.Jobs[j], w.Jobs[i] })
		rng.Shuffle(len(w.Seen), func(i, j int) { w.Seen[i], w.Seen[j] = w.Seen[j], w.Seen[i] })
		for i := range w.Jobs {
			for _, runs := range [][]check.JobRun{w.Jobs[i].First.Runs, w.Jobs[i].Second.Runs} {
				rng.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
			}
		}
		if diff := cmp.Diff(want, judgeRecurring(t, w.RecurringHistory)); diff != "" {
			t.Fatalf("JudgeRecurring of the same history in another order (-was +is):\n%s", diff)
		}
	}
}

func TestRecurringHistoriesThatContradictThemselves(t *testing.T) {
	rows := []struct {
		name  string
		forge func(*recurringWorld)
	}{
		{"a job created twice", func(w *recurringWorld) { w.Events = append(w.Events, w.Events[0]) }},
		{"two jobs of one id", func(w *recurringWorld) { w.Events[0].Job.ID = jobID(cronned) }},
		{"a schedule that the judge cannot compute", func(w *recurringWorld) { w.Events[1].Job.Schedule.Cron = "0 0 L * *" }},
		{"no schedule", func(w *recurringWorld) { w.Events[1].Job.Schedule.Cron = "" }},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := cleanRecurring()
			row.forge(w)
			if _, err := check.JudgeRecurring(w.RecurringHistory); !errors.Is(err, check.ErrHistory) {
				t.Errorf("JudgeRecurring = %v, want ErrHistory", err)
			}
		})
	}
}

func TestRecurringReportAsText(t *testing.T) {
	w := cleanRecurring()
	w.forget(steady, 60_500)
	rep := judgeRecurring(t, w.RecurringHistory)
	var b bytes.Buffer
	if err := rep.WriteText(&b); err != nil {
		t.Fatalf("WriteText: %v", err)
	}
	for _, want := range []string{"missed                1", "deadline 7, run_latest 20, skip 5", "skip: of 11 targets of 1 jobs 6 to run, 6 ran", "s1/1", "FAILED"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("WriteText has no %q:\n%s", want, b.String())
		}
	}
	if testing.Verbose() {
		t.Logf("\n%s", b.String())
	}
}

func BenchmarkJudgeRecurring(b *testing.B) {
	w := cleanRecurring()
	for b.Loop() {
		if _, err := check.JudgeRecurring(w.RecurringHistory); err != nil {
			b.Fatal(err)
		}
	}
}
