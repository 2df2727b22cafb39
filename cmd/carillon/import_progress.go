package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"
)

const (
	drawEvery  = 200 * time.Millisecond // on a terminal
	printEvery = 5 * time.Second        // elsewhere
	barWidth   = 24
)

// progress counts what became of the lines of one source, and shows it while they are sent.
type progress struct {
	start                             time.Time
	before                            int64 // lines done by imports before this one
	created, existing, failed, unsure atomic.Int64
	taken                             atomic.Int64 // lines read
}

func (p *progress) count(t tally) {
	p.created.Add(t.Created)
	p.existing.Add(t.Existing)
	p.failed.Add(t.Failed)
}

func (p *progress) lose() { p.unsure.Add(1) }

func (p *progress) done() tally {
	return tally{p.created.Load(), p.existing.Load(), p.failed.Load()}
}

// show shows the progress on w until ctx ends.
func (p *progress) show(ctx context.Context, w io.Writer, src *source) {
	live, every := isTerminal(w), printEvery
	if live {
		every = drawEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if live {
				_, _ = fmt.Fprint(w, "\r\x1b[2K") // the summary takes its place
			}
			return
		case now := <-tick.C:
			line := p.line(now.Sub(p.start), src.read.Load(), src.size)
			if live {
				_, _ = fmt.Fprintf(w, "\r\x1b[2K%s %s", bar(p.fraction(src.read.Load(), src.size)), line)
			} else {
				_, _ = fmt.Fprintf(w, "%s: %s\n", src.name, line)
			}
		}
	}
}

// fraction says how much is done, from 0 to 1, or less than 0 where the size is not known: the share of the bytes that were read,
// less the lines that were read and are not answered.
func (p *progress) fraction(read, size int64) float64 {
	taken := p.taken.Load()
	if size == 0 || taken == 0 {
		return -1
	}
	t := p.done()
	done := p.before + t.total() + p.unsure.Load()
	return min(float64(read)/float64(size)*float64(done)/float64(taken), 1)
}

// line is the progress in words, after a time.
func (p *progress) line(took time.Duration, read, size int64) string {
	t := p.done()
	n := t.total()
	text := fmt.Sprintf("%d lines, %d/s", p.before+n, rate(n, took))
	if t.Failed > 0 {
		text += fmt.Sprintf(", %d failed", t.Failed)
	}
	if f := p.fraction(read, size); f > 0 && n > 0 {
		all := float64(p.taken.Load()) * float64(size) / float64(max(read, 1)) // lines, if the rest is like what was read
		left := time.Duration((1 - f) * all / float64(n) * float64(took))
		text = fmt.Sprintf("%3.0f%%, %s, %v left", f*100, text, left.Round(time.Second))
	}
	return text
}

// rate is lines a second.
func rate(n int64, took time.Duration) int64 {
	if took <= 0 {
		return 0
	}
	return int64(float64(n) / took.Seconds())
}

// bar draws a fraction; one that is not known is an empty bar.
func bar(f float64) string {
	full := int(max(f, 0) * barWidth)
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}
