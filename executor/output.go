package executor

import (
	"context"
	"unicode/utf8"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// keepOutput writes the output where it does not fit the record of row, and says in the record how
// much there is. It comes before the record, so that what a record tells of can be read. It never
// loses the outcome: an output that cannot be written is cut.
func (a *attempt) keepOutput(row *schema.Attempt, res *target.Result) {
	x, rec, output := a.x, row.Record, res.Output
	defer res.Memory.Release()
	rec.Output = target.Truncate(string(output[:min(len(output), outputHead)]), outputHead)
	rec.OutputCut = res.OutputCut
	if len(rec.Output) == len(output) {
		return // all of it, and text
	}
	if len(output) > x.maxOutput {
		output, rec.OutputCut = output[:x.maxOutput], true
	}
	if rec.OutputCut {
		output = target.TrimPartialRune(output)
	}
	rec.OutputBinary = !utf8.Valid(output)
	bounded, cancel := context.WithTimeout(context.Background(), storeTimeout) // whatever has ended: the record follows
	defer cancel()
	whose := *row // a copy: the row of an attempt whose output fits its record, which is most, shall cost no allocation
	held, err := x.writer.SaveOutput(bounded, &whose, output)
	if rec.OutputSize = held; err != nil {
		rec.OutputCut = true
		x.log.Warn("an output could not be kept whole", "run", row.Run, "attempt", row.Number, "bytes", len(output), "kept", held, "err", err)
	}
	if rec.OutputCut {
		x.metrics.outputsCut.Inc()
	}
}
