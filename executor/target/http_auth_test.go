package target

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/executor/webhook"
	"carillon.dev/carillon/schema"
)

// secretText is the value of the secrets of these tests.
const secretText = "s3cret/s3cret+x=="

// authKinds are the kinds that are headers, with what the callee must see.
var authKinds = map[string]struct {
	auth schema.HTTPAuth
	want func(h http.Header) bool
}{
	"bearer": {schema.HTTPAuth{Bearer: &schema.BearerAuth{Secret: "s"}}, func(h http.Header) bool { return h.Get("Authorization") == "Bearer "+secretText }},
	"basic": {schema.HTTPAuth{Basic: &schema.BasicAuth{Username: "me", Secret: "s"}}, func(h http.Header) bool {
		user, password, ok := (&http.Request{Header: h}).BasicAuth()
		return ok && user == "me" && password == secretText
	}},
	"header":               {schema.HTTPAuth{Header: &schema.HeaderAuth{Name: "x-api-key", Secret: "s"}}, func(h http.Header) bool { return h.Get("X-Api-Key") == secretText }},
	"a header of the name": {schema.HTTPAuth{Header: &schema.HeaderAuth{Name: "X-Idempotency-Key", Secret: "s"}}, func(h http.Header) bool { return h.Get("X-Idempotency-Key") == secretText }},
	"sigv4": {
		schema.HTTPAuth{SigV4: &schema.SigV4Auth{Region: "eu-central-1", Service: "sqs", AccessKeyID: "AKIAIOSFODNN7EXAMPLE", Secret: "s", SessionTokenSecret: "s"}},
		func(h http.Header) bool {
			return strings.HasPrefix(h.Get("Authorization"), "AWS4-HMAC-SHA256 ") && h.Get("X-Amz-Security-Token") == secretText && h.Get("X-Amz-Date") != ""
		},
	},
}

// withAuth returns an attempt that posts to url and shows who calls.
func withAuth(url string, a schema.HTTPAuth) Call {
	c := callTo(url)
	c.Work.HTTP.Auth, c.Values = &a, auth.Values{"s": {[]byte(secretText)}}
	return c
}

// A callee sees who calls where the task says it is, also after a redirect there, and nobody does
// elsewhere. Whatever it says back, the result holds no secret.
func TestHTTPShowsWhoCallsToTheTasksOriginAlone(t *testing.T) {
	seen := make(chan http.Header, 10)
	land := func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header
		_ = r.Header.Write(w)
		_, _ = fmt.Fprintf(w, "%q", secretText)
	}
	var elsewhere *httptest.Server
	home := serve(t, nil)
	home.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if to := map[string]string{"/here": "/land?x=y&b=a", "/there": elsewhere.URL, "/back": elsewhere.URL + "/back"}[r.URL.Path]; to != "" {
			seen <- r.Header
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			return
		}
		land(w, r)
	})
	elsewhere = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/back" {
			seen <- r.Header
			http.Redirect(w, r, home.URL+"/land", http.StatusTemporaryRedirect)
			return
		}
		land(w, r)
	})
	for kind, c := range authKinds {
		for path, shown := range map[string][]bool{"/land": {true}, "/here": {true, true}, "/there": {true, false}, "/back": {true, false, false}} {
			t.Run(kind+path, func(t *testing.T) {
				h := newHTTP(t, HTTPConfig{})
				res := h.Run(t.Context(), withAuth(home.URL+path, c.auth))
				if res.Outcome != schema.Succeeded || strings.Contains(string(res.Output)+res.Error, "s3cret") {
					t.Errorf("Run: got %+v, output %s; want a success without the secret", res, res.Output)
				}
				for hop, want := range shown {
					got := <-seen
					if c.want(got) != want {
						t.Errorf("hop %d has the headers %v, want that it shows who calls: %t", hop, got, want)
					}
					if text := fmt.Sprint(got); !want && (strings.Contains(text, "s3cret") || strings.Contains(text, "AWS4") || strings.Contains(text, "Basic")) {
						t.Errorf("hop %d has the headers %v, want nothing of who calls", hop, got)
					}
				}
			})
		}
	}
}

