package node

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

// echoes answers with all that it was sent, and fails the run.
func echoes(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusInternalServerError)
	_ = r.Header.Write(w)
	_, _ = io.Copy(w, r.Body)
}

// secretWork is work of every kind that needs secrets.
func secretWork(plain, secure, token string) map[string]schema.Work {
	call := func(url string, a schema.HTTPAuth) schema.Work {
		return schema.Work{HTTP: &schema.HTTPTarget{URL: url, Auth: &a}}
	}
	return map[string]schema.Work{
		"bearer":     call(plain, schema.HTTPAuth{Bearer: &schema.BearerAuth{Secret: "text"}}),
		"basic":      call(plain, schema.HTTPAuth{Basic: &schema.BasicAuth{Username: "usr", Secret: "text"}}), // the password lies on a border of base64
		"body_field": call(plain, schema.HTTPAuth{Field: &schema.BodyFieldAuth{Name: "key", Secret: "text"}}),
		"header":     call(plain, schema.HTTPAuth{Header: &schema.HeaderAuth{Name: "X-Api-Key", Secret: "text"}}),
		"oauth2":     call(plain, schema.HTTPAuth{OAuth2: &schema.ClientCredentials{TokenURL: token, ClientID: "c", Secret: "text"}}),
		"a token that is refused": call(plain, schema.HTTPAuth{OAuth2: &schema.ClientCredentials{
			TokenURL: plain, ClientID: "c", Secret: "text",
		}}),
		"sigv4": call(plain, schema.HTTPAuth{SigV4: &schema.SigV4Auth{
			Region: "eu-central-1", Service: "sqs", AccessKeyID: "AKIAIOSFODNN7EXAMPLE", Secret: "text", SessionTokenSecret: "text",
		}}),
		"mtls":    call(secure, schema.HTTPAuth{MTLS: &schema.MTLSAuth{CertificateSecret: "certificate", KeySecret: "key", CASecret: "ca"}}),
		"no pair": call(secure, schema.HTTPAuth{MTLS: &schema.MTLSAuth{CertificateSecret: "text", KeySecret: "key"}}),
		"lambda": {Lambda: &schema.LambdaTarget{
			Function: "f", Region: "eu-central-1", Credentials: "aws", Endpoint: plain,
		}},
		"no credentials": {Lambda: &schema.LambdaTarget{Function: "f", Region: "eu-central-1", Credentials: "text", Endpoint: plain}},
	}
}

