package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

const (
	nightly  = `{"name":"nightly","http":{"url":"http://x.test/"},"schedule":{"cron":"0 2 * * *","timezone":"Europe/Berlin"}}`
	interval = `{"nats":{"subject":"a"},"schedule":{"every":"15m"}}`
)

// created makes a job that can have many runs.
func created(t *testing.T, b *stub, body string) schema.Job {
	t.Helper()
	_, spec, err := new(request.Decoder).Job("default", []byte(body), testNow)
	if err != nil || spec == nil {
		t.Fatalf("Job(%s) = %v, %v; want a recurring job", body, spec, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.create(*spec)
}

func TestRecurringJobIsCreatedAndRead(t *testing.T) {
	hs := serve(t, newStub())
	var made Job
	header := doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: `{"name":"nightly","http":{"url":"http://x.test/"},"schedule":{"cron":"0 2 * * *","timezone":"Europe/Berlin"},
		"end":"2027-11-21T00:00:00Z","max_runs":7,"concurrency":{"limit":2,"key":"/customer/id"},"labels":{"team":"billing"},"payload":{"a":1}}`}, 201, &made)
	tenSeconds := schema.Duration(10 * time.Second)
	due := time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC) // 02:00 in Berlin
	want := Job{
		ID: made.ID, Tenant: "default", Name: "nightly", Work: schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}}.InForce(),
		Schedule: JobSchedule{Cron: "0 2 * * *", Timezone: "Europe/Berlin", Gap: "run", OverlapHour: "first"},
		End:      Time{time.Date(2027, 11, 21, 0, 0, 0, 0, time.UTC)}, MaxRuns: 7, Jitter: &tenSeconds, Concurrency: &schema.Concurrency{Limit: 2, OnLimit: "queue", Key: "/customer/id"},
		Payload: []byte(`{"a":1}`), Priority: schema.Normal, Labels: map[string]string{"team": "billing"}, Misfire: JobMisfire{Policy: "run_latest"},
		State: "active", Generation: made.Generation, CreatedAt: Time{testNow}, UpdatedAt: Time{testNow},
	}
	if made.NextRun == nil || !made.NextRun.NominalAt.Equal(due) || made.NextRun.DueAt.Before(due) || made.NextRun.ID.IsZero() {
		t.Errorf("POST /v1/jobs answers the next run %+v, want one at %v", made.NextRun, due)
	}
	want.NextRun = made.NextRun
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("POST /v1/jobs answers (-want +got):\n%s", diff)
	}
	if got, want := header.Get("Location"), "/v1/jobs/"+made.ID.String(); got != want {
		t.Errorf("POST /v1/jobs: Location %q, want %q", got, want)
	}
	if got, want := header.Get("ETag"), fmt.Sprintf(`"%d"`, made.Generation); got != want {
		t.Errorf("POST /v1/jobs: ETag %q, want %q", got, want)
	}
	for _, name := range []string{made.ID.String(), "nightly"} {
		var read Job
		doJSON(t, hs, call{method: "GET", path: "/v1/jobs/" + name}, 200, &read)
		if diff := cmp.Diff(made, read); diff != "" {
			t.Errorf("GET /v1/jobs/%s (-made +read):\n%s", name, diff)
		}
	}
	p := doProblem(t, hs, call{method: "POST", path: "/v1/jobs", body: nightly}, 409)
	if p.Kind() != "name-taken" {
		t.Errorf("a second job of a name: %+v, want name-taken", p)
	}
	doProblem(t, hs, call{method: "GET", path: "/v1/jobs/nightly", header: http.Header{tenantHeader: {"acme"}}}, 404)
	doProblem(t, hs, call{method: "GET", path: "/v1/jobs/" + made.ID.String(), header: http.Header{tenantHeader: {"acme"}}}, 404)
}

func TestRecurringJobIsCreatedOnceForAKey(t *testing.T) {
	hs := serve(t, newStub())
	keyed := call{method: "POST", path: "/v1/jobs", body: interval, header: http.Header{keyHeader: {"k"}}}
	var first, again Job
	if h := doJSON(t, hs, keyed, 201, &first); h.Get("Idempotency-Replayed") != "" {
		t.Errorf("the first use of a key says it was replayed")
	}
	if h := doJSON(t, hs, keyed, 201, &again); h.Get("Idempotency-Replayed") != "true" || again.ID != first.ID {
		t.Errorf("the second use of a key: %s replayed %q, want %s", again.ID, h.Get("Idempotency-Replayed"), first.ID)
	}
	keyed.body = nightly
	if p := doProblem(t, hs, keyed, 422); p.Kind() != "key-reused" {
		t.Errorf("a key with another body: %+v, want key-reused", p)
	}
}

