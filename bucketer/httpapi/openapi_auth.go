package httpapi

import (
	"fmt"

	"github.com/danielgtaylor/huma/v2"
)

// describeAuth says in the schemas of http.auth and lambda what the types of Go do not.
func (s documentWriter) describeAuth() error {
	const (
		labelPattern    = `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`
		functionPattern = `^[A-Za-z0-9_:$-]{1,170}$`
	)
	secret := func(of string) func(*huma.Schema) {
		return func(f *huma.Schema) { f.Pattern, f.Description = namePattern, "Name of the secret that holds "+of }
	}
	text := func(pattern, description string, example any) func(*huma.Schema) {
		return func(f *huma.Schema) { f.Pattern, f.Description, f.Examples = pattern, description, []any{example} }
	}
	uri := func(description string) func(*huma.Schema) {
		return func(f *huma.Schema) { f.Format, f.Description = "uri", description }
	}
	schemas := s.api.OpenAPI().Components.Schemas.Map()
	auth := schemas["HTTPAuth"]
	if auth == nil {
		return fmt.Errorf("the OpenAPI document has no HTTPAuth")
	}
	one := 1
	auth.MinProperties, auth.MaxProperties = &one, &one
	auth.Description = "Exactly one of these. A field named secret, or that ends in _secret, names a secret of the tenant (PUT /v1/secrets/{name}); no value stands here. " +
		"An attempt whose secret is missing, or whose token is refused, fails and is retried"
	for _, p := range []struct {
		schema, field string
		say           func(*huma.Schema)
	}{
		{"BearerAuth", "secret", secret("the token of the header Authorization: Bearer")},
		{"BasicAuth", "username", func(f *huma.Schema) { f.Description = "Without a colon, at most 255 bytes" }},
		{"BasicAuth", "secret", secret("the password")},
		{"HeaderAuth", "name", func(f *huma.Schema) {
			f.Description, f.Examples = "A header that Carillon does not set itself", []any{"X-Api-Key"}
		}},
		{"HeaderAuth", "secret", secret("the header's value")},
		{"BodyFieldAuth", "name", func(f *huma.Schema) {
			f.Description = "A member of the JSON object that is the body: it is added, or replaced, when the call is made. At most 255 bytes"
		}},
		{"BodyFieldAuth", "secret", secret("the member's value, a text")},
		{"ClientCredentials", "token_url", uri("Where tokens are had (RFC 6749, section 4.4). A token is used until shortly before it expires, and another one is asked for once if the call is answered with 401")},
		{"ClientCredentials", "client_id", func(f *huma.Schema) { f.Description = "At most 255 bytes" }},
		{"ClientCredentials", "secret", secret("the client's secret")},
		{"ClientCredentials", "scopes", func(f *huma.Schema) { f.Description = "At most 32" }},
		{"ClientCredentials", "params", func(f *huma.Schema) {
			f.Description = "What the request for a token says besides, such as audience: at most 16, 2 KiB together, and nothing secret"
		}},
		{"SigV4Auth", "region", text(labelPattern, "", "eu-central-1")},
		{"SigV4Auth", "service", text(labelPattern, "As the signature names it", "sqs")},
		{"SigV4Auth", "access_key_id", text(`^[A-Z0-9]{16,128}$`, "", "AKIAIOSFODNN7EXAMPLE")},
		{"SigV4Auth", "secret", secret("the secret access key")},
		{"SigV4Auth", "session_token_secret", secret("the session token of temporary credentials")},
		{"MTLSAuth", "certificate_secret", secret("the certificate that is shown, as PEM, followed by those that lead from it to a root")},
		{"MTLSAuth", "key_secret", secret("the certificate's private key, as PEM")},
		{"MTLSAuth", "ca_secret", secret("the certificates that the callee's one is to come from, as PEM; absent: those of the system")},
		{"LambdaTarget", "function", text(functionPattern, "Its name or ARN, with a version or alias after a colon", "resize")},
		{"LambdaTarget", "region", text(labelPattern, "", "eu-central-1")},
		{"LambdaTarget", "invocation", func(f *huma.Schema) {
			words("sync", "async")(f)
			f.Description = "sync (default): the run ends as the function does; async: it has succeeded once the invocation is accepted"
		}},
		{"LambdaTarget", "credentials", secret(`{"access_key_id": "…", "secret_access_key": "…", "session_token": "…"} (the last is optional)`)},
		{"LambdaTarget", "endpoint", uri("Instead of AWS's of the region; without a query")},
	} {
		of := schemas[p.schema]
		if of == nil || of.Properties[p.field] == nil {
			return fmt.Errorf("the OpenAPI document has no %s.%s", p.schema, p.field)
		}
		p.say(of.Properties[p.field])
	}
	return nil
}
