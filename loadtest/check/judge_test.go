package check_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"carillon.dev/carillon/loadtest/check"
)

// counters leaves out what the tables below do not state.
var counters = cmpopts.IgnoreFields(check.Report{}, "Faults", "Reported", "Seen", "Sightings", "Guarantees")

func judge(t *testing.T, h check.History) check.Report {
	t.Helper()
	rep, err := check.Judge(h)
	if err != nil {
		t.Fatalf("Judge: %v", err)
	}
	return rep
}

// compared judges the history of w and compares the report with that of the clean one, as want
// changes it (nil: not at all).
func compared(t *testing.T, w *world, want func(*check.Report)) check.Report {
	t.Helper()
	rep, expected := judge(t, w.History), cleanReport()
	if want != nil {
		want(&expected)
	}
	if diff := cmp.Diff(expected, rep, counters); diff != "" {
		t.Errorf("Judge (-want +got):\n%s\nfaults: %+v", diff, rep.Faults)
	}
	return rep
}

func TestCleanHistoryPasses(t *testing.T) {
	rep := judge(t, clean().History)
	if diff := cmp.Diff(cleanReport(), rep, cmpopts.IgnoreFields(check.Report{}, "Faults", "Reported", "Seen", "Guarantees")); diff != "" {
		t.Errorf("Judge(clean) (-want +got):\n%s\nfaults: %+v", diff, rep.Faults)
	}
	if rep.Failed() {
		t.Errorf("Judge(clean).Failed() = true, want false; faults: %+v", rep.Faults)
	}
}

func TestEmptyHistoryPasses(t *testing.T) {
	if rep := judge(t, check.History{}); rep.Failed() {
		t.Errorf("Judge(empty).Failed() = true, want false: %+v", rep)
	}
}

