package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/cmd/carillon/crontab"
	"carillon.dev/carillon/schema"
)

const (
	// maxCrontab bounds the text of a crontab, in bytes.
	maxCrontab = 1 << 20
	// maxProgram bounds the program's part of a job's name. nameHash is how many hexadecimal digits
	// of a hash follow it, to tell two commands of one program apart.
	maxProgram = 32
	nameHash   = 8
)

// crontabFlags says how a crontab becomes jobs.
type crontabFlags struct {
	url, subject, task     string
	form, timezone, prefix string
	calendar, onDate       string
	jitter                 time.Duration
	jitterGiven            bool
	labels                 []string
	dryRun                 bool

	labeled map[string]string // of labels
}

func crontabCommand(r *cli.Remote) *cobra.Command {
	var f crontabFlags
	cmd := &cobra.Command{
		Use:   "import-crontab FILE | -",
		Short: "Make recurring jobs of the lines of a crontab",
		Long: "Make a recurring job of each line of a crontab. Carillon runs no shell, so something has to take the commands: a task, a URL or a NATS\n" +
			"subject, whose payload is {\"command\", \"stdin\", \"user\", \"environment\"} of the line. A % in a line ends the command and begins its input, as\n" +
			"for cron. CRON_TZ is the zone of the lines below it; without it --timezone is. MAILTO is left out, and other settings are passed on.\n\n" +
			"A job is named after the program, the user and the command, so that importing a crontab again changes the jobs of the first time: their\n" +
			"times, zone and payload, what takes the commands, and what flags state. Everything else of a job stays, such as a calendar, its jitter and labels\n" +
			"that were set since. --calendar, --jitter and --label are of all lines. Without --jitter a new job is due up to 10 s late, by an offset of its own.\n\n" +
			"One line that is refused (such as @reboot, which is no time) does not stop the others. Look first with --dry-run: with -o json it prints what\n" +
			"carillon job apply -f takes.",
		Example: "  carillon job import-crontab /etc/crontab --task shell --timezone Europe/Berlin --dry-run\n" +
			"  carillon job import-crontab /etc/crontab --task shell --calendar holidays --on-date next_day --jitter 0s --label team=billing\n" +
			"  crontab -l | carillon job import-crontab - --subject work.shell",
		Args: cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.task, "task", "", "`name` of the task that takes the commands")
	flags.StringVar(&f.url, "url", "", "`URL` that takes them")
	flags.StringVar(&f.subject, "subject", "", "NATS `subject` that takes them")
	flags.StringVar(&f.form, "form", "auto", "system (lines name a user), user, or auto: system in /etc and cron.d")
	flags.StringVar(&f.timezone, "timezone", "", "IANA `name` of the zone of lines without CRON_TZ (default UTC)")
	flags.StringVar(&f.prefix, "prefix", "cron-", "what the names of the jobs begin with")
	flags.StringVar(&f.calendar, "calendar", "", "`name` of a calendar, such as of holidays: see --on-date")
	flags.StringVar(&f.onDate, "on-date", "", "on a date of --calendar: skip (default), next_day or previous_day")
	flags.DurationVar(&f.jitter, "jitter", 0, "window of each job's own offset; 0s turns it off (default 10s, or a tenth of the shortest distance of two runs)")
	flags.StringArrayVar(&f.labels, "label", nil, "`name=value` of each job, beside crontab=FILE; may be repeated")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show the jobs, and create none")
	cli.CompleteFlag(cmd, "form", "auto", "system", "user")
	cli.CompleteFlag(cmd, "on-date", "skip", "next_day", "previous_day")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		f.jitterGiven = cmd.Flags().Changed("jitter")
		form, err := f.check(args[0])
		if err != nil {
			return err
		}
		text, err := readCrontab(args[0], cmd.InOrStdin())
		if err != nil {
			return err
		}
		entries, notes := crontab.Parse(text, form)
		return f.run(cmd, r, client, args[0], entries, notes)
	})
	return cmd
}

// check returns the form of the file.
func (f *crontabFlags) check(file string) (crontab.Form, error) {
	if f.onDate != "" && f.calendar == "" {
		return 0, cli.Usagef("--on-date goes with --calendar")
	}
	var err error
	if f.labeled, err = pairs("label", f.labels, "="); err != nil {
		return 0, err
	}
	targets := 0
	for _, target := range []string{f.task, f.url, f.subject} {
		if target != "" {
			targets++
		}
	}
	if targets != 1 {
		return 0, cli.Usagef("state exactly one of --task, --url and --subject: it takes the commands")
	}
	switch f.form {
	case "auto":
		return crontab.FormOf(file), nil
	case "system":
		return crontab.System, nil
	case "user":
		return crontab.User, nil
	}
	return 0, cli.Usagef("--form: %q is neither auto, system nor user", f.form)
}

