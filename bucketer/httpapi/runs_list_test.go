package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// runsListed returns the names of the runs that a query lists, in order, over all pages.
func runsListed(t *testing.T, hs func(path string, v any), query string, name func(*Run) string) (got []string) {
	t.Helper()
	got = []string{}
	for cursor, pages := "", 0; ; pages++ {
		var page struct {
			Items      []Run  `json:"items"`
			NextCursor string `json:"next_cursor"`
		}
		hs("/v1/runs?"+query+cursor, &page)
		for i := range page.Items {
			got = append(got, name(&page.Items[i]))
		}
		if page.NextCursor == "" {
			return got
		}
		if pages == 100 {
			t.Fatalf("GET /v1/runs?%s never ends", query)
		}
		cursor = "&cursor=" + url.QueryEscape(page.NextCursor)
	}
}

const aDay = "from=2026-11-21T09:00:00Z&to=2026-11-22T09:00:00Z"

func TestRunsAreListedByFilters(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	add := func(in time.Duration, name, labels string) schema.RunID {
		t.Helper()
		var j Job
		doJSON(t, hs, call{method: "POST", path: "/v1/jobs", header: http.Header{keyHeader: {"k-" + name}}, body: fmt.Sprintf(
			`{"nats":{"subject":"x"},"schedule":{"at":%q},"payload":%q,"labels":{%s}}`, testNow.Add(in).Format(time.RFC3339), name, labels)}, 201, &j)
		return schema.RunID(j.ID)
	}
	became := func(id schema.RunID, state schema.State, late time.Duration) {
		b.mu.Lock()
		defer b.mu.Unlock()
		r := b.runs[id]
		r.State = state
		if state == schema.StateMissed {
			return
		}
		at := r.Entry.Due().Add(late)
		r.Attempts = []schema.Attempt{{Run: id, Number: 1, Record: &schema.Record{Outcome: schema.Failed, Final: true, Started: at, Finished: at.Add(time.Second)}}}
	}
	became(add(0, "a", `"team":"x","env":"prod"`), schema.StateSucceeded, 2*time.Second)
	became(add(time.Hour, "b", `"team":"x"`), schema.StateFailed, 10*time.Second)
	became(add(12*time.Hour, "c", `"team":"y","env":"prod"`), schema.StateMissed, 0)
	add(23*time.Hour, "d", `"team":"x=y"`)
	for query, want := range map[string][]string{
		"":                                   {"a", "b", "c", "d"},
		"state=failed":                       {"b"},
		"state=failed&state=missed":          {"b", "c"},
		"state=missed&state=failed&limit=1":  {"b", "c"},
		"state=waiting":                      {},
		"label=team%3Dx":                     {"a", "b"},
		"label=team%3Dx&label=env%3Dprod":    {"a"},
		"label=team%3Dx%3Dy":                 {"d"},
		"label=team%3D":                      {},
		"late=5s":                            {"b", "c"},
		"late=1s&limit=1":                    {"a", "b", "c"},
		"late=5s&state=failed":               {"b"},
		"late=5s&label=env%3Dprod":           {"c"},
		"key=k-b":                            {"b"},
		"key=k-b&state=succeeded":            {},
		"label=team%3Dx&label=team%3Dx":      {"a", "b"},
		"state=failed&state=failed&limit=10": {"b"},
	} {
		got := runsListed(t, func(path string, v any) { doJSON(t, hs, call{method: "GET", path: path}, 200, v) }, aDay+"&"+query, payloadOf)
		if !slices.Equal(got, want) {
			t.Errorf("GET /v1/runs?%s = %q, want %q", query, got, want)
		}
	}
	var labelled struct{ Items []Run }
	if doJSON(t, hs, call{method: "GET", path: "/v1/runs?" + aDay + "&label=env%3Dprod&limit=1"}, 200, &labelled); labelled.Items[0].Labels["team"] != "x" {
		t.Errorf("a run is listed with the labels %v", labelled.Items[0].Labels)
	}
	// A cursor holds the question, however that is put.
	var page struct {
		NextCursor string `json:"next_cursor"`
	}
	doJSON(t, hs, call{method: "GET", path: "/v1/runs?" + aDay + "&state=failed&state=missed&late=5s&label=team%3Dx&limit=1"}, 200, &page)
	cursor := "&cursor=" + url.QueryEscape(page.NextCursor)
	doJSON(t, hs, call{method: "GET", path: "/v1/runs?" + aDay + "&state=missed&state=failed&late=5000ms&label=team%3Dx&limit=1" + cursor}, 200, nil)
	for _, other := range []string{"", "&state=failed", "&state=failed&state=missed&late=6s&label=team%3Dx", "&state=failed&state=missed&late=5s&label=team%3Dy", "&state=failed&state=missed&late=5s&label=team%3Dx&key=k"} {
		p := doProblem(t, hs, call{method: "GET", path: "/v1/runs?" + aDay + other + cursor}, 422)
		if len(p.Errors) != 1 || p.Errors[0].Location != "query.cursor" {
			t.Errorf("the cursor of another question: %+v", p.Errors)
		}
	}
}

