package client

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

// withSeal gives a node a key to seal secrets with.
func withSeal(c *config.Config) {
	c.Secrets.Keys = []string{"k1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))}
}

// As a new user would: a secret from the standard input, a task that names it, a run that is called
// with it; another value from a file; and no word of either anywhere.
func TestSecretsFromTheFirstToTheLast(t *testing.T) {
	calls := make(chan string, 10)
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		calls <- r.Header.Get("Authorization")
	}))
	t.Cleanup(sink.Close)
	api := clitest.StartNodeIn(t, t.TempDir(), withSeal)
	var said strings.Builder
	run := func(stdin string, args ...string) string {
		t.Helper()
		r := clitest.Run(t.Context(), stdin, append(args, "--api", api)...)
		if r.Code != 0 {
			t.Fatalf("carillon %v exits %d with %q", args, r.Code, r.Stderr)
		}
		said.WriteString(r.Stdout + r.Stderr)
		return r.Stdout
	}
	called := func(want string) {
		t.Helper()
		run("", "job", "create", "--task", "orders")
		select {
		case got := <-calls:
			if got != want {
				t.Errorf("called with %q, want %q", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatal("no call within a minute")
		}
	}
	run("s3cret-one\n", "secret", "put", "orders-token")
	made := clitest.Decode[httpapi.Task](t, run("", "task", "set", "orders", "--url", sink.URL, "--auth", `{"bearer":{"secret":"orders-token"}}`, "-o", "json"))
	if made.HTTP.Auth == nil || made.HTTP.Auth.Bearer == nil || made.HTTP.Auth.Bearer.Secret != "orders-token" {
		t.Errorf("task set --auth = %+v", made.HTTP)
	}
	called("Bearer s3cret-one")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("s3cret-two\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := clitest.Decode[httpapi.Secret](t, run("", "secret", "put", "orders-token", "--file", file, "-o", "json")); s.Versions[0].Version != 2 || len(s.Versions) != 2 {
		t.Errorf("secret put of another value = %+v", s)
	}
	called("Bearer s3cret-two")
	list := run("", "secret", "list") + run("", "secret", "list", "-o", "json")
	if !strings.Contains(list, "orders-token") || !strings.Contains(list, "k1") || !strings.Contains(list, "VALID UNTIL") {
		t.Errorf("secret list shows\n%s", list)
	}
	if same := clitest.Decode[httpapi.Task](t, run("", "task", "set", "orders", "--method", "PUT", "-o", "json")); same.HTTP.Auth == nil {
		t.Errorf("task set of a method = %+v, want who calls as before", same.HTTP)
	}
	run("", "secret", "rm", "orders-token")
	if r := clitest.Run(t.Context(), "", "secret", "rm", "orders-token", "--api", api); r.Code != 1 || !strings.Contains(r.Stderr, "(404)") {
		t.Errorf("secret rm, twice, exits %d with %q, want 1 and a 404", r.Code, r.Stderr)
	}
	if none := clitest.Decode[httpapi.Task](t, run("", "task", "set", "orders", "--auth", "none", "-o", "json")); none.HTTP.Auth != nil {
		t.Errorf("task set --auth none = %+v", none.HTTP)
	}
	awaitAudit(t, api, 5)
	run("", "audit", "-o", "json")
	if strings.Contains(said.String(), "s3cret") {
		t.Errorf("what was said holds a value:\n%s", said.String())
	}
}

func TestSecretsThatAreRefused(t *testing.T) {
	api := clitest.StartNodeIn(t, t.TempDir(), func(*config.Config) {})
	for name, c := range map[string]struct {
		stdin string
		args  []string
		code  int
		want  string
	}{
		"a value as an argument": {"", []string{"secret", "put", "a", "s3cret"}, 2, "accepts 1 arg(s), received 2"},
		"no name":                {"s3cret", []string{"secret", "put"}, 2, "accepts 1 arg(s)"},
		"no value":               {"\n", []string{"secret", "put", "a"}, 2, "there is no value"},
		"a value that is long":   {strings.Repeat("s3cret", schema.MaxSecretValue/6+1), []string{"secret", "put", "a"}, 2, "longer than 65536 bytes"},
		"a file that is not":     {"", []string{"secret", "put", "a", "--file", "/nonexistent/x"}, 1, "read secret"},
		"no key of the operator": {"s3cret", []string{"secret", "put", "a"}, 1, "secrets.keys"},
		"a short value":          {"s3c", []string{"secret", "put", "a"}, 1, "body.value: must be 4 to 65536"},
		"a bad name":             {"s3cret", []string{"secret", "put", "A"}, 1, "path.name: must be 1 to 63"},
		"list what":              {"", []string{"secret", "list", "a"}, 2, ""},
		"remove what":            {"", []string{"secret", "rm"}, 2, ""},

		"auth without a URL":     {"", []string{"job", "create", "--subject", "a.b", "--auth", "{}"}, 2, "--auth goes with a URL"},
		"auth that is no JSON":   {"", []string{"job", "create", "--url", "http://x.test/", "--auth", "bearer"}, 2, "--auth"},
		"auth of another form":   {"", []string{"job", "create", "--url", "http://x.test/", "--auth", `{"bearer":{"token":"x"}}`}, 2, "unknown field"},
		"auth that is none":      {"", []string{"job", "create", "--url", "http://x.test/", "--auth", `{}`}, 1, "must have exactly one of bearer"},
		"two kinds of work":      {"", []string{"job", "create", "--url", "http://x.test/", "--function", "f"}, 2, "exactly one of --url, --subject, --function, --message and --task"},
		"a region of nothing":    {"", []string{"job", "create", "--url", "http://x.test/", "--aws-region", "r"}, 2, "--aws-region goes with a function"},
		"a function of nothing":  {"", []string{"job", "create", "--function", "f"}, 1, "body.lambda.region: must be 1 to 63"},
		"a task of two kinds":    {"", []string{"task", "set", "a", "--subject", "a.b", "--function", "f"}, 2, "at most one of"},
		"async of no function":   {"", []string{"task", "set", "a", "--subject", "a.b", "--async"}, 2, "--async goes with a function"},
		"a message of no form":   {"", []string{"job", "create", "--message", "sqs"}, 2, "--message"},
		"a message of another":   {"", []string{"job", "create", "--message", `{"sqs":{"queue":"q"}}`}, 2, "unknown field"},
		"a message that is none": {"", []string{"job", "create", "--message", `{"http":{"url":"http://x.test/"}}`}, 2, "--message: is no object of"},
		"a message to nowhere":   {"", []string{"job", "create", "--message", `{"sqs":{}}`}, 1, "body.sqs.queue_url: must"},
		"a message and a URL":    {"", []string{"task", "set", "a", "--url", "http://x.test/", "--message", `{"sqs":{}}`}, 2, "at most one of"},
		"credentials of nothing": {"", []string{"task", "set", "a", "--url", "http://x.test/", "--credentials", "c"}, 2, "--credentials goes with a function"},
	} {
		t.Run(name, func(t *testing.T) {
			r := clitest.Run(t.Context(), c.stdin, append(c.args, "--api", api)...)
			if r.Code != c.code || !strings.Contains(r.Stderr, c.want) || strings.Contains(r.Stdout+r.Stderr, "s3c") {
				t.Errorf("carillon %v exits %d with %q, want %d and %q", c.args, r.Code, r.Stderr, c.code, c.want)
			}
		})
	}
}

func TestFunctionsOfLambda(t *testing.T) {
	api := clitest.StartNodeIn(t, t.TempDir(), withSeal)
	task := func(args ...string) httpapi.Task {
		t.Helper()
		return clitest.Decode[httpapi.Task](t, clitest.Succeed(t, append([]string{"task", "set", "a", "--api", api, "-o", "json"}, args...)...).Stdout)
	}
	made := task("--function", "resize", "--aws-region", "eu-central-1", "--credentials", "aws", "--async", "--timeout", "5s")
	want := schema.LambdaTarget{Function: "resize", Region: "eu-central-1", Credentials: "aws", Invocation: "async"}
	if made.Lambda == nil || *made.Lambda != want || made.Timeout.Std() != 5*time.Second {
		t.Errorf("task set of a function = %+v", made.Lambda)
	}
	want.Function, want.Invocation, want.Endpoint = "crop", "sync", "https://x.test"
	if made = task("--function", "crop", "--async=false", "--aws-endpoint", "https://x.test"); *made.Lambda != want || made.Timeout.Std() != 5*time.Second {
		t.Errorf("task set of another function = %+v, want all else as it was", made.Lambda)
	}
	if out := clitest.Succeed(t, "task", "list", "--api", api).Stdout; !strings.Contains(out, "lambda crop") {
		t.Errorf("task list writes %q", out)
	}
	if made = task("--url", "http://x.test/"); made.Lambda != nil || made.HTTP == nil || made.Timeout.Std() != 5*time.Second {
		t.Errorf("task set of a URL = %+v, want its limits as they were", made.Work)
	}
	sends := task("--message", `{"jetstream":{"subject":"orders.due","stream":"ORDERS"}}`)
	if sends.HTTP != nil || sends.JetStream == nil || *sends.JetStream != (schema.JetStreamTarget{Subject: "orders.due", Stream: "ORDERS"}) || sends.Timeout.Std() != 5*time.Second {
		t.Errorf("task set of a message = %+v", sends.Work)
	}
	if out := clitest.Succeed(t, "task", "list", "--api", api).Stdout; !strings.Contains(out, "jetstream orders.due") {
		t.Errorf("task list writes %q", out)
	}
	message := `{"sqs":{"queue_url":"https://x.test/q","region":"eu-central-1","credentials":"aws"}}`
	if job := clitest.Succeed(t, "job", "create", "--api", api, "--message", message, "--in", "1h").Stdout; !strings.Contains(job, "sqs https://x.test/q") {
		t.Errorf("job create writes %q", job)
	}
	job := clitest.Succeed(t, "job", "create", "--api", api, "--function", "f", "--aws-region", "eu-central-1", "--credentials", "aws", "--in", "1h").Stdout
	if !strings.Contains(job, "lambda f") {
		t.Errorf("job create writes %q", job)
	}
}

// TestFormsOfAuth: a job may be made with each form that the help shows, and the help shows each.
func TestFormsOfAuth(t *testing.T) {
	api := clitest.StartNode(t)
	help := clitest.Succeed(t, "secret", "--help").Stdout
	for _, form := range authForms {
		if !strings.Contains(help, form) {
			t.Errorf("carillon secret --help does not show %s", form)
		}
		clitest.Succeed(t, "job", "create", "--api", api, "--url", "https://example.com/", "--in", "24h", "--auth", strings.ReplaceAll(form, "NAME", "name"), "--payload", "{}")
	}
	if n := reflect.TypeFor[schema.HTTPAuth]().NumField(); len(authForms) != n {
		t.Errorf("the help shows %d forms of --auth, want %d", len(authForms), n)
	}
}
