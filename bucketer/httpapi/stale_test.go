package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"carillon.dev/carillon/schema"
)

// Tasks and tenants have an ETag, which each change makes another. A request that names an old one
// is answered 412 and changes nothing.
func TestTasksAndTenantsAreChangedAsTheyWereSeen(t *testing.T) {
	b, o := newStub(), newAdminStub()
	o.tenants = map[string]schema.Tenant{}
	hs := serve(t, b, o.desk)
	system := o.key("system/admin")
	if status := func() int {
		status, _, _ := do(t, hs, call{method: "PUT", path: "/v1/tasks/t", body: `{"nats":{"subject":"a"}}`, header: with(system, http.Header{"If-Match": {"*"}})})
		return status
	}(); status != 412 {
		t.Errorf("a task that must be there and is not = %d, want 412", status)
	}
	for _, row := range []struct{ path, one, other string }{
		{"/v1/tasks/t", `{"nats":{"subject":"a"}}`, `{"nats":{"subject":"b"}}`},
		{"/v1/tenants/a", `{"weight":2}`, `{"weight":3}`},
	} {
		t.Run(row.path, func(t *testing.T) {
			put := func(match, body string) (int, string) {
				t.Helper()
				header := system
				if match != "" {
					header = with(system, http.Header{"If-Match": {match}})
				}
				status, got, _ := do(t, hs, call{method: "PUT", path: row.path, body: body, header: header})
				return status, got.Get("ETag")
			}
			_, first := put("", row.one)
			_, header, _ := do(t, hs, call{method: "GET", path: row.path, header: system})
			if first == "" || header.Get("ETag") != first {
				t.Fatalf("GET has the ETag %q, want %q of the PUT", header.Get("ETag"), first)
			}
			status, second := put(`"x", `+first, row.other)
			if status != 200 || second == first {
				t.Errorf("PUT of what was seen = %d, ETag %s, want 200 and another than %s", status, second, first)
			}
			p := doProblem(t, hs, call{method: "PUT", path: row.path, body: row.one, header: with(system, http.Header{"If-Match": {first}})}, 412)
			if p.Kind() != "stale" || !strings.Contains(p.Detail, second) {
				t.Errorf("PUT of what was seen before = %+v, want stale, and the ETag %s", p, second)
			}
			if _, header, _ := do(t, hs, call{method: "GET", path: row.path, header: system}); header.Get("ETag") != second {
				t.Errorf("after that the ETag is %s, want %s", header.Get("ETag"), second)
			}
			if status, _ := put("*", row.one); status != 200 {
				t.Errorf("PUT of whatever is there = %d, want 200", status)
			}
		})
	}
	doProblem(t, hs, call{method: "DELETE", path: "/v1/tasks/t", header: with(system, http.Header{"If-Match": {`"x"`}})}, 412)
	_, header, _ := do(t, hs, call{method: "GET", path: "/v1/tasks/t", header: system})
	if status, _, _ := do(t, hs, call{method: "DELETE", path: "/v1/tasks/t", header: with(system, http.Header{"If-Match": {header.Get("ETag")}})}); status != 204 {
		t.Errorf("DELETE of what was seen = %d, want 204", status)
	}
}
