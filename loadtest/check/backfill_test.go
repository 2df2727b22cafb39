package check_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/loadtest/check"
)

// fillsAt is when the backfills of a clean world begin, after its stop; runs of them are due a
// second apart, two at a time.
const fillsAt = 240_000

// fid is the id of a run of a backfill.
func fid(line, due, nominal int) string {
	id := rid(line, due)
	return id[:24] + fmt.Sprintf("%012x", nominal+1_000_000)
}

// fill adds a run that a backfill asked for, which succeeded.
func (w *recurringWorld) fill(line, nominal, due int) {
	w.arrive(line, due, 1, due+2)
	w.Seen[len(w.Seen)-1].Run = fid(line, due, nominal)
	w.put(line, check.JobRun{NominalAt: at(nominal), Trigger: "backfill", Run: check.Run{
		ID: fid(line, due, nominal), State: check.Succeeded, DueAt: at(due), StartedAt: at(due + 1), FinishedAt: at(due + 4),
		Attempts: []check.Attempt{attempt(1, due+1, due+4, "succeeded")},
	}})
}

// unfill takes a run of a backfill out of both readings and the sink's record, and returns when it
// was due.
func (w *recurringWorld) unfill(line, nominal int) (due int) {
	h := w.of(line)
	is := func(r check.JobRun) bool { return r.Trigger == "backfill" && r.NominalAt.Equal(at(nominal)) }
	i := slices.IndexFunc(h.First.Runs, is)
	run := h.First.Runs[i]
	h.First.Runs, h.Second.Runs = slices.Delete(h.First.Runs, i, i+1), slices.Delete(h.Second.Runs, i, i+1)
	w.Seen = slices.DeleteFunc(w.Seen, func(s check.Sighting) bool { return s.Run == run.ID })
	return int(run.DueAt.Sub(t0).Milliseconds())
}

// change changes the run of a backfill in both readings.
func (w *recurringWorld) change(line, nominal int, change func(*check.JobRun)) {
	h := w.of(line)
	for _, runs := range [][]check.JobRun{h.First.Runs, h.Second.Runs} {
		change(&runs[slices.IndexFunc(runs, func(r check.JobRun) bool { return r.Trigger == "backfill" && r.NominalAt.Equal(at(nominal)) })])
	}
}

// backfill asks for a backfill that is done, and adds the runs of the nominal times, two at a time.
func (w *recurringWorld) backfill(line, requested, from, to int, nominals ...int) *check.Backfill {
	for k, nominal := range nominals {
		w.fill(line, nominal, requested+103+k/2*1000)
	}
	w.Backfills = append(w.Backfills, check.Backfill{
		Ref: ref(line), From: at(from), To: at(to), MaxConcurrent: 2, Requested: at(requested), Acked: at(requested + 20),
		Read: &check.BackfillView{ID: "o", State: "done", Matched: len(nominals), Changed: len(nominals)},
	})
	return &w.Backfills[len(w.Backfills)-1]
}

// upTo are the nominal times from ≤ n < to of jobs of every 10 s.
func upTo(from, to int) (nominals []int) {
	for n := from; n < to; n += 10_000 {
		nominals = append(nominals, n)
	}
	return nominals
}

// cleanBackfills is a clean world with backfills: of times before the job was made and after, of
// two that overlap, of a paused job that was cancelled meanwhile, of what a job said before it was
// changed, and one that was cancelled.
func cleanBackfills() *recurringWorld {
	w := cleanRecurring()
	w.backfill(steady, fillsAt, -55_000, 40_000, upTo(-50_000, 40_000)...)
	w.backfill(all, fillsAt, 0, 50_000, upTo(0, 50_000)...)
	w.backfill(all, fillsAt+10_000, 30_000, 80_000, upTo(30_000, 80_000)...)
	w.backfill(cronned, fillsAt, 0, 60_000, 0, 15_000, 30_000, 45_000)
	cut := w.backfill(latest, fillsAt, 0, 200_000, upTo(0, 60_000)...)
	cut.Read.Matched, cut.Read.State = 20, "cancelled"
	cut.CancelRequested, cut.CancelAcked = at(fillsAt+2500), at(fillsAt+2600)
	// while it was paused
	with := w.backfill(pausing, 60_000, -200_000, 0, upTo(-200_000, -100_000)...)
	with.Read.Matched = 20
	w.backfill(updating, 5_000, -30_000, 0, upTo(-30_000, 0)...)
	w.backfill(ending, 64_000, 0, 50_000).Refused = true
	refused := &w.Backfills[len(w.Backfills)-1]
	refused.Acked, refused.Read = time.Time{}, nil
	return w
}

