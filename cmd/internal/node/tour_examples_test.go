package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/deploy/examples"
	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/schema"
)

// exampleStops run the workflows of deploy/examples as they lie there, but for the address of what
// they call. They check order, payloads and counts of all calls.
var exampleStops = map[string]func(r *running, g ground){
	"an ETL fans out and joins":                    (*running).showETL,
	"an approval waits for its event":              (*running).showApproval,
	"an approval that never comes fails":           (*running).showNoApproval,
	"a saga undoes what was booked":                (*running).showSaga,
	"a saga in which nothing fails undoes nothing": (*running).showTrip,
}

// The examples run on processes of their own: two nodes with gossip, a Cassandra, a NATS server.
func TestExamplesOnACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster of its own takes half a minute; TestTour runs the examples as well")
	}
	c := cluster.Start(t, cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 2})
	t.Run("the doctor looks at it", func(t *testing.T) {
		t.Parallel()
		showDoctor(t, c)
	})
	for name, stop := range exampleStops {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stop((&running{t: t, url: c.APIs()[0]}).tourist(), ground{name: "cluster"})
		})
	}
}

// showDoctor has carillon doctor look at a cluster that is well: it finds what one Cassandra and
// its commit log cannot promise, and nothing else that is worse than info. Nodes that have just
// started may not know one another yet, so it looks until that is so.
func showDoctor(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	argv, err := c.Carillon("carillon-1", "doctor", "--json")
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("carillon doctor said last:\n%s", said)
		}
	})
	await(t, "carillon doctor finds the cluster well", func() bool {
		text, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).Output()
		said = fmt.Sprintf("%v\n%s", err, text)
		var exit *exec.ExitError
		var report struct {
			Errors   int
			Findings []struct{ Severity, Check string }
		}
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || json.Unmarshal(text, &report) != nil || report.Errors != 0 {
			return false // 1: there are warnings
		}
		var warnings, well []string
		for _, f := range report.Findings {
			switch f.Severity {
			case "ok":
				well = append(well, f.Check)
			case "warning":
				warnings = append(warnings, f.Check)
			}
		}
		slices.Sort(warnings)
		for _, want := range []string{
			"config", "cassandra.reachable", "cassandra.nodes", "cassandra.gc_grace", "cassandra.schema", "nats.reachable", "nats.jetstream",
			"nats.streams", "clocks", "nodes.ready", "nodes.versions", "nodes.ring", "nodes.shards",
		} {
			if !slices.Contains(well, want) {
				return false
			}
		}
		return slices.Equal(warnings, []string{"cassandra.commitlog_sync", "cassandra.replication"})
	})
}

// example puts an example under a name, with some texts replaced (old and new in turn), and returns
// what its steps call.
func (r *running) example(name, as string, change ...string) *examples.Services {
	t := r.t
	t.Helper()
	s := &examples.Services{Pause: 50 * time.Millisecond} // so that calls that may meet do meet
	text, err := examples.Workflow(name, sink(t, s.ServeHTTP))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(change); i += 2 {
		if !strings.Contains(text, change[i]) {
			t.Fatalf("%s has no %q:\n%s", name, change[i], text)
		}
		text = strings.ReplaceAll(text, change[i], change[i+1])
	}
	var w map[string]any
	if err := yaml.Unmarshal([]byte(text), &w); err != nil {
		t.Fatal(err)
	}
	w["name"] = as
	if _, created, err := r.client().PutWorkflow(t.Context(), as, w); err != nil || !created {
		t.Fatalf("PutWorkflow = created: %t, %v", created, err)
	}
	return s
}

// trigger runs a workflow.
func (r *running) trigger(name, payload string) schema.JobID {
	r.t.Helper()
	run, err := r.client().TriggerWorkflow(r.t.Context(), name, json.RawMessage(payload), uuid.NewString())
	if err != nil {
		r.t.Fatalf("TriggerWorkflow = %v", err)
	}
	return schema.JobID(run.ID)
}

// publish publishes an event.
func (r *running) publish(name, body string) {
	r.t.Helper()
	if _, err := r.client().PublishEvent(r.t.Context(), name, json.RawMessage(body), uuid.NewString()); err != nil {
		r.t.Fatalf("PublishEvent = %v", err)
	}
}

// shown returns how the steps of a run stand, in their order.
func shown(run *httpapi.Run) (states []string) {
	for i := range run.Steps {
		states = append(states, fmt.Sprintf("%s %s", run.Steps[i].Name, run.Steps[i].State))
	}
	return states
}

// stands checks how the steps of a run stand.
func (r *running) stands(run *httpapi.Run, want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, shown(run)); diff != "" {
		r.t.Errorf("the steps of run %s of %s (-want +got):\n%s", run.ID, run.Workflow, diff)
	}
}

// called returns the calls as texts of path and body, in the order in which they came. Each must be
// of another run, and come beside so many others at most.
func (r *running) called(s *examples.Services, beside int) (calls []string) {
	r.t.Helper()
	runs := make(map[string]bool)
	for _, c := range s.Calls() {
		calls = append(calls, strings.TrimSpace(c.Path+" "+c.Body))
		if c.Run == "" || runs[c.Run] {
			r.t.Errorf("run %q called twice, or is not named: %s", c.Run, c.Path)
		}
		runs[c.Run] = true
		if c.Beside > beside {
			r.t.Errorf("%s was called beside %d others, want at most %d", c.Path, c.Beside, beside)
		}
	}
	return calls
}

