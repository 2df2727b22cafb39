package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/operations"
	"carillon.dev/carillon/schema"
)

// contract is the OpenAPI document as a caller reads it.
type contract struct {
	doc     map[string]any
	c       *jsonschema.Compiler
	answers map[string]*jsonschema.Schema // compiled, by pointer
}

// describedOperation is an operation of the document.
type describedOperation struct {
	method, path string
	op           map[string]any
}

func (c *contract) operations() (all []describedOperation) {
	paths := c.doc["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := paths[path].(map[string]any)
		for _, method := range slices.Sorted(maps.Keys(item)) {
			// An import and an export answer lines, and have tests of their own.
			if strings.HasPrefix(path, "/v1/") && path != importPath && path != historyPath {
				all = append(all, describedOperation{strings.ToUpper(method), path, item[method].(map[string]any)})
			}
		}
	}
	return all
}

// schemaOf resolves a reference within the document.
func (c *contract) schemaOf(s map[string]any) map[string]any {
	for {
		ref, ok := s["$ref"].(string)
		if !ok {
			return s
		}
		at := any(c.doc)
		for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			at = at.(map[string]any)[part]
		}
		s = at.(map[string]any)
	}
}

// known are values that mean something to the server that is driven, by the name of a parameter or
// a field.
var known = map[string][]string{
	"name": {"n", "t"}, "task": {"t"}, "url": {"http://x.test/a"}, "subject": {"a.b"}, "cron": {"0 9 * * MON-FRI", "@hourly", "60 * * * *"},
	"timezone": {"Europe/Berlin", "UTC", "Mars/Olympus"}, "label": {"team=a"}, "cursor": {"AAAA"}, "every": {"15m"}, "command": {"report"},
	"If-Match": {`"1"`, "*"}, "step": {"a", "b"}, "jobs": {"n"}, "late": {"5s"}, "target": {"http://b.test", "none"},
}

// odd are values that are hardly ever right.
var odd = []any{nil, "", "x", -1, 1e300, true, []any{}, map[string]any{}, strings.Repeat("a", 300), "\u0000", "0192e5a0-7c00-7003-8d2f-5a1b9c3e7f60", "9999-12-31T23:59:59-01:00"}

// value draws a value of a schema, for a field of that name. One in so many is odd.
func (c *contract) value(t *rapid.T, s map[string]any, name string, oddity, depth int) any {
	s = c.schemaOf(s)
	if oddity > 0 && rapid.IntRange(0, oddity).Draw(t, "oddity") == 0 {
		return rapid.SampledFrom(odd).Draw(t, "odd")
	}
	if words, ok := s["enum"].([]any); ok {
		return rapid.SampledFrom(words).Draw(t, name)
	}
	kind, _ := s["type"].(string)
	if kinds, ok := s["type"].([]any); ok {
		kind = kinds[0].(string)
	}
	switch kind {
	case "object":
		out := map[string]any{}
		properties, _ := s["properties"].(map[string]any)
		required, _ := s["required"].([]any)
		for _, field := range slices.Sorted(maps.Keys(properties)) {
			if slices.Contains(required, any(field)) || depth < 4 && rapid.IntRange(0, 3).Draw(t, "has "+field) == 0 {
				out[field] = c.value(t, properties[field].(map[string]any), field, oddity, depth+1)
			}
		}
		if more, ok := s["additionalProperties"].(map[string]any); ok {
			out["x-a"] = c.value(t, more, "x-a", oddity, depth+1)
		}
		return out
	case "array":
		return []any{c.value(t, s["items"].(map[string]any), name, oddity, depth+1)}
	case "integer", "number":
		return rapid.IntRange(1, 100).Draw(t, name)
	case "boolean":
		return rapid.Bool().Draw(t, name)
	case "string":
		return c.text(t, s, name)
	}
	return map[string]any{"any": []any{1, "b"}}
}