// A call that cannot be made is not made, and can be made once the secret is there.
func TestHTTPThatCannotShowWhoCalls(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the target was called") })
	h := newHTTP(t, HTTPConfig{})
	for kind, c := range authKinds {
		for name, values := range map[string]auth.Values{"none": nil, "of two lines": {"s": {[]byte(secretText + "\nX: y")}}} {
			if kind == "basic" && name != "none" {
				continue // a password may have any byte
			}
			call := withAuth(s.URL, c.auth)
			call.Values = values
			res := h.Run(t.Context(), call)
			if res.Outcome != schema.Failed || res.Final || !res.Uncalled || res.Health() != UnknownHealth || !strings.HasPrefix(res.Error, "not called: ") || strings.Contains(res.Error, "s3cret") {
				t.Errorf("%s, %s: Run: got %+v, want a failure that may be mended", kind, name, res)
			}
		}
	}
}

// What is cut of an output ends in no half of a secret, and a host that a callee names is no way
// out for one either.
func TestHTTPKeepsSecretsOutOfWhatIsCutAndSaid(t *testing.T) {
	padding := strings.Repeat("x", 90)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cut":
			_, _ = io.WriteString(w, padding+secretText+padding)
		case "/host":
			w.Header().Set("Location", "http://s3cret-s3cret.invalid./")
			w.WriteHeader(http.StatusFound)
		}
	})
	n := &names{answers: map[string][][]string{}}
	for most := len(padding) + 1; most < len(padding)+len(secretText)+3; most++ {
		h := newHTTP(t, HTTPConfig{MaxOutput: most})
		res := h.Run(t.Context(), withAuth(s.URL+"/cut", authKinds["bearer"].auth))
		want := padding
		if most >= len(padding)+len(secretText) {
			want += "…" + padding[:most-len(padding)-len(secretText)]
		}
		if string(res.Output) != want || !res.OutputCut {
			t.Errorf("an output of at most %d bytes: got %q, want %q", most, res.Output, want)
		}
	}
	h := newHTTP(t, HTTPConfig{resolver: n.resolver()})
	call := withAuth(s.URL+"/host", authKinds["bearer"].auth)
	call.Values = auth.Values{"s": {[]byte("s3cret-s3cret")}}
	if res := h.Run(t.Context(), call); res.Outcome != schema.Failed || res.Error == "" || strings.Contains(res.Error, "s3cret") {
		t.Errorf("Run that is redirected to a host of the secret's name: got %+v", res)
	}
}

// authority issues certificates of a test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := new(authority)
	_, _, a.certificate, a.key = a.issue(t, "authority")
	return a
}

// issue makes a certificate of a name and its key, as PEM and otherwise; without an authority it
// makes one.
func (a *authority) issue(t *testing.T, name string) (certificate, key string, parsed *x509.Certificate, private *ecdsa.PrivateKey) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: a.key == nil, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	parent, signer := a.certificate, a.key
	if signer == nil {
		parent, signer = template, private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, private.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	if parsed, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})), parsed, private
}

