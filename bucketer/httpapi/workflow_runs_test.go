package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// started makes a run of a workflow.
func started(t *testing.T, b *stub, body string) Run {
	t.Helper()
	putWorkflow(t, b, "w", body)
	var run Run
	doJSON(t, serve(t, b), call{method: "POST", path: "/v1/workflows/w/trigger"}, 202, &run)
	return run
}

// A step that waited says which event it heard: the audit log knows who published that.
func TestRunShowsWhatAStepHeard(t *testing.T) {
	b := newStub()
	run := started(t, b, `{"steps":[{"name":"approve","wait":{"event":"approved"}},{"name":"rest","after":["approve"],"wait":{"for":"1h"}}]}`)
	steps := b.begun(t, run.ID)
	heard := schema.MakeStepID(run.ID, 0, 0)
	steps.view.Steps[0].State, steps.view.Steps[0].Event = schema.StateSucceeded, heard
	var read Run
	doJSON(t, serve(t, b), call{method: "GET", path: "/v1/runs/" + run.ID.String()}, 200, &read)
	if e := read.Steps[0].Event; e == nil || e.ID != heard || e.Name != "approved" {
		t.Errorf("the step that heard an event has %+v, want %s approved", e, heard)
	}
	if e := read.Steps[1].Event; e != nil {
		t.Errorf("a step that waits for a time has the event %+v", e)
	}
}

func TestRunShowsItsSteps(t *testing.T) {
	b := newStub()
	run := started(t, b, etl)
	hs := serve(t, b)
	steps := b.begun(t, run.ID)
	at := testNow.Add
	id := schema.MakeStepID(run.ID, 0, 0)
	s := steps.view.Steps
	s[0].State, s[0].Run, s[0].Attempts, s[0].Started, s[0].Finished = schema.StateSucceeded, id, 2, at(time.Second), at(3*time.Second)
	s[1].State, s[1].Attempts, s[1].Started, s[1].Total = schema.StateRunning, 4, at(3*time.Second), 5
	s[1].Items = map[schema.State]int{schema.StateSucceeded: 2, schema.StateRunning: 1, schema.StateRetrying: 1}
	s[2].State, s[2].Reason = schema.StateRunning, "it waits until tomorrow"
	s[3].State, s[3].Reason = schema.StateSkipped, "no step before it failed"
	steps.view.Until, steps.view.Waiting = at(3*time.Hour), true
	var read map[string]any
	doJSON(t, hs, call{method: "GET", path: "/v1/runs/" + run.ID.String()}, 200, &read)
	clock := func(d time.Duration) string { return at(d).Format(timeFormat) }
	want := map[string]any{
		"state": "waiting", "workflow": "w", "deadline_at": clock(3 * time.Hour),
		"steps": []any{
			map[string]any{"name": "extract", "run_id": id.String(), "state": "succeeded", "attempts": 2.0, "started_at": clock(time.Second), "finished_at": clock(3 * time.Second)},
			map[string]any{
				"name": "transform", "after": []any{"extract"}, "state": "running", "attempts": 4.0, "started_at": clock(3 * time.Second),
				"items": map[string]any{"total": 5.0, "states": map[string]any{"succeeded": 2.0, "running": 1.0, "retrying": 1.0}},
			},
			map[string]any{"name": "rest", "after": []any{"transform"}, "state": "waiting", "reason": "it waits until tomorrow"},
			map[string]any{"name": "alert", "after": []any{"rest"}, "state": "skipped", "reason": "no step before it failed"},
		},
	}
	for field := range want {
		if diff := cmp.Diff(want[field], read[field]); diff != "" {
			t.Errorf("GET of the run: %s (-want +got):\n%s", field, diff)
		}
	}
	// A list has no steps: each would be read of its own.
	for _, path := range []string{"/v1/runs?from=2026-11-21T09:00:00Z&to=2026-11-21T10:00:00Z", "/v1/runs?from=2026-11-21T09:00:00Z&to=2026-11-21T10:00:00Z&job=w"} {
		var page struct{ Items []Run }
		doJSON(t, hs, call{method: "GET", path: path}, 200, &page)
		for _, r := range page.Items {
			if r.Workflow != "w" || r.Steps != nil || r.State != schema.StateRunning {
				t.Errorf("GET %s lists %+v, want the workflow run without steps", path, r)
			}
		}
	}
	b.mu.Lock()
	b.runs[run.ID].State = schema.StateSucceeded
	b.jobs.history[run.JobID] = []schema.RunID{run.ID}
	b.mu.Unlock()
	var page struct{ Items []Run }
	doJSON(t, hs, call{method: "GET", path: "/v1/workflows/w/runs?state=succeeded"}, 200, &page)
	if len(page.Items) != 1 || page.Items[0].ID != run.ID || page.Items[0].Steps != nil {
		t.Errorf("GET runs of the workflow lists %+v, want the run without steps", page.Items)
	}
	doProblem(t, hs, call{method: "GET", path: "/v1/workflows/w/runs?to=2026-11-21T10:00:00Z&from=2026-11-21T11:00:00Z"}, 422)
	// What is stored of the definition may be damaged: the run is shown all the same.
	b.mu.Lock()
	b.steps[run.ID] = nil
	b.jobs.byID[run.JobID].Current.Spec.Workflow.Definition = []byte("x")
	b.mu.Unlock()
	var damaged Run
	doJSON(t, hs, call{method: "GET", path: "/v1/runs/" + run.ID.String()}, 200, &damaged)
	if damaged.Fault == "" || damaged.Steps != nil {
		t.Errorf("a run whose definition is not understood is shown as %+v, want its fault", damaged)
	}
	var workflow Workflow
	doJSON(t, hs, call{method: "GET", path: "/v1/workflows/w"}, 200, &workflow)
	if workflow.Fault == "" || workflow.Steps != nil {
		t.Errorf("a workflow whose definition is not understood is shown as %+v, want its fault", workflow)
	}
	if p := doProblem(t, hs, call{method: "GET", path: "/v1/workflows/w/graph"}, 409); p.Kind() != "not-understood" {
		t.Errorf("its graph is answered %+v, want not-understood", p)
	}
}

