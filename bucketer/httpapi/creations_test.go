package httpapi

import (
	"net/http"
	"strings"
	"testing"
)

// A tenant that asks for it has an audit entry of each one-off job that is created, without
// secrets; others have none, and an import has its own.
func TestCreationsAreNotedWhereATenantAsksForThem(t *testing.T) {
	b, o := newStub(), newAdminStub()
	hs := serve(t, b, o.desk)
	system, a, other := o.key("system/admin", "a/operator", "b/operator"), bearer(secret("a/operator")), bearer(secret("b/operator"))
	var tenant Tenant
	doJSON(t, hs, call{method: "PUT", path: "/v1/tenants/a", body: `{"audit":{"creations":true}}`, header: system}, 200, &tenant)
	if !tenant.Audit.Creations {
		t.Errorf("the tenant is %+v, want one that asks for entries of creations", tenant)
	}
	o.noted()
	body := `{"http":{"url":"http://x.test/","headers":{"k":"hush"}},"payload":{"p":"hush"},"labels":{"team":"x"}}`
	keyed := with(a, http.Header{keyHeader: {"k"}})
	for range 2 {
		doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: body, header: keyed}, 201, nil)
	}
	got := said(t, o)
	if strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "a operator-key create run/") || strings.Contains(got, "hush") || !strings.Contains(got, `"team":"x"`) || !strings.Contains(got, `"payload":"12 bytes"`) {
		t.Errorf("a job that was asked for twice by one key: noted was\n%s\nwant one creation, without secrets", got)
	}
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: body, header: other}, 201, nil)
	doProblem(t, hs, call{method: "POST", path: "/v1/jobs", body: `{}`, header: a}, 422)
	if got := said(t, o); got != "" {
		t.Errorf("a job of a tenant that does not ask, and one that was refused: noted was\n%s\nwant nothing", got)
	}
	if status, _, text := do(t, hs, call{method: "POST", path: "/v1/imports", body: body, header: with(a, http.Header{"Content-Type": {ndjson}})}); status != 200 {
		t.Fatalf("POST /v1/imports = %d %s", status, text)
	}
	if got := said(t, o); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "a operator-key import import") {
		t.Errorf("an import: noted was\n%s\nwant the import alone", got)
	}
	p := doProblem(t, hs, call{method: "PUT", path: "/v1/tenants/a", body: `{"audit":{"reads":true,"creations":1}}`, header: system}, 422)
	if len(p.Errors) != 2 {
		t.Errorf("a tenant that asks for what there is not: %+v, want both faults", p.Errors)
	}
}
