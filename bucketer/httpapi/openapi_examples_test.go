package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// What the document shows is what the server takes, and what it says of itself.
func TestExamplesAreTrue(t *testing.T) {
	doc, compiler := described(t)
	c := &contract{doc: doc, c: compiler}
	valid := func(at string, v any) {
		t.Helper()
		compiled, err := compiler.Compile("openapi.json#" + at)
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(v); err != nil {
			t.Errorf("the example of %s is not valid: %v", at, err)
		}
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	b := newStub()
	hs := serve(t, b, withOperations, withSigning, newAdminStub().rules.deps)
	for _, name := range []string{"report", "send-email", "reminder"} {
		doJSON(t, hs, call{method: "PUT", path: "/v1/tasks/" + name, body: `{"nats":{"subject":"a"}}`}, 201, nil)
	}
	job := created(t, b, nightly)
	shown := map[string]bool{}
	for _, o := range c.operations() {
		id := o.op["operationId"].(string)
		request, ok := o.op["requestBody"].(map[string]any)
		if !ok || requestExamples[id] == nil {
			continue
		}
		for media, content := range request["content"].(map[string]any) {
			examples, _ := content.(map[string]any)["examples"].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(examples)) {
				shown[id] = true
				value := examples[name].(map[string]any)["value"]
				if o.method != http.MethodPatch { // a patch is no job
					valid("/paths/"+escape.Replace(o.path)+"/"+strings.ToLower(o.method)+"/requestBody/content/"+escape.Replace(media)+"/schema", value)
				}
				text, err := json.Marshal(value)
				if err != nil {
					t.Fatal(err)
				}
				path := strings.NewReplacer("{id}", "an-example", workflowsPath+"/{name}", workflowsPath+"/a-workflow", "{name}", "an-example").Replace(o.path)
				if o.method == http.MethodPatch {
					path = "/v1/jobs/" + job.ID.String()
				}
				made := call{method: o.method, path: path, body: string(text), header: http.Header{"Content-Type": {media}}}
				if status, _, answer := do(t, hs, made); status >= 300 {
					t.Errorf("the example %q of %s is answered %d %s", name, id, status, answer)
				}
			}
		}
	}
	for id := range requestExamples {
		if !shown[id] {
			t.Errorf("the document shows no example of %s", id)
		}
	}
	for name, texts := range schemaExamples {
		s := doc["components"].(map[string]any)["schemas"].(map[string]any)[name].(map[string]any)
		examples, _ := s["examples"].([]any)
		if len(examples) != len(texts) {
			t.Errorf("the document shows %d examples of %s, want %d", len(examples), name, len(texts))
		}
		for _, example := range examples {
			valid("/components/schemas/"+name, example)
		}
	}
}

// Every status that says what went wrong shows at least one problem that has it, and that is one of
// ours.
func TestEveryErrorStatusHasAnExample(t *testing.T) {
	doc, compiler := described(t)
	problem, err := compiler.Compile("openapi.json#/components/schemas/Problem")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{} // kind to title
	for _, p := range problemExamples() {
		known[p.Type] = p.Title
	}
	examples := doc["components"].(map[string]any)["examples"].(map[string]any)
	shown := map[string]bool{}
	seen := 0
	for path, item := range doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			for code, response := range op.(map[string]any)["responses"].(map[string]any) {
				if code < "400" {
					continue
				}
				content, _ := response.(map[string]any)["content"].(map[string]any)
				media, _ := content[problemJSON].(map[string]any)
				of, _ := media["examples"].(map[string]any)
				if media == nil && path == "/readyz" {
					continue // lines of text
				}
				if seen++; len(of) == 0 {
					t.Errorf("%s %s: %s has no example", method, path, code)
				}
				for name, ref := range of {
					shown[name] = true
					example, _ := examples[name].(map[string]any)
					value, _ := example["value"].(map[string]any)
					if ref.(map[string]any)["$ref"] != "#/components/examples/"+name || value == nil {
						t.Errorf("%s %s: the example %s of %s leads to nothing: %v", method, path, name, code, ref)
						continue
					}
					if err := problem.Validate(value); err != nil {
						t.Errorf("the example %s is not valid: %v", name, err)
					}
					if title := known[value["type"].(string)]; fmt.Sprint(value["status"]) != code || title == "" {
						t.Errorf("%s %s: %s is shown as %v", method, path, code, value)
					}
				}
			}
		}
	}
	if seen < 200 {
		t.Errorf("%d statuses say what went wrong, want those of all operations", seen)
	}
	for name := range problemExamples() {
		if !shown[name] && name != "no-task" {
			t.Errorf("no operation shows the example %s", name)
		}
	}
}
