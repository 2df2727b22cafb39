package httpapi

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// Secrets keeps the values that a tenant's calls are made with (admin.Secrets has it). No method of
// it answers a value.
type Secrets interface {
	Put(ctx context.Context, tenant, name string, value []byte, by string) (stored schema.Secret, created bool, err error)
	Secret(ctx context.Context, tenant, name string) (schema.Secret, error)
	Secrets(ctx context.Context, tenant, after string, limit int) ([]schema.Secret, error)
	Delete(ctx context.Context, tenant, name string) (schema.Secret, error)
}

// Secret is a secret as the API answers it: all but its values.
type Secret struct {
	Name       string          `json:"name" example:"orders-token"`
	Tenant     string          `json:"tenant" example:"default"`
	CreatedAt  Time            `json:"created_at,omitzero"`
	CreatedBy  string          `json:"created_by,omitempty"`
	LastUsedAt Time            `json:"last_used_at,omitzero" doc:"To some minutes; absent: never"`
	Versions   []SecretVersion `json:"versions" doc:"Newest first: calls are made with the first"`
	Fault      string          `json:"fault,omitempty" doc:"Why what is stored of it cannot be understood: then nothing but its name is known, and calls that need it fail"`
}

// SecretVersion says of a value all but what it is.
type SecretVersion struct {
	Version    int64  `json:"version" example:"1" doc:"From 1; each put of another value takes the next"`
	CreatedAt  Time   `json:"created_at"`
	CreatedBy  string `json:"created_by,omitempty"`
	ValidUntil Time   `json:"valid_until,omitzero" doc:"Of one that was replaced: it serves where two secrets belong together, and the other one was not replaced yet"`
	SealedWith string `json:"sealed_with" example:"k1" doc:"Which of the operator's keys it is encrypted with (secrets.keys)"`
}

// secretOf leaves out the versions that serve no more.
func secretOf(s schema.Secret, now time.Time) Secret {
	out := Secret{
		Name: s.Name, Tenant: s.Tenant, CreatedAt: Time{s.CreatedAt}, CreatedBy: s.CreatedBy, LastUsedAt: Time{s.LastUsed},
		Versions: []SecretVersion{}, Fault: faultOf(s.Fault),
	}
	for _, v := range s.Versions {
		if v.Until.IsZero() || now.Before(v.Until) {
			out.Versions = append(out.Versions, SecretVersion{v.Number, Time{v.CreatedAt}, v.CreatedBy, Time{v.Until}, v.SealedWith})
		}
	}
	return out
}

type (
	secretByName struct {
		Name string `path:"name" doc:"The secret's name" example:"orders-token"`
	}
	secretPut struct {
		Name string `path:"name" doc:"The secret's name" example:"orders-token"`
		body
	}
	secretAnswer struct {
		Status int
		Body   Secret
	}
	secretList struct {
		Body struct {
			Items      []Secret `json:"items"`
			NextCursor string   `json:"next_cursor,omitempty"`
		}
	}
)

const secretsPath = "/v1/secrets"

// secretRoutes serves secrets.
type secretRoutes struct{ *Server }

func (s secretRoutes) route() {
	const path = secretsPath + "/{name}"
	op := s.operation("put-secret", http.MethodPut, path, "Give a secret a value, which can never be read back", 200, 400, 408, 409, 413, 415, 422, 429, 503)
	op.Description = "Work names a secret (http.auth, lambda.credentials), and within 10 s every call that does is made with the new value. Another value is a new version; the one before it can be used for an hour more, " +
		"where two secrets belong together and are put one after the other, such as a certificate and its key. The value that stands already makes no version: it is encrypted again, with the operator's key that is now the first. " +
		"A tenant may have 100 secrets: beyond that it is 409, as is a cluster whose operator has configured no key to encrypt them with."
	huma.Register(s.api, op, s.putSecret)
	s.alsoAnswers(path, http.MethodPut, http.StatusCreated, http.StatusOK)
	s.describeBody(path, http.MethodPut, reflect.TypeFor[request.SecretRequest](), "application/json")
	huma.Register(s.api, s.operation("get-secret", http.MethodGet, path, "What is known of a secret, without its values", 200, 404, 409, 422, 503), s.getSecret)
	huma.Register(s.api, s.operation("list-secrets", http.MethodGet, secretsPath, "The secrets of the tenant, by name, without their values", 200, 422, 503), s.listSecrets)
	huma.Register(s.api, s.operation("delete-secret", http.MethodDelete, path, "Delete a secret: within 10 s no call is made with it, and calls that need it fail", 204, 404, 409, 422, 503), s.deleteSecret)
}

