package check_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/loadtest/check"
)

// The jobs of limitedJobs, by line: every 10 s from 10 to 90 s, all with run_all.
const (
	queues   = iota + 1 // one at a time, 12 s each: every run waits for the one before
	skips               // one at a time, 12 s each: every second one is skipped
	cancels             // one at a time, 15 s each: every run is cancelled by the next but the last
	rarely              // two at a time, 1 s each: the limit never counts
	withEnds = rarely
)

const byLimitReason = "cancel_oldest: later runs of the job were due"

// limitedJobs is a history without a fault, of jobs with limits.
func limitedJobs(t *testing.T) *recurringWorld {
	t.Helper()
	w := &recurringWorld{check.RecurringHistory{SeenAll: true, End: at(100_000)}}
	for line := 1; line <= withEnds; line++ {
		w.Jobs = append(w.Jobs, check.JobHistory{
			ID: jobID(line), First: check.JobReading{Status: check.Found, At: at(rFirst)}, Second: check.JobReading{Status: check.Found, At: at(rSecond)},
		})
	}
	create := func(line, limit int, onLimit string) {
		v := view(line, 1, "active", every("10s"), "0s", `{"policy":"run_all"}`)
		v.Concurrency = &check.Concurrency{Limit: limit, OnLimit: onLimit}
		w.event(line, check.JobCreated, createdAt, createdAt+20, v)
	}
	create(queues, 1, "queue")
	for due, free := 10_000, 0; due < 100_000; due += 10_000 {
		start := max(due, free) + 5
		w.took(queues, due, start, start+12_000)
		free = start + 12_000
	}
	create(skips, 1, "skip")
	for due := 10_000; due < 100_000; due += 20_000 {
		w.took(skips, due, due+4, due+12_004)
		if next := due + 10_000; next < 100_000 {
			w.gone(skips, next, 1, next+6, "skipped: a run of the job was under way")
		}
	}
	create(cancels, 1, "cancel_oldest")
	for due := 10_000; due < 90_000; due += 10_000 {
		w.took(cancels, due, due+120, due+15_120)
		w.cancelled(cancels, due, due+10_050, byLimitReason)
	}
	w.took(cancels, 90_000, 90_120, 105_120)
	create(rarely, 2, "skip")
	for due := 10_000; due < 100_000; due += 10_000 {
		w.took(rarely, due, due+4, due+1004)
	}
	return w
}

// took adds a run whose call arrived at start and whose work was over at end.
func (w *recurringWorld) took(line, due, start, end int) {
	w.ran(line, due, due, start)
	s := &w.Seen[len(w.Seen)-1]
	s.At, s.End = at(start), at(end)
	w.both(line, due, func(r *check.JobRun) { r.FinishedAt, r.Attempts[0].FinishedAt = at(end+1), at(end+1) })
}

// cancelled has a run that was under way cancelled, and its caller hang up.
func (w *recurringWorld) cancelled(line, due, when int, reason string) {
	w.both(line, due, func(r *check.JobRun) {
		r.State, r.CancelReason, r.FinishedAt = check.Cancelled, reason, at(when)
		r.Attempts = slices.Clone(r.Attempts)
		r.Attempts[0].Outcome, r.Attempts[0].FinishedAt = "cancelled", at(when)
	})
	for i := range w.Seen {
		if s := &w.Seen[i]; s.Run == rid(line, due) {
			s.Gone, s.Status = at(when), 0
		}
	}
}

func (w *recurringWorld) sighting(line, due int) *check.Sighting {
	return &w.Seen[slices.IndexFunc(w.Seen, func(s check.Sighting) bool { return s.Run == rid(line, due) })]
}

func TestJobsWithLimitsWithoutFaults(t *testing.T) {
	rep := judgeRecurring(t, limitedJobs(t).RecurringHistory)
	want := []check.SlotCount{
		{Of: "cancel_oldest", Limit: 1, Jobs: 1, Runs: 9, Calls: 9, Most: 1, Cancelled: 8},
		{Of: "queue", Limit: 1, Jobs: 1, Runs: 9, Calls: 9, Most: 1, Waited: 8},
		{Of: "skip", Limit: 1, Jobs: 1, Runs: 9, Calls: 5, Most: 1, Skipped: 4},
		{Of: "skip", Limit: 2, Jobs: 1, Runs: 9, Calls: 9, Most: 1},
	}
	if diff := cmp.Diff(want, rep.Limits); diff != "" {
		t.Errorf("Limits (-want +got):\n%s", diff)
	}
	if rep.Failed() || rep.Targets != 36 || rep.Done != 32 || rep.MissedByPolicy != 4 || rep.MissedReasons["skipped"] != 4 {
		t.Errorf("JudgeRecurring = %+v, want 36 targets, 32 done, 4 skipped, and no fault", rep)
	}
	var text bytes.Buffer
	if err := rep.WriteText(&text); err != nil || !strings.Contains(text.String(), "cancel_oldest      1     1     9      9") {
		t.Errorf("WriteText = %v, want a table of limits:\n%s", err, text.String())
	}
}

