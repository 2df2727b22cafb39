package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

// said returns what was noted, an act a line, with the object before and after as JSON.
func said(t *testing.T, o *adminStub) string {
	t.Helper()
	var b strings.Builder
	for _, a := range o.noted() {
		text, err := json.Marshal([]any{a.Before, a.After})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s %s %s %s %s\n", a.Tenant, a.Actor, a.Action, a.Object, text, a.Note)
	}
	return b.String()
}

// Every change is noted once, with who made it and without secrets; what changes nothing is not.
func TestChangesAreNoted(t *testing.T) {
	b, o := newStub(), newAdminStub()
	clock := testNow
	hs := serve(t, b, o.desk, func(c *Config, _ *Deps) { c.Now = func() time.Time { return clock } })
	o.key("a/operator")
	header := bearer(secret("a/operator"))
	ask := func(status int, method, path, body string) []byte {
		t.Helper()
		got, _, text := do(t, hs, call{method: method, path: path, body: body, header: header})
		if got != status {
			t.Fatalf("%s %s %s = %d %s, want %d", method, path, body, got, text, status)
		}
		return text
	}
	last := "" // what was noted last
	noted := func(what string, want ...string) {
		t.Helper()
		got := said(t, o)
		last = got
		if strings.Count(got, "\n") != len(want) {
			t.Errorf("%s: noted was\n%swant %d acts", what, got, len(want))
		}
		lines := strings.SplitAfter(got, "\n")
		for i, w := range want {
			if i < len(lines) && !strings.HasPrefix(lines[i], "a operator-key "+w) {
				t.Errorf("%s: noted was %q, want it to begin with %q", what, lines[i], w)
			}
		}
		if strings.Contains(got, "hush") {
			t.Errorf("%s: a secret was noted:\n%s", what, got)
		}
	}
	task := `{"http":{"url":"http://x.test/","headers":{"Authorization":"hush"}}}`
	ask(201, "PUT", "/v1/tasks/t", task)
	noted("a new task", `create task/t [null,{"name":"t"`)
	ask(200, "PUT", "/v1/tasks/t", strings.Replace(task, "x.test", "y.test", 1))
	noted("a changed task", `update task/t [{"name":"t","http":{"method":"POST","url":"http://x.test/","headers":{"Authorization":"…"}`)
	ask(204, "DELETE", "/v1/tasks/t", "")
	noted("a deleted task", `delete task/t [{"name":"t","http":{"method":"POST","url":"http://y.test/","headers":{"Authorization":"…"}`)
	ask(404, "DELETE", "/v1/tasks/t", "")
	ask(422, "PUT", "/v1/tasks/t", `{}`)
	noted("what was refused")

	var job Job
	if err := json.Unmarshal(ask(201, "POST", "/v1/jobs", jobBody), &job); err != nil {
		t.Fatal(err)
	}
	noted("a one-off job")
	path, run := "/v1/jobs/"+job.ID.String(), "run/"+job.ID.String()
	ask(200, "PATCH", path, `{"schedule":{"at":"2026-11-21T11:00:00Z"},"payload":{"b":"hush"},"http":{"headers":{"k":"hush"}}}`)
	noted("a changed run", `update `+run+` [null,{"at":"2026-11-21T11:00:00.000Z","work":{"http":{"url":"http://x.test/","headers":{"k":"…"}}},"payload":"18 bytes"}]`)
	ask(200, "DELETE", path, "")
	noted("a cancelled run", `cancel `+run)
	clock = clock.Add(time.Second)
	ask(200, "DELETE", path, "")
	ask(200, "POST", "/v1/runs/"+job.ID.String()+"/cancel", "")
	noted("a run that was cancelled before")
	var again Run
	if err := json.Unmarshal(ask(201, "POST", "/v1/runs/"+job.ID.String()+"/retry", ""), &again); err != nil {
		t.Fatal(err)
	}
	noted("a run that is repeated", `retry `+run+` [null,null] run `+again.ID.String())

	recurring := `{"name":"n","schedule":{"every":"1m"},"http":{"url":"http://x.test/","headers":{"k":"hush"}},"payload":{"p":"hush"}}`
	if err := json.Unmarshal(ask(201, "POST", "/v1/jobs", recurring), &job); err != nil {
		t.Fatal(err)
	}
	noted("a recurring job", `create job/n [null,{"tenant":"a","name":"n"`)
	ask(200, "PATCH", "/v1/jobs/n", `{"priority":"low"}`)
	noted("a changed recurring job", `update job/n [{"tenant":"a","name":"n"`)
	ask(200, "PATCH", "/v1/jobs/n", `{}`)
	noted("one that is patched with nothing")
	ask(200, "PUT", "/v1/jobs/n", strings.Replace(recurring, "1m", "2m", 1))
	noted("a replaced recurring job", `update job/n [{"tenant":"a","name":"n"`)
	ask(200, "PATCH", "/v1/jobs/n", `{"payload":{"p":"hash"}}`)
	noted("another payload", `update job/n [{"tenant":"a","name":"n"`)
	if !strings.Contains(last, `"payload":"12 bytes"`) || !strings.Contains(last, `"payload":"12 bytes, others than before"`) {
		t.Errorf("another payload of the same size: noted was %q, want that it is another", last)
	}
	for _, act := range []string{"pause", "resume"} {
		ask(200, "POST", "/v1/jobs/n/"+act, "")
		ask(200, "POST", "/v1/jobs/n/"+act, "")
		noted(act+", twice", act+" job/n [null,null] job "+job.ID.String())
	}
	ask(201, "POST", "/v1/jobs/n/trigger", "")
	noted("a job that is triggered", "trigger job/n [null,null] run ")
	ask(200, "DELETE", "/v1/jobs/n", "")
	noted("a job that is cancelled", "cancel job/n")

	lines := strings.Join([]string{recurring, `{"nats":{"subject":"a"}}`, `{"nats":{}}`}, "\n")
	got, _, text := do(t, hs, call{method: "POST", path: "/v1/imports", body: strings.Replace(lines, `"n"`, `"n2"`, 1), header: with(header, http.Header{"Content-Type": {ndjson}})})
	if got != 200 {
		t.Fatalf("POST /v1/imports = %d %s", got, text)
	}
	noted("an import", `import import [null,{"lines":3,"created":2,"existing":0,"failed":1}]`)
	if got, _, _ := do(t, hs, call{method: "POST", path: "/v1/imports?validate_only=true", body: lines, header: with(header, http.Header{"Content-Type": {ndjson}})}); got != 200 {
		t.Fatalf("POST /v1/imports to validate = %d", got)
	}
	noted("an import that is only checked")
}

