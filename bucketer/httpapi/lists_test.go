package httpapi

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// TestAnEmptyListIsNotNull asks for everything that can be asked for where there is nothing: what
// the document calls a list is one in the answer.
func TestAnEmptyListIsNotNull(t *testing.T) {
	doc, compiler := described(t)
	c := &contract{doc: doc, c: compiler}
	lists := 0
	for at, s := range c.lists(doc["components"].(map[string]any)["schemas"]) {
		lists++
		if s["type"] != "array" {
			t.Errorf("%s is described as %v, want an array that is never null", at, s["type"])
		}
	}
	if lists < 15 {
		t.Errorf("the document has %d lists, want all of them", lists)
	}

	nothing := newAdminStub()
	nothing.entries, nothing.minutes = nil, nil
	nothing.signing, nothing.secrets = &signingDesk{}, &secretDesk{}
	ops := &stubOperations{}
	empty := func(_ *Config, d *Deps) {
		d.Operations, d.DeadLetters = ops, &stubLetters{b: newStub()}
		d.Targets = &stubTargets{}
		d.Cluster = func(context.Context) (Cluster, error) { return Cluster{}, nil }
	}
	hs := serve(t, newStub(), nothing.deps, empty)
	asked := 0
	for _, o := range c.operations() {
		if o.method != http.MethodGet || strings.Contains(o.path, "{") || o.path == whoamiPath {
			continue
		}
		query := url.Values{}
		parameters, _ := o.op["parameters"].([]any)
		for _, p := range parameters {
			p := p.(map[string]any)
			window := o.path == "/v1/runs" && (p["name"] == "from" || p["name"] == "to") // unless an event is asked for
			if (p["required"] == true || window) && p["in"] == "query" {
				query.Set(p["name"].(string), map[string]string{"from": "2026-11-21T09:00:00Z", "to": "2026-11-21T09:30:00Z", "by": "job"}[p["name"].(string)])
			}
		}
		path := o.path
		if len(query) > 0 {
			path += "?" + query.Encode()
		}
		status, _, text := do(t, hs, call{method: o.method, path: path})
		if asked++; status != 200 || bytes.Contains(text, []byte("null")) || !bytes.Contains(text, []byte("[]")) && o.path != tenantsPath && o.path != statsPath+"/states" {
			t.Errorf("GET %s of nothing = %d %s, want an empty list", path, status, text)
		}
	}
	if asked < 9 {
		t.Errorf("%d lists were asked for, want all", asked)
	}
}

// lists returns all schemas of lists within a part of the document, by where they are.
func (c *contract) lists(part any) map[string]map[string]any {
	found := make(map[string]map[string]any)
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(at, item)
			}
		case map[string]any:
			if _, ok := v["items"].(map[string]any); ok && v["type"] != nil {
				found[at] = v
			}
			for name, field := range v {
				if name != "examples" {
					walk(at+"/"+name, field)
				}
			}
		}
	}
	walk("", part)
	return found
}

// Every header parameter has a pattern, which what is taken matches.
func TestHeadersHavePatterns(t *testing.T) {
	doc, compiler := described(t)
	c := &contract{doc: doc, c: compiler}
	samples := map[string]map[string]bool{
		keyHeader: {
			"a": true, `"a"`: true, "grün 7": true, `"a \"b\""`: true, `a"`: true, `"""`: true, "": false, `"`: false, `""`: false, `"a`: false, "a\nb": false, "a\u0085": false,
		},
		"If-Match":   {"*": true, `"1"`: true, `"1", "2"`: true, "1": false, `"1" "2"`: false, "": false},
		tenantHeader: {"billing": true, "Billing": false},
	}
	seen := make(map[string]bool)
	for _, o := range c.operations() {
		parameters, _ := o.op["parameters"].([]any)
		for _, p := range parameters {
			p := p.(map[string]any)
			name := p["name"].(string)
			if p["in"] != "header" || name == "Content-Type" {
				continue
			}
			seen[name] = true
			pattern, _ := p["schema"].(map[string]any)["pattern"].(string)
			for sample, want := range samples[name] {
				if got := regexp.MustCompile(pattern).MatchString(sample); got != want {
					t.Errorf("%s %s: %s %q matches %s: %v, want %v", o.method, o.path, name, sample, pattern, got, want)
				}
				if _, faults := idempotencyKey(sample); name == keyHeader && sample != "" && (len(faults) == 0) != want {
					t.Errorf("the key %q has the faults %v, and its pattern matches: %v", sample, faults, want)
				}
			}
			if pattern == "" || samples[name] == nil {
				t.Errorf("%s %s: the header %s has no pattern, or no samples", o.method, o.path, name)
			}
		}
	}
	if len(seen) != len(samples) {
		t.Errorf("the document has the headers %v, want samples of these", seen)
	}
}

