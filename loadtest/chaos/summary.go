package chaos

import (
	"fmt"
	"io"
	"time"
)

// WriteSummary writes a row for each report, as the list of runs in FAULTS.md has them.
func WriteSummary(w io.Writer, reports ...*Report) error {
	_, err := io.WriteString(w, "| scenario | verdict | commit, date | jobs | missed / early / duplicate outcomes | "+
		"duplicate executions | worst lateness (bound) |\n|---|---|---|---|---|---|---|\n")
	if err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	for _, r := range reports {
		if _, err := fmt.Fprintln(w, summaryRow(r)); err != nil {
			return fmt.Errorf("write summary: %w", err)
		}
	}
	return nil
}

func summaryRow(r *Report) string {
	verdict := "ok"
	if r.Failed() {
		verdict = "**failed**"
	}
	c := &r.Check
	missed, early, doubled, surplus, late, bound := c.Missed, c.Early, c.DuplicateOutcomes, c.DuplicateExecutions, c.Seen, c.Bound
	if r.Recurring != nil { // Limits has both
		c := &r.Recurring.Check
		missed, early, doubled, surplus = missed+c.Missed, early+c.Early, doubled+c.DuplicateOutcomes, surplus+c.DuplicateExecutions
		if c.Seen.Max > late.Max {
			late, bound = c.Seen, c.Bound
		}
	}
	if !r.Judged {
		return fmt.Sprintf("| %s | %s: not judged | %s, %s | %d | | | |", r.Scenario, verdict, r.Commit, r.Began.UTC().Format(time.DateOnly), r.Settings.Jobs)
	}
	return fmt.Sprintf("| %s | %s | %s, %s | %d | %d / %d / %d | %d | %.1f s (%s) |", r.Scenario, verdict, r.Commit, r.Began.UTC().Format(time.DateOnly),
		r.Settings.Jobs, missed, early, doubled, surplus, late.Max/1000, bound)
}
