package client

import (
	"slices"
	"strings"
	"testing"
	"time"

	sdk "carillon.dev/carillon/bucketer/client"
	"carillon.dev/carillon/cmd/carillon/clitest"
)

// TestGoProgram: what a Go program builds with bucketer/client runs on a node.
func TestGoProgram(t *testing.T) {
	api, s := clitest.StartNode(t), newServices(t)
	c, err := sdk.New(api)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	if _, err := c.Tasks.Put(ctx, "load", sdk.HTTP(s.origin+"/load").Timeout(10*time.Second), sdk.TaskSettings{}); err != nil {
		t.Fatalf("put the task: %v", err)
	}
	w := sdk.NewWorkflow("etl").On("file.uploaded", sdk.Filter("event.region == 'eu'")).Deadline(time.Hour)
	extract := w.Step("extract", sdk.HTTP(s.origin+"/extract")).Payload(map[string]any{"region": sdk.Input("/region")})
	transform := w.Step("transform", sdk.HTTP(s.origin+"/transform")).After(extract).
		ForEach(extract.Output("/files"), sdk.MaxConcurrent(2)).
		Payload(map[string]any{"file": sdk.Item(""), "number": sdk.Index()})
	approved := w.Step("approved", sdk.WaitForEvent("approved", sdk.Filter("event.by != ''"), sdk.WaitDeadline(time.Minute))).After(extract)
	load := w.Step("load", sdk.Task("load")).After(transform, approved).
		Payload(map[string]any{"parts": transform.Output(""), "approval": approved.Output("")})
	w.Step("alert", sdk.HTTP(s.origin+"/alert")).After(load).When(sdk.AnyFailed)
	if _, err := c.Workflows.Put(ctx, w); err != nil {
		t.Fatalf("put the workflow: %v", err)
	}

	// waiting returns the run that an event has started, once it waits for the approval.
	waiting := func(event sdk.EventID) (run sdk.Run) {
		t.Helper()
		clitest.Await(t, "the event starts a run, which waits for the approval", func() bool {
			var err error
			for run, err = range c.Events.Runs(ctx, event) {
				if err != nil {
					t.Fatalf("runs of the event: %v", err)
				}
			}
			if run.ID.IsZero() {
				return false
			}
			if run, err = c.Runs.Get(ctx, run.ID); err != nil {
				t.Fatalf("get the run: %v", err)
			}
			return slices.ContainsFunc(run.Steps, func(s sdk.RunStep) bool { return s.Name == "approved" && s.State == sdk.Waiting })
		})
		return run
	}
	elsewhere, err := c.Events.Publish(ctx, "file.uploaded", map[string]string{"region": "us"})
	if err != nil {
		t.Fatalf("publish: %v", err)
	}
	uploaded, err := c.Events.Publish(ctx, "file.uploaded", map[string]string{"region": "eu"})
	if err != nil {
		t.Fatalf("publish: %v", err)
	}
	run := waiting(uploaded)
	if _, err := c.Events.Publish(ctx, "approved", map[string]string{"by": "somebody"}); err != nil {
		t.Fatalf("publish: %v", err)
	}
	if run, err = c.Runs.Wait(ctx, run.ID); err != nil || run.State != sdk.Succeeded || run.Trigger != "event" || run.Event.ID != uploaded {
		t.Fatalf("Wait = %+v, %v; want a success that the event started", run, err)
	}
	if alert := run.Steps[4]; alert.Name != "alert" || alert.State != sdk.Skipped {
		t.Errorf("the last step is %+v, want that it was skipped", alert)
	}
	out, err := c.Runs.Output(ctx, run.Steps[3].RunID)
	if err != nil || string(out.Text) != "{\"rows\":3600}\n" || out.Attempt != 1 {
		t.Errorf("Output of load = %q of attempt %d, %v; want what the service said", out.Text, out.Attempt, err)
	}
	if calls := s.called("/load"); len(calls) != 1 || !strings.Contains(calls[0], `"by":"somebody"`) {
		t.Errorf("load was called with %q, want once, with who approved", calls)
	}

	// A second one is approved by nobody: its wait is skipped.
	if uploaded, err = c.Events.Publish(ctx, "file.uploaded", map[string]string{"region": "eu"}); err != nil {
		t.Fatalf("publish: %v", err)
	}
	run = waiting(uploaded)
	if skipped, err := c.Runs.SkipStep(ctx, run.ID, "approved"); err != nil || skipped.ID != run.ID {
		t.Errorf("SkipStep = %+v, %v; want the run", skipped, err)
	}
	if run, err = c.Runs.Wait(ctx, run.ID); err != nil || run.State != sdk.Succeeded {
		t.Errorf("Wait = %+v, %v; want a success", run, err)
	}
	for run, err := range c.Events.Runs(ctx, elsewhere) {
		t.Errorf("the event of another region started %+v, %v", run, err)
	}
}
