package payload

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func compile(t testing.TB, text string) *Schema {
	t.Helper()
	s, err := Compile([]byte(text))
	if err != nil {
		t.Fatalf("Compile(%.200s): %v", text, err)
	}
	return s
}

// told returns the faults of an error, one a line.
func told(t testing.TB, err error) []string {
	t.Helper()
	var faults Faults
	if err != nil && !errors.As(err, &faults) {
		t.Fatalf("error %v (%T) is no Faults", err, err)
	}
	var lines []string
	for _, f := range faults {
		lines = append(lines, strings.TrimSpace(f.Pointer+" "+f.Message))
	}
	return lines
}

func TestCheck(t *testing.T) {
	const order = `{"type":"object","required":["to","items"],"additionalProperties":false,
		"properties":{
			"to":{"type":"string","minLength":3,"maxLength":20,"pattern":"@"},
			"copies":{"type":"integer","minimum":1,"exclusiveMaximum":10},
			"share":{"type":"number","multipleOf":0.1,"maximum":1},
			"how":{"enum":["air","sea",3]},
			"unit":{"const":{"a":1}},
			"items":{"type":"array","minItems":1,"maxItems":3,"uniqueItems":true,"items":{"$ref":"#/$defs/item"}},
			"a/b~c":{"type":"null"},
			"tags":{"type":"object","propertyNames":{"pattern":"^[a-z]+$"},"patternProperties":{"^n":{"type":"number"}},"maxProperties":2},
			"one":{"oneOf":[{"type":"string"},{"type":"object"}]},
			"two":{"oneOf":[{"minimum":1},{"minimum":2}]},
			"any":{"anyOf":[{"required":["x"]},{"properties":{"y":{"type":"string"}},"required":["y"]}]},
			"not":{"not":{"type":"string"}},
			"when":{"if":{"required":["a"]},"then":{"required":["b"]},"else":{"maxProperties":0}},
			"some":{"contains":{"type":"string"},"minContains":2},
			"dep":{"dependentRequired":{"card":["name"]}},
			"all":{"properties":{"p":true},"allOf":[{"properties":{"q":true}}],"unevaluatedProperties":false},
			"never":false
		},
		"$defs":{"item":{"type":"object","required":["id"],"properties":{"id":{"type":"integer"}}}}}`
	s := compile(t, order)
	tests := []struct {
		name, payload string
		want          []string
	}{
		{"fits", `{"to":"a@b.c","items":[{"id":1},{"id":2}],"copies":9,"share":0.3,"how":3,"unit":{"a":1.0},"a/b~c":null}`, nil},
		{"none", ``, []string{"must be object, is null"}},
		{"another type", `[1]`, []string{"must be object, is array"}},
		{"several", `{"to":"a","copies":1.5,"more":1,"items":[]}`, []string{
			`has "more", which the schema does not know`, "/copies must be integer, is number", "/items must have at least 1 items, has 0",
			"/to does not match the pattern @", "/to must have at least 3 characters, has 1",
		}},
		{"missing", `{}`, []string{`must have "items", "to"`}},
		{"deep", `{"to":"a@b","items":[{"id":1},{"id":"x"},{}]}`, []string{"/items/1/id must be integer, is string", `/items/2 must have "id"`}},
		{"twice", `{"to":"a@b","items":[{"id":1},{"id":1.0}]}`, []string{"/items has the same items at 0 and 1"}},
		{"numbers", `{"to":"a@b","items":[{"id":1}],"copies":10,"share":0.35}`, []string{"/copies must be less than 10", "/share must be a multiple of 0.1"}},
		{"above", `{"to":"a@b","items":[{"id":1}],"copies":0,"share":1.1}`, []string{"/copies must be at least 1", "/share must be at most 1"}},
		{"listed", `{"to":"a@b","items":[{"id":1}],"how":"land","unit":{"a":2}}`, []string{`/how must be one of "air", "sea", 3`, `/unit must be {"a":1}`}},
		{"escaped", `{"to":"a@b","items":[{"id":1}],"a/b~c":1}`, []string{"/a~1b~0c must be null, is number"}},
		{"names", `{"to":"a@b","items":[{"id":1}],"tags":{"A":1,"n":"x","z":1}}`, []string{
			`/tags has "A", which is no name for a member: it does not match the pattern ^[a-z]+$`, "/tags must have at most 2 members, has 3", "/tags/n must be number, is string",
		}},
		{"alternatives", `{"to":"a@b","items":[{"id":1}],"one":1,"two":3,"any":{},"not":"x"}`, []string{
			`/any must have "x", or must have "y"`, "/not is what the schema excludes by not",
			"/one must be string, is number, or must be object, is number", "/two fits more than one of the alternatives of oneOf: [0 1]",
		}},
		{"alternatives further down", `{"to":"a@b","items":[{"id":1}],"any":{"y":1}}`, []string{"/any fits none of the alternatives of anyOf"}},
		{"conditions", `{"to":"a@b","items":[{"id":1}],"when":{"a":1},"some":["x",1],"dep":{"card":1}}`, []string{
			`/dep has "card" and so must have "name"`, "/some must have at least 2 items that fit contains, has 1", `/when must have "b"`,
		}},
		{"otherwise", `{"to":"a@b","items":[{"id":1}],"when":{"c":1}}`, []string{"/when must have at most 0 members, has 1"}},
		{"not evaluated", `{"to":"a@b","items":[{"id":1}],"all":{"p":1,"q":1,"r":1}}`, []string{"/all/r is not allowed here"}},
		{"never", `{"to":"a@b","items":[{"id":1}],"never":null}`, []string{"/never is not allowed here"}},
		{"a long text", `{"to":"` + strings.Repeat("é", 21) + `","items":[{"id":1}]}`, []string{"/to does not match the pattern @", "/to must have at most 20 characters, has 21"}},
		{"a huge exponent", `{"to":"a@b","items":[{"id":1e401}]}`, []string{"/items/0/id is a number of more than 400 characters, or with an exponent beyond 400"}},
		{"a tiny number", `{"to":"a@b","items":[{"id":1}],"share":1E-0000000401}`, []string{"/share is a number of more than 400 characters, or with an exponent beyond 400"}},
		{"as large as may be", `{"to":"a@b","items":[{"id":1e400}]}`, nil},
		{"no JSON", `{`, []string{"is not JSON"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var text []byte
			if tt.payload != "" {
				text = []byte(tt.payload)
			}
			for range 3 { // members come in any order
				if got := told(t, s.Check(text)); !slices.Equal(got, tt.want) {
					t.Fatalf("Check(%s)\n got %q\nwant %q", tt.payload, got, tt.want)
				}
			}
		})
	}
}

