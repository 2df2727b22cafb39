package metrics

import (
	"math"
	"strings"
	"testing"
)

const exposition = `# HELP attempts_total Attempts ended, by outcome.
# TYPE attempts_total counter
attempts_total{outcome="succeeded"} 40
attempts_total{outcome="lost"} 1.2e+03
attempts_totality 7
held 3
odd{text="a } b \" c"} 5 1700000000000
lateness_bucket{le="0.001"} 10
lateness_bucket{le="0.01"} 30
lateness_bucket{le="10"} 39
lateness_bucket{le="+Inf"} 40
lateness_sum 1.5
lateness_count 40
`

func parsed(t *testing.T) Values {
	t.Helper()
	v, err := Parse(strings.NewReader(exposition))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParse(t *testing.T) {
	v := parsed(t)
	for name, want := range map[string]float64{
		"held": 3, `attempts_total{outcome="lost"}`: 1200, `odd{text="a } b \" c"}`: 5,
	} {
		if got, err := v.Value(name); err != nil || got != want {
			t.Errorf("%s = %g (%v), want %g", name, got, err, want)
		}
	}
	if got, err := v.Value("nothing"); err == nil {
		t.Errorf("Value of what is not there = %g, want an error", got)
	}
	if got := v.Sum("attempts_total"); got != 1240 {
		t.Errorf("Sum = %g, want 1240: labels count, longer names do not", got)
	}
	for _, bad := range []string{"alone", "a{b=\"c\"}", "a{b=\"c\" 1", "a many", "a{} "} {
		if v, err := Parse(strings.NewReader(bad)); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", bad, v)
		}
	}
}

func TestHistogram(t *testing.T) {
	v := parsed(t)
	h := v.Histogram("lateness")
	if len(h) != 4 || !math.IsInf(h[3].Bound, 1) {
		t.Fatalf("Histogram = %v, want four buckets in order, the last one +Inf", h)
	}
	for q, want := range map[float64]float64{0: 0.001, 0.25: 0.001, 0.26: 0.01, 0.75: 0.01, 0.975: 10, 1: 10} {
		if got := h.Quantile(q); got != want {
			t.Errorf("Quantile(%g) = %g, want %g", q, got, want)
		}
	}
	if got := Histogram(nil).Quantile(0.5); got != 0 {
		t.Errorf("Quantile of nothing = %g, want 0", got)
	}
	if n, err := h.Above(0.01); n != 10 || err != nil {
		t.Errorf("Above(0.01) = %d, %v, want 10", n, err)
	}
	if n, err := h.Above(3); err == nil {
		t.Errorf("Above a bound that is no bucket's = %d, want an error", n)
	}
	if n := v.Less(v).Histogram("lateness").Count(); n != 0 {
		t.Errorf("Count of nothing = %g, want 0", n)
	}
}
