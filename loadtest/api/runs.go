package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
)

const (
	pageLimit = 500 // the most the API allows
	// maxPages bounds the pages of one list: above 500,000,000 runs, or a cursor that goes in
	// circles.
	maxPages = 1_000_000
)

// Run is a run in the API.
type Run struct {
	check.Run
	Payload json.RawMessage `json:"payload"`
	Waiting Waiting         `json:"waiting"`
}

// Waiting is what holds a run back; zero = nothing does.
type Waiting struct {
	Reason string `json:"reason"` // a word, and what it means
}

// Window is a span of due time, From ≤ due < To, at most an hour.
type Window struct{ From, To time.Time }

// List reads the runs due within w, in the order of the API, and calls visit for each. A nil error
// means that the window was read to its end.
func (c *Client) List(ctx context.Context, w Window, visit func(*Run)) error {
	q := url.Values{"from": {w.From.UTC().Format(time.RFC3339Nano)}, "to": {w.To.UTC().Format(time.RFC3339Nano)}}
	found, err := pages(ctx, c, "/v1/runs", q, visit)
	if err == nil && !found {
		err = fmt.Errorf("%w: %d", ErrUnreadable, http.StatusNotFound)
	}
	if err != nil {
		return fmt.Errorf("list runs: %w", err)
	}
	return nil
}

// pages reads a list page by page and calls visit for each item. found is false if there is no such
// list. A nil error means that it was read to its end.
func pages[T any](ctx context.Context, c *Client, path string, q url.Values, visit func(*T)) (found bool, err error) {
	q.Set("limit", fmt.Sprint(pageLimit))
	for range maxPages {
		status, body, err := c.get(ctx, path+"?"+q.Encode())
		if err != nil || status != http.StatusOK {
			return false, err
		}
		var page struct {
			Items      []T    `json:"items"`
			NextCursor string `json:"next_cursor"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return false, fmt.Errorf("read page: %w", err)
		}
		for i := range page.Items {
			visit(&page.Items[i])
		}
		if page.NextCursor == "" {
			return true, nil
		}
		q.Set("cursor", page.NextCursor)
	}
	return false, fmt.Errorf("more than %d pages of %s", maxPages, path)
}

// Run reads one run. found is false if the API says that there is none.
func (c *Client) Run(ctx context.Context, id string) (run Run, found bool, err error) {
	status, body, err := c.get(ctx, "/v1/runs/"+url.PathEscape(id))
	if err != nil {
		return Run{}, false, fmt.Errorf("read run: %w", err)
	}
	if status == http.StatusNotFound {
		return Run{}, false, nil
	}
	if err := json.Unmarshal(body, &run); err != nil {
		return Run{}, false, fmt.Errorf("read run %s: %w", id, err)
	}
	if run.ID != id {
		return Run{}, false, fmt.Errorf("read run %s: the answer is about %q", id, run.ID)
	}
	return run, true, nil
}

// windowJoin is the distance, in minutes, up to which the time between two windows is read too.
const windowJoin = 10

// Windows covers the minutes of all times, those beside them, and short gaps between, in windows of
// a minute, in order.
func Windows(times []time.Time) []Window {
	minutes := make([]int64, 0, len(times))
	for _, t := range times {
		if !t.IsZero() {
			minutes = append(minutes, t.Unix()/60)
		}
	}
	slices.Sort(minutes)
	minutes = slices.Compact(minutes)
	var ws []Window
	next := int64(0) // the first minute not covered yet
	for i, m := range minutes {
		first := m - 1
		if i > 0 && (first < next || first-next <= windowJoin) {
			first = next
		}
		for ; first <= m+1; first++ {
			ws = append(ws, Window{time.Unix(first*60, 0).UTC(), time.Unix(first*60+60, 0).UTC()})
		}
		next = first
	}
	return ws
}

// ref returns the job that the run's payload names.
func (r *Run) ref() check.Ref { return journal.RefOfPayload(r.Payload) }

// whole reports whether a listed run is complete: a started run must come with its attempts, one of
// a workflow with its steps.
func (r *Run) whole() bool {
	if r.Workflow != "" {
		return len(r.Steps) > 0
	}
	return len(r.Attempts) > 0 || (r.StartedAt.IsZero() && r.State != check.Running && r.State != check.Retrying &&
		r.State != check.Succeeded && r.State != check.Failed)
}
