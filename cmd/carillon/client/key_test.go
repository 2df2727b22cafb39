package client

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
)

// The first key is made in the store, and all others through the API with it. Each allows what its
// role says, until it is revoked.
func TestKeysFromTheFirstOnToTheLast(t *testing.T) {
	dir := t.TempDir()
	store, err := embedded.Open(embedded.Config{Dir: filepath.Join(dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	first, err := FirstKey(t.Context(), store, "", request.KeyRequest{Name: "first"})
	if err != nil || first.Tenant != schema.SystemTenant || first.Role != schema.Admin || first.Key == "" {
		t.Fatalf("FirstKey = %+v, %v; want an admin of the system", first, err)
	}
	if _, err := FirstKey(t.Context(), store, "", request.KeyRequest{Name: "first"}); err == nil || !strings.Contains(err.Error(), "has a key first") {
		t.Errorf("FirstKey again = %v, want that the name is taken", err)
	}
	for name, ask := range map[string]request.KeyRequest{
		"name": {Name: "A"}, "role": {Name: "a", Role: "root"}, "expiry": {Name: "a", ExpiresAt: time.Now().Add(-time.Hour)},
	} {
		if _, err := FirstKey(t.Context(), store, "", ask); err == nil {
			t.Errorf("FirstKey of a wrong %s = nil, want an error", name)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	api := clitest.StartNodeIn(t, dir, func(c *config.Config) { c.API.Auth = config.AuthRequired })

	t.Setenv("CARILLON_KEY", "")
	if r := clitest.Run(t.Context(), "", "run", "list", "--api", api); r.Code != 1 || !strings.Contains(r.Stderr, "(401)") {
		t.Errorf("run list without a key exits %d with %q, want 1 and a 401", r.Code, r.Stderr)
	}
	t.Setenv("CARILLON_KEY", first.Key)
	made := clitest.Succeed(t, "key", "create", "deploy", "--api", api, "--tenant", "billing", "--role", "operator", "--expires", "2h")
	secret := strings.TrimSpace(made.Stdout)
	if strings.ContainsAny(secret, " \n") || strings.Contains(made.Stderr, "asks for no keys") || !strings.Contains(made.Stderr, "billing") || !strings.Contains(made.Stderr, "good until") {
		t.Errorf("key create writes %q and %q, want the key alone, and what it is", made.Stdout, made.Stderr)
	}
	boss := clitest.Decode[httpapi.NewAPIKey](t, clitest.Succeed(t, "key", "create", "boss", "--api", api, "--tenant", "billing", "--role", "admin", "-o", "json").Stdout)

	t.Setenv("CARILLON_KEY", secret)
	job := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, "job", "create", "--api", api, "--url", "http://127.0.0.1:1/", "--in", "1h", "-o", "json").Stdout)
	if job.Tenant != "billing" {
		t.Errorf("the job is of %q, want billing, as the key", job.Tenant)
	}
	for _, args := range [][]string{{"key", "list"}, {"key", "create", "x", "--role", "admin"}, {"audit"}, {"run", "list", "--tenant", "other"}} {
		if r := clitest.Run(t.Context(), "", append(args, "--api", api)...); r.Code != 1 || !strings.Contains(r.Stderr, "(403)") {
			t.Errorf("carillon %v by an operator exits %d with %q, want 1 and a 403", args, r.Code, r.Stderr)
		}
	}
	clitest.Succeed(t, "job", "cancel", "--api", api, job.ID.String())

	t.Setenv("CARILLON_KEY", boss.Key)
	if list := clitest.Succeed(t, "key", "list", "--api", api).Stdout; !strings.Contains(list, "deploy") || !strings.Contains(list, "boss") || strings.Contains(list, "\nfirst ") || strings.Contains(list, secret) {
		t.Errorf("key list shows\n%s", list)
	}
	clitest.Succeed(t, "key", "revoke", "--api", api, "deploy")
	if r := clitest.Run(t.Context(), "", "key", "revoke", "--api", api, "deploy"); r.Code != 1 || !strings.Contains(r.Stderr, "(404)") {
		t.Errorf("key revoke, twice, exits %d with %q, want 1 and a 404", r.Code, r.Stderr)
	}
	t.Setenv("CARILLON_KEY", secret)
	if r := clitest.Run(t.Context(), "", "run", "list", "--api", api); r.Code != 1 || !strings.Contains(r.Stderr, "(401)") {
		t.Errorf("run list with a key that was revoked exits %d with %q, want 1 and a 401", r.Code, r.Stderr)
	}

	t.Setenv("CARILLON_KEY", boss.Key)
	want := []string{"boss revoke key/deploy", "deploy cancel run/" + job.ID.String(), "system/first create key/boss", "system/first create key/deploy"}
	if got := awaitAudit(t, api, len(want)); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("audit shows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if shown := clitest.Succeed(t, "audit", "--api", api, "--actor", "deploy", "--limit", "1").Stdout; !strings.Contains(shown, "cancel") || strings.Contains(shown, "revoke") {
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
		for line := range strings.Lines(clitest.Succeed(t, "audit", "--api", api, "-o", "json").Stdout) {
			e := clitest.Decode[httpapi.AuditEntry](t, line)
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

// A key that is made where none is asked for keeps nobody out, and the command says so.
func TestAKeyThatNobodyAsksFor(t *testing.T) {
	t.Setenv("CARILLON_KEY", "")
	made := clitest.Succeed(t, "key", "create", "reader", "--api", clitest.StartNode(t), "--role", "viewer")
	if !strings.Contains(made.Stderr, "asks for no keys") || strings.ContainsAny(strings.TrimSpace(made.Stdout), " \n") {
		t.Errorf("key create writes %q and %q, want the key alone, and that none is asked for", made.Stdout, made.Stderr)
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
		if r := clitest.Run(t.Context(), "", args...); r.Code != 2 {
			t.Errorf("carillon %v exits %d with %q, want 2", args, r.Code, r.Stderr)
		}
	}
}
