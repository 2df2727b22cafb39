package httpapi

import (
	"crypto/tls"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

// A request without a key is that of whom the certificate of its connection stands for; a key
// counts before it, good or not.
func TestCallersAreKnownByTheirCertificates(t *testing.T) {
	b, o := newStub(), newAdminStub()
	peer, known := admin.Identity{Tenant: "a", Name: "cert:deploy", Role: schema.Operator}, true
	hs := serve(t, b, o.desk, func(_ *Config, d *Deps) {
		d.Peer = func(*tls.ConnectionState) (admin.Identity, bool) { return peer, known }
	})
	o.key("a/viewer")
	ask := func(method, path, body, authorization string, secure bool) (int, string) {
		t.Helper()
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		if r.TLS = nil; secure {
			r.TLS = new(tls.ConnectionState)
		}
		w := httptest.NewRecorder()
		hs.Config.Handler.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, row := range []struct {
		name, authorization string
		secure, known       bool
		status              int
		actor               string
	}{
		{"by the certificate", "", true, true, 200, "cert:deploy"},
		{"a key is before it", "Bearer " + secret("a/viewer"), true, true, 200, "viewer-key"},
		{"a key that is none", "Bearer no", true, true, 401, ""},
		{"a certificate that stands for nobody", "", true, false, 401, ""},
		{"no TLS", "", false, true, 401, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			known = row.known
			status, text := ask("GET", whoamiPath, "", row.authorization, row.secure)
			var who Whoami
			if err := json.Unmarshal([]byte(text), &who); err != nil || status != row.status || who.Actor != row.actor {
				t.Errorf("it is %d, actor %q, %v, want %d and %q", status, who.Actor, err, row.status, row.actor)
			}
		})
	}
	known = true
	var job Job
	status, text := ask("POST", "/v1/jobs", jobBody, "", true)
	if err := json.Unmarshal([]byte(text), &job); err != nil || status != 201 || job.Tenant != "a" || job.CreatedBy != "cert:deploy" {
		t.Errorf("a job that it makes = %d %s, want one of tenant a by cert:deploy", status, text)
	}
	if status, text := ask("POST", "/v1/api-keys", `{"name":"n","role":"viewer"}`, "", true); status != 403 {
		t.Errorf("an operator's certificate makes a key: %d %s, want 403", status, text)
	}
	peer.Tenant = schema.SystemTenant
	if status, text := ask("GET", "/v1/cluster", "", "", true); status == 403 || status == 401 {
		t.Errorf("a certificate of the system tenant asks for the cluster: %d %s, want that it may", status, text)
	}
}
