package gate

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestJudgeAllocs(t *testing.T) {
	for name, c := range map[string]struct {
		was, is int64
		meet    bool
		want    Verdict
	}{
		"equal":                          {8, 8, false, OK},
		"one more":                       {8, 9, false, Worse},
		"one more than none":             {0, 1, false, Worse},
		"one less of eight":              {8, 7, false, Improved},
		"one less of many":               {1000, 999, false, OK},
		"5 % less":                       {1000, 950, false, OK},
		"more than 5 % less":             {1000, 949, false, Improved},
		"meet: one more":                 {10, 11, true, OK},
		"meet: two more of few":          {10, 12, true, Worse},
		"meet: 2 % more":                 {1000, 1020, true, OK},
		"meet: more than 2 % more":       {1000, 1021, true, Worse},
		"meet: one less of few":          {10, 9, true, OK},
		"meet: two less of few":          {10, 8, true, Improved},
		"meet: more than 5 % less":       {1000, 949, true, Improved},
		"meet: one more of a great many": {368_000, 368_001, true, OK},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judgeAllocs(c.was, c.is, c.meet); got != c.want {
				t.Errorf("judgeAllocs(%d, %d, %v) = %q, want %q", c.was, c.is, c.meet, got, c.want)
			}
		})
	}
}

func TestJudgeTime(t *testing.T) {
	for name, c := range map[string]struct {
		was, is float64
		want    Verdict
	}{
		"equal":               {0.5, 0.5, OK},
		"twice":               {0.5, 1, OK},
		"more than twice":     {0.5, 1.001, Worse},
		"half":                {0.5, 0.25, OK},
		"less than half":      {0.5, 0.249, Improved},
		"a hundred times":     {1286, 128_600, Worse},
		"nothing to speak of": {0.5, 0.6, OK},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judgeTime(c.was, c.is); got != c.want {
				t.Errorf("judgeTime(%v, %v) = %q, want %q", c.was, c.is, got, c.want)
			}
		})
	}
}

// like returns figures that differ from some in one thing.
func like(change func(*Figures)) Figures {
	f := Figures{
		Go:         "go1",
		Benchmarks: map[string]Figure{"p A": {Allocs: 100, Ratio: 2}, "p B": {Allocs: 100, Ratio: 2}},
		Statements: map[string]int{"p S Put": 16},
	}
	change(&f)
	return f
}

func TestCompare(t *testing.T) {
	cases := []Case{{Package: "p", Bench: "BenchmarkA"}, {Package: "p", Bench: "BenchmarkB", Meet: true}}
	for name, c := range map[string]struct {
		change func(*Figures)
		want   string // what is not ok
	}{
		"the same":             {func(*Figures) {}, ""},
		"another Go":           {func(f *Figures) { f.Go = "go2" }, ""},
		"one allocation more":  {func(f *Figures) { f.Benchmarks["p A"] = Figure{101, 2} }, "p A allocs WORSE"},
		"goroutines meet":      {func(f *Figures) { f.Benchmarks["p B"] = Figure{102, 2} }, ""},
		"and allocate more":    {func(f *Figures) { f.Benchmarks["p B"] = Figure{103, 2} }, "p B allocs WORSE"},
		"slow":                 {func(f *Figures) { f.Benchmarks["p B"] = Figure{100, 4.1} }, "p B time WORSE"},
		"better":               {func(f *Figures) { f.Benchmarks["p A"] = Figure{90, 0.9} }, "p A allocs improved, p A time improved"},
		"one statement more":   {func(f *Figures) { f.Statements["p S Put"] = 17 }, "p S Put statements DIFFERS"},
		"one statement less":   {func(f *Figures) { f.Statements["p S Put"] = 15 }, "p S Put statements DIFFERS"},
		"a statement of a new": {func(f *Figures) { f.Statements["p S Get"] = 1 }, "p S Get statements NOT COMMITTED"},
		"none of the kind":     {func(f *Figures) { delete(f.Statements, "p S Put") }, "p S Put statements NOT MEASURED"},
		"a benchmark more":     {func(f *Figures) { f.Benchmarks["p C"] = Figure{1, 1} }, "p C allocs NOT COMMITTED, p C time NOT COMMITTED"},
		"a benchmark less":     {func(f *Figures) { delete(f.Benchmarks, "p B") }, "p B allocs NOT MEASURED, p B time NOT MEASURED"},
	} {
		t.Run(name, func(t *testing.T) {
			rows := Compare(cases, like(func(*Figures) {}), like(c.change))
			var got []string
			shut := false
			for _, r := range rows {
				shut = shut || !r.Verdict.Passes()
				if r.Verdict != OK {
					got = append(got, r.Name+" "+r.What+" "+string(r.Verdict))
				}
			}
			if all := strings.Join(got, ", "); all != c.want {
				t.Errorf("Compare: not ok are %q, want %q", all, c.want)
			}
			if want := strings.ContainsAny(c.want, "WDN"); shut != want {
				t.Errorf("shut = %v, want %v", shut, want)
			}
		})
	}
}

