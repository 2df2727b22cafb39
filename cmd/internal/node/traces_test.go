package node

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/executor/trace"
	"carillon.dev/carillon/executor/trace/otlp"
	"carillon.dev/carillon/executor/trace/otlp/otlptest"
	"carillon.dev/carillon/schema"
)

// TestATraceFromTheRequestToTheCallee: a caller whose trace is sampled makes a run that is called
// twice: its request leads to the run, and both calls are told the attempt that they are part of. A
// workflow's run has a span, to which its steps have links. Nothing is lost when the node stops.
func TestATraceFromTheRequestToTheCallee(t *testing.T) {
	col := otlptest.New(t)
	sampler, err := trace.ParseSampler("", "")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "a")
	r := startWith(t, "a", w.opener("a"), nil, func(*config.Config) {}, func(o *Options) {
		o.Traces = otlp.Config{Endpoint: col.URL, Sampler: sampler, Delay: time.Hour, Batch: 10_000} // all waits for the stop
	}).up()
	var mu sync.Mutex
	var told []string // traceparents, of one run
	url := sink(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/twice" {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if told = append(told, r.Header.Get("Traceparent")); len(told) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})

	body, err := json.Marshal(map[string]any{"http": map[string]any{"url": url + "/twice?key=secret"}, "retry": map[string]any{"initial": "10ms", "jitter": "none"}})
	if err != nil {
		t.Fatal(err)
	}
	post, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v1/jobs", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	answer, err := http.DefaultClient.Do(post)
	if err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	run, err := schema.ParseEntryID(strings.TrimPrefix(answer.Header.Get("Location"), "/v1/jobs/"))
	if err != nil {
		t.Fatalf("POST /v1/jobs answered %d: %s", answer.StatusCode, said)
	}
	flow := request.WorkflowRequest{Definition: workflow.Definition{Steps: []workflow.Step{
		{Name: "one", Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: url + "/one"}}},
	}}}
	c := r.client()
	if _, _, err := c.PutWorkflow(t.Context(), "flow", flow); err != nil {
		t.Fatal(err)
	}
	made, err := c.TriggerWorkflow(t.Context(), "flow", nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []schema.RunID{run, made.ID} {
		await(t, "the run has ended", func() bool {
			got, err := c.Run(t.Context(), id)
			return err == nil && got.State == schema.StateSucceeded
		})
	}
	exposed := metricsOf(t, r.url)
	r.stop()

	spans := col.Spans()
	of := func(id schema.RunID) []otlptest.Span {
		return slices.DeleteFunc(slices.Clone(spans), func(s otlptest.Span) bool { return s.Trace != trace.ID(id) })
	}
	const want = "run succeeded\n  wait\n  attempt 1 failed\n  wait\n  attempt 2 succeeded\n"
	tree := strings.ReplaceAll(otlptest.Tree(of(run)), "  dispatch\n", "") // on a busy machine
	if tree != want {
		t.Errorf("the trace of the run is\n%swant\n%s", tree, want)
	}
	if orphans := otlptest.Orphans(of(run)); len(orphans) > 0 {
		t.Errorf("spans without their parents: %q", orphans)
	}
	for i, parent := range told {
		name := []string{"attempt 1", "attempt 2"}[i]
		if !slices.ContainsFunc(of(run), func(s otlptest.Span) bool { return s.Name == name && parent == "00-"+s.Trace+"-"+s.ID+"-01" }) {
			t.Errorf("call %d was told %q, which is not %s", i+1, parent, name)
		}
	}
	for _, s := range spans {
		for k, v := range s.Attrs {
			if strings.Contains(v, "secret") {
				t.Errorf("%s of %s tells %s", k, s.Name, v)
			}
		}
	}
	if i := slices.IndexFunc(spans, func(s otlptest.Span) bool { return s.Name == "POST /v1/jobs" }); i < 0 || spans[i].Parent != "b7ad6b7169203331" ||
		!slices.Equal(spans[i].Links, []string{trace.ID(run) + "-" + trace.ID(run)[16:]}) || spans[i].Attrs["http.response.status_code"] != "201" {
		t.Errorf("the request that made run %s is not among\n%+v", run, spans)
	}
	if tree := otlptest.Tree(of(made.ID)); tree != "run succeeded\n" {
		t.Errorf("the trace of the workflow's run is\n%s", tree)
	}
	link := trace.ID(made.ID) + "-" + trace.ID(made.ID)[16:]
	if !slices.ContainsFunc(spans, func(s otlptest.Span) bool { return s.Name == "run" && slices.Equal(s.Links, []string{link}) }) {
		t.Errorf("no step has the link %s to the run of its workflow", link)
	}
	if want := `trace_id="` + trace.ID(run) + `"`; !strings.Contains(exposed, want) {
		t.Errorf("/metrics has no exemplar %s:\n%s", want, exposed)
	}
}

// metricsOf returns the histograms of a node's /metrics, with their exemplars.
func metricsOf(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.DeleteFunc(strings.Split(string(text), "\n"), func(l string) bool {
		return !strings.Contains(l, "carillon_executor_") || !strings.Contains(l, "_bucket")
	})
	return strings.Join(lines, "\n")
}