// The one attempt of a workflow run says when it began, and how it ended.
func TestAttemptOfAWorkflowRun(t *testing.T) {
	id := schema.MakeEntryID(testNow, 3, 7)
	at := testNow.Add
	entry := schema.Entry{ID: id, Spec: schema.Spec{Tenant: "t", Nominal: testNow, Accepted: testNow.UnixMicro(), JobName: "w", Workflow: new(schema.WorkflowRun)}}
	for name, row := range map[string]struct {
		state schema.State
		rec   schema.Record
		want  string
	}{
		"under way": {
			schema.StateRunning,
			schema.Record{Outcome: schema.Began, Started: at(time.Millisecond), Finished: at(time.Millisecond)},
			`[{"number":1,"started_at":"2026-11-21T09:30:00.001Z"}]`,
		},
		"failed": {
			schema.StateFailed,
			schema.Record{Outcome: schema.Failed, Final: true, Started: at(time.Millisecond), Finished: at(time.Second), Error: `step "a" failed`},
			`[{"number":1,"started_at":"2026-11-21T09:30:00.001Z","finished_at":"2026-11-21T09:30:01.000Z","outcome":"failed","error":"step \"a\" failed"}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := runs.Run{ID: id, Entry: entry, State: row.state, Attempts: []schema.Attempt{{Run: id, Number: 1, Record: &row.rec}}}
			shown := runOf(&run, nil, testNow)
			text, err := json.Marshal(shown.Attempts)
			if err != nil || string(text) != row.want {
				t.Errorf("its attempts are %s, %v; want %s", text, err, row.want)
			}
			if shown.StartedAt.IsZero() || shown.LatenessMS == nil || *shown.LatenessMS != 1 || shown.FinishedAt.IsZero() != (row.state == schema.StateRunning) {
				t.Errorf("it started at %v, %v ms late, and finished at %v", shown.StartedAt, shown.LatenessMS, shown.FinishedAt)
			}
		})
	}
}

// A run of a step says whose it is. It is no job, and cannot be run again by itself.
func TestRunOfAStep(t *testing.T) {
	b := newStub()
	run := started(t, b, etl)
	hs := serve(t, b)
	add := func(step, item int, state schema.State, attempts ...schema.Attempt) schema.RunID {
		t.Helper()
		id := schema.MakeStepID(run.ID, step, item)
		e, err := schema.NewEntry(id, schema.Spec{
			Tenant: "default", Nominal: testNow, Accepted: testNow.UnixMicro(), Trigger: schema.TriggerDependency, Work: &schema.Work{NATS: &schema.NATSTarget{Subject: "a"}},
			Step: &schema.Step{Workflow: run.ID, Name: "transform", Deadline: testNow.Add(time.Hour)},
		}, nil, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.runs[id] = &runs.Run{ID: id, Entry: e, Current: e, State: state, Attempts: attempts}
		return id
	}
	attempt0 := func(rec schema.Record) schema.Attempt {
		rec.Finished = testNow
		return schema.Attempt{Number: 0, Record: &rec}
	}
	zero := 0
	for name, row := range map[string]struct {
		id     schema.RunID
		item   *int
		reason string
	}{
		"a step":      {add(0, 0, schema.StateSucceeded), nil, ""},
		"an item":     {add(1, 1, schema.StateFailed), &zero, ""},
		"skipped":     {add(2, 0, schema.StateSkipped, attempt0(schema.Record{Outcome: schema.Skipped, Reason: "by hand"})), nil, "by hand"},
		"not started": {add(3, 0, schema.StateFailed, attempt0(schema.Record{Outcome: schema.Failed, Final: true, Error: "its payload is too large"})), nil, "its payload is too large"},
	} {
		t.Run(name, func(t *testing.T) {
			path := "/v1/runs/" + row.id.String()
			var got Run
			doJSON(t, hs, call{method: "GET", path: path}, 200, &got)
			if got.WorkflowRunID != run.ID || got.Step != "transform" || !got.JobID.IsZero() || got.Reason != row.reason || !got.DeadlineAt.Equal(testNow.Add(time.Hour)) || got.Steps != nil {
				t.Errorf("it is shown as %+v, want the step of %s and the reason %q", got, run.ID, row.reason)
			}
			if diff := cmp.Diff(row.item, got.Item); diff != "" {
				t.Errorf("its item (-want +got):\n%s", diff)
			}
			if p := doProblem(t, hs, call{method: "POST", path: path + "/retry"}, 409); p.Kind() != "step" || !strings.Contains(p.Detail, run.ID.String()) {
				t.Errorf("a retry of it: %+v, want the workflow run to be retried", p)
			}
			for _, method := range []string{"GET", "DELETE"} {
				doProblem(t, hs, call{method: method, path: "/v1/jobs/" + row.id.String()}, 404)
			}
		})
	}
}

func TestWorkflowRunIsRunAgain(t *testing.T) {
	b := newStub()
	run := started(t, b, small)
	hs := serve(t, b)
	retry := call{method: "POST", path: "/v1/runs/" + run.ID.String() + "/retry", header: http.Header{keyHeader: {"k"}}}
	if p := doProblem(t, hs, retry, 409); p.Kind() != "not-finished" {
		t.Errorf("a retry of a run under way: %+v, want not-finished", p)
	}
	b.mu.Lock()
	b.runs[run.ID].State = schema.StateFailed
	b.mu.Unlock()
	var again, twice Run
	header := doJSON(t, hs, retry, 201, &again)
	if again.Origin != run.ID || again.Workflow != "w" || again.ID == run.ID || header.Get("Location") != "/v1/runs/"+again.ID.String() {
		t.Errorf("a retry answers %+v at %q, want a new run whose origin is %s", again, header.Get("Location"), run.ID)
	}
	if h := doJSON(t, hs, retry, 201, &twice); twice.ID != again.ID || h.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the same key gives %s, want %s", twice.ID, again.ID)
	}
}

func TestStepIsSkipped(t *testing.T) {
	b := newStub()
	run := started(t, b, etl)
	hs := serve(t, b)
	skip := func(id, step string) call {
		return call{method: "POST", path: "/v1/runs/" + id + "/steps/" + step + "/skip"}
	}
	for range 2 {
		var got Run
		doJSON(t, hs, skip(run.ID.String(), "rest"), 200, &got)
		if len(got.Steps) != 4 || got.Steps[2].State != schema.StateSkipped || got.Steps[2].Reason != "by hand" {
			t.Errorf("a skip answers the steps %+v, want rest skipped", got.Steps)
		}
	}
	b.begun(t, run.ID).view.Steps[0].State = schema.StateSucceeded
	var job Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &job)
	for name, row := range map[string]struct {
		call   call
		status int
		kind   string
	}{
		"one that has ended":  {skip(run.ID.String(), "extract"), 409, "finished"},
		"none":                {skip(run.ID.String(), "none"), 404, "no-step"},
		"no name":             {skip(run.ID.String(), "A%20b"), 422, "invalid"},
		"no run":              {skip("0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60", "extract"), 404, "not-found"},
		"no id":               {skip("12", "extract"), 422, "invalid"},
		"of no workflow":      {skip(job.ID.String(), "extract"), 409, "no-workflow"},
		"with a body":         {call{method: "POST", path: skip(run.ID.String(), "rest").path, body: `{"x":1}`}, 422, "invalid"},
		"of another tenant's": {call{method: "POST", path: skip(run.ID.String(), "rest").path, header: http.Header{tenantHeader: {"acme"}}}, 404, "not-found"},
	} {
		t.Run(name, func(t *testing.T) {
			if p := doProblem(t, hs, row.call, row.status); p.Kind() != row.kind {
				t.Errorf("%s = %+v, want %s", row.call.path, p, row.kind)
			}
		})
	}
}

// A viewer sees no values of headers, and nobody finds any in the audit log. Every change is noted
// once.
func TestWorkflowsHideSecretsAndAreNoted(t *testing.T) {
	b, o := newStub(), newAdminStub()
	hs := serve(t, b, o.desk)
	o.key("a/operator")
	o.key("a/viewer")
	ask := func(status int, role, method, path, body string) []byte {
		t.Helper()
		got, _, text := do(t, hs, call{method: method, path: path, body: body, header: bearer(secret("a/" + role))})
		if got != status {
			t.Fatalf("%s %s %s by a %s = %d %s, want %d", method, path, body, role, got, text, status)
		}
		return text
	}
	noted := func(want ...string) {
		t.Helper()
		got := said(t, o)
		if strings.Contains(got, "hush") || strings.Contains(got, "definition") {
			t.Errorf("a secret was noted:\n%s", got)
		}
		lines := strings.SplitAfter(got, "\n")
		if len(lines)-1 != len(want) {
			t.Fatalf("noted was\n%swant %d acts", got, len(want))
		}
		for i, w := range want {
			if !strings.HasPrefix(lines[i], "a operator-key "+w) {
				t.Errorf("noted was %q, want it to begin with %q", lines[i], w)
			}
		}
	}
	ask(403, "viewer", "PUT", "/v1/workflows/w", etl)
	ask(403, "viewer", "PUT", "/v1/workflows/w?dry_run=true", etl)
	noted()
	ask(200, "operator", "PUT", "/v1/workflows/w?dry_run=true", etl)
	noted()
	if text := ask(201, "operator", "PUT", "/v1/workflows/w", etl); !strings.Contains(string(text), "hush") {
		t.Errorf("PUT answers %s, want the value of the header: a change starts from what there is", text)
	}
	noted(`create workflow/w [null,{"tenant":"a","name":"w"`)
	if text := ask(200, "viewer", "GET", "/v1/workflows/w", ""); strings.Contains(string(text), "hush") || !strings.Contains(string(text), `"headers":{"k":"…"}`) {
		t.Errorf("a viewer reads %s, want no value of the header", text)
	}
	ask(200, "operator", "PUT", "/v1/workflows/w", small)
	noted(`update workflow/w [{"tenant":"a","name":"w"`)
	for _, act := range []string{"pause", "resume"} {
		ask(403, "viewer", "POST", "/v1/workflows/w/"+act, "")
		ask(200, "operator", "POST", "/v1/workflows/w/"+act, "")
		noted(act + " workflow/w [null,null] job ")
	}
	ask(403, "viewer", "POST", "/v1/workflows/w/trigger", "")
	var run Run
	if err := json.Unmarshal(ask(202, "operator", "POST", "/v1/workflows/w/trigger", `{"payload":"hush"}`), &run); err != nil {
		t.Fatal(err)
	}
	noted("trigger workflow/w [null,null] run " + run.ID.String())
	ask(403, "viewer", "POST", "/v1/runs/"+run.ID.String()+"/steps/a/skip", "")
	ask(200, "operator", "POST", "/v1/runs/"+run.ID.String()+"/steps/a/skip", "")
	noted("skip run/" + run.ID.String() + " [null,null] step a")
	b.mu.Lock()
	b.runs[run.ID].State = schema.StateFailed
	b.mu.Unlock()
	ask(201, "operator", "POST", "/v1/runs/"+run.ID.String()+"/retry", "")
	noted("retry run/" + run.ID.String() + " [null,null] run ")
	ask(200, "operator", "DELETE", "/v1/workflows/w", "")
	noted("cancel workflow/w [null,null] job ")
	for _, path := range []string{"/v1/workflows", "/v1/workflows/w", "/v1/workflows/w/graph", "/v1/workflows/w/runs", "/v1/runs/" + run.ID.String() + "/graph"} {
		if got, _, text := do(t, hs, call{method: "GET", path: path, header: bearer(secret("a/viewer"))}); got >= 300 && got != 404 {
			t.Errorf("a viewer asks for %s and is answered %d %s", path, got, text)
		}
	}
}

// What starts workflow runs is taken out of the quota of runs.
func TestWorkflowRunsAreHeldToTheQuota(t *testing.T) {
	b, o := newStub(), newAdminStub()
	run := started(t, b, small)
	b.mu.Lock()
	b.runs[run.ID].State = schema.StateFailed
	b.mu.Unlock()
	hs := serve(t, b, o.deps)
	var asked []int
	o.admit = func(_ string, bytes int) error {
		asked = append(asked, bytes)
		return nil
	}
	doJSON(t, hs, call{method: "POST", path: "/v1/workflows/w/trigger", body: `{"payload":"1234"}`}, 202, nil)
	doJSON(t, hs, call{method: "POST", path: "/v1/runs/" + run.ID.String() + "/retry"}, 201, nil)
	if diff := cmp.Diff([]int{6, 0}, asked); diff != "" {
		t.Errorf("bytes taken out of the quota (-want +got):\n%s", diff)
	}
	o.jobs = 1
	doProblem(t, hs, call{method: "PUT", path: "/v1/workflows/another", body: small}, 429)
	doJSON(t, hs, call{method: "PUT", path: "/v1/workflows/w", body: etl}, 200, nil)
}

func TestClientCallsOfWorkflows(t *testing.T) {
	b := newStub()
	c := newClient(t, serve(t, b).URL)
	ctx := t.Context()
	if w, err := c.CheckWorkflow(ctx, "w", json.RawMessage(etl)); err != nil || w.Generation != 0 || len(w.Steps) != 4 {
		t.Errorf("CheckWorkflow = %+v, %v; want what would be", w, err)
	}
	w, created, err := c.PutWorkflow(ctx, "w", json.RawMessage(etl))
	if err != nil || !created || w.Name != "w" {
		t.Fatalf("PutWorkflow = %+v, created %t, %v", w, created, err)
	}
	if _, created, err := c.PutWorkflow(ctx, "w", json.RawMessage(etl)); err != nil || created {
		t.Errorf("PutWorkflow again = created %t, %v; want it replaced", created, err)
	}
	if got, err := c.Workflow(ctx, "w"); err != nil || got.ID != w.ID || len(got.Steps) != 4 {
		t.Errorf("Workflow = %+v, %v", got, err)
	}
	if got, err := c.PauseWorkflow(ctx, "w"); err != nil || got.State != "paused" {
		t.Errorf("PauseWorkflow = %+v, %v", got, err)
	}
	if got, err := c.ResumeWorkflow(ctx, "w"); err != nil || got.State != "active" {
		t.Errorf("ResumeWorkflow = %+v, %v", got, err)
	}
	run, err := c.TriggerWorkflow(ctx, "w", json.RawMessage(`{"a":1}`), "k")
	if twice, terr := c.TriggerWorkflow(ctx, "w", json.RawMessage(`{"a":1}`), "k"); err != nil || terr != nil || string(run.Payload) != `{"a":1}` || twice.ID != run.ID {
		t.Errorf("TriggerWorkflow with one key = %s, %v and %s, %v; want one run", run.ID, err, twice.ID, terr)
	}
	if run, err := c.TriggerWorkflow(ctx, "w", nil, ""); err != nil || string(run.Payload) != `{"date":1}` {
		t.Errorf("TriggerWorkflow without a payload = %s, %v; want the workflow's", run.Payload, err)
	}
	if text, err := c.WorkflowGraph(ctx, "w", "mermaid"); err != nil || !strings.HasPrefix(string(text), "flowchart") {
		t.Errorf("WorkflowGraph = %s, %v", text, err)
	}
	if text, err := c.RunGraph(ctx, run.ID, "dot"); err != nil || !strings.HasPrefix(string(text), "digraph") {
		t.Errorf("RunGraph = %s, %v", text, err)
	}
	if got, err := c.SkipStep(ctx, run.ID, "rest"); err != nil || got.Steps[2].State != schema.StateSkipped {
		t.Errorf("SkipStep = %+v, %v", got, err)
	}
	if next, err := c.WorkflowUpcoming(ctx, "w", time.Time{}, 2); err != nil || len(next) != 2 {
		t.Errorf("WorkflowUpcoming = %v, %v; want two", next, err)
	}
	first := b.ends(w.ID, testNow.Add(-time.Hour), schema.StateSucceeded)
	var got []string
	for r, err := range c.WorkflowRuns(ctx, "w", JobRunQuery{State: schema.StateSucceeded}) {
		got = append(got, fmt.Sprint(r.ID == first, err))
	}
	if diff := cmp.Diff([]string{"true <nil>"}, got); diff != "" {
		t.Errorf("WorkflowRuns (-want +got):\n%s", diff)
	}
	got = nil
	for w, err := range c.Workflows(ctx, JobQuery{NamePrefix: "w", Limit: 1}) {
		got = append(got, fmt.Sprint(w.Name, err))
	}
	if diff := cmp.Diff([]string{"w<nil>"}, got); diff != "" {
		t.Errorf("Workflows (-want +got):\n%s", diff)
	}
	if got, err := c.DeleteWorkflow(ctx, "w"); err != nil || got.State != "cancelled" {
		t.Errorf("DeleteWorkflow = %+v, %v", got, err)
	}
}