// A certificate is shown to a callee that asks for it, over a connection of its own: another task's
// is not used for it, nor its for another's.
func TestHTTPShowsItsCertificate(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	seen := make(chan string, 1)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := "nobody"
		if len(r.TLS.PeerCertificates) > 0 {
			name = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		if r.URL.Path == "/there" {
			http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusTemporaryRedirect)
			return
		}
		seen <- name
	})
	start := func(require tls.ClientAuthType) *httptest.Server {
		s := httptest.NewUnstartedServer(handler)
		serverCertificate, serverKey, _, _ := ours.issue(t, "server")
		pair, err := tls.X509KeyPair([]byte(serverCertificate), []byte(serverKey))
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AddCert(ours.certificate)
		s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: require, ClientCAs: pool}
		s.EnableHTTP2 = true
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	strict, open := start(tls.RequireAndVerifyClientCert), start(tls.VerifyClientCertIfGiven)
	pool := x509.NewCertPool()
	pool.AddCert(ours.certificate)
	h := newHTTP(t, HTTPConfig{tls: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}})
	asPEM := func(a *authority) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
	}
	identityOf := func(a *authority, name string) auth.Values {
		certificate, key, _, _ := a.issue(t, name)
		return auth.Values{"c": {[]byte(certificate)}, "k": {[]byte(key)}, "ours": {asPEM(ours)}, "theirs": {asPEM(theirs)}}
	}
	one, two, foreign := identityOf(ours, "one"), identityOf(ours, "two"), identityOf(theirs, "foreign")
	mixed := auth.Values{"c": one["c"], "k": two["k"]}
	for _, c := range []struct {
		name   string
		url    string
		values auth.Values // nil: it shows no certificate
		ca     string
		want   string // who called; "": the call failed
		error  string // "": whichever says it first, the alert or the end of the connection
	}{
		{"one", strict.URL, one, "", "one", ""},
		{"another", strict.URL, two, "", "two", ""},
		{"the first again", strict.URL, one, "", "one", ""},
		{"none where one is asked for", strict.URL, nil, "", "", ""},
		{"of another authority", strict.URL, foreign, "", "", ""},
		{"none", open.URL, nil, "", "nobody", ""},
		{"one where none is asked for", open.URL, one, "", "one", ""},
		{"a callee of its own authority", strict.URL, one, "ours", "one", ""},
		{"a callee of another authority", strict.URL, one, "theirs", "", "the certificate is signed by an unknown authority"},
		{"redirected elsewhere", strict.URL + "/there?to=" + open.URL, one, "", "nobody", ""},
		{"no pair", strict.URL, mixed, "", "", "not called: the secrets c and k are not a certificate and its private key, as PEM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := callTo(c.url)
			if c.values != nil {
				call.Work.HTTP.Auth, call.Values = &schema.HTTPAuth{MTLS: &schema.MTLSAuth{CertificateSecret: "c", KeySecret: "k", CASecret: c.ca}}, c.values
			}
			res := h.Run(t.Context(), call)
			if c.want == "" {
				if res.Outcome != schema.Failed || res.Final || res.Error == "" || c.error != "" && res.Error != c.error {
					t.Errorf("Run: got %+v, want a failure of %q", res, c.error)
				}
				return
			}
			if res.Outcome != schema.Succeeded {
				t.Fatalf("Run: got %+v, want a success", res)
			}
			if got := <-seen; got != c.want {
				t.Errorf("called by %s, want %s", got, c.want)
			}
		})
	}
}

// However many certificates calls show, connections are kept for a bounded number of them.
func TestHTTPBoundsTheIdentitiesThatItKeeps(t *testing.T) {
	h := newHTTP(t, HTTPConfig{})
	a := newAuthority(t)
	var first auth.Values
	for i := range maxIdentities + 5 {
		certificate, key, _, _ := a.issue(t, fmt.Sprint("n", i))
		v := auth.Values{"c": {[]byte(certificate)}, "k": {[]byte(key)}}
		if first == nil {
			first = v
		}
		mtls := &schema.MTLSAuth{CertificateSecret: "c", KeySecret: "k"}
		if _, err := h.identities.of(mtls, v); err != nil {
			t.Fatal(err)
		}
		if _, err := h.identities.of(mtls, first); err != nil { // the one that is used is kept
			t.Fatal(err)
		}
	}
	if n := h.identities.used.Len(); n != maxIdentities || len(h.identities.byKey) != n {
		t.Errorf("%d and %d identities are kept, want %d", n, len(h.identities.byKey), maxIdentities)
	}
	if _, kept := h.identities.byKey[auth.KeyOfIdentity(&schema.MTLSAuth{CertificateSecret: "c", KeySecret: "k"}, first)]; !kept {
		t.Error("the identity that was used last is not kept")
	}
}

