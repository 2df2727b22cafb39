package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestAxesHaveRoundNumbers(t *testing.T) {
	for highest, want := range map[float64]string{
		4: "0 1 2 3 4", 198: "0 50 100 150 200", 7300: "0 2,000 4,000 6,000 8,000", 0.61: "0 0.2 0.4 0.6 0.8", 1: "0 0.25 0.5 0.75 1", 0.001: "0 0.00025 0.0005 0.00075 0.001",
	} {
		var labels []string
		a := axis("ms", highest)
		for _, tick := range a.Ticks {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != want || a.Range.GetMax() < highest {
			t.Errorf("axis to %g is %q up to %g, want %q", highest, got, a.Range.GetMax(), want)
		}
	}
}

// Marks are drawn within the chart, with their texts; one beyond the curves is left out.
func TestMarksStandAtTheirPlaces(t *testing.T) {
	c := Curve{Name: "starts", Color: "2f80ed", Width: 2}
	for x := range 11 {
		c.Add(float64(x), 3)
	}
	p := Plot{Title: "a title", X: "seconds", Right: "runs/s", Curves: []Curve{c}, Marks: []Mark{
		{X: 5, Text: "kill <now>", Color: "c0392b"}, {X: 11, Text: "beyond", Color: "c0392b"},
	}}
	svg, err := p.SVG()
	if err != nil {
		t.Fatal(err)
	}
	text := string(svg)
	for _, want := range []string{"a title", "starts", "kill", "rotate(90", "stroke-dasharray"} {
		if !strings.Contains(text, want) {
			t.Errorf("the plot lacks %q", want)
		}
	}
	if strings.Contains(text, "beyond") || strings.Contains(text, "NaN") {
		t.Error("the plot has a mark beyond its curves, or a number that is none")
	}
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the plot is no XML: %v", err)
		}
	}
	p.Ticks = []Tick{{Value: 0, Label: "0"}, {Value: 30, Label: "30"}}
	if svg, err := p.SVG(); err != nil || !strings.Contains(string(svg), "beyond") {
		t.Errorf("SVG with ticks up to 30 = %v, want the mark at 11 in it", err)
	}
	if _, err := (Plot{Marks: p.Marks}).SVG(); !errors.Is(err, ErrNoCurve) {
		t.Errorf("SVG without curves = %v, want %v", err, ErrNoCurve)
	}
}