func readCrontab(file string, stdin io.Reader) (string, error) {
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("read crontab: %w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxCrontab+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read crontab: %w", err)
	case len(text) > maxCrontab:
		return "", fmt.Errorf("read crontab: it is larger than %d MiB", maxCrontab>>20)
	}
	return string(text), nil
}

// crontabPayload is the payload of a job that is made of a line.
type crontabPayload struct {
	Command     string            `json:"command"`
	Stdin       string            `json:"stdin,omitempty"`
	User        string            `json:"user,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
}

// crontabLine is the result of a line.
type crontabLine struct {
	Line     int              `json:"line"`
	Name     string           `json:"name,omitempty"`
	Result   string           `json:"result"` // created, applied, unchanged or refused
	Schedule string           `json:"schedule,omitempty"`
	Command  string           `json:"command,omitempty"`
	Reason   string           `json:"reason,omitempty"`
	Error    *httpapi.Problem `json:"error,omitempty"`

	err error // of Error, as it is reported
}

// run makes the jobs. Notes go to stderr, the results of the lines to stdout.
func (f *crontabFlags) run(cmd *cobra.Command, r *cli.Remote, client *httpapi.Client, file string, entries []crontab.Entry, notes []crontab.Note) error {
	var lines []crontabLine
	refused := 0
	for _, n := range notes {
		cli.Advise(cmd, "line %d: %s", n.Line, cli.Clean(n.Message))
		if n.Refused {
			refused++
			lines = append(lines, crontabLine{Line: n.Line, Result: "refused", Reason: n.Message})
		}
	}
	if f.timezone == "" && zoneless(entries) {
		cli.Advise(cmd, "Times without CRON_TZ are read as UTC: state the machine's zone with --timezone.")
	}
	jobs := make([]request.JobRequest, len(entries))
	made := make([]crontabLine, len(entries))
	named := make(map[string]int)
	for i := range entries {
		e := &entries[i]
		job, err := f.job(e, file, named)
		if err != nil {
			return err
		}
		jobs[i] = job
		made[i] = crontabLine{Line: e.Line, Name: job.Name, Result: "valid", Schedule: strings.TrimSpace(e.Schedule + " " + job.Schedule.Timezone), Command: e.Command}
		if f.dryRun && r.JSON() {
			if err := cli.Document(cmd.OutOrStdout(), job); err != nil {
				return err
			}
		}
	}
	if f.dryRun {
		f.sayWhatIsMissing(cmd, client)
	} else {
		if err := putLines(cmd, client, made, jobs); err != nil {
			return err
		}
	}
	for i := range made {
		if made[i].Error != nil {
			refused++
		}
	}
	lines = append(lines, made...)
	if err := writeCrontab(cmd.OutOrStdout(), r, f.dryRun, lines); err != nil {
		return err
	}
	if refused > 0 {
		return fmt.Errorf("%d of %d lines were refused", refused, len(lines))
	}
	return nil
}

// sayWhatIsMissing says that the task or the calendar which the jobs name is not there, if the API
// answers soon: without them each line would be refused.
func (f *crontabFlags) sayWhatIsMissing(cmd *cobra.Command, client *httpapi.Client) {
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	say := func(what, name string, err error) {
		switch {
		case isNotFound(err):
			cli.Advise(cmd, "There is no %s %s: make it with carillon %s set before the import.", what, name, what)
		case err != nil:
			cli.Advise(cmd, "Whether there is a %s %s could not be asked: %v", what, name, err)
		}
	}
	if f.task != "" {
		_, err := client.Task(ctx, f.task)
		say("task", f.task, err)
	}
	if f.calendar != "" {
		_, err := client.Calendar(ctx, f.calendar)
		say("calendar", f.calendar, err)
	}
}

// putLines makes the jobs, several at once. An error means that the others would fail too.
func putLines(cmd *cobra.Command, client *httpapi.Client, lines []crontabLine, jobs []request.JobRequest) error {
	progress := newTally(cmd.ErrOrStderr(), len(lines))
	defer progress.clear()
	return inOrder(cmd.Context(), len(lines), func(int) bool { return false }, func(ctx context.Context, i int) (*crontabLine, error) {
		return &lines[i], lines[i].put(ctx, client, jobs[i])
	}, func(l *crontabLine) error {
		if l.err != nil {
			progress.clear()
			cli.Report(cmd.ErrOrStderr(), l.err)
		}
		progress.count()
		return nil
	})
}

// put makes the job, or changes the one that is there, and fills in the result. An error means that
// the other jobs would fail too.
func (l *crontabLine) put(ctx context.Context, client *httpapi.Client, job request.JobRequest) error {
	_, changed, err := changeJob(ctx, client, job.Name, func(is map[string]any) (map[string]any, error) { return crontabPatch(is, job) })
	l.Result = "unchanged"
	if changed {
		l.Result = "applied"
	}
	var p *httpapi.Problem
	if errors.Is(err, errEnded) || errors.As(err, &p) && p.Status == http.StatusNotFound {
		_, _, err = client.PutJob(ctx, job.Name, job)
		l.Result = "created"
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("line %d: %w", l.Line, err)
	if !errors.As(err, &l.Error) || !oneJobsFault(l.Error) {
		return err
	}
	l.Result, l.err = "refused", err
	return nil
}

// errEnded: the job of the name was cancelled or has finished, so that another one may have it.
var errEnded = errors.New("the job has ended")

// crontabPatch returns the merge patch that makes of a job, as it is, that of a line: what neither
// the line nor a flag states stays.
func crontabPatch(is map[string]any, job request.JobRequest) (map[string]any, error) {
	if state := schema.JobState(fmt.Sprint(is["state"])); state == schema.JobCancelled || state == schema.JobFinished {
		return nil, errEnded
	}
	if job.Schedule.Timezone == "" {
		line := *job.Schedule
		line.Timezone = "UTC"
		job.Schedule = &line
	}
	stated, err := encoded(job)
	if err != nil {
		return nil, err
	}
	patch := stated.(map[string]any)
	delete(patch, "name")
	patch["payload"], _ = replacement(is["payload"], patch["payload"]) // no member of it is null
	for _, target := range []string{"task", "http", "nats"} {
		if is[target] != nil && patch[target] == nil {
			patch[target] = nil // the line has another
		}
	}
	if was, _ := is["schedule"].(map[string]any); was["every"] != nil {
		schedule := patch["schedule"].(map[string]any)
		schedule["every"], schedule["anchor"] = nil, nil
	}
	return patch, nil
}

// oneJobsFault reports whether the fault lies in this job, so that others may succeed.
func oneJobsFault(p *httpapi.Problem) bool {
	return p.Status == 409 || p.Status == 412 || p.Status == 413 || p.Status == 422
}

// zoneless reports whether an entry states no zone.
func zoneless(entries []crontab.Entry) bool {
	for i := range entries {
		if entries[i].Timezone == "" {
			return true
		}
	}
	return false
}

// job returns the job of an entry. named counts the jobs by name, because cron runs a line twice
// that is there twice.
func (f *crontabFlags) job(e *crontab.Entry, file string, named map[string]int) (request.JobRequest, error) {
	payload, err := json.Marshal(crontabPayload{Command: e.Command, Stdin: e.Stdin, User: e.User, Environment: e.Environment})
	if err != nil {
		return request.JobRequest{}, fmt.Errorf("line %d: %w", e.Line, err)
	}
	job := request.JobRequest{
		Name: f.prefix + crontabName(e), Task: f.task, Payload: payload,
		Schedule: &request.Schedule{Cron: e.Schedule, Timezone: e.Timezone},
	}
	if job.Schedule.Timezone == "" {
		job.Schedule.Timezone = f.timezone
	}
	if named[job.Name]++; named[job.Name] > 1 {
		job.Name = fmt.Sprintf("%s-%d", job.Name, named[job.Name])
	}
	if f.url != "" {
		job.HTTP = &schema.HTTPTarget{URL: f.url}
	}
	if f.subject != "" {
		job.NATS = &schema.NATSTarget{Subject: f.subject}
	}
	if f.calendar != "" {
		job.Schedule.Calendar = &request.ScheduleCalendar{Name: f.calendar, On: f.onDate}
	}
	if f.jitterGiven {
		jitter := schema.Duration(f.jitter)
		job.Jitter = &jitter
	}
	labels := map[string]string{}
	if file != "-" {
		labels["crontab"] = filepath.Base(file)
	}
	maps.Copy(labels, f.labeled)
	if len(labels) > 0 {
		job.Labels = labels
	}
	return job, nil
}

// crontabName returns the name of an entry's job. It depends only on user, command and input.
func crontabName(e *crontab.Entry) string {
	program := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, crontab.Program(e.Command))
	sum := sha256.Sum256([]byte(e.User + "\x00" + e.Command + "\x00" + e.Stdin))
	return program[:min(len(program), maxProgram)] + "-" + hex.EncodeToString(sum[:])[:nameHash]
}

// writeCrontab shows the results of the lines.
func writeCrontab(w io.Writer, r *cli.Remote, dryRun bool, lines []crontabLine) error {
	if r.JSON() {
		if dryRun { // the jobs were shown
			return nil
		}
		return cli.Document(w, lines)
	}
	rows := [][]string{{"LINE", "RESULT", "NAME", "SCHEDULE", "COMMAND"}}
	for _, l := range lines {
		rows = append(rows, []string{fmt.Sprint(l.Line), l.Result, l.Name, l.Schedule, cli.Head(l.Command, 60)})
	}
	return cli.Table(w, rows)
}
