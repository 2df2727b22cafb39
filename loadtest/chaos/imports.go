package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/workload"
)

// An ImportResult is the counts of one import.
type ImportResult struct {
	Source string    `json:"source"`
	Began  time.Time `json:"began"`
	// In lines. Unknown ones may or may not have been accepted.
	Lines    int `json:"lines"`
	Created  int `json:"created"`
	Existing int `json:"existing"`
	Refused  int `json:"refused"`
	Unknown  int `json:"unknown"`
	Unsent   int `json:"unsent"`
	// Sends is how often the file was sent, in whole or in part. Above 1 a send was cut or refused.
	Sends   int     `json:"sends"`
	Seconds float64 `json:"seconds"`
}

// Rate returns the accepted lines a second.
func (r ImportResult) Rate() float64 {
	if r.Seconds <= 0 {
		return 0
	}
	return float64(r.Created+r.Existing) / r.Seconds
}

// fault says what is wrong with the import; "" if every line was accepted.
func (r ImportResult) fault() string {
	if r.Refused+r.Unknown+r.Unsent == 0 {
		return ""
	}
	return fmt.Sprintf("import %s: of %d lines %d refused, %d of unknown outcome, %d not accepted", r.Source, r.Lines, r.Refused, r.Unknown, r.Unsent)
}

func (r *run) askedFile(source string) string { return filepath.Join(r.cfg.Dir, source+".jobs.ndjson") }

func (r *run) acksFile(source string) string { return filepath.Join(r.cfg.Dir, source+".acks.ndjson") }

// jobs describes n jobs with keys that call the sink: what courses have in common.
func (r *run) jobs(source string, n int, from time.Time, spread time.Duration) workload.Spec {
	return workload.Spec{
		N: n, From: from.Truncate(time.Millisecond), Spread: spread, PayloadBytes: r.cfg.Payload, Seed: r.cfg.Seed, Source: source,
		Target: r.sink.URL, Keyed: true,
	}
}

// importJobs makes the jobs of spec and imports them. It fails only if nothing more can be done.
func (r *run) importJobs(ctx context.Context, spec workload.Spec) error {
	if err := writeJobs(r.askedFile(spec.Source), spec); err != nil {
		return fmt.Errorf("import %s: %w", spec.Source, err)
	}
	_, err := r.importFile(ctx, spec)
	return err
}

// readAsked reads the jobs of a source.
func (r *run) readAsked(source string) ([]check.Ask, error) {
	return journal.ReadFile(r.askedFile(source), func(f io.Reader) ([]check.Ask, error) { return journal.ReadAsked(f, source) })
}

// importFile imports jobs whose file is written, and keeps in the report how that went.
func (r *run) importFile(ctx context.Context, spec workload.Spec) (res ImportResult, err error) {
	return r.importFileBy(ctx, r.client, spec)
}

// importFileBy is importFile through a client.
func (r *run) importFileBy(ctx context.Context, client *api.Client, spec workload.Spec) (res ImportResult, err error) {
	defer func() {
		r.keepImport(res)
		if err != nil {
			err = fmt.Errorf("import %s: %w", spec.Source, err)
		}
	}()
	asked := r.askedFile(spec.Source)
	f, err := createNew(r.acksFile(spec.Source))
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	acks, err := journal.NewAckWriter(f, spec.Source)
	if err != nil {
		return res, err
	}
	r.keepSource(spec.Source)
	r.keepDue(spec.From.Add(spec.Spread))
	began := time.Now()
	im := &api.Import{Client: client, Path: asked, Acks: acks, Log: r.log.With("jobs", spec.Source)}
	if r.cfg.Scenario.Steady() || r.cfg.Scenario.Loads() {
		im.MaxSends = steadySends
	}
	s, err := im.Run(ctx)
	res = ImportResult{
		Source: spec.Source, Began: began.UTC(), Lines: s.Lines, Created: s.Created, Existing: s.Existing, Refused: s.Refused,
		Unknown: s.Unknown, Unsent: s.Unsent, Sends: s.Sends, Seconds: s.Elapsed.Seconds(),
	}
	if err != nil {
		return res, err
	}
	if err := acks.Flush(); err != nil {
		return res, err
	}
	if client.Tenant == r.client.Tenant { // those of others it does not read
		if err := (watching{r}).add(spec.Source); err != nil {
			return res, err
		}
	}
	r.log.Info("imported", "jobs", spec.Source, "lines", s.Lines, "created", s.Created, "existing", s.Existing,
		"refused", s.Refused, "unknown", s.Unknown, "sends", s.Sends, "lines_per_s", int(res.Rate()))
	return res, nil
}

func writeJobs(path string, spec workload.Spec) error {
	f, err := createNew(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	return errors.Join(spec.Write(w), w.Flush(), f.Close())
}

// createNew makes a file, which must not exist: evidence is not overwritten.
func createNew(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write evidence: %w", err)
	}
	return f, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
