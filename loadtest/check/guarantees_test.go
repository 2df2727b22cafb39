package check_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/loadtest/check"
)

// The jobs of guarded, by line.
const (
	effective   = iota + 1 // called by an executor that died, and again under the next claim
	atMost                 // succeeded
	atMostLost             // called by an executor that died: lost, failed
	claimLost              // claimed by an executor that died before it called
	atLeast                // executed twice: its executor died after the answer
	guardedJobs = atLeast
)

// work adds a call that the receiver works on from arrival to end.
func (w *world) work(line, number, fence, arrival, end, status int) *check.Sighting {
	s := w.see(line, number, arrival, status)
	s.Fence, s.End = int64(fence), at(end)
	return s
}

func (w *world) call(line, n int) *check.Sighting {
	for i := range w.Seen {
		if w.Seen[i].Run == id(line) {
			if n--; n == 0 {
				return &w.Seen[i]
			}
		}
	}
	panic("no such call")
}

// guarded is a history without a fault, of all guarantees.
func guarded() *world {
	w := &world{check.History{SeenAll: true}}
	guarantees := map[int]check.Guarantee{
		effective: check.EffectivelyOnce, atMost: check.AtMostOnce, atMostLost: check.AtMostOnce, claimLost: check.AtMostOnce,
	}
	for line := 1; line <= guardedJobs; line++ {
		w.Asked = append(w.Asked, check.Ask{Ref: ref(line), At: at(10_000), Guarantee: guarantees[line]})
		w.Acks = append(w.Acks, check.Ack{Ref: ref(line), ID: id(line), Status: 201, At: at(100)})
	}
	w.work(effective, 1, 11, 10_002, 12_000, 0)
	w.work(effective, 2, 22, 22_000, 24_000, 200)
	w.observe(effective, check.Succeeded, attempt(1, 10_001, 21_500, "lost"), attempt(2, 21_999, 24_001, "succeeded"))

	w.work(atMost, 1, 11, 10_002, 10_500, 200)
	w.observe(atMost, check.Succeeded, attempt(1, 10_001, 10_501, "succeeded"))

	w.work(atMostLost, 1, 11, 10_002, 10_500, 0)
	w.observe(atMostLost, check.Failed, attempt(1, 10_001, 21_000, "lost"))

	w.observe(claimLost, check.Failed, check.Attempt{Number: 1, FinishedAt: at(21_000), Outcome: "lost"})

	w.work(atLeast, 1, 11, 10_002, 10_500, 200)
	w.work(atLeast, 2, 22, 22_002, 22_500, 200)
	w.observe(atLeast, check.Succeeded, attempt(1, 10_001, 21_000, "lost"), attempt(2, 22_001, 22_501, "succeeded"))
	return w
}

// guardedCounts is what Judge says of guarded.
func guardedCounts() []check.GuaranteeCount {
	return []check.GuaranteeCount{
		{Guarantee: check.AtLeastOnce, Runs: 1, Succeeded: 1, Calls: 2, Repeated: 1, Duplicate: 1, Lost: 1, MostAttempts: 2},
		{Guarantee: check.AtMostOnce, Runs: 3, Succeeded: 1, Failed: 2, Calls: 2, Abandoned: 1, Lost: 2, MostAttempts: 1},
		{Guarantee: check.EffectivelyOnce, Runs: 1, Succeeded: 1, Calls: 2, Repeated: 1, Abandoned: 1, Lost: 1, MostAttempts: 2},
	}
}

func TestGuaranteesAreSummedUp(t *testing.T) {
	rep := judge(t, guarded().History)
	if diff := cmp.Diff(guardedCounts(), rep.Guarantees); diff != "" {
		t.Errorf("Judge(guarded).Guarantees (-want +got):\n%s", diff)
	}
	if rep.Failed() || rep.Done != guardedJobs || rep.DoneFailed != 2 {
		t.Errorf("Judge(guarded): failed %t, done %d of which failed %d, want false, %d, 2; faults: %+v", rep.Failed(), rep.Done, rep.DoneFailed, guardedJobs, rep.Faults)
	}
	var text bytes.Buffer
	if err := rep.WriteText(&text); err != nil || !strings.Contains(text.String(), "effectively_once") || !strings.Contains(text.String(), "second starts") {
		t.Errorf("WriteText = %v, want a table of the guarantees:\n%s", err, text.String())
	}
	text.Reset()
	plain := judge(t, clean().History)
	if err := plain.WriteText(&text); err != nil || strings.Contains(text.String(), "second starts") {
		t.Errorf("WriteText = %v, want no table where only at_least_once was asked for:\n%s", err, text.String())
	}
}

