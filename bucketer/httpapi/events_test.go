package httpapi

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/events"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

func TestPublishEvents(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	key := http.Header{"Idempotency-Key": {"k"}}
	post := call{method: "POST", path: "/v1/events/file.uploaded", body: `{"region":"eu"}`, header: key}
	var first, again EventReceipt
	doJSON(t, hs, post, 202, &first)
	doJSON(t, hs, post, 202, &again)
	if first.ID.IsZero() || again != first {
		t.Errorf("published %v, then with the same key %v", first, again)
	}
	post.body = `{"region":"us"}`
	doProblem(t, hs, post, 422)
	for _, body := range []string{`null`, `[1,2]`, `"text"`, `7`} {
		doJSON(t, hs, call{method: "POST", path: "/v1/events/any", body: body}, 202, new(EventReceipt))
	}
	var page struct {
		Items      []Event
		NextCursor string `json:"next_cursor"`
	}
	window := "from=" + testNow.Add(-time.Minute).Format(time.RFC3339) + "&to=" + testNow.Add(time.Minute).Format(time.RFC3339)
	doJSON(t, hs, call{method: "GET", path: "/v1/events?limit=2&name=any&" + window}, 200, &page)
	if len(page.Items) != 2 || page.NextCursor == "" || page.Items[0].Name != "any" || string(page.Items[1].Body) != `[1,2]` {
		t.Fatalf("first page = %+v", page)
	}
	cursor := page.NextCursor
	page.Items, page.NextCursor = nil, ""
	doJSON(t, hs, call{method: "GET", path: "/v1/events?limit=2&name=any&" + window + "&cursor=" + cursor}, 200, &page)
	if len(page.Items) != 2 || string(page.Items[1].Body) != `7` {
		t.Errorf("second page = %+v", page)
	}
}

func TestBadEventsAreRefused(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	for _, row := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"/v1/events/a", ``, 400, ""},
		{"/v1/events/a", `{`, 400, ""},
		{"/v1/events/A%20b", `1`, 422, "path.name"},
		{"/v1/events/run.failed", `1`, 422, "an event of the system"},
		{"/v1/events/workflow.stuck", `1`, 422, "an event of the system"},
		{"/v1/events/a", `"` + strings.Repeat("x", schema.MaxPayload) + `"`, 422, "at most 65536 bytes"},
		{"/v1/events/a", `{"a":1,"a":2}`, 422, "twice"},
	} {
		p := doProblem(t, hs, call{method: "POST", path: row.path, body: row.body}, row.status)
		text, _ := json.Marshal(p)
		if !strings.Contains(string(text), row.says) {
			t.Errorf("POST %s %.20s: %s, want it to say %q", row.path, row.body, text, row.says)
		}
	}
	for _, path := range []string{
		"/v1/events", "/v1/events?from=2026-11-21T09:00:00Z&to=2026-11-21T11:00:00Z", "/v1/events?from=2026-11-21T09:00:00Z&to=2026-11-21T09:30:00Z&name=A",
		"/v1/runs", "/v1/runs?event=x", "/v1/runs?event=0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60&state=failed", "/v1/runs?event=0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60&cursor=x",
	} {
		doProblem(t, hs, call{method: "GET", path: path}, 422)
	}
	doProblem(t, hs, call{method: "GET", path: "/v1/runs?event=0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60"}, 404)
}

func TestRunsOfAnEvent(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	var e EventReceipt
	doJSON(t, hs, call{method: "POST", path: "/v1/events/a", body: `1`}, 202, &e)
	all := make([]runs.Run, 5)
	for i := range all {
		id := schema.MakeEntryID(testNow, 1, uint64(100+i))
		spec := schema.Spec{Tenant: defaultTenant, Trigger: schema.TriggerEvent, Event: &schema.Event{Name: "a", ID: e.ID}, Job: schema.MakeJobID(testNow, 1, uint64(i))}
		all[i] = runs.Run{ID: id, Entry: schema.Entry{ID: id, Spec: spec}, State: schema.StatePending}
	}
	b.mu.Lock()
	b.events.runs = map[schema.EntryID][]runs.Run{e.ID: all}
	b.mu.Unlock()
	var seen []schema.RunID
	for path := "/v1/runs?limit=2&event=" + e.ID.String(); ; {
		var page struct {
			Items      []Run
			NextCursor string `json:"next_cursor"`
		}
		doJSON(t, hs, call{method: "GET", path: path}, 200, &page)
		for _, r := range page.Items {
			if r.Event == nil || r.Event.ID != e.ID || r.Event.Name != "a" || r.Trigger != schema.TriggerEvent {
				t.Errorf("run = %+v, want one of the event", r)
			}
			seen = append(seen, r.ID)
		}
		if page.NextCursor == "" {
			break
		}
		path = "/v1/runs?limit=2&event=" + e.ID.String() + "&cursor=" + page.NextCursor
	}
	if len(seen) != len(all) || seen[0] != all[0].ID || seen[4] != all[4].ID {
		t.Errorf("runs = %v", seen)
	}
}

