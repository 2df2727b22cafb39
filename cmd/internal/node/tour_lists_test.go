package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

// ids returns the ids of a list of runs, in its order.
func (r *running) ids(list iter.Seq2[httpapi.Run, error]) (ids []schema.RunID) {
	r.t.Helper()
	for run, err := range list {
		if err != nil {
			r.t.Fatalf("list runs: %v", err)
		}
		ids = append(ids, run.ID)
	}
	return ids
}

// Runs are found by label, key, lateness and several states; runs of a workflow by what they wait for,
// and those of its steps one by one.
func (r *running) showLists(ground) {
	t, c := r.t, r.client()
	url := sink(t, func(w http.ResponseWriter, q *http.Request) {
		if strings.HasSuffix(q.URL.Path, "/bad") {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	call := func(path string) schema.Work { return schema.Work{HTTP: &schema.HTTPTarget{URL: url + path}} }
	begin := time.Now()
	window := func(q httpapi.RunQuery) httpapi.RunQuery {
		q.From, q.To = begin.Add(-time.Hour), begin.Add(20*time.Hour)
		return q
	}
	create := func(key, path, team string, at time.Time) schema.RunID {
		t.Helper()
		job := request.JobRequest{Key: key, Work: call(path), Labels: map[string]string{"team": team}}
		if !at.IsZero() {
			job.Schedule = &request.Schedule{At: at}
		}
		made, err := c.CreateJob(t.Context(), job)
		if err != nil {
			t.Fatalf("CreateJob = %v", err)
		}
		return schema.RunID(made.ID)
	}
	good, bad := create(uuid.NewString(), "/good", "a", time.Time{}), create("bad", "/bad", "b", time.Time{})
	later := create(uuid.NewString(), "/good", "b", begin.Add(time.Hour))
	r.awaitState(schema.JobID(good), schema.StateSucceeded)
	r.awaitState(schema.JobID(bad), schema.StateFailed)
	at := begin.Add(2 * time.Hour).UTC().Truncate(time.Millisecond)
	line := fmt.Sprintf(`{"key":"line","http":{"url":%q},"schedule":{"at":%q}}`+"\n", url, at.Format(time.RFC3339Nano))
	var imported schema.RunID
	if _, err := c.Import(t.Context(), bytes.NewReader([]byte(line)), httpapi.ImportOptions{}, func(a httpapi.ImportResult) error {
		imported = schema.RunID(a.ID)
		return nil
	}); err != nil {
		t.Fatalf("Import = %v", err)
	}
	for name, row := range map[string]struct {
		query httpapi.RunQuery
		want  []schema.RunID
	}{
		"of a team":           {httpapi.RunQuery{Labels: map[string]string{"team": "b"}}, []schema.RunID{bad, later}},
		"in two states":       {httpapi.RunQuery{States: []schema.State{schema.StateSucceeded, schema.StateFailed}, Limit: 1}, []schema.RunID{good, bad}},
		"that wait":           {httpapi.RunQuery{States: []schema.State{schema.StateWaiting, schema.StateStuck}}, nil},
		"later than an hour":  {httpapi.RunQuery{Late: time.Hour}, nil},
		"of a key, by window": {httpapi.RunQuery{Key: "line"}, []schema.RunID{imported}},
	} {
		if got := r.ids(c.Runs(t.Context(), window(row.query))); !slices.Equal(got, row.want) {
			t.Errorf("runs %s are %v, want %v", name, got, row.want)
		}
	}
	for _, row := range []struct {
		key  string
		at   time.Time
		want schema.RunID
	}{{"bad", time.Time{}, bad}, {"line", at, imported}, {"line", time.Time{}, schema.RunID{}}, {"line", at.Add(time.Millisecond), schema.RunID{}}} {
		if run, found, err := c.RunOfKey(t.Context(), row.key, row.at); err != nil || found == row.want.IsZero() || run.ID != row.want {
			t.Errorf("RunOfKey(%s, %v) = %s, %t, %v; want %s", row.key, row.at, run.ID, found, err, row.want)
		}
	}

	work := call("/bad")
	flow := request.WorkflowRequest{Definition: workflow.Definition{Steps: []workflow.Step{
		{Name: "each", Work: &work, ForEach: &workflow.ForEach{Items: []json.RawMessage{[]byte("1"), []byte("2"), []byte("3")}}},
		{Name: "approve", After: []string{"each"}, When: "all_done", Wait: &workflow.Wait{Event: "approved"}},
	}}}
	if _, _, err := c.PutWorkflow(t.Context(), "flow", flow); err != nil {
		t.Fatalf("PutWorkflow = %v", err)
	}
	run, err := c.TriggerWorkflow(t.Context(), "flow", nil, "flow")
	if err != nil {
		t.Fatalf("TriggerWorkflow = %v", err)
	}
	r.awaitState(schema.JobID(run.ID), schema.StateWaiting)
	for name, list := range map[string]iter.Seq2[httpapi.Run, error]{
		"that wait":             c.Runs(t.Context(), window(httpapi.RunQuery{States: []schema.State{schema.StateWaiting}})),
		"that are under way":    c.Runs(t.Context(), window(httpapi.RunQuery{States: []schema.State{schema.StateRunning}})),
		"of the workflow":       c.Runs(t.Context(), window(httpapi.RunQuery{Job: "flow"})),
		"of the workflow alone": c.WorkflowRuns(t.Context(), "flow", httpapi.JobRunQuery{State: schema.StateWaiting}),
		"of its key": func(yield func(httpapi.Run, error) bool) {
			got, _, err := c.RunOfKey(t.Context(), "flow", time.Time{})
			yield(got, err)
		},
	} {
		n := 0
		for got, err := range list {
			if n++; err != nil || got.ID != run.ID || got.State != schema.StateWaiting {
				t.Errorf("runs %s are %s, %s, %v; want %s, which waits", name, got.ID, got.State, err, run.ID)
			}
		}
		if n != 1 {
			t.Errorf("%d runs %s, want one", n, name)
		}
	}
	item := func(i int) schema.RunID { return schema.MakeStepID(run.ID, 0, i) }
	failed := httpapi.RunQuery{States: []schema.State{schema.StateFailed}, Limit: 2}
	if got, want := r.ids(c.StepRuns(t.Context(), run.ID, "each", failed)), []schema.RunID{item(1), item(2), item(3)}; !slices.Equal(got, want) {
		t.Errorf("items that failed are %v, want %v", got, want)
	}
	if got, want := r.ids(c.StepRuns(t.Context(), run.ID, "", httpapi.RunQuery{})), []schema.RunID{item(1), item(2), item(3), schema.MakeStepID(run.ID, 1, 0)}; !slices.Equal(got, want) {
		t.Errorf("runs of steps are %v, want %v", got, want)
	}
	if approve, err := c.Run(t.Context(), schema.MakeStepID(run.ID, 1, 0)); err != nil || approve.State != schema.StateWaiting || approve.Waiting == nil {
		t.Errorf("the run of the step that waits is %+v, %v", approve, err)
	}
}

// A node tells how it stands itself, and how the store and the queue do.
func (r *running) showStanding(g ground) {
	t, c := r.t, r.client()
	var seen httpapi.Cluster
	await(t, "the node is ready, by the view of the cluster", func() bool {
		var err error
		if seen, err = c.Cluster(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(seen.Members) == 1 && seen.Members[0].Ready && seen.Store.OK && seen.Queue.OK && len(seen.Shards) == tourShards
	})
	if m := seen.Members[0]; m.Slots == nil || m.Slots.Total == 0 || m.StartedAt.IsZero() || seen.Queue.Waiting == nil || seen.Queue.Held == nil {
		t.Errorf("Cluster = %+v, want slots, when it began, and what lies in the queue", seen)
	}
	for _, h := range slices.Concat(seen.Store.Hosts, seen.Queue.Hosts) {
		if !h.Up || h.Name == "" {
			t.Errorf("a host is %+v, want it up", h)
		}
	}
	if len(seen.Store.Hosts) != 1 || len(seen.Queue.Hosts) != 0 {
		t.Errorf("on %s the hosts are %+v and %+v, want one of the store, and none of a queue in this process", g.name, seen.Store.Hosts, seen.Queue.Hosts)
	}
}
