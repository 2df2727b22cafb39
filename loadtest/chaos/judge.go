package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"carillon.dev/carillon/loadtest/process"
)

// readersAtOnce bounds the requests of a judge of recurring jobs, which reads each job by itself.
const readersAtOnce = 16

// judging runs the judge of a run.
type judging struct{ *run }

// judge runs the judge over all that was recorded and keeps its report. out gets its table.
func (r judging) judge(ctx context.Context, out io.Writer) error {
	var args []string
	switch {
	case r.cfg.Scenario == Limits:
		return limitsCourse(r).judge(ctx, out)
	case r.cfg.Scenario.plan().Regions > 0:
		return regionsCourse(r).judge(ctx, out)
	case r.cfg.Scenario == Workflows:
		return workflowsCourse(r).judge(ctx, out)
	case r.cfg.Scenario.Recurs():
		return r.by(ctx, "check", r.sink, r.recurringArgs(), out, &r.report.Recurring.Check)
	case r.tally != nil:
		return r.counted(r.tally, out)
	case !r.cfg.Scenario.Loads() && !r.cfg.Scenario.Guards() && !r.cfg.Scenario.Steady():
		args = append(args, "--changes", r.changesFile())
	}
	args = append(args, "--states", r.statesFile())
	args = append(args, r.lostArgs()...)
	for _, source := range r.sources() {
		args = append(args, "--asked", r.askedFile(source), "--acks", r.acksFile(source))
	}
	if r.cfg.Scenario == Frozen {
		return guaranteesCourse(r).judge(ctx, args, out, &r.report.Check)
	}
	return r.by(ctx, "check", r.sink, args, out, &r.report.Check)
}

// recurringArgs are the arguments of a judge of recurring jobs.
func (r judging) recurringArgs() []string {
	args := []string{
		"--events", r.eventsFile(), "--end", r.lastDue.Format(time.RFC3339Nano), "--concurrency", fmt.Sprint(min(r.cfg.Concurrency, readersAtOnce)),
	}
	for _, s := range r.report.Recurring.Stops {
		args = append(args, "--stop", s.From.Format(time.RFC3339Nano)+","+s.To.Format(time.RFC3339Nano))
	}
	for _, e := range r.report.Events {
		if e.Act == ActKill {
			args = append(args, "--kill", e.Began.Format(time.RFC3339Nano))
		}
	}
	return args
}

// by runs the judge with the record of a sink and the arguments `what`, and reads its report
// into `into`. name is that of the files of the report and the log.
func (r judging) by(ctx context.Context, name string, sink *process.Sink, what []string, out io.Writer, into any) error {
	file := filepath.Join(r.cfg.Dir, name+".json")
	args := append([]string{
		"check", "--out", file, "--sink", sink.Record, "--wait", r.cfg.Wait.String(), "--apart", r.cfg.Apart.String(),
		"--max-lateness", r.cfg.Late.Max.String(), "--max-lateness-p99", r.cfg.Late.P99.String(),
	}, what...)
	if off := r.cfg.Scenario.plan().Off; off > 0 {
		args = append(args, "--off", off.String())
	}
	if r.cfg.calm() {
		args = append(args, "--calm")
	}
	for _, url := range r.client.URLs {
		args = append(args, "--api", url)
	}
	log, err := os.Create(filepath.Join(r.cfg.Dir, name+".log"))
	if err != nil {
		return fmt.Errorf("judge: %w", err)
	}
	defer func() { _ = log.Close() }() // a copy for people; the verdict is in the report
	c, err := process.Start(ctx, r.cfg.Program, args, out, log)
	if err != nil {
		return fmt.Errorf("judge: %w", err)
	}
	<-c.Done
	const verdict = 1 // the exit code of a judge that did its work and has found something
	var exit *exec.ExitError
	if c.Err != nil && (!errors.As(c.Err, &exit) || exit.ExitCode() != verdict) {
		return fmt.Errorf("judge: %w (see %s)", c.Err, log.Name())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("judge: %w", err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("judge: read report: %w", err)
	}
	return nil
}
