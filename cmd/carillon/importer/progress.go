package importer

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/cmd/carillon/cli"
)

// drawEvery is how often progress is drawn on a terminal.
const drawEvery = 200 * time.Millisecond

// progress counts the lines of one source by result, and shows the counts while lines are sent.
type progress struct {
	start                              time.Time
	earlier                            int64 // lines settled by earlier imports
	created, existing, failed, unknown atomic.Int64
	linesRead                          atomic.Int64
}

func (p *progress) count(t tally) {
	p.created.Add(t.Created)
	p.existing.Add(t.Existing)
	p.failed.Add(t.Failed)
}

func (p *progress) countUnknown() { p.unknown.Add(1) }

func (p *progress) done() tally {
	return tally{p.created.Load(), p.existing.Load(), p.failed.Load()}
}

// show shows the progress on w until ctx ends.
func (p *progress) show(ctx context.Context, w io.Writer, src *source) {
	live, every := cli.IsTerminal(w), cli.PrintEvery
	if live {
		every = drawEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if live {
				_, _ = fmt.Fprint(w, "\r\x1b[2K") // the summary follows here
			}
			return
		case now := <-tick.C:
			line := p.line(now.Sub(p.start), src.read.Load(), src.size)
			if live {
				_, _ = fmt.Fprintf(w, "\r\x1b[2K%s %s", cli.Bar(p.fraction(src.read.Load(), src.size)), line)
			} else {
				_, _ = fmt.Fprintf(w, "%s: %s\n", src.name, line)
			}
		}
	}
}

// fraction says how much is done, from 0 to 1; it is negative if the size is unknown.
//
//	fraction = bytes read / size × lines settled / lines read
func (p *progress) fraction(read, size int64) float64 {
	taken := p.linesRead.Load()
	if size == 0 || taken == 0 {
		return -1
	}
	t := p.done()
	done := p.earlier + t.total() + p.unknown.Load()
	return min(float64(read)/float64(size)*float64(done)/float64(taken), 1)
}

// line describes the progress in words.
func (p *progress) line(took time.Duration, read, size int64) string {
	t := p.done()
	n := t.total()
	text := fmt.Sprintf("%d lines, %d/s", p.earlier+n, rate(n, took))
	if t.Failed > 0 {
		text += fmt.Sprintf(", %d failed", t.Failed)
	}
	if f := p.fraction(read, size); f > 0 && n > 0 {
		// lines of the file, by the mean length so far
		all := float64(p.linesRead.Load()) * float64(size) / float64(max(read, 1))
		left := time.Duration((1 - f) * all / float64(n) * float64(took))
		text = fmt.Sprintf("%3.0f%%, %s, %v left", f*100, text, left.Round(time.Second))
	}
	return text
}

// rate returns lines per second.
func rate(n int64, took time.Duration) int64 {
	if took <= 0 {
		return 0
	}
	return int64(float64(n) / took.Seconds())
}
