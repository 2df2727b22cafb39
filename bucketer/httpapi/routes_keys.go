package httpapi

import (
	"context"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// APIKey is a key as the API answers it: all but the key.
type APIKey struct {
	Name       string      `json:"name" example:"deploy"`
	Tenant     string      `json:"tenant" example:"default"`
	Role       schema.Role `json:"role" enum:"viewer,operator,admin"`
	CreatedAt  Time        `json:"created_at"`
	CreatedBy  string      `json:"created_by,omitempty"`
	ExpiresAt  Time        `json:"expires_at,omitzero"`
	LastUsedAt Time        `json:"last_used_at,omitzero" doc:"To about five minutes"`
	Fault      string      `json:"fault,omitempty" doc:"Why what is stored of it cannot be understood: it is refused"`
}

// NewAPIKey is a key that was just made, the only time that it is shown.
type NewAPIKey struct {
	APIKey
	Key string `json:"key" doc:"The key itself. It is stored nowhere and cannot be shown again"`
}

func apiKeyOf(k schema.APIKey) APIKey {
	return APIKey{
		Name: k.Name, Tenant: k.Tenant, Role: k.Role, CreatedAt: Time{k.CreatedAt}, CreatedBy: k.CreatedBy,
		ExpiresAt: Time{k.ExpiresAt}, LastUsedAt: Time{k.LastUsed}, Fault: faultOf(k.Fault),
	}
}

type (
	keyCreate struct{ body }
	keyByName struct {
		Name string `path:"name" doc:"The key's name" example:"deploy"`
	}
	keyAnswer struct {
		Location string `header:"Location"`
		// What caches keep, others may find.
		CacheControl string `header:"Cache-Control"`
		Body         NewAPIKey
	}
	keyList struct {
		Body struct {
			Items      []APIKey `json:"items"`
			NextCursor string   `json:"next_cursor,omitempty"`
		}
	}
)

const keysPath = "/v1/api-keys"

// keyRoutes serves API keys.
type keyRoutes struct{ *Server }

func (s keyRoutes) route() {
	op := s.operation("create-api-key", http.MethodPost, keysPath, "Make an API key of the tenant, and show it this once", 201, 400, 408, 409, 413, 415, 422, 429, 503)
	op.Description = "A name that is taken is 409, so an answer that was lost is had by revoking the key of that name and making it again: idempotency keys are of no use here."
	huma.Register(s.api, op, s.createKey)
	s.describeBody(keysPath, http.MethodPost, reflect.TypeFor[request.KeyRequest](), "application/json")
	huma.Register(s.api, s.operation("list-api-keys", http.MethodGet, keysPath, "The API keys of the tenant, by name", 200, 422, 503), s.listKeys)
	huma.Register(s.api, s.operation("revoke-api-key", http.MethodDelete, keysPath+"/{name}", "Revoke an API key: within 10 s no node takes it", 204, 404, 422, 503), s.revokeKey)
}

// keys returns what keeps the keys.
func (s keyRoutes) keys() (Keys, error) {
	if s.deps.Keys == nil {
		return nil, notFound("This node keeps no keys.")
	}
	return s.deps.Keys, nil
}

func (s keyRoutes) createKey(ctx context.Context, in *keyCreate) (*keyAnswer, error) {
	keys, err := s.keys()
	if err != nil {
		return nil, err
	}
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	asked, err := d.Key(tenantOf(ctx), text, s.config.Now())
	if err != nil {
		return nil, s.fail(ctx, "create key", err)
	}
	asked.CreatedBy = actorOf(ctx)
	secret, stored, err := keys.Create(ctx, asked)
	if err != nil {
		return nil, s.fail(ctx, "create key", err)
	}
	shown := apiKeyOf(stored)
	s.note(ctx, "create", "key/"+stored.Name, nil, shown, "")
	return &keyAnswer{Location: keysPath + "/" + stored.Name, CacheControl: "no-store", Body: NewAPIKey{shown, secret}}, nil
}

func (s keyRoutes) listKeys(ctx context.Context, in *page) (*keyList, error) {
	keys, err := s.keys()
	if err != nil {
		return nil, err
	}
	out := new(keyList)
	out.Body.Items, out.Body.NextCursor, err = listed(s.cursors, []string{"keys", tenantOf(ctx)}, in.Cursor, in.Limit,
		func(after string, limit int) ([]schema.APIKey, error) {
			return keys.List(ctx, tenantOf(ctx), after, limit)
		},
		func(k *schema.APIKey) string { return k.Name }, apiKeyOf)
	if err != nil {
		return nil, s.fail(ctx, "list keys", err)
	}
	return out, nil
}

func (s keyRoutes) revokeKey(ctx context.Context, in *keyByName) (*struct{}, error) {
	keys, err := s.keys()
	if err != nil {
		return nil, err
	}
	if what := bucketer.NameFault(in.Name); what != "" {
		return nil, invalid(bucketer.Fault{Location: "path.name", Message: what})
	}
	was, err := keys.Revoke(ctx, tenantOf(ctx), in.Name)
	if err != nil {
		return nil, s.fail(ctx, "revoke key", err)
	}
	s.note(ctx, "revoke", "key/"+was.Name, apiKeyOf(was), nil, "")
	return nil, nil //nolint:nilnil // huma's way to say 204
}
