package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// TestARegionThatDoesNotAnswerIsNamed: the answer says which it is, and whether anything was taken
// in.
func TestARegionThatDoesNotAnswerIsNamed(t *testing.T) {
	b := newStub()
	hs := serve(t, b, inRegion(t, "eu", "us", ""))
	create := call{method: "POST", path: "/v1/jobs", body: jobBody, header: http.Header{keyHeader: {"k"}}}
	for _, row := range []struct {
		written bool
		kind    string
		says    []string
	}{
		{false, "not-everywhere", []string{"Nothing was taken in", "region us or ap"}},
		{true, "unknown", []string{"Nothing is lost", "region us or ap", "the same idempotency key"}},
	} {
		b.befall(&schema.NotEverywhereError{Regions: []string{"us", "ap"}, Written: row.written, Err: schema.ErrUnavailable})
		p := doProblem(t, hs, create, 503)
		for _, text := range row.says {
			if p.Kind() != row.kind || !strings.Contains(p.Detail, text) {
				t.Errorf("written %t: %s %q; want %s, %q", row.written, p.Kind(), p.Detail, row.kind, text)
			}
		}
	}
}

// TestDurabilityOfAnImport is that of lines that state none.
func TestDurabilityOfAnImport(t *testing.T) {
	b := newStub()
	var got []schema.Durability
	b.onBatch = func(jobs []bucketer.Job) {
		for i := range jobs {
			got = append(got, jobs[i].Durability)
		}
	}
	hs := serve(t, b, inRegion(t, "eu", "us", ""))
	lines := `{"http":{"url":"http://x.test/"}}` + "\n" + `{"http":{"url":"http://x.test/"},"durability":"home"}` + "\n" + `{"http":{"url":"http://x.test/"},"durability":"everywhere"}`
	for query, first := range map[string]schema.Durability{"": "", "?durability=everywhere": schema.DurableEverywhere, "?durability=home": schema.DurableHome} {
		got = nil
		do(t, hs, call{method: "POST", path: importPath + query, body: lines, header: http.Header{"Content-Type": {ndjson}}})
		if want := []schema.Durability{first, schema.DurableHome, schema.DurableEverywhere}; !slices.Equal(got, want) {
			t.Errorf("%q: the lines have %q, want %q", query, got, want)
		}
	}
}

// TestEverywhereNeedsRegions: without them it is a fault of an import and of a tenant, which names
// the setting.
func TestEverywhereNeedsRegions(t *testing.T) {
	o := newAdminStub()
	hs := serve(t, newStub(), o.desk)
	system := o.key("system/admin")
	for location, c := range map[string]call{
		"body.durability":  {method: "PUT", path: "/v1/tenants/a", body: `{"durability":"everywhere"}`, header: system},
		"query.durability": {method: "POST", path: importPath + "?durability=everywhere", body: "{}", header: system},
	} {
		c.header = c.header.Clone()
		if c.method == "POST" {
			c.header.Set("Content-Type", ndjson)
		}
		p := doProblem(t, hs, c, 422)
		if len(p.Errors) != 1 || p.Errors[0].Location != location || !strings.Contains(p.Errors[0].Message, "regions.homes") {
			t.Errorf("%s %s: %+v, want a fault of %s that names the setting", c.method, c.path, p.Errors, location)
		}
	}
	regions := serve(t, newStub(), o.desk, inRegion(t, "eu", "us", ""))
	var stated Tenant
	if doJSON(t, regions, call{method: "PUT", path: "/v1/tenants/a", body: `{"durability":"everywhere"}`, header: system}, 200, &stated); stated.Durability != schema.DurableEverywhere {
		t.Errorf("with regions: %+v, want that it is stated", stated)
	}
}