func TestJobIsPutByName(t *testing.T) {
	hs := serve(t, newStub())
	put := call{method: "PUT", path: "/v1/jobs/nightly", body: nightly}
	var first, second Job
	header := doJSON(t, hs, put, 201, &first)
	put.body = strings.Replace(nightly, "0 2", "0 3", 1)
	put.header = http.Header{"If-Match": {`"1", ` + header.Get("ETag")}}
	doJSON(t, hs, put, 200, &second)
	if second.ID != first.ID || second.Generation <= first.Generation || second.Schedule.Cron != "0 3 * * *" {
		t.Errorf("a second PUT answers %s generation %d with %q, want %s with a later one and the new expression", second.ID, second.Generation, second.Schedule.Cron, first.ID)
	}
	p := doProblem(t, hs, put, 412)
	if want := fmt.Sprintf(`"%d"`, second.Generation); p.Kind() != "stale" || !strings.Contains(p.Detail, want) {
		t.Errorf("PUT with an ETag that is past: %+v, want stale and the ETag %s", p, want)
	}
	none := call{method: "PUT", path: "/v1/jobs/weekly", body: strings.Replace(nightly, "nightly", "weekly", 1), header: http.Header{"If-Match": {"*"}}}
	doProblem(t, hs, none, 412)
	doProblem(t, hs, call{method: "GET", path: "/v1/jobs/weekly"}, 404)
	none.header = nil
	doJSON(t, hs, none, 201, nil)
	for name, body := range map[string]string{
		"another name": strings.Replace(nightly, "nightly", "x", 1), "one-off": `{"nats":{"subject":"a"},"schedule":{"at":"2026-11-22T00:00:00Z"}}`, "empty": `{}`,
	} {
		if p := doProblem(t, hs, call{method: "PUT", path: "/v1/jobs/nightly", body: body}, 422); len(p.Errors) == 0 {
			t.Errorf("PUT of %s: no fault is named", name)
		}
	}
	doProblem(t, hs, call{method: "PUT", path: "/v1/jobs/" + first.ID.String(), body: nightly}, 422)
	var manual Job
	doJSON(t, hs, call{method: "PUT", path: "/v1/jobs/manual", body: `{"nats":{"subject":"a"},"pause_on_failure":{"after":3}}`}, 201, &manual)
	if !reflect.ValueOf(manual.Schedule).IsZero() || manual.NextRun != nil || manual.PauseOnFailure == nil || manual.PauseOnFailure.After != 3 {
		t.Errorf("a job that is only triggered = %+v", manual)
	}
}