// Jobs and workflows say which events they run on.
func TestJobsOnEvents(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	var job Job
	doJSON(t, hs, call{method: "PUT", path: "/v1/jobs/j", body: `{"http":{"url":"http://x.test/"},"on":{"event":"a","filter":"event.n > 1","delay":"5s"}}`}, 201, &job)
	if job.On == nil || job.On.Event != "a" || job.On.Filter != "event.n > 1" || job.On.Delay.Std() != 5*time.Second || !reflect.ValueOf(job.Schedule).IsZero() {
		t.Errorf("job = %+v", job)
	}
	job = Job{}
	doJSON(t, hs, call{method: "PATCH", path: "/v1/jobs/j", body: `{"on":{"delay":null},"labels":{"a":"b"}}`}, 200, &job)
	if job.On == nil || job.On.Event != "a" || job.On.Delay != 0 {
		t.Errorf("patched job = %+v", job.On)
	}
	var w Workflow
	doJSON(t, hs, call{method: "PUT", path: "/v1/workflows/w", body: `{"on":{"event":"b"},"steps":[{"name":"s","wait":{"event":"c","filter":"event.x == input.x","deadline":"1h"}}]}`}, 201, &w)
	if w.On == nil || w.On.Event != "b" || w.Schedule != nil || w.Steps[0].Wait.Event != "c" {
		t.Errorf("workflow = %+v", w)
	}
	for body, location := range map[string]string{
		`{"http":{"url":"http://x.test/"},"on":{"event":"a"},"schedule":{"every":"1m"}}`: "body",
		`{"http":{"url":"http://x.test/"},"on":{"event":"a"},"jitter":"1s"}`:             "body.jitter",
		`{"http":{"url":"http://x.test/"},"on":{"filter":"true"}}`:                       "body.on.event",
		`{"http":{"url":"http://x.test/"},"on":{"event":"A"}}`:                           "body.on.event",
		`{"http":{"url":"http://x.test/"},"on":{"event":"a","filter":"event +"}}`:        "body.on.filter",
		`{"http":{"url":"http://x.test/"},"on":{"event":"a","delay":"-1s"}}`:             "body.on.delay",
		`{"http":{"url":"http://x.test/"},"on":{"event":"a","more":1}}`:                  "body.on.more",
		`{"http":{"url":"http://x.test/"},"on":7}`:                                       "body.on",
	} {
		p := doProblem(t, hs, call{method: "PUT", path: "/v1/jobs/k", body: body}, 422)
		if len(p.Errors) == 0 || p.Errors[0].Location != location {
			t.Errorf("%s: %+v, want a fault at %s", body, p.Errors, location)
		}
	}
}

// Who published an event is in the log, within the budget of the caller: what is left out is counted.
// What a key had made before is not noted again.
func TestPublishedEventsAreNoted(t *testing.T) {
	b, o := newStub(), newAdminStub()
	clock := testNow
	hs := serve(t, b, o.desk, func(c *Config, _ *Deps) { c.Now = func() time.Time { return clock } })
	o.key("a/operator", "b/operator")
	publish := func(tenant, key string) string {
		t.Helper()
		header := bearer(secret(tenant + "/operator"))
		if key != "" {
			header.Set("Idempotency-Key", key)
		}
		var made EventReceipt
		doJSON(t, hs, call{method: "POST", path: "/v1/events/approved", body: `{"by":"hush"}`, header: header}, 202, &made)
		return made.ID.String()
	}
	first := publish("a", "k")
	publish("a", "k")
	if got, want := said(t, o), "a operator-key publish event/approved [null,null] event "+first+"\n"; got != want {
		t.Errorf("noted was\n%swant\n%s", got, want)
	}
	for range eventBurst - 1 + 5 {
		publish("a", "")
	}
	if got := strings.Count(said(t, o), "\n"); got != eventBurst-1 {
		t.Errorf("%d more entries of %d events at once, want %d", got, eventBurst+5, eventBurst-1)
	}
	publish("b", "")
	if got := said(t, o); !strings.Contains(got, "b operator-key publish event/approved") {
		t.Errorf("another caller's event is not noted:\n%s", got)
	}
	clock = clock.Add(eventEvery)
	last := publish("a", "")
	if got, want := said(t, o), "event "+last+"; 5 more were published since the entry before that are not in the log\n"; !strings.HasSuffix(got, want) {
		t.Errorf("the last entry of\n%sis not %q", got, want)
	}
}