func (c *contract) text(t *rapid.T, s map[string]any, name string) string {
	if values, ok := known[name]; ok {
		return rapid.SampledFrom(values).Draw(t, name)
	}
	if s["format"] == "date-time" {
		return testNow.Add(time.Duration(rapid.IntRange(-100, 100).Draw(t, name)) * time.Minute).Format(time.RFC3339)
	}
	switch pattern, _ := s["pattern"].(string); pattern {
	case durationPattern:
		return rapid.SampledFrom([]string{"1s", "1m30s", "250ms", "1h", "0s"}).Draw(t, name)
	case "":
		return rapid.SampledFrom([]string{"a", "team", "grün"}).Draw(t, name)
	default:
		return rapid.StringMatching(pattern).Draw(t, name)
	}
}

// body draws the body of a request: one that may be taken, more often than not.
func (c *contract) body(t *rapid.T, o describedOperation, media map[string]any) string {
	v := c.value(t, media["schema"].(map[string]any), "", rapid.SampledFrom([]int{0, 0, 40, 5}).Draw(t, "how odd"), 0)
	if fields, ok := v.(map[string]any); ok && rapid.Bool().Draw(t, "to the point") {
		// What the document cannot say in a schema: which of the fields go together.
		switch {
		case strings.HasPrefix(o.path, "/v1/jobs"), strings.HasPrefix(o.path, "/v1/tasks"):
			for _, field := range []string{"key", "script", "http", "task", "guarantee"} {
				delete(fields, field)
			}
			if fields["nats"] = map[string]any{"subject": "a"}; o.method == "PATCH" {
				delete(fields, "nats")
			}
			if fields["schedule"] != nil || o.method == "PUT" || o.method == "POST" && fields["name"] != nil {
				fields["schedule"] = map[string]any{"every": "15m"}
			}
			for _, field := range []string{"start", "end", "retry"} {
				delete(fields, field)
			}
			if fields["schedule"] == nil || o.method == "PATCH" || strings.HasPrefix(o.path, "/v1/tasks") {
				for _, field := range []string{"name", "max_runs", "jitter", "concurrency"} {
					delete(fields, field)
				}
			}
			if strings.HasPrefix(o.path, "/v1/tasks") {
				delete(fields, "schedule")
			}
			// The more fields there are, the less likely is it that they go together.
			for _, field := range slices.Sorted(maps.Keys(fields)) {
				if !slices.Contains([]string{"name", "nats", "schedule"}, field) && rapid.IntRange(0, 3).Draw(t, "keeps "+field) > 0 {
					delete(fields, field)
				}
			}
		case o.path == "/v1/workflows/{name}":
			maps.DeleteFunc(fields, func(name string, _ any) bool {
				return !slices.Contains([]string{"payload", "priority", "labels", "deadline"}, name)
			})
			fields["steps"] = []any{map[string]any{"name": "a", "nats": map[string]any{"subject": "a"}}}
		case strings.HasSuffix(o.path, "/preview"):
			fields["schedule"] = map[string]any{"every": "15m"}
			delete(fields, "end")
		case o.path == "/v1/calendars/{name}":
			fields["dates"] = []any{"2026-12-25"}
			delete(fields, "icalendar")
		case o.path == operationsPath:
			fields["action"], fields["filter"] = "pause", map[string]any{}
		case strings.Contains(o.path, "/backfills"):
			fields["from"], fields["to"] = "2026-11-14T00:00:00Z", "2026-11-21T00:00:00Z"
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if rapid.IntRange(0, 20).Draw(t, "cut") == 0 {
		text = text[:len(text)/2]
	}
	return string(text)
}

// troublesOf returns what may befall those whom the API speaks for when it asks them for the
// operation.
func troublesOf(o describedOperation) []error {
	troubles := []error{schema.ErrUnavailable, context.DeadlineExceeded}
	if o.method == http.MethodGet || strings.HasSuffix(o.path, "/preview") {
		return troubles
	}
	troubles = append(troubles, bucketer.ErrNotReady, schema.ErrUnknown)
	if strings.HasPrefix(o.path, "/v1/jobs") || strings.HasPrefix(o.path, "/v1/runs") || strings.HasPrefix(o.path, "/v1/workflows") {
		quota := &admin.QuotaError{Quota: "runs_per_minute", Limit: 1, RetryAfter: time.Second}
		troubles = append(troubles, bucketer.ErrPartitionFull, bucketer.ErrOverloaded, schema.ErrConflict, quota)
	}
	if o.path == "/v1/tasks/{name}" && o.method == http.MethodPut {
		troubles = append(troubles, bucketer.ErrManyRates)
	}
	if o.path == operationsPath || strings.HasSuffix(o.path, "/backfills") {
		troubles = append(troubles, operations.ErrManyOperations)
	}
	return troubles
}

// TestAnswersAreThoseOfTheDocument drives every operation with random values, and compares what
// comes back with the document: statuses, media types, bodies and headers. Whatever is asked,
// nothing is answered 500.
func TestAnswersAreThoseOfTheDocument(t *testing.T) {
	doc, compiler := described(t)
	c := &contract{doc: doc, c: compiler, answers: map[string]*jsonschema.Schema{}}
	b, admins := newStub(), newAdminStub()
	ops := &stubOperations{byID: map[string]schema.Operation{}, keys: map[string]string{}}
	letters := &stubLetters{b, map[schema.RunID]schema.ResolutionKind{}, map[schema.RunID]schema.RunID{}}
	targets := broken(defaultTenant)
	hs := serve(t, b, admins.deps, withSigning, func(_ *Config, d *Deps) { d.Operations, d.DeadLetters, d.Targets = ops, letters, targets })
	doJSON(t, hs, call{method: "PUT", path: "/v1/tasks/t", body: `{"nats":{"subject":"a"}}`}, 201, nil)
	doJSON(t, hs, call{method: "PUT", path: "/v1/notifications/n", body: ruleBody}, 201, nil)
	var begun OperationBegun
	doJSON(t, hs, call{method: "POST", path: operationsPath, body: `{"action":"pause","filter":{}}`}, 202, &begun)

	outer := t
	operations := c.operations()
	befall := func(err error) { b.befall(err); admins.befall(err); ops.err, targets.err = err, err }
	succeeded := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		// What is asked for is there, however the requests before have left it.
		b.free("n", "w")
		job := created(outer, b, `{"name":"n","nats":{"subject":"a"},"schedule":{"every":"15m"},"labels":{"team":"a"},"payload":{"a":1}}`)
		ended := b.ends(job.ID, testNow.Add(-time.Hour), schema.StateFailed)
		doJSON(outer, hs, call{method: "PUT", path: "/v1/workflows/w", body: small}, b.anew("w"), nil)
		var ofWorkflow Run
		doJSON(outer, hs, call{method: "POST", path: "/v1/workflows/w/trigger"}, 202, &ofWorkflow)
		var oneOff Job
		doJSON(outer, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &oneOff)
		var backfill Operation
		doJSON(outer, hs, call{
			method: "POST", path: "/v1/jobs/n/backfills", body: `{"from":"2026-11-14T00:00:00Z","to":"2026-11-21T00:00:00Z"}`,
		}, 202, &backfill)
		ids := []string{
			backfill.ID.String(),
			"n", "t", "w", ofWorkflow.ID.String(), job.ID.String(), ended.String(), oneOff.ID.String(), begun.ID.String(), "none", "0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60", "A b", "%00", "..", "é",
		}
		right := map[string]string{
			"jobs": job.ID.String(), "runs": ended.String(), "dead-letters": ended.String(), "operations": backfill.ID.String(), "tasks": "t", "workflows": "w",
			"api-keys": "n", "signing-keys": "n", "secrets": "n", "notifications": "n", "tenants": "n",
		}
		for _, o := range operations {
			made, query := call{method: o.method, header: http.Header{}}, url.Values{}
			path := o.path
			parameters, _ := o.op["parameters"].([]any)
			for _, p := range parameters {
				p := p.(map[string]any)
				name, in := p["name"].(string), p["in"].(string)
				s := p["schema"].(map[string]any)
				if in == "path" {
					asked := right[strings.Split(o.path, "/")[2]]
					switch {
					case name == "step":
						asked = "a"
					case o.path == "/v1/runs/{id}/graph", o.path == "/v1/runs/{id}/steps/{step}/skip":
						asked = ofWorkflow.ID.String()
					case o.path == "/v1/runs/{id}/cancel":
						asked = oneOff.ID.String()
					case o.path == "/v1/jobs/{id}" && o.method == http.MethodPut:
						asked = "n"
					}
					if asked == "" || rapid.Bool().Draw(t, "another") {
						asked = rapid.SampledFrom(ids).Draw(t, name)
					}
					path = strings.Replace(path, "{"+name+"}", url.PathEscape(asked), 1)
					continue
				}
				most := 4
				if slices.Contains([]string{"event", "workflow_run", "at", "step"}, name) { // hardly anything goes beside them
					most = 20
				}
				if required, _ := p["required"].(bool); !required && rapid.IntRange(0, most).Draw(t, "has "+name) > 0 {
					continue
				}
				value := c.value(t, s, name, 8, 0)
				text := fmt.Sprint(value)
				several, _ := value.([]any)
				switch {
				case in == "query" && s["type"] == "array":
					for _, one := range several {
						query.Add(name, fmt.Sprint(one))
					}
				case in == "query":
					query.Set(name, text)
				case !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }):
					made.header.Set(name, text)
				}
			}
			made.path = path
			if len(query) > 0 {
				made.path += "?" + query.Encode()
			}
			if request, ok := o.op["requestBody"].(map[string]any); ok {
				content := request["content"].(map[string]any)
				media := rapid.SampledFrom(slices.Sorted(maps.Keys(content))).Draw(t, "media")
				made.body = c.body(t, o, content[media].(map[string]any))
				made.header.Set("Content-Type", media)
			}
			var trouble error
			if rapid.IntRange(0, 4).Draw(t, "in trouble") == 0 {
				trouble = rapid.SampledFrom(troublesOf(o)).Draw(t, "trouble")
			}
			befall(trouble)
			status, header, text := do(outer, hs, made)
			befall(nil)
			if status < 300 {
				succeeded[o.method+" "+o.path] = true
			}
			if fault := c.check(o, status, header, text); fault != "" {
				t.Fatalf("%s %s %v %s in trouble %v = %d %s: %s", o.method, made.path, made.header, made.body, trouble, status, text, fault)
			}
			if status == 500 || status > 500 && trouble == nil {
				t.Fatalf("%s %s %v %s = %d %s, which is nobody's fault but ours", o.method, made.path, made.header, made.body, status, text)
			}
		}
	})
	var never []string
	for _, o := range operations {
		// There is nothing to log in to where no keys are asked for: see TestASessionIsAKeyInACookie.
		// Nor are there regions whose homes could go elsewhere.
		if name := o.method + " " + o.path; !succeeded[name] && name != "POST "+sessionPath && !strings.HasPrefix(o.path, "/v1/admin/regions/") {
			never = append(never, name)
		}
	}
	if len(never) > 3 && !testing.Short() { // one or two may have bad luck, and many of few tries
		t.Errorf("%q never succeeded: the test says little about them", never)
	}
}

