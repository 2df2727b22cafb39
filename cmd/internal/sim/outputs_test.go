package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// One job of a scenario in outputEvery puts something out that does not fit its record, every
// fourth of these in two parts.
const outputEvery = 8

// urlOf returns what job number line of a scenario calls.
func urlOf(line int) string {
	if line%outputEvery == 0 {
		return fmt.Sprintf("http://sink/output/sim/%d", line)
	}
	return fmt.Sprintf("http://sink/sim/%d", line)
}

// payloadOf returns the payload of job number line of a scenario.
func payloadOf(line int) []byte { return fmt.Appendf(nil, `{"line":%d}`, line) }

// outputOf returns the output of an attempt that calls url. Every line names the attempt.
func outputOf(url string, line, number int, fence schema.Fence) []byte {
	if !strings.HasPrefix(url, "http://sink/output/") {
		return nil
	}
	text := fmt.Appendf(nil, "job %d, attempt %d under fence %d\n", line, number, fence)
	size := 4 << 10
	if line%(4*outputEvery) == 0 {
		size += schema.PartSize
	}
	return bytes.Repeat(text, size/len(text)+1)
}

// judgeOutputs reads the outputs of the runs. Each must be that of the attempt that counts, whole;
// where the store fails, as much of it as the record says.
func (w *world) judgeOutputs(ctx context.Context, b *engine.Engine) error {
	if w.s.Regions != nil && w.s.Regions.Gone {
		return nil // parts of some are lost with the region
	}
	for line, id := range w.ids {
		run, err := b.Run(ctx, w.tenantOf(line), id)
		if errors.Is(err, schema.ErrNotFound) {
			continue // others say that it was lost
		}
		if err != nil {
			return fmt.Errorf("the run of job %d: %w", line, err)
		}
		if run.State != schema.StateSucceeded {
			continue
		}
		out, err := b.Output(ctx, w.tenantOf(line), id, 0)
		if err != nil {
			return fmt.Errorf("the output of job %d: %w", line, err)
		}
		var got []byte
		for chunk, err := range out.Chunks {
			if err != nil {
				w.c.fault("the output of run %s cannot be read: %v", id, err)
			}
			got = append(got, chunk...)
		}
		if wrong := w.wrongOutput(line, &run, &out, got); wrong != "" {
			w.c.fault("run %s put out %d bytes (%d of attempt %d, cut: %t), which are %s", id, len(got), out.Size, out.Attempt, out.Cut, wrong)
		}
	}
	return nil
}

func (w *world) wrongOutput(line int, run *runs.Run, out *runs.Output, got []byte) string {
	for i := range run.Attempts {
		a := &run.Attempts[i]
		want := outputOf(urlOf(line), line, a.Number, a.Fence)
		switch {
		case a.Number != out.Attempt || a.Record == nil || !bytes.HasPrefix(want, got):
		case len(got) == len(want) && !out.Cut:
			return ""
		case out.Cut && (w.s.Faults.Store > 0 || w.s.Cuts.Count > 0):
			return ""
		}
	}
	return "not what one of its attempts put out"
}