// A secret is put and never seen again: nothing that a node answers, logs or stores contains it, not
// even where calls fail and callees say back what they were sent. The same holds for tokens that
// were had with it, and for the operator's keys.
func TestSecretIsInNothingThatANodeSaysOrWrites(t *testing.T) {
	dir, log := t.TempDir(), &pages{}
	seal, other := bytes.Repeat([]byte("seal"), 8), bytes.Repeat([]byte("moon"), 8)
	begin := func(name string, key []byte) *running {
		keyed := func(c *config.Config) {
			c.Secrets.Keys = []string{name + ":" + base64.StdEncoding.EncodeToString(key)}
		}
		cfg := config.Default()
		cfg.Node.Name = "dev"
		keyed(&cfg)
		l := slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		return startWith(t, "dev", Embedded(cfg, Place{Dir: dir}, "test", l, prometheus.NewRegistry()), l, keyed).up()
	}
	r := begin("k1", seal)
	plain := sink(t, echoes)
	secure := httptest.NewUnstartedServer(http.HandlerFunc(echoes))
	secure.Config.ErrorLog = discarded()
	secure.StartTLS()
	t.Cleanup(secure.Close)
	const text, before, access, token = `vault "s3cret" <+/&> text`, "vault-s3cret-before", "vault+s3cret/access+key", "vault.s3cret.token"
	tokens := sink(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"`+token+`","expires_in":3600}`)
	})
	certificate, key := clientCertificate(t)
	hidden := map[string][]byte{
		"the value": []byte(text), "the value before": []byte(before), "the secret access key": []byte(access), "a token": []byte(token), "the private key": []byte(key),
		"the operator's key": seal, "the operator's other key": other,
	}
	search := func(what string, said []byte) {
		t.Helper()
		for name, secret := range hidden {
			if form := formOf(secret, said); form != "" {
				t.Errorf("%s holds %s, %s\n%.2000s", what, name, form, said)
			}
		}
	}
	for name, value := range map[string]string{
		"text": before, "certificate": certificate, "key": key, "aws": `{"access_key_id":"AKIAIOSFODNN7EXAMPLE","secret_access_key":"` + access + `","session_token":"` + token + `"}`,
		"ca": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})),
	} {
		if _, err := r.client().PutSecret(t.Context(), name, request.SecretRequest{Value: value}); err != nil {
			t.Fatalf("PutSecret(%s) = %v", name, err)
		}
	}
	if s, err := r.client().PutSecret(t.Context(), "text", request.SecretRequest{Value: text}); err != nil || len(s.Versions) != 2 {
		t.Fatalf("PutSecret of another value = %+v, %v; want two versions", s, err)
	}

	const canary = "canary-in-the-payload" // what is certainly stored: where it is not found nothing would be
	// fail has a run fail, and reads all that is said of it.
	fail := func(name string, work schema.Work) httpapi.DeadLetter {
		t.Helper()
		work.Retry = &schema.Retry{MaxAttempts: 1}
		task := "t" + uuid.NewString()
		if _, err := r.client().PutTask(t.Context(), task, request.TaskRequest{Work: work}); err != nil {
			t.Fatalf("%s: PutTask = %v", name, err)
		}
		job, err := r.client().CreateJob(t.Context(), request.JobRequest{Key: uuid.NewString(), Task: task, Payload: json.RawMessage(`{"said":"` + canary + `"}`)})
		if err != nil {
			t.Fatalf("%s: CreateJob = %v", name, err)
		}
		l := r.letter(schema.RunID(job.ID))
		id := "/" + job.ID.String()
		for _, path := range []string{
			"/metrics", "/readyz", "/v1/secrets", "/v1/secrets/text", "/v1/audit", "/v1/cluster", "/v1/stats", "/v1/targets", "/v1/dead-letters", "/v1/tasks", "/v1/tasks/" + task,
			"/v1/jobs" + id, "/v1/runs" + id, "/v1/runs" + id + "/output", "/v1/runs" + id + "/logs", "/v1/logs", "/v1/dead-letters" + id,
		} {
			status, body := get(t, r.url+path)
			if status != http.StatusOK && name+path != "deleted/v1/secrets/text" {
				t.Errorf("%s: GET %s answers %d\n%s", name, path, status, body)
			}
			search(name+": GET "+path, []byte(body))
		}
		return l
	}
	work := secretWork(plain, secure.URL, tokens)
	want := map[string]string{ // in the error, where no call is made
		"a token that is refused": "not called: the token endpoint answered 500", "no pair": "not called: the secrets text and key are not", "no credentials": "not called: the secret text does not hold",
	}
	for name, w := range work {
		l := fail(name, w)
		switch {
		case want[name] == "" && (l.StatusCode != http.StatusInternalServerError || !strings.Contains(l.Output, canary) && name != "lambda"):
			t.Errorf("%s leaves %+v, want that it was called, and what came back", name, l)
		case !strings.Contains(l.Error, want[name]):
			t.Errorf("%s leaves the error %q, want %q", name, l.Error, want[name])
		}
	}
	for _, name := range []string{"bearer", "basic", "header", "body_field"} { // so that this is more than silence
		if l := fail(name, work[name]); !strings.Contains(l.Output, "…") {
			t.Errorf("%s leaves the output %q, want what was said back, without the secret", name, l.Output)
		}
	}
	once := r.clientOf(httpapi.ClientConfig{Retries: -1})
	for what, do := range map[string]func() error{
		"too long": func() error {
			_, err := once.PutSecret(t.Context(), "x", request.SecretRequest{Value: strings.Repeat(text, 5000)})
			return err
		},
		"a bad name": func() error {
			_, err := once.PutSecret(t.Context(), "X", request.SecretRequest{Value: text})
			return err
		},
		"a value for a name": func() error {
			_, err := once.PutTask(t.Context(), "x", request.TaskRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: plain, Auth: &schema.HTTPAuth{Bearer: &schema.BearerAuth{Secret: text}}}}})
			return err
		},
	} {
		err := do()
		if err == nil {
			t.Fatalf("%s: nil, want an error", what)
		}
		search(what, fmt.Appendf(nil, "%v %+v", err, err))
	}
	searchFolder(t, dir, canary, search) // as it is while the node runs
	r.stop()
	searchFolder(t, dir, canary, search)

	r = begin("k2", other) // by which what is sealed does not open
	if l := fail("sealed", work["bearer"]); !strings.Contains(l.Error, "the secret text cannot be opened") {
		t.Errorf("a call whose secret cannot be opened fails with %q, want that it says so", l.Error)
	}
	if err := r.client().DeleteSecret(t.Context(), "text"); err != nil {
		t.Errorf("DeleteSecret = %v", err)
	}
	if l := fail("deleted", work["header"]); !strings.Contains(l.Error, "there is no secret text") {
		t.Errorf("a call whose secret was deleted fails with %q, want that it says so", l.Error)
	}
	var acts []string
	for a, err := range r.client().Audit(t.Context(), httpapi.AuditQuery{Object: "secret/text"}) {
		if err != nil {
			t.Fatal(err)
		}
		acts = append(acts, a.Action)
	}
	slices.Sort(acts)
	if len(slices.Compact(acts)) < 3 || !slices.Contains(acts, "use") || !slices.Contains(acts, "create") || !slices.Contains(acts, "update") {
		t.Errorf("the audit log has %q of the secret, want its making, its changes and its uses", acts)
	}
	r.stop()
	searchFolder(t, dir, canary, search)
	said := log.text()
	if !bytes.Contains(said, []byte(`"level":"DEBUG"`)) || !bytes.Contains(said, []byte("a secret cannot be opened")) {
		t.Errorf("the log lacks what is known to be logged:\n%s", said)
	}
	search("the log", said)
}

// What a tenant puts serves its calls, from within 10 s at the latest, and what it puts next.
func TestSecretServesCallsAndIsReplaced(t *testing.T) {
	seen := make(chan string, 10)
	url := sink(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Authorization") })
	keyed := func(c *config.Config) {
		c.Secrets.Keys = []string{"k1:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))}
	}
	cfg := config.Default()
	cfg.Node.Name = "dev"
	keyed(&cfg)
	l := slog.New(slog.DiscardHandler)
	r := startWith(t, "dev", Embedded(cfg, Place{Dir: t.TempDir()}, "test", l, prometheus.NewRegistry()), l, keyed).up()
	job := request.JobRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: url, Auth: &schema.HTTPAuth{Bearer: &schema.BearerAuth{Secret: "tok"}}}}}
	job.Retry = &schema.Retry{MaxAttempts: 100, Initial: schema.Duration(50 * time.Millisecond), Factor: 1, Jitter: "none"}
	call := func() string {
		t.Helper()
		job.Key = uuid.NewString()
		if _, err := r.client().CreateJob(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-seen:
			return got
		case <-time.After(patience):
			t.Fatal("no call")
			return ""
		}
	}
	job.Key = uuid.NewString() // before there is one: the run waits for it, attempt by attempt
	if _, err := r.client().CreateJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"first", "second"} {
		if _, err := r.client().PutSecret(t.Context(), "tok", request.SecretRequest{Value: value}); err != nil {
			t.Fatal(err)
		}
		if value == "first" {
			if got := <-seen; got != "Bearer first" {
				t.Errorf("the run that waited is called with %q", got)
			}
		}
		if got := call(); got != "Bearer "+value {
			t.Errorf("called with %q, want Bearer %s", got, value)
		}
	}
	await(t, "the last use is noted", func() bool {
		for s, err := range r.client().Secrets(t.Context()) {
			if err == nil && s.Name == "tok" && !s.LastUsedAt.IsZero() {
				return true
			}
		}
		return false
	})
	r.stop()
}

// clientCertificate makes a certificate and its key, as PEM.
func clientCertificate(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, cerr := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	keyDER, kerr := x509.MarshalPKCS8PrivateKey(private)
	if err := errors.Join(err, cerr, kerr); err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

func discarded() *log.Logger { return log.New(io.Discard, "", 0) }
