package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

const etl = `{"schedule":{"cron":"0 2 * * *","timezone":"Europe/Berlin"},"deadline":"3h","payload":{"date":1},"labels":{"team":"data"},"steps":[
	{"name":"extract","http":{"url":"http://x.test/e","headers":{"k":"hush"}},"payload":{"date":{"$input":"/date"}}},
	{"name":"transform","after":["extract"],"for_each":{"from":"extract","pointer":"/files","max_concurrent":2},"nats":{"subject":"a"},"payload":{"file":{"$item":""}}},
	{"name":"rest","after":["transform"],"wait":{"for":"1h"}},
	{"name":"alert","after":["rest"],"when":"any_failed","nats":{"subject":"b"}}]}`

// small is a workflow of one step and no schedule.
const small = `{"steps":[{"name":"a","nats":{"subject":"a"}}]}`

// putWorkflow makes a workflow.
func putWorkflow(t *testing.T, b *stub, name, body string) Workflow {
	t.Helper()
	hs := serve(t, b)
	var made Workflow
	doJSON(t, hs, call{method: "PUT", path: "/v1/workflows/" + name, body: body}, 201, &made)
	return made
}

func TestWorkflowIsPutAndRead(t *testing.T) {
	hs := serve(t, newStub())
	put := call{method: "PUT", path: "/v1/workflows/etl", body: etl}
	var made, read Workflow
	header := doJSON(t, hs, put, 201, &made)
	if header.Get("Location") != "/v1/workflows/etl" || header.Get("ETag") != fmt.Sprintf(`"%d"`, made.Generation) {
		t.Errorf("PUT answers Location %q and ETag %q, want the workflow's", header.Get("Location"), header.Get("ETag"))
	}
	work := func(w schema.Work) *schema.Work {
		w = w.InForce()
		return &w
	}
	tenSeconds := schema.Duration(10 * time.Second)
	want := Workflow{
		ID: made.ID, Tenant: "default", Name: "etl", Jitter: &tenSeconds, Misfire: JobMisfire{Policy: "run_latest"}, Priority: schema.Normal,
		Schedule: &JobSchedule{Cron: "0 2 * * *", Timezone: "Europe/Berlin", Gap: "run", OverlapHour: "first"},
		Deadline: schema.Duration(3 * time.Hour), Payload: []byte(`{"date":1}`), Labels: map[string]string{"team": "data"},
		Steps: []workflow.Step{
			{Name: "extract", Work: work(schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/e", Headers: map[string]string{"k": "hush"}}}), Payload: []byte(`{"date":{"$input":"/date"}}`)},
			{
				Name: "transform", After: []string{"extract"}, When: workflow.AllSucceeded, Work: work(schema.Work{NATS: &schema.NATSTarget{Subject: "a"}}),
				ForEach: &workflow.ForEach{From: "extract", Pointer: "/files", MaxConcurrent: 2}, Payload: []byte(`{"file":{"$item":""}}`),
			},
			{Name: "rest", After: []string{"transform"}, When: workflow.AllSucceeded, Wait: &workflow.Wait{For: schema.Duration(time.Hour)}},
			{Name: "alert", After: []string{"rest"}, When: workflow.AnyFailed, Work: work(schema.Work{NATS: &schema.NATSTarget{Subject: "b"}})},
		},
		State: "active", Generation: made.Generation, NextRun: made.NextRun, CreatedAt: Time{testNow}, UpdatedAt: Time{testNow},
	}
	if diff := cmp.Diff(want, made); diff != "" || made.NextRun == nil {
		t.Errorf("PUT answers the next run %v and (-want +got):\n%s", made.NextRun, diff)
	}
	for _, name := range []string{"etl", made.ID.String()} {
		doJSON(t, hs, call{method: "GET", path: "/v1/workflows/" + name}, 200, &read)
		if diff := cmp.Diff(made, read); diff != "" {
			t.Errorf("GET by %s (-put +got):\n%s", name, diff)
		}
	}
	// What is answered can be put again.
	text, err := json.Marshal(map[string]any{"steps": made.Steps, "deadline": made.Deadline})
	if err != nil {
		t.Fatal(err)
	}
	read = Workflow{}
	doJSON(t, hs, call{method: "PUT", path: "/v1/workflows/etl", body: string(text), header: http.Header{"If-Match": {header.Get("ETag")}}}, 200, &read)
	if diff := cmp.Diff(made.Steps, read.Steps); diff != "" || read.ID != made.ID || read.Generation <= made.Generation || read.Schedule != nil {
		t.Errorf("PUT of what was answered is %+v (-was +is):\n%s", read, diff)
	}
	put.header = http.Header{"If-Match": {header.Get("ETag")}}
	if p := doProblem(t, hs, put, 412); p.Kind() != "stale" {
		t.Errorf("PUT with an ETag that is past: %+v, want stale", p)
	}
	put.path, put.header = "/v1/workflows/none", http.Header{"If-Match": {"*"}}
	doProblem(t, hs, put, 412)
	doProblem(t, hs, call{method: "GET", path: "/v1/workflows/none"}, 404)
	doProblem(t, hs, call{method: "GET", path: "/v1/workflows/" + made.ID.String(), header: http.Header{tenantHeader: {"acme"}}}, 404)
	doProblem(t, hs, call{method: "GET", path: "/v1/workflows/A%20b"}, 422)
	doProblem(t, hs, call{method: "PUT", path: "/v1/workflows/" + made.ID.String(), body: small}, 422)
}

// A workflow that somebody else changes meanwhile is not replaced by who saw it before.
func TestWorkflowIsPutIfItIsAsItWas(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	tag := doJSON(t, hs, call{method: "PUT", path: "/v1/workflows/w", body: small}, 201, nil).Get("ETag")
	b.jobs.onChange = func(j *schema.Job) {
		b.jobs.onChange = nil
		j.Current.Number++
	}
	if p := doProblem(t, hs, call{method: "PUT", path: "/v1/workflows/w", body: etl, header: http.Header{"If-Match": {tag}}}, 412); p.Kind() != "stale" {
		t.Errorf("PUT after another change: %+v, want stale", p)
	}
}

// A workflow without a schedule or a deadline says so, and is run when it is asked to.
func TestWorkflowWithoutASchedule(t *testing.T) {
	hs := serve(t, newStub())
	var made Workflow
	doJSON(t, hs, call{method: "PUT", path: "/v1/workflows/w", body: small}, 201, &made)
	if made.Schedule != nil || made.NextRun != nil || made.Deadline.Std() != 7*24*time.Hour {
		t.Errorf("it has schedule %v, next run %v and deadline %v; want neither, and 168h", made.Schedule, made.NextRun, made.Deadline)
	}
	var next struct{ Items []NextRun }
	doJSON(t, hs, call{method: "GET", path: "/v1/workflows/w/upcoming"}, 200, &next)
	if next.Items == nil || len(next.Items) != 0 {
		t.Errorf("its upcoming runs are %v, want none", next.Items)
	}
	doJSON(t, hs, call{method: "PUT", path: "/v1/workflows/w", body: etl}, 200, nil)
	doJSON(t, hs, call{method: "GET", path: "/v1/workflows/w/upcoming?count=3"}, 200, &next)
	if len(next.Items) != 3 {
		t.Errorf("with a schedule its upcoming runs are %v, want three", next.Items)
	}
}

func TestFaultsOfAWorkflowAreNamed(t *testing.T) {
	many := make([]string, 1001)
	for i := range many {
		many[i] = fmt.Sprintf(`{"name":"s%d","nats":{"subject":"a"}}`, i)
	}
	random := make([]byte, 45<<10)
	for i := range random {
		random[i] = byte(rand.N(256)) // #nosec G404 -- what no compression makes small
	}
	large := `"` + base64.StdEncoding.EncodeToString(random) + `"`
	for name, row := range map[string]struct {
		body   string
		status int
		want   []string // locations
	}{
		"not JSON":          {`{"steps":[`, 400, nil},
		"no steps":          {`{}`, 422, []string{"body.steps"}},
		"no step":           {`{"steps":[]}`, 422, []string{"body.steps"}},
		"1,001 steps":       {`{"steps":[` + strings.Join(many, ",") + `]}`, 422, []string{"body.steps"}},
		"an unknown field":  {`{"steps":[{"name":"a","nats":{"subject":"a"},"x":1}],"y":2}`, 422, []string{"body.steps[0].x", "body.y"}},
		"an unknown step":   {`{"steps":[{"name":"a","after":["b"],"nats":{"subject":"a"}}]}`, 422, []string{"body.steps[0].after[0]"}},
		"a cycle":           {`{"steps":[{"name":"a","after":["b"],"nats":{"subject":"a"}},{"name":"b","after":["a"],"nats":{"subject":"a"}}]}`, 422, []string{"body.steps[0].after[0]"}},
		"no work":           {`{"steps":[{"name":"a"}]}`, 422, []string{"body.steps[0]"}},
		"a URL":             {`{"steps":[{"name":"a","http":{"url":"x"}}]}`, 422, []string{"body.steps[0].http.url"}},
		"an expression":     {`{"steps":[{"name":"a","if":"1 +","nats":{"subject":"a"}}]}`, 422, []string{"body.steps[0].if"}},
		"a reference":       {`{"steps":[{"name":"a","nats":{"subject":"a"},"payload":{"$from":"z"}}]}`, 422, []string{"body.steps[0].payload.$from"}},
		"another name":      {`{"name":"v","steps":[{"name":"a","nats":{"subject":"a"}}]}`, 422, []string{"body.name"}},
		"an instant":        {`{"schedule":{"at":"2026-11-21T10:00:00Z"},"steps":[{"name":"a","nats":{"subject":"a"}}]}`, 422, []string{"body.schedule"}},
		"concurrency":       {`{"concurrency":{"limit":0},"steps":[{"name":"a","nats":{"subject":"a"}},{"name":"b","task":"none"}]}`, 422, []string{"body.concurrency.limit"}},
		"an event":          {`{"on":{"event":"E"},"steps":[{"name":"a","wait":{"event":"E"}}]}`, 422, []string{"body.on.event", "body.steps[0].wait.event"}},
		"tasks":             {`{"steps":[{"name":"a","task":"t"},{"name":"b","task":"none"},{"name":"c","task":"gone"},{"name":"d","task":"none"}]}`, 422, []string{"body.steps[1].task", "body.steps[2].task"}},
		"a body of 2 MiB":   {`{"steps":"` + strings.Repeat("a", 2<<20) + `"}`, 413, nil},
		"incompressible":    {`{"steps":[{"name":"a","nats":{"subject":"a"},"payload":` + large + `},{"name":"b","nats":{"subject":"a"},"payload":` + large + `}]}`, 413, nil},
		"a payload":         {`{"payload":"` + strings.Repeat("a", 65<<10) + `","steps":[{"name":"a","nats":{"subject":"a"}}]}`, 422, []string{"body.payload"}},
		"a control in name": {`{"steps":[{"name":"a\u0000","nats":{"subject":"a"}}]}`, 422, []string{"body.steps[0].name"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newStub()
			hs := serve(t, b)
			doJSON(t, hs, call{method: "PUT", path: "/v1/tasks/t", body: `{"nats":{"subject":"a"}}`}, 201, nil)
			for _, query := range []string{"", "?dry_run=true"} {
				p := doProblem(t, hs, call{method: "PUT", path: "/v1/workflows/w" + query, body: row.body}, row.status)
				var got []string
				for _, f := range p.Errors {
					if got = append(got, f.Location); f.Message == "" {
						t.Errorf("a fault at %s without a message", f.Location)
					}
				}
				slices.Sort(got)
				slices.Sort(row.want)
				if !slices.Equal(got, row.want) {
					t.Errorf("PUT%s: faults %+v, want them at %q", query, p.Errors, row.want)
				}
			}
			if len(b.jobs.byID) != 0 {
				t.Errorf("a workflow that was refused is there")
			}
		})
	}
}

// A dry run answers what would be, and changes nothing.
func TestDryRunOfAWorkflow(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	check := call{method: "PUT", path: "/v1/workflows/w?dry_run=true", body: etl}
	var would, is Workflow
	if h := doJSON(t, hs, check, 200, &would); would.Generation != 0 || would.State != "active" || !would.ID.IsZero() || len(would.Steps) != 4 || h.Get("Location") != "" || h.Get("ETag") != "" {
		t.Errorf("a dry run of a new workflow answers %+v, Location %q", would, h.Get("Location"))
	}
	if len(b.jobs.byID) != 0 {
		t.Fatal("a dry run made a workflow")
	}
	doJSON(t, hs, call{method: "PUT", path: "/v1/workflows/w", body: small}, 201, &is)
	doJSON(t, hs, call{method: "POST", path: "/v1/workflows/w/pause"}, 200, &is)
	would = Workflow{}
	doJSON(t, hs, check, 200, &would)
	if would.ID != is.ID || would.Generation != is.Generation || would.State != "paused" || len(would.Steps) != 4 || would.Deadline.Std() != 3*time.Hour {
		t.Errorf("a dry run of another definition answers %+v, want %s, paused, with the new steps", would, is.ID)
	}
	var after Workflow
	doJSON(t, hs, call{method: "GET", path: "/v1/workflows/w"}, 200, &after)
	if diff := cmp.Diff(is, after); diff != "" {
		t.Errorf("a dry run changed the workflow (-was +is):\n%s", diff)
	}
	check.header = http.Header{"If-Match": {`"1"`}}
	doProblem(t, hs, check, 412)
	created(t, b, `{"name":"j","nats":{"subject":"a"},"schedule":{"every":"15m"}}`)
	if p := doProblem(t, hs, call{method: "PUT", path: "/v1/workflows/j?dry_run=true", body: small}, 409); p.Kind() != "name-taken" {
		t.Errorf("a dry run under the name of a job: %+v, want name-taken", p)
	}
	doJSON(t, hs, call{method: "DELETE", path: "/v1/workflows/w"}, 200, nil)
	would = Workflow{}
	doJSON(t, hs, call{method: "PUT", path: "/v1/workflows/w?dry_run=true", body: small}, 200, &would)
	if would.Generation != 0 || would.State != "active" {
		t.Errorf("a dry run after a delete answers %+v, want a new one", would)
	}
}

// Jobs and workflows share names, and neither is found as the other.
func TestJobsAndWorkflowsAreApart(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	var w Workflow
	doJSON(t, hs, call{method: "PUT", path: "/v1/workflows/w", body: small}, 201, &w)
	j := created(t, b, `{"name":"j","nats":{"subject":"a"},"schedule":{"every":"15m"}}`)
	job := `{"nats":{"subject":"a"},"schedule":{"every":"15m"}}`
	for _, c := range []call{
		{method: "PUT", path: "/v1/jobs/w", body: job},
		{method: "PUT", path: "/v1/jobs/w", body: job, header: http.Header{"If-Match": {"*"}}},
		{method: "POST", path: "/v1/jobs", body: strings.Replace(job, "{", `{"name":"w",`, 1)},
		{method: "PUT", path: "/v1/workflows/j", body: small},
		{method: "PUT", path: "/v1/workflows/j", body: small, header: http.Header{"If-Match": {"*"}}},
		{method: "PUT", path: "/v1/jobs/w", body: job, header: http.Header{"If-Match": {`"1"`}}},
		{method: "PUT", path: "/v1/workflows/j", body: small, header: http.Header{"If-Match": {`"1"`}}},
	} {
		if p := doProblem(t, hs, c, 409); p.Kind() != "name-taken" || !strings.Contains(p.Detail, map[bool]string{true: "workflow", false: "job"}[strings.HasPrefix(c.path, "/v1/jobs")]) {
			t.Errorf("%s %s: %+v, want name-taken and by what", c.method, c.path, p)
		}
	}
	for _, row := range []struct{ paths, names []string }{
		{[]string{"/v1/jobs/", "a workflow"}, []string{"w", w.ID.String()}},
		{[]string{"/v1/workflows/", "no workflow"}, []string{"j", j.ID.String()}},
	} {
		for _, name := range row.names {
			for _, c := range []call{
				{method: "GET"},
				{method: "DELETE"},
				{method: "POST", path: "/pause"},
				{method: "POST", path: "/resume"},
				{method: "POST", path: "/trigger"},
				{method: "GET", path: "/runs"},
				{method: "GET", path: "/upcoming"},
			} {
				c.path = row.paths[0] + name + c.path
				if p := doProblem(t, hs, c, 404); !strings.Contains(p.Detail, row.paths[1]) {
					t.Errorf("%s %s: %+v, want that it is %s", c.method, c.path, p, row.paths[1])
				}
			}
		}
	}
	doProblem(t, hs, call{method: "PATCH", path: "/v1/jobs/w", body: `{}`}, 404)
	doProblem(t, hs, call{method: "GET", path: "/v1/workflows/j/graph"}, 404)
	for path, want := range map[string]string{"/v1/jobs": "j", "/v1/workflows": "w"} {
		var page struct {
			Items []struct {
				Name  string
				Steps []any
			}
		}
		doJSON(t, hs, call{method: "GET", path: path}, 200, &page)
		if len(page.Items) != 1 || page.Items[0].Name != want || page.Items[0].Steps != nil {
			t.Errorf("GET %s lists %+v, want %s alone, without steps", path, page.Items, want)
		}
	}
	for _, c := range b.jobs.byID {
		if c.Current.State != schema.JobActive {
			t.Errorf("%s is %s: it was changed as what it is not", c.Current.Spec.Name, c.Current.State)
		}
	}
}

func TestWorkflowsAreListed(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	for i := range 5 {
		body := strings.Replace(small, "{", fmt.Sprintf(`{"labels":{"n":"%d"},`, i%2), 1)
		doJSON(t, hs, call{method: "PUT", path: fmt.Sprintf("/v1/workflows/w-%d", i), body: body}, 201, nil)
		created(t, b, fmt.Sprintf(`{"name":"j-%d","nats":{"subject":"a"},"schedule":{"every":"15m"}}`, i))
	}
	doJSON(t, hs, call{method: "POST", path: "/v1/workflows/w-2/pause"}, 200, nil)
	for query, want := range map[string][]string{
		"": {"w-4", "w-3", "w-2", "w-1", "w-0"}, "state=paused": {"w-2"}, "label=n%3D1": {"w-3", "w-1"}, "name_prefix=w-0": {"w-0"}, "name_prefix=j": nil,
	} {
		var got []string
		for cursor := ""; ; {
			var page struct {
				Items      []Workflow
				NextCursor string `json:"next_cursor"`
			}
			doJSON(t, hs, call{method: "GET", path: "/v1/workflows?limit=2&" + query + cursor}, 200, &page)
			for _, w := range page.Items {
				got = append(got, w.Name)
			}
			if page.NextCursor == "" {
				break
			}
			doProblem(t, hs, call{method: "GET", path: "/v1/jobs?limit=2&" + query + "&cursor=" + page.NextCursor}, 422)
			cursor = "&cursor=" + page.NextCursor
		}
		if !slices.Equal(got, want) {
			t.Errorf("GET /v1/workflows?%s = %q, want %q", query, got, want)
		}
	}
	for _, query := range []string{"limit=0", "state=asleep", "label=x", "cursor=x", "task=a"} {
		doProblem(t, hs, call{method: "GET", path: "/v1/workflows?" + query}, 422)
	}
}

func TestWorkflowIsPausedResumedAndDeleted(t *testing.T) {
	hs := serve(t, newStub())
	doJSON(t, hs, call{method: "PUT", path: "/v1/workflows/w", body: etl}, 201, nil)
	for _, c := range []call{{method: "POST", path: "/pause"}, {method: "POST", path: "/resume"}, {method: "DELETE"}} {
		c.path, c.header = "/v1/workflows/w"+c.path, http.Header{"If-Match": {`"1"`}}
		doProblem(t, hs, c, 412)
	}
	doProblem(t, hs, call{method: "POST", path: "/v1/workflows/w/pause", body: `{"x":1}`}, 422)
	for _, step := range []struct {
		method, path, want string
		next               bool
	}{
		{"POST", "/pause", "paused", false},
		{"POST", "/pause", "paused", false},
		{"POST", "/resume", "active", true},
		{"POST", "/resume", "active", true},
		{"DELETE", "", "cancelled", false},
	} {
		var got Workflow
		header := doJSON(t, hs, call{method: step.method, path: "/v1/workflows/w" + step.path}, 200, &got)
		if got.State != step.want || (got.NextRun != nil) != step.next || len(got.Steps) != 4 || header.Get("ETag") == "" {
			t.Errorf("%s %s answers %s with %d steps, next run %v; want %s and four", step.method, step.path, got.State, len(got.Steps), got.NextRun, step.want)
		}
	}
}

func TestWorkflowIsTriggered(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	var w Workflow
	doJSON(t, hs, call{method: "PUT", path: "/v1/workflows/w", body: strings.Replace(small, "{", `{"payload":{"own":1},`, 1)}, 201, &w)
	trigger := call{method: "POST", path: "/v1/workflows/w/trigger"}
	for name, row := range map[string]struct{ body, want string }{
		"no body": {"", `{"own":1}`}, "an empty body": {`{}`, `{"own":1}`}, "null": {`{"payload":null}`, `{"own":1}`},
		"a payload": {`{"payload":{"day":7}}`, `{"day":7}`}, "a false one": {`{"payload":false}`, `false`},
	} {
		trigger.body = row.body
		var run Run
		header := doJSON(t, hs, trigger, 202, &run)
		if string(run.Payload) != row.want || run.JobID != w.ID || run.Workflow != "w" || run.Trigger != schema.TriggerManual || run.State != schema.StatePending {
			t.Errorf("%s: the run is %+v, want one of the workflow with the payload %s", name, run, row.want)
		}
		if header.Get("Location") != "/v1/runs/"+run.ID.String() {
			t.Errorf("%s: Location is %q", name, header.Get("Location"))
		}
	}
	// The payload is what the steps see.
	var told struct {
		ID      string
		Payload any
	}
	for body, want := range map[string]any{`{"payload":{"run":{"$run":"/id"}}}`: "id", `{"payload":{"run":{"$run":"/x"}}}`: map[string]any{"$run": "/x"}} {
		trigger.body = body
		doJSON(t, hs, trigger, 202, &told)
		if want == "id" {
			want = told.ID
		}
		if diff := cmp.Diff(map[string]any{"run": want}, told.Payload); diff != "" {
			t.Errorf("a trigger with %s (-want +got):\n%s", body, diff)
		}
	}
	keyed := call{method: "POST", path: trigger.path, body: `{"payload":1}`, header: http.Header{keyHeader: {"k"}}}
	var run, again Run
	doJSON(t, hs, keyed, 202, &run)
	if h := doJSON(t, hs, keyed, 202, &again); again.ID != run.ID || h.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the same key and body give %s, replayed %q; want %s", again.ID, h.Get("Idempotency-Replayed"), run.ID)
	}
	keyed.body = `{"payload":2}`
	if p := doProblem(t, hs, keyed, 422); p.Kind() != "key-reused" {
		t.Errorf("the same key with another payload: %+v, want key-reused", p)
	}
	// The run is durable also where it cannot be read.
	delete(b.runs, run.ID)
	keyed.body = `{"payload":1}`
	again = Run{}
	if doJSON(t, hs, keyed, 202, &again); again.ID != run.ID || again.Workflow != "w" || string(again.Payload) != "1" {
		t.Errorf("the run that cannot be read is answered %+v", again)
	}
	for name, body := range map[string]string{
		"an unknown field": `{"x":1}`, "no object": `[]`, "too large": `{"payload":"` + strings.Repeat("a", 65<<10) + `"}`,
	} {
		if p := doProblem(t, hs, call{method: "POST", path: trigger.path, body: body}, 422); len(p.Errors) == 0 {
			t.Errorf("%s: no fault is named", name)
		}
	}
	doProblem(t, hs, call{method: "POST", path: trigger.path, body: `{`}, 400)
	doJSON(t, hs, call{method: "DELETE", path: "/v1/workflows/w"}, 200, nil)
	if p := doProblem(t, hs, call{method: "POST", path: "/v1/workflows/" + w.ID.String() + "/trigger"}, 409); p.Kind() != "finished" {
		t.Errorf("a trigger after a delete: %+v, want finished", p)
	}
}

func TestGraphsAreDrawn(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	doJSON(t, hs, call{method: "PUT", path: "/v1/workflows/w", body: etl}, 201, nil)
	var run Run
	doJSON(t, hs, call{method: "POST", path: "/v1/workflows/w/trigger"}, 202, &run)
	steps := b.begun(t, run.ID)
	steps.view.Steps[0].State = schema.StateSucceeded
	steps.view.Steps[1].State, steps.view.Steps[1].Total = schema.StateRunning, 7
	steps.view.Steps[1].Items = map[schema.State]int{schema.StateSucceeded: 2, schema.StateFailed: 1, schema.StateRunning: 1}
	for _, path := range []string{"/v1/workflows/w/graph", "/v1/runs/" + run.ID.String() + "/graph"} {
		ofRun := strings.HasPrefix(path, "/v1/runs")
		var drawn workflow.Drawing
		doJSON(t, hs, call{method: "GET", path: path}, 200, &drawn)
		if len(drawn.Nodes) != 4 || len(drawn.Edges) != 3 || drawn.Nodes[1].Kind != "nats" {
			t.Errorf("GET %s = %+v, want the steps and what comes after what", path, drawn)
		}
		if got, want := []string{drawn.Nodes[0].State, drawn.Nodes[1].State}, []string{"succeeded", "running 3/7"}; ofRun != slices.Equal(got, want) {
			t.Errorf("GET %s shows the states %q", path, got)
		}
		for format, want := range map[string]string{"mermaid": "flowchart TD", "dot": "digraph", "tree": "└─ transform    nats a, for each"} {
			status, header, text := do(t, hs, call{method: "GET", path: path + "?format=" + format})
			if status != 200 || !bytes.Contains(text, []byte(want)) || header.Get("Content-Type") != "text/plain; charset=utf-8" || header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("GET %s as %s = %d %s of the type %q", path, format, status, text, header.Get("Content-Type"))
			}
			if bytes.Contains(text, []byte("running")) != ofRun || bytes.Contains(text, []byte("hush")) {
				t.Errorf("GET %s as %s shows\n%s", path, format, text)
			}
		}
		doProblem(t, hs, call{method: "GET", path: path + "?format=svg"}, 422)
	}
	var job Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &job)
	doProblem(t, hs, call{method: "GET", path: "/v1/runs/" + job.ID.String() + "/graph"}, 404)
	doProblem(t, hs, call{method: "GET", path: "/v1/workflows/none/graph"}, 404)
	steps.view.Graph = nil
	doProblem(t, hs, call{method: "GET", path: "/v1/runs/" + run.ID.String() + "/graph"}, 404)
}

// begun returns the steps of a workflow run, to be changed.
func (s *stub) begun(t *testing.T, id schema.RunID) *stubSteps {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[id].State = schema.StateRunning
	steps, err := s.stepsOf(s.runs[id])
	if err != nil {
		t.Fatal(err)
	}
	return steps
}
