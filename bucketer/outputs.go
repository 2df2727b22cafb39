package bucketer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/schema"
)

const (
	// outputWrites bounds the parts of one output that are written at once, outputReads those that are read at once.
	outputWrites = 4
	outputReads  = 4
	// reportReads bounds the reports read at once, logReads how many such reads a page of a log takes: one of lines that say little
	// ends before its limit.
	reportReads = 8
	logReads    = 16
)

// SaveOutput writes the output of the execution that row a is of, in parts, with a's timestamp and expiry. It returns how many bytes
// from the first one on are held: less than all of them with an error, which leaves open what became of the rest.
func (b *Bucketer) SaveOutput(ctx context.Context, a *schema.Attempt, output []byte) (held int64, err error) {
	parts := (len(output) + schema.PartSize - 1) / schema.PartSize
	errs := make([]error, parts)
	var g errgroup.Group
	g.SetLimit(outputWrites)
	for i := range parts {
		g.Go(func() error {
			p := schema.Part{
				PartKey: schema.PartKey{Attempt: a.Number, Fence: a.Fence, Number: i + 1},
				Data:    output[i*schema.PartSize : min((i+1)*schema.PartSize, len(output))],
			}
			errs[i] = b.store.PutPart(ctx, a.Run, schema.OutputPart, p, a.Written, a.Expires)
			return nil
		})
	}
	_ = g.Wait() // errs has them by part
	for i, err := range errs {
		if err != nil {
			return int64(i) * schema.PartSize, fmt.Errorf("save output: %w", err)
		}
	}
	return int64(len(output)), nil
}

// SaveReport writes the report with that number (from 1) of the execution that row a is of, with a's timestamp and expiry.
func (b *Bucketer) SaveReport(ctx context.Context, a *schema.Attempt, number int, r *schema.Report) error {
	text, err := schema.EncodeReport(r)
	if err != nil {
		return err
	}
	p := schema.Part{PartKey: schema.PartKey{Attempt: a.Number, Fence: a.Fence, Number: number}, Data: text}
	if err := b.store.PutPart(ctx, a.Run, schema.ReportPart, p, a.Written, a.Expires); err != nil {
		return fmt.Errorf("save report: %w", err)
	}
	return nil
}

// Output is what one execution of a run put out.
type Output struct {
	Attempt int   // 0: none has ended yet, and there is no output
	Size    int64 // bytes
	Cut     bool  // there was more than was kept
	Binary  bool  // it is not UTF-8
	// Chunks yields the bytes, in order. It may be used once, while the context lives with which it was asked for.
	Chunks iter.Seq2[[]byte, error]
}

// Output returns the output of an attempt of a run; 0 stands for the one that succeeded, or the last that has ended. ErrNotFound: there is no such run
// of the tenant, or no such attempt of it (then it
// is a NoAttemptError). Of an attempt that was executed twice it is that of the execution that counts.
func (b *Bucketer) Output(ctx context.Context, tenant string, id schema.RunID, attempt int) (Output, error) {
	run, err := b.Run(ctx, tenant, id)
	if err != nil {
		return Output{}, err
	}
	a, known := executionOf(run.Attempts, attempt)
	switch {
	case a == nil && attempt != 0 && !known:
		return Output{}, noAttempt(&run, attempt)
	case a == nil:
		return Output{Attempt: attempt, Chunks: func(func([]byte, error) bool) {}}, nil
	}
	rec := a.Record
	out := Output{Attempt: a.Number, Size: rec.OutputSize, Cut: rec.OutputCut, Binary: rec.OutputBinary}
	if rec.OutputSize > 0 {
		out.Chunks = b.chunks(ctx, a)
		return out, nil
	}
	out.Size, out.Binary = int64(len(rec.Output)), false
	out.Chunks = func(yield func([]byte, error) bool) {
		if rec.Output != "" {
			yield([]byte(rec.Output), nil)
		}
	}
	return out, nil
}

// NoAttemptError says that a run has no attempt of a number. It is a schema.ErrNotFound.
type NoAttemptError struct {
	Run    schema.RunID
	Number int
	Begun  []int // the numbers of those that have begun, in order
}

func (e *NoAttemptError) Error() string {
	return fmt.Sprintf("run %s has no attempt %d, only %d", e.Run, e.Number, e.Begun)
}

func (e *NoAttemptError) Unwrap() error { return schema.ErrNotFound }

func noAttempt(run *Run, number int) error {
	e := &NoAttemptError{Run: run.ID, Number: number}
	for i := range run.Attempts {
		if a := &run.Attempts[i]; a.Number != 0 && !a.Unstarted() {
			e.Begun = append(e.Begun, a.Number)
		}
	}
	slices.Sort(e.Begun)
	e.Begun = slices.Compact(e.Begun)
	return e
}

// executionOf returns the execution that counts of attempt number (0: of the last that succeeded, or else of the last) among those that have ended. known
// says that the attempt has begun.
func executionOf(attempts []schema.Attempt, number int) (counts *schema.Attempt, known bool) {
	for i := range attempts {
		a := &attempts[i]
		if a.Number == 0 || a.Unstarted() || number != 0 && a.Number != number {
			continue
		}
		known = true
		if a.Record == nil || counts != nil && counts.Number == a.Number && schema.IsSuperseded(attempts, i) {
			continue
		}
		if counts != nil && counts.Record.Outcome == schema.Succeeded && a.Record.Outcome != schema.Succeeded {
			continue // that one was thought lost
		}
		counts = a
	}
	return counts, known
}

