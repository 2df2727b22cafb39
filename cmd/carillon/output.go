package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"carillon.dev/carillon/bucketer/httpapi"
)

const (
	// timeFormat is how tables show an instant: in UTC, so that it can be compared with logs of any machine.
	timeFormat = "2006-01-02T15:04:05.000Z"
	// outputLines is how much of an attempt's output a table shows.
	outputLines = 10
)

// table writes rows in columns, the first row being the head.
func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if cell = clean(cell); cell == "" {
				cell = "-"
			}
			if i > 0 {
				cell = "\t" + cell
			}
			if _, err := io.WriteString(t, cell); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
		if _, err := io.WriteString(t, "\n"); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// document writes v as indented JSON.
func document(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// clean makes text that came from elsewhere safe for a terminal and for one line of it: control characters and those
// that turn the direction of text are shown as what they are.
func clean(s string) string {
	if !strings.ContainsFunc(s, unsafeRune) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unsafeRune(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unsafeRune(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// showTime shows an instant in UTC, to the ms; the zero time is empty.
func showTime(t httpapi.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeFormat)
}

// showTook shows the time between two instants, if both are known.
func showTook(from, to httpapi.Time) string {
	if from.IsZero() || to.IsZero() {
		return ""
	}
	return to.Sub(from.Time).Round(time.Millisecond).String()
}

func showLateness(ms *int64) string {
	if ms == nil {
		return ""
	}
	return fmt.Sprintf("%d ms", *ms)
}

// jobHead is the head of a table of jobs.
var jobHead = []string{"ID", "NAME", "STATE", "SCHEDULE", "NEXT", "PRIORITY", "WORK"}

// writeJobs shows jobs as a table.
func writeJobs(w io.Writer, jobs ...httpapi.Job) error {
	rows := [][]string{jobHead}
	for i := range jobs {
		rows = append(rows, jobRow(&jobs[i]))
	}
	return table(w, rows)
}

// jobRow shows a job as a row of a table. Of a one-off job the next run is its only one, also when that has been.
func jobRow(j *httpapi.Job) []string {
	next := j.Schedule.At
	if j.NextRun != nil {
		next = j.NextRun.DueAt
	}
	return []string{j.ID.String(), j.Name, j.State, scheduleOf(j), showTime(next), string(j.Priority), workOf(j)}
}

// scheduleOf says in a few words when a job is due.
func scheduleOf(j *httpapi.Job) string {
	switch s := &j.Schedule; {
	case s.Cron != "" && s.Timezone != "UTC":
		return s.Cron + " " + s.Timezone
	case s.Cron != "":
		return s.Cron
	case s.Every > 0:
		return "every " + showSpan(s.Every.Std())
	}
	return "once"
}

// showSpan shows a duration without parts that are zero at its end: 15m, 1h30m.
func showSpan(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if short, ok := strings.CutSuffix(s, zero); ok {
			s = short + zero[:1]
		}
	}
	return s
}

// workOf says in a few words what a job does.
func workOf(j *httpapi.Job) string {
	switch {
	case j.HTTP != nil:
		return j.HTTP.Method + " " + j.HTTP.URL
	case j.NATS != nil:
		return "nats " + j.NATS.Subject
	case j.Script != nil:
		return "script " + j.Script.Command
	}
	return "task " + j.Task
}

// showWaiting says what holds a run back, and since when.
func showWaiting(w *httpapi.Waiting) string {
	if w == nil {
		return ""
	}
	return "since " + showTime(w.Since) + ", " + w.Reason
}

// writeRun shows everything that is known of a run: facts, attempts, and the head of their outputs.
func writeRun(w io.Writer, r *httpapi.Run) error {
	facts := [][]string{
		{"run", r.ID.String()},
		{"state", string(r.State)},
		{"due", showTime(r.DueAt)},
		{"started", showTime(r.StartedAt)},
		{"finished", showTime(r.FinishedAt)},
		{"lateness", showLateness(r.LatenessMS)},
		{"priority", string(r.Priority)},
	}
	for _, more := range []struct{ name, value string }{
		{"job", jobOfRun(r)},
		{"trigger", trigger(r)},
		{"task", r.Task},
		{"next attempt", showTime(r.NextAttemptAt)},
		{"waiting", showWaiting(r.Waiting)},
		{"cancelled", r.CancelReason},
		{"progress", showProgress(r.Progress)},
		{"payload", head(string(r.Payload), 200)},
	} {
		if more.value != "" {
			facts = append(facts, []string{more.name, more.value})
		}
	}
	if !r.Origin.IsZero() {
		facts = append(facts, []string{"origin", r.Origin.String()})
	}
	if m := r.Missed; m != nil {
		facts = append(facts, []string{"missed", fmt.Sprintf("%d from %s to %s: %s", m.Count, showTime(m.From), showTime(m.To), m.Reason)})
	}
	if err := table(w, facts); err != nil || len(r.Attempts) == 0 {
		return err
	}
	rows := [][]string{{"ATTEMPT", "OUTCOME", "STARTED", "TOOK", "STATUS", "EXECUTOR", "ERROR"}}
	for _, a := range r.Attempts {
		outcome, status := string(a.Outcome), ""
		if outcome == "" {
			outcome = "under way"
		}
		if a.StatusCode != 0 {
			status = fmt.Sprint(a.StatusCode)
		}
		rows = append(rows, []string{
			fmt.Sprint(a.Number), outcome, showTime(a.StartedAt), showTook(a.StartedAt, a.FinishedAt), status, a.Executor, head(a.Error, 200),
		})
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := table(w, rows); err != nil {
		return err
	}
	for _, a := range r.Attempts {
		if a.LogLines > 0 {
			if _, err := fmt.Fprintf(w, "\nAttempt %d logged %d lines: carillon run logs --attempt %[1]d %[3]s\n", a.Number, a.LogLines, r.ID); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
		if a.Output == "" {
			continue
		}
		what := "Output"
		if a.OutputSize > 0 {
			what = fmt.Sprintf("The head of %d bytes of output", a.OutputSize)
		}
		if _, err := fmt.Fprintf(w, "\n%s of attempt %d:\n", what, a.Number); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if err := writeHead(w, a.Output); err != nil {
			return err
		}
	}
	return nil
}

// showProgress shows what a worker told of its progress.
func showProgress(p *httpapi.Progress) string {
	if p == nil {
		return ""
	}
	text := fmt.Sprint(p.Done)
	if p.Total > 0 {
		text += fmt.Sprintf(" of %d (%d %%)", p.Total, 100*p.Done/p.Total)
	}
	return strings.TrimSpace(text + " " + clean(head(p.Text, 200)))
}

// jobOfRun names the job of a run, if that can have many.
func jobOfRun(r *httpapi.Run) string {
	if _, oneOff := r.JobID.OneOff(); oneOff {
		return ""
	}
	return strings.TrimSpace(r.JobID.String() + " " + r.JobName)
}

// trigger says what made a run, if it was no schedule.
func trigger(r *httpapi.Run) string {
	if r.Trigger == "schedule" {
		return ""
	}
	return string(r.Trigger)
}

// writeHead shows the first lines of an output, indented.
func writeHead(w io.Writer, output string) error {
	lines := strings.Split(strings.TrimRight(output, "\n"), "\n")
	for i, line := range lines {
		if i == outputLines {
			line = fmt.Sprintf("… %d more lines: carillon run get ID -o json", len(lines)-i)
		}
		if _, err := fmt.Fprintf(w, "  %s\n", clean(strings.ReplaceAll(head(line, 500), "\t", "    "))); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if i == outputLines {
			break
		}
	}
	return nil
}

// head returns the first n runes of s, and says so if that is not all.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i] + "…"
		}
		n--
	}
	return s
}
