package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon.dev/carillon/loadtest/spine"
)

func TestCommandLineCanBePasted(t *testing.T) {
	rows := []struct {
		name string
		args []string
		want string
	}{
		{"plain", []string{"/a/b/carillon-load", "spine", "--jobs", "10", "--beside=x.json"}, "carillon-load spine --jobs 10 --beside=x.json"},
		{"blanks and quotes", []string{"carillon-load", "--dir", "my runs", "it's"}, `carillon-load --dir 'my runs' 'it'\''s'`},
		{"empty", []string{"carillon-load", ""}, "carillon-load ''"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got := commandLine(row.args); got != row.want {
				t.Errorf("commandLine(%q) = %s, want %s", row.args, got, row.want)
			}
		})
	}
}

func TestSpineReportsStandBesideOthers(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new")
	calm := &spine.Report{Scenario: spine.Calm, Judged: true}
	var out bytes.Buffer
	if err := writeSpine(calm, nil, folder, &out); err != nil {
		t.Fatal(err)
	}
	others, err := readReports([]string{filepath.Join(folder, "calm.json")})
	if err != nil || len(others) != 1 || others[0].Scenario != spine.Calm {
		t.Fatalf("readReports = %v, %v, want the report of calm", others, err)
	}
	if err := writeSpine(&spine.Report{Scenario: spine.Faults}, others, folder, &out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "faults.md"))
	if err != nil || !strings.Contains(string(text), "| | faults | calm |") || !strings.HasSuffix(out.String(), string(text)) {
		t.Errorf("faults.md holds (%v):\n%s\nwant both columns, and the same as was printed", err, text)
	}
	if _, err := readReports([]string{filepath.Join(folder, "faults.md")}); err == nil {
		t.Error("readReports of a file that is no report = nil, want an error")
	}
}

func TestSpineRefusesBadFlags(t *testing.T) {
	_, err := load(t, "spine", "--scenario", "storm", "--jobs", "7", "--dir", t.TempDir(), "--out", t.TempDir())
	if err == nil {
		t.Error("spine --scenario storm = nil, want an error")
	}
}
