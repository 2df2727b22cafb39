package client

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/executor/webhook"
)

// Through a rotation: the callee can verify each call with the secrets that were shown once, and
// nothing else shows them.
func TestSigningKeysFromTheFirstToTheLast(t *testing.T) {
	type call struct {
		header http.Header
		body   []byte
	}
	calls := make(chan call, 10)
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls <- call{r.Header, body}
	}))
	t.Cleanup(sink.Close)
	sealed := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	dir := t.TempDir()
	api := clitest.StartNodeIn(t, dir, func(c *config.Config) { c.Secrets.Keys = []string{"k1:" + sealed} })

	run := func() call {
		t.Helper()
		job := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, "job", "create", "--api", api, "--url", sink.URL, "--payload", `{"a":1}`, "-o", "json").Stdout)
		timeout := time.After(time.Minute)
		for {
			select {
			case c := <-calls:
				// one of the run before may have been made twice
				if c.header.Get("Webhook-Id") == job.ID.String() {
					return c
				}
				t.Logf("once more: %s", c.header.Get("Webhook-Id"))
			case <-timeout:
				t.Fatal("no call within a minute")
			}
		}
	}
	verify := func(c call, secret string) error {
		t.Helper()
		v, err := webhook.NewVerifier(secret)
		if err != nil {
			t.Fatalf("NewVerifier of what was shown: %v", err)
		}
		return v.Verify(c.header, c.body)
	}
	if c := run(); c.header.Get("Webhook-Signature") != "" || c.header.Get("Webhook-Id") == "" {
		t.Errorf("a call without a key has the headers %v, want an id and no signature", c.header)
	}
	made := clitest.Succeed(t, "signing-key", "create", "--api", api)
	first := strings.TrimSpace(made.Stdout)
	if !strings.HasPrefix(first, "whsec_") || strings.ContainsAny(first, " \n") || strings.Contains(made.Stderr, first) {
		t.Errorf("signing-key create writes %q and %q, want the secret alone, and what it is", made.Stdout, made.Stderr)
	}
	if c := run(); verify(c, first) != nil || string(c.body) != `{"a":1}` {
		t.Errorf("a signed call: %v of %q", verify(c, first), c.body)
	}
	second := clitest.Decode[httpapi.NewSigningKey](t, clitest.Succeed(t, "signing-key", "rotate", "--api", api, "default", "--overlap", "1h", "-o", "json").Stdout)
	if c := run(); verify(c, first) != nil || verify(c, second.Secret) != nil {
		t.Errorf("a call after the rotation: %v by the first secret, %v by the second; want both right", verify(c, first), verify(c, second.Secret))
	}
	third := strings.TrimSpace(clitest.Succeed(t, "signing-key", "rotate", "--api", api, "default", "--overlap", "0s").Stdout)
	if c := run(); verify(c, third) != nil || !errors.Is(verify(c, first), webhook.ErrSignature) || !errors.Is(verify(c, second.Secret), webhook.ErrSignature) {
		t.Errorf("a call after a rotation without an overlap: want it right by the third secret alone")
	}
	list := clitest.Succeed(t, "signing-key", "list", "--api", api).Stdout + clitest.Succeed(t, "signing-key", "list", "--api", api, "-o", "json").Stdout
	if !strings.Contains(list, "default") || !strings.Contains(list, "k1") || strings.Contains(list, "whsec_") {
		t.Errorf("signing-key list shows\n%s", list)
	}
	if r := clitest.Run(t.Context(), "", "signing-key", "create", "--api", api, "default"); r.Code != 1 || !strings.Contains(r.Stderr, "(409)") {
		t.Errorf("signing-key create of a name that is taken exits %d with %q, want 1 and a 409", r.Code, r.Stderr)
	}
	clitest.Succeed(t, "signing-key", "revoke", "--api", api, "default")
	if c := run(); c.header.Get("Webhook-Signature") != "" {
		t.Error("a call is signed after the key was revoked")
	}
	if r := clitest.Run(t.Context(), "", "signing-key", "revoke", "--api", api, "default"); r.Code != 1 || !strings.Contains(r.Stderr, "(404)") {
		t.Errorf("signing-key revoke, twice, exits %d with %q, want 1 and a 404", r.Code, r.Stderr)
	}
	want := []string{"revoke signing-key/default", "rotate signing-key/default", "rotate signing-key/default", "create signing-key/default"}
	acts := awaitAudit(t, api, len(want))
	var got []string
	for _, act := range acts {
		if _, act, _ := strings.Cut(act, " "); strings.Contains(act, "signing-key") {
			got = append(got, act)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("audit shows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if log := clitest.Succeed(t, "audit", "--api", api, "-o", "json").Stdout; strings.Contains(log, "whsec_") || strings.Contains(log, "sealed\":\"") {
		t.Errorf("the audit log holds a secret:\n%s", log)
	}
}

func TestSigningKeysNeedAKeyOfTheOperator(t *testing.T) {
	api := clitest.StartNodeIn(t, t.TempDir(), func(*config.Config) {})
	r := clitest.Run(t.Context(), "", "signing-key", "create", "--api", api)
	if r.Code != 1 || !strings.Contains(r.Stderr, "(409)") || !strings.Contains(r.Stderr, "secrets.keys") {
		t.Errorf("signing-key create without secrets.keys exits %d with %q, want 1 and the key that is missing", r.Code, r.Stderr)
	}
}

func TestSigningKeyCommandLines(t *testing.T) {
	for _, args := range [][]string{
		{"signing-key", "create", "a", "b"},
		{"signing-key", "rotate"},
		{"signing-key", "rotate", "a", "--overlap", "soon"},
		{"signing-key", "revoke"},
		{"signing-key", "list", "a"},
	} {
		if r := clitest.Run(t.Context(), "", args...); r.Code != 2 {
			t.Errorf("carillon %v exits %d with %q, want 2", args, r.Code, r.Stderr)
		}
	}
}
