package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

func TestRequestsThatAreRefused(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	var j Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &j)
	const none = "01932e5a-7c00-8003-8d2f-5a1b9c3e7f60"
	media := func(ct string) http.Header { return http.Header{"Content-Type": {ct}} }
	for name, row := range map[string]struct {
		call
		status   int
		location string // of the first fault
	}{
		"no such path":                   {call{method: "GET", path: "/v1/nothing"}, 404, ""},
		"a path with a slash too many":   {call{method: "GET", path: "/v1/tasks/"}, 404, ""},
		"no such method":                 {call{method: "PUT", path: "/v1/jobs", body: jobBody}, 405, ""},
		"a method nobody knows":          {call{method: "BREW", path: "/v1/jobs"}, 405, ""},
		"not JSON":                       {call{method: "POST", path: "/v1/jobs", body: `{`}, 400, ""},
		"no body":                        {call{method: "POST", path: "/v1/jobs"}, 400, ""},
		"invalid UTF-8":                  {call{method: "POST", path: "/v1/jobs", body: "{\"task\":\"\xff\"}"}, 400, ""},
		"trailing text":                  {call{method: "POST", path: "/v1/jobs", body: jobBody + "x"}, 400, ""},
		"ten thousand deep":              {call{method: "POST", path: "/v1/jobs", body: `{"payload":` + strings.Repeat("[", 10_000) + `}`}, 422, "body.payload" + strings.Repeat("[0]", 99)},
		"doubled names":                  {call{method: "POST", path: "/v1/jobs", body: `{"task":"a","task":"b"}`}, 422, "body.task"},
		"a form":                         {call{method: "POST", path: "/v1/jobs", body: jobBody, header: media("application/x-www-form-urlencoded")}, 415, ""},
		"another charset":                {call{method: "POST", path: "/v1/jobs", body: jobBody, header: media("application/json; charset=latin1")}, 415, ""},
		"a broken content type":          {call{method: "POST", path: "/v1/jobs", body: jobBody, header: media("application/json; =")}, 415, ""},
		"a compressed body":              {call{method: "POST", path: "/v1/jobs", body: jobBody, header: http.Header{"Content-Encoding": {"gzip"}}}, 415, ""},
		"over a MiB":                     {call{method: "POST", path: "/v1/jobs", body: strings.Repeat(" ", request.MaxBody+1)}, 413, ""},
		"a task that is none":            {call{method: "POST", path: "/v1/jobs", body: `{"task":"t"}`}, 422, "body.task"},
		"an unknown query":               {call{method: "GET", path: "/v1/tasks?limits=5"}, 422, "query.limits"},
		"limit 0":                        {call{method: "GET", path: "/v1/tasks?limit=0"}, 422, "query.limit"},
		"limit 501":                      {call{method: "GET", path: "/v1/tasks?limit=501"}, 422, "query.limit"},
		"limit x":                        {call{method: "GET", path: "/v1/tasks?limit=x"}, 422, "query.limit"},
		"a tenant that cannot be":        {call{method: "GET", path: "/v1/tasks", header: http.Header{tenantHeader: {"A b"}}}, 422, "header.Carillon-Tenant"},
		"an id that cannot be":           {call{method: "GET", path: "/v1/runs/x"}, 422, "path.id"},
		"an id of a recurring job":       {call{method: "GET", path: "/v1/runs/01932e5a-7c00-7003-8d2f-5a1b9c3e7f60"}, 422, "path.id"},
		"a run that is none":             {call{method: "GET", path: "/v1/runs/" + none}, 404, ""},
		"a run of somebody else":         {call{method: "GET", path: "/v1/runs/" + j.ID.String(), header: http.Header{tenantHeader: {"other"}}}, 404, ""},
		"a job of somebody else":         {call{method: "DELETE", path: "/v1/jobs/" + j.ID.String(), header: http.Header{tenantHeader: {"other"}}}, 404, ""},
		"output of nothing":              {call{method: "GET", path: "/v1/runs/" + none + "/output"}, 404, ""},
		"cancel of nothing":              {call{method: "POST", path: "/v1/runs/" + none + "/cancel"}, 404, ""},
		"cancel with a body":             {call{method: "POST", path: "/v1/runs/" + none + "/cancel", body: `{"why":"x"}`}, 422, "body.why"},
		"retry of nothing":               {call{method: "POST", path: "/v1/runs/" + none + "/retry"}, 404, ""},
		"retry of what goes on":          {call{method: "POST", path: "/v1/runs/" + j.ID.String() + "/retry"}, 409, ""},
		"a job that is none":             {call{method: "GET", path: "/v1/jobs/" + none}, 404, ""},
		"a recurring job that is none":   {call{method: "GET", path: "/v1/jobs/01932e5a-7c00-7003-8d2f-5a1b9c3e7f60"}, 404, ""},
		"a job by a name":                {call{method: "GET", path: "/v1/jobs/nightly"}, 404, ""},
		"a job by what is no name":       {call{method: "GET", path: "/v1/jobs/Night%2Fly"}, 422, "path.id"},
		"a patch of nothing":             {call{method: "PATCH", path: "/v1/jobs/" + none, body: `{}`}, 404, ""},
		"a patch that is wrong":          {call{method: "PATCH", path: "/v1/jobs/" + j.ID.String(), body: `{"priority":"x"}`}, 422, "body.priority"},
		"a task's name":                  {call{method: "GET", path: "/v1/tasks/A"}, 422, "path.name"},
		"a task to put":                  {call{method: "PUT", path: "/v1/tasks/A", body: `{}`}, 422, "path.name"},
		"no task":                        {call{method: "GET", path: "/v1/tasks/a"}, 404, ""},
		"no task to delete":              {call{method: "DELETE", path: "/v1/tasks/a"}, 404, ""},
		"runs without window":            {call{method: "GET", path: "/v1/runs"}, 422, "query.from"},
		"runs of a wrong time":           {call{method: "GET", path: "/v1/runs?from=now&to=2026-11-21T10:00:00Z"}, 422, "query.from"},
		"runs of more than a day":        {call{method: "GET", path: "/v1/runs?from=2026-11-21T10:00:00Z&to=2026-11-22T10:00:00.001Z"}, 422, "query.to"},
		"runs of an empty window":        {call{method: "GET", path: "/v1/runs?from=2026-11-21T10:00:00Z&to=2026-11-21T10:00:00Z"}, 422, "query.to"},
		"runs of an unknown state":       {call{method: "GET", path: "/v1/runs?from=2026-11-21T10:00:00Z&to=2026-11-21T10:30:00Z&state=done"}, 422, "query.state"},
		"runs of a forged cursor":        {call{method: "GET", path: "/v1/runs?from=2026-11-21T10:00:00Z&to=2026-11-21T10:30:00Z&cursor=abcd"}, 422, "query.cursor"},
		"runs of a task that cannot be":  {call{method: "GET", path: "/v1/runs?from=2026-11-21T10:00:00Z&to=2026-11-21T10:30:00Z&task=A"}, 422, "query.task"},
		"an import of JSON":              {call{method: "POST", path: "/v1/imports", body: `{}`}, 415, ""},
		"an import in another encoding":  {call{method: "POST", path: "/v1/imports", body: `{}`, header: http.Header{"Content-Type": {ndjson}, "Content-Encoding": {"br"}}}, 415, ""},
		"an import with unknown results": {call{method: "POST", path: "/v1/imports?results=some", body: `{}`, header: media(ndjson)}, 422, "query.results"},
		"an import that is no gzip":      {call{method: "POST", path: "/v1/imports", body: `{}`, header: http.Header{"Content-Type": {ndjson}, "Content-Encoding": {"gzip"}}}, 400, ""},
		"an import that is no zstd":      {call{method: "POST", path: "/v1/imports", body: `{}`, header: http.Header{"Content-Type": {ndjson}, "Content-Encoding": {"zstd"}}}, 400, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := doProblem(t, hs, row.call, row.status)
			if row.location != "" && (len(p.Errors) == 0 || p.Errors[0].Location != row.location) {
				t.Errorf("%s %s: faults %+v, want one at %s", row.method, row.path, p.Errors, row.location)
			}
		})
	}
}

