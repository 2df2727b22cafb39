package main

import (
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/schema"
)

// The demo of workflows ends by itself, with success, and leaves nothing.
func TestDemoOfWorkflows(t *testing.T) {
	t.Parallel()
	c := startChild(t, "", "dev", "--demo-workflows", "--port", "0")
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("the demo ends with %v\n%s%s", err, c.stdout, c.stderr)
	}
	if left, err := os.ReadDir(c.temp); err != nil || len(left) > 0 {
		t.Errorf("the demo leaves %v (%v), want nothing", left, err)
	}
	out := c.stdout.String()
	last := 0
	for _, want := range []string{
		"created etl\n", "created approval\n", "created saga\n",
		`$ carillon workflow run etl --payload '{"date": "2026-11-21"}' --wait`, "  transform  succeeded 8/8", "  run  succeeded",
		`$ carillon event publish approved '{"version": "1.4.0"}'`, "  approval  waiting", "  publish  succeeded", "  run  succeeded",
		"  car  failed", "  undo_flight  succeeded", "  run  failed", "carillon: run ", "Each ended as it should",
	} {
		i := strings.Index(out[last:], want)
		if i < 0 {
			t.Fatalf("the demo prints\n%s\nwant %q after what is before it", out, want)
		}
		last += i + len(want)
	}
	if log := c.stderr.String(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "carillon: ") {
		t.Errorf("the demo logs\n%s\nwant no error", log)
	}
}

// In a terminal the steps of each run are one tree, which is drawn anew.
func TestDemoOfWorkflowsInATerminal(t *testing.T) {
	t.Parallel()
	user, program := clitest.OpenTerminal(t)
	screen := clitest.NewScreen()
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(screen, user) // it ends when the terminal is closed
	}()
	c := startChildOn(t, program, "", "dev", "--demo-workflows", "--port", "0")
	screen.Await(t, regexp.MustCompile(`\x1b\[6A(?s:.*)└─ load +pending(?s:.*)└─ load +succeeded`))
	screen.Await(t, regexp.MustCompile(`├─ approval +waiting|└─ approval +waiting`))
	screen.Await(t, regexp.MustCompile(`Each ended as it should`))
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("the demo ends with %v\n%s%s", err, screen, c.stderr)
	}
	_ = program.Close()
	_ = user.Close()
	<-read
}

// A demo that is interrupted says nothing more, and ends well.
func TestCutDemoOfWorkflows(t *testing.T) {
	t.Parallel()
	c := startChild(t, "", "dev", "--demo-workflows", "--port", "0")
	c.stdout.Await(t, regexp.MustCompile(`approval  waiting`))
	c.end(t, syscall.SIGINT)
	if out := c.stdout.String(); strings.Contains(out, "saga --payload") || strings.Contains(out, "the run goes on") || strings.Contains(out, "as it should") {
		t.Errorf("a demo that is cut prints\n%s", out)
	}
}

// A demo whose workflows end otherwise fails, and says how they ended.
func TestDemoOfWorkflowsThatFails(t *testing.T) {
	t.Setenv("CARILLON_EXECUTOR_ALLOW_CIDRS", "192.0.2.0/24") // no step may call the demo
	r := clitest.Run(t.Context(), "", "dev", "--demo-workflows", "--port", "0")
	if r.Code != 1 || strings.Contains(r.Stdout, "as it should") {
		t.Errorf("the demo exits %d and prints\n%s\nwant 1", r.Code, r.Stdout)
	}
	for _, want := range []string{
		"workflow etl: its run ", "its step extract is failed, not succeeded", "workflow approval: its run ", "workflow saga: its step flight is failed, not succeeded",
	} {
		if !strings.Contains(r.Stderr, want) {
			t.Errorf("the demo says\n%s\nwant %q", r.Stderr, want)
		}
	}
}

func TestFaultOfAFlow(t *testing.T) {
	f := flow{state: schema.StateFailed, steps: map[string]schema.State{"a": schema.StateFailed, "b": schema.StateSucceeded}}
	step := func(name string, state schema.State) httpapi.RunStep {
		return httpapi.RunStep{Name: name, State: state}
	}
	for name, row := range map[string]struct {
		run  httpapi.Run
		want string // "" = none
	}{
		"as it should":     {httpapi.Run{State: "failed", Steps: []httpapi.RunStep{step("a", "failed"), step("b", "succeeded")}}, ""},
		"another end":      {httpapi.Run{State: "succeeded", Steps: []httpapi.RunStep{step("a", "failed"), step("b", "succeeded")}}, "is succeeded, not failed"},
		"another step":     {httpapi.Run{State: "failed", Steps: []httpapi.RunStep{step("a", "failed"), step("b", "skipped")}}, "its step b is skipped, not succeeded"},
		"a step too few":   {httpapi.Run{State: "failed", Steps: []httpapi.RunStep{step("a", "failed")}}, "has 1 steps, not 2"},
		"a step that came": {httpapi.Run{State: "failed", Steps: []httpapi.RunStep{step("a", "failed"), step("c", "succeeded")}}, "its step c is succeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			err := f.fault(&row.run)
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("fault = %v, want %q", err, row.want)
			}
		})
	}
}
