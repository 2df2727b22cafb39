package httpapi

import (
	"slices"
	"testing"

	"carillon.dev/carillon/schema"
)

func TestTenantsAreStatedAndRead(t *testing.T) {
	o := newAdminStub()
	hs := serve(t, newStub(), o.desk)
	system, own := o.key("system/admin", "a/admin", "a/viewer"), bearer(secret("a/viewer"))
	var got Tenant
	if doJSON(t, hs, call{method: "GET", path: "/v1/tenants/a", header: own}, 200, &got); got.Name != "a" || got.Weight != 1 || got.Quotas != (schema.Quotas{}) {
		t.Errorf("GET a tenant of which nothing was stated = %+v, want the defaults", got)
	}
	doProblem(t, hs, call{method: "GET", path: "/v1/tenants/b", header: own}, 404)
	body := `{"weight":3,"quotas":{"runs_per_minute":60,"payload_bytes_per_minute":1099511627776}}`
	doJSON(t, hs, call{method: "PUT", path: "/v1/tenants/a", body: body, header: system}, 200, &got)
	want := schema.Quotas{RunsPerMinute: 60, PayloadBytesPerMinute: 1 << 40}
	var read Tenant
	if doJSON(t, hs, call{method: "GET", path: "/v1/tenants/a", header: own}, 200, &read); read != got || read.Weight != 3 || read.Quotas != want {
		t.Errorf("GET = %+v, PUT = %+v; want weight 3 and %+v of both", read, got, want)
	}
	acts := o.noted()
	if len(acts) != 1 || acts[0].Tenant != "a" || acts[0].Actor != "system/admin-key" || acts[0].Object != "tenant/a" || acts[0].Before == nil || acts[0].After == nil {
		t.Errorf("noted was %+v, want the change in the log of the tenant", acts)
	}
}

// Whoever runs the system sees all tenants, page by page; a tenant sees itself.
func TestTenantsAreListed(t *testing.T) {
	o := newAdminStub()
	hs := serve(t, newStub(), o.desk)
	system, own := o.key("system/admin", "b/viewer"), bearer(secret("b/viewer"))
	for _, name := range []string{"c", "a", "b"} {
		doJSON(t, hs, call{method: "PUT", path: "/v1/tenants/" + name, body: `{"weight":2}`, header: system}, 200, nil)
	}
	var names []string
	for query := "?limit=2"; query != ""; {
		var page struct {
			Items      []Tenant
			NextCursor string `json:"next_cursor"`
		}
		doJSON(t, hs, call{method: "GET", path: "/v1/tenants" + query, header: system}, 200, &page)
		for _, tenant := range page.Items {
			names = append(names, tenant.Name)
		}
		if query = ""; page.NextCursor != "" {
			query = "?limit=2&cursor=" + page.NextCursor
			doProblem(t, hs, call{method: "GET", path: "/v1/tenants" + query, header: own}, 422)
		}
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(names, want) {
		t.Errorf("GET /v1/tenants by the system = %q, want %q", names, want)
	}
	var mine struct{ Items []Tenant }
	if doJSON(t, hs, call{method: "GET", path: "/v1/tenants", header: own}, 200, &mine); len(mine.Items) != 1 || mine.Items[0].Name != "b" || mine.Items[0].Weight != 2 {
		t.Errorf("GET /v1/tenants by a tenant = %+v, want itself", mine.Items)
	}
	for _, query := range []string{"?limit=0", "?limit=-1", "?limit=1000000000", "?cursor=x", "?name=a"} {
		doProblem(t, hs, call{method: "GET", path: "/v1/tenants" + query, header: system}, 422)
	}
}