func TestRecurringJobIsPatched(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	job := created(t, b, interval)
	patch := func(body, match string) call {
		c := call{method: "PATCH", path: "/v1/jobs/" + job.ID.String(), body: body}
		if match != "" {
			c.header = http.Header{"If-Match": {match}}
		}
		return c
	}
	tag := generationTag(&job)
	var got Job
	header := doJSON(t, hs, patch(`{"schedule":{"every":"1h"},"payload":[1]}`, tag), 200, &got)
	if got.Schedule.Every.Std() != time.Hour || string(got.Payload) != "[1]" || got.Generation <= job.Current.Number || header.Get("ETag") == tag {
		t.Errorf("PATCH answers %+v with ETag %s, want the change and a later generation", got, header.Get("ETag"))
	}
	if p := doProblem(t, hs, patch(`{"payload":null}`, tag), 412); p.Kind() != "stale" {
		t.Errorf("PATCH with an ETag that is past: %+v, want stale", p)
	}
	doProblem(t, hs, patch(`{"payload":null}`, `W/`+header.Get("ETag")), 412)
	var same Job
	doJSON(t, hs, patch(`{}`, ""), 200, &same)
	if same.Generation != got.Generation {
		t.Errorf("PATCH of nothing made generation %d of %d", same.Generation, got.Generation)
	}
	same = Job{}
	doJSON(t, hs, patch(`{"payload":null}`, "*"), 200, &same)
	if same.Payload != nil {
		t.Errorf("PATCH of no payload leaves %s", same.Payload)
	}
	for name, body := range map[string]string{
		"a fault": `{"schedule":{"every":"0s"}}`, "a name": `{"name":"x"}`, "one-off": `{"schedule":{"every":null}}`,
	} {
		if p := doProblem(t, hs, patch(body, ""), 422); len(p.Errors) == 0 {
			t.Errorf("PATCH of %s: no fault is named", name)
		}
	}
	// Somebody is faster: with If-Match that is refused, without it the patch is made up to what
	// the job says by then.
	b.jobs.onChange = func(j *schema.Job) {
		b.jobs.onChange = nil
		j.Current.Number++
		j.Current.Spec.Labels = map[string]string{"by": "another"}
	}
	doProblem(t, hs, patch(`{"priority":"low"}`, fmt.Sprintf(`"%d"`, same.Generation)), 412)
	b.jobs.onChange = func(j *schema.Job) {
		b.jobs.onChange = nil
		j.Current.Spec.Labels = map[string]string{"by": "a third"}
	}
	doJSON(t, hs, patch(`{"priority":"low"}`, ""), 200, &same)
	if same.Labels["by"] != "a third" || same.Priority != schema.Low {
		t.Errorf("two changes at once leave labels %v and priority %s, want both changes", same.Labels, same.Priority)
	}
}

func TestJobIsPausedResumedAndCancelled(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	job := created(t, b, nightly)
	for _, step := range []struct {
		method, path, want string
		next               bool
	}{
		{"POST", "/pause", "paused", false},
		{"POST", "/pause", "paused", false},
		{"POST", "/resume", "active", true},
		{"POST", "/resume", "active", true},
		{"DELETE", "", "cancelled", false},
		{"DELETE", "", "cancelled", false},
	} {
		var got Job
		doJSON(t, hs, call{method: step.method, path: "/v1/jobs/" + job.ID.String() + step.path}, 200, &got)
		if got.State != step.want || (got.NextRun != nil) != step.next {
			t.Errorf("%s %s answers %s with next run %v, want %s, and a next run: %t", step.method, step.path, got.State, got.NextRun, step.want, step.next)
		}
	}
	for _, c := range []call{
		{method: "POST", path: "/pause"}, {method: "POST", path: "/resume"}, {method: "POST", path: "/trigger"}, {method: "PATCH", body: `{"priority":"low"}`},
	} {
		c.path = "/v1/jobs/" + job.ID.String() + c.path
		if p := doProblem(t, hs, c, 409); p.Kind() != "finished" {
			t.Errorf("%s %s of a cancelled job: %+v, want finished", c.method, c.path, p)
		}
	}
}

func TestControlNeedsTheRightETag(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	created(t, b, nightly)
	for _, c := range []call{{method: "POST", path: "/pause"}, {method: "POST", path: "/resume"}, {method: "DELETE"}} {
		c.path, c.header = "/v1/jobs/nightly"+c.path, http.Header{"If-Match": {`"17"`}}
		doProblem(t, hs, c, 412)
		c.path = "/v1/jobs/none"
		if c.method == "POST" {
			c.path += "/pause"
		}
		doProblem(t, hs, c, 404)
	}
}

func TestOneOffJobsHaveNoControl(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	var job Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &job)
	for _, path := range []string{"/pause", "/resume", "/trigger"} {
		if p := doProblem(t, hs, call{method: "POST", path: "/v1/jobs/" + job.ID.String() + path}, 409); p.Kind() != "one-off" {
			t.Errorf("POST %s of a one-off job: %+v, want one-off", path, p)
		}
	}
	var next struct{ Items []NextRun }
	doJSON(t, hs, call{method: "GET", path: "/v1/jobs/" + job.ID.String() + "/upcoming"}, 200, &next)
	if len(next.Items) != 1 || next.Items[0].ID.String() != job.ID.String() {
		t.Errorf("upcoming runs of a one-off job: %+v, want it", next.Items)
	}
	runs := func() (list struct{ Items []Run }) {
		doJSON(t, hs, call{method: "GET", path: "/v1/jobs/" + job.ID.String() + "/runs"}, 200, &list)
		return list
	}
	if got := runs(); len(got.Items) != 1 || got.Items[0].State != schema.StatePending {
		t.Errorf("runs of a pending one-off job: %+v, want it", got.Items)
	}
	doJSON(t, hs, call{method: "DELETE", path: "/v1/jobs/" + job.ID.String()}, 200, nil)
	if got := runs(); len(got.Items) != 1 || got.Items[0].State != schema.StateCancelled {
		t.Errorf("runs of a cancelled one-off job: %+v, want it", got.Items)
	}
}