// Each row breaks guarded as little as can be; want changes the counts of one guarantee.
func TestEveryBrokenGuaranteeIsFound(t *testing.T) {
	const ( // in the report
		ofAtLeast = iota
		ofAtMost
		ofEffective
	)
	rows := []struct {
		name  string
		forge func(*world)
		of    int
		want  func(*check.GuaranteeCount)
		fault check.Kind // "" = allowed
	}{
		{
			name: "overlap by 1 ms", of: ofEffective, fault: check.FaultOverlap,
			forge: func(w *world) { w.call(effective, 1).End = at(22_001) },
			want:  func(c *check.GuaranteeCount) { c.Overlaps++; c.Duplicate++ },
		},
		{
			name: "no overlap: one ends as the other arrives", of: ofEffective,
			forge: func(w *world) { w.call(effective, 1).End = at(22_000) },
			want:  func(*check.GuaranteeCount) {},
		},
		{
			name: "no overlap: the caller's clock is behind", of: ofEffective,
			forge: func(w *world) {
				w.call(effective, 1).End = at(22_300)
				w.call(effective, 2).Clock = at(22_000)
				w.call(effective, 2).At, w.call(effective, 2).End = at(22_300), at(22_400)
			},
			want: func(*check.GuaranteeCount) {},
		},
		{
			name: "overlap, though not by the caller's clock", of: ofEffective, fault: check.FaultOverlap,
			forge: func(w *world) {
				w.call(effective, 1).End, w.call(effective, 2).At = at(21_990), at(21_989)
				w.call(effective, 2).Clock = at(22_000)
			},
			want: func(c *check.GuaranteeCount) { c.Overlaps++; c.Duplicate++ },
		},
		{
			name: "overlap with work whose end nobody saw", of: ofEffective, fault: check.FaultOverlap,
			forge: func(w *world) { s := w.call(effective, 1); *s = noEnd(*s) },
			want:  func(c *check.GuaranteeCount) { c.Overlaps++; c.Duplicate++; c.Abandoned-- },
		},
		{
			name: "a third call overlaps the first, not the second", of: ofEffective, fault: check.FaultOverlap,
			forge: func(w *world) {
				w.call(effective, 1).End = at(30_000)
				w.call(effective, 2).End = at(22_100)
				w.work(effective, 3, 33, 25_000, 25_100, 200)
			},
			want: func(c *check.GuaranteeCount) { c.Calls++; c.Repeated++; c.Overlaps += 2; c.Duplicate += 2 },
		},
		{
			name: "a stale call is no overlap", of: ofEffective,
			forge: func(w *world) { w.work(effective, 1, 10, 23_000, 23_100, 500).Attempt = 0 },
			want:  func(c *check.GuaranteeCount) { c.Calls++; c.Repeated++; c.Stale++; c.Duplicate++ },
		},
		{
			name: "at_least_once may overlap", of: ofAtLeast,
			forge: func(w *world) { w.call(atLeast, 1).End = at(23_000) },
			want:  func(*check.GuaranteeCount) {},
		},
		{
			name: "no fence", of: ofEffective, fault: check.FaultFence,
			forge: func(w *world) { w.call(effective, 1).Fence = 0 },
			want:  func(c *check.GuaranteeCount) { c.Fences++ },
		},
		{
			name: "the later attempt has the lower fence", of: ofEffective, fault: check.FaultFence,
			forge: func(w *world) { w.call(effective, 2).Fence = 10 },
			want:  func(c *check.GuaranteeCount) { c.Fences++; c.Stale++ },
		},
		{
			name: "two calls under one claim", of: ofEffective, fault: check.FaultFence,
			forge: func(w *world) { w.work(effective, 2, 22, 24_500, 24_600, 200) },
			want:  func(c *check.GuaranteeCount) { c.Calls++; c.Repeated++; c.Duplicate++; c.Fences++ },
		},
		{
			name: "a success that no call had", of: ofEffective, fault: check.FaultUntrue,
			forge: func(w *world) { w.call(effective, 2).Status = 500 },
			want:  func(c *check.GuaranteeCount) { c.Untrue++ },
		},
		{
			name: "a success taken over from another attempt", of: ofEffective, fault: check.FaultUntrue,
			forge: func(w *world) {
				w.call(effective, 1).Status = 200
				w.call(effective, 2).Status = 500
			},
			want: func(c *check.GuaranteeCount) { c.Untrue++; c.Abandoned--; c.Duplicate++ },
		},
		{
			name: "unseen successes prove nothing where the record has gaps", of: ofEffective,
			forge: func(w *world) { w.call(effective, 2).Status = 500; w.SeenAll = false },
			want:  func(*check.GuaranteeCount) {},
		},
		{
			name: "a record of a run that had ended says something else at the second read", of: ofEffective, fault: check.FaultRewritten,
			forge: func(w *world) { w.obs(effective).Second.Run.Attempts[0].Outcome = "failed" },
			want:  func(c *check.GuaranteeCount) { c.Rewritten++ },
		},
		{
			name: "a record is gone at the second read", of: ofAtMost, fault: check.FaultRewritten,
			forge: func(w *world) { w.obs(atMost).Second.Run.Attempts = nil },
			want:  func(c *check.GuaranteeCount) { c.Rewritten++ },
		},
		{
			name: "a record is superseded, and a late one beside it too", of: ofEffective,
			forge: func(w *world) {
				a := w.obs(effective).Second.Run.Attempts
				a[0].Outcome = "superseded"
				w.obs(effective).Second.Run.Attempts = append(a, attempt(1, 10_001, 40_000, "superseded"))
			},
			want: func(c *check.GuaranteeCount) { c.Superseded += 2 },
		},
		{
			name: "records of at_least_once may be overruled", of: ofAtLeast,
			forge: func(w *world) { w.obs(atLeast).Second.Run.Attempts[0].Outcome = "succeeded" },
			want:  func(*check.GuaranteeCount) {},
		},
		{
			name: "at_most_once called twice", of: ofAtMost, fault: check.FaultSecondStart,
			forge: func(w *world) { w.work(atMostLost, 1, 22, 22_000, 22_100, 500) },
			want:  func(c *check.GuaranteeCount) { c.Calls++; c.Repeated++; c.SecondStarts++ },
		},
		{
			name: "at_most_once started twice, says the API", of: ofAtMost, fault: check.FaultSecondStart,
			forge: func(w *world) {
				w.both(atMostLost, func(r *check.Run) {
					r.Attempts = append(slices.Clone(r.Attempts), check.Attempt{Number: 2, StartedAt: at(22_000), FinishedAt: at(22_001), Outcome: "failed"})
				})
			},
			want: func(c *check.GuaranteeCount) { c.SecondStarts++; c.MostAttempts = 2 },
		},
		{
			name: "at_most_once with an outcome that came after it was lost", of: ofAtMost,
			forge: func(w *world) {
				w.both(atMostLost, func(r *check.Run) {
					r.Attempts = append(slices.Clone(r.Attempts), attempt(1, 10_001, 30_000, "superseded"))
				})
			},
			want: func(c *check.GuaranteeCount) { c.Superseded++ },
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := guarded()
			row.forge(w)
			want := guardedCounts()
			row.want(&want[row.of])
			rep := judge(t, w.History)
			if diff := cmp.Diff(want, rep.Guarantees); diff != "" {
				t.Errorf("Guarantees (-want +got):\n%s\nfaults: %+v", diff, rep.Faults)
			}
			found := slices.ContainsFunc(rep.Faults, func(f check.Fault) bool { return f.Kind == row.fault })
			if rep.Failed() != (row.fault != "") || found != (row.fault != "") {
				t.Errorf("Failed() = %t, want %t, with a fault %q among %+v", rep.Failed(), row.fault != "", row.fault, rep.Faults)
			}
		})
	}
}

