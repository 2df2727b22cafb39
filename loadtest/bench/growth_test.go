package bench

import (
	"bytes"
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon.dev/carillon/loadtest/metrics"
)

// grow returns a result of D whose heap, RSS, scans and lateness are told apart by their figures.
func grow(system, part string, resident, round int, heap, scan, late float64) *Result {
	return &Result{
		Protocol: "D", System: system, Variant: part, Resident: resident, Round: round, N: 100_000, Rate: map[string]float64{"C": 2000}[part],
		Memory: map[string]Memory{nodeKind: {Held{RSS: 3 * heap * mebibyte, Heap: heap * mebibyte, Free: mebibyte}, Held{RSS: 4 * heap * mebibyte, Heap: 2 * heap * mebibyte, Free: 2 * mebibyte}}},
		Scans:  &Scans{Count: 900, Mean: scan}, Lateness: &Lateness{P99: late}, Settings: Settings{Durability: "a < b", Nodes: "all", Shards: 16},
	}
}

func TestGrowthTable(t *testing.T) {
	all := []*Result{
		grow("carillon", "B", 0, 1, 50, 2, 7000),
		grow("carillon", "C", 10_000_000, 1, 44, 0.75, 5.5),
		grow("carillon", "C", 0, 1, 40, 0.5, 4),
		grow("carillon", "C", 0, 2, 41, 0.6, 6),
		grow("carillon", "C", 0, 3, 99, 9, 5),
		grow("carillon-dev", "C", 0, 1, 30, 0.125, 3),
		// of a time when nothing else was measured
		{Protocol: "D", System: "carillon-dev", Variant: "C", Rate: 2000, Resident: 500_000, Missed: 1},
		{Protocol: "C", System: "carillon", Variant: "http", Rate: 2000},
	}
	want := []string{
		"| carillon, C: 2,000 runs/s | 0 | 41, 82 | 123, 164 | 1, 2 | 900 | 0.6 | 5 |",
		"| carillon, C: 2,000 runs/s | 10 M | 44, 88 | 132, 176 | 1, 2 | 900 | 0.75 | 5.5 |",
		"| carillon, B: 100,000 runs at one instant | 0 | 50, 100 | 150, 200 | 1, 2 | 900 | 2 | 7,000 |",
		"| carillon-dev, C: 2,000 runs/s | 0 | 30, 60 | 90, 120 | 1, 2 | 900 | 0.125 | 3 |",
		"| carillon-dev, C: 2,000 runs/s | 500 k | –, – | –, – | –, – | – | – | never |",
	}
	var b bytes.Buffer
	if err := WriteGrowth(&b, all); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(got) != len(want)+2 {
		t.Fatalf("WriteGrowth wrote %d lines, want %d:\n%s", len(got), len(want)+2, b.String())
	}
	for i, row := range want {
		if got[i+2] != row {
			t.Errorf("row %d is  %s\nwant it to be %s", i+1, got[i+2], row)
		}
	}
	b.Reset()
	if err := WriteGoals(&b, all); err != nil || !strings.Contains(b.String(), want[1]) {
		t.Errorf("WriteGoals (%v) =\n%s\nwant the table of growth in it", err, b.String())
	}
	b.Reset()
	if err := WriteGrowth(&b, all[len(all)-1:]); err != nil || b.Len() > 0 {
		t.Errorf("WriteGrowth without results of D = %v, %q, want nothing", err, b.String())
	}
}

func TestGrowthOfEachSystemIsAGoal(t *testing.T) {
	all := []*Result{
		grow("carillon", "C", 0, 1, 1, 1, 10), grow("carillon", "C", 1000, 1, 1, 1, 11),
		grow("carillon-dev", "C", 0, 1, 1, 1, 10), grow("carillon-dev", "C", 1000, 1, 1, 1, 13),
	}
	if got := table(t, all, "D:"); !strings.HasSuffix(got, "| 1.1 × (1,000 rows) | pass |") {
		t.Errorf("row of the cluster is %s, want 1.1 ×", got)
	}
	if got := table(t, all, "carillon dev: D"); !strings.HasSuffix(got, "| 1.3 × (1,000 rows) | falls short |") {
		t.Errorf("row of carillon dev is %s, want 1.3 ×", got)
	}
}

