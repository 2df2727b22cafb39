package workflow

import (
	"encoding/json"
	"fmt"
	"testing"
)

// chain is a graph of n steps one after another.
func chain(n int) *Definition {
	d := &Definition{}
	for i := range n {
		s := Step{Name: fmt.Sprintf("s%d", i), Task: "t"}
		if i > 0 {
			s.After = []string{fmt.Sprintf("s%d", i-1)}
		}
		d.Steps = append(d.Steps, s)
	}
	return d
}

// layers is a graph of ten steps in each of n/10 layers, each after three of the layer before, with
// payloads.
func layers(n int, condition func(i int) string) *Definition {
	d := &Definition{}
	for i := range n {
		s := Step{Name: fmt.Sprintf("s%d", i), Task: "t", Payload: json.RawMessage(`{"date":{"$input":"/date"},"x":[1,2,3]}`), If: condition(i)}
		if i >= 10 {
			for k := range 3 {
				s.After = append(s.After, fmt.Sprintf("s%d", i/10*10-10+(i+k)%10))
			}
			s.Payload = json.RawMessage(`{"date":{"$input":"/date"},"up":{"$from":"` + s.After[0] + `","pointer":"/x"}}`)
		}
		d.Steps = append(d.Steps, s)
	}
	return d
}

func fanOut(maxConcurrent int) *Definition {
	return &Definition{Steps: []Step{
		{Name: "a", Task: "t", ForEach: &ForEach{Input: new(string), MaxConcurrent: maxConcurrent}, Payload: json.RawMessage(`{"item":{"$item":""},"i":{"$index":true}}`)},
		{Name: "b", Task: "t", After: []string{"a"}},
	}}
}

func compiled(b testing.TB, d *Definition) *Graph {
	b.Helper()
	g, faults := Compile(d)
	if len(faults) > 0 {
		b.Fatalf("Compile = %+v", faults)
	}
	return g
}

func BenchmarkCompile(b *testing.B) {
	for name, d := range map[string]*Definition{
		"chain of 5":                        chain(5),
		"1,000 steps":                       layers(1000, func(int) string { return "" }),
		"1,000 steps, 100 different ifs":    layers(1000, func(i int) string { return fmt.Sprintf("input.n > %d", i%100) }),
		"1,000 steps, each with its own if": layers(1000, func(i int) string { return fmt.Sprintf("input.n > %d && input.x == 'y'", i) }),
		"10,000 items":                      fanOut(0),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, faults := Compile(d); len(faults) > 0 {
					b.Fatal(faults)
				}
			}
		})
	}
}

// runToEnd runs a graph in which each step has one item, and returns how many steps it had.
func runToEnd(b testing.TB, p *Progress) (ends int) {
	for {
		for _, a := range p.Next() {
			switch a.Kind {
			case EndRun:
				return ends
			case PrepareStep:
				p.Start(a.Step, 1)
				p.Launch(a.Step, 1)
				p.End(a.Step, 0, Succeeded)
				ends++
			default:
				b.Fatalf("Next says %+v", a)
			}
		}
	}
}

// BenchmarkProgress is told all of a run, and asked after each step.
func BenchmarkProgress(b *testing.B) {
	for name, d := range map[string]*Definition{
		"chain of 5":  chain(5),
		"1,000 steps": layers(1000, func(int) string { return "" }),
	} {
		g := compiled(b, d)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n := runToEnd(b, NewProgress(g)); n != g.Len() {
					b.Fatalf("%d steps ended, want %d", n, g.Len())
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*g.Len()), "ns/step")
		})
	}
}

// BenchmarkNextAfterEnd is one end of a step amid a graph, and the question what follows.
func BenchmarkNextAfterEnd(b *testing.B) {
	g := compiled(b, layers(1000, func(int) string { return "" }))
	p := NewProgress(g)
	at := 0
	b.ReportAllocs()
	for b.Loop() {
		if at == g.Len() {
			b.StopTimer()
			p, at = NewProgress(g), 0
			b.StartTimer()
		}
		p.Start(at, 1)
		p.Launch(at, 1)
		p.End(at, 0, Succeeded)
		if next := p.Next(); len(next) == 0 {
			b.Fatal("nothing is possible")
		}
		at++
	}
}

// BenchmarkItems is the end of one of 10,000 items, and the question what follows.
func BenchmarkItems(b *testing.B) {
	for _, most := range []int{0, 20} {
		b.Run(fmt.Sprintf("max_concurrent %d", most), func(b *testing.B) {
			g := compiled(b, fanOut(most))
			var p *Progress
			at := MaxItems
			b.ReportAllocs()
			for b.Loop() {
				if at == MaxItems {
					p, at = NewProgress(g), 0
					p.Start(0, MaxItems)
					p.Launch(0, p.Next()[0].To)
				}
				p.End(0, at, Succeeded)
				for _, a := range p.Next() {
					if a.Kind == LaunchItems {
						p.Launch(0, a.To)
					}
				}
				at++
			}
		})
	}
}

func BenchmarkPrepare(b *testing.B) {
	items := make([]int, MaxItems)
	list, _ := json.Marshal(items)
	for name, row := range map[string]struct {
		d     *Definition
		step  int
		input Input
	}{
		"nothing":      {chain(2), 1, Input{}},
		"a payload":    {layers(20, func(int) string { return "" }), 15, Input{Payload: json.RawMessage(`{"date":"2026-11-21"}`), Output: func(int) (json.RawMessage, error) { return json.RawMessage(`{"x":[1,2,3]}`), nil }}},
		"an if":        {&Definition{Steps: []Step{{Name: "a", Task: "t", If: "input.n > 3 && size(input.list) < 100"}}}, 0, Input{Payload: json.RawMessage(`{"n":5,"list":[1,2,3]}`)}},
		"10,000 items": {fanOut(0), 0, Input{Payload: list}},
	} {
		g := compiled(b, row.d)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got, err := g.Prepare(row.step, row.input); err != nil || got.Skip {
					b.Fatalf("Prepare = %+v, %v", got, err)
				}
			}
		})
	}
}

// TestNextAllocatesLittle: an end and the question what follows allocate the answer alone.
func TestNextAllocatesLittle(t *testing.T) {
	g := compiled(t, fanOut(0))
	p := NewProgress(g)
	p.Start(0, MaxItems)
	p.Launch(0, MaxItems)
	p.End(0, MaxItems-1, Succeeded)
	at := 0
	if n := testing.AllocsPerRun(1000, func() { p.End(0, at, Succeeded); p.Next(); at++ }); n > 0 {
		t.Errorf("the end of one of 10,000 items allocates %v times, want 0", n)
	}
	g = compiled(t, chain(1000))
	p = NewProgress(g)
	at = 0
	if n := testing.AllocsPerRun(900, func() { p.Start(at, 1); p.Launch(at, 1); p.End(at, 0, Succeeded); p.Next(); at++ }); n > 1 {
		t.Errorf("the end of a step of a chain allocates %v times, want 1", n)
	}
}
