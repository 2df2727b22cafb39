package spine

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

// readersAtOnce bounds the requests of a judge of recurring jobs, each of which is read by itself. Nothing else is asked for meanwhile.
const readersAtOnce = 16

// judge runs the judge over everything that was written down, and keeps its report. out gets its table.
func (r *run) judge(ctx context.Context, out io.Writer) error {
	var args []string
	var into any = &r.report.Check
	if res := r.report.Recurring; res != nil {
		into = &res.Check
		args = append(args, "--events", r.eventsFile(), "--end", r.lastDue.Format(time.RFC3339Nano),
			"--concurrency", fmt.Sprint(min(r.cfg.Concurrency, readersAtOnce)))
		for _, s := range res.Stops {
			args = append(args, "--stop", s.From.Format(time.RFC3339Nano)+","+s.To.Format(time.RFC3339Nano))
		}
	} else {
		if !r.cfg.Scenario.Guards() {
			args = append(args, "--changes", r.changesFile())
		}
		for _, source := range r.sources() {
			args = append(args, "--asked", r.askedFile(source), "--acks", r.acksFile(source))
		}
	}
	if r.cfg.Scenario == Frozen {
		return r.judgeAcrossThaw(ctx, args, out, into)
	}
	return r.judgeBy(ctx, args, out, into)
}

// judgeBy runs the judge with the arguments that say what it is to look at, and reads its report into `into`.
func (r *run) judgeBy(ctx context.Context, what []string, out io.Writer, into any) error {
	file := filepath.Join(r.cfg.Dir, "check.json")
	args := append([]string{"check", "--out", file, "--sink", r.sink.Record, "--wait", r.cfg.Wait.String(), "--apart", r.cfg.Apart.String()}, what...)
	for _, url := range r.client.URLs {
		args = append(args, "--api", url)
	}
	log, err := os.Create(filepath.Join(r.cfg.Dir, "check.log"))
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
