package httpapi

import (
	"context"
	"errors"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

const (
	sessionPath = "/v1/session"
	whoamiPath  = "/v1/whoami"
)

// Whoami is what a node knows of who asks, and of itself.
type Whoami struct {
	Tenant     string      `json:"tenant" doc:"The tenant that the request is for"`
	TenantsAll bool        `json:"tenants_all" doc:"Whether the caller may speak for every tenant (header Carillon-Tenant): the key is of the tenant system, or none is asked for"`
	Role       schema.Role `json:"role" enum:"viewer,operator,admin"`
	Actor      string      `json:"actor" doc:"The key's name, as the audit log has it; anonymous, if no key is asked for"`
	Session    bool        `json:"session" doc:"Whether the key came by the cookie of a session"`
	Auth       bool        `json:"auth" doc:"Whether the node asks for keys (api.auth)"`
	ReadOnly   bool        `json:"read_only" doc:"Whether the node refuses everything that changes something (api.read_only)"`
	Node       string      `json:"node" doc:"The node's name"`
	Version    string      `json:"version" doc:"Of the node's program"`
	Time       Time        `json:"time" doc:"The node's clock"`
}

type (
	whoamiAnswer struct{ Body Whoami }

	sessionCreate struct {
		body
		host  string
		keeps bool // the browser keeps the cookie
	}
	sessionAnswer struct {
		SetCookie    string `header:"Set-Cookie" doc:"The cookie to keep, or to remove"`
		CacheControl string `header:"Cache-Control"`
	}
)

// Resolve reads the body, and how the request came.
func (in *sessionCreate) Resolve(ctx huma.Context) []error {
	in.host = ctx.Host()
	in.keeps = keepsCookie(ctx.Header("Origin"), ctx.Host(), ctx.Header("X-Forwarded-Proto"), ctx.TLS() != nil)
	return in.body.Resolve(ctx)
}

// sessionRoutes serves who asks, log-in and log-out.
type sessionRoutes struct{ *Server }

func (s sessionRoutes) route() {
	op := s.operation("whoami", http.MethodGet, whoamiPath, "Who asks, what they may do, and how the node stands", 200, 422, 503)
	huma.Register(s.api, op, s.whoami)

	op = s.operation("create-session", http.MethodPost, sessionPath, "Log a browser in: an API key becomes a cookie", 204, 400, 408, 409, 413, 415, 422, 429, 503)
	op.Description = "The cookie " + sessionCookie + " holds the key, sealed by the node, for 12 hours. It counts where a request has no header Authorization, on every node with the same api.cursor_key. " +
		"A key that is revoked ends its sessions within 10 s. Browsers keep the cookie only over TLS or from the machine itself: else it is 422. It needs no key but the one in the body."
	op.Parameters = nil // the key says which tenant
	huma.Register(s.api, op, s.logIn)
	s.describeBody(sessionPath, http.MethodPost, reflect.TypeFor[request.SessionRequest](), "application/json")

	op = s.operation("delete-session", http.MethodDelete, sessionPath, "Log a browser out: the cookie is removed", 204, 422, 503)
	op.Description = "The key stays good: revoke it to end all its sessions. It needs no key."
	op.Parameters = nil
	huma.Register(s.api, op, s.logOut)
}

func (s sessionRoutes) whoami(ctx context.Context, _ *struct{}) (*whoamiAnswer, error) {
	who := callerOf(ctx)
	return &whoamiAnswer{Whoami{
		Tenant: who.tenant, TenantsAll: who.system, Role: who.role, Actor: who.actor(who.tenant), Session: who.session,
		Auth: s.config.Auth, ReadOnly: s.config.ReadOnly, Node: s.config.Node, Version: s.config.Version, Time: Time{s.config.Now()},
	}}, nil
}

func (s sessionRoutes) logIn(ctx context.Context, in *sessionCreate) (*sessionAnswer, error) {
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	key, err := request.Session(d, text)
	switch {
	case err != nil:
		return nil, s.fail(ctx, "log in", err)
	case !s.config.Auth:
		return nil, authOff()
	case !in.keeps:
		return nil, needsTLS(in.host)
	}
	switch _, err := s.deps.Keys.Authenticate(ctx, key); {
	case errors.Is(err, admin.ErrNoKey):
		return nil, unauthenticated("The key is not known, was revoked, or has expired.", invalidToken)
	case err != nil:
		return nil, s.fail(ctx, "look the key up", err)
	}
	return sessionAnswerOf(sessionBegun(s.sessions.seal(key, s.config.Now()))), nil
}

func (s sessionRoutes) logOut(context.Context, *struct{}) (*sessionAnswer, error) {
	return sessionAnswerOf(sessionEnded()), nil
}

func sessionAnswerOf(cookie *http.Cookie) *sessionAnswer {
	return &sessionAnswer{SetCookie: cookie.String(), CacheControl: "no-store"}
}

func authOff() *Problem {
	return &Problem{
		Type: problemType + "auth-off", Title: "This node asks for no keys", Status: http.StatusConflict,
		Detail: "There is nothing to log in to: whoever reaches the node and sends no key may do everything (api.auth).",
	}
}

func needsTLS(host string) *Problem {
	return &Problem{
		Type: problemType + "needs-tls", Title: "A session needs TLS", Status: http.StatusUnprocessableEntity,
		Detail: "Browsers keep the cookie of a session only if it came over https, or from their own machine (localhost, 127.0.0.1). Reach the node through a proxy with TLS.",
		Errors: []bucketer.Fault{{Location: "header.Host", Message: "is reached in plain text", Value: host}},
	}
}
