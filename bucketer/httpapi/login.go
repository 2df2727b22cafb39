package httpapi

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

// LogIn has browsers log in at an OpenID Connect provider, by the authorization code flow with
// PKCE.
type LogIn interface {
	// LogInURL returns where a browser is sent to log in. The error is admin.ErrProvider.
	LogInURL(ctx context.Context, state, nonce, verifier string) (string, error)
	// LoggedIn returns who has logged in, by the code with which the browser came back. Errors as
	// Tokens.Identify.
	LoggedIn(ctx context.Context, code, nonce, verifier string) (admin.Identity, error)
}

const (
	// LogInPath is where a browser begins a log-in at the provider.
	LogInPath = "/login"
	// LogInCallback is where it comes back.
	LogInCallback = LogInPath + "/callback"
	// logInCookie ties the browser that comes back to the one that was sent away.
	logInCookie = "__Host-carillon-login"
	// logInSpan is how long a log-in may take.
	logInSpan = 10 * time.Minute
)

// A session that began at the provider holds who it is for, as the grants said then, and no key: it
// lasts as any session does (sessionSpan).

// identityMark is before an identity in a session. No key begins with it.
const identityMark = "\x00"

// sealedIdentity is an identity as a session holds it.
type sealedIdentity struct {
	Tenant string      `json:"t"`
	Name   string      `json:"n"`
	Role   schema.Role `json:"r"`
}

// identityIn returns the identity that what a session holds is; false: it is a key.
func identityIn(held string) (admin.Identity, bool) {
	text, marked := strings.CutPrefix(held, identityMark)
	var who sealedIdentity
	if !marked || json.Unmarshal([]byte(text), &who) != nil {
		return admin.Identity{}, false
	}
	return admin.Identity(who), true
}

// logInRoutes has browsers log in at the provider. They are no part of the API.
type logInRoutes struct{ *Server }

func (s logInRoutes) route() {
	if s.deps.LogIn == nil {
		s.engine.GET(LogInPath, func(c *gin.Context) {
			s.refuse(c, plain(http.StatusNotFound, "No provider is configured at which one could log in (api.oidc). The console takes an API key: /console/"))
		})
		return
	}
	s.engine.GET(LogInPath, s.begin)
	s.engine.GET(LogInCallback, s.end)
}

// logInBegun is what the cookie of a log-in holds.
type logInBegun struct {
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"`
	Until    time.Time `json:"u"`
}

func logInCookieOf(value string, age time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: logInCookie, Value: value, Path: "/", MaxAge: int(age / time.Second),
		Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode, // the provider sends the browser back
	}
}

// begin sends a browser to the provider.
func (s logInRoutes) begin(c *gin.Context) {
	if !keepsCookie("", c.Request.Host, c.GetHeader("X-Forwarded-Proto"), c.Request.TLS != nil) {
		s.refuse(c, needsTLS(c.Request.Host))
		return
	}
	b := logInBegun{State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text(), Until: s.config.Now().Add(logInSpan)}
	at, err := s.deps.LogIn.LogInURL(c.Request.Context(), b.State, b.Nonce, b.Verifier)
	if err != nil {
		middleware(s).refuseCaller(c, err)
		return
	}
	text, err := json.Marshal(b)
	if err != nil {
		s.refuse(c, internal.problem(""))
		return
	}
	sealed := s.sessions.aead.Seal(nil, nil, text, []byte(logInCookie))
	http.SetCookie(c.Writer, logInCookieOf(base64.RawURLEncoding.EncodeToString(sealed), logInSpan))
	redirect(c, at)
}

// begun returns what the cookie of a log-in holds; false: there is none, or it is over.
func (s logInRoutes) begun(r *http.Request) (b logInBegun, ok bool) {
	cookies := r.CookiesNamed(logInCookie)
	if len(cookies) != 1 || len(cookies[0].Value) > maxSession {
		return b, false
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(cookies[0].Value)
	if err != nil {
		return b, false
	}
	text, err := s.sessions.aead.Open(nil, nil, sealed, []byte(logInCookie))
	if err != nil || json.Unmarshal(text, &b) != nil {
		return b, false
	}
	return b, s.config.Now().Before(b.Until)
}

// end takes a browser that comes back from the provider, and begins its session.
func (s logInRoutes) end(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	b, ok := s.begun(c.Request)
	if !ok || subtle.ConstantTimeCompare([]byte(b.State), []byte(c.Query("state"))) != 1 {
		s.refuse(c, unauthenticated("No log-in that this browser began belongs to this answer of the provider, or it took longer than 10 minutes. Begin again at "+LogInPath+".", noToken))
		return
	}
	http.SetCookie(c.Writer, logInCookieOf("", -time.Second))
	code := c.Query("code")
	if code == "" {
		s.refuse(c, unauthenticated("The provider has not let you in.", noToken))
		return
	}
	who, err := s.deps.LogIn.LoggedIn(c.Request.Context(), code, b.Nonce, b.Verifier)
	if err != nil {
		middleware(s).refuseCaller(c, err)
		return
	}
	text, err := json.Marshal(sealedIdentity(who))
	if err != nil {
		s.refuse(c, internal.problem(""))
		return
	}
	http.SetCookie(c.Writer, sessionBegun(s.sessions.seal(identityMark+string(text), s.config.Now())))
	redirect(c, "../console/")
}

// redirect sends a browser on. http.Redirect would make a path absolute, which a proxy may not
// know.
func redirect(c *gin.Context, to string) {
	c.Header("Cache-Control", "no-store")
	c.Header("Location", to)
	c.Status(http.StatusFound)
	c.Writer.WriteHeaderNow()
}