// cleanFillReport is what JudgeRecurring says of the backfills of cleanBackfills.
func cleanFillReport() check.BackfillReport {
	const targets = 9 + 5 + 5 + 4 + 6 + 10 + 3
	return check.BackfillReport{Asked: 8, Acknowledged: 7, Refused: 1, Cancelled: 1, Targets: targets, Done: targets, Most: 2}
}

func TestBackfillsWithoutFaults(t *testing.T) {
	w := cleanBackfills()
	rep := judgeRecurring(t, w.RecurringHistory)
	if rep.Failed() || len(rep.Faults) > 0 || rep.Targets != cleanRecurringReport().Targets {
		t.Errorf("Failed = %t, %d targets of schedules, faults %v; want no fault, and as many targets as without backfills", rep.Failed(), rep.Targets, rep.Faults)
	}
	if diff := cmp.Diff(cleanFillReport(), *rep.Backfills); diff != "" {
		t.Errorf("the judgement on backfills (-want +got):\n%s", diff)
	}
	var text bytes.Buffer
	if err := rep.WriteText(&text); err != nil || !strings.Contains(text.String(), "(acknowledged 7, refused 1, cancelled 1)") {
		t.Errorf("WriteText = %v, of backfills it says\n%s", err, text.String())
	}
	w.Backfills = nil
	if rep := judgeRecurring(t, w.RecurringHistory); rep.Backfills != nil || !rep.Failed() {
		t.Errorf("without a backfill that asked for them runs are judged %+v, failed %t, want them unexpected", rep.Backfills, rep.Failed())
	}
	if got, err := check.Unsettled(cleanBackfills().RecurringHistory); err != nil || len(got) > 0 {
		t.Errorf("Unsettled = %v, %v, want none", got, err)
	}
}

