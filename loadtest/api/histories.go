package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/wait"
)

// unsettledEvery is how often jobs with a target without a verdict are read again.
const unsettledEvery = 3 * time.Second

// Histories reads the histories of recurring jobs through the API, twice.
type Histories struct {
	Client *Client
	// WaitUntil bounds the wait for targets without a verdict.
	WaitUntil time.Time
	// Apart is how long the second read comes after the first.
	Apart time.Duration
	// Concurrency bounds the requests under way; 0 = 4.
	Concurrency int
	Log         *slog.Logger
}

// Read fills in h.Jobs. It reads every acknowledged job, repeats jobs without a verdict for each
// target until WaitUntil, waits Apart, and reads everything again. The error is that of ctx,
// ErrRefused or check.ErrHistory; a job that cannot be read is no error.
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
	if err := wait.For(ctx, o.Apart); err != nil {
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
		if err := wait.For(ctx, min(unsettledEvery, time.Until(o.WaitUntil))); err != nil {
			return err
		}
		if err := o.read(ctx, "unsettled jobs read again", open, readings); err != nil {
			return err
		}
	}
}

// read reads the histories of some jobs into readings.
func (o *Histories) read(ctx context.Context, what string, ids []string, readings map[string]check.JobReading) error {
	var mu sync.Mutex // guards readings and failed
	failed := 0
	return Each(ctx, o.Log, what, len(ids), o.Concurrency, func(ctx context.Context, i int) error {
		at := time.Now()
		runs, found, err := o.Client.history(ctx, ids[i])
		if fatal(ctx, err) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		r := check.JobReading{At: at, Runs: runs, Status: check.Found}
		switch {
		case err != nil:
			r = check.JobReading{At: at, Status: check.Unreadable}
			if failed++; failed <= unreadableLogged {
				o.Log.Warn("history could not be read", "job", ids[i], "err", err)
			}
		case !found:
			r = check.JobReading{At: at, Status: check.Absent}
		}
		readings[ids[i]] = r
		return nil
	})
}

// history reads the runs of a job that have ended. found is false if the API says that there is no
// such job.
func (c *Client) history(ctx context.Context, id string) (runs []check.JobRun, found bool, err error) {
	found, err = pages(ctx, c, "/v1/jobs/"+url.PathEscape(id)+"/runs", url.Values{}, func(r *check.JobRun) {
		if r.State.Terminal() { // the others are judged once they have ended
			runs = append(runs, *r)
		}
	})
	if err != nil {
		return nil, false, fmt.Errorf("read history: %w", err)
	}
	return runs, found, nil
}
