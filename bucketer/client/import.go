package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// MaxLines is how many jobs one call of Import takes.
const MaxLines = 10_000

// ErrUnanswered is of a job of which an import's answer says nothing. Sent again with its key it is
// the same job.
var ErrUnanswered = errors.New("carillon: the answer to an import does not name this job")

// Line is one job of an import.
type Line struct {
	// Key is the idempotency key; "" draws one. That of a job with an instant stands together with
	// the instant, and holds for as long as the run is kept. Others hold for 24 h.
	Key string
	// Job is a *Job, or a json.RawMessage with the body of a request that makes a job.
	Job json.Marshaler
}

// Imported is what became of a Line.
type Imported struct {
	ID       JobID
	Existing bool // the key was known, with the same job
	// Err is an *Error if the job was refused, and ErrUnanswered if nothing is known of it.
	Err error
}

// Import creates jobs in one request, at most MaxLines, and says of each what became of it, in the
// order of the lines: one that is refused does not stop the others. What could not be sent, was not
// answered or was refused for now is sent again. With an error, too, it returns what was answered.
func (j Jobs) Import(ctx context.Context, lines []Line) ([]Imported, error) {
	texts, err := encodeLines(lines)
	if err != nil {
		return nil, err
	}
	out, left := make([]Imported, len(lines)), make([]int, len(lines))
	for i := range left {
		out[i].Err, left[i] = ErrUnanswered, i
	}
	for try := 0; len(left) > 0; try++ {
		a, err := j.node.send(ctx, importOf(texts, left))
		if err != nil {
			return out, err
		}
		cut := readImported(a.body, left, out)
		if left = unanswered(left, out); len(left) == 0 {
			break
		}
		if try >= j.node.retries {
			return out, cut
		}
		wait, _ := retryAfter(ErrUnanswered, try)
		if ended := sleep(ctx, wait); ended != nil {
			return out, ended
		}
	}
	return out, nil
}

// importOf returns the request that imports those of texts that are left.
func importOf(texts [][]byte, left []int) *question {
	var body bytes.Buffer
	for _, i := range left {
		body.Write(texts[i])
		body.WriteByte('\n')
	}
	return &question{
		method: http.MethodPost, path: []string{"imports"}, header: http.Header{"Content-Type": {"application/x-ndjson"}}, text: body.Bytes(),
	}
}

// unanswered returns those of left that should be sent again.
func unanswered(left []int, out []Imported) (again []int) {
	for _, i := range left {
		var e *Error
		if errors.Is(out[i].Err, ErrUnanswered) || errors.As(out[i].Err, &e) && temporary(e.Status) {
			again = append(again, i)
		}
	}
	return again
}

// readImported notes in out what the answer to an import says; its line n is that of left[n-1]. An
// error says that the answer was cut.
func readImported(text []byte, left []int, out []Imported) error {
	said := bufio.NewScanner(bytes.NewReader(text))
	said.Buffer(nil, len(text)+1)
	for said.Scan() {
		var line struct {
			Line    int             `json:"line"`
			ID      JobID           `json:"id"`
			Status  int             `json:"status"`
			Error   json.RawMessage `json:"error"`
			Summary json.RawMessage `json:"summary"`
		}
		if err := json.Unmarshal(said.Bytes(), &line); err != nil {
			return fmt.Errorf("carillon: the answer to an import is cut: %w", err)
		}
		switch {
		case line.Summary != nil:
			return nil
		case line.Line == 0 && line.Error != nil:
			return errorOf(&http.Response{StatusCode: http.StatusServiceUnavailable}, line.Error)
		case line.Line < 1 || line.Line > len(left):
			return fmt.Errorf("carillon: the answer to an import names line %d of %d", line.Line, len(left))
		}
		i := left[line.Line-1]
		out[i] = Imported{ID: line.ID, Existing: line.Status == http.StatusOK}
		if line.Error != nil {
			out[i] = Imported{Err: errorOf(&http.Response{StatusCode: line.Status}, line.Error)}
		}
	}
	return errors.New("carillon: the answer to an import has no summary")
}

// encodeLines returns the texts of lines, or everything that is wrong with them.
func encodeLines(lines []Line) ([][]byte, error) {
	if len(lines) > MaxLines {
		return nil, Faults{{Location: "lines", Message: fmt.Sprintf("are more than %d", MaxLines)}}
	}
	texts := make([][]byte, len(lines))
	var faults Faults
	for i, l := range lines {
		fault := func(err error) {
			faults = append(faults, Fault{Location: fmt.Sprintf("lines[%d]", i), Message: err.Error()})
		}
		if l.Job == nil {
			fault(errors.New("has no job"))
			continue
		}
		text, err := encode(l.Job)
		if err != nil {
			fault(err)
			continue
		}
		if text[0] != '{' {
			fault(errors.New("is no object"))
			continue
		}
		if l.Key == "" {
			l.Key = rand.Text()
		}
		key, _ := encode(l.Key) // text encodes
		texts[i] = append([]byte(`{"key":`), key...)
		if text[1] != '}' {
			texts[i] = append(texts[i], ',')
		}
		texts[i] = append(texts[i], text[1:]...)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return texts, nil
}