// TestALimitWithAKeyIsJudgedByPayload: runs with the same payload count together, others do not.
func TestALimitWithAKeyIsJudgedByPayload(t *testing.T) {
	for _, c := range []struct {
		name string
		body func(n int) check.Hash // of run number n
		over int
	}{
		{"each has its own", func(n int) check.Hash { return check.Hash(n + 1) }, 0},
		{"every third has the same", func(n int) check.Hash { return check.Hash(n%3 + 1) }, 0},
		{"all have the same", func(int) check.Hash { return 1 }, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := limitedJobs(t)
			for i := range w.Events {
				if e := &w.Events[i]; e.Ref.Line == queues {
					e.Job.Concurrency.Key = "/customer"
				}
			}
			n := 0
			for due := 10_000; due < 100_000; due += 10_000 { // each lasts into the next but one
				s := w.sighting(queues, due)
				s.At, s.End = at(due+5), at(due+20_005)
				s.Sent = &check.Sent{Key: s.Run, Job: jobID(queues), Type: check.JSONType, Body: c.body(n)}
				w.both(queues, due, func(r *check.JobRun) { r.FinishedAt, r.Attempts[0].FinishedAt = at(due+20_006), at(due+20_006) })
				n++
			}
			rep := judgeRecurring(t, w.RecurringHistory)
			i := slices.IndexFunc(rep.Limits, func(c check.SlotCount) bool { return c.Of == "queue by /customer" })
			if i < 0 || rep.Limits[i].Over != c.over || rep.Limits[i].Calls != 9 || rep.Limits[i].Jobs != 1 {
				t.Errorf("Limits = %+v, want the job with a key, and %d of its 9 calls beyond the limit", rep.Limits, c.over)
			}
		})
	}
}