// Each row breaks the clean history as little as can be. want turns the clean report into the one
// expected.
func TestEveryFaultIsFound(t *testing.T) {
	rows := []struct {
		name   string
		forge  func(*world)
		want   func(*check.Report)
		fault  check.Kind
		passes bool
	}{
		{
			name: "missed: past due, still pending", fault: check.FaultMissed,
			forge: func(w *world) { w.unsee(onTime); w.unobserve(onTime); w.observe(onTime, check.Pending) },
			want:  func(r *check.Report) { r.Done--; r.Missed++ },
		},
		{
			name: "missed: acknowledged and absent", fault: check.FaultMissed,
			forge: func(w *world) {
				w.unsee(onTime)
				o := w.obs(onTime)
				o.First, o.Second = check.Reading{Status: check.Absent}, check.Reading{Status: check.Absent}
			},
			want: func(r *check.Report) { r.Done--; r.Missed++ },
		},
		{
			name: "missed: gone at the second read", fault: check.FaultMissed,
			forge: func(w *world) { w.obs(onTime).Second = check.Reading{Status: check.Absent} },
			want:  func(r *check.Report) { r.Done--; r.Missed++ },
		},
		{
			name: "missed: succeeded, but never seen", fault: check.FaultMissed,
			forge: func(w *world) { w.unsee(onTime) },
			want:  func(r *check.Report) { r.Done--; r.Missed++ },
		},
		{
			name: "unseen with an incomplete record of the sink is only counted", fault: check.FaultUnseen, passes: true,
			forge: func(w *world) { w.unsee(onTime); w.SeenAll = false },
			want:  func(r *check.Report) { r.Unseen++; r.SeenAll = false },
		},
		{
			name: "missed: failed without a start", fault: check.FaultMissed,
			forge: func(w *world) { w.unsee(onTime); w.unobserve(onTime); w.observe(onTime, check.Failed) },
			want:  func(r *check.Report) { r.Done--; r.Missed++; r.DeadLetters++ },
		},
		{
			name: "missed: cancelled, and nobody asked", fault: check.FaultMissed,
			forge: func(w *world) { w.Changes = w.Changes[1:] },
			want:  func(r *check.Report) { r.Cancelled--; r.Missed++ },
		},
		{
			name: "missed: recorded as missed, and no policy says so", fault: check.FaultMissed,
			forge: func(w *world) { w.ask(pastDeadline).Misfire = check.Misfire{Policy: "run_all"} },
			want:  func(r *check.Report) { r.MissedByPolicy--; r.Missed++ },
		},
		{
			name: "missed: given up 1 ms before its deadline", fault: check.FaultMissed,
			forge: func(w *world) { w.both(pastDeadline, func(r *check.Run) { r.FinishedAt = at(14_999) }) },
			want:  func(r *check.Report) { r.MissedByPolicy--; r.Missed++ },
		},
		{
			name: "started 1 ms after its deadline", fault: check.FaultPastDeadline,
			forge: func(w *world) { w.ask(onTime).Misfire.Deadline = 3 * time.Millisecond },
			want:  func(r *check.Report) { r.PastDeadline++ },
		},
		{
			name: "started 1 ms after what the policy skip allows", fault: check.FaultPastDeadline,
			forge: func(w *world) {
				w.ask(onTime).Misfire = check.Misfire{Policy: "skip"}
				w.sighting(onTime).At, w.sighting(onTime).End = at(70_002), at(70_003)
				w.both(onTime, func(r *check.Run) {
					r.LatenessMS, r.StartedAt, r.FinishedAt = num(60_001), at(70_001), at(70_004)
					r.Attempts = []check.Attempt{attempt(1, 70_001, 70_004, "succeeded")}
				})
			},
			want: func(r *check.Report) { r.PastDeadline++ },
		},
		{
			name: "early at the sink by 1 ms", fault: check.FaultEarly,
			forge: func(w *world) { w.sighting(onTime).At = at(9_999) },
			want:  func(r *check.Report) { r.Early++ },
		},
		{
			name: "early as reported by 1 ms", fault: check.FaultEarly,
			forge: func(w *world) { w.both(onTime, func(r *check.Run) { r.Attempts[0].StartedAt = at(9_999) }) },
			want:  func(r *check.Report) { r.Early++ },
		},
		{
			name: "a job of unknown outcome must not be early either", fault: check.FaultEarly,
			forge: func(w *world) { w.sighting(unknownRan).At = at(9_999) },
			want:  func(r *check.Report) { r.Early++ },
		},
		{
			name: "early: at the old instant, more than 2 s after the reschedule", fault: check.FaultEarly,
			forge: func(w *world) { w.sighting(rescheduled).At = at(10_003) },
			want:  func(r *check.Report) { r.Early++ },
		},
		{
			name: "early: at a new instant that had not been asked for yet", fault: check.FaultEarly,
			forge: func(w *world) { w.Changes[1].Due = at(3_000); w.sighting(rescheduled).At = at(4_000) },
			want:  func(r *check.Report) { r.Early++ },
		},
		{
			name: "early: a second attempt, and nobody tells of a first", fault: check.FaultEarly,
			forge: func(w *world) {
				w.unobserve(rescheduled)
				w.sighting(rescheduled).At, w.sighting(rescheduled).Attempt = at(10_003), 2
				w.observe(rescheduled, check.Succeeded, attempt(2, 10_003, 10_005, "succeeded"))
			},
			want: func(r *check.Report) { r.Early++ },
		},
		{
			name: "early: a first attempt after the second", fault: check.FaultEarly,
			forge: func(w *world) {
				w.sighting(rescheduled).Attempt = 2
				w.see(rescheduled, 1, 10_003, 500)
				w.unobserve(rescheduled)
				w.observe(rescheduled, check.Succeeded, attempt(1, 60_000, 60_001, "failed"), attempt(2, 60_002, 60_005, "succeeded"))
			},
			want: func(r *check.Report) { r.Early++ },
		},
		{
			name: "ghost: reported start 1 ms past the grace", fault: check.FaultGhost,
			forge: func(w *world) {
				w.Changes[0].Acked = at(9_000)
				w.unobserve(cancelled)
				w.observe(cancelled, check.Cancelled, attempt(1, 11_001, 11_002, "cancelled"))
			},
			want: func(r *check.Report) { r.Ghosts++; r.Cancelled--; r.Done++ },
		},
		{
			name: "ghost: seen 1 ms past the grace, nothing recorded", fault: check.FaultGhost,
			forge: func(w *world) { w.Changes[0].Acked = at(9_000); w.see(cancelled, 1, 11_001, 200) },
			want:  func(r *check.Report) { r.Ghosts++; r.Cancelled--; r.Done++ },
		},
		{
			name: "ghost: seen after its attempt is said to have finished", fault: check.FaultGhost,
			forge: func(w *world) {
				w.Changes[0].Acked = at(9_000)
				w.unobserve(cancelled)
				w.observe(cancelled, check.Cancelled, attempt(1, 10_000, 10_500, "cancelled"))
				w.see(cancelled, 1, 11_001, 200)
			},
			want: func(r *check.Report) { r.Ghosts++; r.Cancelled--; r.Done++ },
		},
		{
			name: "ghost: another attempt is under way", fault: check.FaultGhost,
			forge: func(w *world) {
				w.Changes[0].Acked = at(9_000)
				w.unobserve(cancelled)
				w.observe(cancelled, check.Cancelled, attempt(1, 10_000, 20_000, "cancelled"))
				w.see(cancelled, 2, 11_001, 200)
			},
			want: func(r *check.Report) { r.Ghosts++; r.Cancelled--; r.Done++ },
		},
		{
			name: "unexpected: a run seen that names no job", fault: check.FaultUnexpected,
			forge: func(w *world) {
				// still unknown: first answer was none
				w.Acks = append(w.Acks, check.Ack{Ref: ref(unknownSilent), Status: 422, At: at(200)})
				for _, run := range []string{"a", "b"} {
					w.Seen = append(w.Seen, check.Sighting{Run: run, At: at(20_000), End: at(20_001), Status: 200})
				}
			},
			want: func(r *check.Report) { r.Unexpected++; r.UnknownRan++ },
		},
		{
			name: "unexpected: a run listed that names a job nobody asked for", fault: check.FaultUnexpected,
			forge: func(w *world) { w.observe(77, check.Pending) },
			want:  func(r *check.Report) { r.Unexpected++ },
		},
		{
			name: "unexpected: a refused job ran", fault: check.FaultUnexpected,
			forge: func(w *world) { w.see(refused, 1, 10_001, 200) },
			want:  func(r *check.Report) { r.Unexpected++ },
		},
		{
			name: "unexpected: an unknown job ran under two ids", fault: check.FaultUnexpected,
			forge: func(w *world) { w.see(unknownRan, 1, 10_001, 200).Run = "run-other" },
			want:  func(r *check.Report) { r.Unexpected++ },
		},
		{
			name: "unexpected: a keyed job acknowledged under two ids", fault: check.FaultUnexpected,
			forge: func(w *world) {
				w.Acks = append(w.Acks, check.Ack{Ref: ref(immediate), ID: "run-other", Status: 200, At: at(300)})
				w.see(immediate, 1, 400, 200).Run = "run-other"
			},
			want: func(r *check.Report) { r.Unexpected++ },
		},
		{
			name: "unexpected: called without a run id", fault: check.FaultUnexpected,
			forge: func(w *world) { w.see(unknownSilent, 1, 10_001, 200).Run = "" },
			want:  func(r *check.Report) { r.Unexpected++ },
		},
		{
			name: "unexpected: a run carries another job's address", fault: check.FaultUnexpected,
			forge: func(w *world) { w.sighting(onTime).Ref = ref(retried) },
			want:  func(r *check.Report) { r.Unexpected++ },
		},
		{
			name: "unexpected: a run carries another job's payload", fault: check.FaultUnexpected,
			forge: func(w *world) { w.obs(onTime).Ref = ref(retried) },
			want:  func(r *check.Report) { r.Unexpected++ },
		},
		{
			name: "unreadable at one read is not missed", fault: check.FaultUnreadable,
			forge: func(w *world) { w.obs(onTime).Second = check.Reading{} },
			want:  func(r *check.Report) { r.Done--; r.Unreadable++ },
		},
		{
			name: "unreadable beats absent", fault: check.FaultUnreadable,
			forge: func(w *world) {
				w.obs(onTime).First = check.Reading{}
				w.obs(onTime).Second = check.Reading{Status: check.Absent}
			},
			want: func(r *check.Report) { r.Done--; r.Unreadable++ },
		},
		{
			name: "unreadable: never asked for", fault: check.FaultUnreadable,
			forge: func(w *world) { w.unobserve(onTime) },
			want:  func(r *check.Report) { r.Done--; r.Unreadable++ },
		},
		{
			name: "unreadable: a run of an unknown job", fault: check.FaultUnreadable,
			forge: func(w *world) { w.obs(unknownRan).Second = check.Reading{} },
			want:  func(r *check.Report) { r.UnreadableOthers++ },
		},
		{
			name:  "a window that could not be listed",
			forge: func(w *world) { w.Unlisted = 1 },
			want:  func(r *check.Report) { r.Unlisted++ },
		},
		{
			name: "unfinished: started, and a retry that never comes", fault: check.FaultUnfinished,
			forge: func(w *world) {
				w.both(retried, func(r *check.Run) { r.State = check.Retrying; r.Attempts = r.Attempts[:1] })
			},
			want: func(r *check.Report) { r.Done--; r.Unfinished++ },
		},
		{
			name: "unfinished: a cancel that was acknowledged and lost", fault: check.FaultUnfinished,
			forge: func(w *world) { w.both(cancelled, func(r *check.Run) { r.State = check.Pending }) },
			want:  func(r *check.Report) { r.Cancelled--; r.Unfinished++ },
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := clean()
			row.forge(w)
			rep := compared(t, w, row.want)
			if rep.Failed() == row.passes {
				t.Errorf("Failed() = %t, want %t", rep.Failed(), !row.passes)
			}
			if row.fault != "" && !hasFault(rep, row.fault) {
				t.Errorf("Faults has no %q: %+v", row.fault, rep.Faults)
			}
		})
	}
}

