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

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/process"
)

// judge runs the judge over everything that was written down, and returns its report. out gets its table.
func (r *run) judge(ctx context.Context, out io.Writer) (check.Report, error) {
	file := filepath.Join(r.cfg.Dir, "check.json")
	args := []string{
		"check", "--out", file, "--sink", r.sink.Record, "--changes", r.changesFile(),
		"--wait", r.cfg.Wait.String(), "--apart", r.cfg.Apart.String(),
	}
	for _, source := range r.sources() {
		args = append(args, "--asked", r.askedFile(source), "--acks", r.acksFile(source))
	}
	for _, url := range r.client.URLs {
		args = append(args, "--api", url)
	}
	log, err := os.Create(filepath.Join(r.cfg.Dir, "check.log"))
	if err != nil {
		return check.Report{}, fmt.Errorf("judge: %w", err)
	}
	defer func() { _ = log.Close() }() // a copy for people; the verdict is in the report
	c, err := process.Start(ctx, r.cfg.Program, args, out, log)
	if err != nil {
		return check.Report{}, fmt.Errorf("judge: %w", err)
	}
	<-c.Done
	const verdict = 1 // the exit code of a judge that did its work and has found something
	var exit *exec.ExitError
	if c.Err != nil && (!errors.As(c.Err, &exit) || exit.ExitCode() != verdict) {
		return check.Report{}, fmt.Errorf("judge: %w (see %s)", c.Err, log.Name())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return check.Report{}, fmt.Errorf("judge: %w", err)
	}
	var rep check.Report
	if err := json.Unmarshal(text, &rep); err != nil {
		return check.Report{}, fmt.Errorf("judge: read report: %w", err)
	}
	return rep, nil
}
