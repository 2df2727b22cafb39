package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gin-gonic/gin"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

// Keys makes, revokes and recognises API keys (admin.Keys).
type Keys interface {
	// Authenticate returns the API key, or admin.ErrNoKey.
	Authenticate(ctx context.Context, key string) (schema.APIKey, error)
	Create(ctx context.Context, key schema.APIKey) (secret string, stored schema.APIKey, err error)
	List(ctx context.Context, tenant, after string, limit int) ([]schema.APIKey, error)
	Revoke(ctx context.Context, tenant, name string) (schema.APIKey, error)
}

// Tokens knows callers by tokens of an OpenID Connect provider.
type Tokens interface {
	// Identify returns who calls with a token. The error is an *admin.TokenError, admin.ErrNoGrant
	// or admin.ErrProvider.
	Identify(ctx context.Context, token string) (admin.Identity, error)
}

// anonymous is the caller if no key is asked for.
const anonymous = "anonymous"

// maxAuthorization bounds the header Authorization, bytes: keys are shorter. Tokens may be longer.
const (
	maxAuthorization = 256
	maxWithToken     = 9 << 10
)

// callerKey is the key of the caller in the context of a request.
type callerKey struct{}

// caller is the principal of a request: for which tenant it asks, and what it may do.
type caller struct {
	tenant  string // that the request is for
	of      string // tenant of the key, or of who has none; "" = no key was asked for
	key     string // its name, or theirs
	role    schema.Role
	system  bool // may speak for every tenant
	session bool // the key came by a cookie
	peer    bool // known here alone: by the certificate of the connection, or by a log-in at the provider
	reads   bool // what is asked changes nothing, whatever becomes of it
}

func callerOf(ctx context.Context) caller {
	who, ok := ctx.Value(callerKey{}).(caller)
	if !ok {
		return caller{tenant: defaultTenant}
	}
	return who
}

// tenantOf returns the tenant that a request is for.
func tenantOf(ctx context.Context) string { return callerOf(ctx).tenant }

// actor returns the name of the caller in a tenant.
func (who *caller) actor(tenant string) string {
	switch who.of {
	case "":
		return anonymous
	case tenant:
		return who.key
	}
	return who.of + "/" + who.key
}

// actorOf returns the name of the caller in the tenant that the request is for.
func actorOf(ctx context.Context) string {
	who := callerOf(ctx)
	return who.actor(who.tenant)
}

// authorOf returns who is noted on what the caller makes; "" if the caller has no key.
func authorOf(ctx context.Context) string {
	who := callerOf(ctx)
	if who.of == "" {
		return ""
	}
	return who.actor(who.tenant)
}

// access is what a route asks of a key.
type access struct {
	role   schema.Role // at least
	system bool        // the key must be of the system tenant: what is asked for is no tenant's
}

// accessOf returns what a request to a route asks of a key; false if it needs none. A key that may
// make jobs may make tasks as well: a task can do no more than the work that a job states inline,
// and deploying tasks must not need the right to make keys.
func (s *Server) accessOf(method, route string) (access, bool) {
	reads := onlyReads(method, route)
	under := func(prefix string) bool { return route == prefix || strings.HasPrefix(route, prefix+"/") }
	switch {
	case route == "/metrics":
		return access{role: schema.Viewer, system: true}, s.config.ProtectMetrics
	case !strings.HasPrefix(route, "/v1/"), route == sessionPath: // a log-in brings its key in the body
		return access{}, false
	case under("/v1/api-keys"), under("/v1/audit"), under(signingPath):
		return access{role: schema.Admin}, true
	case under(secretsPath) && !reads: // whoever may make jobs may use a secret, not replace it
		return access{role: schema.Admin}, true
	case under("/v1/tenants") && !reads: // a tenant's own admin must not raise its quotas
		return access{role: schema.Admin, system: true}, true
	case under("/v1/admin") && !reads:
		return access{role: schema.Admin, system: true}, true
	case under("/v1/cluster"), under("/v1/admin"), under(upcomingPath): // counts of one's own tenant are for every key
		return access{role: schema.Viewer, system: true}, true
	case reads:
		return access{role: schema.Viewer}, true
	}
	return access{role: schema.Operator}, true
}

// backfillPreviewRoute is backfillPreviewPath as the router writes it.
const backfillPreviewRoute = "/v1/jobs/:id/backfills/preview"

// onlyReads reports whether a request to a route changes nothing.
func onlyReads(method, route string) bool {
	return method == http.MethodGet || method == http.MethodHead || route == previewPath || route == backfillPreviewPath || route == backfillPreviewRoute || route == sessionPath
}

// dryRuns are the parameters with which a request only checks what it would change, by method and
// route.
var dryRuns = map[string]string{
	http.MethodPost + " " + importPath:              "validate_only",
	http.MethodPut + " " + workflowsPath + "/:name": "dry_run",
}

