package httpapi

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// A session is an API key that a browser keeps as a cookie, sealed so that neither the browser nor
// what reads its files has the key. Nothing of it is stored here: whoever has the cookie key opens
// it, and the key in it is looked up with every request, as one in a header is. So a key that is
// revoked ends its sessions within 10 s.
const (
	// sessionCookie has a prefix by which browsers take it only if it is Secure, for the whole of one
	// host: no other host, and nothing that came in plain text, can set it.
	sessionCookie = "__Host-carillon"
	// sessionSpan is how long a session lasts from the log-in on.
	sessionSpan = 12 * time.Hour
	// sessionSkew is how far ahead the clock of the node that sealed it may be.
	sessionSkew = time.Minute
	// maxSession bounds the cookie, bytes: a key is shorter than maxAuthorization, and who has none
	// has a name of admin.MaxIdentity bytes at most.
	maxSession = 1 << 10
)

// sessions seals keys into cookies and opens them.
type sessions struct{ aead cipher.AEAD }

// newSessions returns sessions that every node of the same cursor key opens.
func newSessions(cursorKey []byte) (sessions, error) {
	key, err := hkdf.Key(sha256.New, cursorKey, nil, "carillon session cookie, AES-256-GCM", 32)
	if err != nil {
		return sessions{}, fmt.Errorf("derive the key of sessions: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return sessions{}, fmt.Errorf("make the cipher of sessions: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return sessions{}, fmt.Errorf("make the cipher of sessions: %w", err)
	}
	return sessions{aead}, nil
}

// seal returns the value of the cookie of a session that begins now.
func (s sessions) seal(key string, now time.Time) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli())) // #nosec G115 -- bits
	sealed := s.aead.Seal(nil, nil, append(text, key...), []byte(sessionCookie))
	return base64.RawURLEncoding.EncodeToString(sealed)
}

// open returns the key that a cookie holds. False means that it is not one of ours, or has ended.
func (s sessions) open(value string, now time.Time) (key string, ok bool) {
	if len(value) > maxSession {
		return "", false
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(value)
	if err != nil {
		return "", false
	}
	text, err := s.aead.Open(nil, nil, sealed, []byte(sessionCookie))
	if err != nil || len(text) < 8 {
		return "", false
	}
	age := now.Sub(time.UnixMilli(int64(binary.BigEndian.Uint64(text)))) // #nosec G115 -- bits
	if age < -sessionSkew || age >= sessionSpan {
		return "", false
	}
	return string(text[8:]), true
}

// sessionBegun and sessionEnded are the cookies that a browser is to keep and to remove.
func sessionBegun(value string) *http.Cookie {
	return &http.Cookie{
		Name: sessionCookie, Value: value, Path: "/", MaxAge: int(sessionSpan / time.Second),
		Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

func sessionEnded() *http.Cookie {
	c := sessionBegun("")
	c.MaxAge = -1
	return c
}

// errNoSession: the cookie of a request opens nothing, is too old, or holds a key that is none any
// more.
var errNoSession = errors.New("no session")

// keyOfSession returns the key in the cookie of a request, errNoAuthorization if it has no cookie,
// or errNoSession.
func (s sessions) keyOfSession(r *http.Request, now time.Time) (string, error) {
	cookies := r.CookiesNamed(sessionCookie)
	if len(cookies) == 0 {
		return "", errNoAuthorization
	}
	key, ok := s.open(cookies[0].Value, now)
	if !ok || len(cookies) > 1 {
		return "", errNoSession
	}
	return key, nil
}

// keepsCookie reports whether a browser keeps a Secure cookie of the answer to a request: if it came
// over TLS, or for this machine. origin is what the browser says that it speaks to. Without that, a
// program asks, or an old browser: then the Host header decides, and what a proxy with TLS says.
func keepsCookie(origin, host, forwardedProto string, tls bool) bool {
	if u, err := url.Parse(origin); err == nil && u.Host != "" {
		return u.Scheme == "https" || isLoopback(u.Hostname())
	}
	proto, _, _ := strings.Cut(forwardedProto, ",")
	return tls || strings.EqualFold(strings.TrimSpace(proto), "https") || isLoopback(hostname(host))
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && address.Unmap().IsLoopback()
}
