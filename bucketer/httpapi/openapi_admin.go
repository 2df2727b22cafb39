package httpapi

import (
	"fmt"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

// describeAdmin says in the schemas of keys, secrets and tenants what the types of Go do not.
func (s documentWriter) describeAdmin() error {
	quota := func(description string) func(*huma.Schema) {
		return func(f *huma.Schema) { f.Minimum, f.Description = number(0), description+"; 0 or absent: no bound" }
	}
	says := func(description string) func(*huma.Schema) {
		return func(f *huma.Schema) { f.Description = description }
	}
	schemas := s.api.OpenAPI().Components.Schemas.Map()
	for _, p := range []struct {
		schema, field string
		say           func(*huma.Schema)
	}{
		{"KeyRequest", "name", func(f *huma.Schema) {
			f.Pattern, f.Description, f.Examples = namePattern, "Unique in the tenant; not a UUID. The audit log knows the key by it", []any{"deploy"}
		}},
		{"KeyRequest", "role", words("viewer", "operator", "admin")},
		{"KeyRequest", "expires_at", func(f *huma.Schema) {
			f.Description, f.Examples = "In the future; absent: good until it is revoked", []any{"2027-01-01T00:00:00Z"}
		}},
		{"SigningRequest", "name", func(f *huma.Schema) {
			f.Pattern, f.Description, f.Examples = namePattern, "Unique among the tenant's signing keys; absent: default", []any{"default"}
		}},
		{"RotateRequest", "overlap", func(f *huma.Schema) {
			duration(f)
			f.Description = "How long the secret before goes on signing, at most 720h; absent: 24h"
		}},
		{"SecretRequest", "value", func(f *huma.Schema) {
			least, most := schema.MinSecretValue, schema.MaxSecretValue
			f.MinLength, f.MaxLength, f.WriteOnly = &least, &most, true
			f.Description = "Text of 4 to 65536 bytes, such as a token, a password, a PEM file or a JSON document"
		}},
		{"SessionRequest", "key", func(f *huma.Schema) {
			most := maxAuthorization
			f.MinLength, f.MaxLength, f.WriteOnly, f.Description = whole(1), &most, true, "An API key"
		}},
		{"TenantRequest", "weight", func(f *huma.Schema) {
			f.Minimum, f.Maximum, f.Description = number(1), number(admin.MaxWeight), "Its share where tenants compete; default 1"
		}},
		{"HomeChangeRequest", "to", says("The region that is to serve the home")},
		{"HomeChangeRequest", "reason", says("Why, in your words, at most 500 bytes: it is kept. Needed unless plan is true")},
		{"HomeChangeRequest", "confirm", says("The name of the home, typed by a person. Needed unless plan is true")},
		{"HomeChangeRequest", "plan", says("Only say what it would cost")},
		{"HomeChangeRequest", "drain", func(f *huma.Schema) {
			duration(f)
			f.Description = "Of a move: how long what is under way may end first, while nothing is taken in, at most 5m; absent: 4s"
		}},
		{"HomeChangeRequest", "sync", says("Of a move: compare the rows of all data centres first; absent: true")},
		{"HomeChangeRequest", "since", func(f *huma.Schema) {
			duration(f)
			f.Description = "Of a move: compare at least what was due since so long ago, such as since a cut began"
		}},
		{"HomeChangeRequest", "until", func(f *huma.Schema) {
			duration(f)
			f.Description = "Of a move: compare what is due within so long; absent: 15m"
		}},
		{"HomeChangeRequest", "accept_lag", says("Of a fail-over: also if the region that takes over is behind by more than 10 s, or it is not known by how much")},
		{"HomeChangeRequest", "accept_no_executors", says("Also if that region has no executor: it takes in, and starts nothing")},
		{"Quotas", "jobs", quota("Jobs that can have many runs and have not ended. They are counted seldom, so a few more may pass")},
		{"Quotas", "runs_per_minute", quota("Runs that are asked for, known and refused ones too, and those that schedules of jobs start: these wait (waiting.reason quota). Those of workflows are not counted")},
		{"Quotas", "concurrency", quota("Runs under way at once in the whole cluster; others wait (waiting.reason quota). A run of a workflow counts by its steps")},
		{"Quotas", "import_lines_per_second", quota("Lines of imports that are taken in: an import that is faster is slowed down")},
		{"Quotas", "payload_bytes_per_minute", quota("Bytes of payload of the runs that are asked for")},
	} {
		of := schemas[p.schema]
		if of == nil || of.Properties[p.field] == nil {
			return fmt.Errorf("the OpenAPI document has no %s.%s", p.schema, p.field)
		}
		p.say(of.Properties[p.field])
	}
	return nil
}
