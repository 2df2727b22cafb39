package httpapi

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

var _ Signing = (*admin.Signing)(nil)

// signingDesk keeps signing keys in memory, by tenant and name; it answers err if it is set.
type signingDesk struct {
	keys    map[string]schema.SigningKey
	overlap time.Duration // of the last rotation
	err     error
}

func (d *signingDesk) Create(_ context.Context, tenant, name, by string) ([]byte, schema.SigningKey, error) {
	if _, taken := d.keys[tenant+"/"+name]; taken && d.err == nil {
		return nil, schema.SigningKey{}, fmt.Errorf("create: %w", schema.ErrConflict)
	}
	k := schema.SigningKey{Name: name, CreatedAt: testNow, CreatedBy: by, Secrets: []schema.SigningSecret{{SealedWith: "k1", Sealed: []byte("hush"), CreatedAt: testNow}}}
	if d.err == nil {
		d.keys[tenant+"/"+name] = k
	}
	return []byte(strings.Repeat("s", 32)), k, d.err
}

func (d *signingDesk) List(_ context.Context, tenant string) (all []schema.SigningKey, err error) {
	for at, k := range d.keys {
		if strings.HasPrefix(at, tenant+"/") {
			all = append(all, k)
		}
	}
	return all, d.err
}

func (d *signingDesk) Rotate(_ context.Context, tenant, name string, overlap time.Duration) ([]byte, schema.SigningKey, error) {
	k, ok := d.keys[tenant+"/"+name]
	if !ok {
		return nil, k, fmt.Errorf("rotate: %w", schema.ErrNotFound)
	}
	d.overlap = overlap
	old, gone := k.Secrets[0], k.Secrets[0]
	old.Until, gone.Until = testNow.Add(overlap), testNow
	k.Secrets = []schema.SigningSecret{{SealedWith: "k2", Sealed: []byte("hush"), CreatedAt: testNow}, old, gone}
	d.keys[tenant+"/"+name] = k
	return []byte(strings.Repeat("t", 32)), k, d.err
}

func (d *signingDesk) Revoke(_ context.Context, tenant, name string) (schema.SigningKey, error) {
	k, ok := d.keys[tenant+"/"+name]
	if !ok {
		return k, fmt.Errorf("revoke: %w", schema.ErrNotFound)
	}
	delete(d.keys, tenant+"/"+name)
	return k, d.err
}