func TestFaultsNameNoValueOfThePayload(t *testing.T) {
	s := compile(t, `{"properties":{
		"a":{"const":"x"},"b":{"enum":["x"]},"c":{"pattern":"^x$"},"d":{"type":"integer"},"e":{"maxLength":1},"f":{"not":{"type":"string"}},
		"g":{"type":"array","uniqueItems":true},"h":{"oneOf":[{"const":"x"},{"const":"y"}]}}}`)
	err := s.Check([]byte(`{"a":"secret","b":"secret","c":"secret","d":"secret","e":"secret","f":"secret","g":["secret","secret"],"h":"secret"}`))
	if lines := told(t, err); len(lines) != 8 || strings.Contains(err.Error(), "secret") {
		t.Errorf("Check = %q, want 8 faults without the value", lines)
	}
}

func TestFaultsAreBounded(t *testing.T) {
	s := compile(t, `{"items":{"type":"string"},"properties":{"x":{"additionalProperties":false}}}`)
	if got := told(t, s.Check([]byte("["+strings.Repeat("1,", 1000)+"1]"))); len(got) != maxFaults {
		t.Errorf("%d faults, want %d", len(got), maxFaults)
	}
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, `"%s%d":1,`, strings.Repeat("n", 100), i)
	}
	got := told(t, s.Check([]byte(`{"x":{`+b.String()+`"z":1}}`)))
	if len(got) != 1 || len(got[0]) > 2000 || !strings.Contains(got[0], "491 more") {
		t.Errorf("faults of 501 members = %.300q, want one short one", got)
	}
}

