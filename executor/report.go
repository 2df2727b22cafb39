package executor

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// Bounds of what workers tell while they run. What goes beyond is dropped, and counted where a
// reader of the log sees it.
const (
	// reportEvery is how often what was told is written, and so how long it takes to be seen.
	reportEvery = time.Second
	// progressEvery is how often progress is written that comes without lines; of a long attempt
	// more seldom, a progressShare of the time that it has run: an attempt of a day writes some 500
	// times.
	progressEvery = 2 * time.Second
	progressShare = 60
	// reportWriters bounds the reports written at once.
	reportWriters = 16
	// maxLine bounds a line of log, bytes.
	maxLine = 8 << 10
	// maxWaiting bounds what an attempt may tell between two writes, in bytes as written: also its
	// rate.
	maxWaiting = 256 << 10
	// maxLines and maxLogBytes bound the log of an attempt.
	maxLines    = 10_000
	maxLogBytes = 1 << 20
	// maxAllWaiting bounds what waits to be written of all attempts, bytes.
	maxAllWaiting = 64 << 20
	// reportRoom is what one report may hold of lines, bytes as written; the rest of a part is for
	// progress.
	reportRoom = schema.PartSize - 8<<10
	// maxProgressText bounds the text of a progress, bytes.
	maxProgressText = 512
)

// report is what the worker of one attempt has told.
type report struct {
	by      *reporter
	began   time.Time
	writing chan struct{} // cap 1: held while one writes

	mu              sync.Mutex
	row             schema.Attempt // whose report it is; no cells
	waiting         []schema.Report
	sealed          bool // the first that waits is being written, or may have been: it does not change any more
	last            int  // bytes of the last one that waits, as written
	size            int  // bytes of all that wait
	progress        *schema.RunProgress
	progressPending bool      // progress is in no report that waits or was written
	progressAt      time.Time // when progress may be written without lines
	lines           int       // taken in altogether …
	bytes           int       // … and their bytes
	dropped         int       // not taken in
	closed          bool

	number int // of the last report that is held; guarded by writing
}

// feedback is where the target of an attempt says what its worker tells.
type feedback struct{ a *attempt }

// Log implements target.Feedback.
func (f *feedback) Log(text string) {
	if r := f.open(); r != nil {
		r.log(text, f.a.x.now())
	}
}

// Progress implements target.Feedback.
func (f *feedback) Progress(done, total int64, text string) {
	if r := f.open(); r != nil {
		at := f.a.x.now().UTC().Truncate(time.Millisecond)
		text = target.Truncate(text, maxProgressText)
		r.setProgress(schema.RunProgress{Done: done, Total: total, Text: text, At: at})
	}
}

// open returns the attempt's report, or nil if it does not run.
func (f *feedback) open() *report {
	a := f.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.running {
		return nil
	}
	if a.report == nil {
		a.report = &report{
			by: a.x.reporter, began: a.began, writing: make(chan struct{}, 1),
			row: schema.Attempt{Run: a.entry.Run(), Number: a.number, Fence: a.fence, Written: a.started.UnixMicro(), Expires: a.expiry(a.started), Tenant: a.entry.Spec.Tenant},
		}
	}
	return a.report
}

// keep writes what is left of the report, and says in the record of row what it came to. The
// attempt runs no more.
func (f *feedback) keep(row *schema.Attempt) {
	f.a.mu.Lock()
	r := f.a.report
	f.a.mu.Unlock()
	if r == nil {
		return
	}
	bounded, cancel := context.WithTimeout(context.Background(), storeTimeout) // whatever has ended: the record follows
	defer cancel()
	row.Record.Lines, row.Record.LinesDropped, row.Record.Progress = r.close(bounded)
}

// log takes the lines of a text in.
func (r *report) log(text string, now time.Time) {
	at := now.UTC().Truncate(time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	text = strings.TrimSuffix(text, "\n")
	for more := true; more; {
		var line string
		line, text, more = strings.Cut(text, "\n")
		line = cleanLine(line)
		if !r.add(schema.Line{At: at, Text: line}, writtenSize(line)) {
			// All workers are heard by one goroutine: a text of a million lines must not keep it
			// while nothing of it is kept.
			if more {
				r.drop(strings.Count(text, "\n") + 1)
			}
			break
		}
	}
	r.by.schedule(r)
}

// cleanLine returns a line as it is kept. It reads no more of the line than that.
func cleanLine(line string) string {
	line = strings.TrimSuffix(line, "\r")
	long := len(line) > maxLine
	if long {
		line = string(target.TrimPartialRune([]byte(line[:maxLine])))
	}
	if line = strings.ToValidUTF8(line, "\uFFFD"); long || len(line) > maxLine {
		line = target.Truncate(line, maxLine) + "…"
	}
	return line
}

// add takes a line in, or counts it as dropped behind the one before it and returns false.
func (r *report) add(line schema.Line, size int) bool {
	full := r.lines >= maxLines || r.bytes+size > maxLogBytes || r.size+size > maxWaiting || !r.by.reserve(size)
	n := len(r.waiting)
	if n == 0 || n == 1 && r.sealed || !full && (r.waiting[n-1].Dropped > 0 || r.last+size > reportRoom) {
		r.waiting, r.last = append(r.waiting, schema.Report{}), 0
		n++
	}
	if full {
		r.drop(1)
		return false
	}
	r.waiting[n-1].Lines = append(r.waiting[n-1].Lines, line)
	r.last, r.size, r.bytes, r.lines = r.last+size, r.size+size, r.bytes+size, r.lines+1
	return true
}

// drop counts n lines behind the last that waits.
func (r *report) drop(n int) {
	r.waiting[len(r.waiting)-1].Dropped += n
	r.dropped += n
}

// setProgress notes progress.
func (r *report) setProgress(p schema.RunProgress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.progress, r.progressPending = &p, true
		r.by.schedule(r)
	}
}