// An unknown parameter hides nothing else that is wrong with a query.
func TestAllFaultsOfAQueryAreNamed(t *testing.T) {
	hs := serve(t, newStub())
	const window = "from=2026-11-21T10:00:00Z&to=2026-11-21T10:30:00Z"
	for path, want := range map[string][]string{
		"/v1/runs?foo=1&state=bar&" + window:                  {"query.foo", "query.state"},
		"/v1/runs?zoo=1&foo=1&state=failed&state=bar&limit=x": {"query.foo", "query.zoo", "query.limit", "query.state"},
		"/v1/runs?foo=1&limit=0&state=failed&" + window:       {"query.foo", "query.limit"},
		"/v1/runs?foo=1&state=failed&limit=5&" + window:       {"query.foo"},
		"/v1/events?foo=1&from=x":                             {"query.foo", "query.from", "query.to"},
		"/v1/workflows?foo=1&waiting=perhaps":                 {"query.foo", "query.waiting"},
	} {
		p := doProblem(t, hs, call{method: "GET", path: path}, 422)
		var got []string
		for _, e := range p.Errors {
			got = append(got, e.Location)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("GET %s: where the faults are (-want +got):\n%s", path, diff)
		}
	}
}

func TestErrorsOfTheStore(t *testing.T) {
	secret := errors.New("gocql: no response from 10.1.2.3")
	for _, row := range []struct {
		err    error
		status int
		kind   string
	}{
		{bucketer.ErrPartitionFull, 429, "minute-full"},
		{bucketer.ErrOverloaded, 429, "overloaded"},
		{bucketer.ErrNotReady, 503, "not-ready"},
		{schema.ErrUnknown, 503, "unknown"},
		{schema.ErrNotServed, 503, "not-served"},
		{fmt.Errorf("%w: %w", schema.ErrUnknown, schema.ErrNotServed), 503, "unknown"},
		{schema.ErrUnavailable, 503, "unavailable"},
		{context.DeadlineExceeded, 503, "unknown"},
		{schema.ErrTooLarge, 413, "too-large"},
		{schema.ErrConflict, 409, "conflict"},
		{secret, 500, "internal"},
	} {
		b := newStub()
		b.err = fmt.Errorf("write row: %w (%w)", row.err, secret)
		hs := serve(t, b)
		for _, c := range []call{
			{method: "POST", path: "/v1/jobs", body: jobBody},
			{method: "GET", path: "/v1/jobs/01932e5a-7c00-8003-8d2f-5a1b9c3e7f60"},
			{method: "GET", path: "/v1/runs?from=2026-11-21T10:00:00Z&to=2026-11-21T10:30:00Z"},
			{method: "PUT", path: "/v1/tasks/t", body: `{"nats":{"subject":"a"}}`},
		} {
			p, want := doProblem(t, hs, c, row.status), row.kind
			if c.method == "GET" && want == "unknown" { // what only reads leaves nothing open
				want = "unavailable"
			}
			if p.Kind() != want || strings.Contains(p.Error(), "gocql") {
				t.Errorf("%s %s with %v: %s (%s), want kind %s and no word of the driver", c.method, c.path, row.err, p.Error(), p.Kind(), want)
			}
			if p.Kind() != "unknown" && strings.Contains(p.Detail+p.Title, "not known") {
				t.Errorf("%s %s with %v: %s, which leaves open whether something was written", c.method, c.path, row.err, p.Error())
			}
		}
	}
}

