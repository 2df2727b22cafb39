package workflow

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"carillon.dev/carillon/schema"
)

// FuzzCompile: whatever a definition says, Compile answers, and a graph does what it promises.
func FuzzCompile(f *testing.F) {
	f.Add([]byte(etl))
	for _, row := range faulty {
		if len(row.text) < 1000 {
			f.Add([]byte(row.text))
		}
	}
	for _, row := range foldCases {
		f.Add([]byte(row.graph))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Decode(text)
		if err != nil {
			return
		}
		g, faults := Compile(d)
		if (g == nil) == (len(faults) == 0) {
			t.Fatalf("Compile = %v, %+v", g, faults)
		}
		for _, fault := range faults {
			if _, what := parsePointer(fault.Pointer); what != "" || fault.Message == "" || len(fault.Message) > 1000 {
				t.Fatalf("fault %+v: its pointer %s", fault, what)
			}
		}
		if g == nil {
			return
		}
		stored, err := Encode(d)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Encode(mustDecode(t, string(stored))); err != nil || !bytes.Equal(stored, again) {
			t.Fatalf("the stored form %s becomes %s, %v", stored, again, err)
		}
		for _, drawing := range []string{g.Mermaid(nil), g.DOT(nil), g.Tree(nil)} {
			if !utf8.ValidString(drawing) {
				t.Fatalf("drawing %q", drawing)
			}
		}
		endOf(t, g)
	})
}

// endOf runs a graph to its end: each step that can be prepared succeeds.
func endOf(t *testing.T, g *Graph) {
	t.Helper()
	p := NewProgress(g)
	for range 4*g.Len() + 10 {
		for _, a := range p.Next() {
			switch a.Kind {
			case EndRun:
				return
			case SkipStep:
				p.Skip(a.Step, a.Verdict)
			case LaunchItems:
				p.Launch(a.Step, a.To)
				for i := range a.To {
					p.End(a.Step, i, Succeeded)
				}
			case PrepareStep:
				got, err := g.Prepare(a.Step, Input{Payload: json.RawMessage(`{"x":[1,{"y":"z"}]}`), Output: func(int) (json.RawMessage, error) { return json.RawMessage(`{"x":[[1],2]}`), nil }})
				switch {
				case err != nil:
					p.Fail(a.Step)
				case got.Skip:
					p.Skip(a.Step, Succeeded)
				default:
					for _, item := range got.Items {
						if len(item) > schema.MaxPayload || item != nil && jsonFault(item) != "" {
							t.Fatalf("step %d has the payload %s", a.Step, item)
						}
					}
					if len(got.Items) > 200 { // with max_concurrent the loop would be long
						got.Items = got.Items[:200]
					}
					p.Start(a.Step, len(got.Items))
				}
			}
		}
		for i := range g.Len() { // with max_concurrent, items are launched one after another
			if c := p.Counts(i); p.Running(i) && c.Items > 1 {
				p.Launch(i, c.Items)
				for k := range c.Items {
					p.End(i, k, Succeeded)
				}
			}
		}
	}
	t.Fatalf("the run does not end: %+v", p.Next())
}

// FuzzTemplate: a payload becomes valid JSON within its bounds, or a failure.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{
		`{"a":[{"$from":"a","pointer":"/x/0"},{"$input":"/x~1y"}]}`, `{"$item":"/x"}`, `{"n":{"$index":true},"r":{"$run":"/id"}}`,
		`{"$from":"a","x":1}`, `[[[[]]]]`, `"\ud800"`, `{"":{"":{}}}`, ` { } `, `{"\u0024item":""}`,
	} {
		f.Add([]byte(text), []byte(`{"x":["y"]}`), []byte(`[{"x":1},{"x":[]}]`))
	}
	f.Add([]byte(`{"$item":""}`), []byte(` [ 1 ] `), []byte(` [ " a " , { "x" : 1 } ] `))
	f.Fuzz(func(t *testing.T, payload, input, output []byte) {
		g, faults := Compile(&Definition{Steps: []Step{
			{Name: "a", Task: "t"},
			{Name: "b", Task: "t", After: []string{"a"}, ForEach: &ForEach{From: "a"}, Payload: payload},
			{Name: "c", Task: "t", After: []string{"a"}, If: "input == steps.a.output || has(input.x)", Payload: payload},
		}})
		for _, fault := range faults {
			if _, what := parsePointer(fault.Pointer); what != "" {
				t.Fatalf("fault %+v: its pointer %s", fault, what)
			}
		}
		if g == nil {
			return
		}
		for _, i := range []int{1, 2} {
			got, err := g.Prepare(i, Input{Payload: input, RunID: uuid, Nominal: testNow, Output: func(int) (json.RawMessage, error) { return output, nil }})
			if err != nil {
				failure(t, err)
			}
			for _, item := range got.Items {
				if item == nil {
					continue
				}
				var compact bytes.Buffer
				if json.Compact(&compact, item) != nil || !bytes.Equal(compact.Bytes(), item) || len(item) > schema.MaxPayload {
					t.Fatalf("payload %s with input %s and output %s: %q is not compact JSON", payload, input, output, item)
				}
			}
		}
	})
}

// FuzzExpression: an expression compiles and is evaluated, or is refused, and ends.
func FuzzExpression(f *testing.F) {
	for text := range refused {
		f.Add(text)
	}
	f.Add(`steps.a.output.x[0] == input.x && [1, 2].exists(y, y in input.list)`)
	f.Add(`input.m.map(k, input.m[k]).filter(v, v != null) == []`)
	f.Fuzz(func(t *testing.T, text string) {
		start := time.Now()
		defer func() {
			if took := time.Since(start); took > 5*time.Second {
				t.Fatalf("%q took %s", text, took)
			}
		}()
		c, faults := compileCondition(text, func(name string) (int, string) {
			if name != "a" {
				return 0, "is not there"
			}
			return 0, ""
		})
		if len(faults) > 0 {
			return
		}
		var first string
		for range 3 {
			e := evaluation{g: mustCompile(t, steps("a")), in: &Input{
				Payload: json.RawMessage(`{"x":1,"list":[1,2,"x"],"m":{"b":1,"a":[2],"c":null}}`),
				Output:  func(int) (json.RawMessage, error) { return json.RawMessage(`{"x":[1]}`), nil },
			}}
			holds, err := e.holds(c)
			result := "false"
			if holds {
				result = "true"
			}
			if err != nil {
				result = failure(t, err)
			}
			if first == "" {
				first = result
			}
			if result != first {
				t.Fatalf("%s gives %s, and then %s", text, first, result)
			}
		}
	})
}