func TestJobIsTriggered(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	job := created(t, b, `{"name":"n","nats":{"subject":"a"},"schedule":{"every":"15m"},"payload":{"a":1},"priority":"high"}`)
	var run, again Run
	trigger := call{method: "POST", path: "/v1/jobs/n/trigger", header: http.Header{keyHeader: {"k"}}}
	header := doJSON(t, hs, trigger, 201, &run)
	if run.JobID != job.ID || run.JobName != "n" || run.Trigger != schema.TriggerManual || run.State != schema.StatePending || string(run.Payload) != `{"a":1}` {
		t.Errorf("POST trigger answers %+v, want a pending run of the job", run)
	}
	if got, want := header.Get("Location"), "/v1/runs/"+run.ID.String(); got != want {
		t.Errorf("POST trigger: Location %q, want %q", got, want)
	}
	if h := doJSON(t, hs, trigger, 201, &again); again.ID != run.ID || h.Get("Idempotency-Replayed") != "true" {
		t.Errorf("POST trigger with the same key answers %s replayed %q, want %s", again.ID, h.Get("Idempotency-Replayed"), run.ID)
	}
	trigger.body = `{"payload":1}`
	doProblem(t, hs, trigger, 422)
	// The run is durable also where it cannot be read.
	delete(b.runs, run.ID)
	trigger.body = ""
	doJSON(t, hs, trigger, 201, &again)
	if again.ID != run.ID || again.JobID != job.ID || again.Priority != schema.High {
		t.Errorf("POST trigger of a run that cannot be read answers %+v, want it", again)
	}
}

func TestJobsAreListed(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	var ids []string
	for i := range 7 {
		team := []string{"a", "b=c"}[i%2]
		ids = append(ids, created(t, b, fmt.Sprintf(`{"name":"job-%d","nats":{"subject":"a"},"schedule":{"every":"15m"},"labels":{"team":%q}}`, i, team)).ID.String())
	}
	slices.Reverse(ids)
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs/job-6/pause"}, 200, nil)
	list := func(query string) (got []string) {
		t.Helper()
		for cursor := ""; ; {
			var page struct {
				Items      []Job
				NextCursor string `json:"next_cursor"`
			}
			doJSON(t, hs, call{method: "GET", path: "/v1/jobs?limit=2&" + query + cursor}, 200, &page)
			for _, j := range page.Items {
				got = append(got, j.ID.String())
			}
			if page.NextCursor == "" {
				return got
			}
			cursor = "&cursor=" + url.QueryEscape(page.NextCursor)
		}
	}
	for query, want := range map[string][]string{
		"": ids, "state=paused": ids[:1], "label=team%3Da": {ids[0], ids[2], ids[4], ids[6]}, "label=team%3Db%3Dc": {ids[1], ids[3], ids[5]},
		"name_prefix=job-3": ids[3:4], "state=active&label=team%3Da": {ids[2], ids[4], ids[6]}, "name_prefix=x": nil,
	} {
		if got := list(query); !slices.Equal(got, want) {
			t.Errorf("GET /v1/jobs?%s = %q, want %q", query, got, want)
		}
	}
	var page struct {
		NextCursor string `json:"next_cursor"`
	}
	doJSON(t, hs, call{method: "GET", path: "/v1/jobs?limit=2"}, 200, &page)
	for name, c := range map[string]call{
		"forged":           {path: "/v1/jobs?cursor=" + strings.Repeat("A", 44)},
		"another filter":   {path: "/v1/jobs?state=paused&cursor=" + page.NextCursor},
		"another tenant":   {path: "/v1/jobs?cursor=" + page.NextCursor, header: http.Header{tenantHeader: {"acme"}}},
		"another list":     {path: "/v1/tasks?cursor=" + page.NextCursor},
		"of runs":          {path: "/v1/jobs/job-1/runs?cursor=" + page.NextCursor},
		"no limit":         {path: "/v1/jobs?limit=0"},
		"below":            {path: "/v1/jobs?limit=-1"},
		"too many":         {path: "/v1/jobs?limit=1000000000"},
		"an unknown state": {path: "/v1/jobs?state=pending"},
		"half a label":     {path: "/v1/jobs?label=team"},
		"an empty label":   {path: "/v1/jobs?label=%3Da"},
		"an odd filter":    {path: "/v1/jobs?task=a"},
	} {
		c.method = "GET"
		if p := doProblem(t, hs, c, 422); len(p.Errors) == 0 {
			t.Errorf("%s: GET %s names no fault", name, c.path)
		}
	}
}

