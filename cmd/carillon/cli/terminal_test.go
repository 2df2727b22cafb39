package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// Only a terminal counts as one: a bar must not be drawn into a file.
func TestOnlyATerminalIsOne(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	defer func() { _ = w.Close() }()
	file, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	for name, f := range map[string]*os.File{"pipe": w, "file": file, "device that swallows everything": null} {
		if IsTerminal(f) {
			t.Errorf("isTerminal(a %s) = true", name)
		}
	}
	if IsTerminal(&bytes.Buffer{}) {
		t.Error("isTerminal(a buffer) = true")
	}
}

func TestBar(t *testing.T) {
	for name, row := range map[string]struct {
		fraction float64
		full     int
	}{
		"not known": {-1, 0}, "none": {0, 0}, "half": {0.5, barWidth / 2}, "nearly all": {0.999, barWidth - 1}, "all": {1, barWidth},
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := Bar(row.fraction), strings.Repeat("█", row.full)+strings.Repeat("░", barWidth-row.full); got != want {
				t.Errorf("bar(%v) = %s, want %s", row.fraction, got, want)
			}
		})
	}
}