// errGone: parts of an output that its record tells of are not there.
var errGone = errors.New("a part of the output is missing")

// chunks yields what lies in parts of an output, as much as the record says.
func (b *Bucketer) chunks(ctx context.Context, a *schema.Attempt) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		left := a.Record.OutputSize
		at := schema.PartKey{Attempt: a.Number, Fence: a.Fence}
		for left > 0 {
			want := min(outputReads, int((left+schema.PartSize-1)/schema.PartSize))
			parts, err := b.store.Parts(ctx, a.Run, schema.OutputPart, at, want)
			if err != nil {
				yield(nil, fmt.Errorf("output of %s: %w", a.Run, err))
				return
			}
			for _, p := range parts {
				at.Number++
				if p.PartKey != at {
					break
				}
				chunk := p.Data[:min(int64(len(p.Data)), left)]
				left -= int64(len(chunk))
				if !yield(chunk, nil) {
					return
				}
				want--
			}
			if want > 0 {
				yield(nil, fmt.Errorf("output of %s: %w: %w", a.Run, schema.ErrNotFound, errGone))
				return
			}
		}
	}
}

// progress returns what the attempt under way has told last.
func (b *Bucketer) progress(ctx context.Context, run *Run) (*schema.RunProgress, error) {
	for i := len(run.Attempts) - 1; i >= 0; i-- {
		a := &run.Attempts[i]
		if a.Number == 0 || a.Record != nil || a.Session == nil {
			continue
		}
		p, err := b.store.LastPart(ctx, a.Run, schema.ReportPart, schema.PartKey{Attempt: a.Number, Fence: a.Fence})
		switch {
		case errors.Is(err, schema.ErrNotFound):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("progress of %s: %w", a.Run, err)
		}
		r, err := schema.DecodeReport(p.Data)
		if err != nil {
			return nil, fmt.Errorf("progress of %s: %w", a.Run, err)
		}
		return r.Progress, nil
	}
	return nil, nil
}

// LogLine is a line of the log of a run. One with Dropped has no text: so many lines that followed the one before it were not kept.
type LogLine struct {
	Attempt int
	schema.Line
	Dropped int
}

// LogPosition is where the reading of a log goes on: at line number Line (from 0) of the report Report. The zero LogPosition is its beginning.
type LogPosition struct {
	Report schema.PartKey
	Line   int
}

// Logs returns lines that the attempts of a run logged, or one of them if attempt is not 0: in order of attempt, execution and time, from
// pos on, at most limit of them. It returns the next position unless the run has ended and there are no more lines: a caller
// that has come to the end of what there is asks again from there, a little later. What an execution logs after lines of a later one were
// returned is left out.
func (b *Bucketer) Logs(ctx context.Context, tenant string, id schema.RunID, attempt int, pos LogPosition, limit int) ([]LogLine, *LogPosition, error) {
	run, err := b.Run(ctx, tenant, id) // before the reports: an attempt whose record is there has written its last one
	if err != nil {
		return nil, nil, err
	}
	if attempt != 0 {
		if _, known := executionOf(run.Attempts, attempt); !known {
			return nil, nil, noAttempt(&run, attempt)
		}
		if pos == (LogPosition{}) {
			pos.Report.Attempt = attempt
		}
	}
	var lines []LogLine
	for range logReads {
		after := pos.Report
		after.Number = max(after.Number-1, 0)
		parts, err := b.store.Parts(ctx, id, schema.ReportPart, after, reportReads)
		if err != nil {
			return nil, nil, fmt.Errorf("log of %s: %w", id, err)
		}
		other := false
		for i := range parts {
			if other = attempt != 0 && parts[i].Attempt != attempt; other {
				break
			}
			more, err := linesOf(&parts[i])
			if err != nil {
				return nil, nil, fmt.Errorf("log of %s: %w", id, err)
			}
			if parts[i].PartKey != pos.Report {
				pos = LogPosition{Report: parts[i].PartKey}
			}
			more = more[min(pos.Line, len(more)):]
			taken := min(len(more), limit-len(lines))
			lines = append(lines, more[:taken]...)
			if taken < len(more) {
				pos.Line += taken
				return lines, &pos, nil
			}
			pos.Report.Number, pos.Line = pos.Report.Number+1, 0
		}
		if len(parts) < reportReads || other {
			if run.State.Terminal() {
				return lines, nil, nil
			}
			break
		}
	}
	return lines, &pos, nil
}

// linesOf returns the lines of a report.
func linesOf(p *schema.Part) ([]LogLine, error) {
	r, err := schema.DecodeReport(p.Data)
	if err != nil {
		return nil, err
	}
	lines := make([]LogLine, 0, len(r.Lines)+1)
	for _, l := range r.Lines {
		lines = append(lines, LogLine{Attempt: p.Attempt, Line: l})
	}
	if r.Dropped > 0 {
		lines = append(lines, LogLine{Attempt: p.Attempt, Dropped: r.Dropped})
	}
	return lines, nil
}