func TestTheLogIsAnswered(t *testing.T) {
	o := newAdminStub()
	hs := serve(t, newStub(), o.deps)
	for i := range 3 {
		o.entries = append(o.entries, schema.AuditEntry{
			ID: schema.MakeAuditID(testNow, uint16(i), 1), At: testNow, Actor: "me", Action: "update", Object: "task/t", // #nosec G115 -- small
			Before: []byte(`{"a":1}`), Note: "n",
		})
	}
	var page struct {
		Items      []AuditEntry `json:"items"`
		NextCursor string       `json:"next_cursor"`
	}
	doJSON(t, hs, call{method: "GET", path: "/v1/audit?limit=2&actor=me&object=task/"}, 200, &page)
	if len(page.Items) != 2 || string(page.Items[0].Before) != `{"a":1}` || page.Items[0].After != nil || page.Items[0].ID != o.entries[0].ID {
		t.Errorf("GET /v1/audit = %+v, want the first two entries", page.Items)
	}
	first := o.asked
	if want := (admin.AuditQuery{Tenant: "default", From: testNow.AddDate(0, 0, -7), To: testNow, Actor: "me", Object: "task/"}); first != want {
		t.Errorf("asked was for %+v, want %+v", first, want)
	}
	doJSON(t, hs, call{method: "GET", path: "/v1/audit?limit=2&actor=me&object=task/&cursor=" + page.NextCursor}, 200, &page)
	if len(page.Items) != 1 || o.askedPos == nil || o.askedPos.Before != o.entries[1].ID || o.asked != first {
		t.Errorf("the next page = %+v, from %+v of %+v; want the last entry, of the same window", page.Items, o.askedPos, o.asked)
	}
	doProblem(t, hs, call{method: "GET", path: "/v1/audit?limit=2&actor=you&object=task/&cursor=" + page.NextCursor + "x"}, 422)
}

// Whatever starts runs is held to the quota of runs.
func TestWhatStartsRunsIsHeldToTheQuota(t *testing.T) {
	b, o := newStub(), newAdminStub()
	hs := serve(t, b, o.deps, withOperations)
	job := created(t, b, nightly)
	var once Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &once)
	doJSON(t, hs, call{method: "DELETE", path: "/v1/jobs/" + once.ID.String()}, 200, nil)
	admitted := 0
	o.admit = func(string, int) error {
		if admitted == 0 {
			return &admin.QuotaError{Quota: "runs_per_minute", Limit: 2, RetryAfter: 1500 * time.Millisecond}
		}
		admitted--
		return nil
	}
	for _, row := range []struct {
		path, body string
		status     int
		free       bool
	}{
		{"/v1/jobs/" + job.ID.String() + "/trigger", "", 201, false},
		{"/v1/runs/" + once.ID.String() + "/retry", "", 201, false},
		{"/v1/jobs/" + job.ID.String() + "/backfills", `{"from":"2026-11-14T00:00:00Z","to":"2026-11-21T00:00:00Z"}`, 202, false},
		{"/v1/operations", `{"action":"trigger","filter":{}}`, 202, false},
		{"/v1/operations", `{"action":"retry","filter":{"from":"2026-11-14T00:00:00Z","to":"2026-11-21T00:00:00Z"}}`, 202, false},
		{"/v1/operations", `{"action":"trigger","filter":{},"dry_run":true}`, 202, true},
		{"/v1/operations", `{"action":"pause","filter":{}}`, 202, true},
	} {
		post := call{method: "POST", path: row.path, body: row.body}
		if !row.free {
			if p, header := problemAnd(t, hs, post, 429); p.Kind() != "quota" || header.Get("Retry-After") != "2" {
				t.Errorf("POST %s %s over the quota: %+v, Retry-After %q", row.path, row.body, p, header.Get("Retry-After"))
			}
			admitted = 1
		}
		doJSON(t, hs, post, row.status, nil)
		if admitted != 0 {
			t.Errorf("POST %s %s took nothing out of the quota", row.path, row.body)
		}
	}
}

