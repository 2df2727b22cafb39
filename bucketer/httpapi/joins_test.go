package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/schema"
)

// pipes is a listener whose connections are pipes: requests take no time that a test cannot see.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// joined is the API of a real engine on a store in memory, in fake time. The test stands for dispatchers
// and executors.
type joined struct {
	*bucketertest.World
	t  *testing.T
	e  *engine.Engine
	hs *httptest.Server
}

func inJoined(t *testing.T, f func(t *testing.T, j *joined)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		j := &joined{World: bucketertest.NewWorld(t, schema.Settings{Shards: 4}), t: t}
		var err error
		if j.e, err = engine.New(bucketer.Config{Store: j.Store(), Hints: j, Signals: j}); err == nil {
			err = j.e.Refresh(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(Config{CursorKey: []byte("0123456789abcdef")}, Deps{Jobs: j.e, Runs: j.e, Tasks: j.e, Recurring: j.e, Workflows: j.e, Events: j.e, Joins: j.e})
		if err != nil {
			t.Fatal(err)
		}
		p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		j.hs = httptest.NewUnstartedServer(s)
		_ = j.hs.Listener.Close()
		j.hs.Listener = p
		j.hs.Start()
		j.hs.Client().Transport.(*http.Transport).DialContext = p.dial
		defer j.hs.Close()
		f(t, j)
	})
}

const joinedWork = `"http":{"url":"http://x.test/"}`

// make makes a job of some fields, and the work.
func (j *joined) make(fields string) Job {
	j.t.Helper()
	var out Job
	doJSON(j.t, j.hs, call{method: "POST", path: "/v1/jobs", body: `{` + joinedWork + `,` + fields + `}`}, 201, &out)
	return out
}