// secrets returns what keeps the secrets.
func (s secretRoutes) secrets() (Secrets, error) {
	if s.deps.Secrets == nil {
		return nil, notFound("This node keeps no secrets.")
	}
	return s.deps.Secrets, nil
}

func (s secretRoutes) putSecret(ctx context.Context, in *secretPut) (*secretAnswer, error) {
	secrets, err := s.secrets()
	if err != nil {
		return nil, err
	}
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	value, err := d.Secret(in.Name, text)
	if err != nil {
		return nil, s.fail(ctx, "put secret", err)
	}
	stored, created, err := secrets.Put(ctx, tenantOf(ctx), in.Name, value, actorOf(ctx))
	if err != nil {
		return nil, s.fail(ctx, "put secret", err)
	}
	out := &secretAnswer{Status: http.StatusOK, Body: secretOf(stored, s.config.Now())}
	action := "update"
	if created {
		action, out.Status = "create", http.StatusCreated
	}
	s.note(ctx, action, "secret/"+stored.Name, nil, out.Body, "")
	return out, nil
}

func (s secretRoutes) getSecret(ctx context.Context, in *secretByName) (*secretAnswer, error) {
	secrets, err := in.check(s)
	if err != nil {
		return nil, err
	}
	found, err := secrets.Secret(ctx, tenantOf(ctx), in.Name)
	if err != nil {
		return nil, s.fail(ctx, "read secret", err)
	}
	return &secretAnswer{Status: http.StatusOK, Body: secretOf(found, s.config.Now())}, nil
}

func (s secretRoutes) listSecrets(ctx context.Context, in *page) (*secretList, error) {
	secrets, err := s.secrets()
	if err != nil {
		return nil, err
	}
	out := new(secretList)
	out.Body.Items, out.Body.NextCursor, err = listed(s.cursors, []string{"secrets", tenantOf(ctx)}, in.Cursor, in.Limit,
		func(after string, limit int) ([]schema.Secret, error) {
			return secrets.Secrets(ctx, tenantOf(ctx), after, limit)
		},
		func(found *schema.Secret) string { return found.Name },
		func(found schema.Secret) Secret { return secretOf(found, s.config.Now()) })
	if err != nil {
		return nil, s.fail(ctx, "list secrets", err)
	}
	return out, nil
}

func (s secretRoutes) deleteSecret(ctx context.Context, in *secretByName) (*struct{}, error) {
	secrets, err := in.check(s)
	if err != nil {
		return nil, err
	}
	was, err := secrets.Delete(ctx, tenantOf(ctx), in.Name)
	if err != nil {
		return nil, s.fail(ctx, "delete secret", err)
	}
	s.note(ctx, "delete", "secret/"+in.Name, secretOf(was, s.config.Now()), nil, "")
	return nil, nil //nolint:nilnil // huma's way to say 204
}

// fail is Server.fail. A secret that cannot be understood is no job, and nobody can read it back.
func (s secretRoutes) fail(ctx context.Context, what string, err error) error {
	if !errors.Is(err, schema.ErrNotUnderstood) {
		return s.Server.fail(ctx, what, err)
	}
	p := problemOf(err)
	p.Detail = "Nothing was changed. A newer version wrote it, or it is damaged: ask a node of that version, or put the value under another name."
	return p
}

// check checks the name, and returns what keeps the secrets.
func (n *secretByName) check(s secretRoutes) (Secrets, error) {
	if what := bucketer.NameFault(n.Name); what != "" {
		return nil, invalid(bucketer.Fault{Location: "path.name", Message: what})
	}
	return s.secrets()
}
