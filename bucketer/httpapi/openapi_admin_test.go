package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

// Every operation says what it asks of a key, and that it may be refused for want of it.
func TestDocumentSaysWhoMay(t *testing.T) {
	doc, _ := described(t)
	schemes := doc["components"].(map[string]any)["securitySchemes"].(map[string]any)
	key, _ := schemes["key"].(map[string]any)
	if cookie, _ := schemes["session"].(map[string]any); key["scheme"] != "bearer" || cookie["in"] != "cookie" || cookie["name"] != "__Host-carillon" {
		t.Errorf("the security schemes are %v, want a bearer key and a cookie", schemes)
	}
	guarded := 0
	for path, item := range doc["paths"].(map[string]any) {
		for method, v := range item.(map[string]any) {
			op := v.(map[string]any)
			security, ok := op["security"].([]any)
			if !strings.HasPrefix(path, "/v1/") || path == sessionPath {
				if !ok || len(security) != 0 {
					t.Errorf("%s %s: security is %v, want that it needs none", method, path, op["security"])
				}
				continue
			}
			guarded++
			responses := op["responses"].(map[string]any)
			description, _ := op["description"].(string)
			if len(security) != 3 || responses["401"] == nil || responses["403"] == nil || !strings.Contains(description, "Who may: ") {
				t.Errorf("%s %s: security %v, 401 %v, 403 %v, description %q", method, path, security, responses["401"] != nil, responses["403"] != nil, description)
			}
		}
	}
	if guarded < 20 {
		t.Errorf("%d operations need a key, want all under /v1", guarded)
	}
}

// A node that asks for keys says that one is needed; one that does not says that it may be left out.
func TestDocumentSaysWhetherAKeyIsNeeded(t *testing.T) {
	for asks, want := range map[bool]string{
		true: `[map[key:[]] map[session:[]]]`, false: `[map[key:[]] map[session:[]] map[]]`,
	} {
		b, o := newStub(), newAdminStub()
		s, err := New(Config{Auth: asks}, Deps{Jobs: b, Runs: b, Tasks: b, Recurring: b, Workflows: b, Events: b, Joins: b, Keys: o})
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Paths map[string]map[string]struct {
				Security []map[string][]string `json:"security"`
			} `json:"paths"`
		}
		if err := json.Unmarshal(s.openapi, &doc); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(doc.Paths["/v1/jobs"]["post"].Security); got != want {
			t.Errorf("asks for keys %v: POST /v1/jobs has the security %s, want %s", asks, got, want)
		}
	}
}