// noEnd is s without an end.
func noEnd(s check.Sighting) check.Sighting {
	return check.Sighting{Run: s.Run, Ref: s.Ref, Attempt: s.Attempt, Fence: s.Fence, At: s.At}
}

// What only the outcome of a run shows is judged by the guarantee, too.
func TestOutcomesOfGuardedRuns(t *testing.T) {
	rows := []struct {
		name  string
		forge func(*world)
		want  func(rep *check.Report) int // must be 1
	}{
		{
			name:  "at_most_once: lost, and succeeded after",
			forge: func(w *world) { w.obs(atMostLost).Second.Run.State = check.Succeeded },
			want:  func(r *check.Report) int { return r.DuplicateOutcomes },
		},
		{
			name: "effectively_once: two successes that both count",
			forge: func(w *world) {
				w.call(effective, 1).Status = 200
				w.both(effective, func(r *check.Run) { r.Attempts[0].Outcome = "succeeded" })
			},
			want: func(r *check.Report) int { return r.DuplicateOutcomes },
		},
		{
			name: "at_least_once: a failure without a start and with a lost attempt is missed all the same",
			forge: func(w *world) {
				w.ask(claimLost).Guarantee = check.AtLeastOnce
			},
			want: func(r *check.Report) int { return r.Missed },
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := guarded()
			row.forge(w)
			if rep := judge(t, w.History); row.want(&rep) != 1 || !rep.Failed() {
				t.Errorf("Judge found %d of it, failed %t, want 1, true; faults: %+v", row.want(&rep), rep.Failed(), rep.Faults)
			}
		})
	}
}