func TestPanicIsAProblem(t *testing.T) {
	b := newStub()
	b.onRun = func(context.Context) { panic("out of luck") }
	hs := serve(t, b)
	if p := doProblem(t, hs, call{method: "GET", path: "/v1/runs/01932e5a-7c00-8003-8d2f-5a1b9c3e7f60"}, 500); strings.Contains(p.Error(), "luck") {
		t.Errorf("the problem %v repeats the panic", p.Error())
	}
	doJSON(t, hs, call{method: "GET", path: "/v1/tasks"}, 200, nil)
}

func TestCursorsAreSigned(t *testing.T) {
	c := cursors{[]byte("0123456789abcdef")}
	made, err := c.make("question", "answer")
	if err != nil {
		t.Fatal(err)
	}
	var v string
	if err := c.read(made, "question", &v); err != nil || v != "answer" {
		t.Fatalf("read(make) = %q, %v; want answer", v, err)
	}
	if err := c.read(made, "another question", &v); err == nil {
		t.Error("a cursor serves another question")
	}
	if err := (cursors{[]byte("another key of 16")}).read(made, "question", &v); err == nil {
		t.Error("a cursor serves under another key")
	}
	for i := range made {
		forged := []byte(made)
		if forged[i]++; forged[i] > 'z' {
			forged[i] = 'A'
		}
		if err := c.read(string(forged), "question", &v); err == nil {
			t.Errorf("the cursor with byte %d changed is taken", i)
		}
	}
	if err := c.read(made[:len(made)-1], "question", &v); err == nil {
		t.Error("a cut cursor is taken")
	}
}

