package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
)

// The first key is made in the store, and all others with it: each says what may be done, until it is revoked.
func TestKeysFromTheFirstOnToTheLast(t *testing.T) {
	dir := t.TempDir()
	store, err := embedded.Open(embedded.Config{Dir: filepath.Join(dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	first, err := firstKey(t.Context(), store, "", request.KeyRequest{Name: "first"})
	if err != nil || first.Tenant != schema.SystemTenant || first.Role != schema.Admin || first.Key == "" {
		t.Fatalf("firstKey = %+v, %v; want an admin of the system", first, err)
	}
	if _, err := firstKey(t.Context(), store, "", request.KeyRequest{Name: "first"}); err == nil || !strings.Contains(err.Error(), "has a key first") {
		t.Errorf("firstKey again = %v, want that the name is taken", err)
	}
	for name, ask := range map[string]request.KeyRequest{
		"name": {Name: "A"}, "role": {Name: "a", Role: "root"}, "expiry": {Name: "a", ExpiresAt: time.Now().Add(-time.Hour)},
	} {
		if _, err := firstKey(t.Context(), store, "", ask); err == nil {
			t.Errorf("firstKey of a wrong %s = nil, want an error", name)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	api := startNodeIn(t, dir, func(c *config.Config) { c.API.Auth = config.AuthRequired })

	t.Setenv("CARILLON_KEY", "")
	if r := carillon(t.Context(), "", "run", "list", "--api", api); r.code != 1 || !strings.Contains(r.stderr, "(401)") {
		t.Errorf("run list without a key exits %d with %q, want 1 and a 401", r.code, r.stderr)
	}
	t.Setenv("CARILLON_KEY", first.Key)
	made := succeed(t, "key", "create", "deploy", "--api", api, "--tenant", "billing", "--role", "operator", "--expires", "2h")
	secret := strings.TrimSpace(made.stdout)
	if strings.ContainsAny(secret, " \n") || !strings.Contains(made.stderr, "billing") || !strings.Contains(made.stderr, "good until") {
		t.Errorf("key create writes %q and %q, want the key alone, and what it is", made.stdout, made.stderr)
	}
	boss := decode[httpapi.NewAPIKey](t, succeed(t, "key", "create", "boss", "--api", api, "--tenant", "billing", "--role", "admin", "-o", "json").stdout)

	t.Setenv("CARILLON_KEY", secret)
	job := decode[httpapi.Job](t, succeed(t, "job", "create", "--api", api, "--url", "http://127.0.0.1:1/", "--in", "1h", "-o", "json").stdout)
	if job.Tenant != "billing" {
		t.Errorf("the job is of %q, want billing, as the key", job.Tenant)
	}
	for _, args := range [][]string{{"key", "list"}, {"key", "create", "x", "--role", "admin"}, {"audit"}, {"run", "list", "--tenant", "other"}} {
		if r := carillon(t.Context(), "", append(args, "--api", api)...); r.code != 1 || !strings.Contains(r.stderr, "(403)") {
			t.Errorf("carillon %v by an operator exits %d with %q, want 1 and a 403", args, r.code, r.stderr)
		}
	}
	succeed(t, "job", "cancel", "--api", api, job.ID.String())

	t.Setenv("CARILLON_KEY", boss.Key)
	if list := succeed(t, "key", "list", "--api", api).stdout; !strings.Contains(list, "deploy") || !strings.Contains(list, "boss") || strings.Contains(list, "\nfirst ") || strings.Contains(list, secret) {
		t.Errorf("key list shows\n%s", list)
	}
	succeed(t, "key", "revoke", "--api", api, "deploy")
	if r := carillon(t.Context(), "", "key", "revoke", "--api", api, "deploy"); r.code != 1 || !strings.Contains(r.stderr, "(404)") {
		t.Errorf("key revoke, twice, exits %d with %q, want 1 and a 404", r.code, r.stderr)
	}
	t.Setenv("CARILLON_KEY", secret)
	if r := carillon(t.Context(), "", "run", "list", "--api", api); r.code != 1 || !strings.Contains(r.stderr, "(401)") {
		t.Errorf("run list with a key that was revoked exits %d with %q, want 1 and a 401", r.code, r.stderr)
	}

	t.Setenv("CARILLON_KEY", boss.Key)
	want := []string{"boss revoke key/deploy", "deploy cancel run/" + job.ID.String(), "system/first create key/boss", "system/first create key/deploy"}
	if got := awaitAudit(t, api, len(want)); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("audit shows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if shown := succeed(t, "audit", "--api", api, "--actor", "deploy", "--limit", "1").stdout; !strings.Contains(shown, "cancel") || strings.Contains(shown, "revoke") {
		t.Errorf("audit --actor deploy shows\n%s", shown)
	}
}

// awaitAudit asks for the audit log until it has n entries, and returns them.
func awaitAudit(t *testing.T, api string, n int) (acts []string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(time.Minute)
	for {
		acts = nil
		for line := range strings.Lines(succeed(t, "audit", "--api", api, "-o", "json").stdout) {
			e := decode[httpapi.AuditEntry](t, line)
			acts = append(acts, e.Actor+" "+e.Action+" "+e.Object)
		}
		if len(acts) >= n {
			return acts
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("the audit log has %q, want %d entries", acts, n)
		}
	}
}

func TestKeyCommandLines(t *testing.T) {
	for _, args := range [][]string{
		{"key", "create"},
		{"key", "create", "a"},
		{"key", "create", "a", "--role", "viewer", "--expires", "soon"},
		{"key", "create", "a", "--role", "viewer", "--config", "x.yaml"},
		{"key", "create", "a", "--bootstrap", "--api", "http://127.0.0.1:1"},
		{"key", "revoke"},
		{"key", "list", "a"},
		{"key", "list", "-o", "xml"},
		{"audit", "--limit", "-1"},
		{"audit", "--from", "1h", "--to", "0s"},
	} {
		if r := carillon(t.Context(), "", args...); r.code != 2 {
			t.Errorf("carillon %v exits %d with %q, want 2", args, r.code, r.stderr)
		}
	}
}