// writtenSize returns how many bytes a line takes at most when it is written as JSON.
func writtenSize(line string) int {
	n := len(line) + len(`{"at":"2026-11-21T09:30:00.000Z","text":""},`)
	for i := range len(line) {
		if c := line[i]; c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == 0xe2 { // 0xe2: U+2028 and U+2029 are written \u2028
			n += len(`\u0000`) - 1
		}
	}
	return n
}

// flush writes what waits, and progress if it is due or all of it is to be written. What cannot be
// written waits on.
func (r *report) flush(ctx context.Context, now time.Time, all bool) error {
	select {
	case r.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.writing }()
	for {
		out, row, lines, more := r.next(now, all)
		if !more {
			return nil
		}
		if err := r.by.writer.SaveReport(ctx, &row, r.number+1, &out); err != nil {
			if !lines { // it may be held, and a reader may have passed it: what comes next has another number
				r.number++
			}
			r.by.schedule(r)
			return err
		}
		r.number++
		r.written(&out, lines)
	}
}

// next returns the next report to write, and whether it is one that waits: that one stays until it
// is held, and is the same at a second try.
func (r *report) next(now time.Time, all bool) (out schema.Report, row schema.Attempt, lines, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines = len(r.waiting) > 0
	if !lines && (!r.progressPending || !all && now.Before(r.progressAt)) {
		return schema.Report{}, schema.Attempt{}, false, false
	}
	if lines {
		out, r.sealed = r.waiting[0], true
	}
	out.Progress = r.progress
	row = r.row
	row.Written = max(r.row.Written, now.UnixMicro())
	return out, row, lines, true
}

// written takes away what is held.
func (r *report) written(out *schema.Report, lines bool) {
	now := r.by.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if lines {
		r.waiting, r.sealed = r.waiting[1:], false
		size := 0
		for i := range out.Lines {
			size += writtenSize(out.Lines[i].Text)
		}
		r.size -= size
		r.by.release(size)
		r.by.metrics.logLines.WithLabelValues("kept").Add(float64(len(out.Lines)))
	}
	if r.progress == out.Progress {
		r.progressPending = false
	}
	r.progressAt = now.Add(max(progressEvery, time.Since(r.began)/progressShare))
}

// close writes what is left, and returns what the report came to. Nothing is taken in any more.
func (r *report) close(ctx context.Context) (lines, dropped int, p *schema.RunProgress) {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	err := r.flush(ctx, r.by.now(), true)
	r.by.forget(r)
	if err != nil {
		r.by.log.Warn("the end of a log could not be kept", "run", r.row.Run, "attempt", r.row.Number, "err", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.by.release(r.size) // it is not written any more
	r.by.metrics.logLines.WithLabelValues("dropped").Add(float64(r.dropped))
	kept := r.lines
	for i := range r.waiting {
		kept -= len(r.waiting[i].Lines)
	}
	return kept, r.dropped + r.lines - kept, r.progress
}

// reporter writes the reports of all attempts.
type reporter struct {
	writer  Writer
	now     func() time.Time
	log     *slog.Logger
	metrics *metrics
	waiting atomic.Int64 // bytes, of all reports
	failing atomic.Bool  // the last write failed

	mu    sync.Mutex
	dirty map[*report]struct{}
}

func newReporter(w Writer, now func() time.Time, log *slog.Logger, m *metrics) *reporter {
	return &reporter{writer: w, now: now, log: log, metrics: m, dirty: make(map[*report]struct{})}
}

// reserve reserves memory for a line.
func (p *reporter) reserve(n int) bool {
	if p.waiting.Add(int64(n)) > maxAllWaiting {
		p.waiting.Add(-int64(n))
		return false
	}
	return true
}

func (p *reporter) release(n int) { p.waiting.Add(-int64(n)) }

// schedule has a report written at the next turn.
func (p *reporter) schedule(r *report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dirty[r] = struct{}{}
}

func (p *reporter) forget(r *report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.dirty, r)
}

// run writes what attempts under way have told until ctx ends. What is left then they write
// themselves when they end.
func (p *reporter) run(ctx context.Context) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.mu.Lock()
		dirty := p.dirty
		p.dirty = make(map[*report]struct{}, len(dirty))
		p.mu.Unlock()
		now := p.now()
		var writers errgroup.Group
		writers.SetLimit(reportWriters)
		for r := range dirty {
			writers.Go(func() error {
				p.write(ctx, r, now)
				return nil
			})
		}
		_ = writers.Wait()
	}
}

// write writes what waits of one report.
func (p *reporter) write(ctx context.Context, r *report, now time.Time) {
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := r.flush(bounded, now, false)
	switch {
	case err == nil:
		p.failing.Store(false)
	case ctx.Err() == nil && !p.failing.Swap(true):
		p.log.Warn("what workers tell cannot be written: it waits", "run", r.row.Run, "err", err)
	}
	r.mu.Lock()
	again := r.progressPending && !r.closed
	r.mu.Unlock()
	if again {
		p.schedule(r) // progress whose time has not come
	}
}