// TestRunsAreListedByHost: by the call that a run states, or by what its task says now.
func TestRunsAreListedByHost(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	doJSON(t, hs, call{method: "PUT", path: "/v1/tasks/mail", body: `{"http":{"url":"https://API.example.com:8443/v1?key=hush"}}`}, 201, nil)
	ids := make(map[string]schema.JobID)
	for i, work := range []string{
		`"http":{"url":"https://api.example.com:8443/a","method":"PUT"}`, `"task":"mail"`, `"http":{"url":"https://api.example.com/"}`, `"nats":{"subject":"x"}`,
	} {
		var j Job
		name := fmt.Sprint(i)
		doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: fmt.Sprintf(`{%s,"schedule":{"at":%q},"payload":%q}`, work, testNow.Add(time.Duration(i)*time.Minute).Format(time.RFC3339), name)}, 201, &j)
		ids[name] = j.ID
	}
	for query, want := range map[string][]string{
		"host=api.example.com:8443":           {"0", "1"},
		"host=Api.Example.com:8443&limit=1":   {"0", "1"},
		"host=api.example.com":                {"2"},
		"host=other.example":                  {},
		"host=api.example.com:8443&task=mail": {"1"},
	} {
		got := runsListed(t, func(path string, v any) { doJSON(t, hs, call{method: "GET", path: path}, 200, v) }, aDay+"&"+query, payloadOf)
		if !slices.Equal(got, want) {
			t.Errorf("GET /v1/runs?%s = %q, want %q", query, got, want)
		}
	}
	for _, host := range []string{"https%3A%2F%2Fapi.example.com", "a%2Fb", "u%40h"} {
		if p := doProblem(t, hs, call{method: "GET", path: "/v1/runs?" + aDay + "&host=" + host}, 422); len(p.Errors) != 1 || p.Errors[0].Location != "query.host" {
			t.Errorf("host=%s: %+v", host, p.Errors)
		}
	}
	for name, want := range map[string]string{"0": "PUT https://api.example.com:8443/a", "1": "POST https://API.example.com:8443/v1", "3": "NATS x"} {
		var run Run
		if doJSON(t, hs, call{method: "GET", path: "/v1/runs/" + ids[name].String()}, 200, &run); run.Calls != want {
			t.Errorf("the run %s calls %q, want %q", name, run.Calls, want)
		}
	}
}

func payloadOf(r *Run) string {
	var s string
	_ = json.Unmarshal(r.Payload, &s)
	return s
}