func TestCompileFaults(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"not":`, n) + `{}` + strings.Repeat(`}`, n) }
	tests := []struct {
		name, schema string
		want         []string
	}{
		{"no object", `true`, []string{"must be an object"}},
		{"no JSON", `{"a"`, []string{"is not JSON"}},
		{"an unknown type", `{"properties":{"a":{"type":"text"}}}`, []string{
			`/properties/a/type must be one of "array", "boolean", "integer", "null", "number", "object", "string", or must be array, is string`,
		}},
		{"several", `{"minLength":-1,"required":["a","a"],"items":[1]}`, []string{
			"/items must be boolean or object, is array", "/minLength must be at least 0", "/required has the same items at 0 and 1",
		}},
		{"a pattern that is none", `{"properties":{"a":{"pattern":"("}}}`, []string{"/properties/a/pattern is no pattern: missing closing ): ("}},
		{"a pattern that looks ahead", `{"pattern":"(?=x)"}`, []string{"/pattern is no pattern: invalid or unsupported Perl syntax: (?="}},
		{"a pattern of members that is none", `{"patternProperties":{"[":{}}}`, []string{`/patternProperties has "[", which is no name for a member: it is no pattern: missing closing ]: [`}},
		{"a pattern with a long program", `{"pattern":"(abcdefghij){500}"}`, []string{"/pattern is no pattern: the patterns of a schema may have 2000 instructions together"}},
		{"patterns with long programs together", `{"properties":{"a":{"pattern":"a{999}"},"b":{"pattern":"b{999}"},"c":{"pattern":"c{999}"}}}`, nil},
		{"another dialect", `{"$schema":"http://json-schema.org/draft-07/schema#"}`, []string{"/$schema must be https://json-schema.org/draft/2020-12/schema: other dialects are not known here"}},
		{"another dialect within", `{"$ref":"inner","$defs":{"x":{"$id":"inner","$schema":"http://json-schema.org/draft-07/schema#","type":"object"}}}`, []string{
			"/$defs/x must be of the dialect https://json-schema.org/draft/2020-12/schema",
		}},
		{"a reference to the web", `{"properties":{"a":{"$ref":"https://example.com/s.json#/x"}}}`, []string{"refers to https://example.com/s.json, which lies outside of it: nothing is fetched"}},
		{"a reference to a file", `{"$ref":"file:///etc/passwd"}`, []string{"refers to file:///etc/passwd, which lies outside of it: nothing is fetched"}},
		{"a reference beside it", `{"$ref":"other"}`, []string{"refers to carillon://task/other, which lies outside of it: nothing is fetched"}},
		{"a reference to a dialect", `{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, []string{"refers to https://json-schema.org/draft/2020-12/schema#, which lies outside of it"}},
		{"a reference to nothing", `{"$ref":"#/$defs/x"}`, []string{"refers to #/$defs/x, which it does not have"}},
		{"an anchor that is not there", `{"$ref":"#x"}`, []string{"refers to #x, which it does not have"}},
		{"a dynamic reference", `{"$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}}}`, []string{"/properties/a must not use $dynamicRef"}},
		{"too deep", nested(maxDepth + 1), []string{strings.Repeat("/not", maxDepth+1) + " is nested deeper than 32 levels"}},
		{"a number to choke on", `{"multipleOf":1e-999999}`, []string{"/multipleOf is a number of more than 400 characters, or with an exponent beyond 400"}},
		{"too many values", `{"enum":[` + strings.Repeat("1,", maxNodes) + `2]}`, []string{"has 1003 values, may have 1000"}},
		{"too long", `{"description":"` + strings.Repeat("x", MaxSchema) + `"}`, []string{"has 16402 bytes, may have 16384"}},
		{"a loop of references", `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Compile([]byte(tt.schema))
			got := told(t, err)
			if tt.name == "patterns with long programs together" {
				if len(got) != 1 || !strings.Contains(got[0], "2000 instructions together") {
					// which one hangs on the order of members
					t.Errorf("Compile = %q, want one fault about instructions", got)
				}
				return
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("Compile(%.200s)\n got %q\nwant %q", tt.schema, got, tt.want)
			}
		})
	}
}

func TestSchemasThatAreTaken(t *testing.T) {
	tests := []struct{ name, schema, fits, not string }{
		{"empty", `{}`, `1`, ``},
		{"named dialect", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"string"}`, `"x"`, `1`},
		{"an $id", `{"$id":"https://example.com/order","$ref":"#/$defs/n","$defs":{"n":{"type":"number"}}}`, `1`, `"x"`},
		{"an anchor", `{"$ref":"#n","$defs":{"n":{"$anchor":"n","type":"number"}}}`, `1`, `"x"`},
		{"a resource within", `{"$id":"https://example.com/a","$ref":"b","$defs":{"x":{"$id":"b","type":"number"}}}`, `1`, `"x"`},
		{"recursion", `{"type":"object","properties":{"next":{"$ref":"#"}}}`, `{"next":{"next":{}}}`, `{"next":{"next":1}}`},
		{"format is an annotation", `{"format":"email"}`, `"x"`, ``},
		{"unknown keywords", `{"x-team":"billing"}`, `1`, ``},
		{"a member called $ref", `{"properties":{"$ref":{"type":"string"}}}`, `{"$ref":"https://example.com"}`, `{"$ref":1}`},
		{"a tuple", `{"prefixItems":[{"type":"string"}],"items":false}`, `["x"]`, `["x",1]`},
		{"items not evaluated", `{"prefixItems":[true],"unevaluatedItems":false}`, `[1]`, `[1,2]`},
		{"dependent schemas", `{"dependentSchemas":{"a":{"required":["b"]}}}`, `{"a":1,"b":1}`, `{"a":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := compile(t, tt.schema)
			if err := s.Check([]byte(tt.fits)); err != nil {
				t.Errorf("Check(%s) = %v, want nil", tt.fits, err)
			}
			if tt.not != "" && s.Check([]byte(tt.not)) == nil {
				t.Errorf("Check(%s) = nil, want faults", tt.not)
			}
		})
	}
}

// hostile are schemas, and payloads of theirs, that would keep us busy for very long.
func hostile() map[string][2]string {
	doubling := func(keyword, each, leaf string) string { // each level applies the next one twice
		var b strings.Builder
		b.WriteString(`{"$id":"https://example.com/doubling","$ref":"#/$defs/l0","$defs":{`)
		for i := range 30 {
			ref := fmt.Sprintf(`{"$ref":"#/$defs/l%d"}`, i+1)
			fmt.Fprintf(&b, `"l%d":{"%s":%s},`, i, keyword, strings.ReplaceAll(each, "REF", ref))
		}
		return b.String() + `"l30":` + leaf + `}}`
	}
	long := strings.Repeat("a", 60_000)
	items := "[" + strings.Repeat("{},", 20_000) + "{}]"
	numbers := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%d,", i)
		}
		return "[" + b.String() + "0.5]"
	}
	nest := strings.Repeat(`{"a":`, 90) + "1" + strings.Repeat("}", 90)
	return map[string][2]string{
		"allOf twice":                 {doubling("allOf", `[REF,REF]`, `{"type":"object"}`), `{}`},
		"anyOf twice, that fail":      {doubling("anyOf", `[REF,REF]`, `{"type":"object"}`), `1`},
		"dependentSchemas, under not": {`{"not":` + doubling("dependentSchemas", `{"a":REF,"b":REF}`, `{"type":"string"}`) + `}`, `{"a":1,"b":1}`},
		"members by two ways":         {`{"properties":{"a":{"$ref":"#"}},"patternProperties":{"a":{"$ref":"#"},"^a":{"$ref":"#"}}}`, nest},
		"members by two ways, under not": {
			`{"not":{"$ref":"#/$defs/x"},"$defs":{"x":{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"patternProperties":{"a":{"$ref":"#/$defs/x"}}}}}`, nest,
		},
		"names": {`{"propertyNames":` + doubling("allOf", `[REF,REF]`, `{"type":"string"}`) + `}`, `{"a":1}`},
		"a pattern again and again": {
			`{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"pattern":"(a|aa|aaa|aaaa)*b"},`, 300), ",") + `]}`, `"` + long + `"`,
		},
		"a long enum for each item": {`{"items":{"enum":` + strings.Replace(numbers(900), "[0", "[-1", 1) + `}}`, numbers(12_000)},
		"unique, again and again":   {`{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"uniqueItems":true},`, 400), ",") + `]}`, numbers(12_000)},
		"not evaluated, again and again": {
			`{"unevaluatedItems":{},"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"contains":false,"minContains":0},`, 200), ",") + `]}`, items,
		},
		"lengths, again and again": {doubling("allOf", `[REF,REF]`, `{"maxLength":99999}`), `"` + long + `"`},
	}
}