func (r *running) showETL(ground) {
	t := r.t
	s := r.example("etl", "etl")
	run := r.awaitState(r.trigger("etl", `{"date":"2026-11-21"}`), schema.StateSucceeded)
	r.stands(&run, "extract succeeded", "transform succeeded", "check succeeded", "load succeeded", "alert skipped")
	const items = 8
	if n := run.Steps[1].Items; n == nil || n.Total != items || n.States[schema.StateSucceeded] != items {
		t.Errorf("items of transform = %+v, want %d, all succeeded", n, items)
	}
	var parts, middle []string
	for i := range items {
		parts = append(parts, fmt.Sprintf(`{"file":"part-%d.csv","rows":%d}`, i, 100*(i+1)))
		middle = append(middle, fmt.Sprintf(`/transform {"file":"part-%d.csv","number":%d}`, i, i))
	}
	middle = append(middle, "/check") // beside transform
	slices.Sort(middle)
	want := slices.Concat([]string{`/extract {"date":"2026-11-21"}`}, middle, []string{
		`/load {"date":"2026-11-21","parts":[` + strings.Join(parts, ",") + `]}`,
	})
	got := r.called(s, 4) // max_concurrent is 4, and check runs beside transform
	if len(got) > 2 {
		slices.Sort(got[1 : len(got)-1])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if out, err := r.client().Output(t.Context(), run.Steps[3].RunID, 0); err != nil || strings.TrimSpace(string(out.Text)) != `{"rows":3600}` {
		t.Errorf("load put out %q, %v; want all rows", out.Text, err)
	}
}

func (r *running) showApproval(ground) {
	t, c := r.t, r.client()
	s := r.example("approval", "approval")
	ours, other := r.trigger("approval", `{"version":"1.4.0"}`), r.trigger("approval", `{"version":"1.3.9"}`)
	for _, id := range []schema.JobID{ours, other} {
		run := r.awaitState(id, "waiting")
		r.stands(&run, "draft succeeded", "approval waiting", "publish pending")
	}
	r.publish("approved", `{"version":"1.3.9"}`)
	r.awaitState(other, schema.StateSucceeded)
	if run, err := c.Run(t.Context(), schema.RunID(ours)); err != nil || run.State != "waiting" {
		t.Errorf("after the event of another version the run is %s, %v; want it waiting", run.State, err)
	}
	r.publish("approved", `{"version":"1.4.0","by":"somebody"}`)
	run := r.awaitState(ours, schema.StateSucceeded)
	r.stands(&run, "draft succeeded", "approval succeeded", "publish succeeded")
	got := r.called(s, 1)
	if len(got) == 4 {
		slices.Sort(got[:2])
	}
	want := []string{
		`/draft {"version":"1.3.9"}`, `/draft {"version":"1.4.0"}`,
		`/publish {"approval":{"version":"1.3.9"},"draft":{"done":"/draft","said":{"version":"1.3.9"}}}`,
		`/publish {"approval":{"version":"1.4.0","by":"somebody"},"draft":{"done":"/draft","said":{"version":"1.4.0"}}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func (r *running) showNoApproval(ground) {
	t := r.t
	s := r.example("approval", "unapproved", "deadline: 24h", "deadline: 2s")
	id := r.trigger("unapproved", `{"version":"1.4.0"}`)
	run := r.awaitState(id, schema.StateFailed)
	if n := len(run.Attempts); n == 0 || run.Attempts[n-1].Error != `step "approval" failed: its deadline has passed` {
		t.Errorf("attempts = %+v, want the deadline as the last one's error", run.Attempts)
	}
	if got := shown(&run); len(got) != 3 || got[0] != "draft succeeded" || got[1] == "approval succeeded" || got[2] != "publish skipped" {
		t.Errorf("steps = %q, want no approval and no publish", got)
	}
	if got := r.called(s, 0); !slices.Equal(got, []string{`/draft {"version":"1.4.0"}`}) {
		t.Errorf("calls = %q, want the draft alone", got)
	}
}

func (r *running) showSaga(ground) {
	s := r.example("saga", "saga")
	run := r.awaitState(r.trigger("saga", `{"trip":8,"fail":"car"}`), schema.StateFailed)
	r.stands(&run, "flight succeeded", "hotel succeeded", "car failed", "undo_hotel succeeded", "undo_flight succeeded")
	if n := len(run.Attempts); n == 0 || !strings.Contains(run.Attempts[n-1].Error, `step "car" failed`) {
		r.t.Errorf("attempts = %+v, want the step that failed in the last one's error", run.Attempts)
	}
	want := []string{
		`/flight/book {"trip":{"trip":8,"fail":"car"}}`, `/hotel/book {"trip":{"trip":8,"fail":"car"}}`, `/car/book {"trip":{"trip":8,"fail":"car"}}`,
		`/hotel/undo {"booking":{"booked":"hotel","trip":8}}`, `/flight/undo {"booking":{"booked":"flight","trip":8}}`,
	}
	if diff := cmp.Diff(want, r.called(s, 0)); diff != "" {
		r.t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func (r *running) showTrip(ground) {
	s := r.example("saga", "trip")
	run := r.awaitState(r.trigger("trip", `{"trip":7}`), schema.StateSucceeded)
	r.stands(&run, "flight succeeded", "hotel succeeded", "car succeeded", "undo_hotel skipped", "undo_flight skipped")
	want := []string{`/flight/book {"trip":{"trip":7}}`, `/hotel/book {"trip":{"trip":7}}`, `/car/book {"trip":{"trip":7}}`}
	if diff := cmp.Diff(want, r.called(s, 0)); diff != "" {
		r.t.Errorf("calls (-want +got):\n%s", diff)
	}
}
