package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// root is the folder of the files that patches name.
	root = "../../.."
	// catching bounds the tests that must catch a bug.
	catching = 10 * time.Minute
)

// injected is a bug put in on purpose: a patch, with a head that says what it breaks and which
// tests catch it.
type injected struct {
	name     string
	breaks   string   // "Breaks:", in words
	caughtBy []string // "Caught by:", one or more lines: arguments of go test
	seeds    string   // "Seeds:", of each scenario of the simulation; empty: those that it has
	shortly  string   // "Shortly:", the seeds that will do for the first of caughtBy; empty: it takes too long to be put in whenever tests run
	files    map[string][]hunk
}

// hunk is one change of a file: old must occur once, and new replaces it. Line numbers are ignored,
// so that patches live longer.
type hunk struct{ old, new string }

var errPatch = errors.New("not a patch")

// readPatch reads a unified diff of files below a and b, with a head.
func readPatch(name string, text []byte) (*injected, error) {
	in := &injected{name: strings.TrimSuffix(filepath.Base(name), ".patch"), files: make(map[string][]hunk)}
	var file string
	var at *hunk
	for line := range strings.Lines(string(text)) {
		body := strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "--- a/"):
			file, at = body[len("--- a/"):], nil
		case strings.HasPrefix(line, "+++ b/"), strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "index "):
		case strings.HasPrefix(line, "@@ ") && file != "":
			in.files[file] = append(in.files[file], hunk{})
			at = &in.files[file][len(in.files[file])-1]
		case at != nil && line[0] == '-':
			at.old += line[1:]
		case at != nil && line[0] == '+':
			at.new += line[1:]
		case at != nil && line[0] == ' ':
			at.old, at.new = at.old+line[1:], at.new+line[1:]
		case at != nil && body == "": // an editor took the blank away
			at.old, at.new = at.old+line, at.new+line
		case at == nil && strings.HasPrefix(line, "Breaks: "):
			in.breaks = body[len("Breaks: "):]
		case at == nil && strings.HasPrefix(line, "Caught by: "):
			in.caughtBy = append(in.caughtBy, body[len("Caught by: "):])
		case at == nil && strings.HasPrefix(line, "Seeds: "):
			in.seeds = body[len("Seeds: "):]
		case at == nil && strings.HasPrefix(line, "Shortly: "):
			in.shortly = body[len("Shortly: "):]
		case at == nil && body == "":
		default:
			return nil, fmt.Errorf("%w: %q", errPatch, body)
		}
	}
	if in.breaks == "" || len(in.caughtBy) == 0 || len(in.files) == 0 {
		return nil, fmt.Errorf("%w: it says not what it breaks, what catches it, or what it changes", errPatch)
	}
	return in, nil
}

// apply returns the files as the patch leaves them, by path.
func (in *injected) apply() (map[string][]byte, error) {
	changed := make(map[string][]byte)
	for path, hunks := range in.files {
		text, err := os.ReadFile(filepath.Join(root, path)) // #nosec G304 -- of our own patches
		if err != nil {
			return nil, err
		}
		for i, h := range hunks {
			if n := bytes.Count(text, []byte(h.old)); n != 1 || h.old == h.new {
				return nil, fmt.Errorf("%s: what hunk %d changes is there %d times, want once and changed:\n%s", path, i+1, n, h.old)
			}
			text = bytes.Replace(text, []byte(h.old), []byte(h.new), 1)
		}
		changed[path] = text
	}
	return changed, nil
}

// overlay writes the changed files into dir, and the overlay file that makes go build with them.
func (in *injected) overlay(dir string) (string, error) {
	changed, err := in.apply()
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for path, text := range changed {
		ours, err := filepath.Abs(filepath.Join(root, path))
		if err != nil {
			return "", err
		}
		theirs := filepath.Join(dir, strings.ReplaceAll(path, "/", "-"))
		if err := os.WriteFile(theirs, text, 0o600); err != nil {
			return "", err
		}
		replace[ours] = theirs
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}

// allInjected reads every patch.
func allInjected(t *testing.T) []*injected {
	t.Helper()
	names, err := filepath.Glob("testdata/injected/*.patch")
	if err != nil {
		t.Fatal(err)
	}
	var all []*injected
	for _, name := range names {
		text, err := os.ReadFile(name) // #nosec G304 -- of our own
		if err != nil {
			t.Fatal(err)
		}
		in, err := readPatch(name, text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, in)
	}
	return all
}

// TestInjectedBugsApply: every patch still applies. If one does not, carry it over to the new code,
// and check by make injected that it is caught.
func TestInjectedBugsApply(t *testing.T) {
	all := allInjected(t)
	if len(all) < 10 {
		t.Errorf("%d bugs are kept, want ten or more", len(all))
	}
	for _, in := range all {
		if _, err := in.apply(); err != nil {
			t.Errorf("%s: %v", in.name, err)
		}
	}
}

// attempt is one run of tests: the arguments of go test, and the seeds of each scenario (empty: its
// own).
type attempt struct{ args, seeds string }

// ran is the result of an attempt.
type ran struct {
	out  []byte
	err  error
	took time.Duration
}

// command returns what runs the tests with an overlay; empty: without one. Those of this package
// without one are run by the program that runs already: to link another takes as long as they do.
func (a attempt) command(ctx context.Context, overlay string) (*exec.Cmd, error) {
	args := strings.Fields(a.args)
	if self := "./cmd/internal/sim"; overlay == "" && args[0] == self {
		program, err := os.Executable()
		if err != nil {
			return nil, err
		}
		for i, arg := range args {
			if name, isFlag := strings.CutPrefix(arg, "-"); isFlag {
				args[i] = "-test." + name
			}
		}
		return exec.CommandContext(ctx, program, args[1:]...), nil // #nosec G204 -- the arguments are of our own patches
	}
	if overlay != "" {
		args = append([]string{"-overlay", overlay}, args...)
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-count=1", "-vet=off"}, args...)...) // #nosec G204 -- the arguments are of our own patches
	cmd.Dir = root
	return cmd, nil
}

// goTest runs tests with an overlay; empty: without one.
func goTest(ctx context.Context, a attempt, overlay string) (r ran) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, catching)
	defer cancel()
	cmd, err := a.command(ctx, overlay)
	if err != nil {
		return ran{err: err}
	}
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CARILLON_") })
	if a.seeds != "" {
		cmd.Env = append(cmd.Env, "CARILLON_SIM_SEEDS="+a.seeds)
	}
	r.out, r.err = cmd.CombinedOutput()
	r.took = time.Since(began)
	return r
}

