package bench

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/plot"
)

func TestExactQuantiles(t *testing.T) {
	var late []time.Duration
	for i := 1000; i >= 1; i-- {
		late = append(late, time.Duration(i)*time.Millisecond)
	}
	if got, want := *exact(late, "sink"), (Lateness{500, 990, 999, 1000, "sink"}); got != want {
		t.Errorf("exact of 1 to 1000 ms = %+v, want %+v", got, want)
	}
	if got, want := *exact(late[999:], "sink"), (Lateness{1, 1, 1, 1, "sink"}); got != want {
		t.Errorf("exact of one = %+v, want %+v", got, want)
	}
	if got := exact(nil, "sink"); got != nil {
		t.Errorf("exact of none = %+v, want nil", got)
	}
}

func TestTheSinkTellsWhatHappened(t *testing.T) {
	j := jobs{n: 5, from: noon, source: "s1"}
	see := func(line, ms int) check.Sighting {
		return check.Sighting{Ref: check.Ref{Source: "s1", Line: line}, At: noon.Add(time.Duration(ms) * time.Millisecond)}
	}
	var r Result
	r.fromSink(j, noon, time.Time{}, []check.Sighting{see(1, 10), see(2, -1), see(3, 700), see(3, 30), see(4, 1500), {Ref: check.Ref{Source: "s0", Line: 5}, At: noon}})
	if r.Missed != 1 || r.Early != 1 || r.Doubled != 1 || len(r.Notes) != 1 {
		t.Errorf("missed %d, early %d, doubled %d, notes %q; want 1 of each", r.Missed, r.Early, r.Doubled, r.Notes)
	}
	if r.Lateness.P50 != 10 || r.Lateness.Max != 1500 {
		t.Errorf("lateness = %+v, want p50 10 (of 0, 10, 30, 1500: a double counts from its first arrival), max 1500", r.Lateness)
	}
	if r.LastStart != 1.5 || math.Abs(r.RunsPerS-4/1.5) > 1e-9 {
		t.Errorf("last start %g, %g runs/s, want 1.5 and 4 in that time", r.LastStart, r.RunsPerS)
	}
	if got := r.Faults(); len(got) != 2 {
		t.Errorf("Faults = %q, want missed and early", got)
	}
}

func TestSeriesOfStarts(t *testing.T) {
	at := func(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }
	got := binned([]start{{at(100), time.Millisecond}, {at(200), 3 * time.Millisecond}, {at(1600), time.Second}}, noon)
	want := []Point{{0.5, 4, 1, 3}, {1, 0, 0, 0}, {1.5, 0, 0, 0}, {2, 2, 1000, 1000}}
	if len(got) != len(want) {
		t.Fatalf("binned = %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("point %d = %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestShapeOfASeries(t *testing.T) {
	at := func(rates ...float64) (points []Point) {
		for i, r := range rates {
			points = append(points, Point{At: float64(i+1) / 2, Rate: r})
		}
		return points
	}
	rows := []struct {
		name        string
		series      []Point
		peak, pause float64
	}{
		{"nothing", nil, 0, 0},
		{"steady", at(100, 100, 100), 100, 0},
		{"a spike counts by the second", at(0, 100, 0), 50, 0},
		{"a pause between", at(0, 40, 0, 0, 0, 60, 80, 0, 100, 0, 0), 70, 2},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if peak, pause := shape(row.series); peak != row.peak || pause != row.pause {
				t.Errorf("shape = peak %g, pause %g, want %g and %g", peak, pause, row.peak, row.pause)
			}
		})
	}
}

func TestSeriesOfCounters(t *testing.T) {
	var readings []reading
	for i := range 21 { // two seconds, 100 ms apart: nothing, then 50 starts each time, 20 ms late
		n := float64(50 * max(0, i-10))
		readings = append(readings, reading{at: noon.Add(time.Duration(i) * 100 * time.Millisecond), started: n, late: n * 0.02})
	}
	got := seriesOf(readings, noon)
	if len(got) != 4 || got[0].Rate != 0 || math.Abs(got[3].Rate-500) > 1 || math.Abs(got[3].P50-20) > 0.1 || got[3].At != 2 {
		t.Errorf("seriesOf = %+v, want four points, the last with 500 a second and 20 ms", got)
	}
}

func TestAResultIsKeptWithItsPlot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	r := &Result{
		Protocol: "C", System: "carillon", Variant: "http", Round: 2, N: 10, Rate: 2000, Lateness: &Lateness{1, 2, 3, 4, "sink"},
		CPU: map[string]float64{"carillon": 50}, Settings: Settings{Durability: "some"},
		Series: []Point{{0.5, 100, 1, 2}, {1, 0, 0, 0}, {1.5, 200, 3, 4}},
	}
	if err := r.keep(dir); err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(dir, "C-carillon-http-2000-round-2")
	all, err := ReadResults([]string{base + ".json"})
	if err != nil || len(all) != 1 || all[0].Lateness.P99 != 2 || all[0].CPU["carillon"] != 50 {
		t.Fatalf("ReadResults = %+v, %v, want what was kept", all, err)
	}
	svg := readPlot(t, base+".svg")
	for _, pair := range regexp.MustCompile(`[ML] (-?\d+) (-?\d+)`).FindAllStringSubmatch(string(svg), -1) {
		x, _ := strconv.Atoi(pair[1]) // digits
		y, _ := strconv.Atoi(pair[2])
		if x < 0 || x > plot.Width || y < 0 || y > plot.Height {
			t.Fatalf("the plot draws at %d, %d, outside of itself", x, y)
		}
	}
	if i := strings.Index(string(svg), "C-carillon-http"); i < 0 || strings.Contains(string(svg[strings.LastIndexByte(string(svg[:i]), '<'):i]), "rotate") {
		t.Error("the plot's title is turned")
	}
	for _, want := range []string{"lateness p99 (right)", "starts a second (left)", "C-carillon-http-2000-round-2"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the plot does not say %q", want)
		}
	}
}