// once makes a one-off job that is due in an hour.
func (j *joined) once() Job {
	j.t.Helper()
	return j.make(fmt.Sprintf(`"schedule":{"at":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339)))
}

// put puts a job that can have many runs.
func (j *joined) put(name, fields string, status int) (out Job) {
	j.t.Helper()
	doJSON(j.t, j.hs, call{method: "PUT", path: "/v1/jobs/" + name, body: `{` + joinedWork + `,` + fields + `}`}, status, &out)
	return out
}

func (j *joined) run(id string) (out Run) {
	j.t.Helper()
	doJSON(j.t, j.hs, call{method: "GET", path: "/v1/runs/" + id}, 200, &out)
	return out
}

// succeed records that a run has succeeded, and does what follows from it.
func (j *joined) succeed(id schema.RunID) {
	j.t.Helper()
	r, err := j.e.Run(j.t.Context(), "default", id)
	if err != nil {
		j.t.Fatal(err)
	}
	now := time.Now()
	row := schema.Attempt{
		Run: id, Number: 1, Fence: schema.MakeFence(now), Written: now.UnixMicro(), Expires: now.Add(48 * time.Hour),
		Record: &schema.Record{Entry: r.Current.ID, Outcome: schema.Succeeded, Started: now.UTC(), Finished: now.UTC(), Announce: j.e.Announces("default")},
	}
	if err := j.e.Record(j.t.Context(), []schema.Attempt{row}); err != nil {
		j.t.Fatal(err)
	}
	j.e.FollowUp(j.t.Context(), []bucketer.Finished{{Entry: r.Current, Attempt: row}}, func(_ int, err error) {
		if err != nil {
			j.t.Fatal(err)
		}
	})
}

// pass lets time pass, and then plans what is due.
func (j *joined) pass(d time.Duration) {
	j.t.Helper()
	time.Sleep(d)
	for _, e := range j.Entries(72 * time.Hour) {
		if e.Spec.Kind.Plans() && !e.Due().After(time.Now()) {
			if err := j.e.PlanEvent(j.t.Context(), &e); err != nil {
				j.t.Fatal(err)
			}
		}
	}
}

// A one-off job runs after one-off jobs: what it answers, what its run waits for, and why it is skipped.
func TestOneOffJobRunsAfterOthers(t *testing.T) {
	inJoined(t, func(t *testing.T, j *joined) {
		a, b := j.once(), j.once()
		body := fmt.Sprintf(`{%s,"after":{"jobs":[%q,%q],"deadline":"6h"},"payload":{"n":1}}`, joinedWork, a.ID, b.ID)
		keyed := call{method: "POST", path: "/v1/jobs", body: body, header: http.Header{keyHeader: {"k"}}}
		var made, again, got Job
		header := doJSON(t, j.hs, keyed, 201, &made)
		want := JobAfter{Jobs: []string{a.ID.String(), b.ID.String()}, When: "all_succeeded", Deadline: schema.Duration(6 * time.Hour)}
		if diff := cmp.Diff(&want, made.After); diff != "" || made.NextRun != nil || !made.Schedule.At.IsZero() || made.State != "active" {
			t.Errorf("POST = %+v; want it active, without a time; after (-want +got):\n%s", made, diff)
		}
		path := "/v1/jobs/" + made.ID.String()
		if header.Get("Location") != path || header.Get("ETag") == "" {
			t.Errorf("POST answers the headers %v, want its place and ETag", header)
		}
		etag := header.Get("ETag")
		if header := doJSON(t, j.hs, keyed, 201, &again); header.Get("Idempotency-Replayed") != "true" || again.ID != made.ID || again.After == nil {
			t.Errorf("POST with the same key = %+v, %v; want the same job", again, header)
		}
		if h := doJSON(t, j.hs, call{method: "GET", path: path}, 200, &got); cmp.Diff(made, got) != "" || h.Get("ETag") != etag {
			t.Errorf("GET differs from what POST answered (-POST +GET):\n%s", cmp.Diff(made, got))
		}
		run := j.run(made.ID.String())
		if run.State != "waiting" || run.Trigger != schema.TriggerDependency || !run.DeadlineAt.Equal(made.CreatedAt.Add(6*time.Hour)) {
			t.Errorf("the run is %+v, want it to wait for 6 h", run)
		}
		if w := run.Waiting; w == nil || !strings.HasPrefix(w.Reason, "jobs: ") || !strings.HasSuffix(w.Reason, fmt.Sprintf("%s, %s", a.ID, b.ID)) {
			t.Errorf("the run waits for %+v, want both jobs", w)
		}

		j.succeed(schema.RunID(a.ID))
		j.pass(time.Second)
		if w := j.run(made.ID.String()).Waiting; w == nil || strings.Contains(w.Reason, a.ID.String()) || !strings.HasSuffix(w.Reason, b.ID.String()) {
			t.Errorf("once the first has ended the run waits for %+v, want the other alone", w)
		}
		doJSON(t, j.hs, call{method: "DELETE", path: "/v1/jobs/" + b.ID.String()}, 200, nil)
		j.pass(10 * time.Second)
		if run = j.run(made.ID.String()); run.State != schema.StateSkipped || !strings.Contains(run.Reason, "cancelled") || run.FinishedAt.IsZero() || run.Waiting != nil {
			t.Errorf("once the other was cancelled the run is %+v, want it skipped, with the reason", run)
		}
		got = Job{}
		doJSON(t, j.hs, call{method: "GET", path: path}, 200, &got)
		if got.State != "finished" || len(run.Attempts) != 0 {
			t.Errorf("the job is %s, its run had the attempts %+v; want finished, and none", got.State, run.Attempts)
		}
		var page struct{ Items []Run }
		window := url.Values{"from": {made.CreatedAt.Add(-time.Minute).Format(time.RFC3339)}, "to": {made.CreatedAt.Add(time.Minute).Format(time.RFC3339)}, "state": {"skipped"}}
		if doJSON(t, j.hs, call{method: "GET", path: "/v1/runs?" + window.Encode()}, 200, &page); len(page.Items) != 1 || page.Items[0].ID != run.ID {
			t.Errorf("the runs that were skipped are %+v, want %s", page.Items, run.ID)
		}
	})
}

// The run of a one-off job that waits for others starts when they have ended, and can be cancelled before.
func TestOneOffJobThatWaitsStartsOrIsCancelled(t *testing.T) {
	inJoined(t, func(t *testing.T, j *joined) {
		a := j.once()
		after := fmt.Sprintf(`"after":{"jobs":[%q],"when":"all_done"}`, a.ID)
		first, second := j.make(after), j.make(after)
		if first.After == nil || first.After.When != "all_done" || first.After.Deadline.Std() != 7*24*time.Hour {
			t.Errorf("POST answers %+v, want the values in force", first.After)
		}
		var gone Job
		doJSON(t, j.hs, call{method: "DELETE", path: "/v1/jobs/" + second.ID.String()}, 200, &gone)
		if gone.State != "cancelled" {
			t.Errorf("DELETE = %+v, want it cancelled", gone)
		}
		j.succeed(schema.RunID(a.ID))
		j.pass(time.Second)
		if run := j.run(first.ID.String()); run.State != schema.StatePending || run.Waiting != nil || !run.DeadlineAt.IsZero() {
			t.Errorf("the run is %+v, want it due", run)
		}
		if run := j.run(second.ID.String()); run.State != schema.StateCancelled {
			t.Errorf("the run that was cancelled is %s", run.State)
		}
	})
}

// What waits for other jobs cannot be changed.
func TestOneOffJobThatWaitsIsNotPatched(t *testing.T) {
	inJoined(t, func(t *testing.T, j *joined) {
		a := j.once()
		path := "/v1/jobs/" + j.make(fmt.Sprintf(`"after":{"jobs":[%q]}`, a.ID)).ID.String()
		for body, want := range map[string]string{
			`{"priority":"high"}`:                        "409 waits-for-jobs",
			`{"payload":{"n":2}}`:                        "409 waits-for-jobs",
			`{"schedule":{"at":"2000-02-01T00:00:00Z"}}`: "409 waits-for-jobs",
			`{"schedule":{"every":"1h"}}`:                "422 invalid body.schedule",
			`{"after":{"deadline":"1h"}}`:                "422 invalid body.after",
			`{"after":null,"schedule":{"every":"1h"}}`:   "422 invalid body.after",
			`{"after":null}`:                             "422 invalid body.after",
			fmt.Sprintf(`{"after":{"jobs":[%q]}}`, a.ID): "422 invalid body.after",
			`{}`: "200",
		} {
			status, _, text := do(t, j.hs, call{method: "PATCH", path: path, body: body})
			got := fmt.Sprint(status)
			var p Problem
			if err := json.Unmarshal(text, &p); status != 200 && err == nil {
				got += " " + p.Kind()
				for _, e := range p.Errors {
					got += " " + e.Location
				}
			}
			if got != want {
				t.Errorf("PATCH %s = %s %s, want %s", body, got, text, want)
			}
		}
		if status, _, text := do(t, j.hs, call{method: "PATCH", path: "/v1/jobs/" + a.ID.String(), body: `{"schedule":null,"after":{"jobs":["x"]}}`}); status != 422 || !bytes.Contains(text, []byte(`"body.after"`)) {
			t.Errorf("PATCH of a one-off job that is due by itself = %d %s, want 422", status, text)
		}
	})
}

// A job that can have many runs runs after others that can: it is put, changed, and has a run for each
// of theirs.
func TestJobRunsAfterJobs(t *testing.T) {
	inJoined(t, func(t *testing.T, j *joined) {
		a := j.put("a", `"schedule":{"every":"24h"}`, 201)
		b := j.make(`"name":"b","after":{"jobs":["a"]},"concurrency":{"limit":1}`)
		if b.Name != "b" || b.NextRun != nil || b.After == nil || b.State != "active" || b.After.Deadline.Std() != 7*24*time.Hour {
			t.Errorf("POST = %+v, want an active job after a, without a time", b)
		}
		join := fmt.Sprintf(`"after":{"jobs":["a",%q],"when":"all_done","deadline":"6h"}`, b.ID)
		c := j.put("c", join, 201)
		if again := j.put("c", join, 200); again.Generation != c.Generation {
			t.Errorf("PUT of the same makes the generation %d of %d", again.Generation, c.Generation)
		}
		want := JobAfter{Jobs: []string{"a", b.ID.String()}, When: "all_done", Deadline: schema.Duration(6 * time.Hour)}
		var got Job
		doJSON(t, j.hs, call{method: "GET", path: "/v1/jobs/c"}, 200, &got)
		if diff := cmp.Diff(&want, got.After); diff != "" || cmp.Diff(c, got) != "" {
			t.Errorf("GET = %+v, after (-want +got):\n%s", got, diff)
		}
		got = Job{} // what is absent now was there
		doJSON(t, j.hs, call{method: "PATCH", path: "/v1/jobs/c", body: `{"after":{"jobs":["a","b"],"deadline":null},"labels":{"x":"y"}}`}, 200, &got)
		want = JobAfter{Jobs: []string{"a", "b"}, When: "all_done", Deadline: schema.Duration(7 * 24 * time.Hour)}
		if diff := cmp.Diff(&want, got.After); diff != "" || got.Labels["x"] != "y" {
			t.Errorf("PATCH = %+v, after (-want +got):\n%s", got, diff)
		}
		var upcoming struct{ Items []NextRun }
		doJSON(t, j.hs, call{method: "GET", path: "/v1/jobs/c/upcoming"}, 200, &upcoming)
		if upcoming.Items == nil || len(upcoming.Items) != 0 {
			t.Errorf("GET upcoming = %+v, want an empty list", upcoming.Items)
		}
		var first Run
		doJSON(t, j.hs, call{method: "POST", path: "/v1/jobs/a/trigger"}, 201, &first)
		j.succeed(first.ID)
		j.pass(time.Second)
		for job, want := range map[string]schema.State{"b": schema.StatePending, "c": schema.StateWaiting} {
			var page struct{ Items []Run }
			doJSON(t, j.hs, call{method: "GET", path: "/v1/jobs/" + job + "/runs"}, 200, &page)
			if len(page.Items) != 1 || page.Items[0].State != want || page.Items[0].Trigger != schema.TriggerDependency || page.Items[0].JobName != job {
				t.Errorf("the runs of %s are %+v, want one that is %s", job, page.Items, want)
			} else if want == schema.StateWaiting && !strings.HasSuffix(page.Items[0].Waiting.Reason, ": b") {
				t.Errorf("the run of %s waits for %+v, want b", job, page.Items[0].Waiting)
			}
		}
		got = Job{}
		doJSON(t, j.hs, call{method: "PATCH", path: "/v1/jobs/c", body: `{"after":null,"schedule":{"every":"1h"}}`}, 200, &got)
		if got.After != nil || got.Schedule.Every.Std() != time.Hour {
			t.Errorf("PATCH to a schedule = %+v", got)
		}
		doJSON(t, j.hs, call{method: "DELETE", path: "/v1/jobs/" + a.ID.String()}, 200, nil)
		if p := doProblem(t, j.hs, call{method: "POST", path: "/v1/jobs", body: `{` + joinedWork + `,"after":{"jobs":["` + a.ID.String() + `"]}}`}, 422); len(p.Errors) != 1 || p.Errors[0].Location != "body.after.jobs[0]" {
			t.Errorf("POST after a job that has ended = %+v, want the fault", p)
		}
	})
}

// What is wrong with the jobs before a job is named, with its place.
func TestJobsAfterOthersThatAreRefused(t *testing.T) {
	inJoined(t, func(t *testing.T, j *joined) {
		once := j.once().ID.String()
		j.put("a", `"schedule":{"every":"1h"}`, 201)
		j.put("other", `"schedule":{"every":"1h"}`, 201)
		j.put("b", `"after":{"jobs":["a"]}`, 201)
		post := func(fields string) call {
			return call{method: "POST", path: "/v1/jobs", body: `{` + joinedWork + `,` + fields + `}`}
		}
		put := func(name, fields string) call {
			return call{method: "PUT", path: "/v1/jobs/" + name, body: `{` + joinedWork + `,` + fields + `}`}
		}
		for name, row := range map[string]struct {
			call
			want string // location: how its message begins
		}{
			"PUT after one-off jobs":       {put("x", `"after":{"jobs":["`+once+`"]}`), "body.after.jobs: must be jobs that can have many runs"},
			"PATCH to one-off jobs":        {call{method: "PATCH", path: "/v1/jobs/b", body: `{"after":{"jobs":["` + once + `"]}}`}, "body.after.jobs: must be jobs that can have many runs"},
			"a name, after one-off jobs":   {post(`"name":"x","after":{"jobs":["` + once + `"]}`), "body.name: belongs to a job that can have many runs"},
			"a limit, after one-off jobs":  {post(`"concurrency":{"limit":1},"after":{"jobs":["` + once + `"]}`), "body.concurrency: belongs to a job that can have many runs"},
			"jobs of both kinds":           {post(`"after":{"jobs":["` + once + `","a"]}`), "body.after.jobs: must be either all one-off jobs"},
			"no job":                       {post(`"after":{"jobs":["none"]}`), "body.after.jobs[0]: names no job"},
			"no run":                       {post(`"after":{"jobs":["0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60"]}`), "body.after.jobs[0]: names no job"},
			"itself":                       {post(`"name":"x","after":{"jobs":["x"]}`), "body.after.jobs[0]: is the job itself"},
			"itself, by PUT":               {put("b", `"after":{"jobs":["b"]}`), "body.after.jobs[0]: makes a cycle"},
			"a job twice":                  {post(`"after":{"jobs":["a","a"]}`), "body.after.jobs[1]: is the same job as jobs[0]"},
			"a cycle":                      {put("a", `"after":{"jobs":["b"]}`), "body.after.jobs[0]: makes a cycle: a runs after b"},
			"chains with other beginnings": {post(`"after":{"jobs":["b","other"]}`), "body.after.jobs: must all begin with the runs of one job"},
			"a schedule too":               {post(`"after":{"jobs":["a"]},"schedule":{"every":"1h"}`), "body: must have only one of"},
			"max_runs":                     {post(`"after":{"jobs":["a"]},"max_runs":2`), "body.max_runs: goes with a schedule"},
			"no deadline":                  {post(`"after":{"jobs":["a"],"deadline":"0s"}`), "body.after.deadline: must be from 1s"},
		} {
			p := doProblem(t, j.hs, row.call, 422)
			if len(p.Errors) != 1 || !strings.HasPrefix(p.Errors[0].Location+": "+p.Errors[0].Message, row.want) {
				t.Errorf("%s: the faults are %+v, want %s", name, p.Errors, row.want)
			}
		}
	})
}

// Lines of an import run after jobs that were there before.
func TestImportOfJobsAfterOthers(t *testing.T) {
	inJoined(t, func(t *testing.T, j *joined) {
		j.put("a", `"schedule":{"every":"1h"}`, 201)
		lines := []string{
			`"name":"b","after":{"jobs":["a"]}`,
			`"key":"k","after":{"jobs":["` + j.once().ID.String() + `"]}`,
			`"after":{"jobs":["none"]}`,
			`"after":{"jobs":[]}`,
			`"schedule":{"every":"2h"}`,
		}
		var body strings.Builder
		for _, l := range lines {
			body.WriteString("{" + joinedWork + "," + l + "}\n")
		}
		got, sum := statuses(t, sendImport(t, j.hs, "", "", strings.NewReader(body.String())))
		if got != "1:201 2:201 3:422 4:422 5:201" || sum == nil || sum.Created != 3 || sum.Failed != 2 {
			t.Errorf("the import answers %q, %+v; want three created and two refused", got, sum)
		}
		for _, l := range sendImport(t, j.hs, "", "", strings.NewReader(strings.SplitAfter(body.String(), "\n")[1])) {
			if _, oneOff := l.ID.OneOff(); l.Summary == nil && (l.Status != 200 || !oneOff) {
				t.Errorf("the line with a key again = %+v, want it known, one-off", l)
			}
		}
	})
}

// Runs are stuck once their deadline has passed, and are listed until they go on.
func TestStuckRunsAreListed(t *testing.T) {
	inJoined(t, func(t *testing.T, j *joined) {
		a := j.once()
		var ids []schema.RunID
		for range 3 {
			ids = append(ids, schema.RunID(j.make(fmt.Sprintf(`"after":{"jobs":[%q],"deadline":"10s"},"payload":{"n":1}`, a.ID)).ID))
			time.Sleep(time.Second)
		}
		slices.SortFunc(ids, schema.RunID.Compare)
		type page struct {
			Items      []Run  `json:"items"`
			NextCursor string `json:"next_cursor"`
		}
		list := func(query string) (p page) {
			t.Helper()
			doJSON(t, j.hs, call{method: "GET", path: stuckPath + query}, 200, &p)
			return p
		}
		if p := list(""); p.Items == nil || len(p.Items) != 0 {
			t.Errorf("GET /v1/stuck = %+v, want an empty list", p)
		}
		j.pass(time.Second) // their deadlines' entries are written
		j.pass(20 * time.Second)
		p := list("?limit=2")
		if len(p.Items) != 2 || p.NextCursor == "" || p.Items[0].ID != ids[0] || p.Items[1].ID != ids[1] {
			t.Fatalf("GET /v1/stuck?limit=2 = %+v, want the first two of %v, and a cursor", p, ids)
		}
		if r := p.Items[0]; r.State != "stuck" || r.Waiting == nil || !strings.HasSuffix(r.Waiting.Reason, a.ID.String()) || r.DeadlineAt.After(time.Now()) || string(r.Payload) != `{"n":1}` {
			t.Errorf("a stuck run is %+v, want what it waits for", r)
		}
		if r := j.run(ids[0].String()); r.State != "stuck" {
			t.Errorf("GET of a stuck run says %s", r.State)
		}
		next := list("?limit=2&cursor=" + url.QueryEscape(p.NextCursor))
		if len(next.Items) != 1 || next.Items[0].ID != ids[2] || next.NextCursor != "" {
			t.Errorf("the next page is %+v, want %s alone", next, ids[2])
		}
		var job Job
		doJSON(t, j.hs, call{method: "GET", path: "/v1/jobs/" + ids[0].String()}, 200, &job)
		if job.State != "active" || job.NextRun != nil {
			t.Errorf("the job of a stuck run is %+v, want it active", job)
		}
		elsewhere := http.Header{tenantHeader: {"other"}}
		var none page
		if doJSON(t, j.hs, call{method: "GET", path: stuckPath, header: elsewhere}, 200, &none); len(none.Items) != 0 {
			t.Errorf("another tenant sees %+v", none)
		}
		for name, c := range map[string]call{
			"a forged cursor":            {method: "GET", path: stuckPath + "?cursor=AAAA"},
			"a cursor of another tenant": {method: "GET", path: stuckPath + "?cursor=" + url.QueryEscape(p.NextCursor), header: elsewhere},
		} {
			if p := doProblem(t, j.hs, c, 422); len(p.Errors) != 1 || p.Errors[0].Location != "query.cursor" {
				t.Errorf("%s: the faults are %+v, want query.cursor", name, p.Errors)
			}
		}
		doProblem(t, j.hs, call{method: "GET", path: stuckPath + "?limit=0"}, 422)

		doJSON(t, j.hs, call{method: "DELETE", path: "/v1/jobs/" + ids[1].String()}, 200, nil)
		if p := list(""); len(p.Items) != 2 || p.Items[0].ID != ids[0] || p.Items[1].ID != ids[2] {
			t.Errorf("once one was cancelled the list is %+v, want the others", p)
		}
		j.succeed(schema.RunID(a.ID))
		j.pass(time.Second)
		if p := list(""); len(p.Items) != 0 {
			t.Errorf("once they have started the list is %+v, want none", p)
		}
		if r := j.run(ids[0].String()); r.State != schema.StatePending {
			t.Errorf("a run that was stuck is %s, want it due", r.State)
		}
	})
}

func TestClientListsStuckRuns(t *testing.T) {
	b := newStub()
	c := newClient(t, serve(t, b).URL)
	var want, got []schema.RunID
	for range 3 {
		r, err := b.Submit(t.Context(), bucketer.Job{
			Tenant: "acme", Work: &schema.Work{NATS: &schema.NATSTarget{Subject: "a"}}, After: &schema.After{Jobs: []schema.Upstream{{Name: "x"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, r.Run)
	}
	slices.SortFunc(want, schema.RunID.Compare)
	for r, err := range c.Stuck(t.Context(), 2) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("Stuck yields %v, want %v", got, want)
	}
}
