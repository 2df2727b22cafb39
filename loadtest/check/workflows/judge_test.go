package workflows_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/check/workflows"
)

func judge(t *testing.T, h workflows.History) workflows.Report {
	t.Helper()
	rep, err := workflows.Judge(h)
	if err != nil {
		t.Fatalf("Judge: %v", err)
	}
	return rep
}

func TestCleanHistoryPasses(t *testing.T) {
	w := clean(t)
	rep := judge(t, w.History)
	if diff := cmp.Diff(cleanReport(), rep, cmpopts.IgnoreFields(workflows.Report{}, "Faults", "Late")); diff != "" {
		t.Errorf("Judge(clean) (-want +got):\n%s\nfaults: %+v", diff, rep.Faults)
	}
	if rep.Failed() || len(rep.Faults) > 0 {
		t.Errorf("Judge(clean) fails: %+v", rep.Faults)
	}
	// Of seven calls it is known exactly when their conditions were met.
	if rep.Late.Count != 7 || rep.Late.Max < 10 || rep.Late.Max > 10.1 {
		t.Errorf("lateness = %+v, want 7 of 10 ms at most", rep.Late)
	}
	suspects, err := workflows.Suspects(w.History)
	if err != nil || len(suspects) > 0 {
		t.Errorf("Suspects(clean) = %q, %v, want none", suspects, err)
	}
}