// A member of the body that is a secret goes to the task's own origin alone, and what is signed is
// what is sent.
func TestHTTPSendsAFieldOfTheBodyToTheTasksOriginAlone(t *testing.T) {
	type got struct {
		method, body string
		signed       bool
	}
	signingKey, seen := webhook.NewSecret(), make(chan got, 10)
	note := func(r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		v, err := webhook.NewVerifier(webhook.FormatSecret(signingKey))
		if err != nil {
			t.Error(err)
		}
		seen <- got{r.Method, string(body), v.Verify(r.Header, body) == nil}
	}
	var elsewhere *httptest.Server
	home := serve(t, nil)
	home.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(r)
		switch r.URL.Path {
		case "/here":
			http.Redirect(w, r, "/land", http.StatusPermanentRedirect)
		case "/get":
			http.Redirect(w, r, "/land", http.StatusSeeOther)
		case "/there":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		default:
			_, _ = fmt.Fprintf(w, "%q", secretText)
		}
	})
	elsewhere = serve(t, func(_ http.ResponseWriter, r *http.Request) { note(r) })
	const bare, full = `{"a":1,"key":"x"}`, `{"a":1,"key":"` + secretText + `"}`
	for path, want := range map[string][]got{
		"/land":  {{"POST", full, true}},
		"/here":  {{"POST", full, true}, {"POST", full, true}},
		"/get":   {{"POST", full, true}, {"GET", "", true}},
		"/there": {{"POST", full, true}, {"POST", bare, true}},
	} {
		t.Run(path, func(t *testing.T) {
			c := withAuth(home.URL+path, schema.HTTPAuth{Field: &schema.BodyFieldAuth{Name: "key", Secret: "s"}})
			c.Payload, c.Secrets = []byte(bare), [][]byte{signingKey}
			res := newHTTP(t, HTTPConfig{}).Run(t.Context(), c)
			if res.Outcome != schema.Succeeded || strings.Contains(string(res.Output), "s3cret") {
				t.Errorf("Run = %+v, output %s; want a success without the secret", res, res.Output)
			}
			for i, want := range want {
				if got := <-seen; got != want {
					t.Errorf("hop %d = %+v, want %+v", i, got, want)
				}
			}
		})
	}
	for _, payload := range []string{"", "[]", "null", `"x"`} {
		c := withAuth(home.URL+"/land", schema.HTTPAuth{Field: &schema.BodyFieldAuth{Name: "key", Secret: "s"}})
		c.Payload = []byte(payload)
		if res := newHTTP(t, HTTPConfig{}).Run(t.Context(), c); res.Outcome != schema.Failed || res.Final || !res.Uncalled || !strings.Contains(res.Error, "no JSON object") {
			t.Errorf("Run with the body %q = %+v, want that it is not called", payload, res)
		}
	}
}

// A URL that lies in a secret is called, and nothing that is written down says it.
func TestHTTPCallsTheURLInASecret(t *testing.T) {
	const path = "/services/T0/s3cret"
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprintf(w, "nothing at %s for %s", r.URL.Path, r.Header.Get("X-Api-Key"))
	})
	h := newHTTP(t, HTTPConfig{})
	call := callTo("")
	call.Work.HTTP.URLSecret, call.Values = "url", auth.Values{"url": {[]byte(s.URL + path + "\n")}, "s": {[]byte(secretText)}}
	for name, a := range map[string]*schema.HTTPAuth{"alone": nil, "with auth": {Header: &schema.HeaderAuth{Name: "x-api-key", Secret: "s"}}} {
		call.Work.HTTP.Auth = a
		res := h.Run(t.Context(), call)
		if res.Status != http.StatusNotFound || !strings.HasPrefix(string(res.Output), "nothing at …") || strings.Contains(string(res.Output)+res.Error, "s3cret") {
			t.Errorf("%s: Run: got %+v, output %s; want the answer without the secret", name, res, res.Output)
		}
	}
	s.Close()
	if res := h.Run(t.Context(), call); res.Outcome != schema.Failed || res.Final || strings.Contains(res.Error, "s3cret") {
		t.Errorf("a callee that is gone: Run: got %+v, want a failure without the secret", res)
	}
	for name, values := range map[string]auth.Values{"none": nil, "no URL": {"url": {[]byte("s3cret")}}} {
		call.Values, call.Work.HTTP.Auth = values, nil
		if res := h.Run(t.Context(), call); res.Final || !res.Uncalled || !strings.HasPrefix(res.Error, "not called: ") || strings.Contains(res.Error, "s3cret") {
			t.Errorf("%s: Run: got %+v, want a failure that may be mended", name, res)
		}
	}
}