func hasFault(rep check.Report, kind check.Kind) bool {
	for _, f := range rep.Faults {
		if f.Kind == kind {
			return true
		}
	}
	return false
}

// Each row is the last case on the allowed side of a rule.
func TestWhatIsAllowedPasses(t *testing.T) {
	rows := []struct {
		name  string
		forge func(*world)
		want  func(*check.Report)
	}{
		{
			name:  "arrival in the very millisecond that was asked for",
			forge: func(w *world) { w.sighting(onTime).At = at(10_000) },
		},
		{
			name: "a start cut to the millisecond of a finer instant",
			forge: func(w *world) {
				w.ask(onTime).At = at(10_000).Add(700 * time.Microsecond)
				w.both(onTime, func(r *check.Run) { r.Attempts[0].StartedAt = at(10_000) })
			},
		},
		{
			name:  "at the old instant, 2 s after the reschedule",
			forge: func(w *world) { w.Changes[1].Acked = at(8_003); w.sighting(rescheduled).At = at(10_003) },
		},
		{
			name:  "at the old instant, the reschedule of unknown outcome",
			forge: func(w *world) { w.Changes[1].Acked = time.Time{}; w.sighting(rescheduled).At = at(30_000) },
		},
		{
			name:  "rescheduled to an earlier instant",
			forge: func(w *world) { w.Changes[1].Due = at(7_000); w.sighting(rescheduled).At = at(7_001) },
		},
		{
			name: "the retry of what had started when it was moved",
			forge: func(w *world) {
				w.Changes[1].Requested, w.Changes[1].Acked = at(10_100), at(10_110)
				w.unsee(rescheduled)
				w.unobserve(rescheduled)
				w.see(rescheduled, 1, 10_003, 500)
				w.see(rescheduled, 2, 13_500, 200)
				w.observe(rescheduled, check.Succeeded, attempt(1, 10_002, 10_005, "failed"), attempt(2, 13_499, 13_502, "succeeded"))
			},
		},
		{
			name: "started exactly 2 s after the cancel",
			forge: func(w *world) {
				w.Changes[0].Acked = at(9_000)
				w.unobserve(cancelled)
				w.see(cancelled, 1, 11_000, 200)
				w.observe(cancelled, check.Succeeded, attempt(1, 11_000, 11_002, "succeeded"))
			},
			want: func(r *check.Report) { r.Cancelled--; r.Done++ },
		},
		{
			name:  "seen exactly 2 s after the cancel, nothing recorded",
			forge: func(w *world) { w.Changes[0].Acked = at(9_000); w.see(cancelled, 1, 11_000, 200) },
			want:  func(r *check.Report) { r.Cancelled--; r.Done++ },
		},
		{
			name: "an arrival past the grace of an attempt under way",
			forge: func(w *world) {
				w.Changes[0].Acked = at(9_000)
				w.unobserve(cancelled)
				w.see(cancelled, 1, 11_500, 200)
				w.observe(cancelled, check.Succeeded, attempt(1, 11_000, 11_502, "succeeded"))
			},
			want: func(r *check.Report) { r.Cancelled--; r.Done++ },
		},
		{
			name:  "a cancel of unknown outcome that took no effect",
			forge: func(w *world) { w.Changes[0].Run = id(onTime); w.Changes[0].Acked = time.Time{}; w.cancelledRan() },
			want:  func(r *check.Report) { r.Cancelled--; r.Done++ },
		},
		{
			name:  "started at its deadline",
			forge: func(w *world) { w.ask(onTime).Misfire.Deadline = 4 * time.Millisecond },
		},
		{
			name:  "retried after its deadline",
			forge: func(w *world) { w.ask(retried).Misfire.Deadline = time.Second },
		},
		{
			name:  "started within its deadline, counted from the acknowledgement",
			forge: func(w *world) { w.ask(onTime).Misfire.Deadline = 3 * time.Millisecond; w.ack(onTime).At = at(10_002) },
		},
		{
			name: "claimed after its deadline",
			forge: func(w *world) {
				w.ask(onTime).Misfire.Deadline = 3 * time.Millisecond
				w.ask(onTime).Guarantee = check.EffectivelyOnce
				w.sighting(onTime).Fence = 1
			},
		},
		{
			name:  "missed under the policy skip",
			forge: func(w *world) { w.ask(pastDeadline).Misfire = check.Misfire{Policy: "skip"} },
		},
		{
			name:  "missed under the policy skip, before the deadline",
			forge: func(w *world) { w.ask(pastDeadline).Misfire = check.Misfire{Policy: "skip", Deadline: time.Hour} },
		},
		{
			name: "answered 503, then acknowledged",
			forge: func(w *world) {
				w.Acks = append(w.Acks, check.Ack{Ref: ref(unknownRan), ID: id(unknownRan), Status: 201, At: at(900)})
			},
			want: func(r *check.Report) { r.Unknown--; r.UnknownRan--; r.Acknowledged++; r.Done++ },
		},
		{
			name: "acknowledged twice under one key",
			forge: func(w *world) {
				w.Acks = append(w.Acks, check.Ack{Ref: ref(immediate), ID: id(immediate), Status: 200, At: at(900)})
			},
		},
		{
			name: "an unkeyed job sent twice has two runs",
			forge: func(w *world) {
				w.Acks = append(w.Acks, check.Ack{Ref: ref(onTime), ID: id(77), Status: 201, At: at(900)})
				w.succeed(77, 10_005)
				w.obs(77).Ref, w.sighting(77).Ref = ref(onTime), ref(onTime)
			},
			want: func(r *check.Report) { r.Acknowledged++; r.Done++ },
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := clean()
			row.forge(w)
			if rep := compared(t, w, row.want); rep.Failed() {
				t.Errorf("Failed() = true, want false; faults: %+v", rep.Faults)
			}
		})
	}
}

