package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/wait"
)

const (
	// refusedTries bounds how often lines that were refused for now (429) are sent.
	refusedTries = 10
	// refusedWait is how long they are kept before.
	refusedWait = 500 * time.Millisecond
	// importIdle bounds the wait for the next answer.
	importIdle = 30 * time.Second
)

// A Load says how fast jobs were taken in.
type Load struct {
	Lines   int       `json:"lines"`
	Seconds float64   `json:"seconds"` // from the first byte to the last summary
	PerS    float64   `json:"lines_per_s"`
	Resent  int       `json:"resent,omitempty"` // lines that were refused for now and sent again
	Streams int       `json:"streams"`          // imports at the same time
	Ended   time.Time `json:"ended"`
}

// send imports all of j over streams connections, each to one node of apis, in parts of j.part
// lines. A nil error means that every line was accepted. answered counts the answers so far.
func (j jobs) send(ctx context.Context, client *http.Client, apis []string, streams int, answered *atomic.Int64) (Load, error) {
	if err := j.validate(); err != nil {
		return Load{}, fmt.Errorf("import: %w", err)
	}
	began := time.Now()
	load := Load{Lines: j.n, Streams: streams}
	var mu sync.Mutex // guards load.Resent
	g, ctx := errgroup.WithContext(ctx)
	for s := range streams {
		first, last := s*j.n/streams+1, (s+1)*j.n/streams
		node := apis[s%len(apis)]
		g.Go(func() error {
			part := cmp.Or(j.part, max(last-first+1, 1))
			for ; first <= last; first += part {
				resent, err := j.sendPart(ctx, client, node, selection{first: first, last: min(first+part-1, last)}, answered)
				mu.Lock()
				load.Resent += resent
				mu.Unlock()
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return load, fmt.Errorf("import: %w", err)
	}
	load.Ended = time.Now()
	load.Seconds = load.Ended.Sub(began).Seconds()
	load.PerS = float64(j.n) / load.Seconds
	return load, nil
}

// sendPart sends lines in one import, and again those that are answered 429. It returns how many it
// sent again.
func (j jobs) sendPart(ctx context.Context, client *http.Client, node string, of selection, answered *atomic.Int64) (resent int, err error) {
	for range refusedTries {
		again, err := j.post(ctx, client, node, of, answered)
		if err != nil || len(again) == 0 {
			return resent, err
		}
		resent += len(again)
		of = selection{list: again}
		if err := wait.For(ctx, refusedWait); err != nil {
			return resent, err
		}
	}
	return resent, errors.New("lines are refused again and again")
}

// post sends lines in one import and returns those that were refused for now.
func (j jobs) post(ctx context.Context, client *http.Client, node string, of selection, answered *atomic.Int64) (again []int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(importIdle, func() { cancel(errors.New("no answer for " + importIdle.String())) })
	defer idle.Stop()
	resp, err := api.PostLines(ctx, client, node, map[string]string{"Carillon-Tenant": j.tenant}, &reader{jobs: j, of: of})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	if resp.StatusCode != http.StatusOK {
		detail, _ := io.ReadAll(io.LimitReader(resp.Body, 1024)) // only to be shown
		return nil, fmt.Errorf("%s answered %d %s", node, resp.StatusCode, detail)
	}
	scan := bufio.NewScanner(resp.Body)
	scan.Buffer(make([]byte, readerBuffer), 1<<20)
	for n := 0; scan.Scan(); n++ {
		if n%1024 == 0 {
			idle.Reset(importIdle)
		}
		answered.Add(1)
		a, err := readAnswer(scan.Bytes())
		switch {
		case err != nil:
			return nil, err
		case a.summary:
			return again, nil
		case a.status == http.StatusTooManyRequests:
			again = append(again, of.at(a.line))
		case a.status >= 300:
			return nil, fmt.Errorf("line %d was answered %d: %.300s", a.line, a.status, scan.Bytes())
		}
	}
	return nil, fmt.Errorf("the answer of %s was cut: %w", node, errors.Join(scan.Err(), context.Cause(ctx)))
}

// answer is a line of the answer.
type answer struct {
	line, status int
	summary      bool
}

// readAnswer reads a line of the answer. It recognises a success by its text: parsing each would
// cost as much as creating the jobs.
func readAnswer(text []byte) (answer, error) {
	if bytes.Contains(text, []byte(`"status":201`)) || bytes.Contains(text, []byte(`"status":200`)) {
		return answer{status: http.StatusCreated}, nil
	}
	var a struct {
		Line    int             `json:"line"`
		Status  int             `json:"status"`
		Summary json.RawMessage `json:"summary"`
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return answer{}, fmt.Errorf("read answer %.100q: %w", text, err)
	}
	return answer{a.Line, a.Status, a.Summary != nil}, nil
}