// What is taken and answered about keys, tenants, the log and counts is what the document says.
func TestDocumentOfTheOfficeAgreesWithTheServer(t *testing.T) {
	_, c := described(t)
	check := func(name string, text []byte, valid bool) {
		t.Helper()
		compiled, err := c.Compile("openapi.json#/components/schemas/" + name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if err := compiled.Validate(v); (err == nil) != valid {
			t.Errorf("%s as %s: %v, want valid %v", text, name, err, valid)
		}
	}
	o := newAdminStub()
	o.entries = []schema.AuditEntry{{ID: schema.MakeAuditID(testNow, 0, 1), At: testNow, Actor: "me", Action: "update", Object: "task/t", Before: []byte(`{"a":1}`), After: []byte(`"cut…"`)}}
	o.minutes = []admin.Minute{
		{Minute: testNow, Due: 1, Lateness: admin.Lateness{{UpTo: schema.Duration(time.Second), Count: 1}}, Classes: schema.LatenessCounts{9: 1, 16: 1}},
		{Minute: testNow, Running: true, Partial: true},
	}
	counts := schema.Counts{Due: 2, Started: 1, Lateness: schema.LatenessCounts{16: 1}, MaxLateness: schema.Duration(time.Hour)}
	o.top = admin.Top{
		Names:  []schema.NameCounts{{Tenant: "a", Name: "n", Job: schema.MakeJobID(testNow, 1, 1), Counts: counts}, {Tenant: "a", Job: schema.MakeJobID(testNow, 1, 2)}},
		Others: counts,
	}
	o.coming = admin.Forecast{Shards: 64, Sampled: 2, AsOf: testNow, Minutes: []admin.ForecastMinute{{Minute: testNow, Known: true}, {Minute: testNow}}}
	o.signing, o.secrets = &signingDesk{keys: map[string]schema.SigningKey{}}, &secretDesk{secrets: map[string]schema.Secret{}}
	hs := serve(t, newStub(), o.deps)
	for _, test := range []struct {
		request, answer, method, path, body string
		status                              int
	}{
		{"KeyRequest", "NewAPIKey", "POST", "/v1/api-keys", `{"name":"a","role":"viewer"}`, 201},
		{"KeyRequest", "NewAPIKey", "POST", "/v1/api-keys", `{"name":"b","role":"admin","expires_at":"2027-01-01T00:00:00+01:00"}`, 201},
		{"", "KeyListBody", "GET", "/v1/api-keys?limit=1", ``, 200},
		{"SigningRequest", "NewSigningKey", "POST", "/v1/signing-keys", `{}`, 201},
		{"SigningRequest", "NewSigningKey", "POST", "/v1/signing-keys", `{"name":"b"}`, 201},
		{"RotateRequest", "NewSigningKey", "POST", "/v1/signing-keys/b/rotate", `{"overlap":"0s"}`, 200},
		{"", "SigningListBody", "GET", "/v1/signing-keys", ``, 200},
		{"SecretRequest", "Secret", "PUT", "/v1/secrets/a", `{"value":"s3cret"}`, 201},
		{"SecretRequest", "Secret", "PUT", "/v1/secrets/a", `{"value":"other"}`, 200},
		{"", "Secret", "GET", "/v1/secrets/a", ``, 200},
		{"", "SecretListBody", "GET", "/v1/secrets?limit=1", ``, 200},
		{"NotificationRequest", "Notification", "PUT", "/v1/notifications/a", ruleBody, 201},
		{"NotificationRequest", "Notification", "PUT", "/v1/notifications/a", `{"description":"d","on":["dead","recovered"],"match":{"job":"a*","task":"b","workflow":"c","labels":{"a":"b"},"in_a_row":3},"sinks":[{"teams":{"url":"https://x.test/","auth":{"bearer":{"secret":"s"}}}},{"alertmanager":{"url":"https://x.test/","signing_key":"k"}},{"pagerduty":{"routing_key_secret":"k","severity":"info","links":[{"href":"https://x.test/","text":"x"}]}},{"email":{"to":["a@x.test"],"from":"b@x.test","server":{"host":"x.test","port":25,"tls":"implicit","username":"u","password_secret":"p","ca_secret":"c"}}}],"group_by":["job","label.a"],"group_wait":"0s","group_interval":"1m","repeat_interval":"24h","send_resolved":false,"mute_time_intervals":[{"times":[{"start_time":"00:00","end_time":"24:00"}],"weekdays":["monday:friday"],"days_of_month":["-1"],"months":["1:3"],"years":["2026"],"location":"Europe/Berlin"}]}`, 200},
		{"", "Notification", "GET", "/v1/notifications/a", ``, 200},
		{"", "NotificationListBody", "GET", "/v1/notifications?limit=1", ``, 200},
		{"", "NotificationTested", "POST", "/v1/notifications/a/test", ``, 200},
		{"TenantRequest", "Tenant", "PUT", "/v1/tenants/a", `{}`, 200},
		{"TenantRequest", "Tenant", "PUT", "/v1/tenants/a", `{"weight":1000,"quotas":{"jobs":1,"runs_per_minute":0,"concurrency":7,"import_lines_per_second":5,"payload_bytes_per_minute":1099511627776}}`, 200},
		{"", "Tenant", "GET", "/v1/tenants/a", ``, 200},
		{"", "TenantListBody", "GET", "/v1/tenants", ``, 200},
		{"", "AuditListBody", "GET", "/v1/audit", ``, 200},
		{"", "StatsList", "GET", "/v1/stats", ``, 200},
		{"", "StatsList", "GET", "/v1/stats?scope=tenant", ``, 200},
		{"", "TopStats", "GET", "/v1/stats/top?by=job&order=failed&limit=3", ``, 200},
		{"", "TopStats", "GET", "/v1/stats/top?by=host", ``, 200},
		{"", "UpcomingRuns", "GET", "/v1/stats/upcoming?minutes=2", ``, 200},
	} {
		if test.request != "" {
			check(test.request, []byte(test.body), true)
		}
		status, _, text := do(t, hs, call{method: test.method, path: test.path, body: test.body})
		if status != test.status {
			t.Errorf("%s %s %s = %d %s, want %d", test.method, test.path, test.body, status, text, test.status)
			continue
		}
		check(test.answer, text, true)
	}
	for _, test := range []struct{ request, path, body string }{
		{"KeyRequest", "/v1/api-keys", `{}`},
		{"KeyRequest", "/v1/api-keys", `{"name":"A","role":"viewer"}`},
		{"KeyRequest", "/v1/api-keys", `{"name":"a","role":"root"}`},
		{"KeyRequest", "/v1/api-keys", `{"name":"a","role":"viewer","expires_at":"soon"}`},
		{"KeyRequest", "/v1/api-keys", `{"name":"a","role":"viewer","tenant":"b"}`},
		{"SigningRequest", "/v1/signing-keys", `{"name":"A"}`},
		{"SigningRequest", "/v1/signing-keys", `{"secret":"x"}`},
		{"RotateRequest", "/v1/signing-keys/b/rotate", `{"overlap":"soon"}`},
		{"RotateRequest", "/v1/signing-keys/b/rotate", `{"overlap":3600}`},
		{"SecretRequest", "/v1/secrets/a", `{}`},
		{"SecretRequest", "/v1/secrets/a", `{"value":"abc"}`},
		{"SecretRequest", "/v1/secrets/a", `{"value":7}`},
		{"SecretRequest", "/v1/secrets/a", `{"value":"s3cret","name":"a"}`},
		{"NotificationRequest", "/v1/notifications/a", `{}`},
		{"NotificationRequest", "/v1/notifications/a", `{"on":[],"sinks":[{"slack":{"url":"https://x.test/"}}]}`},
		{"NotificationRequest", "/v1/notifications/a", `{"on":["x"],"sinks":[{"slack":{"url":"https://x.test/"}}]}`},
		{"NotificationRequest", "/v1/notifications/a", `{"on":["dead"],"sinks":[{"slack":{"url":"https://x.test/"}}],"group_wait":"soon"}`},
		{"TenantRequest", "/v1/tenants/a", `{"weight":0}`},
		{"TenantRequest", "/v1/tenants/a", `{"weight":1001}`},
		{"TenantRequest", "/v1/tenants/a", `{"quotas":{"jobs":-1}}`},
		{"TenantRequest", "/v1/tenants/a", `{"quotas":{"jobs":1.5}}`},
		{"TenantRequest", "/v1/tenants/a", `{"quotas":{"requests":1}}`},
	} {
		check(test.request, []byte(test.body), false)
		method := http.MethodPost
		if test.request == "TenantRequest" || test.request == "SecretRequest" || test.request == "NotificationRequest" {
			method = http.MethodPut
		}
		doProblem(t, hs, call{method: method, path: test.path, body: test.body}, 422)
	}
}
