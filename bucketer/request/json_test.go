package request

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseRefuses(t *testing.T) {
	for name, row := range map[string]struct {
		text   string
		offset int
		what   string
	}{
		"nothing":                  {``, 0, "ends"},
		"only space":               {" \n", 2, "ends"},
		"a word":                   {`nul`, 0, "no JSON value"},
		"a byte order mark":        {"\ufeff{}", 0, "no JSON value"},
		"an open object":           {`{"a":1`, 6, "ends"},
		"an open string":           {`{"a":"b`, 7, "ends"},
		"a cut escape":             {`"\u12`, 5, "ends"},
		"trailing text":            {`{} x`, 3, "follows"},
		"a second value":           {`{}{}`, 2, "follows"},
		"a trailing comma":         {`{"a":1,}`, 7, "member name"},
		"a trailing comma, array":  {`[1,]`, 3, "no JSON value"},
		"no colon":                 {`{"a" 1}`, 5, "colon"},
		"no comma":                 {`[1 2]`, 3, "comma"},
		"single quotes":            {`{'a':1}`, 1, "member name"},
		"a leading zero":           {`01`, 1, "follows"},
		"a leading plus":           {`+1`, 0, "no JSON value"},
		"a bare point":             {`1.`, 2, "ends"},
		"a bare exponent":          {`[1e]`, 3, "bad number"},
		"a bare minus":             {`[-]`, 2, "bad number"},
		"NaN":                      {`NaN`, 0, "no JSON value"},
		"a line end in a string":   {"\"a\nb\"", 2, "control character"},
		"an unknown escape":        {`"\x41"`, 1, "bad escape"},
		"a lone high surrogate":    {`"\ud800 and more text"`, 1, "bad escape"},
		"a lone low surrogate":     {`"\udc00 and more text"`, 1, "bad escape"},
		"two high surrogates":      {`"\ud800\ud800"`, 1, "bad escape"},
		"two low surrogates":       {`"\udc00\udc00"`, 1, "bad escape"},
		"a sign in an escape":      {`"\u+123"`, 1, "bad escape"},
		"no digit after a point":   {`[1.]`, 3, "bad number"},
		"invalid UTF-8":            {"\"\xff\"", 1, "invalid UTF-8"},
		"an overlong form":         {"\"\xc0\x80\"", 1, "invalid UTF-8"},
		"an encoded surrogate":     {"\"\xed\xa0\x80\"", 1, "invalid UTF-8"},
		"invalid UTF-8 in a name":  {"{\"\xff\":1}", 2, "invalid UTF-8"},
		"invalid UTF-8 elsewhere":  {"{\xff}", 1, "member name"},
		"a comment":                {`{} // x`, 3, "follows"},
		"a closing bracket astray": {`[}`, 1, "no JSON value"},
	} {
		t.Run(name, func(t *testing.T) {
			err := new(document).parse([]byte(row.text))
			var got *NotJSONError
			if !errors.As(err, &got) || got.Offset != row.offset || !strings.Contains(got.What, row.what) {
				t.Errorf("parse(%q) = %v, want %q at byte %d", row.text, err, row.what, row.offset)
			}
		})
	}
}

func TestParseBoundsNesting(t *testing.T) {
	var d document
	at := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	if err := d.parse([]byte(at(maxNesting))); err != nil {
		t.Errorf("parse of %d levels = %v, want nil", maxNesting, err)
	}
	for name, text := range map[string]string{
		"one level too many":      at(maxNesting + 1),
		"ten thousand":            at(10_000),
		"ten thousand, not ended": strings.Repeat(`[`, 10_000),
		"a million objects":       strings.Repeat(`{"a":`, 1_000_000),
	} {
		err := d.parse([]byte(text))
		var deep *nestingError
		if !errors.As(err, &deep) {
			t.Fatalf("%s: parse = %v, want a nesting error", name, err)
		}
		if got := strings.Count(d.location(deep.node), "[0]") + strings.Count(d.location(deep.node), ".a"); got != maxNesting {
			t.Errorf("%s: the location has %d steps, want %d", name, got, maxNesting)
		}
	}
}