func TestAResultWithoutACurveIsKept(t *testing.T) {
	dir := t.TempDir()
	r := &Result{Protocol: "B", System: "carillon", Variant: "http", Series: []Point{{0.5, 100, 1, 2}}}
	if err := r.keep(dir); err != nil {
		t.Fatalf("keep of a herd that was over within half a second = %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 || files[0].Name() != "B-carillon-http.json" {
		t.Errorf("it keeps %v (%v), want the result alone", files, err)
	}
}

// The names are a contract with the harness for peers.
func TestNamesOfFields(t *testing.T) {
	text, err := json.Marshal(&Result{Lateness: &Lateness{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"protocol", "system", "variant", "round", "n", "rate", "span_s", "settings", "durability", "lateness_ms", "p50", "p99", "p99_9",
		"max", "missed", "early", "doubled", "runs_per_s", "cpu_us_per_run",
	} {
		if !strings.Contains(string(text), `"`+name+`":`) {
			t.Errorf("a result has no field %s: %s", name, text)
		}
	}
}

func TestDurabilityIsSaid(t *testing.T) {
	rows := []struct {
		name string
		spec cluster.Spec
		want []string
	}{
		{"one node, periodic", cluster.Spec{Cassandra: 1, NATS: 1}, []string{"replication 1,", "periodic", "1 replicas", "2 min"}},
		{"three, group, always", cluster.Spec{Cassandra: 3, NATS: 3, CommitLog: cluster.CommitLogGroup, NATSSync: -1}, []string{"replication 3,", "group", "3 replicas", "sync always"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got := durability(row.spec)
			for _, want := range row.want {
				if !strings.Contains(got, want) {
					t.Errorf("durability = %q, want it to say %q", got, want)
				}
			}
		})
	}
}

// readPlot returns the text of a plot, which must be XML.
func readPlot(t *testing.T, path string) []byte {
	t.Helper()
	svg, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return svg
		}
		if err != nil {
			t.Fatalf("%s is no XML: %v", filepath.Base(path), err)
		}
	}
}

// TestCPUIsToldByKindAndByProcess: of a kind with several processes each is told beside the sum.
func TestCPUIsToldByKindAndByProcess(t *testing.T) {
	r := &Result{Protocol: "A", System: "carillon", Variant: "noop"}
	r.used(map[string]time.Duration{"carillon-1": time.Second},
		map[string]time.Duration{"carillon-1": 2 * time.Second, "carillon-2": 3 * time.Second, "cassandra-1": time.Second, "nats-1": 0}, 100_000)
	if r.CPU["carillon"] != 40 || r.CPU["cassandra"] != 10 || len(r.CPU) != 2 || r.CPUOf["carillon-1"] != 10 || r.CPUOf["carillon-2"] != 30 {
		t.Errorf("by kind %v, by process %v; want carillon 40 = 10 + 30, cassandra 10", r.CPU, r.CPUOf)
	}
	if want := "cpu µs each: carillon 40 (carillon-1 10, carillon-2 30) cassandra 10;"; !strings.Contains(r.String(), want) {
		t.Errorf("told as\n%s\nwant %q in it", r, want)
	}
}
