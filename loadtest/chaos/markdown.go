package chaos

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/check"
)

// A row is a line of the table: a name, and a cell for each report.
type row struct {
	name string
	cell func(*Report) string
}

// WriteMarkdown writes a block for RESULTS.md: a table with a column for each report, then what was
// done to the cluster. It shows machine and commit of each.
func WriteMarkdown(w io.Writer, reports ...*Report) error {
	var b strings.Builder
	names := make([]string, len(reports))
	for i, r := range reports {
		names[i] = string(r.Scenario)
	}
	fmt.Fprintf(&b, "### Chaos: %s\n\n| |%s\n|---|%s\n", strings.Join(names, ", "), cells(names), strings.Repeat("---|", len(reports)))
	for _, row := range rowsOf(reports) {
		texts := make([]string, len(reports))
		for i, r := range reports {
			texts[i] = strings.ReplaceAll(row.cell(r), "|", `\|`)
		}
		fmt.Fprintf(&b, "| %s |%s\n", row.name, cells(texts))
	}
	for _, r := range reports {
		if len(r.Figures) > 0 {
			fmt.Fprintf(&b, "\nWhat was measured in *%s*:\n\n", r.Scenario)
		}
		for _, f := range r.Figures {
			fmt.Fprintf(&b, "* %s: %s\n", f.Name, f.Value)
		}
	}
	for _, r := range reports {
		if len(r.Events) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\nWhat happened in *%s*, in seconds after the first due instant:\n\n", r.Scenario)
		events := slices.SortedFunc(slices.Values(r.Events), func(a, b Event) int { return cmp.Compare(a.AfterFirstDue, b.AfterFirstDue) })
		for _, e := range events { // they are kept in the order of their ends
			fmt.Fprintf(&b, "* %.1f: %s\n", e.AfterFirstDue, e)
		}
	}
	_, err := io.WriteString(w, b.String())
	if err != nil {
		return fmt.Errorf("write markdown: %w", err)
	}
	return nil
}

// String names the act, and how long a start took.
func (e Event) String() string {
	s := strings.TrimSpace(string(e.Act) + " " + e.Member)
	if e.Act == ActStart || e.Act == ActStartAll {
		s += fmt.Sprintf(" (ready after %.1f s)", e.Ended.Sub(e.Began).Seconds())
	}
	if e.Note != "" {
		s += " (" + e.Note + ")"
	}
	return s
}

func cells(texts []string) string {
	var b strings.Builder
	for _, t := range texts {
		b.WriteString(" " + t + " |")
	}
	return b.String()
}