func TestFaultsOfListsOfRuns(t *testing.T) {
	b := newStub()
	run := started(t, b, etl)
	hs := serve(t, b)
	step := "workflow_run=" + run.ID.String()
	for query, want := range map[string]string{
		"":     "query.from query.to",
		"to=x": "query.to",
		"from=2026-11-21T09:00:00Z&to=2026-11-22T09:00:00.001Z": "query.to",
		"from=2026-11-21T09:00:00Z&to=2026-11-21T09:00:00Z":     "query.to",
		aDay + "&state=done":                                            "query.state",
		aDay + "&state=failed&state=done":                               "query.state",
		aDay + "&state=&state=failed":                                   "query.state",
		aDay + "&task=a&task=b":                                         "query.task",
		aDay + "&state=failed,missed":                                   "query.state",
		aDay + "&label=team&label=%3Dx":                                 "query.label",
		aDay + "&label=a%3D1&label=a%3D2":                               "query.label",
		aDay + "&label=" + strings.Repeat("a%3D1&label=", 16) + "a%3D1": "query.label",
		aDay + "&late=5":                                                "query.late",
		aDay + "&late=-5s":                                              "query.late",
		aDay + "&late=5d&task=A%20b&label=x":                            "query.label query.late query.task",
		aDay + "&key=" + strings.Repeat("a", 129):                       "query.key",
		aDay + "&key=%00":                                               "query.key",
		aDay + "&key=k&at=2026-11-21T09:00:00Z":                         "query.at",
		aDay + "&step=a":                                                "query.step",
		"at=2026-11-21T09:00:00Z":                                       "query.at query.from query.to",
		"key=k&state=failed&job=n&label=a%3D1&late=1s&task=t&step=a":    "query.job query.label query.late query.state query.step query.task",
		"key=k&cursor=AAAA":                                             "query.cursor",
		"key=k&at=nonsense":                                             "query.at",
		"key=k&from=2026-11-21T09:00:00Z":                               "query.to",
		"event=x&" + aDay + "&state=failed&label=a%3D1&late=1s&key=k":   "query.event query.from query.key query.label query.late query.state query.to",
		"workflow_run=x":                                                "query.workflow_run",
		step + "&step=A%20b":                                            "query.step",
		step + "&step=none":                                             "query.step",
		step + "&cursor=AAAA":                                           "query.cursor",
		step + "&" + aDay + "&task=t&job=n&label=a%3D1&key=k":           "query.from query.job query.key query.label query.task query.to",
		step + "&event=" + run.ID.String():                              "query.workflow_run",
	} {
		p := doProblem(t, hs, call{method: "GET", path: "/v1/runs?" + query}, 422)
		var at []string
		for _, e := range p.Errors {
			at = append(at, e.Location)
		}
		slices.Sort(at)
		if got := strings.Join(slices.Compact(at), " "); got != want {
			t.Errorf("GET /v1/runs?%s has the faults %q (%+v), want %q", query, got, p.Errors, want)
		}
	}
	var one Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &one)
	for _, query := range []string{"workflow_run=" + one.ID.String(), "workflow_run=0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60", "event=0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60"} {
		doProblem(t, hs, call{method: "GET", path: "/v1/runs?" + query}, 404)
	}
	for _, path := range []string{"/v1/jobs/n/runs?state=x", "/v1/workflows/w/runs?state=stuck", "/v1/workflows/w/runs?state=failed&state=x"} {
		doProblem(t, hs, call{method: "GET", path: path}, 422)
	}
	// Events are listed by the hour, as before.
	doProblem(t, hs, call{method: "GET", path: "/v1/events?from=2026-11-21T09:00:00Z&to=2026-11-21T10:00:01Z"}, 422)
}

func TestRunOfKey(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	var j Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody, header: http.Header{keyHeader: {`"order 7&8"`}}}, 201, &j)
	for query, want := range map[string]int{
		"key=order+7%268":                                1,
		"key=order+7%268&limit=1":                        1,
		"key=order+7%268&at=2026-11-21T10:00:00Z":        1,
		"key=order+7%268&at=2026-11-21T11:00:00%2B01:00": 1,
		"key=order+7%268&at=2026-11-21T10:00:01Z":        0,
		"key=order": 0,
	} {
		var page struct {
			Items      []Run
			NextCursor string `json:"next_cursor"`
		}
		doJSON(t, hs, call{method: "GET", path: "/v1/runs?" + query}, 200, &page)
		if page.Items == nil || len(page.Items) != want || want == 1 && page.Items[0].ID != schema.RunID(j.ID) || page.NextCursor != "" {
			t.Errorf("GET /v1/runs?%s = %+v, want %d of %s", query, page, want, j.ID)
		}
	}
	var none struct{ Items []Run }
	if doJSON(t, hs, call{method: "GET", path: "/v1/runs?key=order+7%268", header: http.Header{tenantHeader: {"other"}}}, 200, &none); len(none.Items) != 0 {
		t.Errorf("another tenant finds %+v by the key", none.Items)
	}
	c := clientOf(t, hs.URL)
	if run, found, err := c.RunOfKey(t.Context(), "order 7&8", time.Time{}); err != nil || !found || run.ID != schema.RunID(j.ID) {
		t.Errorf("RunOfKey = %+v, %t, %v; want %s", run, found, err, j.ID)
	}
	if run, found, err := c.RunOfKey(t.Context(), "order 7&8", testNow); err != nil || found {
		t.Errorf("RunOfKey at another instant = %+v, %t, %v; want none", run, found, err)
	}
	if _, found, err := c.RunOfKey(t.Context(), strings.Repeat("a", 200), time.Time{}); err == nil || found {
		t.Errorf("RunOfKey of a key that is too long = %t, %v; want its fault", found, err)
	}
}