// changes reports whether a request changes something. Whether an operation is a dry run, and a
// change of a home only planned, stands in the body: beginOperation and regionRoutes.change look.
func (who *caller) changes(c *gin.Context) bool {
	route := c.Request.Method + " " + c.FullPath()
	if who.reads || route == http.MethodPost+" "+operationsPath || strings.HasPrefix(c.FullPath(), regionsPath+"/") {
		return false
	}
	name, ok := dryRuns[route]
	dry, err := strconv.ParseBool(c.Query(name))
	return !ok || err != nil || !dry
}

// identify finds out who calls, and refuses callers that may not do what they ask.
func (s middleware) identify(c *gin.Context) {
	who := caller{tenant: defaultTenant, role: schema.Admin, system: true}
	need, guarded := s.accessOf(c.Request.Method, c.FullPath())
	if guarded && (s.config.Auth || s.hasKey(c.Request)) {
		var err error
		if who, err = s.authenticate(c.Request); err != nil {
			s.refuseCaller(c, err)
			return
		}
	}
	switch tenant := c.GetHeader(tenantHeader); {
	case tenant == "" || tenant == who.tenant:
	case bucketer.NameFault(tenant) != "":
		s.refuse(c, invalid(bucketer.Fault{Location: "header." + tenantHeader, Message: bucketer.NameFault(tenant)}))
		return
	case !who.system:
		s.refuse(c, forbidden("The key is of another tenant than the header "+tenantHeader+" names."))
		return
	default:
		who.tenant = tenant
	}
	switch {
	case !guarded:
	case !who.role.Covers(need.role):
		s.refuse(c, forbidden("This needs the role "+string(need.role)+"; the key has "+string(who.role)+"."))
		return
	case need.system && !who.system:
		s.refuse(c, forbidden("This is not about one tenant: it needs a key of the tenant "+schema.SystemTenant+"."))
		return
	}
	who.reads = onlyReads(c.Request.Method, c.FullPath())
	if guarded && s.config.ReadOnly && who.changes(c) {
		s.refuse(c, readOnly())
		return
	}
	if who.session {
		c.Header("Cache-Control", "no-store") // caches know Authorization, but not this cookie
	}
	c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), callerKey{}, who))
	c.Next()
}

// hasKey reports whether a request has an API key where it needs none. What it may do is what the
// key may, so that one sees what that is before keys are asked for. Headers Authorization without
// one are not looked at: a proxy may have asked for them.
func (s middleware) hasKey(r *http.Request) bool {
	return s.deps.Keys != nil && slices.ContainsFunc(r.Header.Values("Authorization"), func(value string) bool {
		scheme, key, _ := strings.Cut(value, " ")
		return strings.EqualFold(scheme, "Bearer") && strings.HasPrefix(strings.TrimSpace(key), admin.KeyPrefix)
	})
}

// errNoAuthorization: the request carries no key.
var errNoAuthorization = errors.New("no authorization")

// authenticate returns the caller whose key the request has: in the header, else in the cookie of a
// session. Else it is whom the certificate of the connection stands for.
func (s middleware) authenticate(r *http.Request) (caller, error) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		who, err := s.resume(r)
		if errors.Is(err, errNoAuthorization) && s.deps.Peer != nil && r.TLS != nil {
			if peer, known := s.deps.Peer(r.TLS); known {
				who, err = callerFrom(peer), nil
				who.peer = true
			}
		}
		return who, err
	}
	scheme, key, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return caller{}, admin.ErrNoKey
	}
	key = strings.TrimSpace(key)
	switch isToken := s.deps.Tokens != nil && strings.Count(key, ".") == 2; {
	case isToken && len(values[0]) > maxWithToken:
		return caller{}, &admin.TokenError{Reason: "is too long"}
	case isToken:
		who, err := s.deps.Tokens.Identify(r.Context(), key)
		return callerFrom(who), err
	case len(values[0]) > maxAuthorization:
		return caller{}, admin.ErrNoKey
	}
	return s.callerOfKey(r.Context(), key)
}

// resume returns the caller whose key the cookie of the request holds.
func (s middleware) resume(r *http.Request) (caller, error) {
	key, err := s.sessions.keyOfSession(r, s.config.Now())
	if err != nil {
		return caller{}, err
	}
	if who, ok := identityIn(key); ok {
		if s.deps.LogIn == nil {
			return caller{}, errNoSession
		}
		begun := callerFrom(who)
		begun.session, begun.peer = true, true
		return begun, nil
	}
	who, err := s.callerOfKey(r.Context(), key)
	if errors.Is(err, admin.ErrNoKey) {
		err = errNoSession
	}
	who.session = true
	return who, err
}

func (s middleware) callerOfKey(ctx context.Context, key string) (caller, error) {
	found, err := s.deps.Keys.Authenticate(ctx, key)
	if err != nil {
		return caller{}, err
	}
	return callerFrom(admin.Identity{Tenant: found.Tenant, Name: found.Name, Role: found.Role}), nil
}

func callerFrom(who admin.Identity) caller {
	return caller{tenant: who.Tenant, of: who.Tenant, key: who.Name, role: who.Role, system: who.Tenant == schema.SystemTenant}
}