// cancelledRan makes the job that was to be cancelled an ordinary success.
func (w *world) cancelledRan() {
	w.unobserve(cancelled)
	w.succeed(cancelled, 10_002)
}

func TestHistoryThatContradictsItselfIsRefused(t *testing.T) {
	rows := []struct {
		name  string
		forge func(*world)
	}{
		{"a job asked for twice", func(w *world) { w.Asked = append(w.Asked, w.Asked[0]) }},
		{"an answer to nothing", func(w *world) { w.Acks = append(w.Acks, check.Ack{Ref: ref(99), ID: "x", Status: 201, At: t0}) }},
		{"an acknowledgement without an id", func(w *world) { w.ack(onTime).ID = "" }},
		{"one id for two jobs", func(w *world) { w.ack(onTime).ID = id(retried) }},
		{"a run observed twice", func(w *world) { w.Runs = append(w.Runs, w.Runs[0]) }},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := clean()
			row.forge(w)
			if _, err := check.Judge(w.History); !errors.Is(err, check.ErrHistory) {
				t.Errorf("Judge = %v, want ErrHistory", err)
			}
		})
	}
}

// What an executor goes by was read by another node's clock, so after a change it may start for as much longer as clocks are off, and no longer.
func TestGracesWhereClocksAreOff(t *testing.T) {
	for _, row := range []struct {
		off           time.Duration
		late          int // ms after the change was acknowledged
		early, ghosts int
	}{
		{0, 2_002, 1, 1}, {time.Second, 2_002, 0, 0}, {time.Second, 2_999, 0, 0}, {time.Second, 3_002, 1, 1},
	} {
		moved := clean()
		moved.Off = row.off
		moved.Changes[1].Acked = at(10_000 - row.late)
		moved.Changes[1].Requested = moved.Changes[1].Acked
		moved.sighting(rescheduled).At = at(10_000)
		if rep := judge(t, moved.History); rep.Early != row.early {
			t.Errorf("moved, clocks off by %v, started %d ms after: early %d, want %d; faults: %+v", row.off, row.late, rep.Early, row.early, rep.Faults)
		}

		ended := clean()
		ended.Off = row.off
		ended.Changes[0].Acked = at(10_000 - row.late)
		ended.Changes[0].Requested = ended.Changes[0].Acked
		ended.see(cancelled, 1, 10_000, 200)
		if rep := judge(t, ended.History); rep.Ghosts != row.ghosts {
			t.Errorf("cancelled, clocks off by %v, started %d ms after: ghosts %d, want %d; faults: %+v", row.off, row.late, rep.Ghosts, row.ghosts, rep.Faults)
		}
	}
}

