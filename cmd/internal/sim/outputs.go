package sim

import (
	"bytes"
	"context"
	"fmt"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// One job in outputEvery puts something out that does not fit its record, every fourth of these in two parts.
const outputEvery = 8

// outputOf returns what an attempt puts out. It tells from whom it is, all along.
func outputOf(ref check.Ref, number int, fence schema.Fence) []byte {
	if ref.Source != "sim" || ref.Line%outputEvery != 0 {
		return nil
	}
	text := fmt.Appendf(nil, "job %d, attempt %d under fence %d\n", ref.Line, number, fence)
	size := 4 << 10
	if ref.Line%(4*outputEvery) == 0 {
		size += schema.PartSize
	}
	return bytes.Repeat(text, size/len(text)+1)
}

// judgeOutputs reads what the runs put out. It must be that of the attempt that counts, whole; or, where the store fails, as much as the record says.
func (w *world) judgeOutputs(ctx context.Context, b *bucketer.Bucketer) error {
	for line, id := range w.ids {
		run, err := b.Run(ctx, "default", id)
		if err != nil {
			return fmt.Errorf("the run of job %d: %w", line, err)
		}
		if run.State != schema.StateSucceeded {
			continue
		}
		out, err := b.Output(ctx, "default", id, 0)
		if err != nil {
			return fmt.Errorf("the output of job %d: %w", line, err)
		}
		var got []byte
		for chunk, err := range out.Chunks {
			if err != nil {
				w.c.broken("the output of run %s cannot be read: %v", id, err)
			}
			got = append(got, chunk...)
		}
		if wrong := w.wrongOutput(line, &run, &out, got); wrong != "" {
			w.c.broken("run %s put out %d bytes (%d of attempt %d, cut: %t), which are %s", id, len(got), out.Size, out.Attempt, out.Cut, wrong)
		}
	}
	return nil
}

func (w *world) wrongOutput(line int, run *bucketer.Run, out *bucketer.Output, got []byte) string {
	for i := range run.Attempts {
		a := &run.Attempts[i]
		want := outputOf(check.Ref{Source: "sim", Line: line}, a.Number, a.Fence)
		switch {
		case a.Number != out.Attempt || a.Record == nil || !bytes.HasPrefix(want, got):
		case len(got) == len(want) && !out.Cut:
			return ""
		case out.Cut && w.s.Faults.Store > 0:
			return ""
		}
	}
	return "not what one of its attempts put out"
}
