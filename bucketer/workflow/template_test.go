package workflow

import (
	"encoding/json"
	"strings"
	"testing"

	"carillon.dev/carillon/schema"
)

// prepared is what a step b becomes that comes after a, and has those fields.
func prepared(t *testing.T, fields, payload, output string) (Prepared, error) {
	t.Helper()
	g := mustCompile(t, two(fields))
	return g.Prepare(1, outputs(g, payload, map[string]string{"a": output}))
}

func TestPayloads(t *testing.T) {
	const input = `{"date":"2026-11-21","n":1.50,"list":[10, 20 ,30],"a/b":{"m~n":true},"":"empty","é\u00e9":"u","twice":1,"twice":2}`
	const output = ` {"files": [ "x" , {"y": [1, 2]} ], "big": 12345678901234567890, "s": "a \"b\" \\ c", "null":null} `
	for name, row := range map[string]struct{ payload, want string }{
		"none":                  {``, ``},
		"null":                  {`null`, ``},
		"a literal":             {`{"a" : [ 1 , "x  y" , {} , [] , true ] }`, `{"a":[1,"x  y",{},[],true]}`},
		"a scalar":              {`"x"`, `"x"`},
		"an escape":             {`"\u0041\"\\"`, `"\u0041\"\\"`},
		"a whole output":        {`{"$from":"a"}`, `{"files":["x",{"y":[1,2]}],"big":12345678901234567890,"s":"a \"b\" \\ c","null":null}`},
		"a part of an output":   {`{"$from":"a","pointer":"/files/1/y/0"}`, `1`},
		"pointer first":         {`{"pointer":"/files/0","$from":"a"}`, `"x"`},
		"numbers stay":          {`[{"$from":"a","pointer":"/big"},{"$input":"/n"}]`, `[12345678901234567890,1.50]`},
		"strings stay":          {`{"$from":"a","pointer":"/s"}`, `"a \"b\" \\ c"`},
		"null is there":         {`[{"$from":"a","pointer":"/null"}]`, `[null]`},
		"input":                 {`{"d":{"$input":"/date"},"all":[{"$input":"/list"}]}`, `{"d":"2026-11-21","all":[[10,20,30]]}`},
		"pointers with escapes": {`[{"$input":"/a~1b/m~0n"},{"$input":"/"},{"$input":"/éé"}]`, `[true,"empty","u"]`},
		"the last of two":       {`{"$input":"/twice"}`, `2`},
		"the run":               {`{"id":{"$run":"/id"},"at":{"$run":"/nominal_at"}}`, `{"id":"` + uuid + `","at":"2026-11-21T09:30:00.000Z"}`},
		"other dollars":         {`{"$ref":"a","$from_":1,"pointer":"/x","x":{"$":{"$in":[1]}}}`, `{"$ref":"a","$from_":1,"pointer":"/x","x":{"$":{"$in":[1]}}}`},
		"within one another":    {`{"a":{"b":[{"c":{"$input":"/date"}},{"$input":"/date"}]},"d":1}`, `{"a":{"b":[{"c":"2026-11-21"},"2026-11-21"]},"d":1}`},
		"an escaped name":       {`{"\u0024input":"/date"}`, `"2026-11-21"`},
	} {
		t.Run(name, func(t *testing.T) {
			fields := `"task":"t"`
			if row.payload != "" {
				fields += `,"payload":` + row.payload
			}
			got, err := prepared(t, fields, input, output)
			if err != nil || got.Skip || len(got.Items) != 1 || string(got.Items[0]) != row.want || (got.Items[0] == nil) != (row.want == "") {
				t.Errorf("Prepare = %q, %v; want %s", got.Items, err, row.want)
			}
		})
	}
}

