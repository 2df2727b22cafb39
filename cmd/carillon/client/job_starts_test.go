package client

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/schema"
)

// Flags say which events start a job, and its runs come from them.
func TestJobOnEventsIsCreated(t *testing.T) {
	api := clitest.StartNode(t)
	job := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, "job", "create", "--api", api, "--subject", "work.ingest", "--name", "ingest",
		"--on", "file.uploaded", "--filter", "event.region == 'eu'", "--delay", "5s", "--concurrency", "2", "-o", "json").Stdout)
	want := &schema.EventTrigger{Event: "file.uploaded", Filter: "event.region == 'eu'", Delay: schema.Duration(5 * time.Second)}
	if diff := cmp.Diff(want, job.On); diff != "" || job.Name != "ingest" || job.Concurrency == nil {
		t.Errorf("job create answers %+v, on (-want +got):\n%s", job, diff)
	}
	if list := clitest.Succeed(t, "job", "list", "--api", api).Stdout; !strings.Contains(list, "on file.uploaded") {
		t.Errorf("job list does not say what starts the job:\n%s", list)
	}
	if r := clitest.Run(t.Context(), "", "job", "create", "--api", api, "--subject", "a", "--on", "e", "--filter", "event."); r.Code != 1 || !strings.Contains(r.Stderr, "body.on.filter") {
		t.Errorf("job create with a filter that is none exits %d with %q, want 1 and the fault", r.Code, r.Stderr)
	}
}

// On a whole node: a job runs after another; a one-off job waits for one, is stuck, and is skipped.
func TestJobsRunAfterOthersAndAreShown(t *testing.T) {
	api := clitest.StartNode(t)
	sink := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer sink.Close()
	create := func(flags ...string) httpapi.Job {
		t.Helper()
		return clitest.Decode[httpapi.Job](t, clitest.Succeed(t, append([]string{"job", "create", "--api", api, "--url", sink.URL, "-o", "json"}, flags...)...).Stdout)
	}
	create("--name", "extract", "--every", "24h")
	load := create("--name", "load", "--after", "extract", "--when", "all_done", "--after-deadline", "6h", "--concurrency", "1")
	want := &httpapi.JobAfter{Jobs: []string{"extract"}, When: "all_done", Deadline: schema.Duration(6 * time.Hour)}
	if diff := cmp.Diff(want, load.After); diff != "" || load.Concurrency == nil {
		t.Errorf("job create answers %+v, after (-want +got):\n%s", load, diff)
	}
	if shown := clitest.Succeed(t, "job", "get", "--api", api, "load").Stdout; !strings.Contains(shown, "after extract") {
		t.Errorf("job get does not say what starts the job:\n%s", shown)
	}
	clitest.Succeed(t, "job", "trigger", "--api", api, "extract")
	clitest.Await(t, "a run of load after that of extract", func() bool {
		return strings.Contains(clitest.Succeed(t, "job", "runs", "--api", api, "load", "--state", "succeeded").Stdout, "succeeded")
	})

	first := create("--in", "1h")
	then := create("--after", first.ID.String(), "--after-deadline", "1s")
	id := then.ID.String()
	shows := func(parts ...string) {
		t.Helper()
		shown := clitest.Succeed(t, "run", "get", "--api", api, id).Stdout
		for _, part := range parts {
			if !strings.Contains(shown, part) {
				t.Errorf("run get has no %q:\n%s", part, shown)
			}
		}
	}
	awaitRun(t, api, id, "stuck")
	shows("stuck", "dependency", "jobs: it runs after jobs that have not ended: "+first.ID.String(), "deadline")
	list := clitest.Succeed(t, "run", "list", "--api", api, "--stuck").Stdout
	if !strings.Contains(list, id) || !strings.Contains(list, first.ID.String()) {
		t.Errorf("run list --stuck does not show the run and what it waits for:\n%s", list)
	}
	clitest.Succeed(t, "job", "cancel", "--api", api, first.ID.String())
	awaitRun(t, api, id, schema.StateSkipped)
	shows("skipped", "reason", "was cancelled", "finished")
	if list := clitest.Succeed(t, "run", "list", "--api", api, "--stuck").Stdout; strings.Contains(list, id) {
		t.Errorf("run list --stuck shows a run that was skipped:\n%s", list)
	}
}