// Executors start by their own clocks, which may be off by so much. Both clocks are judged.
func TestEarlyStartsWhereClocksAreOff(t *testing.T) {
	for _, row := range []struct {
		name      string
		at, clock int // of the call, which is due at 10,000; clock 0 = not known
		off       time.Duration
		early     int
	}{
		{"clocks are right, and it is early by 1 ms", 9_999, 0, 0, 1},
		{"within the bound, and not early by its own clock", 9_000, 10_000, time.Second, 0},
		{"within the bound, and early by its own clock", 9_999, 9_999, time.Second, 1},
		{"in time, and early by its own clock", 10_500, 9_999, time.Second, 1},
		{"beyond the bound, and not early by its own clock", 8_999, 10_000, time.Second, 1},
		{"within the bound, and its clock is not known", 9_000, 0, time.Second, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := clean()
			w.Off = row.off
			w.sighting(onTime).At = at(row.at)
			if row.clock > 0 {
				w.sighting(onTime).Clock = at(row.clock)
			}
			if rep := judge(t, w.History); rep.Early != row.early {
				t.Errorf("Judge: early %d, want %d; faults: %+v", rep.Early, row.early, rep.Faults)
			}

			rw := cleanRecurring()
			rw.Off = row.off
			i := slices.IndexFunc(rw.Seen, func(s check.Sighting) bool { return s.Run == rid(latest, 60_000) })
			rw.Seen[i].At, rw.Seen[i].Clock = at(50_000+row.at), time.Time{}
			if row.clock > 0 {
				rw.Seen[i].Clock = at(50_000 + row.clock)
			}
			if rep := judgeRecurring(t, rw.RecurringHistory); rep.Early != row.early {
				t.Errorf("JudgeRecurring: early %d, want %d; faults: %+v", rep.Early, row.early, rep.Faults)
			}
		})
	}
}