// TestLinesOfImportsAreThoseOfTheDocument sends random lines, some of which are none, and compares
// each line of the answer with the document.
func TestLinesOfImportsAreThoseOfTheDocument(t *testing.T) {
	doc, compiler := described(t)
	c := &contract{doc: doc, c: compiler, answers: map[string]*jsonschema.Schema{}}
	b := newStub()
	hs := serve(t, b)
	doJSON(t, hs, call{method: "PUT", path: "/v1/tasks/t", body: `{"nats":{"subject":"a"}}`}, 201, nil)
	item := doc["paths"].(map[string]any)[importPath].(map[string]any)["post"].(map[string]any)
	o := describedOperation{http.MethodPost, importPath, item}
	media := item["requestBody"].(map[string]any)["content"].(map[string]any)[ndjson].(map[string]any)
	line, err := compiler.Compile("openapi.json#/paths/~1v1~1imports/post/responses/200/content/application~1x-ndjson/schema")
	if err != nil {
		t.Fatal(err)
	}
	outer, statuses := t, map[int]int{}
	// send sends lines while trouble befalls what answers them.
	send := func(t interface{ Fatalf(string, ...any) }, made call, lines int, trouble error) {
		b.befall(trouble)
		status, header, text := do(outer, hs, made)
		b.befall(nil)
		if status != http.StatusOK {
			if fault := c.check(o, status, header, text); fault != "" || status >= 500 {
				t.Fatalf("%s %v = %d %s: %s", made.path, made.header, status, text, fault)
			}
			return
		}
		var last struct{ Summary *ImportSummary }
		for answer := range bytes.Lines(text) {
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(answer))
			if err == nil {
				err = line.Validate(v)
			}
			if err != nil {
				t.Fatalf("%s of %s in trouble %v: the line %s is not of the document: %v", made.path, made.body, trouble, answer, err)
			}
			var one struct{ Status int }
			if last.Summary = nil; json.Unmarshal(answer, &one) != nil || json.Unmarshal(answer, &last) != nil {
				t.Fatalf("the line %s cannot be read", answer)
			}
			if statuses[one.Status]++; one.Status == http.StatusInternalServerError {
				t.Fatalf("%s is answered %s", made.body, answer)
			}
		}
		if last.Summary == nil || last.Summary.Lines != int64(lines) {
			t.Fatalf("%s of %d lines ends with %+v, want the summary", made.path, lines, last.Summary)
		}
	}
	troubles := troublesOf(describedOperation{http.MethodPost, "/v1/jobs", nil})
	for _, trouble := range append(troubles, nil) { // each meets a line that is right
		send(t, call{method: http.MethodPost, path: importPath, body: `{"task":"t"}`, header: http.Header{"Content-Type": {ndjson}}}, 1, trouble)
	}
	rapid.Check(t, func(t *rapid.T) {
		var body strings.Builder
		lines := rapid.IntRange(0, 20).Draw(t, "lines")
		for range lines {
			body.WriteString(c.body(t, describedOperation{http.MethodPost, "/v1/jobs", nil}, media) + "\n")
		}
		made := call{method: http.MethodPost, path: importPath, body: body.String(), header: http.Header{
			"Content-Type": {rapid.SampledFrom([]string{ndjson, ndjson, ndjson, "application/json"}).Draw(t, "type")},
		}}
		if rapid.IntRange(0, 4).Draw(t, "asks") == 0 {
			made.path += "?" + rapid.SampledFrom([]string{"results=errors", "validate_only=true", "results=some", "x=1"}).Draw(t, "query")
		}
		var trouble error
		if rapid.IntRange(0, 1).Draw(t, "in trouble") == 0 {
			trouble = rapid.SampledFrom(troubles).Draw(t, "trouble")
		}
		send(t, made, lines, trouble)
	})
	for _, status := range []int{201, 400, 422, 429, 503} {
		if statuses[status] == 0 {
			t.Errorf("no line was answered %d: %v", status, statuses)
		}
	}
}