// rowsOf returns the rows of any of the reports. Cells of the other reports are empty.
func rowsOf(reports []*Report) []row {
	rows := slices.Clone(commonRows)
	recurs := func(r *Report) bool { return r.Recurring != nil && r.Scenario != Limits }
	limits := func(r *Report) bool { return r.Scenario == Limits }
	workflows := func(r *Report) bool { return r.Scenario == Workflows }
	for _, part := range []struct {
		rows []row
		is   func(*Report) bool
	}{
		{guaranteeRows, func(r *Report) bool { return r.Scenario.Guards() || r.Scenario.Steady() }},
		{oneOffRows, func(r *Report) bool { return !recurs(r) && !limits(r) && !workflows(r) }},
		{recurringRows, recurs},
		{limitsRows, limits},
		{workflowRows, workflows},
	} {
		if !slices.ContainsFunc(reports, part.is) {
			continue
		}
		for _, row := range part.rows {
			cell := row.cell
			row.cell = func(r *Report) string {
				if !part.is(r) {
					return ""
				}
				return cell(r)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// commonRows are of every scenario, oneOffRows of those with one-off jobs.
var commonRows = []row{
	{"verdict", func(r *Report) string {
		if faults := r.Faults(); len(faults) > 0 {
			return "**FAILED**: " + strings.Join(faults, "; ")
		}
		return "ok"
	}},
	{"command", func(r *Report) string { return "`" + r.Command + "`" }},
	{"date, commit", func(r *Report) string { return r.Began.UTC().Format(time.DateOnly) + ", " + r.Commit }},
	{"machine", func(r *Report) string { return r.Machine }},
	{"versions", func(r *Report) string {
		v := r.Versions
		return fmt.Sprintf("%s, Cassandra %s on Java %s, NATS %s", v["go"], v["cassandra"], v["java"], v["nats"])
	}},
	{"settings", func(r *Report) string {
		s, c := r.Settings, r.Settings.Cluster
		each := ""
		if r.Regions != nil {
			each = fmt.Sprintf("%d regions, %g ms apart, and a witness; each region: ", r.Regions.Regions, r.Regions.DelayMS)
		}
		return each + fmt.Sprintf("%d Cassandra (profile %s, replication %d), %d NATS (stream replicas %d), %s",
			c.Cassandra, c.Profile, s.Replication, c.NATS, s.StreamReplicas, nodesText(c))
	}},
	{"durability", func(r *Report) string {
		return fmt.Sprintf("commit log %s, JetStream on file, sync interval %s", r.Settings.Cluster.CommitLog, natsSync(r.Settings.Cluster.NATSSync))
	}},
}

var oneOffRows = []row{
	{"jobs", func(r *Report) string {
		s := r.Settings
		if r.Scenario.Guards() {
			return fmt.Sprintf("%d due over %g s from %g s after the start, of all guarantees", s.Jobs, s.SpanSeconds, s.LeadSeconds)
		}
		if r.Scenario.Steady() {
			return fmt.Sprintf("%d due over %g s from %g s after the start, of all guarantees; a fifth imported meanwhile",
				s.Jobs, s.SpanSeconds, s.LeadSeconds)
		}
		if r.Scenario.Loads() {
			return fmt.Sprintf("%d due over %g s, with keys", s.Jobs, max(s.SpanSeconds, 0))
		}
		main, near, immediate := counts(s.Jobs)
		keys := "without keys"
		if s.Keyed {
			keys = "with keys"
		}
		return fmt.Sprintf("%d due over %g s from %g s after the start (%s), %d due within the minute of their import, %d immediate",
			main, s.SpanSeconds, s.LeadSeconds, keys, near, immediate)
	}},
	{"asked, acknowledged, done", func(r *Report) string {
		c := &r.Check
		return fmt.Sprintf("%d, %d, %d (cancelled unstarted %d)", c.Asked, c.Acknowledged, c.Done, c.Cancelled)
	}},
	{"missed, early, unexpected", func(r *Report) string {
		return fmt.Sprintf("%d, %d, %d", r.Check.Missed, r.Check.Early, r.Check.Unexpected)
	}},
	{"ghosts after cancel, duplicate outcomes", func(r *Report) string {
		return fmt.Sprintf("%d, %d", r.Check.Ghosts, r.Check.DuplicateOutcomes)
	}},
	{"unfinished, unreadable", func(r *Report) string {
		return fmt.Sprintf("%d, %d", r.Check.Unfinished, r.Check.Unreadable+r.Check.UnreadableOthers+r.Check.Unlisted)
	}},
	{"duplicate executions, late successes", func(r *Report) string {
		return fmt.Sprintf("%d, %d", r.Check.DuplicateExecutions, r.Check.LateSuccesses)
	}},
	{"changes acknowledged", func(r *Report) string {
		c := r.Changes
		return fmt.Sprintf("%d cancels, %d reschedules (refused %d, unknown %d)", c.Cancels, c.Reschedules, c.Refused, c.Unknown)
	}},
	{"lateness as reported, ms: p50 / p90 / p99 / p99.9 / max", func(r *Report) string { return latenessText(r.Check.Reported) }},
	{"lateness as seen by the sink, ms", func(r *Report) string { return latenessText(r.Check.Seen) }},
	{"too late (bound)", func(r *Report) string { return fmt.Sprintf("%d (%s)", r.Check.TooLate, r.Check.Bound) }},
	{"main import", func(r *Report) string {
		for _, i := range r.Imports {
			if i.Source == "main" || i.Source == guaranteesSource || i.Source == steadySource {
				return fmt.Sprintf("%d lines in %.1f s: %.0f lines/s (%d sends)", i.Lines, i.Seconds, i.Rate(), i.Sends)
			}
		}
		return "none"
	}},
	{"arrivals: mean, peak second, last", arrivalsCell},
	{"CPU idle, s/s", coresIn("idle")},
	{"CPU of the main import, µs/line", func(r *Report) string {
		lines, _, _ := counts(r.Settings.Jobs)
		if r.Scenario.Guards() {
			lines = r.Settings.Jobs
		}
		return cpuText(r, "main import", func(Phase) float64 { return float64(lines) }, 1e6, 0)
	}},
	{"CPU of the runs (from the import's end), µs/run", func(r *Report) string {
		return cpuText(r, "runs", func(Phase) float64 { return float64(r.Check.Done) }, 1e6, 0)
	}},
}

func arrivalsCell(r *Report) string {
	return fmt.Sprintf("%.0f/s, %d/s, %.1f s after the first due instant", r.Rates.Mean, r.Rates.Peak, r.Rates.Last)
}

// nodesText says which roles the nodes have.
func nodesText(c cluster.Spec) string {
	if len(c.Roles) == 0 {
		return fmt.Sprintf("%d nodes with every role", c.Nodes)
	}
	roles := make([]string, len(c.Roles))
	for i := range c.Roles {
		roles[i] = strings.Join(c.Roles[i], "+")
	}
	return "nodes: " + strings.Join(roles, ", ")
}

func natsSync(d time.Duration) string {
	switch {
	case d == 0:
		return "default (2 min)"
	case d < 0:
		return "always"
	default:
		return d.String()
	}
}

func latenessText(l check.Lateness) string {
	return fmt.Sprintf("%.1f / %.1f / %.1f / %.1f / %.1f", l.P50, l.P90, l.P99, l.P999, l.Max)
}

// cpuText shows the CPU seconds of each kind in a phase, divided and scaled.
func cpuText(r *Report, phase string, by func(Phase) float64, scale float64, digits int) string {
	for _, p := range r.Phases {
		if p.Name != phase {
			continue
		}
		n := by(p)
		if n <= 0 {
			break
		}
		var parts []string
		for _, kind := range []string{"carillon", "cassandra", "nats", "sink", "load"} {
			parts = append(parts, fmt.Sprintf("%s %.*f", kind, digits, p.Of(kind)/n*scale))
		}
		return strings.Join(parts, ", ") + fmt.Sprintf(" (over %.0f s)", p.Seconds)
	}
	return "not measured"
}

// coresIn is a cell with the CPU seconds of each kind in a second of a phase.
func coresIn(phase string) func(*Report) string {
	return func(r *Report) string {
		return cpuText(r, phase, func(p Phase) float64 { return p.Seconds }, 1, 3)
	}
}

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
		return cmp.Or(lines(res.Check.Policies, policyText), "no stop")
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
	{"CPU idle, s/s", coresIn("idle")},
	{"CPU of the creation, µs/job", of(func(r *Report, res *RecurringResult) string {
		return cpuText(r, "creation", func(Phase) float64 { return float64(res.Creating.Requests) }, 1e6, 0)
	})},
	{"CPU while they run, s/s", coresIn("runs")},
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
	if res := r.Workflows; res != nil {
		c := &res.Check
		missed, early, surplus, late, bound = c.Missed, c.Early, c.DuplicateExecutions, c.Late, c.Bound
	}
	if !r.Judged {
		return fmt.Sprintf("| %s | %s: not judged | %s, %s | %d | | | |", r.Scenario, verdict, r.Commit, r.Began.UTC().Format(time.DateOnly), r.Settings.Jobs)
	}
	return fmt.Sprintf("| %s | %s | %s, %s | %d | %d / %d / %d | %d | %.1f s (%s) |", r.Scenario, verdict, r.Commit, r.Began.UTC().Format(time.DateOnly),
		r.Settings.Jobs, missed, early, doubled, surplus, late.Max/1000, bound)
}
