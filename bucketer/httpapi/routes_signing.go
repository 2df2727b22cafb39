package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// Signing keeps the keys by which the HTTP calls of a tenant are signed (admin.Signing has it).
type Signing interface {
	Create(ctx context.Context, tenant, name, by string) (secret []byte, key schema.SigningKey, err error)
	List(ctx context.Context, tenant string) ([]schema.SigningKey, error)
	Rotate(ctx context.Context, tenant, name string, overlap time.Duration) (secret []byte, key schema.SigningKey, err error)
	Revoke(ctx context.Context, tenant, name string) (schema.SigningKey, error)
}

// SigningKey is a signing key as the API answers it: all but its secrets.
type SigningKey struct {
	Name      string          `json:"name" example:"default" doc:"Calls that name no key are signed with the one called default"`
	Tenant    string          `json:"tenant" example:"default"`
	CreatedAt Time            `json:"created_at"`
	CreatedBy string          `json:"created_by,omitempty"`
	Secrets   []SigningSecret `json:"secrets" doc:"Newest first: calls carry a signature by each"`
}

// SigningSecret says of a secret all but what it is.
type SigningSecret struct {
	CreatedAt  Time   `json:"created_at"`
	ValidUntil Time   `json:"valid_until,omitzero" doc:"Of one that was replaced"`
	SealedWith string `json:"sealed_with" example:"k1" doc:"Which of the operator's keys it is encrypted with (secrets.keys)"`
}

// NewSigningKey is a key with a secret that was just made, the only time that it is shown.
type NewSigningKey struct {
	SigningKey
	Secret string `json:"secret" doc:"The new secret: whsec_ and base64. It cannot be shown again"`
}

// signingKeyOf leaves out what signs no more.
func signingKeyOf(tenant string, k schema.SigningKey, now time.Time) SigningKey {
	out := SigningKey{Name: k.Name, Tenant: tenant, CreatedAt: Time{k.CreatedAt}, CreatedBy: k.CreatedBy, Secrets: []SigningSecret{}}
	for _, s := range k.Secrets {
		if s.Until.IsZero() || now.Before(s.Until) {
			out.Secrets = append(out.Secrets, SigningSecret{Time{s.CreatedAt}, Time{s.Until}, s.SealedWith})
		}
	}
	return out
}

type (
	signingCreate struct{ body }
	signingByName struct {
		Name string `path:"name" doc:"The key's name" example:"default"`
	}
	signingRotate struct {
		Name string `path:"name" doc:"The key's name" example:"default"`
		body
	}
	signingAnswer struct {
		// What caches keep, others may find.
		CacheControl string `header:"Cache-Control"`
		Body         NewSigningKey
	}
	signingCreated struct {
		Location     string `header:"Location"`
		CacheControl string `header:"Cache-Control"`
		Body         NewSigningKey
	}
	signingList struct {
		Body struct {
			Items []SigningKey `json:"items" doc:"All of the tenant, at most 32"`
		}
	}
)

const signingPath = "/v1/signing-keys"

// signingRoutes serves signing keys.
type signingRoutes struct{ *Server }

func (s signingRoutes) route() {
	op := s.operation("create-signing-key", http.MethodPost, signingPath, "Make a key by which HTTP calls are signed, and show its secret this once", 201, 400, 408, 409, 413, 415, 422, 429, 503)
	op.Description = "From within 10 s on every HTTP call that names the key, or of the key called default every call that names none, carries the header webhook-signature (Standard Webhooks). " +
		"A name that is taken is 409, as is a cluster whose operator has configured no key to encrypt secrets with."
	huma.Register(s.api, op, s.createSigning)
	s.describeBody(signingPath, http.MethodPost, reflect.TypeFor[request.SigningRequest](), "application/json")
	huma.Register(s.api, s.operation("list-signing-keys", http.MethodGet, signingPath, "The signing keys of the tenant, by name", 200, 503), s.listSigning)
	op = s.operation("rotate-signing-key", http.MethodPost, signingPath+"/{name}/rotate", "Give a signing key a new secret, and show it this once", 200, 400, 404, 408, 409, 413, 415, 422, 429, 503)
	op.Description = "The secret before it goes on signing beside the new one for the overlap, so that whoever is called can change over in between. At most three secrets are valid at once: beyond that it is 409."
	huma.Register(s.api, op, s.rotateSigning)
	s.describeBody(signingPath+"/{name}/rotate", http.MethodPost, reflect.TypeFor[request.RotateRequest](), "application/json")
	s.api.OpenAPI().Paths[signingPath+"/{name}/rotate"].Post.RequestBody.Required = false
	huma.Register(s.api, s.operation("revoke-signing-key", http.MethodDelete, signingPath+"/{name}", "Revoke a signing key: within 10 s no call is signed with it", 204, 404, 422, 503), s.revokeSigning)
}