func TestHostileSchemasAreStopped(t *testing.T) {
	for name, h := range hostile() {
		t.Run(name, func(t *testing.T) {
			s, err := Compile([]byte(h[0]))
			if err != nil {
				t.Fatalf("Compile: %v", err)
			}
			began := time.Now()
			got := told(t, s.Check([]byte(h[1])))
			if len(got) != 1 || !strings.HasPrefix(got[0], "takes too much work") {
				t.Errorf("Check = %.500q, want that it takes too much work", got)
			}
			if took := time.Since(began); took > 20*time.Second {
				// a few hundred ms are usual, and without the meter it would be hours
				t.Errorf("it took %s to say so", took)
			}
			if err := s.Check(nil); err != nil && strings.HasPrefix(told(t, err)[0], "takes") && !strings.Contains(name, "twice") && !strings.Contains(name, "lengths") {
				t.Errorf("the next Check = %v: the work of one payload counts for another", err)
			}
		})
	}
}

// Honest schemas may look at every value a few times.
func TestLargePayloadsAreChecked(t *testing.T) {
	s := compile(t, `{"type":"array","uniqueItems":true,"items":{"anyOf":[
		{"type":"object","required":["id","kind"],"properties":{"id":{"type":"integer"},"kind":{"enum":["a","b","c"]},"note":{"type":"string","pattern":"^[a-z ]*$"}},"additionalProperties":false},
		{"type":"object","required":["ref"],"properties":{"ref":{"$ref":"#/$defs/ref"}}}]},
		"$defs":{"ref":{"type":"string","pattern":"^[0-9a-f]{8}-[0-9a-f]{4}$","maxLength":13}}}`)
	var b strings.Builder
	n := 0
	for b.WriteString("["); b.Len() < 64<<10-100; n++ {
		fmt.Fprintf(&b, `{"id":%d,"kind":"c","note":"some words"},{"ref":"%08x-0123"},`, n, n)
	}
	text := []byte(strings.TrimSuffix(b.String(), ",") + "]")
	if err := s.Check(text); err != nil {
		t.Errorf("Check of %d items = %v", 2*n, err)
	}
	text = []byte(strings.Replace(string(text), `-0123"}]`, `-012"}]`, 1))
	if got := told(t, s.Check(text)); len(got) != 1 || !strings.HasPrefix(got[0], fmt.Sprintf("/%d ", 2*n-1)) {
		t.Errorf("Check with a fault in the last item = %.300q", got)
	}
}

