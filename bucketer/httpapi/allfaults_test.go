package httpapi

import (
	"slices"
	"strings"
	"testing"
)

// TestABadLimitHidesNoFault: what the rules of the document find, and what only a handler finds,
// are named together; a window of which an end cannot be read is not judged, and nothing is said
// twice.
func TestABadLimitHidesNoFault(t *testing.T) {
	o, w := newAdminStub(), newLoggers(t)
	hs := serve(t, newStub(), o.deps, func(_ *Config, d *Deps) { d.Logs, d.Tasks, d.DeadLetters = w.e, w.e, &stubLetters{b: newStub()} })
	const window = "from=2026-11-21T10:00:00Z&to=2026-11-21T09:00:00Z"
	for path, want := range map[string]string{
		"/v1/logs?limit=0&run=x&label=y&" + window:    "query.from query.label query.label query.limit query.run query.to query.to",
		"/v1/logs?limit=0&" + window:                  "query.limit query.to",
		"/v1/logs?limit=0&text=%01":                   "query.limit query.text",
		"/v1/logs?limit=501&task=unknown":             "query.limit query.task",
		"/v1/logs?limit=0":                            "query.limit",
		"/v1/logs?limit=0&cursor=x":                   "query.limit",
		"/v1/logs?kind=no&from=yesterday&job=%01":     "query.from query.job query.kind",
		"/v1/runs?limit=0":                            "query.from query.limit query.to",
		"/v1/runs?limit=0&task=%01&from=yesterday":    "query.from query.limit query.task",
		"/v1/runs?limit=0&event=x":                    "query.event query.limit",
		"/v1/runs?limit=0&key=k&task=t":               "query.limit query.task",
		"/v1/runs?limit=0&workflow_run=x&step=%01":    "query.limit query.step query.workflow_run",
		"/v1/events?limit=0&name=%01&" + window:       "query.limit query.name query.to",
		"/v1/audit?limit=0&" + window:                 "query.limit query.to",
		"/v1/dead-letters?limit=0&task=%01&" + window: "query.limit query.task query.to",
		"/v1/jobs/01932e5a-7c00-8003-8d2f-5a1b9c3e7f60/runs?limit=0&state=no&" + window: "query.limit query.state query.to",
	} {
		p := doProblem(t, hs, call{method: "GET", path: path}, 422)
		var at []string
		for _, f := range p.Errors {
			at = append(at, f.Location)
		}
		slices.Sort(at)
		if got := strings.Join(at, " "); got != want {
			t.Errorf("%s names faults at %s, want %s: %+v", path, got, want, p.Errors)
		}
	}
}
