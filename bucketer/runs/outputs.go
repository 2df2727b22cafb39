package runs

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
	// outputWrites bounds the parts of one output that are written at once, outputReads those that
	// are read.
	outputWrites = 4
	outputReads  = 4
	// reportReads bounds the reports that are read at once. logReads bounds such reads for one page
	// of a log, so a page of many short reports may end before its limit.
	reportReads = 8
	logReads    = 16
)

// SaveOutput writes the output of the execution with row a, in parts, with a's timestamp and
// expiry. It returns how many bytes from the first one on are held. With an error that is less than
// all, and parts of the rest may be held too.
func (r *Recorder) SaveOutput(ctx context.Context, a *schema.Attempt, output []byte) (held int64, err error) {
	parts := (len(output) + schema.PartSize - 1) / schema.PartSize
	errs := make([]error, parts)
	var g errgroup.Group
	g.SetLimit(outputWrites)
	for i := range parts {
		g.Go(func() error {
			p := schema.Part{
				PartKey: schema.PartKey{Attempt: a.Number, Fence: a.Fence, Number: i + 1},
				Data:    output[i*schema.PartSize : min((i+1)*schema.PartSize, len(output))],
				Tenant:  a.Tenant,
			}
			errs[i] = r.store.PutPart(ctx, a.Run, schema.OutputPart, p, a.Written, a.Expires)
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

// SaveReport writes report number (from 1) of the execution with row a, with a's timestamp and
// expiry.
func (r *Recorder) SaveReport(ctx context.Context, a *schema.Attempt, number int, report *schema.Report) error {
	text, err := schema.EncodeReport(report)
	if err != nil {
		return err
	}
	p := schema.Part{PartKey: schema.PartKey{Attempt: a.Number, Fence: a.Fence, Number: number}, Data: text, Tenant: a.Tenant}
	if err := r.store.PutPart(ctx, a.Run, schema.ReportPart, p, a.Written, a.Expires); err != nil {
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
	// Chunks yields the bytes, in order. It may be used once, while the context lives with which it
	// was asked for.
	Chunks iter.Seq2[[]byte, error]
}

// Output returns the output of an attempt of a run. Attempt 0 stands for the one that succeeded, or
// else for the last that ended. If an attempt was executed twice, the output is that of the
// execution that counts. It answers schema.ErrNotFound if the tenant has no such run, and a
// NoAttemptError if the run has no such attempt.
func (r *Reader) Output(ctx context.Context, tenant string, id schema.RunID, attempt int) (Output, error) {
	run, err := r.Run(ctx, tenant, id)
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
	if rec.Sealed != "" {
		return Output{}, fmt.Errorf("output of %s: %w", id, schema.ErrSealed)
	}
	out := Output{Attempt: a.Number, Size: rec.OutputSize, Cut: rec.OutputCut, Binary: rec.OutputBinary}
	if rec.OutputSize > 0 {
		out.Chunks = r.chunks(ctx, a)
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

// executionOf returns the execution of an attempt that counts, among those that have ended. Number
// 0 stands for the last attempt that succeeded, or else for the last. known says that the attempt
// has begun.
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
			continue // a success counts more than what came after it
		}
		counts = a
	}
	return counts, known
}

// errGone: parts that the record of an output counts do not exist.
var errGone = errors.New("a part of the output is missing")

// chunks yields the parts of an output, as many bytes as the record says.
func (r *Reader) chunks(ctx context.Context, a *schema.Attempt) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		left := a.Record.OutputSize
		at := schema.PartKey{Attempt: a.Number, Fence: a.Fence}
		for left > 0 {
			want := min(outputReads, int((left+schema.PartSize-1)/schema.PartSize))
			parts, err := r.store.Parts(ctx, a.Run, schema.OutputPart, at, want)
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