func TestWhoHearsAnEvent(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	var found EventHearers
	doJSON(t, hs, call{method: "GET", path: "/v1/events/approved/hearers"}, 200, &found)
	if found.Jobs == nil || found.Steps == nil || len(found.Jobs)+len(found.Steps) != 0 || found.More {
		t.Errorf("hearers of what nobody waits for = %+v, want empty lists", found)
	}
	doProblem(t, hs, call{method: "GET", path: "/v1/events/A%20b/hearers"}, 422)

	for _, name := range []string{"release", "other", "none"} {
		event := map[string]string{"release": "approved", "other": "approved", "none": "never"}[name]
		doJSON(t, hs, call{method: "PUT", path: "/v1/workflows/" + name, body: `{"steps":[{"name":"ok","wait":{"event":"` + event + `"}},{"name":"more","wait":{"event":"` + event + `"}}]}`}, 201, nil)
	}
	run := schema.MakeEntryID(testNow, 1, 1)
	waiting := func(of schema.RunID, step int, name, workflow string) events.Waiting {
		id := schema.MakeStepID(of, step, 0)
		spec := schema.Spec{Step: &schema.Step{Workflow: of, Name: name, Due: testNow, Wait: &schema.StepWait{Event: "approved", Filter: "event.ok"}}}
		return events.Waiting{Workflow: workflow, Step: runs.Run{ID: id, Entry: schema.Entry{ID: id, Spec: spec}}}
	}
	job := created(t, b, `{"name":"listener","on":{"event":"approved","filter":"event.x == 1"},"nats":{"subject":"a"}}`)
	stored, err := b.JobByID(t.Context(), defaultTenant, job.ID)
	if err != nil {
		t.Fatal(err)
	}
	b.events.hearers = map[string]events.Hearers{"approved": {
		Jobs: []schema.Job{stored}, More: true,
		Steps: []events.Waiting{
			waiting(run, 0, "ok", "release"), waiting(run, 1, "more", "release"), waiting(schema.MakeEntryID(testNow, 1, 2), 0, "ok", "release"),
		},
	}}
	doJSON(t, hs, call{method: "GET", path: "/v1/events/approved/hearers"}, 200, &found)
	if len(found.Jobs) != 1 || found.Jobs[0] != (EventJob{ID: job.ID, Name: "listener", Kind: "job", Filter: "event.x == 1"}) || !found.More {
		t.Errorf("jobs that hear = %+v, more %v; want the one, and that there are more", found.Jobs, found.More)
	}
	want := EventStep{RunID: schema.MakeStepID(run, 0, 0), WorkflowRunID: run, Workflow: "release", Step: "ok", Filter: "event.ok", Since: Time{testNow}}
	if len(found.Steps) != 3 || found.Steps[0] != want {
		t.Errorf("steps that hear = %+v, want three, the first %+v", found.Steps, want)
	}

	var page struct{ Items []Workflow }
	doJSON(t, hs, call{method: "GET", path: "/v1/workflows?waiting=true"}, 200, &page)
	got := make(map[string][]WorkflowWaiting)
	for _, w := range page.Items {
		got[w.Name] = w.Waiting
	}
	if len(got) != 3 || len(got["release"]) != 1 || got["release"][0] != (WorkflowWaiting{Event: "approved", Runs: 2, More: true}) || got["other"] != nil || got["none"] != nil {
		t.Errorf("what waits = %+v, want two runs of release alone", got)
	}
	page.Items = nil
	doJSON(t, hs, call{method: "GET", path: "/v1/workflows"}, 200, &page)
	for _, w := range page.Items {
		if w.Waiting != nil {
			t.Errorf("%s says what waits, though nobody asked", w.Name)
		}
	}
}
