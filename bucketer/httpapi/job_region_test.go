package httpapi

import (
	"strings"
	"testing"

	"carillon.dev/carillon/schema"
)

// TestAOneOffJobSaysWhereItLies: in the answer that it was made, and when it is read; not where
// there are no regions.
func TestAOneOffJobSaysWhereItLies(t *testing.T) {
	for name, row := range map[string]struct {
		body string
		want schema.RegionChoice
	}{
		"required": {strings.Replace(jobBody, `{`, `{"region":{"name":"us","require":true},`, 1), schema.RegionChoice{Name: "us", Require: true}},
		"anywhere": {jobBody, schema.RegionChoice{Name: "us"}}, // the stub has shard 3
	} {
		hs := serve(t, newStub(), inRegion(t, "us", "eu", ""))
		var made, read Job
		doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: row.body}, 201, &made)
		doJSON(t, hs, call{method: "GET", path: "/v1/jobs/" + made.ID.String()}, 200, &read)
		if made.Region != row.want || read.Region != row.want {
			t.Errorf("%s: made %+v, read %+v, want %+v", name, made.Region, read.Region, row.want)
		}
	}
	var made Job
	if doJSON(t, serve(t, newStub()), call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &made); made.Region != (schema.RegionChoice{}) {
		t.Errorf("without regions: %+v, want nothing", made.Region)
	}
}
