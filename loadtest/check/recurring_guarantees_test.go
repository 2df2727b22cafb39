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

// lose has the run's only attempt recorded as lost, and the run as failed.
func lose(r *check.JobRun) {
	r.State = check.Failed
	r.Attempts[0].Outcome, r.Attempts[0].StatusCode = check.OutcomeLost, 0
}

// steadyDue is when the run of steady is due that the rows below are about.
const steadyDue = 60_500

func TestBrokenGuaranteesOfRecurringJobsAreFound(t *testing.T) {
	again := func(w *recurringWorld) { // a second call, as attempt 2, of what had failed
		w.arrive(steady, steadyDue, 2, 75_000)
		w.both(steady, steadyDue, func(r *check.JobRun) {
			first := attempt(1, steadyDue+4, steadyDue+10, "lost")
			r.Attempts = []check.Attempt{first, attempt(2, 74_999, 75_003, "succeeded")}
		})
	}
	rows := []struct {
		name  string
		g     check.Guarantee
		forge func(*recurringWorld)
		want  check.GuaranteeCount // what is broken
		fault check.Kind
		ok    bool
	}{
		{name: "each is called once", g: check.AtMostOnce, forge: func(*recurringWorld) {}, ok: true},
		{name: "each is called once, under fences", g: check.EffectivelyOnce, forge: func(*recurringWorld) {}, ok: true},
		{
			name: "at_most_once, called twice", g: check.AtMostOnce,
			forge: func(w *recurringWorld) { w.arrive(steady, steadyDue, 1, 60_900) },
			want:  check.GuaranteeCount{SecondStarts: 1}, fault: check.FaultSecondStart,
		},
		{
			name: "at_most_once, two attempts", g: check.AtMostOnce,
			forge: func(w *recurringWorld) {
				w.both(steady, steadyDue, func(r *check.JobRun) {
					r.Attempts = append(r.Attempts, attempt(2, 61_000, 61_003, "lost"))
				})
			},
			want: check.GuaranteeCount{SecondStarts: 1}, fault: check.FaultSecondStart,
		},
		{
			name: "at_most_once, its claim was lost", g: check.AtMostOnce, ok: true,
			forge: func(w *recurringWorld) {
				w.unseeRun(steady, steadyDue)
				w.both(steady, steadyDue, func(r *check.JobRun) {
					lose(r)
					r.StartedAt, r.Attempts[0].StartedAt = time.Time{}, time.Time{}
				})
			},
		},
		{
			name: "effectively_once, called again once the first was lost", g: check.EffectivelyOnce, forge: again, ok: true,
		},
		{
			name: "effectively_once, called while the first was at work", g: check.EffectivelyOnce,
			forge: func(w *recurringWorld) {
				w.call(steady, steadyDue).End = at(75_001)
				again(w)
			},
			want: check.GuaranteeCount{Overlaps: 1}, fault: check.FaultOverlap,
		},
		{
			name: "effectively_once, called twice under one claim", g: check.EffectivelyOnce,
			forge: func(w *recurringWorld) { w.arrive(steady, steadyDue, 1, 60_900) },
			want:  check.GuaranteeCount{Fences: 1}, fault: check.FaultFence,
		},
		{
			name: "effectively_once, a record that was written over", g: check.EffectivelyOnce,
			forge: func(w *recurringWorld) {
				again(w)
				second := w.of(steady).Second.Runs
				i := slices.IndexFunc(second, func(r check.JobRun) bool { return r.ID == rid(steady, steadyDue) })
				second[i].Attempts = []check.Attempt{attempt(1, steadyDue+4, steadyDue+10, "failed"), second[i].Attempts[1]}
				second[i].Attempts[0].StatusCode = 0
			},
			want: check.GuaranteeCount{Rewritten: 1}, fault: check.FaultRewritten,
		},
		{
			name: "at_least_once, called twice, and that is explained", g: check.AtLeastOnce, ok: true,
			forge: func(w *recurringWorld) {
				w.arrive(steady, steadyDue, 1, 60_900)
				w.both(steady, steadyDue, func(r *check.JobRun) { r.Attempts[0].Redispatched = true })
			},
		},
		{
			name: "at_most_once since an update: what ran before it may run twice", g: check.AtLeastOnce, ok: true,
			forge: func(w *recurringWorld) {
				v := view(steady, 2, "active", every("10s"), "2s", byDefault)
				v.Guarantee = check.AtMostOnce
				w.event(steady, check.JobUpdated, 83_000, 83_600, v)
				w.arrive(steady, steadyDue, 1, 60_900)
				w.both(steady, steadyDue, func(r *check.JobRun) { r.Attempts[0].Redispatched = true })
			},
		},
		{
			name: "at_most_once since an update, and called twice after it", g: check.AtLeastOnce,
			forge: func(w *recurringWorld) {
				v := view(steady, 2, "active", every("10s"), "2s", byDefault)
				v.Guarantee = check.AtMostOnce
				w.event(steady, check.JobUpdated, 43_000, 43_600, v)
				w.arrive(steady, steadyDue, 1, 60_900)
			},
			want: check.GuaranteeCount{SecondStarts: 1}, fault: check.FaultSecondStart,
		},
		{
			name: "at_most_once, and a pause of unknown outcome", g: check.AtMostOnce,
			forge: func(w *recurringWorld) {
				w.event(steady, check.JobPaused, 58_000, 58_000, check.JobView{})
				w.Events[len(w.Events)-1].Acked = time.Time{}
				w.arrive(steady, steadyDue, 1, 60_900)
			},
			want: check.GuaranteeCount{SecondStarts: 1}, fault: check.FaultSecondStart,
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := cleanRecurring()
			w.guarantee(steady, row.g)
			row.forge(w)
			for i := range w.Seen { // of the calls that were forged
				w.Seen[i].Fence = int64(w.Seen[i].Attempt)
			}
			rep := judgeRecurring(t, w.RecurringHistory)
			var got check.GuaranteeCount
			for _, c := range rep.Guarantees {
				got.Overlaps, got.SecondStarts = got.Overlaps+c.Overlaps, got.SecondStarts+c.SecondStarts
				got.Fences, got.Untrue, got.Rewritten = got.Fences+c.Fences, got.Untrue+c.Untrue, got.Rewritten+c.Rewritten
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("broken guarantees (-want +got):\n%s\nfaults: %+v", diff, rep.Faults)
			}
			if rep.Failed() == row.ok {
				t.Errorf("Failed = %t, want %t: %+v", rep.Failed(), !row.ok, rep.Faults)
			}
			told := slices.ContainsFunc(rep.Faults, func(f check.Fault) bool { return f.Kind == row.fault && f.Run == rid(steady, steadyDue) })
			if !row.ok && !told {
				t.Errorf("faults = %+v, want one of the kind %q", rep.Faults, row.fault)
			}
		})
	}
}

func TestTheReportOfRecurringJobsTellsOfGuarantees(t *testing.T) {
	w := cleanRecurring()
	w.guarantee(steady, check.AtMostOnce)
	w.arrive(steady, steadyDue, 1, 60_900)
	rep := judgeRecurring(t, w.RecurringHistory)
	var text, machine bytes.Buffer
	if err := rep.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if err := rep.WriteJSON(&machine); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"second starts", "at_most_once", "second start: run " + rid(steady, steadyDue)} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("WriteText leaves out %q:\n%s", want, text.String())
		}
	}
	for _, want := range []string{`"guarantees": [`, `"second_starts": 1`, `"kind": "second start"`} {
		if !strings.Contains(machine.String(), want) {
			t.Errorf("WriteJSON leaves out %s", want)
		}
	}
}
