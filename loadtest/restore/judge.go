package restore

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

// judge has the checker judge all jobs, and adds what a drill promises beside that.
func (d *drill) judge(ctx context.Context, out io.Writer) error {
	file := filepath.Join(d.Dir, "check.json")
	lost := d.report.Snapshot.Format(time.RFC3339Nano) + "," + d.report.Loss.Format(time.RFC3339Nano)
	args := []string{"check", "--out", file, "--sink", d.sink.Record, "--wait", "2m", "--apart", "5s", "--calm", "--lost", lost}
	for _, source := range []string{done, between, later, after} {
		args = append(args, "--asked", d.file(source, "asked"), "--acks", d.file(source, "acks"))
	}
	for _, url := range d.client.URLs {
		args = append(args, "--api", url)
	}
	log, err := os.Create(filepath.Join(d.Dir, "check.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // for people
	c, err := process.Start(ctx, d.Program, args, out, log)
	if err != nil {
		return err
	}
	<-c.Done
	var exit *exec.ExitError
	if c.Err != nil && (!errors.As(c.Err, &exit) || exit.ExitCode() != 1) { // 1: it has found something
		return fmt.Errorf("%w (see %s)", c.Err, log.Name())
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &d.report.Check)
	}
	if err != nil {
		return err
	}
	d.report.Faults = d.report.faults()
	return nil
}

// faults says in words what came out badly.
func (r *Report) faults() (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if r.Check.Failed() {
		fault("the checker found what must not be: see its report above")
	}
	f := r.Check.Forgiven
	switch {
	case f == nil:
		fault("the checker does not tell what was forgiven")
		return faults
	case f.Lost != afterJobs:
		fault("%d of the %d jobs that were made after the snapshot are gone, want all", f.Lost, afterJobs)
	case f.Repeatable != betweenJobs:
		fault("%d jobs ran between snapshot and loss, want %d", f.Repeatable, betweenJobs)
	case f.Unended > 0:
		fault("%d jobs that ran between snapshot and loss have no end", f.Unended)
	}
	return faults
}

// Write writes the report for people.
func (r *Report) Write(w io.Writer) error {
	f := r.Check.Forgiven
	again, gone := 0, 0
	if f != nil {
		again, gone = f.Repeated, f.Lost
	}
	doctor := "nothing worse than info"
	if r.Doctor != "" {
		doctor = "\n" + r.Doctor
	}
	_, err := fmt.Fprintf(w, `Restore drill
  snapshot        %s, %.1f MB, %d tables with data
  loss            %.0f s after it
  ready again     %.0f s after the loss
  done before     %d jobs: none ran again
  due later       %d jobs: each ran once
  run in between  %d jobs: %d ran again, whatever their guarantee
  made after      %d jobs: %d are gone
  carillon doctor %s
`, r.Snapshot.Format(time.RFC3339), float64(r.Bytes)/1e6, r.Tables, r.Loss.Sub(r.Snapshot).Seconds(), r.Restored.Sub(r.Loss).Seconds(),
		doneJobs, laterJobs, betweenJobs, again, afterJobs, gone, doctor)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