func TestRunsOfAJobAreListed(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	job := created(t, b, `{"name":"n","nats":{"subject":"a"},"schedule":{"every":"15m"}}`)
	var ids []string
	for i := range 5 {
		state := []schema.State{schema.StateSucceeded, schema.StateFailed}[i%2]
		ids = append(ids, b.ends(job.ID, testNow.Add(time.Duration(i-5)*15*time.Minute), state).String())
	}
	slices.Reverse(ids)
	list := func(path string) (got []string) {
		t.Helper()
		for cursor := ""; ; {
			var page struct {
				Items      []Run
				NextCursor string `json:"next_cursor"`
			}
			doJSON(t, hs, call{method: "GET", path: path + "limit=2" + cursor}, 200, &page)
			for _, r := range page.Items {
				if got = append(got, r.ID.String()); r.JobID != job.ID || r.JobName != "n" {
					t.Errorf("GET %s lists %+v, want runs of the job", path, r)
				}
			}
			if page.NextCursor == "" {
				return got
			}
			cursor = "&cursor=" + url.QueryEscape(page.NextCursor)
		}
	}
	for query, want := range map[string][]string{
		"": ids, "state=failed&": {ids[1], ids[3]}, "from=2026-11-21T09:00:00Z&": ids[:2], "to=2026-11-21T09:00:00Z&": ids[2:],
		"from=2026-11-21T08:30:00Z&to=2026-11-21T09:00:00Z&": ids[2:4], "state=missed&": nil, "state=running&": nil,
	} {
		if got := list("/v1/jobs/n/runs?" + query); !slices.Equal(got, want) {
			t.Errorf("GET /v1/jobs/n/runs?%s = %q, want %q", query, got, want)
		}
	}
	for query, want := range map[string][]string{
		"": ids[1:4], "&state=failed": {ids[1], ids[3]}, "&task=other": nil, "&state=running": nil,
	} {
		for _, named := range []string{job.ID.String(), "n"} {
			if got := list("/v1/runs?from=2026-11-21T08:30:00Z&to=2026-11-21T09:15:00Z&job=" + named + query + "&"); !slices.Equal(got, want) {
				t.Errorf("GET /v1/runs of the job %s with %q = %q, want %q", named, query, got, want)
			}
		}
	}
	for _, named := range []string{"none", "A%20b", "n%20"} {
		p := doProblem(t, hs, call{method: "GET", path: "/v1/runs?from=2026-11-21T09:00:00Z&to=2026-11-21T08:15:00Z&job=" + named}, 422)
		if len(p.Errors) != 2 || p.Errors[1].Location != "query.job" {
			t.Errorf("GET /v1/runs of the job %s with a wrong window = %+v, want both faults", named, p)
		}
	}
	for _, query := range []string{
		"from=2026-11-21T09:00:00Z&to=2026-11-21T09:00:00Z", "from=2026-11-21T09:00:00Z&to=2026-11-21T08:00:00Z", "state=asleep", "limit=501",
		"from=soon", "cursor=x", "from=9999-12-31T23:59:59-01:00",
	} {
		if p := doProblem(t, hs, call{method: "GET", path: "/v1/jobs/n/runs?" + query}, 422); len(p.Errors) == 0 {
			t.Errorf("GET runs?%s names no fault", query)
		}
	}
	doProblem(t, hs, call{method: "GET", path: "/v1/jobs/none/runs"}, 404)
}

