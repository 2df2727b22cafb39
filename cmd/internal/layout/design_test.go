package layout

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// quoted is a name between backquotes.
var quoted = regexp.MustCompile("`([^`]+)`")

// TestDesignNamesWhatIsThere: every file and function of the table of DESIGN 12 is there.
func TestDesignNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(top, "DESIGN.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n## 12. ")
	if !found {
		t.Fatal("DESIGN.md has no section 12")
	}
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(cells[2], "`") {
			continue
		}
		rows++
		for _, fault := range rowFaults(names(cells[2]), names(cells[3])) {
			t.Errorf("%s: %s", strings.TrimSpace(cells[1]), fault)
		}
	}
	if rows < 30 {
		t.Errorf("the table has %d rows, want 30 or more", rows)
	}
}

// names returns what stands between backquotes in a cell.
func names(cell string) (all []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		all = append(all, m[1])
	}
	return all
}

// rowFaults returns what is wrong with a row of the table: paths that are not there, and functions
// that no file of them declares. A path after the first may be relative to the folder of the first.
func rowFaults(paths, functions []string) (faults []string) {
	var code strings.Builder
	folder := ""
	for i, p := range paths {
		if i > 0 && !exists(p) {
			p = path.Join(folder, p)
		}
		if folder = p; path.Ext(p) == ".go" {
			folder = path.Dir(p)
		}
		files := []string{p}
		if path.Ext(p) != ".go" {
			files, _ = filepath.Glob(filepath.Join(top, p, "*.go")) // the pattern is well formed
			for i := range files {
				files[i], _ = filepath.Rel(top, files[i])
			}
		}
		if len(files) == 0 || !exists(p) {
			faults = append(faults, p+" is not there")
		}
		for _, f := range files {
			text, _ := os.ReadFile(filepath.Join(top, f)) // #nosec G304 -- of this module; a missing one was told
			code.Write(text)
		}
	}
	for _, name := range functions {
		if !declares(code.String(), name) {
			faults = append(faults, fmt.Sprintf("%s is not declared in %s", name, strings.Join(paths, ", ")))
		}
	}
	return faults
}

func exists(p string) bool {
	_, err := os.Stat(filepath.Join(top, p))
	return err == nil
}

// declares reports whether code declares a function, a method (T.M or M), or a method of an
// interface.
func declares(code, name string) bool {
	receiver := `\([^)]*\)\s`
	if t, m, ok := strings.Cut(name, "."); ok {
		if strings.Contains(code, "type "+t+" interface {") {
			return regexp.MustCompile(`(?m)^\t` + m + `\(`).MatchString(code)
		}
		receiver, name = `\(\w+ \*?`+t+`(\[\w+\])?\)\s`, m
		return regexp.MustCompile(`(?m)^func ` + receiver + name + `\(`).MatchString(code)
	}
	return regexp.MustCompile(`(?m)^func (` + receiver + `)?` + name + `[\[(]`).MatchString(code)
}

// TestRowFaults: a name that is not there is a fault.
func TestRowFaults(t *testing.T) {
	for _, c := range []struct {
		paths, functions []string
		want             int
	}{
		{[]string{"cmd/internal/layout/design_test.go"}, []string{"rowFaults", "names"}, 0},
		{[]string{"cmd/internal/layout", "design_test.go"}, []string{"rowFaults"}, 0},
		{[]string{"cmd/internal/layout/design_test.go"}, []string{"rowFaultsOf", "T.names"}, 2},
		{[]string{"cmd/internal/layout/none.go"}, nil, 1},
		{[]string{"schema"}, []string{"LeaseStore.SwapLease", "LeaseStore.Nothing"}, 1},
	} {
		if got := rowFaults(c.paths, c.functions); len(got) != c.want {
			t.Errorf("rowFaults(%q, %q) = %q, want %d", c.paths, c.functions, got, c.want)
		}
	}
}
