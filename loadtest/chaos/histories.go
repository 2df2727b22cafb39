package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/loadtest/check"
)

const (
	historyPage     = 500 // the most that the API allows
	historyPages    = 100_000
	historyTries    = 4 // of a request, at each node
	historyTimeout  = 30 * time.Second
	mostHistory     = 64 << 20 // bytes of a page
	historyProgress = 5 * time.Second
	// unsettledEvery is how often jobs are read again of which a target has no verdict yet.
	unsettledEvery = 3 * time.Second
)

// Histories reads the histories of recurring jobs through the API, twice.
type Histories struct {
	// URLs are the bases of the nodes' APIs. At least one.
	URLs []string
	// Token and Tenant go into each request, if set.
	Token, Tenant string
	HTTP          *http.Client
	// WaitUntil bounds the wait for targets without a verdict.
	WaitUntil time.Time
	// Apart is how long the second read comes after the first.
	Apart time.Duration
	// Concurrency bounds the requests under way; 0 = 8.
	Concurrency int
	Log         *slog.Logger
}

// Read fills in h.Jobs: it reads every job that was acknowledged, reads those again of which a target has no verdict until all have one or
// WaitUntil, waits Apart, and reads everything again. The error is that of ctx, or check.ErrHistory; what could not be read is no error.
func (o *Histories) Read(ctx context.Context, h *check.RecurringHistory) error {
	var ids []string
	for i := range h.Events {
		if e := &h.Events[i]; e.Kind == check.JobCreated && !e.Acked.IsZero() {
			ids = append(ids, e.Job.ID)
		}
	}
	readings := make(map[string]check.JobReading, len(ids))
	if err := o.read(ctx, "first read", ids, readings); err != nil {
		return err
	}
	if err := o.wait(ctx, *h, readings); err != nil {
		return err
	}
	o.Log.Info("waiting for the second read", "apart", o.Apart)
	if err := sleepUntil(ctx, time.Now().Add(o.Apart)); err != nil {
		return err
	}
	again := make(map[string]check.JobReading, len(ids))
	if err := o.read(ctx, "second read", ids, again); err != nil {
		return err
	}
	h.Jobs = h.Jobs[:0]
	for _, id := range ids {
		h.Jobs = append(h.Jobs, check.JobHistory{ID: id, First: readings[id], Second: again[id]})
	}
	return nil
}

// wait reads unsettled jobs again and again.
func (o *Histories) wait(ctx context.Context, h check.RecurringHistory, readings map[string]check.JobReading) error {
	for {
		h.Jobs = nil
		for id, r := range readings {
			h.Jobs = append(h.Jobs, check.JobHistory{ID: id, First: r, Second: r})
		}
		open, err := check.Unsettled(h)
		if err != nil {
			return err
		}
		if len(open) == 0 {
			return nil
		}
		if !time.Now().Before(o.WaitUntil) {
			o.Log.Warn("jobs have targets without a verdict, and the wait is over", "jobs", len(open))
			return nil
		}
		o.Log.Info("waiting for runs to end", "jobs", len(open), "until", o.WaitUntil.UTC().Format(time.RFC3339))
		if err := sleepUntil(ctx, time.Now().Add(min(unsettledEvery, time.Until(o.WaitUntil)))); err != nil {
			return err
		}
		if err := o.read(ctx, "unsettled jobs read again", open, readings); err != nil {
			return err
		}
	}
}

// read reads the histories of some jobs into readings.
func (o *Histories) read(ctx context.Context, what string, ids []string, readings map[string]check.JobReading) error {
	var mu sync.Mutex // guards readings and what follows
	done, failed, said := 0, 0, time.Now()
	g, gctx := errgroup.WithContext(ctx)
	limit := o.Concurrency
	if limit < 1 {
		limit = 8
	}
	g.SetLimit(limit)
	for i, id := range ids {
		if gctx.Err() != nil {
			break
		}
		g.Go(func() error {
			at := time.Now()
			runs, found, err := o.job(gctx, id, i)
			if gctx.Err() != nil {
				return gctx.Err()
			}
			mu.Lock()
			defer mu.Unlock()
			r := check.JobReading{At: at, Runs: runs, Status: check.Found}
			switch {
			case err != nil:
				r = check.JobReading{At: at, Status: check.Unreadable}
				const logged = 5
				if failed++; failed <= logged {
					o.Log.Warn("history could not be read", "job", id, "err", err)
				}
			case !found:
				r = check.JobReading{At: at, Status: check.Absent}
			}
			readings[id] = r
			if done++; time.Since(said) > historyProgress || done == len(ids) && done > 1 {
				said = time.Now()
				o.Log.Info("reading", "what", what, "done", done, "of", len(ids))
			}
			return nil
		})
	}
	return errors.Join(g.Wait(), ctx.Err())
}

// job reads the history of one job to its end, from node number first on. found is false if the API says that there is no such job.
func (o *Histories) job(ctx context.Context, id string, first int) (runs []check.JobRun, found bool, err error) {
	q := url.Values{"limit": {fmt.Sprint(historyPage)}}
	for range historyPages {
		var page struct {
			Items      []check.JobRun `json:"items"`
			NextCursor string         `json:"next_cursor"`
		}
		found, err := o.get(ctx, "/v1/jobs/"+url.PathEscape(id)+"/runs?"+q.Encode(), first, &page)
		if err != nil || !found {
			return nil, false, err
		}
		for i := range page.Items {
			if page.Items[i].State.Terminal() { // the others are listed too, and are judged once they have ended
				runs = append(runs, page.Items[i])
			}
		}
		if page.NextCursor == "" {
			return runs, true, nil
		}
		q.Set("cursor", page.NextCursor)
	}
	return nil, false, fmt.Errorf("history of job %s: more than %d pages", id, historyPages)
}

// get asks one node after the other until one answers 200 or 404.
func (o *Histories) get(ctx context.Context, path string, first int, into any) (found bool, err error) {
	for try := range historyTries * len(o.URLs) {
		if try > 0 && try%len(o.URLs) == 0 { // every node has had its turn
			if err := sleepUntil(ctx, time.Now().Add(time.Duration(try)*askPause)); err != nil {
				return false, err
			}
		}
		status, body, gerr := o.once(ctx, o.URLs[(first+try)%len(o.URLs)]+path)
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case gerr != nil:
			err = gerr
		case status == http.StatusOK:
			if err := json.Unmarshal(body, into); err != nil {
				return false, fmt.Errorf("get %s: %w", path, err)
			}
			return true, nil
		case status == http.StatusNotFound:
			return false, nil
		default:
			err = fmt.Errorf("answered %d %.300s", status, body)
		}
	}
	return false, fmt.Errorf("get %s: %w", path, err)
}

func (o *Histories) once(ctx context.Context, url string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	if o.Token != "" {
		req.Header.Set("Authorization", "Bearer "+o.Token)
	}
	if o.Tenant != "" {
		req.Header.Set("Carillon-Tenant", o.Tenant)
	}
	resp, err := o.HTTP.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	if body, err = io.ReadAll(io.LimitReader(resp.Body, mostHistory)); err != nil {
		return 0, nil, err
	}
	return resp.StatusCode, body, nil
}
