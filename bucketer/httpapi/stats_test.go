package httpapi

import (
	"net/http"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

func TestCountsAreAnswered(t *testing.T) {
	o := newAdminStub()
	hs := serve(t, newStub(), o.deps)
	o.minutes = []admin.Minute{
		{
			Minute: testNow, Due: 1, Started: 2, Succeeded: 3, Failed: 4, Missed: 5, Retried: 6, MissedFor: schema.MissedFor{Late: 1, UnderWay: 3},
			Lateness: admin.Lateness{{UpTo: schema.Duration(1500 * time.Microsecond), Count: 99}, {UpTo: schema.Duration(time.Second), Count: 1}},
			Classes:  schema.LatenessCounts{1: 99, 10: 1, 16: 2},
		},
		{Minute: testNow.Add(time.Minute), Running: true, Partial: true},
	}
	o.missing = []string{"b"}
	_, _, text := do(t, hs, call{method: "GET", path: "/v1/stats"})
	want := `{"scope":"all","items":[{"minute":"2026-11-21T09:30:00.000Z","due":1,"started":2,"succeeded":3,"failed":4,"missed":5,"missed_for":{"late":1,"under_way":3,"changed":0,"fault":0},"retried":6,"late":3,` +
		`"lateness":{"p50_ms":1.5,"p99_ms":1.5,"max_ms":1000,"classes":[{"up_to_ms":2,"count":99},{"up_to_ms":2000,"count":1},{"count":2}]}},` +
		`{"minute":"2026-11-21T09:31:00.000Z","due":0,"started":0,"succeeded":0,"failed":0,"missed":0,"retried":0,"late":0,"running":true,"partial":true}],"missing_nodes":["b"]}` + "\n"
	if string(text) != want {
		t.Errorf("GET /v1/stats = %s, want %s", text, want)
	}
	if want := (admin.MinutesQuery{From: testNow.Add(-time.Hour), To: testNow}); o.askedMinutes != want {
		t.Errorf("asked was for %+v, want %+v", o.askedMinutes, want)
	}
}

func TestCountsByNameAreAnswered(t *testing.T) {
	o := newAdminStub()
	hs := serve(t, newStub(), o.deps)
	job := schema.MakeJobID(testNow, 1, 1)
	counts := schema.Counts{
		Due: 9, Started: 4, Succeeded: 3, Failed: 2, Missed: 1, Retried: 5, MissedFor: schema.MissedFor{Fault: 1},
		Lateness: schema.LatenessCounts{1: 2, 3: 1, 10: 1}, MaxLateness: schema.Duration(1250 * time.Millisecond),
	}
	o.top = admin.Top{
		Names: []schema.NameCounts{{Tenant: "shop", Name: "report", Job: job, Counts: counts}, {
			Tenant: "shop", Job: job, Counts: schema.Counts{Failed: 1}, LastError: "answered 503", FirstFailed: testNow.Add(-time.Hour), LastFailed: testNow, LastSucceeded: testNow.Add(-time.Minute),
		}},
		Others:   schema.Counts{Due: 1},
		Complete: true,
	}
	sums := `"due":9,"started":4,"succeeded":3,"failed":2,"missed":1,"missed_for":{"late":0,"under_way":0,"changed":0,"fault":1},"retried":5,"late":1,"lateness":{"p50_ms":2,"p99_ms":1250,"max_ms":1250}`
	few := `"started":0,"succeeded":0,"failed":1,"missed":0,"retried":0,"late":0,"failed_from":"2026-11-21T08:30:00.000Z","failed_to":"2026-11-21T09:30:00.000Z",` +
		`"succeeded_last":"2026-11-21T09:29:00.000Z","last_error":"answered 503"`
	for path, want := range map[string]string{
		"by=job&limit=2&order=late": `{"by":"job","scope":"all","items":[{"name":"report","tenant":"shop","job_id":"` + job.String() + `",` + sums + `},` +
			`{"name":"` + job.String() + `","tenant":"shop","job_id":"` + job.String() + `","due":0,` + few + `}],` +
			`"others":{"due":1,"started":0,"succeeded":0,"failed":0,"missed":0,"retried":0,"late":0},"kept":50,"complete":true,"missing_nodes":[]}` + "\n",
		"by=host": `{"by":"host","scope":"all","items":[{"name":"report","tenant":"shop",` + sums[len(`"due":9,`):] + `},` +
			`{"name":"","tenant":"shop",` + few + `}],` +
			`"others":{"started":0,"succeeded":0,"failed":0,"missed":0,"retried":0,"late":0},"kept":50,"complete":true,"missing_nodes":[]}` + "\n",
	} {
		if _, _, text := do(t, hs, call{method: "GET", path: "/v1/stats/top?" + path}); string(text) != want {
			t.Errorf("GET /v1/stats/top?%s = %s, want %s", path, text, want)
		}
	}
	do(t, hs, call{method: "GET", path: "/v1/stats/top?by=tenant&from=2026-11-21T08:00:00Z"})
	if want := (admin.TopQuery{Kind: schema.ByTenant, From: testNow.Add(-90 * time.Minute), To: testNow, Order: admin.OrderActivity, Limit: 50}); o.askedTop != want {
		t.Errorf("asked was for %+v, want %+v", o.askedTop, want)
	}
	o.top = admin.Top{Names: []schema.NameCounts{{Tenant: "shop"}}, Complete: true}
	var got TopStats
	doJSON(t, hs, call{method: "GET", path: "/v1/stats/top?by=tenant"}, 200, &got)
	if len(got.Items) != 1 || got.Items[0].Name != "shop" || got.Others != nil || got.Kept != 500 {
		t.Errorf("GET /v1/stats/top?by=tenant = %+v, want the tenant by its name, and no others", got)
	}
}

func TestComingMinutesAreAnswered(t *testing.T) {
	o := newAdminStub()
	hs := serve(t, newStub(), o.deps)
	o.coming = admin.Forecast{Shards: 64, Sampled: 4, AsOf: testNow, Minutes: []admin.ForecastMinute{
		{Minute: testNow, Runs: 1200, Known: true}, {Minute: testNow.Add(time.Minute), Known: true}, {Minute: testNow.Add(2 * time.Minute)},
	}}
	_, _, text := do(t, hs, call{method: "GET", path: "/v1/stats/upcoming?minutes=3"})
	want := `{"items":[{"minute":"2026-11-21T09:30:00.000Z","runs":1200,"estimated":true},{"minute":"2026-11-21T09:31:00.000Z","runs":0,"estimated":true},` +
		`{"minute":"2026-11-21T09:32:00.000Z","estimated":false}],"sampled_shards":4,"shards":64,"as_of":"2026-11-21T09:30:00.000Z"}` + "\n"
	if string(text) != want || !o.askedFrom.Equal(testNow) || o.askedCount != 3 {
		t.Errorf("GET /v1/stats/upcoming = %s from %v for %d minutes, want %s", text, o.askedFrom, o.askedCount, want)
	}
	do(t, hs, call{method: "GET", path: "/v1/stats/upcoming?from=2026-11-21T09:00:00Z"})
	if !o.askedFrom.Equal(testNow.Add(-30*time.Minute)) || o.askedCount != 60 {
		t.Errorf("asked was for %d minutes from %v", o.askedCount, o.askedFrom)
	}
}

// A tenant's key sees the counts of its own tenant, and no others; a key of the system tenant sees
// those of all, or of the one that it names.
func TestWhoseCountsAKeySees(t *testing.T) {
	o := newAdminStub()
	hs := serve(t, newStub(), o.desk)
	o.key("shop/viewer", "system/viewer")
	of := func(key, tenant string) http.Header {
		h := bearer(secret(key))
		if tenant != "" {
			h.Set(tenantHeader, tenant)
		}
		return h
	}
	for _, row := range []struct {
		key, header, scope string
		want               string // the tenant asked for; "all", or "403"
	}{
		{"shop/viewer", "", "", "shop"},
		{"shop/viewer", "shop", "&scope=tenant", "shop"},
		{"shop/viewer", "", "&scope=all", "403"},
		{"shop/viewer", "till", "", "403"},
		{"system/viewer", "", "", "all"},
		{"system/viewer", "shop", "", "all"},
		{"system/viewer", "shop", "&scope=all", "all"},
		{"system/viewer", "shop", "&scope=tenant", "shop"},
	} {
		for path, asked := range map[string]func() string{
			"/v1/stats?":            func() string { return o.askedMinutes.Tenant },
			"/v1/stats/top?by=task": func() string { return o.askedTop.Tenant },
		} {
			o.askedMinutes.Tenant, o.askedTop.Tenant = "nobody", "nobody"
			made := call{method: "GET", path: path + row.scope, header: of(row.key, row.header)}
			if row.want == "403" {
				if p := doProblem(t, hs, made, 403); p.Kind() != "forbidden" || asked() != "nobody" {
					t.Errorf("%+v: problem %q, asked for %q; want forbidden and nothing", row, p.Kind(), asked())
				}
				continue
			}
			var got struct{ Scope, Tenant string }
			doJSON(t, hs, made, 200, &got)
			tenant, scope := row.want, "tenant"
			if row.want == "all" {
				tenant, scope = "", "all"
			}
			if got.Scope != scope || got.Tenant != tenant || asked() != tenant {
				t.Errorf("%+v: answered as %+v, asked for %q", row, got, asked())
			}
		}
	}
}
