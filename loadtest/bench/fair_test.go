package bench

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// evenly returns n starts, a step apart.
func evenly(n int, step time.Duration) []start {
	starts := make([]start, n)
	for i := range starts {
		starts[i] = start{noon.Add(time.Duration(i) * step), time.Duration(i) * step}
	}
	return starts
}

func TestFairIsJudged(t *testing.T) {
	pair := func(alone, moved float64) Pair {
		return Pair{Alone: &Lateness{P99: alone}, Beside: &Lateness{P99: alone + moved}, Moved: moved, Allowed: max(movedPart*alone, movedMS)}
	}
	shares := func(one, two, four float64) *Shares {
		return &Shares{Weights: map[string]int{"one": 1, "two": 2, "four": 4}, Got: map[string]float64{"one": one, "two": two, "four": four}}
	}
	const mib = 1 << 20
	behind := func(moved, grown float64, left int) FairResult {
		return FairResult{Backlog: &BesideBacklog{
			Backlog: 1000, Left: left, Alone: &Lateness{P99: 5}, Moved: moved, Allowed: 20, HeapBefore: 20 * mib, HeapMost: (20 + grown) * mib,
		}}
	}
	lost := pair(10, 0)
	lost.Missed = 1
	for _, row := range []struct {
		name string
		r    FairResult
		met  bool
		says string
	}{
		{"moved by less than 20 ms", FairResult{Pairs: []Pair{pair(5, 19)}}, true, "moved by 19.0 ms, allowed 20.0"},
		{"moved by less than a fifth", FairResult{Pairs: []Pair{pair(500, 99)}}, true, "allowed 100.0"},
		{"moved by more", FairResult{Pairs: []Pair{pair(5, 21)}}, false, "moved by 21.0 ms"},
		{"the median counts", FairResult{Pairs: []Pair{pair(5, 900), pair(5, 3), pair(5, -2), pair(5, 800), pair(5, 4)}}, true, "moved by 4.0 ms"},
		{"one was missed", FairResult{Pairs: []Pair{lost}}, false, "missed 1"},
		{"shares as the weights", FairResult{Weights: shares(1./7, 2./7, 4./7)}, true, "off by 0.0 %"},
		{"shares within a tenth", FairResult{Weights: shares(.156, .286, .558)}, true, "off by 9.2 %"},
		{"equal shares", FairResult{Weights: shares(1./3, 1./3, 1./3)}, false, "0.333 : 0.333 : 0.333"},
		{"a starved one", FairResult{Weights: shares(0, 1./3, 2./3)}, false, "off by 100.0 %"},
		{"critical in time", FairResult{Critical: &Overtaking{Lateness: &Lateness{Max: 1999}, LowLeft: 1}}, true, "began 1999 ms"},
		{"critical too late", FairResult{Critical: &Overtaking{Lateness: &Lateness{Max: 2001}, LowLeft: 1}}, false, "2001"},
		{"nothing to overtake", FairResult{Critical: &Overtaking{Lateness: &Lateness{Max: 1}}}, false, "while 0 of"},
		{"a backlog moves nobody", behind(19, 100, 1), true, "the heap grew from 20 MiB by 100, allowed 128"},
		{"a backlog moves another", behind(21, 100, 1), false, "moved from 5.0 ms by 21.0"},
		{"a backlog in memory", behind(0, 129, 1), false, "by 129"},
		{"a backlog that was soon over", behind(0, 0, 0), false, "of which 0 waited"},
		{"the heap is not known", behind(0, -20, 1), false, "by -20"},
		{"no critical one began", FairResult{Critical: &Overtaking{LowLeft: 1}}, false, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.r.judge()
			if row.r.Met() != row.met || len(row.r.Verdicts) != 1 || !strings.Contains(row.r.Verdicts[0], row.says) {
				t.Errorf("judge = %q, want met %v, and that it says %q", row.r.Verdicts, row.met, row.says)
			}
		})
	}
}

// TestSharesAreCountedWhileAllWait: what begins before the system has found its pace, and after the
// first tenant has little left, counts for nobody.
func TestSharesAreCountedWhileAllWait(t *testing.T) {
	w := &Shares{Got: make(map[string]float64), starts: map[string][]start{
		// which is through after 10 s
		"one": evenly(1000, 40*time.Millisecond), "four": evenly(1000, 10*time.Millisecond),
	}}
	w.count(noon)
	if got := w.Got["four"]; got < 0.799 || got > 0.801 || w.From != 0.9 || w.To != 9 {
		t.Errorf("share %.3f from %v to %v, want 0.8 from 0.9 to 9", got, w.From, w.To)
	}
	if w.PerS < 124 || w.PerS > 126 {
		t.Errorf("%.1f runs/s, want 125", w.PerS)
	}
}

func TestFairPlots(t *testing.T) {
	dir := t.TempDir()
	r := &FairResult{
		System:   "x",
		Pairs:    []Pair{{Alone: &Lateness{P99: 3}, Beside: &Lateness{P99: 4}, Other: &Lateness{}}, {Alone: &Lateness{P99: 3}, Beside: &Lateness{P99: 7}, Other: &Lateness{}}},
		Weights:  &Shares{starts: map[string][]start{"one": evenly(100, 40*time.Millisecond), "two": evenly(10, time.Second)}},
		Critical: &Overtaking{starts: map[string][]start{"low": evenly(100, 40*time.Millisecond), "critical": evenly(1, time.Second)}},
		Backlog:  &BesideBacklog{},
	}
	r.Backlog.count([]heapSeen{{noon.Add(-time.Second), 9 << 30}, {noon, 30 << 20}, {noon.Add(5 * time.Second), 20 << 20}}, noon)
	if most := r.Backlog.HeapMost; most != 30<<20 {
		t.Errorf("the heap was %v at most, want that from the backlog's instant on", most)
	}
	if err := r.keep(dir); err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string][]string{
		"beside": {"alone", "beside", "pair", ">ms<"}, "weights": {"one", "two", "runs/s"}, "critical": {"low", "critical"}, "backlog": {"MiB", "seconds"},
	} {
		svg := readPlot(t, filepath.Join(dir, "fair-x-"+part+".svg"))
		for _, w := range want {
			if !bytes.Contains(svg, []byte(w)) {
				t.Errorf("the plot of %s does not say %q", part, w)
			}
		}
		if bytes.Contains(svg, []byte("NaN")) {
			t.Errorf("the plot of %s has a number that is none", part)
		}
	}
}

func TestFairConfigIsJudged(t *testing.T) {
	good := FairConfig{Parts: []string{PartBeside}, Rate: 1, Pairs: 1, Backlog: 1}
	if err := good.Validate(); err != nil {
		t.Errorf("Validate = %v, want nil", err)
	}
	bad := FairConfig{Parts: []string{"besides"}, Work: -1}
	err := bad.Validate()
	for _, want := range []string{`"besides"`, "rate: 0", "pairs: 0", "backlog: 0", "negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want it to name %q", err, want)
		}
	}
}

func TestAfter(t *testing.T) {
	starts := evenly(4, time.Second)
	for at, want := range map[time.Duration]int{-1: 4, 0: 3, 1: 3, 2 * time.Second: 1, 3 * time.Second: 0, time.Hour: 0} {
		if got := after(starts, noon.Add(at)); got != want {
			t.Errorf("after %v come %d of 4, want %d", at, got, want)
		}
	}
}
