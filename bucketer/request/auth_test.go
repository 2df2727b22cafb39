package request

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// withAuth is a job that calls a URL with that auth.
func withAuth(auth string) string { return `{"http":{"url":"https://x.test/","auth":` + auth + `}}` }

func TestDecodeReadsAuth(t *testing.T) {
	for name, c := range map[string]struct {
		body    string
		want    schema.HTTPAuth
		secrets []string
	}{
		"bearer":     {withAuth(`{"bearer":{"secret":"tok"}}`), schema.HTTPAuth{Bearer: &schema.BearerAuth{Secret: "tok"}}, []string{"tok"}},
		"basic":      {withAuth(`{"basic":{"username":"me@x.test","secret":"pw"},"bearer":null}`), schema.HTTPAuth{Basic: &schema.BasicAuth{Username: "me@x.test", Secret: "pw"}}, []string{"pw"}},
		"header":     {withAuth(`{"header":{"name":"X-Api-Key","secret":"k"}}`), schema.HTTPAuth{Header: &schema.HeaderAuth{Name: "X-Api-Key", Secret: "k"}}, []string{"k"}},
		"body_field": {withAuth(`{"body_field":{"name":"routing_key","secret":"k"}}`), schema.HTTPAuth{Field: &schema.BodyFieldAuth{Name: "routing_key", Secret: "k"}}, []string{"k"}},
		"oauth2": {
			withAuth(`{"oauth2_client_credentials":{"token_url":"https://id.test/token","client_id":"c","secret":"s","scopes":["a","b:c"],"params":{"audience":"x"}}}`),
			schema.HTTPAuth{OAuth2: &schema.ClientCredentials{TokenURL: "https://id.test/token", ClientID: "c", Secret: "s", Scopes: []string{"a", "b:c"}, Params: map[string]string{"audience": "x"}}},
			[]string{"s"},
		},
		"sigv4": {
			withAuth(`{"aws_sigv4":{"region":"eu-central-1","service":"sqs","access_key_id":"AKIAIOSFODNN7EXAMPLE","secret":"s","session_token_secret":"t"}}`),
			schema.HTTPAuth{SigV4: &schema.SigV4Auth{Region: "eu-central-1", Service: "sqs", AccessKeyID: "AKIAIOSFODNN7EXAMPLE", Secret: "s", SessionTokenSecret: "t"}},
			[]string{"s", "t"},
		},
		"mtls": {
			withAuth(`{"mtls":{"certificate_secret":"c","key_secret":"k","ca_secret":"c"}}`),
			schema.HTTPAuth{MTLS: &schema.MTLSAuth{CertificateSecret: "c", KeySecret: "k", CASecret: "c"}},
			[]string{"c", "k"},
		},
	} {
		job, _, err := new(Decoder).Job("acme", []byte(c.body), testNow)
		if err != nil {
			t.Errorf("%s: Job(%s): %v", name, c.body, err)
			continue
		}
		if diff := cmp.Diff(&c.want, job.Work.HTTP.Auth); diff != "" {
			t.Errorf("%s: auth (-want +got):\n%s", name, diff)
		}
		if got := job.Work.Secrets(); !slices.Equal(got, c.secrets) {
			t.Errorf("%s: Secrets: got %q, want %q", name, got, c.secrets)
		}
	}
}

func TestDecodeReadsLambda(t *testing.T) {
	for body, want := range map[string]schema.LambdaTarget{
		`{"function":"f","region":"eu-central-1","credentials":"aws"}`: {Function: "f", Region: "eu-central-1", Credentials: "aws", Invocation: "sync"},
		`{"function":"arn:aws:lambda:eu-central-1:123456789012:function:my_f-1:$LATEST","region":"eu-central-1","credentials":"aws","invocation":"async","endpoint":"https://vpce.test/x"}`: {
			Function: "arn:aws:lambda:eu-central-1:123456789012:function:my_f-1:$LATEST", Region: "eu-central-1", Credentials: "aws", Invocation: "async", Endpoint: "https://vpce.test/x",
		},
	} {
		task, err := new(Decoder).Task("acme", "t", []byte(`{"lambda":`+body+`}`))
		if err != nil {
			t.Errorf("Task of lambda %s: %v", body, err)
			continue
		}
		w := task.Work.InForce()
		if diff := cmp.Diff(&want, w.Lambda); diff != "" || !slices.Equal(w.Secrets(), []string{"aws"}) {
			t.Errorf("lambda %s needs %q (-want +got):\n%s", body, w.Secrets(), diff)
		}
	}
}