func TestRunsOfStepsAreListed(t *testing.T) {
	b := newStub()
	run := started(t, b, etl)
	hs := serve(t, b)
	steps := b.begun(t, run.ID)
	for i, state := range []schema.State{schema.StateSucceeded, schema.StateFailed} {
		s := &steps.view.Steps[i]
		s.Run, s.State = schema.MakeStepID(run.ID, i, i*7), state
	}
	first, item := schema.MakeStepID(run.ID, 0, 0).String(), schema.MakeStepID(run.ID, 1, 7).String()
	get := func(path string, v any) { doJSON(t, hs, call{method: "GET", path: path}, 200, v) }
	id := func(r *Run) string {
		if r.WorkflowRunID != run.ID || r.Step == "" {
			t.Errorf("a run of a step is %+v, want its workflow run and its name", r)
		}
		return r.ID.String()
	}
	for query, want := range map[string][]string{
		"":                              {first, item},
		"&limit=1":                      {first, item},
		"&step=transform":               {item},
		"&step=rest":                    {},
		"&state=failed&state=running":   {item},
		"&state=succeeded&step=extract": {first},
		"&late=1h":                      {},
	} {
		if got := runsListed(t, get, "workflow_run="+run.ID.String()+query, id); !slices.Equal(got, want) {
			t.Errorf("GET /v1/runs?workflow_run=…%s = %q, want %q", query, got, want)
		}
	}
	var page struct{ Items []Run }
	get("/v1/runs?workflow_run="+run.ID.String()+"&step=transform", &page)
	if it := page.Items[0]; it.Item == nil || *it.Item != 6 || it.Step != "transform" {
		t.Errorf("an item is listed as %+v, want item 6 of transform", it)
	}
	var got []string
	for r, err := range clientOf(t, hs.URL).StepRuns(t.Context(), run.ID, "", RunQuery{States: []schema.State{schema.StateFailed}, Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.ID.String())
	}
	if !slices.Equal(got, []string{item}) {
		t.Errorf("StepRuns that failed = %q, want %s", got, item)
	}
}

// A step that waits is shown as waiting, with what it waits for.
func TestRunOfAStepThatWaits(t *testing.T) {
	id := schema.MakeStepID(schema.MakeEntryID(testNow, 3, 7), 1, 0)
	for reason, wait := range map[string]schema.StepWait{
		"event: it waits for the event approved":        {Event: "approved"},
		"time: it waits until 2026-11-22T09:30:00.000Z": {Until: testNow.Add(24 * time.Hour)},
	} {
		e := schema.Entry{ID: id, Spec: schema.Spec{Tenant: "t", Step: &schema.Step{Name: "rest", Due: testNow, Wait: &wait}}}
		for state, want := range map[schema.State]schema.State{schema.StatePending: schema.StateWaiting, schema.StateSucceeded: schema.StateSucceeded} {
			run := runs.Run{ID: id, Entry: e, Current: e, State: state}
			shown := runOf(&run, nil, testNow)
			if shown.State != want || (shown.Waiting != nil) != (want == schema.StateWaiting) || shown.Waiting != nil && (shown.Waiting.Reason != reason || !shown.Waiting.Since.Equal(testNow)) {
				t.Errorf("a %s step that waits is shown as %s, %+v; want %s, %q", state, shown.State, shown.Waiting, want, reason)
			}
		}
	}
}

// clientOf returns a client that speaks for the default tenant.
func clientOf(t *testing.T, api string) *Client {
	t.Helper()
	c, err := NewClient(ClientConfig{URLs: []string{api}, MaxWait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A window that is longer than a day is asked for by the day.
func TestClientListsRunsByTheDay(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	c := clientOf(t, hs.URL)
	for i := range 5 {
		doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: fmt.Sprintf(
			`{"nats":{"subject":"x"},"schedule":{"at":%q},"payload":"%d","labels":{"n":"%d"}}`, testNow.Add(time.Duration(i)*20*time.Hour).Format(time.RFC3339), i, i%2)}, 201, nil)
	}
	for _, row := range []struct {
		query RunQuery
		want  string
	}{
		{RunQuery{}, "01234"},
		{RunQuery{Limit: 1}, "01234"},
		{RunQuery{Labels: map[string]string{"n": "1"}}, "13"},
		{RunQuery{States: []schema.State{schema.StatePending, schema.StateFailed}, Limit: 2}, "01234"},
		{RunQuery{States: []schema.State{schema.StateFailed}}, ""},
		{RunQuery{Late: time.Second}, ""},
		{RunQuery{Key: "k"}, ""},
	} {
		row.query.From, row.query.To = testNow, testNow.Add(90*time.Hour)
		got := ""
		for r, err := range c.Runs(t.Context(), row.query) {
			if err != nil {
				t.Fatal(err)
			}
			got += payloadOf(&r)
		}
		if got != row.want {
			t.Errorf("Runs(%+v) = %s, want %s", row.query, got, row.want)
		}
	}
}