func TestEveryBrokenLimitOfAJobIsFound(t *testing.T) {
	type counts struct{ Missed, MissedByPolicy, Over, Twice int }
	const skipped = 4 // of the clean history
	skip := func(w *recurringWorld, line, due int) {
		w.forget(line, due)
		w.gone(line, due, 1, due+6, "skipped: 2 runs of the job were under way")
	}
	rows := []struct {
		name  string
		forge func(*recurringWorld)
		want  counts
		says  string // in one of the faults; "" = there is none
	}{
		{
			name: "queue: begun a microsecond before the one before was over", want: counts{0, skipped, 1, 0}, says: "as number 2 of 1",
			forge: func(w *recurringWorld) { s := w.sighting(queues, 20_000); s.At = at(22_005).Add(-time.Microsecond) },
		},
		{
			name: "queue: a run beside itself", want: counts{0, skipped, 1, 1}, says: "attempt 1 of",
			forge: func(w *recurringWorld) { w.arrive(queues, 10_000, 1, 15_000) },
		},
		{
			name: "queue: one was skipped", want: counts{1, skipped, 0, 0}, says: "its job does not say so",
			forge: func(w *recurringWorld) { skip(w, queues, 20_000) },
		},
		{
			name: "queue: one was never started", want: counts{1, skipped, 0, 0}, says: "neither started nor recorded",
			forge: func(w *recurringWorld) { w.forget(queues, 50_000) },
		},
		{
			name: "queue: one was cancelled for the limit", want: counts{1, skipped, 0, 0}, says: "its job does not say so",
			forge: func(w *recurringWorld) { w.cancelled(queues, 50_000, 80_000, byLimitReason) },
		},
		{
			name: "queue: one was cancelled under way", want: counts{1, skipped, 0, 0}, says: "nobody asked for that",
			forge: func(w *recurringWorld) { w.cancelled(queues, 50_000, 60_000, "") },
		},
		{
			name: "queue: one under way and one that waited, by a cancel of the job", want: counts{0, skipped + 1, 0, 0},
			forge: func(w *recurringWorld) {
				v := view(queues, 2, "cancelled", every("10s"), "0s", `{"policy":"run_all"}`)
				v.Concurrency = &check.Concurrency{Limit: 1, OnLimit: "queue"}
				w.event(queues, check.JobCancelled, 99_000, 99_500, v)
				w.cancelled(queues, 80_000, 100_000, "")
				w.forget(queues, 90_000)
				w.dropped(queues, 90_000)
				w.both(queues, 90_000, func(r *check.JobRun) { r.FinishedAt = at(100_000) })
			},
		},
		{
			name: "queue: one that waited was cancelled, and nobody asked for that", want: counts{1, skipped, 0, 0}, says: "nobody asked for that",
			forge: func(w *recurringWorld) { w.forget(queues, 90_000); w.dropped(queues, 90_000) },
		},
		{
			name: "skip: nothing was under way", want: counts{1, skipped, 0, 0}, says: "0 runs of the job were under way then, of 2",
			forge: func(w *recurringWorld) { skip(w, rarely, 50_000) },
		},
		{
			name: "skip: one of two was under way", want: counts{1, skipped, 0, 0}, says: "1 runs of the job were under way then, of 2",
			forge: func(w *recurringWorld) {
				w.forget(rarely, 40_000)
				w.took(rarely, 40_000, 40_004, 55_000)
				skip(w, rarely, 50_000)
			},
		},
		{
			name: "skip: two of two were", want: counts{0, skipped + 1, 0, 0},
			forge: func(w *recurringWorld) {
				for _, due := range []int{30_000, 40_000} {
					w.forget(rarely, due)
					w.took(rarely, due, due+4, 55_000)
				}
				skip(w, rarely, 50_000)
			},
		},
		{
			name: "skip: the slot of one was left late", want: counts{0, skipped + 1, 0, 0},
			forge: func(w *recurringWorld) {
				for _, due := range []int{30_000, 40_000} {
					w.forget(rarely, due)
					w.took(rarely, due, due+4, 47_100)
				}
				skip(w, rarely, 50_000)
			},
		},
		{
			name: "skip: the slots of those that a killed node had", want: counts{0, skipped + 1, 0, 0},
			forge: func(w *recurringWorld) { w.Kills = []check.Kill{{At: at(21_000)}}; skip(w, rarely, 50_000) },
		},
		{
			name: "skip: long after a node was killed", want: counts{1, skipped, 0, 0}, says: "0 runs of the job",
			forge: func(w *recurringWorld) {
				w.Kills = []check.Kill{{At: at(20_000)}, {At: at(51_000)}}
				skip(w, rarely, 50_000)
			},
		},
		{
			name: "skip: only it itself was under way", want: counts{1, skipped - 1, 0, 0}, says: "0 runs of the job were under way then, of 1",
			forge: func(w *recurringWorld) {
				w.forget(skips, 10_000)
				w.took(skips, 10_000, 10_004, 11_000)
				w.arrive(skips, 20_000, 1, 20_002)
			},
		},
		{
			name: "skip: one was run all the same", want: counts{0, skipped - 1, 1, 0}, says: "as number 2 of 1",
			forge: func(w *recurringWorld) { w.forget(skips, 20_000); w.took(skips, 20_000, 20_004, 21_000) },
		},
		{
			name: "cancel_oldest: before a later one was due", want: counts{1, skipped, 0, 0}, says: "0 later runs of the job were due then, of 1",
			forge: func(w *recurringWorld) { w.cancelled(cancels, 10_000, 19_999, byLimitReason) },
		},
		{
			name: "cancel_oldest: before it began", want: counts{0, skipped + 1, 0, 0},
			forge: func(w *recurringWorld) {
				w.forget(cancels, 10_000)
				w.dropped(cancels, 10_000)
				w.both(cancels, 10_000, func(r *check.JobRun) { r.CancelReason, r.FinishedAt = byLimitReason, at(20_001) })
			},
		},
		{
			name: "cancel_oldest: begun before the other was cancelled", want: counts{0, skipped, 1, 0}, says: "as number 2 of 1",
			forge: func(w *recurringWorld) { w.cancelled(cancels, 10_000, 21_130, byLimitReason) },
		},
		{
			name: "two limits in turn are not judged", want: counts{0, skipped, 0, 0},
			forge: func(w *recurringWorld) {
				v := view(queues, 2, "active", every("10s"), "0s", `{"policy":"run_all"}`)
				v.Concurrency = &check.Concurrency{Limit: 2, OnLimit: "queue"}
				w.event(queues, check.JobUpdated, 50_000, 50_100, v)
				s := w.sighting(queues, 20_000)
				s.At = at(20_010)
			},
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := limitedJobs(t)
			row.forge(w)
			rep := judgeRecurring(t, w.RecurringHistory)
			got := counts{Missed: rep.Missed, MissedByPolicy: rep.MissedByPolicy}
			for i := range rep.Limits {
				got.Over += rep.Limits[i].Over
				got.Twice += rep.Limits[i].Twice
			}
			if got != row.want || rep.Failed() != (row.says != "") {
				t.Errorf("JudgeRecurring = %+v, failed %t, want %+v, %t; faults: %v", got, rep.Failed(), row.want, row.says != "", rep.Faults)
			}
			says(t, &rep, row.says)
		})
	}
}