// Each row breaks the clean history as little as can be. want turns the clean report into the one
// expected.
func TestEveryFaultIsFound(t *testing.T) {
	redispatched := check.Attempt{Number: 1, Outcome: check.OutcomeSucceeded, StatusCode: 200, Redispatched: true}
	lost := check.Attempt{Number: 3, Outcome: check.OutcomeLost}
	rows := []struct {
		name  string
		forge func(*world)
		want  func(*workflows.Report)
		fault check.Kind // "": it passes
	}{
		{
			name: "missed: a step that any_failed starts", fault: check.FaultMissed,
			forge: func(w *world) { w.unsee(6, 0) },
			want:  func(r *workflows.Report) { r.Missed++; r.StepRuns--; r.Sightings--; r.DoneFailed-- },
		},
		{
			name: "missed: the only step", fault: check.FaultMissed,
			forge: func(w *world) { w.Seen = w.Seen[:len(w.Seen)-1] },
			want:  func(r *workflows.Report) { r.Missed++; r.StepRuns--; r.Sightings-- },
		},
		{
			name: "missed: an item, and what came after it came too soon", fault: check.FaultMissed,
			forge: func(w *world) { w.unsee(2, 3) },
			want: func(r *workflows.Report) {
				r.Missed++
				r.Early += 2 // s4 and s9
				r.StepRuns--
				r.Items--
				r.Sightings--
				r.Waits--
				r.DoneFailed--
			},
		},
		{
			name: "missed: a run that the API does not know", fault: check.FaultMissed,
			forge: func(w *world) { w.Runs[1].Second = check.Reading{Status: check.Absent} },
			want:  func(r *workflows.Report) { r.Missed++ },
		},
		{
			name: "an incomplete record shows nothing missed, and no verdict", fault: check.FaultUnreadable,
			forge: func(w *world) { w.unsee(6, 0); w.SeenAll = false },
			want:  func(r *workflows.Report) { r.StepRuns--; r.Sightings--; r.SeenAll = false; r.DoneFailed-- },
		},
		{
			name: "extra: a step behind one that failed", fault: workflows.FaultExtra,
			forge: func(w *world) { w.call(7, 0, 1, 60, 61, 200) },
			want:  func(r *workflows.Report) { r.Extra++; r.Sightings++ },
		},
		{
			name: "extra: a step whose if is false", fault: workflows.FaultExtra,
			forge: func(w *world) { w.call(8, 0, 1, 60, 61, 200) },
			want:  func(r *workflows.Report) { r.Extra++; r.Sightings++ },
		},
		{
			name: "extra: a step that waits", fault: workflows.FaultExtra,
			forge: func(w *world) { w.call(3, 0, 1, 60, 61, 200) },
			want:  func(r *workflows.Report) { r.Extra++; r.Sightings++ },
		},
		{
			name: "extra: an item beyond the list", fault: workflows.FaultExtra,
			forge: func(w *world) { w.call(2, 4, 1, 60, 61, 200) },
			want:  func(r *workflows.Report) { r.Extra++; r.Sightings++ },
		},
		{
			name: "extra: an attempt beyond the bound", fault: workflows.FaultExtra,
			forge: func(w *world) { w.call(12, 0, 4, 160, 161, 500) },
			want:  func(r *workflows.Report) { r.Extra++; r.Sightings++; r.Retried++ },
		},
		{
			name: "extra: the address of another step", fault: workflows.FaultExtra,
			forge: func(w *world) { w.seen(6, 0).Ref.Line = 7 },
			want:  func(r *workflows.Report) { r.Extra++ },
		},
		{
			name: "extra: a call without a run", fault: workflows.FaultExtra,
			forge: func(w *world) { w.call(6, 0, 1, 60, 61, 200); w.Seen[len(w.Seen)-1].Run = "" },
			want:  func(r *workflows.Report) { r.Extra++; r.Sightings++ },
		},
		{
			name: "extra: steps of a run that nobody asked for", fault: workflows.FaultExtra,
			forge: func(w *world) {
				w.callOf(stranger, "mixed", 1, 0, 1, 60, 61, 200)
				w.callOf(stranger, "mixed", 2, 1, 1, 70, 71, 200)
			},
			want: func(r *workflows.Report) { r.Extra++; r.Sightings += 2 },
		},
		{
			name: "extra: a run in a list that nobody asked for", fault: workflows.FaultExtra,
			forge: func(w *world) {
				w.observe(check.Run{ID: stranger.String(), State: check.Running, Workflow: "mixed"})
			},
			want: func(r *workflows.Report) { r.Extra++ },
		},
		{
			name: "a trigger without an answer may have a run",
			forge: func(w *world) {
				w.callOf(stranger, "mixed", 1, 0, 1, 60, 61, 200)
				w.observe(check.Run{ID: stranger.String(), State: check.Running, Workflow: "mixed"})
				w.Triggers = append(w.Triggers, workflows.Trigger{Ref: check.Ref{Source: "mixed", Line: 3}, Payload: w.Triggers[0].Payload, Requested: at(50)})
			},
			want: func(r *workflows.Report) { r.Triggers++; r.Unknown++; r.UnknownRan++; r.Sightings++ },
		},
		{
			name: "extra: of two runs a trigger without an answer explains one", fault: workflows.FaultExtra,
			forge: func(w *world) {
				w.callOf(stranger, "mixed", 1, 0, 1, 60, 61, 200)
				w.callOf(runID(4), "mixed", 1, 0, 1, 60, 61, 200)
				w.Triggers = append(w.Triggers, workflows.Trigger{Ref: check.Ref{Source: "mixed", Line: 3}, Payload: w.Triggers[0].Payload, Requested: at(50)})
			},
			want: func(r *workflows.Report) { r.Triggers++; r.Unknown++; r.UnknownRan++; r.Extra++; r.Sightings += 2 },
		},
		{
			name: "stuck: a run without an end", fault: workflows.FaultStuck,
			forge: func(w *world) { w.shown().State, w.Runs[0].First.Run.State = check.Running, check.Running },
			want:  func(r *workflows.Report) { r.Stuck++; r.DoneFailed-- },
		},
		{
			name: "stuck: a step that was never called is not missed as well", fault: workflows.FaultStuck,
			forge: func(w *world) {
				w.shown().State, w.Runs[0].First.Run.State = check.Running, check.Running
				w.shownStep(6).State = check.Pending
				w.unsee(6, 0)
			},
			want: func(r *workflows.Report) { r.Stuck++; r.DoneFailed--; r.StepRuns--; r.Sightings-- },
		},
		{
			name: "untrue: succeeded, though a step failed", fault: workflows.FaultUntrue,
			forge: func(w *world) {
				w.shown().State, w.Runs[0].First.Run.State = check.Succeeded, check.Succeeded
			},
			want: func(r *workflows.Report) { r.Untrue++; r.DoneFailed-- },
		},
		{
			name: "untrue: failed, though its step succeeded", fault: workflows.FaultUntrue,
			forge: func(w *world) { w.Runs[1].First.Run.State, w.Runs[1].Second.Run.State = check.Failed, check.Failed },
			want:  func(r *workflows.Report) { r.Untrue++; r.DoneFailed++ },
		},
		{
			name: "untrue: cancelled, and nobody asked for that", fault: workflows.FaultUntrue,
			forge: func(w *world) {
				w.Runs[1].First.Run.State, w.Runs[1].Second.Run.State = check.Cancelled, check.Cancelled
			},
			want: func(r *workflows.Report) { r.Untrue++ },
		},
		{
			name: "untrue: an end that did not last", fault: workflows.FaultUntrue,
			forge: func(w *world) { w.Runs[0].First.Run.State = check.Succeeded },
			want:  func(r *workflows.Report) { r.Untrue++ },
		},
		{
			name: "untrue: a step that is shown as failed and succeeded", fault: workflows.FaultUntrue,
			forge: func(w *world) { w.shownStep(6).State = check.Failed },
			want:  func(r *workflows.Report) { r.Untrue++ },
		},
		{
			name: "untrue: a step that is shown as succeeded and was skipped", fault: workflows.FaultUntrue,
			forge: func(w *world) { w.shownStep(7).State = check.Succeeded },
			want:  func(r *workflows.Report) { r.Untrue++ },
		},
		{
			name: "untrue: fewer items than the list has", fault: workflows.FaultUntrue,
			forge: func(w *world) { w.shownStep(2).Items.Total = 2 },
			want:  func(r *workflows.Report) { r.Untrue++ },
		},
		{
			name: "untrue: fewer steps than the workflow has", fault: workflows.FaultUntrue,
			forge: func(w *world) { w.shown().Steps = w.shown().Steps[:3] },
			want:  func(r *workflows.Report) { r.Untrue++ },
		},
		{
			name: "early: the first step, before it was asked for", fault: check.FaultEarly,
			forge: func(w *world) { w.move(1, 0, -1) },
			want:  func(r *workflows.Report) { r.Early++ },
		},
		{
			name: "early: a step in a chain", fault: check.FaultEarly,
			forge: func(w *world) { w.move(11, 0, 29) },
			want:  func(r *workflows.Report) { r.Early++ },
		},
		{
			name: "early: an item", fault: check.FaultEarly,
			forge: func(w *world) { w.move(2, 2, 29) },
			want:  func(r *workflows.Report) { r.Early++ },
		},
		{
			name: "early: any_failed, before the failure", fault: check.FaultEarly,
			forge: func(w *world) { w.move(6, 0, 44) },
			want:  func(r *workflows.Report) { r.Early++ },
		},
		{
			name: "early: any_succeeded, before the success", fault: check.FaultEarly,
			forge: func(w *world) { w.move(9, 0, 3079) },
			want:  func(r *workflows.Report) { r.Early++ },
		},
		{
			name: "early: behind a step that was skipped", fault: check.FaultEarly,
			forge: func(w *world) { w.move(10, 0, 44) },
			want:  func(r *workflows.Report) { r.Early++ },
		},
		{
			name: "early: behind a step without items", fault: check.FaultEarly,
			forge: func(w *world) { w.move(14, 0, 29) },
			want:  func(r *workflows.Report) { r.Early++ },
		},
		{
			name: "early: before a wait is over", fault: check.FaultEarly,
			forge: func(w *world) { w.move(4, 0, 1000) },
			want:  func(r *workflows.Report) { r.Early++ },
		},
		{
			name: "early: before the last item has ended", fault: check.FaultEarly,
			forge: func(w *world) { w.seen(2, 3).End = at(2100) }, // + 3 s − WaitSlack
			want:  func(r *workflows.Report) { r.Early++ },
		},
		{
			name: "early: the step before it never ended", fault: check.FaultEarly,
			forge: func(w *world) {
				w.shown().State, w.Runs[0].First.Run.State = check.Running, check.Running
				w.seen(4, 0).Status = 500
			},
			want: func(r *workflows.Report) { r.Early++; r.Stuck++; r.DoneFailed-- },
		},
		{
			name:  "a second call that its records explain",
			forge: func(w *world) { w.call(6, 0, 1, 60, 65, 200); w.record(6, check.Succeeded, redispatched) },
			want:  func(r *workflows.Report) { r.DuplicateExecutions++; r.Sightings++ },
		},
		{
			name: "a second call that its records do not explain", fault: check.FaultUnexplained,
			forge: func(w *world) {
				w.call(6, 0, 1, 60, 65, 200)
				w.record(6, check.Succeeded, check.Attempt{Number: 1, Outcome: check.OutcomeSucceeded, StatusCode: 200})
			},
			want: func(r *workflows.Report) { r.DuplicateExecutions++; r.Unexplained++; r.Sightings++ },
		},
		{
			name: "one process started an attempt twice", fault: check.FaultCalledTwice,
			forge: func(w *world) {
				w.call(6, 0, 1, 60, 65, 200)
				one := redispatched
				one.Executor, one.StartedAt = "carillon-1", at(50)
				other := one
				other.StartedAt = at(60)
				w.record(6, check.Succeeded, one, other)
			},
			want: func(r *workflows.Report) { r.DuplicateExecutions++; r.CalledTwice++; r.Sightings++ },
		},
		{
			name: "a second call whose records were not read", fault: check.FaultUnreadable,
			forge: func(w *world) { w.call(6, 0, 1, 60, 65, 200) },
			want:  func(r *workflows.Report) { r.DuplicateExecutions++; r.Unread++; r.Sightings++ },
		},
		{
			name:  "a later attempt beside one that succeeded is counted",
			forge: func(w *world) { w.call(6, 0, 2, 60, 65, 200) },
			want:  func(r *workflows.Report) { r.DuplicateExecutions++; r.Retried++; r.Sightings++ },
		},
		{
			name: "the last attempt was lost with its answer",
			forge: func(w *world) {
				w.Seen[slices.IndexFunc(w.Seen, isLastOf12)].Status = 200
				w.record(12, check.Failed, lost)
			},
		},
		{
			name: "attempts that never arrived count",
			forge: func(w *world) {
				w.Seen = slices.DeleteFunc(w.Seen, isLastOf12)
				w.record(12, check.Failed, lost)
			},
			want: func(r *workflows.Report) { r.Sightings--; r.Retried-- },
		},
		{
			name: "unreadable", fault: check.FaultUnreadable,
			forge: func(w *world) { w.Runs = w.Runs[:1] },
			want:  func(r *workflows.Report) { r.Unreadable++ },
		},
		{
			name: "not listed", fault: check.FaultUnreadable,
			forge: func(w *world) { w.Unlisted = 1 },
			want:  func(r *workflows.Report) { r.Unlisted++ },
		},
		{
			name: "too late", fault: check.FaultTooLate,
			forge: func(w *world) { w.Late.Max = time.Second; w.move(6, 0, 1046) },
			want:  func(r *workflows.Report) { r.TooLate++; r.Bound.Max = time.Second },
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := clean(t)
			row.forge(w)
			rep, want := judge(t, w.History), cleanReport()
			if row.want != nil {
				row.want(&want)
			}
			if diff := cmp.Diff(want, rep, cmpopts.IgnoreFields(workflows.Report{}, "Faults", "Late")); diff != "" {
				t.Errorf("Judge (-want +got):\n%s\nfaults: %+v", diff, rep.Faults)
			}
			if rep.Failed() != (row.fault != "") {
				t.Errorf("Failed = %t, want %t; faults: %+v", rep.Failed(), row.fault != "", rep.Faults)
			}
			spelt := row.fault == "" || !rep.SeenAll || rep.Unlisted > 0
			if !spelt && !slices.ContainsFunc(rep.Faults, func(f check.Fault) bool { return f.Kind == row.fault }) {
				t.Errorf("faults = %+v, want one of %q", rep.Faults, row.fault)
			}
		})
	}
}

