package chaos

import (
	"fmt"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// recurringRows are the rows of scenarios with recurring jobs.
var recurringRows = []row{
	{"recurring jobs", of(func(r *Report, res *RecurringResult) string {
		text := fmt.Sprintf("%d, every %g s", r.Settings.Jobs, res.EverySeconds)
		for _, s := range res.Stops {
			text += fmt.Sprintf("; no node for %.0f s", s.To.Sub(s.From).Seconds())
		}
		if !res.End.IsZero() {
			text += fmt.Sprintf("; from a start to an end that they state, %.0f s", res.End.Sub(res.Start).Seconds())
			if res.LateSeconds > 0 {
				text += fmt.Sprintf(" (the last was created %.0f s after the start)", res.LateSeconds)
			}
			return text
		}
		return text + fmt.Sprintf("; observed for %.0f s from the last creation", res.Check.End.Sub(r.FirstDue).Seconds())
	})},
	{"targets, done", of(func(_ *Report, res *RecurringResult) string {
		return fmt.Sprintf("%d, %d", res.Check.Targets, res.Check.Done)
	})},
	{"recorded as missed by policy", of(func(_ *Report, res *RecurringResult) string {
		return fmt.Sprintf("%d (%s)", res.Check.MissedByPolicy, res.Check.Reasons())
	})},
	{"**missed, early, unexpected**", of(func(_ *Report, res *RecurringResult) string {
		return fmt.Sprintf("**%d, %d, %d**", res.Check.Missed, res.Check.Early, res.Check.Unexpected)
	})},
	{"**ghosts after change, duplicate outcomes**", of(func(_ *Report, res *RecurringResult) string {
		return fmt.Sprintf("**%d, %d**", res.Check.Ghosts, res.Check.DuplicateOutcomes)
	})},
	{"unfinished, unreadable", of(func(_ *Report, res *RecurringResult) string {
		return fmt.Sprintf("%d, %d", res.Check.Unfinished, res.Check.Unreadable)
	})},
	{"duplicate executions, late successes", of(func(_ *Report, res *RecurringResult) string {
		return fmt.Sprintf("%d, %d", res.Check.DuplicateExecutions, res.Check.LateSuccesses)
	})},
	{"changes acknowledged", of(func(_ *Report, res *RecurringResult) string {
		c := res.Check.Changes
		return fmt.Sprintf("%d updates, %d pauses, %d resumes, %d cancels (refused %d, unknown %d)", c.Updated, c.Paused, c.Resumed, c.Cancelled, c.Refused, c.Unknown)
	})},
	{"after the stop, by policy", of(func(_ *Report, res *RecurringResult) string {
		var lines []string
		for _, c := range res.Check.Policies {
			lines = append(lines, policyText(c))
		}
		if len(lines) == 0 {
			return "no stop"
		}
		return strings.Join(lines, "<br>")
	})},
	{"lateness as reported, ms: p50 / p90 / p99 / p99.9 / max", of(func(_ *Report, res *RecurringResult) string { return latenessText(res.Check.Reported) })},
	{"lateness as seen by the sink, ms", of(func(_ *Report, res *RecurringResult) string { return latenessText(res.Check.Seen) })},
	{"too late (bound)", of(func(_ *Report, res *RecurringResult) string {
		return fmt.Sprintf("%d (%s)", res.Check.TooLate, res.Check.Bound)
	})},
	{"created, cancelled", of(func(_ *Report, res *RecurringResult) string {
		if res.Ending.Requests == 0 {
			return fmt.Sprintf("%.0f/s, none", res.Creating.PerSecond())
		}
		return fmt.Sprintf("%.0f/s, %.0f/s", res.Creating.PerSecond(), res.Ending.PerSecond())
	})},
	{"arrivals: mean, peak second", of(func(r *Report, _ *RecurringResult) string {
		return fmt.Sprintf("%.0f/s, %d/s", r.Rates.Mean, r.Rates.Peak)
	})},
	{"CPU idle, s/s", of(func(r *Report, _ *RecurringResult) string {
		return cpuText(r, "idle", func(p Phase) float64 { return p.Seconds }, 1, 3)
	})},
	{"CPU of the creation, µs/job", of(func(r *Report, res *RecurringResult) string {
		return cpuText(r, "creation", func(Phase) float64 { return float64(res.Creating.Requests) }, 1e6, 0)
	})},
	{"CPU while they run, s/s", of(func(r *Report, _ *RecurringResult) string {
		return cpuText(r, "runs", func(p Phase) float64 { return p.Seconds }, 1, 3)
	})},
}

// of makes a cell that is empty in reports without recurring jobs.
func of(cell func(*Report, *RecurringResult) string) func(*Report) string {
	return func(r *Report) string {
		if r.Recurring == nil {
			return ""
		}
		return cell(r, r.Recurring)
	}
}

func policyText(c check.PolicyCount) string {
	name, computed := c.Policy, fmt.Sprint(c.RunMin)
	if c.Deadline > 0 {
		name += " " + time.Duration(c.Deadline).String()
	}
	if c.RunMin != c.RunMax {
		computed += fmt.Sprintf("–%d", c.RunMax)
	}
	return fmt.Sprintf("%s: of %d computed %s, ran %d, missed %d", name, c.Targets, computed, c.Ran, c.Missed)
}