// refuseCaller answers a caller that was not recognised. It says nothing of the key. A cookie that
// is of no use is removed.
func (s middleware) refuseCaller(c *gin.Context, err error) {
	var token *admin.TokenError
	switch {
	case errors.As(err, &token):
		s.refuse(c, unauthenticated("The token "+token.Reason+".", invalidToken))
	case errors.Is(err, admin.ErrNoGrant):
		s.refuse(c, forbidden("The token is good, and no grant of api.oidc.grants fits its claims."))
	case errors.Is(err, admin.ErrProvider):
		s.log.Warn("request refused", "act", "verify a token", "err", err)
		s.refuse(c, noProvider())
	case errors.Is(err, errNoAuthorization):
		s.refuse(c, unauthenticated("Send it in the header Authorization: Bearer <key>.", noToken))
	case errors.Is(err, errNoSession):
		http.SetCookie(c.Writer, sessionEnded())
		s.refuse(c, unauthenticated("The session has ended, its key was revoked or has expired, or a node with another api.cursor_key began it: log in again.", invalidToken))
	case errors.Is(err, admin.ErrNoKey):
		s.refuse(c, unauthenticated("The key is not known, was revoked, or has expired.", invalidToken))
	default:
		s.log.Warn("request refused", "act", "look the key up", "err", err)
		s.refuse(c, problemOf(err).ofRead())
	}
}

// What WWW-Authenticate says (RFC 6750, section 3).
const (
	noToken      = `Bearer realm="carillon"`
	invalidToken = noToken + `, error="invalid_token"`
)

func unauthenticated(detail, challenge string) *Problem {
	return &Problem{
		Type: problemType + "unauthenticated", Title: "An API key is needed", Status: http.StatusUnauthorized, Detail: detail, Challenge: challenge,
	}
}

func noProvider() *Problem {
	return &Problem{
		Type: problemType + "no-provider", Title: "Tokens cannot be verified now", Status: http.StatusServiceUnavailable, RetryAfter: 5 * time.Second,
		Detail: "The provider of tokens (api.oidc.issuer) does not answer. API keys are good meanwhile.",
	}
}

func readOnly() *Problem {
	return &Problem{
		Type: problemType + "read-only", Title: "This node is read-only", Status: http.StatusForbidden,
		Detail: "Nothing was changed: the operator has it refuse everything that changes something (api.read_only).",
	}
}

func forbidden(detail string) *Problem {
	return &Problem{Type: problemType + "forbidden", Title: "The key may not do this", Status: http.StatusForbidden, Detail: detail}
}

// describeAccess adds to the document what each operation asks of a key. It comes after all
// operations.
func (s middleware) describeAccess() {
	doc := s.api.OpenAPI()
	doc.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key": {
			Type: "http", Scheme: "bearer",
			Description: "An API key: it names the tenant and the role. Or a token (JWT) of the OpenID Connect provider of the configuration (api.oidc): its grants say tenant and role. A node that asks for no keys says so in its configuration (api.auth); a request that has one all the same may do what the key may.",
		},
		"session": {
			Type: "apiKey", In: "cookie", Name: sessionCookie,
			Description: "An API key that a browser logged in with (POST " + sessionPath + ").",
		},
	}
	// One of these. The last is none at all, where a node asks for no keys.
	either := []map[string][]string{{"key": {}}, {"session": {}}}
	if s.deps.Peer != nil {
		doc.Components.SecuritySchemes["certificate"] = &huma.SecurityScheme{
			Type:        "mutualTLS",
			Description: "The certificate of the client, if the configuration of the node says whom it stands for (api.tls.clients).",
		}
		either = append(either, map[string][]string{"certificate": {}})
	}
	if !s.config.Auth {
		either = append(either, map[string][]string{})
	}
	for path, item := range doc.Paths {
		for method, op := range map[string]*huma.Operation{
			http.MethodGet: item.Get, http.MethodPut: item.Put, http.MethodPost: item.Post, http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
		} {
			if op == nil {
				continue
			}
			need, guarded := s.accessOf(method, path)
			if !guarded {
				op.Security = []map[string][]string{} // stated, or a linter takes it for forgotten
				continue
			}
			op.Security = either
			who := "any key of the role " + string(need.role)
			if need.role != schema.Admin {
				who += " or above"
			}
			if need.system {
				who += ", of the tenant " + schema.SystemTenant
			}
			op.Description = strings.TrimSpace(op.Description + "\n\nWho may: " + who + ".")
			op.Responses["401"] = s.problemResponse(http.StatusUnauthorized)
			op.Responses["401"].Headers = map[string]*huma.Param{"WWW-Authenticate": {
				Description: "Bearer, and whether the key was wrong", Schema: &huma.Schema{Type: huma.TypeString},
			}}
			op.Responses["403"] = s.problemResponse(http.StatusForbidden)
			for _, p := range op.Parameters {
				if p.Name == tenantHeader {
					p.Description = "The tenant that the request is for, where no key is asked for (default: " + defaultTenant +
						") or the key is of the tenant " + schema.SystemTenant + ". Else the key says it"
				}
			}
		}
	}
}
