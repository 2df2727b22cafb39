package client

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

// outputLines is how many lines of an attempt's output a table shows.
const outputLines = 10

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
	return cli.Table(w, rows)
}

// writeJobFacts shows what a row of a table leaves out of a job, one fact a line.
func writeJobFacts(w io.Writer, j *httpapi.Job) error {
	var rows [][]string
	fact := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	fact("labels", labelsOf(j.Labels))
	for _, s := range append([]httpapi.JobSchedule{j.Schedule}, j.Schedules...) {
		if s.Calendar != nil {
			fact("calendar", s.Calendar.Name+": "+s.Calendar.On)
		}
		fact("not on", strings.Join(s.Exclude, ", "))
	}
	if j.Jitter != nil && *j.Jitter > 0 {
		fact("jitter", showSpan(j.Jitter.Std()))
	}
	misfire := j.Misfire.Policy
	if j.Misfire.Deadline > 0 {
		misfire += ", at most " + showSpan(j.Misfire.Deadline.Std()) + " late"
	}
	fact("misfire", misfire)
	if c := j.Concurrency; c != nil {
		at := fmt.Sprintf("%d at once", c.Limit)
		if c.Key != "" {
			at += " of each " + c.Key
		}
		fact("concurrency", at+", then "+cmp.Or(c.OnLimit, schema.OnLimitQueue))
	}
	if r := j.Retry; r != nil {
		waits := "drawn from 0 to "
		if r.Jitter == "none" {
			waits = "of "
		}
		fact("attempts", fmt.Sprintf("%d, with waits %s%s × %v a time, at most %s", r.MaxAttempts, waits, showSpan(r.Initial.Std()), r.Factor, showSpan(r.Max.Std())))
	}
	fact("created by", cli.Head(j.CreatedBy, 200))
	if len(rows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return cli.Table(w, rows)
}

// jobRow shows a job as a row of a table. NEXT of a one-off job is its only run, even a past one; a
// job that was cancelled has none.
func jobRow(j *httpapi.Job) []string {
	next := j.Schedule.At
	switch {
	case j.State == string(schema.JobCancelled):
		next = httpapi.Time{}
	case j.NextRun != nil:
		next = j.NextRun.DueAt
	}
	return []string{j.ID.String(), j.Name, j.State, scheduleOf(j), cli.ShowTime(next), string(j.Priority), workOf(j)}
}

// scheduleOf says in a few words when a job is due.
func scheduleOf(j *httpapi.Job) string {
	if n := len(j.Schedules); n > 0 {
		first := scheduleOf(&httpapi.Job{Schedule: j.Schedules[0]})
		if n > 1 {
			first += fmt.Sprintf(" and %d more", n-1)
		}
		return first
	}
	switch s := &j.Schedule; {
	case s.Cron != "" && s.Timezone != "UTC":
		return s.Cron + " " + s.Timezone
	case s.Cron != "":
		return s.Cron
	case s.Every > 0:
		return "every " + showSpan(s.Every.Std())
	case j.On != nil:
		return "on " + j.On.Event
	case j.After != nil:
		return showAfter(j.After.Jobs)
	case j.Name != "":
		return "when triggered"
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
	case j.Lambda != nil:
		return "lambda " + j.Lambda.Function
	case j.Email != nil:
		return "e-mail to " + strings.Join(j.Email.To, ", ")
	}
	if kind, to := j.Message(); kind != "" {
		return kind + " " + to
	}
	return "task " + j.Task
}

// showWaiting says what holds a run back, and since when.
func showWaiting(w *httpapi.Waiting) string {
	if w == nil {
		return ""
	}
	return "since " + cli.ShowTime(w.Since) + ", " + w.Reason
}

// writeRun shows a run: its facts, its attempts, and the first lines of their outputs.
func writeRun(w io.Writer, r *httpapi.Run) error {
	facts := [][]string{
		{"run", r.ID.String()},
		{"state", string(r.State)},
		{"due", cli.ShowTime(r.DueAt)},
		{"started", cli.ShowTime(r.StartedAt)},
		{"finished", cli.ShowTime(r.FinishedAt)},
		{"lateness", showLateness(r.LatenessMS)},
		{"priority", string(r.Priority)},
	}
	for _, more := range []struct{ name, value string }{
		{"workflow", r.Workflow},
		{"step", stepOfRun(r)},
		{"job", jobOfRun(r)},
		{"trigger", trigger(r)},
		{"created by", cli.Head(r.CreatedBy, 200)},
		{"task", r.Task},
		{"next attempt", cli.ShowTime(r.NextAttemptAt)},
		{"waiting", showWaiting(r.Waiting)},
		{"tried again", cli.ShowTime(r.DeferredUntil)},
		{"deadline", cli.ShowTime(r.DeadlineAt)},
		{"reason", cli.Head(r.Reason, 200)},
		{"cancelled", r.CancelReason},
		{"progress", showProgress(r.Progress)},
		{"payload", cli.Head(string(r.Payload), 200)},
	} {
		if more.value != "" {
			facts = append(facts, []string{more.name, more.value})
		}
	}
	if !r.Origin.IsZero() {
		facts = append(facts, []string{"origin", r.Origin.String()})
	}
	if !r.ReplayedAs.IsZero() {
		facts = append(facts, []string{"replayed as", r.ReplayedAs.String()})
	}
	if m := r.Missed; m != nil {
		facts = append(facts, []string{"missed", fmt.Sprintf("%d from %s to %s: %s", m.Count, cli.ShowTime(m.From), cli.ShowTime(m.To), m.Reason)})
	}
	if r.Workflow != "" {
		return writeWorkflowRun(w, r, facts)
	}
	if err := cli.Table(w, facts); err != nil || len(r.Attempts) == 0 {
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
			fmt.Sprint(a.Number), outcome, cli.ShowTime(a.StartedAt), showTook(a.StartedAt, a.FinishedAt), status, a.Executor, cli.Head(a.Error, 200),
		})
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := cli.Table(w, rows); err != nil {
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

// writeWorkflowRun shows a run of a workflow: its facts and its steps. Its one attempt says only why it
// failed.
func writeWorkflowRun(w io.Writer, r *httpapi.Run, facts [][]string) error {
	if n := len(r.Attempts); n > 0 && r.Attempts[n-1].Error != "" {
		facts = append(facts, []string{"error", cli.Head(r.Attempts[n-1].Error, 500)})
	}
	if err := cli.Table(w, facts); err != nil || len(r.Steps) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return writeSteps(w, r.Steps, time.Now())
}

// stepOfRun names the step that a run is one of, and its workflow run.
func stepOfRun(r *httpapi.Run) string {
	if r.Step == "" {
		return ""
	}
	name := r.Step
	if r.Item != nil {
		name += fmt.Sprintf("[%d]", *r.Item)
	}
	return name + " of " + r.WorkflowRunID.String()
}

// showProgress shows the progress that a worker reported.
func showProgress(p *httpapi.Progress) string {
	if p == nil {
		return ""
	}
	text := fmt.Sprint(p.Done)
	if p.Total > 0 {
		text += fmt.Sprintf(" of %d (%d %%)", p.Total, 100*p.Done/p.Total)
	}
	return strings.TrimSpace(text + " " + cli.Clean(cli.Head(p.Text, 200)))
}

// jobOfRun names the job of a run, unless the job is one-off.
func jobOfRun(r *httpapi.Run) string {
	if _, oneOff := r.JobID.OneOff(); oneOff || r.Workflow != "" || r.Step != "" {
		return ""
	}
	return strings.TrimSpace(r.JobID.String() + " " + r.JobName)
}

// trigger says what made a run, unless a schedule did.
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
		if _, err := fmt.Fprintf(w, "  %s\n", cli.Clean(strings.ReplaceAll(cli.Head(line, 500), "\t", "    "))); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if i == outputLines {
			break
		}
	}
	return nil
}