var (
	errMissed = errors.New("the bug is not caught")
	errRed    = errors.New("it fails without the bug")
	errBroken = errors.New("it does not build with the bug, or was told to stop")
)

// caught returns nil if tests pass without a bug and fail with it.
func caught(without, with ran) error {
	switch {
	case without.err != nil:
		return fmt.Errorf("%w: %w\n%s", errRed, without.err, without.out)
	case with.err == nil:
		return fmt.Errorf("%w (%v)", errMissed, with.took.Round(time.Second))
	case !bytes.Contains(with.out, []byte("--- FAIL: ")):
		return fmt.Errorf("%w: %w\n%s", errBroken, with.err, with.out)
	default:
		return nil
	}
}

// tries returns the runs of tests that must catch a bug: all, or the short one.
func (in *injected) tries(all bool) (tries []attempt) {
	if !all {
		return []attempt{{in.caughtBy[0], in.shortly}}
	}
	for _, args := range in.caughtBy {
		tries = append(tries, attempt{args, in.seeds})
	}
	return tries
}

// TestInjectedBugsAreCaught puts in one bug after the other and runs the tests that must catch it:
// each passes without the bug and fails with it. That takes minutes. Without CARILLON_INJECTED
// ("all", or a part of a bug's name) it puts in only those that have a short run.
func TestInjectedBugsAreCaught(t *testing.T) {
	which := os.Getenv("CARILLON_INJECTED")
	if which == "" && testing.Short() {
		t.Skip("builds and runs the simulation several times")
	}
	clean := make(map[attempt]ran)
	for _, in := range allInjected(t) {
		if which == "" && in.shortly == "" || which != "" && which != "all" && !strings.Contains(in.name, which) {
			continue
		}
		t.Run(in.name, func(t *testing.T) {
			file, err := in.overlay(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range in.tries(which != "") {
				without, ok := clean[a]
				if !ok {
					without = goTest(t.Context(), a, "")
					clean[a] = without
				}
				with := goTest(t.Context(), a, file)
				if err := caught(without, with); err != nil {
					t.Errorf("%s\ngo test %s: %v", in.breaks, a.args, err)
					continue
				}
				t.Logf("caught by go test %s in %v (%v without it): %d failures", a.args, with.took.Round(time.Second), without.took.Round(time.Second),
					bytes.Count(with.out, []byte("--- FAIL: ")))
			}
		})
	}
}

// TestWhatCountsAsCaught: tests that fail anyway catch nothing, and neither does a bug that does
// not build.
func TestWhatCountsAsCaught(t *testing.T) {
	exit := errors.New("exit status 1")
	green, red, unbuilt := ran{out: []byte("ok\n")}, ran{out: []byte("--- FAIL: TestX\n"), err: exit}, ran{out: []byte("FAIL x [build failed]\n"), err: exit}
	for _, row := range []struct {
		name          string
		without, with ran
		want          error
	}{
		{"passes without, fails with", green, red, nil},
		{"passes both", green, green, errMissed},
		{"fails both", red, red, errRed},
		{"fails without alone", red, green, errRed},
		{"builds neither way", unbuilt, unbuilt, errRed},
		{"does not build with", green, unbuilt, errBroken},
	} {
		t.Run(row.name, func(t *testing.T) {
			if err := caught(row.without, row.with); !errors.Is(err, row.want) {
				t.Errorf("caught = %v, want %v", err, row.want)
			}
		})
	}
}

func TestReadPatch(t *testing.T) {
	const head = "Breaks: nothing\nCaught by: ./x -run TestX\nSeeds: 60\nShortly: 2\n\n"
	const body = "--- a/f.go\n+++ b/f.go\n@@ -1,2 +1,2 @@ func f() {\n a\n-b\n+c\n@@ -9 +9 @@\n-d\n+e\n"
	in, err := readPatch("testdata/injected/01-x.patch", []byte(head+body))
	if err != nil || in.name != "01-x" || in.breaks != "nothing" || !slices.Equal(in.caughtBy, []string{"./x -run TestX"}) ||
		in.seeds != "60" || in.shortly != "2" {
		t.Fatalf("readPatch = %+v, %v", in, err)
	}
	if want := []hunk{{"a\nb\n", "a\nc\n"}, {"d\n", "e\n"}}; !slices.Equal(in.files["f.go"], want) {
		t.Errorf("hunks = %q, want %q", in.files["f.go"], want)
	}
	for name, text := range map[string]string{
		"no head": body, "no body": head, "nothing that it breaks": "Caught by: ./x\n" + body, "a line that is neither": head + "?\n" + body,
		"a line in a hunk that is neither": head + body + "?\n",
	} {
		if _, err := readPatch("x.patch", []byte(text)); !errors.Is(err, errPatch) {
			t.Errorf("%s: readPatch = %v, want %v", name, err, errPatch)
		}
	}
}
