package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/deploy/examples"
	"carillon.dev/carillon/schema"
)

// services are what the example workflows call.
type services struct {
	examples.Services
	origin string
}

func newServices(t *testing.T) *services {
	t.Helper()
	s := new(services)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.origin = server.URL
	return s
}

// called returns the bodies of the calls to a path, sorted.
func (s *services) called(path string) []string {
	var found []string
	for _, call := range s.Calls() {
		if call.Path == path {
			found = append(found, call.Body)
		}
	}
	slices.Sort(found)
	return found
}

// example returns a file with an example of deploy/examples that calls s.
func (s *services) example(t *testing.T, name string) string {
	t.Helper()
	text, err := examples.Workflow(name, s.origin)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name+".yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// states returns how the steps of a run stand.
func states(run *httpapi.Run) map[string]schema.State {
	got := make(map[string]schema.State)
	for i := range run.Steps {
		got[run.Steps[i].Name] = run.Steps[i].State
	}
	return got
}

// getRun reads a run by the command line.
func getRun(t *testing.T, api, id string) httpapi.Run {
	t.Helper()
	return clitest.Decode[httpapi.Run](t, clitest.Succeed(t, "run", "get", "--api", api, id, "-o", "json").Stdout)
}

func TestExampleETL(t *testing.T) {
	api, s := clitest.StartNode(t), newServices(t)
	file := s.example(t, "etl")
	dry := clitest.Succeed(t, "workflow", "apply", "--api", api, "-f", file, "--dry-run")
	if !strings.HasPrefix(dry.Stdout, "would be created etl\n") || !strings.Contains(dry.Stdout, "└─ alert") {
		t.Errorf("apply --dry-run prints\n%s\nwant the graph", dry.Stdout)
	}
	if listed := clitest.Succeed(t, "workflow", "list", "--api", api, "-o", "json").Stdout; listed != "" {
		t.Errorf("apply --dry-run made %s", listed)
	}
	for _, want := range []string{"created etl\n", "applied etl\n"} {
		if got := clitest.Succeed(t, "workflow", "apply", "--api", api, "-f", file).Stdout; got != want {
			t.Errorf("apply prints %q, want %q", got, want)
		}
	}
	if shown := clitest.Succeed(t, "workflow", "show", "--api", api, "etl").Stdout; !strings.Contains(shown, "0 2 * * * Europe/Berlin") || !strings.Contains(shown, "└─ alert") {
		t.Errorf("show prints\n%s", shown)
	}
	for format, want := range map[string]string{"mermaid": "flowchart TD\n", "dot": "digraph", "json": `{"nodes":`, "tree": "extract         http\n"} {
		if shown := clitest.Succeed(t, "workflow", "show", "--api", api, "etl", "--format", format).Stdout; !strings.HasPrefix(shown, want) {
			t.Errorf("show --format %s prints\n%s", format, shown)
		}
	}
	r := clitest.Succeed(t, "workflow", "run", "--api", api, "etl", "--payload", `{"date":"2026-11-21"}`, "--wait")
	id := strings.TrimSuffix(strings.TrimPrefix(strings.SplitAfter(r.Stdout, "\n")[0], "etl run "), "\n")
	if !strings.Contains(r.Stdout, "  transform  succeeded 8/8") || !strings.Contains(r.Stdout, "  run  succeeded") {
		t.Errorf("run --wait prints\n%s\nwant each step and the end", r.Stdout)
	}
	run := getRun(t, api, id)
	want := map[string]schema.State{
		"extract": schema.StateSucceeded, "transform": schema.StateSucceeded, "check": schema.StateSucceeded, "load": schema.StateSucceeded, "alert": schema.StateSkipped,
	}
	if diff := cmp.Diff(want, states(&run)); diff != "" || run.State != schema.StateSucceeded || run.Workflow != "etl" {
		t.Errorf("the run has %s, and its steps (-want +got):\n%s", run.State, diff)
	}
	if got := s.called("/extract"); !slices.Equal(got, []string{`{"date":"2026-11-21"}`}) {
		t.Errorf("extract was called with %q, want the date of the run once", got)
	}
	if got := s.called("/transform"); len(got) != 8 || got[0] != `{"file":"part-0.csv","number":0}` || got[7] != `{"file":"part-7.csv","number":7}` {
		t.Errorf("transform was called with %q, want each file once", got)
	}
	if got := s.called("/load"); len(got) != 1 || !strings.Contains(got[0], `"parts":[{"file":"part-0.csv","rows":100},`) {
		t.Errorf("load was called with %q, want what transform put out, in order", got)
	}
	i := slices.IndexFunc(run.Steps, func(s httpapi.RunStep) bool { return s.Name == "load" })
	if out := clitest.Succeed(t, "run", "output", "--api", api, run.Steps[i].RunID.String()).Stdout; strings.TrimSpace(out) != `{"rows":3600}` {
		t.Errorf("load put out %q, want all rows", out)
	}
	step := getRun(t, api, run.Steps[i].RunID.String())
	if step.WorkflowRunID != run.ID || step.Step != "load" {
		t.Errorf("the run of load is shown as %+v", step)
	}
	for _, args := range [][]string{{"workflow", "show-run"}, {"run", "get"}} {
		if shown := clitest.Succeed(t, append(args, "--api", api, id)...).Stdout; !strings.Contains(shown, "├─ transform") || !strings.Contains(shown, "succeeded 8/8") {
			t.Errorf("%v prints\n%s\nwant the steps", args, shown)
		}
	}
	if shown := clitest.Succeed(t, "workflow", "show-run", "--api", api, id, "--format", "mermaid").Stdout; !strings.Contains(shown, "succeeded 8/8") {
		t.Errorf("show-run --format mermaid prints\n%s\nwant the states", shown)
	}
	if listed := clitest.Succeed(t, "workflow", "runs", "--api", api, "etl").Stdout; !strings.Contains(listed, id) {
		t.Errorf("runs prints\n%s\nwant %s", listed, id)
	}
}

func TestExampleApproval(t *testing.T) {
	api, s := clitest.StartNode(t), newServices(t)
	clitest.Succeed(t, "workflow", "apply", "--api", api, "-f", s.example(t, "approval"))
	run := clitest.Decode[httpapi.Run](t, clitest.Succeed(t, "workflow", "run", "--api", api, "approval", "--payload", `{"version":"1.4.0"}`, "-o", "json").Stdout)
	clitest.Await(t, "the run waits", func() bool { return getRun(t, api, run.ID.String()).State == "waiting" })
	waiting := getRun(t, api, run.ID.String())
	if got := states(&waiting)["approval"]; got != "waiting" || !strings.Contains(waiting.Steps[1].Reason, "approved") {
		t.Errorf("the step is %s, %q; want it waiting for the event approved", got, waiting.Steps[1].Reason)
	}
	event := clitest.Succeed(t, "event", "publish", "--api", api, "approved", `{"version":"1.4.0","by":"somebody"}`).Stdout
	r := clitest.Succeed(t, "workflow", "show-run", "--api", api, run.ID.String(), "--wait")
	if !strings.Contains(r.Stdout, "  publish  succeeded") || !strings.Contains(r.Stdout, "  run  succeeded") {
		t.Errorf("show-run --wait prints\n%s\nwant the last step and the end", r.Stdout)
	}
	done := getRun(t, api, run.ID.String())
	want := map[string]schema.State{"draft": schema.StateSucceeded, "approval": schema.StateSucceeded, "publish": schema.StateSucceeded}
	if diff := cmp.Diff(want, states(&done)); diff != "" {
		t.Errorf("after the approval (-want +got):\n%s", diff)
	}
	published := `{"approval":{"version":"1.4.0","by":"somebody"},"draft":{"done":"/draft","said":{"version":"1.4.0"}}}`
	if got := s.called("/publish"); !slices.Equal(got, []string{published}) {
		t.Errorf("publish was called with %q, want %s once", got, published)
	}
	if listed := clitest.Succeed(t, "event", "list", "--api", api).Stdout; !strings.Contains(listed, strings.TrimSpace(event)+"  approved") {
		t.Errorf("event list prints\n%s\nwant %s", listed, event)
	}
	if r := clitest.Run(t.Context(), "", "workflow", "skip", "--api", api, run.ID.String(), "approval"); r.Code != 1 || !strings.Contains(r.Stderr, "(409)") {
		t.Errorf("skip in a run that has ended exits %d with %q", r.Code, r.Stderr)
	}
}

// Whoever skips the step that waits approves by hand.
func TestExampleApprovalBySkip(t *testing.T) {
	api, s := clitest.StartNode(t), newServices(t)
	clitest.Succeed(t, "workflow", "apply", "--api", api, "-f", s.example(t, "approval"))
	run := clitest.Decode[httpapi.Run](t, clitest.Succeed(t, "workflow", "run", "--api", api, "approval", "-o", "json").Stdout)
	clitest.Await(t, "the run waits", func() bool { return getRun(t, api, run.ID.String()).State == "waiting" })
	for range 2 { // twice is the same as once
		clitest.Succeed(t, "workflow", "skip", "--api", api, run.ID.String(), "approval")
	}
	clitest.Succeed(t, "workflow", "show-run", "--api", api, run.ID.String(), "--wait")
	done := getRun(t, api, run.ID.String())
	want := map[string]schema.State{"draft": schema.StateSucceeded, "approval": schema.StateSkipped, "publish": schema.StateSucceeded}
	if diff := cmp.Diff(want, states(&done)); diff != "" {
		t.Errorf("after the skip (-want +got):\n%s", diff)
	}
	published := `{"approval":null,"draft":{"done":"/draft","said":{"version":"unreleased"}}}`
	if got := s.called("/publish"); !slices.Equal(got, []string{published}) {
		t.Errorf("publish was called with %q, want %s once", got, published)
	}
}

func TestExampleSaga(t *testing.T) {
	api, s := clitest.StartNode(t), newServices(t)
	clitest.Succeed(t, "workflow", "apply", "--api", api, "-f", s.example(t, "saga"))
	clitest.Succeed(t, "workflow", "run", "--api", api, "saga", "--payload", `{"trip":7}`, "--wait")
	if undone := append(s.called("/flight/undo"), s.called("/hotel/undo")...); len(undone) != 0 {
		t.Errorf("a trip that was booked was undone: %q", undone)
	}
	for _, row := range []struct {
		fail  string
		want  map[string]schema.State
		calls []string
	}{
		{
			"car",
			map[string]schema.State{"flight": "succeeded", "hotel": "succeeded", "car": "failed", "undo_hotel": "succeeded", "undo_flight": "succeeded"},
			[]string{"/flight/book", "/hotel/book", "/car/book", "/hotel/undo", "/flight/undo"},
		},
		{
			"hotel",
			map[string]schema.State{"flight": "succeeded", "hotel": "failed", "car": "skipped", "undo_hotel": "skipped", "undo_flight": "succeeded"},
			[]string{"/flight/book", "/hotel/book", "/flight/undo"},
		},
		{
			"flight",
			map[string]schema.State{"flight": "failed", "hotel": "skipped", "car": "skipped", "undo_hotel": "skipped", "undo_flight": "skipped"},
			[]string{"/flight/book"},
		},
	} {
		t.Run(row.fail, func(t *testing.T) {
			before := len(s.Calls())
			r := clitest.Run(t.Context(), "", "workflow", "run", "--api", api, "saga", "--payload", fmt.Sprintf(`{"trip":8,"fail":%q}`, row.fail), "--wait", "-o", "json")
			if r.Code != 1 || !strings.Contains(r.Stderr, row.fail) {
				t.Errorf("run --wait exits %d with %q, want 1 and the step", r.Code, r.Stderr)
			}
			run := clitest.Decode[httpapi.Run](t, r.Stdout)
			if diff := cmp.Diff(row.want, states(&run)); diff != "" || run.State != schema.StateFailed {
				t.Errorf("the run has %s, and its steps (-want +got):\n%s", run.State, diff)
			}
			var calls []string
			for _, call := range s.Calls()[before:] {
				calls = append(calls, call.Path)
			}
			if diff := cmp.Diff(row.calls, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// A run is run again from where it failed, and one that is cancelled has an exit code of its own.
func TestWorkflowRunIsRetriedAndCancelled(t *testing.T) {
	api := clitest.StartNode(t)
	var mu sync.Mutex
	broken, firsts := true, 0
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.URL.Path == "/first":
			firsts++
		case broken:
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	defer sink.Close()
	text := fmt.Sprintf(`{"name":"w","steps":[{"name":"first","http":{"url":"%[1]s/first"}},{"name":"second","after":["first"],"http":{"url":"%[1]s/second"}},
		{"name":"rest","after":["second"],"wait":{"for":"1h"}}]}`, sink.URL)
	if r := clitest.Run(t.Context(), text, "workflow", "apply", "--api", api, "-f", "-"); r.Code != 0 {
		t.Fatalf("apply exits %d with %q", r.Code, r.Stderr)
	}
	failed := clitest.Run(t.Context(), "", "workflow", "run", "--api", api, "w", "--wait", "-o", "json")
	if failed.Code != 1 {
		t.Fatalf("run --wait exits %d with %q, want 1", failed.Code, failed.Stderr)
	}
	run := clitest.Decode[httpapi.Run](t, failed.Stdout)
	mu.Lock()
	broken = false
	mu.Unlock()
	again := clitest.Decode[httpapi.Run](t, clitest.Succeed(t, "workflow", "retry", "--api", api, run.ID.String(), "-o", "json").Stdout)
	if again.Origin != run.ID || again.Workflow != "w" {
		t.Errorf("retry answers %+v, want a run of the workflow whose origin is %s", again, run.ID)
	}
	clitest.Await(t, "the new run waits", func() bool { return getRun(t, api, again.ID.String()).State == "waiting" })
	mu.Lock()
	if firsts != 1 {
		t.Errorf("first was called %d times, want once: the new run takes it over", firsts)
	}
	mu.Unlock()
	if shown := clitest.Succeed(t, "run", "cancel", "--api", api, again.ID.String()).Stdout; !strings.Contains(shown, again.ID.String()) {
		t.Errorf("run cancel prints\n%s", shown)
	}
	if r := clitest.Run(t.Context(), "", "workflow", "show-run", "--api", api, again.ID.String(), "--wait"); r.Code != 3 || !strings.Contains(r.Stderr, "cancelled") {
		t.Errorf("show-run --wait of a cancelled run exits %d with %q, want 3", r.Code, r.Stderr)
	}
	for _, step := range []struct{ command, want string }{{"pause", "paused"}, {"resume", "active"}, {"delete", "cancelled"}} {
		if shown := clitest.Succeed(t, "workflow", step.command, "--api", api, "w").Stdout; !strings.Contains(shown, step.want) {
			t.Errorf("%s prints\n%s\nwant %s", step.command, shown, step.want)
		}
	}
}

// What is wrong with a workflow is said with its line and a JSON pointer.
func TestFaultsAreSaidWithTheirLines(t *testing.T) {
	api := clitest.StartNode(t)
	file := filepath.Join(t.TempDir(), "bad.yaml")
	text := `# two workflows
name: good
steps:
  - {name: a, nats: {subject: a}}
---
name: bad
colour: red
steps:
  - name: a
    nats: {subject: a}
  - name: b
    after:
      - a
      - c
    http:
      url: x
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		args := []string{"workflow", "apply", "--api", api, "-f", file}
		want := "created good\nrefused bad\n"
		if dry {
			args = append(args, "--dry-run")
			want = "would be created good\n  a  nats\nrefused bad\n"
		}
		r := clitest.Run(t.Context(), "", args...)
		if r.Code != 1 || r.Stdout != want {
			t.Errorf("apply exits %d and prints %q, want 1 and %q", r.Code, r.Stdout, want)
		}
		for _, want := range []string{
			file + ":7: /colour: ", file + ":14: /steps/1/after/1: ", file + ":16: /steps/1/http/url: ", "workflow bad of " + file, "1 of 2 workflows were refused",
		} {
			if !strings.Contains(r.Stderr, want) {
				t.Errorf("apply says\n%s\nwant %q", r.Stderr, want)
			}
		}
	}
	r := clitest.Run(t.Context(), `{"name":"j","steps":[{"name":"a"}]}`, "workflow", "apply", "--api", api, "-f", "-", "-o", "json")
	if r.Code != 1 || !strings.Contains(r.Stderr, "/steps/0: ") || !strings.Contains(r.Stdout, `"result":"refused"`) {
		t.Errorf("apply of JSON exits %d, prints %q and says %q", r.Code, r.Stdout, r.Stderr)
	}
	clitest.Succeed(t, "job", "create", "--api", api, "--name", "j", "--subject", "a", "--every", "1h")
	r = clitest.Run(t.Context(), `{"name":"j","steps":[{"name":"a","nats":{"subject":"a"}}]}`, "workflow", "apply", "--api", api, "-f", "-")
	if r.Code != 1 || !strings.Contains(r.Stderr, "(409)") {
		t.Errorf("apply under the name of a job exits %d and says %q", r.Code, r.Stderr)
	}
}

func TestPlacesInAFile(t *testing.T) {
	for location, want := range map[string]string{
		"body": "", "body.steps[3].after[0]": "/steps/3/after/0", "body.payload/a/0": "/payload/a/0", "query.limit": "-", "bodyguard": "-",
	} {
		tokens, ok := tokensOf(location)
		if got := pointerOf(tokens); ok != (want != "-") || ok && got != want {
			t.Errorf("%s is the pointer %q, %t; want %q", location, got, ok, want)
		}
	}
	var tree yaml.Node
	if err := yaml.Unmarshal([]byte("a: &x\n  b:\n    - 1\n    - c: 2\nd: *x\n"), &tree); err != nil {
		t.Fatal(err)
	}
	for pointer, want := range map[string]int{"": 1, "a": 1, "a b": 2, "a b 1 c": 4, "a b 9": 2, "a z": 1, "d b 0": 3, "z": 1} {
		if got := lineOf(&tree, strings.Fields(pointer)); got != want {
			t.Errorf("%q is in line %d, want %d", pointer, got, want)
		}
	}
	if got := lineOf(nil, []string{"a"}); got != 0 {
		t.Errorf("without a document the line is %d, want 0", got)
	}
}

func TestWorkflowCommandsThatMakeNoSense(t *testing.T) {
	for name, args := range map[string]string{
		"no file":            "workflow apply",
		"no workflow":        "workflow run",
		"no run":             "workflow show-run 12",
		"no step":            "workflow skip 0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60",
		"no id of a run":     "workflow skip 12 a",
		"payload is no JSON": "workflow run w --payload hello",
		"an unknown format":  "workflow show w --format svg",
		"two forms":          "workflow show w --format dot -o json",
		"graph and wait":     "workflow show-run 0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60 --format dot --wait",
		"negative limit":     "workflow list --limit -1",
		"bad window":         "workflow runs w --from someday",
	} {
		t.Run(name, func(t *testing.T) {
			if r := clitest.Run(t.Context(), "", strings.Fields(args)...); r.Code != 2 || r.Stderr == "" || r.Stdout != "" {
				t.Errorf("carillon %s exits %d with %q, want 2 and the reason", args, r.Code, r.Stderr)
			}
		})
	}
}
