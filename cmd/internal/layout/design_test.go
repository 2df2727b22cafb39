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

// columns stand apart by two blanks or more.
var columns = regexp.MustCompile(` {2,}`)

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
		cells := columns.Split(strings.TrimSpace(line), -1)
		if !strings.HasPrefix(line, "    ") || len(cells) != 3 {
			continue
		}
		rows++
		for _, fault := range rowFaults(strings.Split(cells[1], ", "), strings.Split(cells[2], ", ")) {
			t.Errorf("%s: %s", cells[0], fault)
		}
	}
	if rows < 30 {
		t.Errorf("the table has %d rows, want 30 or more", rows)
	}
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
		{[]string{"cmd/internal/layout/design_test.go"}, []string{"rowFaults", "exists"}, 0},
		{[]string{"cmd/internal/layout", "design_test.go"}, []string{"rowFaults"}, 0},
		{[]string{"cmd/internal/layout/design_test.go"}, []string{"rowFaultsOf", "T.exists"}, 2},
		{[]string{"cmd/internal/layout/none.go"}, nil, 1},
		{[]string{"schema"}, []string{"LeaseStore.SwapLease", "LeaseStore.Nothing"}, 1},
	} {
		if got := rowFaults(c.paths, c.functions); len(got) != c.want {
			t.Errorf("rowFaults(%q, %q) = %q, want %d", c.paths, c.functions, got, c.want)
		}
	}
}