// faultyAuth are bodies of jobs, and the faults that each has: location and part of the message.
var faultyAuth = map[string]struct {
	body string
	want []string
}{
	"none":              {withAuth(`{}`), []string{"body.http.auth must have exactly one of bearer, basic, header"}},
	"two":               {withAuth(`{"bearer":{"secret":"a"},"basic":{"username":"u","secret":"b"}}`), []string{"body.http.auth must have exactly one of"}},
	"no object":         {withAuth(`"s3cret"`), []string{"body.http.auth must be an object"}},
	"an unknown kind":   {withAuth(`{"digest":{"password":"s3cret"}}`), []string{"body.http.auth.digest is not a field of auth", "body.http.auth must have exactly one of"}},
	"kind is no object": {withAuth(`{"bearer":"s3cret"}`), []string{"body.http.auth.bearer must be an object"}},
	"beside a task":     {`{"task":"t","auth":{"bearer":{"secret":"a"}}}`, []string{"body.auth is not a field of a job"}},

	"a token inline":          {withAuth(`{"bearer":{"token":"s3cret"}}`), []string{"body.http.auth.bearer.token is not a field of bearer", "body.http.auth.bearer.secret is missing"}},
	"a value for a name":      {withAuth(`{"bearer":{"secret":"S3cret s3cret"}}`), []string{"body.http.auth.bearer.secret must be the name of a secret, which must be 1 to 63"}},
	"a secret that is a list": {withAuth(`{"bearer":{"secret":["s3cret"]}}`), []string{"body.http.auth.bearer.secret must be a string"}},
	"a password inline":       {withAuth(`{"basic":{"username":"u","password":"s3cret"}}`), []string{"body.http.auth.basic.password is not a field of basic", "body.http.auth.basic.secret is missing"}},
	"a user with a colon":     {withAuth(`{"basic":{"username":"u:s3cret","secret":"a"}}`), []string{"body.http.auth.basic.username must not hold a colon"}},
	"no user":                 {withAuth(`{"basic":{"username":"","secret":"a"}}`), []string{"body.http.auth.basic.username must be 1 to 255"}},
	"a user of two lines":     {withAuth(`{"basic":{"username":"u\nx","secret":"a"}}`), []string{"body.http.auth.basic.username must not hold control"}},
	"a header's name":         {withAuth(`{"header":{"name":"x y","secret":"a"}}`), []string{"body.http.auth.header.name must be a valid header name"}},
	"a header of ours":        {withAuth(`{"header":{"name":"Webhook-Signature","secret":"a"}}`), []string{"body.http.auth.header.name is set by Carillon"}},
	"a header of HTTP":        {withAuth(`{"header":{"name":"Transfer-Encoding","secret":"a"}}`), []string{"body.http.auth.header.name is set by Carillon"}},
	"a header twice": {
		`{"http":{"url":"https://x.test/","headers":{"X-Key":"v"},"auth":{"header":{"name":"x-key","secret":"a"}}}}`,
		[]string{"body.http.auth sets the header x-key, which headers state"},
	},
	"authorization twice": {`{"http":{"url":"https://x.test/","headers":{"AUTHORIZATION":"v"},"auth":{"bearer":{"secret":"a"}}}}`, []string{"body.http.auth sets the header authorization"}},
	"a header of AWS": {
		`{"http":{"url":"https://x.test/","headers":{"X-Amz-Security-Token":"v"},"auth":{"aws_sigv4":{"region":"r","service":"s","access_key_id":"AKIAIOSFODNN7EXAMPLE","secret":"a"}}}}`,
		[]string{"body.http.auth sets the header x-amz-security-token"},
	},

	"no token_url":       {withAuth(`{"oauth2_client_credentials":{"client_secret":"s3cret"}}`), []string{"body.http.auth.oauth2_client_credentials.client_secret is not a field", "body.http.auth.oauth2_client_credentials.token_url is missing", "body.http.auth.oauth2_client_credentials.client_id is missing", "body.http.auth.oauth2_client_credentials.secret is missing"}},
	"a token_url's user": {withAuth(`{"oauth2_client_credentials":{"token_url":"https://u:s3cret@x.test/","client_id":"c","secret":"a"}}`), []string{"body.http.auth.oauth2_client_credentials.token_url must not hold a user"}},
	"scopes as text":     {withAuth(`{"oauth2_client_credentials":{"token_url":"https://x.test/","client_id":"c","secret":"a","scopes":"a b"}}`), []string{"body.http.auth.oauth2_client_credentials.scopes must be an array"}},
	"a scope":            {withAuth(`{"oauth2_client_credentials":{"token_url":"https://x.test/","client_id":"c","secret":"a","scopes":["a b",7]}}`), []string{"body.http.auth.oauth2_client_credentials.scopes[0] must be 1 to 255", "body.http.auth.oauth2_client_credentials.scopes[1] must be a string"}},
	"many scopes":        {withAuth(`{"oauth2_client_credentials":{"token_url":"https://x.test/","client_id":"c","secret":"a","scopes":["` + strings.Repeat(`s","`, maxScopes) + `s"]}}`), []string{"body.http.auth.oauth2_client_credentials.scopes must be at most 32"}},
	"a secret parameter": {withAuth(`{"oauth2_client_credentials":{"token_url":"https://x.test/","client_id":"c","secret":"a","params":{"Client_Secret":"s3cret","password":"s3cret","a":7}}}`), []string{
		"body.http.auth.oauth2_client_credentials.params.Client_Secret cannot be stated here", "body.http.auth.oauth2_client_credentials.params.password cannot be stated here", "body.http.auth.oauth2_client_credentials.params.a must be a string",
	}},
	"many parameters":  {withAuth(`{"oauth2_client_credentials":{"token_url":"https://x.test/","client_id":"c","secret":"a","params":{` + numbered(maxParams+1, `"p%d":""`) + `}}}`), []string{"body.http.auth.oauth2_client_credentials.params must be at most 16"}},
	"large parameters": {withAuth(`{"oauth2_client_credentials":{"token_url":"https://x.test/","client_id":"c","secret":"a","params":{"p":"` + strings.Repeat("x", maxParamBytes) + `"}}}`), []string{"body.http.auth.oauth2_client_credentials.params must be at most 2048 bytes"}},

	"a secret access key": {withAuth(`{"aws_sigv4":{"region":"r","service":"s","access_key_id":"wJalrXUtnFEMIs3cretbPxRfiCYEXAMPLEKEY","secret":"a"}}`), []string{"body.http.auth.aws_sigv4.access_key_id must be 16 to 128 characters of A-Z"}},
	"a region":            {withAuth(`{"aws_sigv4":{"region":"eu.evil.test/","service":"","access_key_id":"AKIAIOSFODNN7EXAMPLE","secret":"a"}}`), []string{"body.http.auth.aws_sigv4.region must be 1 to 63", "body.http.auth.aws_sigv4.service must be 1 to 63"}},
	"a session token":     {withAuth(`{"aws_sigv4":{"region":"r","service":"s","access_key_id":"AKIAIOSFODNN7EXAMPLE","secret":"a","session_token":"s3cret"}}`), []string{"body.http.auth.aws_sigv4.session_token is not a field"}},
	"a key inline":        {withAuth(`{"mtls":{"certificate_secret":"c","key":"s3cret"}}`), []string{"body.http.auth.mtls.key is not a field of mtls", "body.http.auth.mtls.key_secret is missing"}},
	"a field of no name":  {withAuth(`{"body_field":{"name":"","value":"s3cret"}}`), []string{"body.http.auth.body_field.name must be 1 to 255", "body.http.auth.body_field.value is not a field", "body.http.auth.body_field.secret is missing"}},
	"a field of no body":  {`{"http":{"url":"https://x.test/","body":"none","auth":{"body_field":{"name":"k","secret":"a"}}}}`, []string{"body.http.auth has body_field, and there is no body"}},
	"a certificate over plain HTTP": {
		`{"http":{"auth":{"mtls":{"certificate_secret":"c","key_secret":"k"}},"url":"http://x.test/"}}`, []string{"body.http.auth has mtls, which needs an https URL"},
	},

	"lambda and http":          {`{` + callX + `,"lambda":{"function":"f","region":"r","credentials":"a"}}`, []string{"body must have only one of http, nats, script, lambda, jetstream, sqs, sns, eventbridge, step_functions and kafka"}},
	"an empty lambda":          {`{"lambda":{}}`, []string{"body.lambda.function is missing", "body.lambda.region is missing", "body.lambda.credentials is missing"}},
	"lambda as text":           {`{"lambda":"f"}`, []string{"body.lambda must be an object"}},
	"a function's name":        {`{"lambda":{"function":"../f","region":"r","credentials":"a"}}`, []string{"body.lambda.function must be a function's name"}},
	"a function's long name":   {`{"lambda":{"function":"` + strings.Repeat("f", 171) + `","region":"r","credentials":"a"}}`, []string{"body.lambda.function must be a function's name"}},
	"an invocation":            {`{"lambda":{"function":"f","region":"r","credentials":"a","invocation":"Event"}}`, []string{"body.lambda.invocation must be one of sync, async"}},
	"credentials inline":       {`{"lambda":{"function":"f","region":"r","credentials":{"secret_access_key":"s3cret"}}}`, []string{"body.lambda.credentials must be a string"}},
	"an endpoint":              {`{"lambda":{"function":"f","region":"r","credentials":"a","endpoint":"ftp://x"}}`, []string{"body.lambda.endpoint must be an absolute"}},
	"an endpoint with a query": {`{"lambda":{"function":"f","region":"r","credentials":"a","endpoint":"https://x.test/?a=s3cret"}}`, []string{"body.lambda.endpoint must be a URL without a query"}},
}

