package flame_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"carillon.dev/carillon/loadtest/flame"
)

// cpu makes a profile of stacks, each with the innermost function last, and its ns.
func cpu(t *testing.T, stacks map[string]int64) *bytes.Buffer {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}}
	functions := map[string]*profile.Location{}
	for stack, ns := range stacks {
		s := &profile.Sample{Value: []int64{1, ns}}
		for name := range strings.SplitSeq(stack, ";") {
			l, ok := functions[name]
			if !ok {
				id := uint64(len(functions) + 1)
				f := &profile.Function{ID: id, Name: name}
				l = &profile.Location{ID: id, Line: []profile.Line{{Function: f}}}
				p.Function, p.Location = append(p.Function, f), append(p.Location, l)
				functions[name] = l
			}
			s.Location = append([]*profile.Location{l}, s.Location...)
		}
		p.Sample = append(p.Sample, s)
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatalf("write profile: %v", err)
	}
	return &b
}

func TestDraw(t *testing.T) {
	var svg bytes.Buffer
	err := flame.Draw(&svg, cpu(t, map[string]int64{
		"runtime.goexit;carillon.dev/carillon/executor.(*Executor).Run<x>": 600,
		"runtime.goexit;carillon.dev/carillon/dispatcher.(*shard).run":     399,
		"runtime.goexit;carillon.dev/carillon/ring.tiny":                   1,
	}), "A & B")
	if err != nil {
		t.Fatalf("Draw: %v", err)
	}
	d := xml.NewDecoder(bytes.NewReader(svg.Bytes()))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg.String())
		}
	}
	for _, want := range []string{"A &amp; B", "executor.(*Executor).Run&lt;x&gt;: 60.0 %", "dispatcher.(*shard).run: 39.9 %", "runtime.goexit: 100.0 %"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if strings.Contains(svg.String(), "ring.tiny") {
		t.Error("the picture has a function with 0.1 % of the samples")
	}
}

func TestDrawRefuses(t *testing.T) {
	for name, in := range map[string]io.Reader{
		"no profile":     strings.NewReader("hello"),
		"no samples":     cpu(t, nil),
		"another metric": memory(t),
	} {
		t.Run(name, func(t *testing.T) {
			if err := flame.Draw(io.Discard, in, ""); err == nil {
				t.Error("Draw: no error")
			}
		})
	}
}

func memory(t *testing.T) io.Reader {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "alloc_space", Unit: "bytes"}}}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatalf("write profile: %v", err)
	}
	return &b
}
