package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/cmd/carillon/client"
	"carillon.dev/carillon/deploy/examples"
	"carillon.dev/carillon/schema"
)

const (
	flowPause = 300 * time.Millisecond // of each answer to a step
	flowThink = 2 * time.Second        // between the begin of the wait and the event that ends it
	flowLook  = 100 * time.Millisecond // between two looks whether a run waits
	flowLimit = 2 * time.Minute        // of the demo as a whole, which takes about ten seconds
)

// flowWaits is the state of a run of which nothing but waits is under way.
const flowWaits schema.State = "waiting"

// flow is a workflow of the demo, and how its run is to end.
type flow struct {
	name, payload string
	about         string
	approval      string // the body of the event that its run waits for, "" = it waits for none
	state         schema.State
	steps         map[string]schema.State
}

// flows are the workflows of the demo, in the order in which they run.
var flows = []flow{
	{
		name: "etl", payload: `{"date": "2026-11-21"}`, state: schema.StateSucceeded,
		about: "Extract, transform each file by itself, load all of them together.",
		steps: map[string]schema.State{
			"extract": schema.StateSucceeded, "transform": schema.StateSucceeded, "check": schema.StateSucceeded,
			"load": schema.StateSucceeded, "alert": schema.StateSkipped,
		},
	},
	{
		name: "approval", payload: `{"version": "1.4.0"}`, state: schema.StateSucceeded,
		about:    "A release waits to be approved. Two seconds into the wait the demo publishes the event that does it:",
		approval: `{"version": "1.4.0"}`,
		steps:    map[string]schema.State{"draft": schema.StateSucceeded, "approval": schema.StateSucceeded, "publish": schema.StateSucceeded},
	},
	{
		name: "saga", payload: `{"trip": 8, "fail": "car"}`, state: schema.StateFailed,
		about: "There is no car left. So hotel and flight are undone, and the run fails: that is how it should end.",
		steps: map[string]schema.State{
			"flight": schema.StateSucceeded, "hotel": schema.StateSucceeded, "car": schema.StateFailed,
			"undo_hotel": schema.StateSucceeded, "undo_flight": schema.StateSucceeded,
		},
	},
}

// flowDemo runs workflows by the commands with which a user runs them.
type flowDemo struct {
	out    io.Writer
	api    string
	client *httpapi.Client
}

// runWorkflowDemo applies the workflows of deploy/examples, receives the calls of their steps, and
// shows one run of each until it ends. It returns nil if each ended as it should.
func runWorkflowDemo(ctx context.Context, out io.Writer, api string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, flowLimit, fmt.Errorf("it has not ended within %v", flowLimit))
	defer cancel()
	origin, stop, err := receive(ctx, &examples.Services{Pause: flowPause})
	if err != nil {
		return err
	}
	defer stop()
	asks, err := httpapi.NewClient((&cli.Remote{}).ClientConfig(api))
	if err != nil {
		return err
	}
	defer asks.Close()
	d := &flowDemo{out: out, api: api, client: asks}
	if err := d.apply(ctx, origin); err != nil {
		return err
	}
	var faults []error
	for i := range flows {
		if err := d.run(ctx, &flows[i]); err != nil {
			faults = append(faults, fmt.Errorf("workflow %s: %w", flows[i].name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\n  Each ended as it should: etl and approval succeeded, saga failed and was undone.\n"+
		"  README.md, section Workflows, has the same commands for `carillon dev`.\n")
	return err
}

// apply applies all workflows, whose steps call origin.
func (d *flowDemo) apply(ctx context.Context, origin string) error {
	var files []string
	for i := range flows {
		text, err := examples.Workflow(flows[i].name, origin)
		if err != nil {
			return err
		}
		files = append(files, text)
	}
	if _, err := fmt.Fprintf(d.out, "\n  Three workflows of deploy/examples. Their steps are HTTP calls to this process.\n\n"+
		"  $ carillon workflow apply -f deploy/examples/etl.yaml …\n"); err != nil {
		return err
	}
	return d.command(ctx, strings.Join(files, "---\n"), "workflow", "apply", "-f", "-")
}

// run runs a workflow, shows its steps until it ends, and checks how it ended.
func (d *flowDemo) run(ctx context.Context, f *flow) error {
	publish := ""
	if f.approval != "" {
		publish = fmt.Sprintf("  $ carillon event publish approved '%s'\n", f.approval)
	}
	if _, err := fmt.Fprintf(d.out, "\n  %s\n%s\n  $ carillon workflow run %s --payload '%s' --wait\n", f.about, publish, f.name, f.payload); err != nil {
		return err
	}
	waits, over := context.WithCancel(ctx)
	approved := make(chan error, 1)
	go func() { approved <- d.approve(waits, f) }()
	// That the run failed is no error here: whether it should is asked below.
	_ = d.command(ctx, "", "workflow", "run", f.name, "--payload", f.payload, "--wait")
	over() // an approval that has not come by now is of no use
	notApproved := <-approved
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	run, found, err := d.triggered(ctx, f.name)
	switch {
	case err != nil:
		return err
	case !found:
		return errors.New("it has no run")
	}
	if err := f.fault(&run); err != nil {
		return errors.Join(err, notApproved)
	}
	return nil
}

// approve publishes the event that the run of f waits for, a while after its wait began.
func (d *flowDemo) approve(ctx context.Context, f *flow) error {
	if f.approval == "" {
		return nil
	}
	tick := time.NewTicker(flowLook)
	defer tick.Stop()
	for {
		run, found, err := d.triggered(ctx, f.name)
		if err != nil {
			return err
		}
		if found && run.State == flowWaits {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	think := time.NewTimer(flowThink)
	defer think.Stop()
	select {
	case <-think.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err := d.client.PublishEvent(ctx, "approved", json.RawMessage(f.approval), uuid.NewString())
	return err
}

// triggered returns the latest run of a workflow that was asked for, with its steps; false if there is
// none.
func (d *flowDemo) triggered(ctx context.Context, name string) (httpapi.Run, bool, error) {
	for run, err := range d.client.WorkflowRuns(ctx, name, httpapi.JobRunQuery{}) {
		if err != nil {
			return httpapi.Run{}, false, fmt.Errorf("list runs: %w", err)
		}
		if run.Trigger == schema.TriggerManual {
			run, err = d.client.Run(ctx, run.ID)
			return run, err == nil, err
		}
	}
	return httpapi.Run{}, false, nil
}

// command runs a command of this program against the demo's node. It shows an error, and returns it.
func (d *flowDemo) command(ctx context.Context, stdin string, args ...string) error {
	cmd := cli.Program(version, client.Commands()...)
	cmd.SetArgs(append(args, "--api", d.api))
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(d.out)
	cmd.SetErr(d.out)
	err := cmd.ExecuteContext(ctx)
	if err != nil && ctx.Err() == nil {
		cli.Report(d.out, err)
	}
	return err
}

// fault says in which way a run did not end as that of f should, nil if it did.
func (f *flow) fault(run *httpapi.Run) error {
	var faults []error
	if run.State != f.state {
		faults = append(faults, fmt.Errorf("its run %s is %s, not %s", run.ID, run.State, f.state))
	}
	if len(run.Steps) != len(f.steps) {
		faults = append(faults, fmt.Errorf("its run %s has %d steps, not %d", run.ID, len(run.Steps), len(f.steps)))
	}
	for i := range run.Steps {
		if s := &run.Steps[i]; s.State != f.steps[s.Name] {
			faults = append(faults, fmt.Errorf("its step %s is %s, not %s", s.Name, s.State, f.steps[s.Name]))
		}
	}
	return errors.Join(faults...)
}