func TestSigningKeyRoutes(t *testing.T) {
	desk := &signingDesk{keys: map[string]schema.SigningKey{}}
	o := newAdminStub()
	o.signing = desk
	hs := serve(t, newStub(), o.desk, func(c *Config, _ *Deps) { c.Now = func() time.Time { return testNow } })
	boss := o.key("a/admin", "b/admin", "a/operator", "a/viewer")
	const made = `"whsec_c3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3M="`
	for _, step := range []struct {
		name               string
		as                 string
		method, path, body string
		status             int
		want               []string // in the answer
	}{
		{"make", "a/admin", "POST", "", `{}`, 201, []string{`"name":"default"`, `"tenant":"a"`, made, `"created_by":"admin-key"`, `"sealed_with":"k1"`}},
		{"make another", "a/admin", "POST", "", `{"name":"partner"}`, 201, []string{`"name":"partner"`}},
		{"make it again", "a/admin", "POST", "", `{"name":"partner"}`, 409, nil},
		{"a bad name", "a/admin", "POST", "", `{"name":"A","x":1}`, 422, []string{"body.name", "body.x"}},
		{"no JSON", "a/admin", "POST", "", `{`, 400, nil},
		{"list", "a/admin", "GET", "", ``, 200, []string{`"partner"`, `"default"`}},
		{"list of another tenant", "b/admin", "GET", "", ``, 200, []string{`{"items":[]}`}},
		{"rotate", "a/admin", "POST", "/default/rotate", `{"overlap":"1h"}`, 200, []string{`"whsec_dHR0`, `"sealed_with":"k2"`, `"valid_until":"` + testNow.Add(time.Hour).Format("2006-01-02T15:04:05.000Z")}},
		{"rotate another tenant's", "b/admin", "POST", "/default/rotate", ``, 404, nil},
		{"rotate for too long", "a/admin", "POST", "/default/rotate", `{"overlap":"721h"}`, 422, []string{"body.overlap"}},
		{"rotate for a negative time", "a/admin", "POST", "/default/rotate", `{"overlap":"-1s"}`, 422, []string{"body.overlap"}},
		{"rotate a bad name", "a/admin", "POST", "/A/rotate", ``, 422, []string{"path.name"}},
		{"revoke another tenant's", "b/admin", "DELETE", "/default", ``, 404, nil},
		{"revoke", "a/admin", "DELETE", "/default", ``, 204, nil},
		{"revoke again", "a/admin", "DELETE", "/default", ``, 404, nil},
		{"an operator makes", "a/operator", "POST", "", `{}`, 403, nil},
		{"an operator reads", "a/operator", "GET", "", ``, 403, nil},
		{"a viewer reads", "a/viewer", "GET", "", ``, 403, nil},
	} {
		status, header, text := do(t, hs, call{method: step.method, path: signingPath + step.path, body: step.body, header: bearer(secret(step.as))})
		if status != step.status {
			t.Errorf("%s: %s %s %s = %d %s, want %d", step.name, step.method, step.path, step.body, status, text, step.status)
		}
		for _, want := range step.want {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: answered %s, want %s in it", step.name, text, want)
			}
		}
		shown := status < 300 && step.method == "POST"
		if strings.Contains(string(text), "hush") || strings.Contains(string(text), "aHVzaA") || strings.Contains(string(text), "whsec_") != shown {
			t.Errorf("%s: answered %s, want a secret only where one is made, and never what is stored", step.name, text)
		}
		if shown && header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: Cache-Control is %q, want no-store", step.name, header.Get("Cache-Control"))
		}
		if strings.Count(string(text), "sealed_with") > 2 {
			t.Errorf("%s: answered %s, want no secret that signs no more", step.name, text)
		}
	}
	if desk.overlap != time.Hour {
		t.Errorf("rotated with an overlap of %s, want 1h", desk.overlap)
	}
	if _, _, _ = do(t, hs, call{method: "POST", path: signingPath + "/partner/rotate", header: boss}); desk.overlap != admin.DefaultOverlap {
		t.Errorf("rotated with an overlap of %s where none was stated, want %s", desk.overlap, admin.DefaultOverlap)
	}
	if log := said(t, o); strings.Contains(log, "hush") || strings.Contains(log, "whsec_") || !strings.Contains(log, "a admin-key rotate signing-key/default") {
		t.Errorf("noted was\n%s\nwant every change, and no secret", log)
	}
	for err, want := range map[error]string{admin.ErrNoSeal: "no-secrets-key", admin.ErrManyKeys: "too-many-keys"} {
		desk.err = fmt.Errorf("create: %w", err)
		if p := doProblem(t, hs, call{method: "POST", path: signingPath, body: `{"name":"c"}`, header: boss}, 409); p.Kind() != want {
			t.Errorf("where it fails by %v the answer is %s, want %s", err, p.Kind(), want)
		}
	}
}

// withSigning gives a node signing keys and secrets, of which there are two each.
func withSigning(_ *Config, d *Deps) {
	desk, vault := &signingDesk{keys: map[string]schema.SigningKey{}}, &secretDesk{secrets: map[string]schema.Secret{}}
	for _, name := range []string{"n", "an-example"} {
		_, _, _ = desk.Create(context.Background(), defaultTenant, name, "") // never fails
		_, _, _ = vault.Put(context.Background(), defaultTenant, name, nil, "")
	}
	d.Signing, d.Secrets = desk, vault
}