func isLastOf12(s check.Sighting) bool { return s.Run == idOf(mixed, 12, 0) && s.Attempt == 3 }

// Runs of steps that need their records are named.
func TestSuspects(t *testing.T) {
	w := clean(t)
	w.call(6, 0, 1, 60, 65, 200)
	w.Seen = slices.DeleteFunc(w.Seen, isLastOf12)
	got, err := workflows.Suspects(w.History)
	if diff := cmp.Diff([]string{idOf(mixed, 6, 0), idOf(mixed, 12, 0)}, got); err != nil || diff != "" {
		t.Errorf("Suspects = %v (-want +got):\n%s", err, diff)
	}
}

func TestWhatTheJudgeCannotReadIsAnError(t *testing.T) {
	rows := map[string]func(t *testing.T, w *world){
		"an if": func(t *testing.T, w *world) {
			w.Workflows[1] = definition(t, "plain", `[{"name":"s1","if":"1 < 2","http":{"url":"http://h/plain/1"}}]`)
		},
		"an if of a later step": func(t *testing.T, w *world) {
			w.Workflows[1] = definition(t, "plain", `[{"name":"s1","if":"steps.s2.state == \"failed\"","http":{"url":"http://h/plain/1"}}]`)
		},
		"a step after a later one": func(t *testing.T, w *world) {
			w.Workflows[1] = definition(t, "plain", `[{"name":"s1","after":["s2"],"http":{"url":"http://h/plain/1"}}]`)
		},
		"no work": func(t *testing.T, w *world) { w.Workflows[1] = definition(t, "plain", `[{"name":"s1"}]`) },
		"a URL": func(t *testing.T, w *world) {
			w.Workflows[1] = definition(t, "plain", `[{"name":"s1","http":{"url":"http://h/x"}}]`)
		},
		"a workflow twice": func(_ *testing.T, w *world) { w.Workflows[1] = w.Workflows[0] },
		"no workflow":      func(_ *testing.T, w *world) { w.Workflows = w.Workflows[:1] },
		"no list":          func(_ *testing.T, w *world) { w.Triggers[0].Payload = json.RawMessage(`{"n":1,"items":7,"none":[]}`) },
		"no id":            func(_ *testing.T, w *world) { w.Triggers[0].Run = "x" },
		"one run twice":    func(_ *testing.T, w *world) { w.Triggers[0].Run = w.Triggers[1].Run },
		"observed twice":   func(_ *testing.T, w *world) { w.Runs[1] = w.Runs[0] },
	}
	for name, forge := range rows {
		t.Run(name, func(t *testing.T) {
			w := clean(t)
			forge(t, w)
			if _, err := workflows.Judge(w.History); !errors.Is(err, check.ErrHistory) {
				t.Errorf("Judge = %v, want %v", err, check.ErrHistory)
			}
		})
	}
}

