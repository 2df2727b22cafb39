package httpapi

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	"carillon.dev/carillon/bucketer/request"
)

// CreateKey makes an API key of the tenant. It is not sent again when its answer is lost: the key
// would be, too.
func (c *Client) CreateKey(ctx context.Context, key request.KeyRequest) (NewAPIKey, error) {
	var out NewAPIKey
	_, err := c.call(ctx, ask{method: http.MethodPost, path: keysPath, body: key}, &out)
	return out, err
}

// Keys returns the API keys of the tenant, by name. It ends with the first error.
func (c *Client) Keys(ctx context.Context) iter.Seq2[APIKey, error] {
	return func(yield func(APIKey, error) bool) { eachItem(ctx, c, keysPath, url.Values{}, 0, yield) }
}

// RevokeKey revokes an API key: within 10 s no node takes it.
func (c *Client) RevokeKey(ctx context.Context, name string) error {
	_, err := c.call(ctx, ask{method: http.MethodDelete, path: keysPath + "/" + url.PathEscape(name)}, nil)
	return err
}

// CreateSigningKey makes a key by which calls are signed. It is not sent again when its answer is
// lost: the secret would be, too.
func (c *Client) CreateSigningKey(ctx context.Context, key request.SigningRequest) (NewSigningKey, error) {
	var out NewSigningKey
	_, err := c.call(ctx, ask{method: http.MethodPost, path: signingPath, body: key}, &out)
	return out, err
}

// SigningKeys returns the signing keys of the tenant, by name.
func (c *Client) SigningKeys(ctx context.Context) ([]SigningKey, error) {
	var out struct {
		Items []SigningKey `json:"items"`
	}
	_, err := c.call(ctx, ask{method: http.MethodGet, path: signingPath, repeatable: true}, &out)
	return out.Items, err
}

// RotateSigningKey gives a signing key a new secret. It is not sent again when its answer is lost.
func (c *Client) RotateSigningKey(ctx context.Context, name string, r request.RotateRequest) (NewSigningKey, error) {
	var out NewSigningKey
	_, err := c.call(ctx, ask{method: http.MethodPost, path: signingPath + "/" + url.PathEscape(name) + "/rotate", body: r}, &out)
	return out, err
}

// RevokeSigningKey revokes a signing key: within 10 s no call is signed with it.
func (c *Client) RevokeSigningKey(ctx context.Context, name string) error {
	_, err := c.call(ctx, ask{method: http.MethodDelete, path: signingPath + "/" + url.PathEscape(name)}, nil)
	return err
}

// PutSecret gives a secret a value, which can never be read back.
func (c *Client) PutSecret(ctx context.Context, name string, s request.SecretRequest) (Secret, error) {
	var out Secret
	_, err := c.call(ctx, ask{method: http.MethodPut, path: secretsPath + "/" + url.PathEscape(name), body: s, repeatable: true}, &out)
	return out, err
}

// Secrets returns the secrets of the tenant, by name, without their values. It ends with the first
// error.
func (c *Client) Secrets(ctx context.Context) iter.Seq2[Secret, error] {
	return func(yield func(Secret, error) bool) { eachItem(ctx, c, secretsPath, url.Values{}, 0, yield) }
}

// DeleteSecret deletes a secret: within 10 s no call is made with it.
func (c *Client) DeleteSecret(ctx context.Context, name string) error {
	_, err := c.call(ctx, ask{method: http.MethodDelete, path: secretsPath + "/" + url.PathEscape(name)}, nil)
	return err
}

// Tenant returns weight and quotas of a tenant.
func (c *Client) Tenant(ctx context.Context, name string) (Tenant, error) {
	var out Tenant
	_, err := c.call(ctx, ask{method: http.MethodGet, path: tenantsPath + "/" + url.PathEscape(name), repeatable: true}, &out)
	return out, err
}

// Tenants returns weights and quotas of the tenants that the key may see, by name. It ends with the
// first error.
func (c *Client) Tenants(ctx context.Context) iter.Seq2[Tenant, error] {
	return func(yield func(Tenant, error) bool) { eachItem(ctx, c, tenantsPath, url.Values{}, 0, yield) }
}

// PutTenant states weight and quotas of a tenant: what is left out has its default.
func (c *Client) PutTenant(ctx context.Context, name string, t request.TenantRequest) (Tenant, error) {
	var out Tenant
	_, err := c.call(ctx, ask{method: http.MethodPut, path: tenantsPath + "/" + url.PathEscape(name), body: t, repeatable: true}, &out)
	return out, err
}

// PutTenantIf is PutTenant of a tenant whose ETag is tag: else the answer is the Problem "stale".
func (c *Client) PutTenantIf(ctx context.Context, name, tag string, t request.TenantRequest) (Tenant, error) {
	var out Tenant
	_, err := c.call(ctx, ask{method: http.MethodPut, path: tenantsPath + "/" + url.PathEscape(name), body: t, header: http.Header{"If-Match": {tag}}}, &out)
	return out, err
}

// TenantTagged returns a tenant with its ETag.
func (c *Client) TenantTagged(ctx context.Context, name string) (Tenant, string, error) {
	var out Tenant
	header, err := c.call(ctx, ask{method: http.MethodGet, path: tenantsPath + "/" + url.PathEscape(name), repeatable: true}, &out)
	return out, header.Get("ETag"), err
}

// AuditQuery selects entries of the audit log, From ≤ at < To. Empty fields select all; the server
// has its own window where From or To is zero.
type AuditQuery struct {
	From, To time.Time
	Actor    string
	Object   string // kind and name, or "kind/" for all of the kind
	Limit    int    // of one page; 0 means 500
}

// Audit returns the changes in the audit log of the tenant, newest first. It ends with the first
// error.
func (c *Client) Audit(ctx context.Context, q AuditQuery) iter.Seq2[AuditEntry, error] {
	return func(yield func(AuditEntry, error) bool) {
		params := url.Values{}
		for name, at := range map[string]time.Time{"from": q.From, "to": q.To} {
			if !at.IsZero() {
				params.Set(name, at.UTC().Format(time.RFC3339Nano))
			}
		}
		for name, v := range map[string]string{"actor": q.Actor, "object": q.Object} {
			if v != "" {
				params.Set(name, v)
			}
		}
		eachItem(ctx, c, "/v1/audit", params, q.Limit, yield)
	}
}