func TestCacheIsBounded(t *testing.T) {
	var c Cache
	text := func(i int) []byte { return fmt.Appendf(nil, `{"enum":[%s%d]}`, strings.Repeat("0,", 900), i+1) }
	first, err := c.Schema(text(0))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Schema(text(0)); err != nil || again != first {
		t.Errorf("Schema again = %p, %v, want the one before, %p", again, err, first)
	}
	for i := range 2 * cacheNodes / 900 {
		if _, err := c.Schema(text(i)); err != nil {
			t.Fatal(err)
		}
		if nodes := len(c.known) * first.nodes; nodes > cacheNodes || nodes != c.nodes {
			t.Fatalf("%d schemas with %d values are kept, want at most %d", len(c.known), nodes, cacheNodes)
		}
	}
	if _, err := c.Schema([]byte(`{"type":1}`)); err == nil {
		t.Error("Schema of a bad text = nil error")
	}
}

func TestConcurrentChecks(t *testing.T) {
	s := compile(t, `{"type":"object","properties":{"n":{"type":"integer","pattern":"x"}}}`)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 200 {
				text, want := fmt.Appendf(nil, `{"n":%d}`, k), 0
				if (i+k)%2 == 0 {
					text, want = []byte(`{"n":"x"}`), 1
				}
				if got := told(t, s.Check(text)); len(got) != want {
					t.Errorf("Check(%s) = %q, want %d faults", text, got, want)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzSchema(f *testing.F) {
	f.Add(`{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/b"}]},"b":{"pattern":"^a*$"}}}`, `"aa"`)
	f.Add(`{"prefixItems":[{"type":"string"}],"unevaluatedItems":{"not":{"const":1}},"contains":{"enum":[1,"x"]}}`, `["x",2]`)
	f.Add(`{"type":"object","required":["a"],"properties":{"a":{"minimum":1}}}`, `{"a":0}`)
	f.Fuzz(func(t *testing.T, schema, text string) {
		s, err := Compile([]byte(schema))
		if err != nil {
			_ = told(t, err)
			return
		}
		_ = told(t, s.Check([]byte(text)))
	})
}

func BenchmarkCheck(b *testing.B) {
	s := compile(b, `{"type":"object","required":["to"],"properties":{"to":{"type":"string","pattern":"@"},"order":{"type":"integer","minimum":1}}}`)
	text := []byte(`{"to":"somebody@example.com","order":7}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Check(text); err != nil {
			b.Fatal(err)
		}
	}
}