func TestReport(t *testing.T) {
	w := clean(t)
	w.unsee(6, 0)
	rep := judge(t, w.History)
	var text, doc bytes.Buffer
	if err := errors.Join(rep.WriteText(&text), rep.WriteJSON(&doc)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"missed", "step s6 was never called", "FAILED"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("WriteText has no %q:\n%s", want, text.String())
		}
	}
	var back struct {
		workflows.Report
		Failed bool `json:"failed"`
	}
	if err := json.Unmarshal(doc.Bytes(), &back); err != nil || !back.Failed || !cmp.Equal(back.Report, rep) {
		t.Errorf("WriteJSON = %v, %s", err, doc.String())
	}
}

// A run with a call within a loss may run its steps again, and another way. It must still be there,
// and end.
func TestLossesExcuseAllButTheEnd(t *testing.T) {
	lost := func(w *world) *world {
		w.Losses = []check.Loss{{From: at(25), Cut: at(35)}}
		w.call(4, 0, 1, 10, 12, 200) // early, and not explained
		w.call(7, 0, 1, 60, 70, 200) // not to run
		return w
	}
	judged := func(w *world) workflows.Report {
		t.Helper()
		rep, err := workflows.Judge(w.History)
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	w := lost(clean(t))
	if rep := judged(w); rep.Failed() || rep.Forgiven != 2 || rep.Acknowledged != 2 || rep.StepRuns != 0 {
		t.Errorf("Judge = %+v, want both runs forgiven, and nothing else", rep)
	}
	w.Losses[0] = check.Loss{From: at(5000), Cut: at(6000)} // when nothing was called
	if rep := judged(w); !rep.Failed() || rep.Forgiven != 0 {
		t.Errorf("Judge with a loss at another time = %+v, want the faults", rep)
	}
	w = lost(clean(t))
	w.Runs[0].Second.Run.State = check.Running
	w.Runs[0].First.Run.State = check.Running
	w.Runs[1].First, w.Runs[1].Second = check.Reading{Status: check.Absent}, check.Reading{Status: check.Absent}
	if rep := judged(w); rep.Stuck != 1 || rep.Missed != 1 || rep.Forgiven != 2 {
		t.Errorf("Judge of a run without an end and one that is gone = %+v, want one stuck and one missed", rep)
	}
}