// check says what is wrong with an answer, or "".
func (c *contract) check(o describedOperation, status int, header http.Header, text []byte) string {
	responses := o.op["responses"].(map[string]any)
	code := fmt.Sprint(status)
	response, ok := responses[code].(map[string]any)
	if !ok {
		return "the document has no such status"
	}
	content, _ := response["content"].(map[string]any)
	media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	if len(content) == 0 {
		if len(text) > 0 {
			return "the document has no body"
		}
		return ""
	}
	if content[media] == nil {
		return "the document has no answer of the type " + media
	}
	if wait, err := strconv.Atoi(header.Get("Retry-After")); (status == 429 || status == 503) && (err != nil || wait < 1) {
		return "Retry-After is " + header.Get("Retry-After")
	}
	headers, _ := response["headers"].(map[string]any)
	for name := range headers {
		if status == 201 && name != "Idempotency-Replayed" && header.Get(name) == "" {
			return "it has no header " + name
		}
	}
	if media == "text/plain" {
		return ""
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	at := "openapi.json#/paths/" + escape.Replace(o.path) + "/" + strings.ToLower(o.method) + "/responses/" + code + "/content/" + escape.Replace(media) + "/schema"
	compiled, ok := c.answers[at]
	if !ok {
		var err error
		if compiled, err = c.c.Compile(at); err != nil {
			return err.Error()
		}
		c.answers[at] = compiled
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = compiled.Validate(v)
	}
	if err != nil {
		return err.Error()
	}
	if p, ok := v.(map[string]any); status == 422 && (!ok || p["errors"] == nil) {
		return "no fault is named"
	}
	return ""
}