func TestDoubledNames(t *testing.T) {
	many := func(last string) string {
		var b strings.Builder
		for i := range 3 * fewMembers {
			b.WriteString(`"n` + string(rune('0'+i)) + `":1,`)
		}
		return `{` + b.String() + last + `:2}`
	}
	for name, row := range map[string]struct {
		text, want string
	}{
		"none":                 {`{"a":1,"A":2,"b":{"a":1}}`, ""},
		"at the root":          {`{"a":1,"b":2,"a":3}`, "body.a"},
		"within":               {`{"a":[0,{"b":1,"b":1}]}`, "body.a[1].b"},
		"written differently":  {`{"a":1,"\u0061":1}`, "body.a"},
		"three times":          {`{"a":1,"a":1,"a":1}`, "body.a body.a"},
		"among many":           {many(`"nB"`), "body.nB"},
		"among many, escaped":  {many(`"\u006eB"`), "body.nB"},
		"none among many":      {many(`"x"`), ""},
		"a name that is empty": {`{"":1,"":2}`, "body."},
	} {
		t.Run(name, func(t *testing.T) {
			var d document
			if err := d.parse([]byte(row.text)); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, i := range d.doubles {
				got = append(got, d.location(i))
			}
			if strings.Join(got, " ") != row.want {
				t.Errorf("doubled names of %s: %q, want %q", row.text, got, row.want)
			}
		})
	}
}

func TestCanonicalText(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"space and order":       {" { \"b\" : [ 1 , 2 ] , \"a\" : null } ", `{"a":null,"b":[1,2]}`},
		"escapes":               {`{"\u0061":"\u0041\/\n\u001f\"\\é\ud83d\ude00"}`, `{"a":"A/\u000a\u001f\"\\é😀"}`},
		"the key of the root":   {`{"key":"k","a":{"key":"x"}}`, `{"a":{"key":"x"}}`},
		"numbers as written":    {`[1.0,1,1e0]`, `[1.0,1,1e0]`},
		"members of an element": {`[{"b":{"d":1,"c":true}}]`, `[{"b":{"c":true,"d":1}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			var d document
			if err := d.parse([]byte(row.text)); err != nil {
				t.Fatal(err)
			}
			if got := string(d.canonical(nil, 0, "key")); got != row.want {
				t.Errorf("canonical(%s) = %s, want %s", row.text, got, row.want)
			}
		})
	}
}

// The examples of RFC 7396, appendix A, that concern objects, and a few of ours.
func TestMergePatch(t *testing.T) {
	for _, row := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"a":1}`, `{"\u0061":2}`, `{"a":2}`},
		{`{"a":[{"b":null}]}`, `{"a":[{"b":null}]}`, `{"a":[{"b":null}]}`},
	} {
		var target, patch document
		if err := errors.Join(target.parse([]byte(row[0])), patch.parse([]byte(row[1]))); err != nil {
			t.Fatal(err)
		}
		if got := string(mergePatch(nil, &target, 0, &patch, 0)); got != row[2] {
			t.Errorf("mergePatch(%s, %s) = %s, want %s", row[0], row[1], got, row[2])
		}
	}
}

// FuzzParse compares the scanner with encoding/json, which accepts more: invalid UTF-8, lone
// surrogates and deeper nesting. What both accept must mean the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-2.5e+3,true,false,null,"x\u0041\ud83d\ude00"],"b":{}}`, `[[[]]]`, `"\ud800"`, "\"\xff\"", `{"a":1,"a":2}`, `0`, ` `, `{`, `-0.0E-1`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var d document
		err := d.parse(text)
		var deep *nestingError
		switch valid := json.Valid(text); {
		case err == nil && !valid:
			t.Fatalf("parse(%q) = nil, but encoding/json refuses it", text)
		case err != nil && valid && utf8.Valid(text) && !errors.As(err, &deep) && !strings.Contains(err.Error(), "bad escape"):
			t.Fatalf("parse(%q) = %v, but encoding/json takes it", text, err)
		case err != nil:
			return
		}
		if d.nodes[0].end != int32(len(d.nodes)) {
			t.Fatalf("parse(%q): the root ends at node %d of %d", text, d.nodes[0].end, len(d.nodes))
		}
		canonical := d.canonical(nil, 0, "")
		var again document
		if err := again.parse(canonical); err != nil {
			t.Fatalf("the canonical text %q of %q is %v", canonical, text, err)
		}
		if second := again.canonical(nil, 0, ""); string(second) != string(canonical) {
			t.Fatalf("canonical(%q) = %q, then %q", text, canonical, second)
		}
		if len(d.doubles) > 0 {
			return
		}
		var was, is any
		if err := errors.Join(json.Unmarshal(text, &was), json.Unmarshal(canonical, &is)); err != nil {
			t.Skip(err) // numbers out of range
		}
		a, _ := json.Marshal(was)
		b, _ := json.Marshal(is)
		if string(a) != string(b) {
			t.Fatalf("the canonical text of %q means %s, want %s", text, b, a)
		}
		for i := range d.nodes {
			if loc := d.location(int32(i)); !strings.HasPrefix(loc, "body") {
				t.Fatalf("location(%d) = %q", i, loc)
			}
		}
	})
}