func TestReadiness(t *testing.T) {
	var down error
	hs := serve(t, newStub(), func(_ *Config, d *Deps) {
		d.Ready = func(context.Context) []Dependency {
			return []Dependency{{Name: "cassandra"}, {Name: "clock", Warning: "unchecked:\nnobody\tto ask"}, {Name: "nats", Err: down}}
		}
		d.Cluster = func(context.Context) (Cluster, error) { return Cluster{Node: "n1"}, down }
		r := prometheus.NewRegistry()
		r.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "carillon_test"}))
		d.Gatherer = r
	})
	get := func(path string) string {
		status, _, text := do(t, hs, call{method: "GET", path: path})
		return fmt.Sprintf("%d %s", status, text)
	}
	if got := get("/readyz"); got != "200 cassandra: ok\nclock: WARNING, unchecked: nobody to ask\nnats: ok\n" {
		t.Errorf("GET /readyz = %q", got)
	}
	down = errors.New("no\nservers")
	if got := get("/readyz"); got != "503 cassandra: ok\nclock: WARNING, unchecked: nobody to ask\nnats: no servers\n" {
		t.Errorf("GET /readyz = %q, want 503 and a line for each", got)
	}
	if got := get("/healthz"); got != "200 ok\n" {
		t.Errorf("GET /healthz = %q", got)
	}
	if got := get("/metrics"); !strings.Contains(got, "carillon_test 0") {
		t.Errorf("GET /metrics = %q, want the gatherer's", got)
	}
	if got := get("/metrics?name[]=carillon_test&name[]=another"); !strings.Contains(got, "carillon_test 0") {
		t.Errorf("GET /metrics of two names = %q, want the one that there is", got)
	}
	doProblem(t, hs, call{method: "GET", path: "/v1/cluster"}, 500)
	down = nil
	var c Cluster
	doJSON(t, hs, call{method: "GET", path: "/v1/cluster"}, 200, &c)
	if c.Node != "n1" {
		t.Errorf("GET /v1/cluster = %+v", c)
	}
}

func TestMetricsCount(t *testing.T) {
	r := prometheus.NewRegistry()
	hs := serve(t, newStub(), func(c *Config, d *Deps) { c.Registerer, d.Gatherer = r, r })
	doJSON(t, hs, call{method: "GET", path: "/v1/tasks"}, 200, nil)
	doProblem(t, hs, call{method: "GET", path: "/v1/tasks/none"}, 404)
	doProblem(t, hs, call{method: "X" + "YZ", path: "/elsewhere"}, 404)
	_, _, text := do(t, hs, call{method: "GET", path: "/metrics"})
	for _, want := range []string{
		`carillon_http_requests_total{method="GET",route="/v1/tasks",status="200"} 1`,
		`carillon_http_requests_total{method="GET",route="/v1/tasks/:name",status="404"} 1`,
		`carillon_http_requests_total{method="any",route="none",status="404"} 1`,
		`carillon_import_lines_total{status="201"} 0`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

func TestConfigReportsEveryFault(t *testing.T) {
	_, err := New(Config{CursorKey: []byte("short"), ChunkLines: bucketer.MaxChunk + 1, MaxImports: -1, ImportIdle: -1}, Deps{})
	for _, want := range []string{"cursor key", "chunk lines", "imports", "import idle", "needs jobs"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New of a bad configuration = %v, want a word on %s", err, want)
		}
	}
}

func TestRunStops(t *testing.T) {
	b := newStub()
	s, err := New(Config{}, Deps{Jobs: b, Runs: b, Tasks: b, Recurring: b, Workflows: b, Events: b, Joins: b})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	b.onRun = func(context.Context) { close(entered); <-leave }
	ctx, cancel := context.WithCancel(context.Background())
	ran, answered := make(chan error, 1), make(chan int, 1)
	go func() { ran <- s.Run(ctx, l) }()
	tr := &http.Transport{DisableKeepAlives: true}
	go func() {
		resp, err := (&http.Client{Transport: tr}).Get("http://" + l.Addr().String() + "/v1/runs/01932e5a-7c00-8003-8d2f-5a1b9c3e7f60")
		if err != nil {
			answered <- 0
			return
		}
		_ = resp.Body.Close()
		answered <- resp.StatusCode
	}()
	<-entered
	cancel()
	<-s.stopping
	close(leave)
	if got := <-answered; got != 404 {
		t.Errorf("the request under way was answered %d, want 404 as always", got)
	}
	if err := <-ran; err != nil {
		t.Errorf("Run = %v, want nil when told to stop", err)
	}
	if c, err := net.DialTimeout("tcp", l.Addr().String(), time.Second); err == nil {
		_ = c.Close()
		t.Error("the listener is open after Run")
	}
}
