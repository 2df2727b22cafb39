package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// A tenant states for how many days the history of its runs is kept, at most the cluster's week.
// Each fault is named at once with the others.
func TestARetentionIsStated(t *testing.T) {
	o := newAdminStub()
	hs := serve(t, newStub(), o.desk)
	system := o.key("system/admin")
	for body, want := range map[string]int{
		`{}`: 0, `{"retention":null}`: 0, `{"retention":1}`: 1, `{"retention":7}`: 7, `{"retention":3.0,"weight":2}`: 3,
	} {
		var got Tenant
		if doJSON(t, hs, call{method: "PUT", path: "/v1/tenants/a", body: body, header: system}, 200, &got); got.Retention != want {
			t.Errorf("PUT of %s: the retention is %d, want %d", body, got.Retention, want)
		}
	}
	for body, want := range map[string]string{
		`{"retention":0}`: "body.retention", `{"retention":-1}`: "body.retention", `{"retention":1.5}`: "body.retention",
		`{"retention":"7d"}`: "body.retention", `{"retention":8}`: "body.retention", `{"retention":1e99}`: "body.retention",
		`{"weight":0,"retention":8,"x":1}`: "body.retention body.weight body.x",
	} {
		p := doProblem(t, hs, call{method: "PUT", path: "/v1/tenants/a", body: body, header: system}, 422)
		var at []string
		for _, f := range p.Errors {
			at = append(at, f.Location)
			if strings.Contains(body, ":8") && f.Location == "body.retention" && !strings.Contains(f.Message, "at most 7 days: so long the cluster") {
				t.Errorf("PUT of %s is refused with %q, want the cluster's retention named", body, f.Message)
			}
		}
		if slices.Sort(at); strings.Join(at, " ") != want {
			t.Errorf("PUT of %s finds fault with %v, want %s", body, at, want)
		}
	}
}

// Lists, searches, counts and exports go back as far as the tenant's retention, and say so. Other
// tenants' go back as ever.
func TestTheRetentionBoundsWindows(t *testing.T) {
	b, o := newStub(), newAdminStub()
	hs := serve(t, b, o.desk)
	system := o.key("system/admin", "a/operator", "b/operator")
	doJSON(t, hs, call{method: "PUT", path: "/v1/tenants/a", body: `{"retention":2}`, header: system}, 200, nil)
	a, other := bearer(secret("a/operator")), bearer(secret("b/operator"))
	at := func(ago time.Duration) string { return url.QueryEscape(testNow.Add(-ago).Format(time.RFC3339)) }
	const kept, over = 48 * time.Hour, 48*time.Hour + time.Second
	day := testNow.Add(-over).AddDate(0, 0, -1).Format(time.DateOnly) // it ended more than two days ago
	for name, row := range map[string]struct{ path, fault string }{
		"runs":          {"/v1/runs?from=" + at(over) + "&to=" + at(47*time.Hour), "query.from"},
		"runs in time":  {"/v1/runs?from=" + at(kept) + "&to=" + at(47*time.Hour), ""},
		"search":        {"/v1/runs?order=newest&from=" + at(over), "query.from"},
		"of a time":     {"/v1/runs?order=newest&to=" + at(over), "query.from"},
		"search now":    {"/v1/runs?order=newest", ""},
		"counts":        {"/v1/stats/states?from=" + at(over), "query.from"},
		"counts now":    {"/v1/stats/states", ""},
		"events":        {"/v1/events?from=" + at(over) + "&to=" + at(47*time.Hour), "query.from"},
		"history":       {"/v1/history?day=" + day, "query.day"},
		"history ended": {"/v1/history?day=" + testNow.Add(-kept).Format(time.DateOnly), ""},
	} {
		t.Run(name, func(t *testing.T) {
			ask := func(header http.Header) (int, string) {
				status, _, text := do(t, hs, call{method: "GET", path: row.path, header: header})
				return status, string(text)
			}
			if status, text := ask(other); status == 422 && strings.Contains(text, "retention") {
				t.Errorf("another tenant's: %d %s, want no bound by a retention", status, text)
			}
			status, text := ask(a)
			if named := status == 422 && strings.Contains(text, row.fault) && strings.Contains(text, "2 days ago: so long the tenant keeps history"); named != (row.fault != "") {
				t.Errorf("GET %s = %d %s, want a fault %q", row.path, status, text, row.fault)
			}
		})
	}
}