// signing returns what keeps the signing keys.
func (s signingRoutes) signing() (Signing, error) {
	if s.deps.Signing == nil {
		return nil, notFound("This node keeps no signing keys.")
	}
	return s.deps.Signing, nil
}

func (s signingRoutes) createSigning(ctx context.Context, in *signingCreate) (*signingCreated, error) {
	keys, err := s.signing()
	if err != nil {
		return nil, err
	}
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	asked, err := d.Signing(text)
	if err != nil {
		return nil, s.fail(ctx, "create signing key", err)
	}
	secret, made, err := keys.Create(ctx, tenantOf(ctx), asked.Name, actorOf(ctx))
	if err != nil {
		return nil, s.fail(ctx, "create signing key", err)
	}
	shown := signingKeyOf(tenantOf(ctx), made, s.config.Now())
	s.note(ctx, "create", "signing-key/"+made.Name, nil, shown, "")
	return &signingCreated{signingPath + "/" + made.Name, "no-store", NewSigningKey{shown, admin.SecretText(secret)}}, nil
}

func (s signingRoutes) listSigning(ctx context.Context, _ *struct{}) (*signingList, error) {
	keys, err := s.signing()
	if err != nil {
		return nil, err
	}
	found, err := keys.List(ctx, tenantOf(ctx))
	if err != nil {
		return nil, s.fail(ctx, "list signing keys", err)
	}
	out := new(signingList)
	out.Body.Items = make([]SigningKey, len(found))
	for i := range found {
		out.Body.Items[i] = signingKeyOf(tenantOf(ctx), found[i], s.config.Now())
	}
	return out, nil
}

func (s signingRoutes) rotateSigning(ctx context.Context, in *signingRotate) (*signingAnswer, error) {
	keys, err := s.signing()
	if err != nil {
		return nil, err
	}
	if what := bucketer.NameFault(in.Name); what != "" {
		return nil, invalid(bucketer.Fault{Location: "path.name", Message: what})
	}
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	asked, err := d.Rotation(text)
	if err != nil {
		return nil, s.fail(ctx, "rotate signing key", err)
	}
	secret, made, err := keys.Rotate(ctx, tenantOf(ctx), in.Name, asked.Overlap.Std())
	if err != nil {
		return nil, s.fail(ctx, "rotate signing key", err)
	}
	shown := signingKeyOf(tenantOf(ctx), made, s.config.Now())
	s.note(ctx, "rotate", "signing-key/"+made.Name, nil, shown, "")
	return &signingAnswer{"no-store", NewSigningKey{shown, admin.SecretText(secret)}}, nil
}

func (s signingRoutes) revokeSigning(ctx context.Context, in *signingByName) (*struct{}, error) {
	keys, err := s.signing()
	if err != nil {
		return nil, err
	}
	if what := bucketer.NameFault(in.Name); what != "" {
		return nil, invalid(bucketer.Fault{Location: "path.name", Message: what})
	}
	was, err := keys.Revoke(ctx, tenantOf(ctx), in.Name)
	if err != nil {
		return nil, s.fail(ctx, "revoke signing key", err)
	}
	s.note(ctx, "revoke", "signing-key/"+was.Name, signingKeyOf(tenantOf(ctx), was, s.config.Now()), nil, "")
	return nil, nil //nolint:nilnil // huma's way to say 204
}