// stuckHead and stuckRow make a table of runs that are stuck.
var stuckHead = []string{"ID", "JOB", "DUE", "DEADLINE", waitsColumn}

func stuckRow(run *httpapi.Run) []string {
	return []string{run.ID.String(), run.JobName, cli.ShowTime(run.DueAt), cli.ShowTime(run.DeadlineAt), waitsFor(run)}
}

// waitsColumn is why runs wait. Lists in which none waits leave it out.
const waitsColumn = "WAITS"

// waitsFor says why a run waits, or waited for last before it was cancelled.
func waitsFor(run *httpapi.Run) string {
	if run.Waiting == nil {
		return ""
	}
	return cli.Head(run.Waiting.Reason, 200)
}

// runHead and runRow make a table of runs.
var runHead = []string{"ID", "STATE", "DUE", "LATENESS", "ATTEMPTS", "JOB", "TASK", "ERROR", waitsColumn}

func runRow(run *httpapi.Run) []string {
	return []string{
		run.ID.String(), string(run.State), cli.ShowTime(run.DueAt), showLateness(run.LatenessMS), fmt.Sprint(len(run.Attempts)), ownerOf(run), run.Task, failureOf(run),
		waitsFor(run),
	}
}

// jobRunHead and jobRunRow make a table of runs of one job.
var jobRunHead = []string{"ID", "STATE", "NOMINAL", "DUE", "LATENESS", "ATTEMPTS", "ERROR", waitsColumn}

// jobRunRow shows a run of a job. NOMINAL is the time for which it runs, where it was due at
// another one: by its offset, or since it makes up for that time.
func jobRunRow(run *httpapi.Run) []string {
	nominal := run.NominalAt
	if nominal.Equal(run.DueAt.Time) {
		nominal = httpapi.Time{}
	}
	return []string{
		run.ID.String(), string(run.State), cli.ShowTime(nominal), cli.ShowTime(run.DueAt), showLateness(run.LatenessMS), fmt.Sprint(len(run.Attempts)), failureOf(run),
		waitsFor(run),
	}
}

// ownerOf names what a run is one of: a job by its name, else by its id, a workflow, or a step. A
// one-off job has the id of its run.
func ownerOf(run *httpapi.Run) string {
	_, oneOff := run.JobID.OneOff()
	switch {
	case run.Step != "":
		return stepOfRun(run)
	case run.Workflow != "":
		return run.Workflow
	case run.JobName != "":
		return run.JobName
	case oneOff || run.JobID.IsZero():
		return ""
	}
	return run.JobID.String()
}

// errorShown is how many characters of an error a list of runs shows.
const errorShown = 80

// failureOf says what is known of why a run did not succeed, or has not yet: the error of its last
// attempt, else why it was cancelled, missed or skipped.
func failureOf(run *httpapi.Run) string {
	text := run.CancelReason
	if n := len(run.Attempts); n > 0 && run.Attempts[n-1].Error != "" {
		text = run.Attempts[n-1].Error
	}
	if text == "" && run.Missed != nil {
		text = run.Missed.Reason
	}
	if text == "" {
		text = run.Reason
	}
	return cli.Head(text, errorShown)
}