func TestFaultsOfBackfillsAreFound(t *testing.T) {
	type counts struct{ Missed, Early, Unexpected, Ghosts, Unfinished, Unreadable, Crowded, Untrue int }
	of := func(w *recurringWorld, line int) *check.Backfill {
		return &w.Backfills[slices.IndexFunc(w.Backfills, func(b check.Backfill) bool { return b.Ref == ref(line) })]
	}
	rows := []struct {
		name  string
		forge func(*recurringWorld)
		want  counts
		says  string // in one of the faults
		ok    bool   // it is no fault
	}{
		{name: "a time without a run", forge: func(w *recurringWorld) { w.unfill(steady, -50_000) }, want: counts{Missed: 1}, says: "no run was asked for"},
		{name: "the last time without a run", forge: func(w *recurringWorld) { w.unfill(steady, 30_000) }, want: counts{Missed: 1}},
		{name: "a time of a cron without a run", forge: func(w *recurringWorld) { w.unfill(cronned, 15_000) }, want: counts{Missed: 1}},
		{name: "a time of two backfills with one run", forge: func(w *recurringWorld) { w.unfill(all, 40_000) }, want: counts{Missed: 1}},
		{name: "a time with two runs", forge: func(w *recurringWorld) { w.fill(steady, -50_000, fillsAt+60_103) }, want: counts{Unexpected: 1}, says: "1 backfills name, and 2 runs"},
		{name: "a time of two backfills with three runs", forge: func(w *recurringWorld) { w.fill(all, 30_000, fillsAt+60_103) }, want: counts{Unexpected: 1}},
		{name: "a time before its stretch", forge: func(w *recurringWorld) { w.fill(steady, -60_000, fillsAt+60_103) }, want: counts{Unexpected: 1}},
		{name: "the time at which its stretch ends", forge: func(w *recurringWorld) { w.fill(steady, 40_000, fillsAt+60_103) }, want: counts{Unexpected: 1}},
		{name: "a time that the schedule does not name", forge: func(w *recurringWorld) { w.fill(steady, -45_000, fillsAt+60_103) }, want: counts{Unexpected: 1}},
		{name: "a time of the schedule that came later", forge: func(w *recurringWorld) { w.fill(updating, -7_000, 60_103) }, want: counts{Unexpected: 1}},
		{name: "a run of a backfill that was refused", forge: func(w *recurringWorld) { w.fill(ending, 0, 64_103) }, want: counts{Unexpected: 1}},
		{name: "a run that nobody asked for, of another job", forge: func(w *recurringWorld) { w.fill(deadlined, 0, fillsAt+103) }, want: counts{Unexpected: 1}, says: "nobody asked for"},
		{name: "due when its job's schedule is as well", forge: func(w *recurringWorld) {
			w.unfill(all, 0)
			w.fill(all, 0, fillsAt+20_000)
		}, ok: true},
		{name: "success that the sink never saw", forge: func(w *recurringWorld) {
			due := w.unfill(steady, -50_000)
			w.fill(steady, -50_000, due)
			w.Seen = w.Seen[:len(w.Seen)-1]
		}, want: counts{Missed: 1}, says: "never saw it"},
		{name: "a run that failed", forge: func(w *recurringWorld) {
			w.change(steady, -50_000, func(r *check.JobRun) {
				r.State, r.Attempts[0].Outcome, r.Attempts[0].StatusCode = check.Failed, check.OutcomeFailed, 404
				w.Seen[slices.IndexFunc(w.Seen, func(s check.Sighting) bool { return s.Run == r.ID })].Status = 404
			})
		}, ok: true},
		{name: "a run that failed for good, and its answer was not final", forge: func(w *recurringWorld) {
			w.change(steady, -50_000, func(r *check.JobRun) { r.State, r.Attempts[0].Outcome = check.Failed, check.OutcomeFailed })
		}, says: "failed for good after attempt 1 of 5"},
		{name: "a second call of an at_most_once run", forge: func(w *recurringWorld) {
			w.guarantee(steady, check.AtMostOnce)
			w.change(steady, -50_000, func(r *check.JobRun) {
				s := w.Seen[slices.IndexFunc(w.Seen, func(s check.Sighting) bool { return s.Run == r.ID })]
				s.At = s.End
				w.Seen = append(w.Seen, s)
			})
		}, says: "the sink was called"},
		{name: "recorded as missed", forge: func(w *recurringWorld) {
			w.change(steady, -50_000, func(r *check.JobRun) { r.State, r.Attempts = check.Missed, nil })
		}, want: counts{Missed: 1}, says: "recorded as missed"},
		{name: "cancelled, and nobody asked for it", forge: func(w *recurringWorld) {
			w.change(steady, -50_000, func(r *check.JobRun) { r.State, r.Attempts[0].Outcome = check.Cancelled, check.OutcomeCancelled })
		}, want: counts{Missed: 1}, says: "nobody asked for that"},
		{name: "gone at the second read", forge: func(w *recurringWorld) {
			h := w.of(steady)
			h.Second.Runs = slices.DeleteFunc(slices.Clone(h.Second.Runs), func(r check.JobRun) bool { return r.Trigger == "backfill" && r.NominalAt.Equal(at(-50_000)) })
		}, want: counts{Missed: 1}, says: "gone"},
		{name: "seen, and not in the history", forge: func(w *recurringWorld) {
			due := w.unfill(steady, -50_000)
			w.arrive(steady, due, 1, due+2)
		}, want: counts{Missed: 1, Unfinished: 1}, says: "not in the history"},
		{name: "due before it was asked for", forge: func(w *recurringWorld) {
			w.unfill(steady, -50_000)
			w.fill(steady, -50_000, fillsAt-1)
		}, want: counts{Early: 1, Crowded: 1}, says: "its backfill was asked for"},
		{name: "started before it was due", forge: func(w *recurringWorld) {
			w.change(steady, -50_000, func(r *check.JobRun) {
				r.StartedAt = r.DueAt.Add(-1e6)
				r.Attempts[0].StartedAt = r.StartedAt
			})
		}, want: counts{Early: 1}},
		{name: "three at a time of two", forge: func(w *recurringWorld) {
			due := w.unfill(steady, -30_000)
			w.fill(steady, -30_000, due-999)
		}, want: counts{Crowded: 1}, says: "3 runs of backfills"},
		{name: "three at a time of two backfills", forge: func(w *recurringWorld) {
			w.unfill(all, 0)
			w.fill(all, 0, fillsAt+10_104)
		}, ok: true},
		{name: "asked for long after its cancel", forge: func(w *recurringWorld) { w.fill(latest, 60_000, fillsAt+32_601) }, want: counts{Ghosts: 1}},
		{name: "asked for while it was cancelled", forge: func(w *recurringWorld) { w.fill(latest, 60_000, fillsAt+32_600) }, ok: true},
		{name: "cancelled, and a run is lacking of those asked for", forge: func(w *recurringWorld) { w.unfill(latest, 0) }, want: counts{Missed: 1}},
		{name: "a first start long after its job was cancelled", forge: func(w *recurringWorld) { w.fill(pausing, -100_000, 117_601) }, want: counts{Ghosts: 1}},
		{name: "shortly after its job was cancelled", forge: func(w *recurringWorld) { w.fill(pausing, -100_000, 117_000) }, ok: true},
		{name: "of unknown outcome", forge: func(w *recurringWorld) {
			b := of(w, steady)
			b.Acked, b.Read = time.Time{}, nil
			w.unfill(steady, -50_000)
		}, ok: true},
		{name: "begun while the schedule was changed", forge: func(w *recurringWorld) {
			b := of(w, updating)
			b.Requested, b.Acked = at(41_500), at(42_100)
			for _, n := range upTo(-30_000, 0) {
				w.unfill(updating, n)
				if n != -20_000 { // which only the one before names
					w.fill(updating, n, 43_103-n/10)
				}
			}
			w.fill(updating, -28_000, 45_103) // which only the one after names
		}, ok: true},
		{name: "an operation that goes on", forge: func(w *recurringWorld) { of(w, steady).Read.State = "running" }, want: counts{Unfinished: 1}},
		{name: "an operation that could not be read", forge: func(w *recurringWorld) { of(w, steady).Read = nil }, want: counts{Unreadable: 1}},
		{name: "an operation of too few times", forge: func(w *recurringWorld) { of(w, steady).Read.Matched, of(w, steady).Read.Changed = 8, 8 }, want: counts{Untrue: 1}, says: "names 9"},
		{name: "done, and not all asked for", forge: func(w *recurringWorld) { of(w, steady).Read.Changed = 8 }, want: counts{Untrue: 1}, says: "8 runs of 9"},
		{name: "cancelled, and nobody asked for that", forge: func(w *recurringWorld) { of(w, steady).Read.State = "cancelled" }, want: counts{Untrue: 1}},
		{name: "done after its cancel was acknowledged", forge: func(w *recurringWorld) { of(w, latest).Read.State = "done" }, want: counts{Untrue: 1}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := cleanBackfills()
			row.forge(w)
			rep := judgeRecurring(t, w.RecurringHistory)
			b := rep.Backfills
			got := counts{rep.Missed + b.Missed, rep.Early, rep.Unexpected, rep.Ghosts, rep.Unfinished + b.Unfinished, rep.Unreadable + b.Unreadable, b.Crowded, b.Untrue}
			if got != row.want || rep.Failed() == row.ok {
				t.Errorf("got %+v, Failed %t, want %+v, %t; faults %v", got, rep.Failed(), row.want, !row.ok, rep.Faults)
			}
			says(t, &rep, row.says)
			if b.Targets != b.Done+b.Missed+b.Unfinished+b.Unreadable {
				t.Errorf("%d targets are not the sum of %+v", b.Targets, *b)
			}
		})
	}
}