// TestPathsHavePatterns asks for each path with what its pattern does not match: it is refused, and
// nothing is done. What the pattern matches is not.
func TestPathsHavePatterns(t *testing.T) {
	doc, compiler := described(t)
	c := &contract{doc: doc, c: compiler}
	b, admins := newStub(), newAdminStub()
	hs := serve(t, b, admins.deps, withSigning, func(_ *Config, d *Deps) {
		d.Operations, d.DeadLetters = &stubOperations{}, &stubLetters{b: b}
	})
	samples := []string{
		"n", "a.b-c_d", strings.Repeat("a", 63), strings.Repeat("a", 64), "A b", "A", "-a", "é", "a@b", "0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60", "0192E5A0-7C00-8003-8D2F-5A1B9C3E7F60",
		"01932e5a-7c00-7003-8d2f-5a1b9c3e7f60", "0192e5a0-7c00-4003-8d2f-5a1b9c3e7f60", "0192e5a0-7c00-8003-cd2f-5a1b9c3e7f60", "0192e5a07c0080038d2f5a1b9c3e7f60",
	}
	paths := 0
	for _, o := range c.operations() {
		parameters, _ := o.op["parameters"].([]any)
		for _, p := range parameters {
			p := p.(map[string]any)
			if p["in"] != "path" {
				continue
			}
			paths++
			pattern, _ := p["schema"].(map[string]any)["pattern"].(string)
			if pattern == "" {
				t.Errorf("%s %s: %s has no pattern", o.method, o.path, p["name"])
				continue
			}
			matched := 0
			for _, sample := range samples {
				matches := regexp.MustCompile(pattern).MatchString(sample)
				if matches {
					matched++
				}
				made := call{method: o.method, path: strings.Replace(o.path, "{"+p["name"].(string)+"}", url.PathEscape(sample), 1)}
				// What else is in the path is right.
				made.path = strings.NewReplacer("{id}", "0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60", "{step}", "a").Replace(made.path)
				if o.op["requestBody"] != nil {
					made.body = bodies[o.path]
				}
				status, _, text := do(t, hs, made)
				if status == 404 && bytes.Contains(text, []byte("This node has no regions.")) {
					continue // TestAChangeOfAHomeIsRefused has some
				}
				refused := status == 422 && bytes.Contains(text, []byte(`"path.`))
				isID := len(sample) == 36 // a name is not, which no pattern says
				if refused == matches && (!isID || !matches) {
					t.Errorf("%s %s = %d %s; the pattern %s matches: %v", made.method, made.path, status, text, pattern, matches)
				}
			}
			if matched == 0 || matched == len(samples) {
				t.Errorf("%s %s: %s matches %d of %d samples", o.method, o.path, pattern, matched, len(samples))
			}
		}
	}
	if paths < 20 {
		t.Errorf("%d operations have something in their path, want all", paths)
	}
}

// bodies are bodies that are right, by path.
var bodies = map[string]string{
	"/v1/jobs/{id}": `{"payload":1}`, "/v1/jobs/{id}/backfills": `{"from":"2026-11-14T00:00:00Z"}`, "/v1/tasks/{name}": `{"nats":{"subject":"a"}}`,
	backfillPreviewPath: `{"from":"2026-11-14T00:00:00Z"}`, "/v1/tenants/{name}": `{}`, "/v1/workflows/{name}": small, "/v1/secrets/{name}": `{"value":"s3cret"}`, "/v1/notifications/{name}": ruleBody, "/v1/calendars/{name}": `{"dates":["2026-12-25"]}`,
	"/v1/events/{name}": `{"a":1}`,
	movePath:            `{"to":"us","plan":true}`, failoverPath: `{"to":"us","plan":true}`,
}
