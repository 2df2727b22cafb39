package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// Lists of runs tell those that wait for other jobs from those that are stuck, and have both among what
// is pending. None of them is late: they could not start.
func TestRunsThatWaitForOthersAreListedByState(t *testing.T) {
	inJoined(t, func(t *testing.T, j *joined) {
		a := j.once()
		began := time.Now()
		after := func(deadline string) schema.RunID {
			return schema.RunID(j.make(fmt.Sprintf(`"after":{"jobs":[%q],"deadline":%q},"labels":{"n":"1"}`, a.ID, deadline)).ID)
		}
		stuck, waits := after("10s"), after("6h")
		j.pass(time.Second)
		j.pass(20 * time.Second)
		soon := schema.RunID(j.make(fmt.Sprintf(`"schedule":{"at":%q}`, time.Now().Add(time.Minute).Format(time.RFC3339))).ID)
		list := func(query string) (ids []string) {
			t.Helper()
			window := url.Values{"from": {began.Add(-time.Minute).Format(time.RFC3339)}, "to": {began.Add(30 * time.Minute).Format(time.RFC3339)}}
			return runsListed(t, func(path string, v any) { doJSON(t, j.hs, call{method: "GET", path: path}, 200, v) }, window.Encode()+"&"+query,
				func(r *Run) string { return r.ID.String() + " " + string(r.State) })
		}
		s, w, p := stuck.String()+" stuck", waits.String()+" waiting", soon.String()+" pending"
		for query, want := range map[string][]string{
			"":                                    {s, w, p},
			"state=stuck":                         {s},
			"state=waiting":                       {w},
			"state=waiting&state=stuck&limit=1":   {s, w},
			"state=pending":                       {s, w, p},
			"state=stuck&state=running":           {s},
			"late=1s":                             {},
			"label=n%3D1&state=waiting":           {w},
			"label=n%3D2":                         {},
			"state=waiting&job=" + waits.String(): {w},
			"state=stuck&job=" + waits.String():   {},
		} {
			got := list(query)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("GET /v1/runs?%s = %q, want %q", query, got, want)
			}
		}
		j.succeed(schema.RunID(a.ID))
		j.pass(time.Second)
		if got := list("state=waiting&state=stuck"); len(got) != 0 {
			t.Errorf("once they have started, %q wait", got)
		}
		time.Sleep(10 * time.Second)
		if got, want := list("late=5s"), []string{stuck.String() + " pending", waits.String() + " pending"}; len(got) != 2 || !slices.Contains(want, got[0]) || !slices.Contains(want, got[1]) {
			t.Errorf("late by 5 s, 10 s after the others ended, are %q, want %q", got, want)
		}
	})
}