func TestUpcomingRuns(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	created(t, b, `{"name":"n","nats":{"subject":"a"},"schedule":{"every":"15m"},"jitter":"0s"}`)
	ask := func(query string) (got []string) {
		t.Helper()
		var list struct{ Items []NextRun }
		doJSON(t, hs, call{method: "GET", path: "/v1/jobs/n/upcoming" + query}, 200, &list)
		for _, n := range list.Items {
			got = append(got, n.NominalAt.UTC().Format("15:04"))
		}
		return got
	}
	if got, want := ask("?count=3"), []string{"09:45", "10:00", "10:15"}; !slices.Equal(got, want) {
		t.Errorf("upcoming?count=3 = %q, want %q", got, want)
	}
	if got := ask(""); len(got) != 10 {
		t.Errorf("upcoming = %q, want 10", got)
	}
	for from, want := range map[string]string{
		"2026-11-21T12:00:00Z":            "12:15", // the runs after it
		"2026-11-21T13:00:00.001%2B01:00": "12:15",
		"2020-01-01T00:00:00Z":            "09:45", // past: after now
	} {
		if got := ask("?count=1&from=" + from); !slices.Equal(got, []string{want}) {
			t.Errorf("upcoming?from=%s = %q, want %s", from, got, want)
		}
	}
	if got := ask("?from=9999-12-31T23:59:59Z"); len(got) != 0 {
		t.Errorf("upcoming from the last second on = %q, want none", got)
	}
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs/n/pause"}, 200, nil)
	if got := ask(""); len(got) != 0 {
		t.Errorf("upcoming of a paused job = %q, want none", got)
	}
	for _, query := range []string{"count=0", "count=-1", "count=101", "count=x", "from=tomorrow", "from=10000-01-01T00:00:00Z"} {
		doProblem(t, hs, call{method: "GET", path: "/v1/jobs/n/upcoming?" + query}, 422)
	}
}

// TestAJobThatIsNotUnderstoodIsShown with why.
func TestAJobThatIsNotUnderstoodIsShown(t *testing.T) {
	b := newStub()
	s, err := New(Config{Now: func() time.Time { return testNow }}, Deps{Jobs: b, Runs: b, Tasks: b, Recurring: b, Workflows: b, Events: b, Joins: b})
	if err != nil {
		t.Fatal(err)
	}
	job := schema.Job{ID: schema.MakeJobID(testNow, 1, 1), Current: schema.Generation{
		State: schema.JobPaused, Spec: schema.JobSpec{Tenant: "t", Schedule: &schema.Schedule{Cron: "* * * * *"}}, Fault: errors.New("the zone is not known"),
	}}
	if got := s.recurring(&job); got.Fault != "the zone is not known" || got.ID != job.ID {
		t.Errorf("the job is shown as %+v, want its fault", got)
	}
}

// TestAJobThatIsNotUnderstoodIsNotChanged: 409 with what to do, also where a fault of the schedule
// is why.
func TestAJobThatIsNotUnderstoodIsNotChanged(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	job := created(t, b, nightly)
	unclear := b.jobs.byID[job.ID]
	unclear.Current.Fault = fmt.Errorf("decode job: %w: odd", schema.ErrNotUnderstood)
	_, compileErr := schedule.Compile(schema.Schedule{Cron: "0 2 * * *", Timezone: "Mars/Olympus"}, 0)
	for _, c := range []call{
		{method: "PUT", path: "/v1/jobs/nightly", body: strings.Replace(nightly, `"name":"nightly",`, "", 1)},
		{method: "POST", path: "/v1/jobs/nightly/pause"},
		{method: "POST", path: "/v1/jobs/nightly/resume"},
		{method: "POST", path: "/v1/jobs/nightly/trigger"},
		{method: "DELETE", path: "/v1/jobs/nightly"},
		{method: "PATCH", path: "/v1/jobs/nightly", body: `{"payload":1}`},
		{method: "PATCH", path: "/v1/jobs/nightly", body: `{"schedule":null}`},
	} {
		p := doProblem(t, hs, c, 409)
		if p.Kind() != "not-understood" || !strings.Contains(p.Detail, "upgrade") {
			t.Errorf("%s %s = %+v, want not-understood with what to do", c.method, c.path, p)
		}
	}
	if p := problemOf(fmt.Errorf("schedule of job: %w: %w", schema.ErrNotUnderstood, compileErr)); p.Status != 409 || len(p.Errors) != 0 {
		t.Errorf("a zone that is not known, of what is stored, is answered %+v, want 409 and no fault of the request", p)
	}
}
