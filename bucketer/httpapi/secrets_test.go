package httpapi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

var _ Secrets = (*admin.Secrets)(nil)

// secretDesk keeps secrets in memory, by tenant and name; it answers err if it is set.
type secretDesk struct {
	secrets map[string]schema.Secret
	value   []byte // of the last put
	err     error
}

func (d *secretDesk) Put(_ context.Context, tenant, name string, value []byte, by string) (schema.Secret, bool, error) {
	if d.err != nil {
		return schema.Secret{}, false, d.err
	}
	d.value = value
	s, found := d.secrets[tenant+"/"+name]
	if !found {
		s = schema.Secret{Tenant: tenant, Name: name, CreatedAt: testNow, CreatedBy: by, LastUsed: testNow}
	}
	v := schema.SecretVersion{Number: int64(len(s.Versions) + 1), SealedWith: "k1", Sealed: []byte("hush"), CreatedAt: testNow, CreatedBy: by}
	gone := v
	gone.Until = testNow
	if found {
		s.Versions[0].Until = testNow.Add(time.Hour)
		s.Versions = append(s.Versions, gone)
	}
	s.Versions = slices.Insert(slices.Clone(s.Versions), 0, v)
	d.secrets[tenant+"/"+name] = s
	return s, !found, nil
}

func (d *secretDesk) Secret(_ context.Context, tenant, name string) (schema.Secret, error) {
	s, found := d.secrets[tenant+"/"+name]
	switch {
	case d.err != nil:
		return schema.Secret{}, d.err
	case !found:
		return s, fmt.Errorf("read secret: %w", schema.ErrNotFound)
	}
	return s, nil
}

func (d *secretDesk) Secrets(_ context.Context, tenant, after string, limit int) (all []schema.Secret, err error) {
	for _, at := range slices.Sorted(maps.Keys(d.secrets)) {
		if s := d.secrets[at]; s.Tenant == tenant && s.Name > after && len(all) < limit {
			all = append(all, s)
		}
	}
	return all, d.err
}

func (d *secretDesk) Delete(ctx context.Context, tenant, name string) (schema.Secret, error) {
	s, err := d.Secret(ctx, tenant, name)
	if err == nil {
		delete(d.secrets, tenant+"/"+name)
	}
	return s, err
}

