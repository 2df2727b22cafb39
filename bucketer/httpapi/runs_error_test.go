package httpapi

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"carillon.dev/carillon/schema"
)

// TestRunsTellTheirError: a run tells why it failed, in lists as where it is shown alone, in the
// words by which lists select it.
func TestRunsTellTheirError(t *testing.T) {
	failed := func(text string) *schema.Record {
		return &schema.Record{Outcome: schema.Failed, Error: text, Started: testNow, Finished: testNow}
	}
	answered := failed("answered 500")
	answered.Status, answered.Output = 500, "out of\n stock"
	long := strings.Repeat("é", 300) // 600 bytes, of which no 509 are whole letters
	for name, c := range map[string]struct {
		state    schema.State
		attempts []schema.Attempt
		want     string
	}{
		"that waits":             {schema.StatePending, nil, ""},
		"that failed":            {schema.StateFailed, []schema.Attempt{{Number: 1, Record: failed("refused")}}, "refused"},
		"that failed twice":      {schema.StateFailed, []schema.Attempt{{Number: 1, Record: failed("refused")}, {Number: 2, Record: failed("no route")}}, "no route"},
		"with an answer":         {schema.StateFailed, []schema.Attempt{{Number: 1, Record: answered}}, "answered 500: out of stock"},
		"that is tried again":    {schema.StateRetrying, []schema.Attempt{{Number: 1, Record: failed("refused")}}, "refused"},
		"under way again":        {schema.StateRunning, []schema.Attempt{{Number: 1, Record: failed("refused")}, {Number: 2, Session: &schema.SessionRef{Started: testNow}}}, "refused"},
		"that succeeded at last": {schema.StateSucceeded, []schema.Attempt{{Number: 1, Record: failed("refused")}, {Number: 2, Record: &schema.Record{Outcome: schema.Succeeded}}}, ""},
		"given up unstarted":     {schema.StateFailed, []schema.Attempt{{Record: &schema.Record{Outcome: schema.Failed, Final: true, Error: "too large"}}}, "too large"},
		"given up after one":     {schema.StateFailed, []schema.Attempt{{Record: &schema.Record{Outcome: schema.Failed, Final: true, Error: "too large"}}, {Number: 1, Record: failed("refused")}}, "refused; too large"},
		"with a long error":      {schema.StateFailed, []schema.Attempt{{Number: 1, Record: failed(long)}}, strings.Repeat("é", 254) + "…"},
		"with 512 bytes":         {schema.StateFailed, []schema.Attempt{{Number: 1, Record: failed(long[:512])}}, long[:512]},
	} {
		t.Run(name, func(t *testing.T) {
			b := newStub()
			hs := serve(t, b)
			var j Job
			doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: fmt.Sprintf(`{"nats":{"subject":"x"},"schedule":{"at":%q}}`, testNow.Format(time.RFC3339))}, 201, &j)
			b.mu.Lock()
			r := b.runs[schema.RunID(j.ID)]
			r.State, r.Attempts = c.state, c.attempts
			b.mu.Unlock()
			for _, path := range []string{"/v1/runs?" + aDay, "/v1/runs?order=newest&" + aDay, "/v1/runs?" + aDay + "&job=" + j.ID.String(), "/v1/jobs/" + j.ID.String() + "/runs"} {
				var page struct{ Items []Run }
				if doJSON(t, hs, call{method: "GET", path: path}, 200, &page); len(page.Items) != 1 || page.Items[0].Error != c.want {
					t.Errorf("GET %s = %+v, want one run with the error %q", path, page.Items, c.want)
				}
			}
			var run Run
			if doJSON(t, hs, call{method: "GET", path: "/v1/runs/" + j.ID.String()}, 200, &run); run.Error != c.want {
				t.Errorf("the run shows the error %q, want %q", run.Error, c.want)
			}
			if len(run.Error) > maxError || !utf8.ValidString(run.Error) {
				t.Errorf("the error has %d bytes, want valid text of at most %d", len(run.Error), maxError)
			}
			if c.want == "" || len(c.want) == maxError {
				return
			}
			var found struct{ Items []Run }
			words := strings.TrimSuffix(c.want, "…")
			if len(words) > 200 {
				words = words[:200]
			}
			if doJSON(t, hs, call{method: "GET", path: "/v1/runs?" + aDay + "&error=" + url.QueryEscape(words)}, 200, &found); len(found.Items) != 1 {
				t.Errorf("runs with the error %q = %+v, want one", words, found.Items)
			}
		})
	}
}