func TestDecodeReportsEveryFaultOfAuth(t *testing.T) {
	for name, row := range faultyAuth {
		t.Run(name, func(t *testing.T) {
			_, _, err := new(Decoder).Job("acme", []byte(row.body), testNow)
			checkFaults(t, err, row.want)
			if text := allOf(err); strings.Contains(text, "s3cret") {
				t.Errorf("the faults hold what may be a secret: %s", text)
			}
		})
	}
}

// allOf returns all that is said of faults, with the values that are said back, but for their
// locations: those have names of fields.
func allOf(err error) string {
	var faults bucketer.Faults
	text := ""
	if errors.As(err, &faults) {
		for _, f := range faults {
			text += fmt.Sprintf("%s %v\n", f.Message, f.Value)
		}
	}
	return text
}

func TestSecret(t *testing.T) {
	for name, c := range map[string]struct {
		name, body string
		value      string
		want       []string
	}{
		"a value":           {"n", `{"value":"s3cret\n\u00fc\ud83d\ude00"}`, "s3cret\nü😀", nil},
		"the shortest":      {"n", `{"value":"abcd"}`, "abcd", nil},
		"the longest":       {"n", `{"value":"` + strings.Repeat("x", schema.MaxSecretValue) + `"}`, strings.Repeat("x", schema.MaxSecretValue), nil},
		"too short":         {"n", `{"value":"s3c"}`, "", []string{"body.value must be 4 to 65536 bytes"}},
		"too long":          {"n", `{"value":"` + strings.Repeat("s3cret", schema.MaxSecretValue/6+1) + `"}`, "", []string{"body.value must be 4 to 65536 bytes"}},
		"none":              {"n", `{}`, "", []string{"body.value is missing"}},
		"null":              {"n", `{"value":null}`, "", []string{"body.value is missing"}},
		"a number":          {"n", `{"value":73737373}`, "", []string{"body.value must be a string"}},
		"an object":         {"n", `{"value":{"a":"s3cret"}}`, "", []string{"body.value must be a string"}},
		"a text":            {"n", `"s3cret"`, "", []string{"body must be an object"}},
		"another field":     {"n", `{"value":"s3cret","password":"s3cret"}`, "", []string{"body.password is not a field"}},
		"a doubled field":   {"n", `{"value":"s3cret","value":"s3cret2"}`, "", []string{"body.value is there twice"}},
		"a bad name":        {"N", `{"value":"s3cret"}`, "", []string{"path.name must be 1 to 63"}},
		"a name and a body": {"", `{"value":7}`, "", []string{"path.name must be 1 to 63", "body.value must be a string"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := new(Decoder).Secret(c.name, []byte(c.body))
			if c.want == nil {
				if err != nil || string(got) != c.value {
					t.Fatalf("Secret: got %d bytes, %v; want %d", len(got), err, len(c.value))
				}
				return
			}
			checkFaults(t, err, c.want)
			if text := allOf(err); strings.Contains(text, "s3c") || strings.Contains(text, "7373") || got != nil {
				t.Errorf("the faults hold what may be a secret: %s", text)
			}
		})
	}
	var syntax *NotJSONError
	if _, err := new(Decoder).Secret("n", []byte(`{"value":"s3cret`)); !errors.As(err, &syntax) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("Secret of half a body: got %v, want that it is not JSON", err)
	}
	var faults bucketer.Faults
	if _, err := new(Decoder).Secret("n", []byte(strings.Repeat("[", 200)+strings.Repeat("]", 200))); !errors.As(err, &faults) {
		t.Errorf("Secret of a deep body: got %v, want faults", err)
	}
}