func TestPrint(t *testing.T) {
	var b strings.Builder
	rows := Compare(nil, like(func(*Figures) {}), like(func(f *Figures) { f.Statements["p S Put"] = 17 }))
	if err := Print(&b, rows); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"name     what        committed  now  verdict\n" +
		"p A      allocs      100        100  ok\n" +
		"p A      time        2          2    ok\n" +
		"p B      allocs      100        100  ok\n" +
		"p B      time        2          2    ok\n" +
		"p S Put  statements  16         17   DIFFERS\n"
	if b.String() != want {
		t.Errorf("Print wrote\n%swant\n%s", b.String(), want)
	}
}

func TestParseBenchmark(t *testing.T) {
	for name, c := range map[string]struct {
		out  string
		want result
		err  bool
	}{
		"plain":            {"goos: linux\nBenchmarkX \t 20000\t 1020 ns/op\t 48 B/op\t 1 allocs/op\nPASS\n", result{1020, 1}, false},
		"more metrics":     {"BenchmarkX 3 9.5 ns/op 37.64 MB/s 7 ns/run 5 B/op 2 allocs/op\n", result{9.5, 2}, false},
		"in another order": {"BenchmarkX 3 7 ns/run 9.5 ns/op 2 allocs/op\n", result{9.5, 2}, false},
		"time of a line":   {"BenchmarkX 3 2702 ns/line 11103661 B/op 33403 allocs/op\n", result{2702, 33403}, false},
		"another":          {"BenchmarkX/y 3 2702 ns/op 33403 allocs/op\n", result{}, true},
		"no allocations":   {"BenchmarkX 3 2702 ns/op\n", result{}, true},
		"no time":          {"BenchmarkX 3 5 B/op 2 allocs/op\n", result{}, true},
		"not a number":     {"BenchmarkX 3 x ns/op 2 allocs/op\n", result{}, true},
		"nothing":          {"PASS\n", result{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseBenchmark(c.out, "BenchmarkX")
			if got != c.want || (err != nil) != c.err {
				t.Errorf("parseBenchmark(%q) = %v, %v; want %v, an error: %v", c.out, got, err, c.want, c.err)
			}
		})
	}
}

func TestParseStatements(t *testing.T) {
	s := Suite{Package: "p", Test: "TestS"}
	const out = "=== RUN   TestS\n=== ATTR  TestS Put 16\n=== ATTR  TestS/one_key Claim 1\n=== ATTR  TestOther Put 3\n--- PASS: TestS (0.04s)\n"
	got, err := parseStatements(out, s)
	if want := map[string]int{"p S Put": 16, "p S one_key Claim": 1}; err != nil || !maps.Equal(got, want) {
		t.Errorf("parseStatements = %v, %v; want %v", got, err, want)
	}
	if got, err := parseStatements("PASS\n", s); !errors.Is(err, errNoStatements) {
		t.Errorf("parseStatements of a test that tells nothing = %v, %v; want errNoStatements", got, err)
	}
	if got, err := parseStatements("=== ATTR  TestS Put many\n", s); err == nil {
		t.Errorf("parseStatements of what is no number = %v, want an error", got)
	}
}

func TestBestOfTwo(t *testing.T) {
	if got, want := (Figure{10, 3}).best(Figure{12, 2}), (Figure{10, 2}); got != want {
		t.Errorf("best = %v, want %v", got, want)
	}
}

func TestFiguresSurviveTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.json")
	f := like(func(*Figures) {})
	if err := f.Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil || got.Go != f.Go || !maps.Equal(got.Benchmarks, f.Benchmarks) || !maps.Equal(got.Statements, f.Statements) {
		t.Errorf("Load = %v, %v; want %v", got, err, f)
	}
	if err := os.WriteFile(path, []byte(`{"benchmark":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Load(path); err == nil {
		t.Errorf("Load of an unknown field = %v, want an error", got)
	}
	if _, err := Load(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Load of no file = %v, want ErrNotExist", err)
	}
}

// TestCommittedFiguresAreOfTheCases: nothing is measured that was not committed, and the reverse.
func TestCommittedFiguresAreOfTheCases(t *testing.T) {
	f, err := Load("figures.json")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, c := range Cases {
		if g, ok := f.Benchmarks[c.Name()]; !ok || g.Ratio <= 0 || seen[c.Name()] {
			t.Errorf("%s: the committed figure is %v, want one with a time, and one case", c.Name(), g)
		}
		seen[c.Name()] = true
	}
	if len(f.Benchmarks) != len(seen) {
		t.Errorf("%d figures are committed of %d benchmarks", len(f.Benchmarks), len(seen))
	}
}

func TestCalibrationTakesTime(t *testing.T) {
	if ns := calibrate(); ns < 100 || ns > 1e9 {
		t.Errorf("calibrate = %v ns a turn, want something between 100 ns and 1 s", ns)
	}
}
