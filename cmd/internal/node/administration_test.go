package node

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

// silent drops signals.
type silent struct{}

func (silent) Signal(string, []byte) {}

// resumed asks a node with a session who asks, and returns the status.
func resumed(t *testing.T, r *running, session *http.Cookie) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/v1/whoami", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.AddCookie(session)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// Two nodes check keys, learn of each other's changes, share a quota, and write audit log and
// stats.
func TestNodesShareAdministration(t *testing.T) {
	w, began := newWorld(t, "a", "b"), time.Now()
	log := slog.New(slog.DiscardHandler)
	first, _, err := admin.NewKeys(w.store, silent{}, time.Now, log).Create(t.Context(), schema.APIKey{Tenant: schema.SystemTenant, Name: "first", Role: schema.Admin})
	if err != nil {
		t.Fatal(err)
	}
	closed := func(c *config.Config) {
		c.API.Auth, c.API.ProtectMetrics, c.API.CursorKey = config.AuthRequired, true, "one key of both nodes"
	}
	a := startWith(t, "a", w.opener("a"), log, closed)
	b := startWith(t, "b", w.opener("b"), log, closed)
	a.up()
	b.up()

	with := func(r *running, key, tenant string) *httpapi.Client {
		return r.clientOf(httpapi.ClientConfig{Key: key, Tenant: tenant, Retries: -1})
	}
	status := func(err error) int {
		var p *httpapi.Problem
		if errors.As(err, &p) {
			return p.Status
		}
		return 0
	}
	made, err := with(a, first, "shop").CreateKey(t.Context(), request.KeyRequest{Name: "till", Role: schema.Operator})
	if err != nil {
		t.Fatalf("CreateKey = %v", err)
	}
	call := sink(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	job := request.JobRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: call}}}
	run, err := a.clientOf(httpapi.ClientConfig{Key: made.Key, Retries: 100, MaxWait: 500 * time.Millisecond}).CreateJob(t.Context(), job)
	if err != nil || run.Tenant != "shop" {
		t.Fatalf("CreateJob = %+v, %v; want a job of the key's tenant", run, err)
	}
	await(t, "the run succeeds", func() bool {
		got, err := with(b, made.Key, "").Run(t.Context(), schema.RunID(run.ID))
		return err == nil && got.State == schema.StateSucceeded
	})
	if _, err := with(b, first, "").Run(t.Context(), schema.RunID(run.ID)); status(err) != 404 {
		t.Errorf("Run of another tenant = %v, want 404", err)
	}
	if got, _ := get(t, a.url+"/metrics"); got != 401 {
		t.Errorf("GET /metrics without a key = %d, want 401", got)
	}

	if _, err := with(a, first, "").PutTenant(t.Context(), "shop", request.TenantRequest{Quotas: schema.Quotas{RunsPerMinute: 2}}); err != nil {
		t.Fatalf("PutTenant = %v", err)
	}
	await(t, "b hears of the quota", func() bool {
		_, err := with(b, made.Key, "").CreateJob(t.Context(), job)
		return status(err) == 429
	})
	admitted, asked := 0, time.Now()
	for range 10 {
		if _, err := with(a, made.Key, "").CreateJob(t.Context(), job); err == nil {
			admitted++
		} else if status(err) != 429 {
			t.Fatalf("CreateJob = %v", err)
		}
	}
	if took := time.Since(asked); took > 20*time.Second {
		t.Logf("ten requests took %v: of a quota by the minute nothing follows", took)
	} else if admitted != 1 {
		t.Errorf("of a quota of 2, one of two nodes admits %d, want its half", admitted)
	}

	session, err := with(a, "", "").LogIn(t.Context(), made.Key)
	if err != nil {
		t.Fatalf("LogIn = %v", err)
	}
	if got := resumed(t, a, session); got != 200 {
		t.Errorf("whoami of the node of the log-in with its session = %d, want 200", got)
	}
	if got := resumed(t, b, session); got != 200 {
		t.Errorf("whoami of the other node with the session = %d, want 200", got)
	}

	if err := with(a, first, "shop").RevokeKey(t.Context(), "till"); err != nil {
		t.Fatalf("RevokeKey = %v", err)
	}
	if _, err := with(a, made.Key, "").Run(t.Context(), schema.RunID(run.ID)); status(err) != 401 {
		t.Errorf("Run with a key that was revoked = %v, want 401", err)
	}
	await(t, "the other node refuses it", func() bool {
		_, err := with(b, made.Key, "").Run(t.Context(), schema.RunID(run.ID))
		return status(err) == 401
	})

	for _, r := range []*running{a, b} {
		if got := resumed(t, r, session); got != 401 {
			t.Errorf("whoami with the session of a key that was revoked = %d, want 401", got)
		}
	}

	a.stop()
	b.stop()
	var acts []string
	for day := schema.AuditDay(time.Now()); day >= schema.AuditDay(began); day-- {
		entries, err := w.store.Audit(t.Context(), "shop", day, schema.AuditID{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			acts = append(acts, e.Actor+" "+e.Action+" "+e.Object)
		}
	}
	if len(acts) != 3 || acts[0] != "system/first revoke key/till" || acts[1] != "system/first update tenant/shop" || acts[2] != "system/first create key/till" {
		t.Errorf("the log of the tenant = %q, want key, quota, key", acts)
	}
	var counted schema.MinuteStats
	for hour := schema.StatsHour(began); hour <= schema.StatsHour(time.Now()); hour++ {
		minutes, err := w.store.Stats(t.Context(), hour)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range minutes {
			counted.Due += m.Due
			counted.Started += m.Started
			counted.Succeeded += m.Succeeded
		}
	}
	if counted.Due < 1 || counted.Started < 1 || counted.Succeeded < 1 {
		t.Errorf("the nodes counted %+v, want the runs that they did", counted)
	}
}
