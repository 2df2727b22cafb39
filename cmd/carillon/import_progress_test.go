package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Where nobody looks, in a log or a pipe, progress is a plain line now and then.
func TestProgressIsPlainLinesElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &progress{start: time.Now()}
		src := &source{name: "jobs.ndjson", size: 1000}
		var out bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.show(ctx, &out, src)
		}()
		p.taken.Store(50)
		src.read.Store(500)
		p.count(tally{Created: 40, Failed: 10})
		time.Sleep(printEvery + printEvery/2)
		p.taken.Store(75)
		src.read.Store(750)
		p.count(tally{Existing: 25})
		time.Sleep(printEvery)
		cancel()
		<-done
		want := "jobs.ndjson:  50%, 50 lines, 10/s, 10 failed, 5s left\n" +
			"jobs.ndjson:  75%, 75 lines, 7/s, 10 failed, 3s left\n"
		if out.String() != want {
			t.Errorf("progress elsewhere than on a terminal:\n%q\nwant\n%q", &out, want)
		}
	})
}

func TestBar(t *testing.T) {
	for name, row := range map[string]struct {
		fraction float64
		full     int
	}{
		"not known": {-1, 0}, "none": {0, 0}, "half": {0.5, barWidth / 2}, "nearly all": {0.999, barWidth - 1}, "all": {1, barWidth},
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := bar(row.fraction), strings.Repeat("█", row.full)+strings.Repeat("░", barWidth-row.full); got != want {
				t.Errorf("bar(%v) = %s, want %s", row.fraction, got, want)
			}
		})
	}
}

// What is no terminal must not be taken for one: a bar would be drawn into it.
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
		if isTerminal(f) {
			t.Errorf("isTerminal(a %s) = true", name)
		}
	}
	if isTerminal(&bytes.Buffer{}) {
		t.Error("isTerminal(a buffer) = true")
	}
}