func TestGrowthPlot(t *testing.T) {
	all := []*Result{
		grow("carillon", "C", 0, 1, 40, 0.5, 4), grow("carillon", "C", 1_000_000, 1, 42, 0.6, 5), grow("carillon", "C", 10_000_000, 1, 41, 0.7, math.Inf(1)),
		grow("carillon", "B", 0, 1, 40, 0.5, 4), grow("carillon", "B", 1_000_000, 1, 42, 0.6, 5),
		{Protocol: "C", System: "carillon-dev"},
	}
	path := filepath.Join(t.TempDir(), "growth.svg")
	if err := PlotGrowth(path, all); err != nil {
		t.Fatal(err)
	}
	svg := readPlot(t, path)
	for _, want := range []string{
		"Cost growth of carillon", "a &lt; b", "rows resident", ">0<", ">1 M<", ">10 M<", "heap at rest", "RSS at the end", "Time of a scan",
		"Lateness p99, C: 2,000 runs/s", "Lateness p99, B: 100,000 runs at one instant",
	} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the plot does not say %q", want)
		}
	}
	if strings.Contains(string(svg), "Inf") || strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "-92233720") || strings.Contains(string(svg), ">0.00<") {
		t.Error("the plot has a number that is none, or an axis that nothing is measured on")
	}
	rows := []struct {
		name string
		all  []*Result
		want string
	}{
		{"one number of rows", all[:1], "different numbers"},
		{"none", nil, "different numbers"},
		{"two systems", append([]*Result{grow("other", "C", 0, 1, 1, 1, 1), grow("other", "C", 1, 1, 1, 1, 1)}, all...), "carillon, other"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if err := PlotGrowth(path, row.all); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("PlotGrowth = %v, want an error that says %q", err, row.want)
			}
		})
	}
}

func TestAxisOfRowsShowsNone(t *testing.T) {
	for rows, want := range map[int]float64{0: 0, 1_000_000: 1, 10_000_000: 1.959} {
		if got := place(rows, 1_000_000); math.Abs(got-want) > 0.001 {
			t.Errorf("place(%d) = %g, want %g", rows, got, want)
		}
	}
}

func TestTrendPassesOverWhatIsNotThere(t *testing.T) {
	all := []*Result{
		grow("s", "C", 0, 1, 1, 1, 4), grow("s", "C", 0, 2, 1, 1, 8), grow("s", "C", 0, 3, 1, 1, 5), grow("s", "B", 0, 1, 1, 1, 99),
		grow("s", "C", 10, 1, 1, 1, math.Inf(1)),
		{Protocol: "D", System: "s", Variant: "C", Resident: 100},
	}
	line, dots := trend{part: "C", value: lateP99}.points(all, []int{0, 10, 100}, 10)
	if len(line.Y) != 1 || line.Y[0] != 5 || len(dots.Y) != 3 {
		t.Errorf("lateness is drawn at %v with dots %v, want the median 5 of three rounds alone", line, dots)
	}
	line, _ = trend{value: heapAtRest}.points(all, []int{0, 10, 100}, 10)
	if len(line.Y) != 2 || line.X[1] != 1 {
		t.Errorf("the heap is drawn at %v, want it where it was measured", line)
	}
}

func TestScansOfABatch(t *testing.T) {
	v, err := metrics.Parse(strings.NewReader(strings.ReplaceAll(exposition, metricLateness, metricScan)))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := *scansOf(v), (Scans{Count: 40, Mean: 37.5, P99: 10_000}); got != want {
		t.Errorf("scansOf = %+v, want %+v", got, want)
	}
	if got := scansOf(v.Less(v)); got != nil {
		t.Errorf("scansOf nothing = %+v, want none", got)
	}
}

// still is a system whose nodes and processes are given.
type still struct {
	system

	urls    []string
	members map[string]int
}

func (s still) nodes() []string      { return s.urls }
func (s still) intake() []string     { return s.urls }
func (s still) profiles() []string   { return s.urls }
func (s still) pids() map[string]int { return s.members }

func TestMemoryIsReadAfterACollection(t *testing.T) {
	collected := false
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := metricHeap + " 5000\n"
		switch {
		case r.URL.Path == "/debug/pprof/heap" && r.URL.Query().Get("gc") == "1":
			collected = true
			return
		case collected:
			answer = metricHeap + " 400\n" + metricHeapIdle + " 90\n" + metricHeapReleased + " 60\n"
		}
		_, _ = io.WriteString(w, answer) // the test sees it
	}))
	defer node.Close()
	b := &members{cfg: Config{}.withDefaults(), client: node.Client(), extra: map[string]int{"sink": os.Getpid()}}
	defer node.Client().CloseIdleConnections()
	got := b.memory(context.Background(), still{urls: []string{node.URL}, members: map[string]int{"carillon-1": os.Getpid(), "carillon-2": os.Getpid(), "nats-1": 0}})
	if h := got[nodeKind]; h.Heap != 400 || h.Free != 30 || h.RSS < 1.5*got["sink"].RSS || got["sink"].RSS == 0 {
		t.Errorf("memory = %+v, want heap 400, 30 free, and the RSS of two processes against one of the sink", got)
	}
	if _, ok := got["nats"]; ok {
		t.Errorf("memory = %+v, want none of a process that is not there", got)
	}
	both := grown(map[string]Held{"a": {RSS: 1}, "b": {RSS: 2}}, map[string]Held{"b": {RSS: 3}, "c": {RSS: 4}})
	if want := (Memory{Held{RSS: 2}, Held{RSS: 3}}); len(both) != 1 || both["b"] != want {
		t.Errorf("grown = %v, want b alone, from 2 to 3", both)
	}
}
