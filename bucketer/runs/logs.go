package runs

import (
	"context"
	"fmt"

	"carillon.dev/carillon/schema"
)

// LogLine is a line of the log of a run. If Dropped is not 0, the line has no text: Dropped lines
// after the one before it were not kept.
type LogLine struct {
	Attempt int
	schema.Line
	Dropped int
}

// LogPosition is where the reading of a log goes on: at line number Line (from 0) of Report. The
// zero LogPosition is the beginning.
type LogPosition struct {
	Report schema.PartKey
	Line   int
}

// Logs returns lines that the attempts of a run logged, or only those of one attempt if attempt is
// not 0. They are in order of attempt, execution and time, from pos on, at most limit of them.
//
// It returns no next position if the run has ended and there are no more lines. A caller that has
// read all lines of a run that goes on asks again from the next position later. Lines that an
// execution logs after lines of a later execution were returned are left out.
func (r *Reader) Logs(ctx context.Context, tenant string, id schema.RunID, attempt int, pos LogPosition, limit int) ([]LogLine, *LogPosition, error) {
	// read before the reports: an attempt with a record has written its last report
	run, err := r.Run(ctx, tenant, id)
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
		parts, err := r.store.Parts(ctx, id, schema.ReportPart, after, reportReads)
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

// LogReport is what an execution of a run reported within some time.
type LogReport struct {
	schema.PartKey
	Lines   []schema.Line
	Dropped int // lines after these that were not kept
	// Fault says why the report cannot be understood; nil: it can.
	Fault error
}

// Reports returns reports of a run after that one (zero: from the first), in order of attempt,
// execution and number, by one read of at most some hundred KiB. more says that there may be
// further ones. It does not ask whose the run is.
func (r *Reader) Reports(ctx context.Context, id schema.RunID, after schema.PartKey) (reports []LogReport, more bool, err error) {
	parts, err := r.store.Parts(ctx, id, schema.ReportPart, after, reportReads)
	if err != nil {
		return nil, false, fmt.Errorf("log of %s: %w", id, err)
	}
	reports = make([]LogReport, len(parts))
	for i := range parts {
		reports[i].PartKey = parts[i].PartKey
		report, err := schema.DecodeReport(parts[i].Data)
		if err != nil {
			reports[i].Fault = err
			continue
		}
		reports[i].Lines, reports[i].Dropped = report.Lines, report.Dropped
	}
	return reports, len(parts) == reportReads, nil
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
