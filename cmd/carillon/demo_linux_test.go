package main

import (
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/HdrHistogram/hdrhistogram-go"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/cmd/carillon/clitest"
)

func TestWidthOfATerminal(t *testing.T) {
	t.Setenv("COLUMNS", "")
	_, program := clitest.OpenTerminal(t)
	if got := cli.Columns(program); got != 80 {
		t.Errorf("columns of a terminal that does not say = %d, want 80", got)
	}
	t.Setenv("COLUMNS", "61")
	if got := cli.Columns(program); got != 61 {
		t.Errorf("columns of a terminal that does not say = %d, want 61 as COLUMNS has it", got)
	}
	size := [4]uint16{24, 57, 0, 0}
	clitest.Control(t, program, syscall.TIOCSWINSZ, (*int32)(unsafe.Pointer(&size))) // #nosec G103 -- the kernel's interface
	if got := cli.Columns(program); got != 57 {
		t.Errorf("columns of a terminal of 57 = %d", got)
	}
}

func TestFit(t *testing.T) {
	parts := []string{"début", "middle", "▁▂▃"}
	for width, want := range map[int]string{
		80: "début  middle  ▁▂▃", 18: "début  middle  ▁▂▃", 17: "début  middle", 13: "début  middle", 12: "début", 5: "début", 4: "déb…", 1: "…", 0: "", -3: "",
	} {
		if got := cli.Fit(parts, width); got != want {
			t.Errorf("fit(%q, %d) = %q, want %q", parts, width, got, want)
		}
	}
}

// A usual terminal shows everything but the bars.
func TestScoreFitsInto80Columns(t *testing.T) {
	d := &demo{started: make(map[string]bool), lateness: hdrhistogram.New(1, 60_000_000, 3), second: make(map[int64]int), first: time.Now().Add(-time.Second)}
	for range 100 {
		if err := d.lateness.RecordValue(99_900); err != nil {
			t.Fatal(err)
		}
	}
	parts, _ := d.score(1200)
	line := cli.Fit(parts, 80-3)
	if want := cli.Fit(parts[:len(parts)-1], 1000); line != want {
		t.Errorf("the live line in 80 columns is %q, %d wide, want %q", line, utf8.RuneCountInString(line), want)
	}
	if line := cli.Fit(parts, 117); line != cli.Fit(parts, 1000) {
		t.Errorf("the live line in 120 columns is %q, want all of it", line)
	}
}
