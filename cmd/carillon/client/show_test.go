package client

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

func TestWhatStartsARunIsSaid(t *testing.T) {
	on := &schema.EventTrigger{Event: "file.uploaded"}
	for want, j := range map[string]httpapi.Job{
		"once":             {},
		"on file.uploaded": {On: on},
		"after a, b":       {After: &httpapi.JobAfter{Jobs: []string{"a", "b"}}},
		"after a, b, c, …": {After: &httpapi.JobAfter{Jobs: []string{"a", "b", "c", "d"}}},
		"every 15m":        {Schedule: httpapi.JobSchedule{Every: schema.Duration(15 * time.Minute)}},
	} {
		if got := scheduleOf(&j); got != want {
			t.Errorf("scheduleOf = %q, want %q", got, want)
		}
	}
	for want, w := range map[string]httpapi.Workflow{"when triggered": {}, "on file.uploaded": {On: on}} {
		if got := workflowSchedule(&w); got != want {
			t.Errorf("workflowSchedule = %q, want %q", got, want)
		}
	}
}

// A run that was put off says when it is tried again.
func TestRunsSayWhenTheyAreTriedAgain(t *testing.T) {
	run := httpapi.Run{DeferredUntil: httpapi.Time{Time: time.Date(2030, 1, 1, 10, 0, 0, 0, time.UTC)}, Waiting: &httpapi.Waiting{Reason: "rate: it is used up until then"}}
	var b strings.Builder
	if err := writeRun(&b, &run); err != nil {
		t.Fatal(err)
	}
	if want := "tried again  2030-01-01T10:00:00.000Z"; !strings.Contains(b.String(), want) {
		t.Errorf("the run is shown as\n%s\nwant %q in it", b.String(), want)
	}
}

// Lists of runs say why one waits, and leave the column out if none does.
func TestListsSayWhyRunsWait(t *testing.T) {
	waits := httpapi.Run{Waiting: &httpapi.Waiting{Reason: "rate: the rate of its task is used up until then"}}
	for name, list := range map[string]struct {
		head []string
		row  func(*httpapi.Run) []string
	}{"run list": {runHead, runRow}, "job runs": {jobRunHead, jobRunRow}} {
		for _, row := range []struct {
			run  httpapi.Run
			want bool
		}{{waits, true}, {httpapi.Run{}, false}} {
			cmd, r, out := &cobra.Command{}, &cli.Remote{}, &strings.Builder{}
			cmd.SetOut(out)
			cmd.SetErr(out)
			items := func(yield func(httpapi.Run, error) bool) { yield(row.run, nil) }
			if err := cli.List(cmd, r, "list", items, 1, list.head, list.row, waitsColumn); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); strings.Contains(got, waitsColumn) != row.want || strings.Contains(got, "the rate of its task") != row.want {
				t.Errorf("%s shows\n%s\nwant the column of why it waits: %v", name, got, row.want)
			}
		}
	}
}

// A list of runs says what each is one of, and what is known of why it did not succeed.
func TestRunsSayWhoseTheyAreAndWhatFailed(t *testing.T) {
	id, err := schema.ParseEntryID("01932f1e-5d80-8003-8d2f-5a1b9c3e7f60")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 2*errorShown)
	for name, row := range map[string]struct {
		run          httpapi.Run
		owner, fault string
	}{
		"one-off":       {httpapi.Run{ID: id, JobID: schema.JobOf(id)}, "", ""},
		"of a job":      {httpapi.Run{ID: id, JobName: "nightly", Attempts: []httpapi.Attempt{{Error: "first"}, {Error: "connection refused"}}}, "nightly", "connection refused"},
		"long":          {httpapi.Run{JobName: "nightly", Attempts: []httpapi.Attempt{{Error: long}}}, "nightly", long[:errorShown] + "…"},
		"succeeded":     {httpapi.Run{JobName: "nightly", Attempts: []httpapi.Attempt{{Error: "first"}, {}}}, "nightly", ""},
		"missed":        {httpapi.Run{JobName: "poll", Missed: &httpapi.Missed{Reason: "run_latest"}}, "poll", "run_latest"},
		"cancelled":     {httpapi.Run{JobName: "poll", CancelReason: "concurrency"}, "poll", "concurrency"},
		"of a workflow": {httpapi.Run{Workflow: "etl"}, "etl", ""},
		"of a step":     {httpapi.Run{Step: "load", WorkflowRunID: id, Reason: "its condition was not met"}, "load of " + id.String(), "its condition was not met"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ownerOf(&row.run); got != row.owner {
				t.Errorf("ownerOf = %q, want %q", got, row.owner)
			}
			if got := failureOf(&row.run); got != row.fault {
				t.Errorf("failureOf = %q, want %q", got, row.fault)
			}
			if cells := runRow(&row.run); len(cells) != len(runHead) {
				t.Errorf("a row has %d cells, the head %d", len(cells), len(runHead))
			}
		})
	}
}
