package journal

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/check/workflows"
)

// WriteLine writes a document as one line, by one call of w.
func WriteLine(w io.Writer, document any) error {
	line, err := json.Marshal(document)
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// ReadTasks reads tasks as the API shows them, one a line.
func ReadTasks(r io.Reader) ([]check.Task, error) { return readAll[check.Task](r, "tasks") }

// ReadEvents reads requests about recurring jobs with their answers, one a line.
func ReadEvents(r io.Reader) ([]check.JobEvent, error) { return readAll[check.JobEvent](r, "events") }

// ReadWorkflows reads workflows as they were put, one a line.
func ReadWorkflows(r io.Reader) ([]workflows.Workflow, error) {
	return readAll[workflows.Workflow](r, "workflows")
}

// ReadTriggers reads requests to run workflows with their answers, one a line.
func ReadTriggers(r io.Reader) ([]workflows.Trigger, error) {
	return readAll[workflows.Trigger](r, "triggers")
}

// ReadWatched reads looks at the states of runs, one a line. The file may still grow.
func ReadWatched(r io.Reader) ([]check.Watched, error) { return readAll[check.Watched](r, "states") }

// ReadChanges reads cancels and reschedules, one a line.
func ReadChanges(r io.Reader) ([]check.Change, error) {
	changes, err := readAll[check.Change](r, "changes")
	for _, c := range changes {
		if c.Kind != check.Cancel && c.Kind != check.Reschedule {
			return nil, fmt.Errorf("read changes: unknown kind of change %q", c.Kind)
		}
	}
	return changes, err
}

// readAll reads a document a line, in order.
func readAll[T any](r io.Reader, what string) ([]T, error) {
	var all []T
	err := eachLine(r, func(_ int, b []byte) error {
		var t T
		if err := json.Unmarshal(b, &t); err != nil {
			return err
		}
		all = append(all, t)
		return nil
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return all, nil
}

// eachLine calls visit for each line, numbered from 1. It ignores an error of visit for a last line
// without an end, and for a line of which torn says that the line after it repairs it.
func eachLine(r io.Reader, visit func(n int, b []byte) error, torn func(next []byte) bool) error {
	br := bufio.NewReaderSize(r, MaxLine)
	var bad error
	for n := 1; ; n++ {
		b, err := br.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("line %d is longer than %d bytes", n, MaxLine)
		case err != nil && !errors.Is(err, io.EOF):
			return err
		}
		atEnd := errors.Is(err, io.EOF)
		if bad != nil && len(b) > 0 && (torn == nil || !torn(b)) {
			return bad
		}
		if len(b) > 0 {
			bad = nil
			if verr := visit(n, b); verr != nil {
				bad = fmt.Errorf("line %d: %w", n, verr)
			}
		}
		if !atEnd {
			continue
		}
		if bad != nil && len(b) == 0 { // the bad line had an end: it was written whole
			return bad
		}
		return nil
	}
}
