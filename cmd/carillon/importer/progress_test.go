package importer

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/cmd/carillon/cli"
)

// In a log or a pipe, progress is a plain line every few seconds.
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
		p.linesRead.Store(50)
		src.read.Store(500)
		p.count(tally{Created: 40, Failed: 10})
		time.Sleep(cli.PrintEvery + cli.PrintEvery/2)
		p.linesRead.Store(75)
		src.read.Store(750)
		p.count(tally{Existing: 25})
		time.Sleep(cli.PrintEvery)
		cancel()
		<-done
		want := "jobs.ndjson:  50%, 50 lines, 10/s, 10 failed, 5s left\n" +
			"jobs.ndjson:  75%, 75 lines, 7/s, 10 failed, 3s left\n"
		if out.String() != want {
			t.Errorf("progress elsewhere than on a terminal:\n%q\nwant\n%q", &out, want)
		}
	})
}