func TestItems(t *testing.T) {
	for name, row := range map[string]struct {
		fields string
		want   string // items with | between them
	}{
		"of an output":       {`"for_each":{"from":"a","pointer":"/files"},"payload":{"f":{"$item":""},"n":{"$index":true},"d":{"$input":"/date"}}`, `{"f":"x","n":0,"d":"today"}|{"f":{"y":[1,2]},"n":1,"d":"today"}`},
		"of a whole output":  {`"for_each":{"from":"a","pointer":"/files/1/y"},"payload":{"$item":""}`, `1|2`},
		"of the input":       {`"for_each":{"input":"/list"},"payload":[{"$item":"/k"}]`, `[1]|[2]`},
		"stated":             {`"for_each":{"items":[ 1 , {"x": [ 2 ]}, null ]},"payload":{"$item":""}`, `1|{"x":[2]}|null`},
		"the same for each":  {`"for_each":{"items":[1,2]},"payload":{"d":{"$input":"/date"}}`, `{"d":"today"}|{"d":"today"}`},
		"without payload":    {`"for_each":{"items":[1,2]}`, `|`},
		"none":               {`"for_each":{"items":[]},"payload":{"$item":""}`, ``},
		"none of the output": {`"for_each":{"from":"a","pointer":"/none"}`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := prepared(t, `"task":"t",`+row.fields, `{"date":"today","list":[{"k":1},{"k":2}]}`, `{"files":["x",{"y":[1,2]}],"none":[]}`)
			if err != nil || got.Skip {
				t.Fatalf("Prepare = %+v, %v", got, err)
			}
			var texts []string
			for _, item := range got.Items {
				texts = append(texts, string(item))
			}
			if strings.Join(texts, "|") != row.want || row.want == "" && len(got.Items) != 0 {
				t.Errorf("Prepare = %q, want %s", texts, row.want)
			}
		})
	}
}

// TestWhatCannotBePreparedSaysWhy: the step fails, and its reason names the place.
func TestWhatCannotBePreparedSaysWhy(t *testing.T) {
	long := `"` + strings.Repeat("x", schema.MaxPayload) + `"`
	for name, row := range map[string]struct{ fields, input, output, want string }{
		"a missing member":         {`"payload":{"$from":"a","pointer":"/files/0"}`, `{}`, `{"x":1}`, `payload: the output of step "a" has no /files`},
		"a missing element":        {`"payload":{"$from":"a","pointer":"/x/2/y"}`, `{}`, `{"x":[1,2]}`, `payload: the output of step "a" has no /x/2: /x is an array of 2`},
		"an element by name":       {`"payload":{"$from":"a","pointer":"/x/01"}`, `{}`, `{"x":[1,2]}`, `payload: the output of step "a" has no /x/01: /x is an array of 2`},
		"an element beyond":        {`"payload":{"$from":"a","pointer":"/-"}`, `{}`, `[1,2]`, `payload: the output of step "a" has no /-: it is an array of 2`},
		"a member of a string":     {`"payload":{"$from":"a","pointer":"/x/y"}`, `{}`, `{"x":"z"}`, `payload: the output of step "a" has no /x/y: /x is a string`},
		"no output":                {`"payload":{"$from":"a","pointer":"/x"}`, `{}`, ``, `payload: the output of step "a" has no /x: it is null`},
		"an output that is text":   {`"payload":{"$from":"a"}`, `{}`, `all went well`, `payload: the output of step "a" is not JSON`},
		"an output of two values":  {`"payload":{"$from":"a"}`, `{}`, `{}{}`, `payload: the output of step "a" is not JSON`},
		"an output that is cut":    {`"payload":{"$from":"a","pointer":"/x"}`, `{}`, `{"x":1`, `payload: the output of step "a" is not JSON`},
		"an output not UTF-8":      {`"payload":{"$from":"a"}`, `{}`, "\"\xff\"", `payload: the output of step "a" is not JSON: it is not UTF-8`},
		"a huge output":            {`"payload":{"$from":"a","pointer":"/x"}`, `{}`, strings.Repeat(" ", 10) + strings.Repeat("[", MaxOutput+1), `payload: the output of step "a" is 8388609 bytes, and may be at most 8388608`},
		"a missing input":          {`"payload":{"$input":"/date"}`, ``, `{}`, `payload: the payload of the run has no /date: it is null`},
		"an input that is none":    {`"payload":{"$input":"/date"}`, `{`, `{}`, `payload: the payload of the run is not JSON`},
		"a payload that is large":  {`"payload":{"$from":"a"}`, `{}`, long, `payload: is 65538 bytes of JSON, and may be at most 65536`},
		"one by parts":             {`"payload":[{"$from":"a"},{"$from":"a"}]`, `{}`, `"` + strings.Repeat("x", 33000) + `"`, `payload: is 66007 bytes of JSON`},
		"a missing part of item 1": {`"for_each":{"from":"a"},"payload":{"$item":"/x"}`, `{}`, `[{"x":1},{"y":2}]`, `payload: item 1 has no /x`},
		"a large item":             {`"for_each":{"from":"a"},"payload":{"$item":""}`, `{}`, `[1,` + long + `]`, `payload: is 65538 bytes of JSON`},
		"items without a list":     {`"for_each":{"from":"a","pointer":"/x"}`, `{}`, `{"x":{"y":1}}`, `for_each: the output of step "a" has an object at /x, not an array`},
		"items of a string":        {`"for_each":{"from":"a"}`, `{}`, `"x"`, `for_each: the output of step "a" is a string, not an array`},
		"items that are missing":   {`"for_each":{"input":"/x"}`, `[]`, `{}`, `for_each: the payload of the run has no /x: it is an array of 0`},
		"items not JSON":           {`"for_each":{"from":"a"}`, `{}`, `x`, `for_each: the output of step "a" is not JSON`},
		"10,001 items":             {`"for_each":{"from":"a"}`, `{}`, `[` + strings.TrimSuffix(strings.Repeat("1,", 10_001), ",") + `]`, `for_each: the output of step "a" has 10001 items, and may have at most 10000`},
		"too much together":        {`"for_each":{"from":"a"},"payload":[{"$index":true},{"$input":""}]`, `"` + strings.Repeat("x", 60_000) + `"`, `[` + strings.TrimSuffix(strings.Repeat("1,", 1000), ",") + `]`, `payload: those of all items are more than 33554432 bytes together`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := prepared(t, `"task":"t",`+row.fields, row.input, row.output)
			if err == nil {
				t.Fatalf("Prepare = %.200q, want a failure", got.Items)
			}
			if reason := failure(t, err); !strings.HasPrefix(reason, row.want) {
				t.Errorf("Prepare fails with %q, want %q", reason, row.want)
			}
		})
	}
}