func TestSecretRoutes(t *testing.T) {
	desk := &secretDesk{secrets: map[string]schema.Secret{}}
	o := newAdminStub()
	o.secrets = desk
	hs := serve(t, newStub(), o.desk, func(c *Config, _ *Deps) { c.Now = func() time.Time { return testNow } })
	boss := o.key("a/admin", "b/admin", "a/operator", "a/viewer")
	const value = `{"value":"s3cret"}`
	for _, step := range []struct {
		name               string
		as                 string
		method, path, body string
		status             int
		want               []string // in the answer
	}{
		{"put", "a/admin", "PUT", "/n", value, 201, []string{`"name":"n"`, `"tenant":"a"`, `"version":1`, `"created_by":"admin-key"`, `"sealed_with":"k1"`, `"last_used_at":"`}},
		{"put another", "a/admin", "PUT", "/m", value, 201, nil},
		{"put again", "a/admin", "PUT", "/n", value, 200, []string{`"version":2`, `"valid_until":"` + testNow.Add(time.Hour).Format("2006-01-02T15:04:05.000Z")}},
		{"get", "a/admin", "GET", "/n", "", 200, []string{`"version":2`}},
		{"an operator gets", "a/operator", "GET", "/n", "", 200, []string{`"version":2`}},
		{"a viewer gets", "a/viewer", "GET", "/n", "", 200, []string{`"version":2`}},
		{"list", "a/viewer", "GET", "", "", 200, []string{`"name":"m"`, `"name":"n"`}},
		{"a page", "a/viewer", "GET", "?limit=1", "", 200, []string{`"name":"m"`, `"next_cursor":"`}},
		{"get what is not there", "a/admin", "GET", "/none", "", 404, nil},
		{"get another tenant's", "b/admin", "GET", "/n", "", 404, nil},
		{"list of another tenant", "b/admin", "GET", "", "", 200, []string{`{"items":[]}`}},
		{"delete another tenant's", "b/admin", "DELETE", "/n", "", 404, nil},
		{"an operator puts", "a/operator", "PUT", "/n", value, 403, nil},
		{"an operator deletes", "a/operator", "DELETE", "/n", "", 403, nil},
		{"a viewer puts", "a/viewer", "PUT", "/n", value, 403, nil},
		{"a bad name and a value that is none", "a/admin", "PUT", "/N", `{"value":7,"s3cret":"s3cret"}`, 422, []string{"path.name", "body.value", "body.s3cret"}},
		{"get a bad name", "a/admin", "GET", "/N", "", 422, []string{"path.name"}},
		{"delete a bad name", "a/admin", "DELETE", "/N", "", 422, []string{"path.name"}},
		{"a text", "a/admin", "PUT", "/n", `"s3cret"`, 422, []string{"must be an object"}},
		{"no JSON", "a/admin", "PUT", "/n", `s3cret`, 400, nil},
		{"delete", "a/admin", "DELETE", "/n", "", 204, nil},
		{"delete again", "a/admin", "DELETE", "/n", "", 404, nil},
	} {
		status, _, text := do(t, hs, call{method: step.method, path: secretsPath + step.path, body: step.body, header: bearer(secret(step.as))})
		if status != step.status {
			t.Errorf("%s: %s %s = %d %s, want %d", step.name, step.method, step.path, status, text, step.status)
		}
		for _, want := range step.want {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: answered %s, want %s in it", step.name, text, want)
			}
		}
		answer := strings.ReplaceAll(string(text), "body.s3cret", "") // a field's name
		if strings.Contains(answer, "s3cret") || strings.Contains(answer, "hush") || strings.Contains(answer, "aHVzaA") {
			t.Errorf("%s: answered %s, want neither a value nor what is stored of it", step.name, text)
		}
		if strings.Count(answer, "sealed_with") > 3 {
			t.Errorf("%s: answered %s, want no version that serves no more", step.name, text)
		}
	}
	if string(desk.value) != "s3cret" {
		t.Errorf("put was %q, want the value", desk.value)
	}
	log := said(t, o)
	if strings.Contains(log, "s3cret") || strings.Contains(log, "hush") || strings.Contains(log, "aHVzaA") {
		t.Errorf("noted was\n%s\nwant no value", log)
	}
	for _, want := range []string{"a admin-key create secret/n ", "a admin-key update secret/n ", "a admin-key delete secret/n "} {
		if strings.Count(log, want) != 1 {
			t.Errorf("noted was\n%s\nwant %q once", log, want)
		}
	}
	for err, want := range map[error]string{admin.ErrNoSeal: "no-secrets-key", admin.ErrManySecrets: "too-many-secrets", schema.ErrNotUnderstood: "not-understood"} {
		desk.err = fmt.Errorf("put secret: %w", err)
		if p := doProblem(t, hs, call{method: "PUT", path: secretsPath + "/c", body: value, header: boss}, 409); p.Kind() != want || strings.Contains(p.Detail, "job") {
			t.Errorf("where it fails by %v the answer is %+v, want %s", err, p, want)
		}
	}
}

// The client is not told a value either, and tries again: a put that is made twice is made once.
func TestClientPutsAndListsSecrets(t *testing.T) {
	hs := serve(t, newStub(), withSigning)
	c, err := NewClient(ClientConfig{URLs: []string{hs.URL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	made, err := c.PutSecret(t.Context(), "z", request.SecretRequest{Value: "s3cret"})
	if err != nil || made.Name != "z" || len(made.Versions) != 1 {
		t.Fatalf("PutSecret = %+v, %v", made, err)
	}
	var names []string
	for s, err := range c.Secrets(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, s.Name)
	}
	if !slices.Equal(names, []string{"an-example", "n", "z"}) {
		t.Errorf("Secrets = %q", names)
	}
	if err := c.DeleteSecret(t.Context(), "z"); err != nil {
		t.Errorf("DeleteSecret = %v", err)
	}
	if err := c.DeleteSecret(t.Context(), "z"); err == nil {
		t.Error("DeleteSecret, again = nil, want that there is none")
	}
}
