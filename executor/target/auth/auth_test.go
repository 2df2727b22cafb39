package auth

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"carillon.dev/carillon/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "s3cret-s3cret"

func valuesOf(texts ...string) [][]byte {
	var all [][]byte
	for _, text := range texts {
		all = append(all, []byte(text))
	}
	return all
}

func TestValuesPrintAsNothingOfThem(t *testing.T) {
	v := Values{"a": valuesOf(secret)}
	inJSON, err := json.Marshal(struct{ V Values }{v})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprint(v), fmt.Sprintf("%v %+v %#v %s %q %x %d", v, v, v, v, v, v, v), fmt.Sprintf("%+v", struct{ V Values }{v}), string(inJSON), fmt.Sprintf("%v", []Values{v}),
	} {
		if strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret)) || strings.Contains(text, fmt.Sprint([]byte(secret))) || !strings.Contains(text, "1 secrets") {
			t.Errorf("values print as %s", text)
		}
	}
}

func TestHeader(t *testing.T) {
	v := Values{"s": valuesOf(secret, "older"), "lines": valuesOf(secret + "\nX-Evil: x"), "space": valuesOf(secret + " "), "umlaut": valuesOf("pässword")}
	for name, c := range map[string]struct {
		auth       schema.HTTPAuth
		name, want string
		fault      string
	}{
		"bearer":           {schema.HTTPAuth{Bearer: &schema.BearerAuth{Secret: "s"}}, "Authorization", "Bearer " + secret, ""},
		"basic":            {schema.HTTPAuth{Basic: &schema.BasicAuth{Username: "ü", Secret: "s"}}, "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("ü:"+secret)), ""},
		"a password":       {schema.HTTPAuth{Basic: &schema.BasicAuth{Username: "u", Secret: "lines"}}, "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("u:"+secret+"\nX-Evil: x")), ""},
		"header":           {schema.HTTPAuth{Header: &schema.HeaderAuth{Name: "X-Key", Secret: "s"}}, "X-Key", secret, ""},
		"another script":   {schema.HTTPAuth{Header: &schema.HeaderAuth{Name: "X-Key", Secret: "umlaut"}}, "X-Key", "pässword", ""},
		"others":           {schema.HTTPAuth{SigV4: &schema.SigV4Auth{Secret: "s"}}, "", "", ""},
		"it is missing":    {schema.HTTPAuth{Bearer: &schema.BearerAuth{Secret: "none"}}, "", "", "there is no secret none"},
		"it has two lines": {schema.HTTPAuth{Bearer: &schema.BearerAuth{Secret: "lines"}}, "", "", "the secret lines cannot be sent in a header"},
		"it ends in space": {schema.HTTPAuth{Header: &schema.HeaderAuth{Name: "X-Key", Secret: "space"}}, "", "", "the secret space cannot be sent in a header"},
	} {
		gotName, got, err := Header(&c.auth, v)
		wantFault(t, name, err, c.fault)
		if gotName != c.name || got != c.want {
			t.Errorf("%s: Header = %q: %q, want %q: %q", name, gotName, got, c.name, c.want)
		}
	}
}

// wantFault checks that err is a fault that begins so; "" is none.
func wantFault(t *testing.T, name string, err error, want string) {
	t.Helper()
	var fault *Fault
	ok := errors.As(err, &fault)
	switch {
	case want == "" && err == nil:
	case !ok || want == "" || !strings.HasPrefix(fault.Error(), want):
		t.Errorf("%s: got the error %v, want the fault %q", name, err, want)
	case strings.Contains(err.Error(), secret):
		t.Errorf("%s: the fault %v holds the secret", name, err)
	}
}

func TestCredentials(t *testing.T) {
	const right = `{"access_key_id":"AKIA","secret_access_key":"` + secret + `"}`
	for name, c := range map[string]struct {
		text  string
		fault string
	}{
		"right":              {right, ""},
		"temporary":          {`{"access_key_id":"AKIA","secret_access_key":"` + secret + `","session_token":"` + secret + `"}`, ""},
		"no JSON":            {secret, "the secret s does not hold credentials"},
		"half":               {right[:len(right)-1], "the secret s does not hold credentials"},
		"another follows":    {right + right, "the secret s does not hold credentials"},
		"no id":              {`{"secret_access_key":"` + secret + `"}`, "the secret s does not hold credentials"},
		"no key":             {`{"access_key_id":"AKIA"}`, "the secret s does not hold credentials"},
		"AWS's own names":    {`{"AccessKeyId":"AKIA","SecretAccessKey":"` + secret + `"}`, "the secret s does not hold credentials"},
		"a key of two lines": {`{"access_key_id":"AKIA","secret_access_key":"` + secret + `\n"}`, "the secret s does not hold credentials"},
		"a number":           {`{"access_key_id":7,"secret_access_key":"` + secret + `"}`, "the secret s does not hold credentials"},
	} {
		got, err := Credentials("s", Values{"s": valuesOf(c.text)})
		wantFault(t, name, err, c.fault)
		if c.fault == "" && (got.AccessKeyID != "AKIA" || got.SecretAccessKey != secret || (got.SessionToken == secret) != (name == "temporary")) {
			t.Errorf("%s: Credentials = %+v", name, got)
		}
	}
	_, err := Credentials("none", Values{})
	wantFault(t, "missing", err, "there is no secret none")
}

// What a signature covers is what nobody on the way changes: host, type and AWS's headers. moto
// says whether it is right (executor/target).
func TestSignCoversWhatStays(t *testing.T) {
	request := func() *http.Request {
		r, err := http.NewRequest(http.MethodPost, "https://sqs.test/q?b=2&a=1", bytes.NewReader([]byte("x")))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{
			"Content-Type": {"application/json"}, "X-Amz-Target": {"AmazonSQS.SendMessage"}, "Traceparent": {"t"}, "Carillon-Run-Id": {"r"}, "idempotency-key": {"k"},
			"Authorization": {"of a hop before"}, "X-Amz-Security-Token": {"of a hop before"},
		}
		return r
	}
	a := &schema.SigV4Auth{Region: "eu-central-1", Service: "sqs", AccessKeyID: "AKIAIOSFODNN7EXAMPLE", Secret: "s"}
	v := Values{"s": valuesOf(secret), "t": valuesOf("token-s3cret"), "lines": valuesOf("a\nb")}
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	r := request()
	if err := Sign(r, []byte("x"), a, v, now); err != nil {
		t.Fatal(err)
	}
	got := r.Header.Get("Authorization")
	for _, want := range []string{
		"AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/eu-central-1/sqs/aws4_request, SignedHeaders=", "content-type;host;x-amz-content-sha256;x-amz-date;x-amz-target, Signature=",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("Authorization is %q, want %q in it", got, want)
		}
	}
	if strings.Contains(got, secret) || strings.Contains(got, "traceparent") || r.Header.Get("X-Amz-Security-Token") != "" || r.Header.Get("X-Amz-Date") != "20261121T093000Z" {
		t.Errorf("the headers are %v", r.Header)
	}
	b := *a
	b.SessionTokenSecret = "t"
	r = request()
	if err := Sign(r, []byte("x"), &b, v, now); err != nil || r.Header.Get("X-Amz-Security-Token") != "token-s3cret" || !strings.Contains(r.Header.Get("Authorization"), "x-amz-security-token;") {
		t.Errorf("with a session token the headers are %v, %v", r.Header, err)
	}
	for of, fault := range map[string]string{"none": "there is no secret none", "lines": "the secret lines cannot be sent"} {
		b := *a
		b.Secret = of
		wantFault(t, of, Sign(request(), nil, &b, v, now), fault)
		b = *a
		b.SessionTokenSecret = of
		wantFault(t, of, Sign(request(), nil, &b, v, now), fault)
	}
}

// pairOf makes a certificate and its key, as PEM.
func pairOf(t *testing.T, name string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

// A certificate and its key are put one after the other: in between, the pair before goes on.
func TestConfigureTakesTheNewestPair(t *testing.T) {
	var certificates, keys [3]string
	for i := range certificates {
		certificates[i], keys[i] = pairOf(t, fmt.Sprint("n", i))
	}
	a := &schema.MTLSAuth{CertificateSecret: "c", KeySecret: "k"}
	for name, c := range map[string]struct {
		certificates, keys [][]byte
		want               string // whose certificate is shown
		fault              string
	}{
		"both":               {valuesOf(certificates[1], certificates[0]), valuesOf(keys[1], keys[0]), "n1", ""},
		"one":                {valuesOf(certificates[0]), valuesOf(keys[0]), "n0", ""},
		"a new certificate":  {valuesOf(certificates[1], certificates[0]), valuesOf(keys[0]), "n0", ""},
		"a new key":          {valuesOf(certificates[0]), valuesOf(keys[1], keys[0]), "n0", ""},
		"of three":           {valuesOf(certificates[2], certificates[1], certificates[0]), valuesOf(keys[1], keys[0]), "n1", ""},
		"no pair":            {valuesOf(certificates[1]), valuesOf(keys[0]), "", "the secrets c and k are not a certificate and its private key"},
		"each for the other": {valuesOf(keys[0]), valuesOf(certificates[0]), "", "the secrets c and k are not a certificate and its private key"},
		"no PEM":             {valuesOf(secret), valuesOf(secret), "", "the secrets c and k are not a certificate and its private key"},
		"no certificate":     {nil, valuesOf(keys[0]), "", "there is no secret c"},
		"no key":             {valuesOf(certificates[0]), nil, "", "there is no secret k"},
	} {
		to := new(tls.Config)
		err := Configure(to, a, Values{"c": c.certificates, "k": c.keys})
		wantFault(t, name, err, c.fault)
		if c.want == "" {
			continue
		}
		if len(to.Certificates) != 1 || to.Certificates[0].Leaf.DNSNames[0] != c.want || to.RootCAs != nil {
			t.Errorf("%s: %d certificates, want that of %s", name, len(to.Certificates), c.want)
		}
	}
	b := *a
	b.CASecret = "ca"
	for text, fault := range map[string]string{certificates[2]: "", secret: "the secret ca holds no certificate", "": "there is no secret ca"} {
		v := Values{"c": valuesOf(certificates[0]), "k": valuesOf(keys[0]), "ca": valuesOf(text)}
		if text == "" {
			delete(v, "ca")
		}
		to := new(tls.Config)
		wantFault(t, "authorities", Configure(to, &b, v), fault)
		if (to.RootCAs == nil) != (fault != "") {
			t.Errorf("authorities of %d bytes: %v", len(text), to.RootCAs)
		}
	}
}

// A key of an identity says all that it is made of, and none of it.
func TestKeyOfIdentity(t *testing.T) {
	a := &schema.MTLSAuth{CertificateSecret: "c", KeySecret: "k", CASecret: "ca"}
	seen := make(map[IdentityKey]string)
	for name, v := range map[string]Values{
		"one": {"c": valuesOf("1"), "k": valuesOf("2"), "ca": valuesOf("3")}, "another key": {"c": valuesOf("1"), "k": valuesOf("4"), "ca": valuesOf("3")},
		"an older one": {"c": valuesOf("1"), "k": valuesOf("2", "4"), "ca": valuesOf("3")}, "shifted": {"c": valuesOf("12"), "k": valuesOf(""), "ca": valuesOf("3")},
		"regrouped": {"c": valuesOf("1", "2"), "k": nil, "ca": valuesOf("3")}, "no authority": {"c": valuesOf("1"), "k": valuesOf("2")},
	} {
		key := KeyOfIdentity(a, v)
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s have the same key", name, other)
		}
		if seen[key] = name; key != KeyOfIdentity(a, v) {
			t.Errorf("%s has two keys", name)
		}
	}
}

func TestRedactorTakesSecretsOut(t *testing.T) {
	r := NewRedactor(Values{"a": valuesOf(secret, "old-s3cret"), "quoted": valuesOf(`a"b\c<d`), "short": valuesOf("abc")})
	for name, c := range map[string]struct {
		text, want string
		cut        bool
	}{
		"nothing":              {"an answer", "an answer", false},
		"it":                   {"x" + secret + "y" + secret, "x…y…", false},
		"an older one":         {"xold-s3crety", "x…y", false},
		"as JSON":              {`{"a":"a\"b\\c<d"}`, `{"a":"…"}`, false},
		"as JSON for HTML":     {`{"a":"a\"b\\c\u003cd"}`, `{"a":"…"}`, false},
		"in a query":           {"?x=a%22b%5Cc%3Cd&", "?x=…&", false},
		"in base64":            {base64.StdEncoding.EncodeToString([]byte(secret)), "…==", false},
		"too short":            {"abcabc", "abcabc", false},
		"cut within it":        {"x" + secret[:5], "x", true},
		"not cut":              {"x" + secret[:5], "x" + secret[:5], false},
		"cut after it":         {"x" + secret, "x…", true},
		"cut, nothing of it":   {"an answer", "an answer", true},
		"cut within the first": {"x" + secret + secret[:1], "x…", true},
	} {
		if got := string(r.Bytes([]byte(c.text), c.cut)); got != c.want {
			t.Errorf("%s: Bytes(%q, %t) = %q, want %q", name, c.text, c.cut, got, c.want)
		}
		if got := r.Text(c.text); !c.cut && got != c.want {
			t.Errorf("%s: Text(%q) = %q, want %q", name, c.text, got, c.want)
		}
	}
	var none *Redactor
	if none.Text(secret) != secret || string(none.Bytes([]byte(secret), true)) != secret || NewRedactor(nil) != nil {
		t.Error("a Redactor of nothing takes something out")
	}
}

// Wherever a text is cut, nothing of a secret is left, not even of one that the cut goes through.
func TestRedactorLeavesNoSecretInAnyCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hidden := rapid.StringMatching(`[a-e"\\<&/ü]{4,12}`).Draw(t, "secret")
		r := NewRedactor(Values{"a": valuesOf(hidden)})
		var b strings.Builder
		for range rapid.IntRange(0, 5).Draw(t, "parts") {
			b.WriteString(rapid.SampledFrom([]string{"-", "x y", hidden, hidden[:len(hidden)/2], `"` + hidden + `"`}).Draw(t, "part"))
		}
		text := b.String()
		at := rapid.IntRange(0, len(text)).Draw(t, "cut")
		got := string(r.Bytes([]byte(text[:at]), true))
		if strings.Contains(got, hidden) || len(got) > at {
			t.Fatalf("%q cut to %q has %q left", text, text[:at], got)
		}
		for p := 0; ; {
			next := strings.Index(text[p:], hidden)
			if next < 0 || p+next >= at {
				break
			}
			begin := p + next
			if p = begin + len(hidden); p <= at {
				continue
			}
			if most := len(r.Bytes([]byte(text[:begin]), false)); len(got) > most {
				t.Fatalf("%q cut to %q has %q left, want nothing of the secret that was cut", text, text[:at], got)
			}
		}
	})
}