// TestTheMostItems: ten thousand of them, with the same and with different payloads.
func TestTheMostItems(t *testing.T) {
	list := `[` + strings.TrimSuffix(strings.Repeat(`{"k":1},`, MaxItems), ",") + `]`
	for _, payload := range []string{`{"$item":"/k"}`, `{"$input":""}`} {
		got, err := prepared(t, `"task":"t","for_each":{"from":"a"},"payload":`+payload, `"`+strings.Repeat("x", 60_000)+`"`, list)
		if err != nil || len(got.Items) != MaxItems {
			t.Errorf("Prepare with %s = %d items, %v", payload, len(got.Items), err)
		}
	}
}

func TestRunPayload(t *testing.T) {
	for text, want := range map[string]string{
		``: ``, `null`: ``, `[ 1 ]`: `[1]`,
		`{"date":{"$run":"/nominal_at"},"x":{"$run":"/id"}}`: `{"date":"2026-11-21T09:30:00.000Z","x":"` + uuid + `"}`,
	} {
		if faults := CheckRunPayload(json.RawMessage(text)); len(faults) > 0 {
			t.Errorf("CheckRunPayload(%s) = %+v", text, faults)
		}
		if got, err := ResolveRunPayload(json.RawMessage(text), uuid, testNow); err != nil || string(got) != want {
			t.Errorf("ResolveRunPayload(%s) = %s, %v; want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"x":[{"$from":"a"}]}`: `/x/0/$from cannot be used here: the payload of a run may refer to $run alone`,
		`{"$input":""}`:         `/$input cannot be used here`,
		`{"$item":""}`:          `/$item cannot be used here`,
		`{"$run":"/x"}`:         `/$run must be "/id" or "/nominal_at"`,
		`{`:                     ` is not JSON`,
	} {
		faults := CheckRunPayload(json.RawMessage(text))
		if len(faults) != 1 || !strings.HasPrefix(faults[0].Pointer+" "+faults[0].Message, want) {
			t.Errorf("CheckRunPayload(%s) = %+v, want %s", text, faults, want)
		}
		if _, err := ResolveRunPayload(json.RawMessage(text), uuid, testNow); err == nil || !strings.Contains(failure(t, err), want) {
			t.Errorf("ResolveRunPayload(%s) = %v, want %s", text, err, want)
		}
	}
}

func TestPointers(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "/": "/", "/a/b": "/a/b", "/a~1b/~0": "/a~1b/~0", "/~01": "/~01", "//": "//",
	} {
		p, what := parsePointer(text)
		if what != "" || p.String() != want {
			t.Errorf("parsePointer(%q) = %q, %q; want %q", text, p, what, want)
		}
	}
	if p, _ := parsePointer("/~01"); p[0] != "~1" {
		t.Errorf("~01 is %q, want ~1", p[0])
	}
	for _, text := range []string{"a", "a/b", "/~", "/~2", "/a~", "#/a", "/" + strings.Repeat("x", maxPointer), "/\xff"} {
		if p, what := parsePointer(text); what == "" {
			t.Errorf("parsePointer(%.20q) = %q, want a fault", text, p)
		}
	}
}
