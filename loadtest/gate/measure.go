package gate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// runTimeout bounds one run of a test binary.
const runTimeout = time.Minute

// Bench measures. Make one with Build.
type Bench struct {
	root     string // of the repository
	binaries string // folder of the test binaries
}

// Build builds the test binaries of every case and suite into the folder.
func Build(ctx context.Context, root, folder string) (*Bench, error) {
	var packages []string
	for _, c := range Cases {
		packages = append(packages, "./"+c.Package)
	}
	for _, s := range Suites {
		packages = append(packages, "./"+s.Package)
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	args := append([]string{"test", "-c", "-o", folder + string(filepath.Separator)}, packages...)
	cmd := exec.CommandContext(ctx, "go", args...) // #nosec G204 -- constants
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the benchmarks: %w\n%s", err, out)
	}
	return &Bench{root: root, binaries: folder}, nil
}

// run runs the test binary of a package on one processor and returns its output.
func (b *Bench) run(ctx context.Context, pkg string, args ...string) (string, error) {
	// the test's own time-out tells more
	ctx, cancel := context.WithTimeout(ctx, runTimeout+10*time.Second)
	defer cancel()
	args = append([]string{"-test.cpu=1", "-test.timeout=" + runTimeout.String()}, args...)
	cmd := exec.CommandContext(ctx, filepath.Join(b.binaries, filepath.Base(pkg)+".test"), args...) // #nosec G204 -- built by us
	cmd.Dir = filepath.Join(b.root, filepath.FromSlash(pkg))
	for _, v := range os.Environ() { // what changes how Go runs
		if name, _, _ := strings.Cut(v, "="); !slices.Contains([]string{"GOGC", "GOMEMLIMIT", "GODEBUG", "GOMAXPROCS"}, name) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", pkg, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// Figure measures a case in several rounds and returns the best.
func (b *Bench) Figure(ctx context.Context, c Case, rounds int) (Figure, error) {
	parts := strings.Split(c.Bench, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	args := []string{"-test.run=^$", "-test.benchmem", "-test.bench=" + strings.Join(parts, "/"), "-test.benchtime=" + strconv.Itoa(c.N) + "x"}
	best := result{ns: math.Inf(1), allocs: math.MaxInt64}
	loop := calibrate()
	for range rounds {
		out, err := b.run(ctx, c.Package, args...)
		if err != nil {
			return Figure{}, err
		}
		r, err := parseBenchmark(out, c.Bench)
		if err != nil {
			return Figure{}, fmt.Errorf("%s: %w", c.Name(), err)
		}
		best.ns, best.allocs = min(best.ns, r.ns), min(best.allocs, r.allocs)
		loop = min(loop, calibrate())
	}
	return Figure{Allocs: best.allocs, Ratio: rounded(best.ns / loop)}, nil
}

// Statements runs a suite and returns its counts.
func (b *Bench) Statements(ctx context.Context, s Suite) (map[string]int, error) {
	out, err := b.run(ctx, s.Package, "-test.run=^"+s.Test+"$", "-test.v", "-test.count=1")
	if err != nil {
		return nil, err
	}
	found, err := parseStatements(out, s)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", s.Package, s.Test, err)
	}
	return found, nil
}

// All measures everything once.
func (b *Bench) All(ctx context.Context, rounds int) (Figures, error) {
	all := Figures{Go: runtime.Version(), Benchmarks: make(map[string]Figure), Statements: make(map[string]int)}
	for _, s := range Suites {
		found, err := b.Statements(ctx, s)
		if err != nil {
			return all, err
		}
		for name, n := range found {
			all.Statements[name] = n
		}
	}
	for _, c := range Cases {
		f, err := b.Figure(ctx, c, rounds)
		if err != nil {
			return all, err
		}
		all.Benchmarks[c.Name()] = f
	}
	return all, nil
}

// Again measures the benchmarks that are worse than committed up to `times` times more, and returns
// now with the best of each. Counts of statements do not vary, so they are not repeated.
func (b *Bench) Again(ctx context.Context, committed, now Figures, times, rounds int) (Figures, error) {
	now = now.clone()
	for range times {
		worse := make(map[string]bool)
		for _, r := range Compare(Cases, committed, now) {
			worse[r.Name] = worse[r.Name] || r.Verdict == Worse
		}
		for _, c := range Cases {
			if !worse[c.Name()] {
				continue
			}
			f, err := b.Figure(ctx, c, rounds)
			if err != nil {
				return now, err
			}
			now.Benchmarks[c.Name()] = now.Benchmarks[c.Name()].best(f)
		}
	}
	return now, nil
}

// result is one line of a benchmark.
type result struct {
	ns     float64 // an operation, or whatever the benchmark has the time of
	allocs int64
}

// errNoResult: a benchmark printed no result.
var errNoResult = errors.New("the benchmark printed no time or no allocations")

// parseBenchmark reads the result of one benchmark. If it reports another time than that of an
// operation, the first one counts.
func parseBenchmark(out, bench string) (result, error) {
	sc := bufio.NewScanner(strings.NewReader(out))
	for sc.Scan() {
		fields := strings.Fields(sc.Text())
		if len(fields) < 4 || fields[0] != bench {
			continue
		}
		r := result{ns: -1, allocs: -1}
		for i := 2; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return result{}, fmt.Errorf("%q: %w", sc.Text(), err)
			}
			switch unit := fields[i+1]; {
			case unit == "ns/op", strings.HasPrefix(unit, "ns/") && r.ns < 0:
				r.ns = v
			case unit == "allocs/op":
				r.allocs = int64(v)
			}
		}
		if r.ns <= 0 || r.allocs < 0 {
			return result{}, fmt.Errorf("%w: %q", errNoResult, sc.Text())
		}
		return r, nil
	}
	return result{}, errNoResult
}

// errNoStatements: a suite printed no counts.
var errNoStatements = errors.New("the test told of no statements")

// parseStatements reads the counts of a suite.
func parseStatements(out string, s Suite) (map[string]int, error) {
	found := make(map[string]int)
	sc := bufio.NewScanner(strings.NewReader(out))
	for sc.Scan() {
		rest, ok := strings.CutPrefix(sc.Text(), "=== ATTR  "+s.Test)
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			return nil, fmt.Errorf("cannot be read: %q", sc.Text())
		}
		fields = fields[len(fields)-2:]
		name := strings.TrimPrefix(strings.TrimSuffix(strings.TrimSpace(rest), fields[0]+" "+fields[1]), "/")
		n, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, fmt.Errorf("%q: %w", sc.Text(), err)
		}
		parts := append([]string{s.Package, strings.TrimPrefix(s.Test, "Test")}, strings.Fields(name)...)
		found[strings.Join(append(parts, fields[0]), " ")] = n
	}
	if len(found) == 0 {
		return nil, errNoStatements
	}
	return found, nil
}

// rounded cuts a ratio to four digits.
func rounded(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		return v
	}
	return r
}