func TestBackfillsThatCannotBeJudged(t *testing.T) {
	for name, forge := range map[string]func(*recurringWorld){
		"of a job that is none":    func(w *recurringWorld) { w.Backfills[0].Ref.Line = 99 },
		"up to no time":            func(w *recurringWorld) { w.Backfills[0].To = time.Time{} },
		"up to a time to come yet": func(w *recurringWorld) { w.Backfills[0].To = at(fillsAt + 1) },
	} {
		t.Run(name, func(t *testing.T) {
			w := cleanBackfills()
			forge(w)
			if _, err := check.JudgeRecurring(w.RecurringHistory); err == nil {
				t.Error("JudgeRecurring = nil, want ErrHistory")
			}
		})
	}
}

// The offset of a job's runs is learned from those that its schedule names.
func TestARunOfABackfillTellsNothingOfTheOffset(t *testing.T) {
	w := cleanRecurring()
	w.event(latest, check.JobUpdated, 59_000, 59_500, view(latest, 2, "active", every("10s"), "1s", byDefault))
	w.backfill(latest, 62_000, -10_000, 0, -10_000)
	if rep := judgeRecurring(t, w.RecurringHistory); rep.Failed() {
		t.Errorf("Failed, faults %v; want none", rep.Faults)
	}
}