// What is over a quota is refused for now; of an import the lines that are over are, and it is
// slowed down.
func TestQuotasAreKept(t *testing.T) {
	b, o := newStub(), newAdminStub()
	hs := serve(t, b, o.deps)
	left := 2
	var mu sync.Mutex // chunks of an import come at once
	o.admit = func(tenant string, bytes int) error {
		mu.Lock()
		defer mu.Unlock()
		if tenant != "default" || bytes != len(`{"a":1}`) {
			t.Errorf("AdmitRun of %s, %d bytes", tenant, bytes)
		}
		if left == 0 {
			return &admin.QuotaError{Quota: "runs_per_minute", Limit: 2, RetryAfter: 1500 * time.Millisecond}
		}
		left--
		return nil
	}
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, nil)
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, nil)
	p, header := problemAnd(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 429)
	if p.Kind() != "quota" || header.Get("Retry-After") != "2" || !strings.Contains(p.Detail, "runs_per_minute is 2") {
		t.Errorf("POST over the quota: %+v, Retry-After %q", p, header.Get("Retry-After"))
	}

	mu.Lock()
	left = 3
	mu.Unlock()
	taken, waits := 0, 0
	o.line = func() time.Duration {
		if taken++; taken%2 == 0 {
			waits++
			return time.Millisecond
		}
		return 0
	}
	_, _, text := do(t, hs, call{method: "POST", path: "/v1/imports", body: strings.Repeat(jobBody+"\n", 5), header: http.Header{"Content-Type": {ndjson}}})
	var statuses []int
	for line := range strings.Lines(string(text)) {
		var r ImportResult
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Status != 0 {
			statuses = append(statuses, r.Status)
		}
	}
	slices.Sort(statuses)
	if !slices.Equal(statuses, []int{201, 201, 201, 429, 429}) || !strings.Contains(string(text), `"summary":{"lines":5,"created":3,"existing":0,"failed":2}`) {
		t.Errorf("an import over the quota = %s\nwant three lines made and two refused", text)
	}
	if waits < 4 {
		t.Errorf("the import waited %d times, want before all lines but the first", waits)
	}

	o.jobs = 2
	recurring := `{"schedule":{"every":"1m"},"nats":{"subject":"a"}}`
	var made [2]Job
	for i := range made {
		doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: recurring}, 201, &made[i])
	}
	doProblem(t, hs, call{method: "POST", path: "/v1/jobs", body: recurring}, 429)
	doProblem(t, hs, call{method: "PUT", path: "/v1/jobs/new", body: recurring}, 429)
	lines := call{method: "POST", path: "/v1/imports", body: recurring + "\n" + recurring, header: http.Header{"Content-Type": {ndjson}}}
	if _, _, text := do(t, hs, lines); !strings.Contains(string(text), `"summary":{"lines":2,"created":0,"existing":0,"failed":2}`) {
		t.Errorf("an import of recurring jobs over the quota = %s, want both lines refused", text)
	}
	doJSON(t, hs, call{method: "DELETE", path: "/v1/jobs/" + made[0].ID.String()}, 200, nil)
	doJSON(t, hs, call{method: "PUT", path: "/v1/jobs/new", body: recurring}, 201, nil)
	doJSON(t, hs, call{method: "PUT", path: "/v1/jobs/new", body: strings.Replace(recurring, "1m", "2m", 1)}, 200, nil)
}

// A job that an operation changed is noted as one that its caller changed himself.
func TestJobsOfOperationsAreNoted(t *testing.T) {
	o := newAdminStub()
	op := schema.Operation{ID: schema.MakeOperationID(testNow, 7), Tenant: "a", Spec: schema.OperationSpec{Action: "pause", By: "me"}}
	job := schema.Job{ID: schema.MakeJobID(testNow, 1, 7)}
	job.Current.Spec.Name = "n"
	NoteOfOperation(o)(&op, &job)
	if got, want := said(t, o), "a me pause job/n [null,null] job "+job.ID.String()+" by operation "+op.ID.String()+"\n"; got != want {
		t.Errorf("noted was %q, want %q", got, want)
	}
}
