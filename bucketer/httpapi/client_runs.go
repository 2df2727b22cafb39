package httpapi

import (
	"context"
	"iter"
	"net/url"
	"time"

	"carillon.dev/carillon/schema"
)

// RunQuery selects runs by due time, From ≤ due < To. Empty fields select all.
type RunQuery struct {
	From, To time.Time // however far apart: the client asks for a day at a time
	States   []schema.State
	Task     string
	// id or name of a job; the runs of one that can have many come newest first in each day
	Job    string
	Labels map[string]string // all of them
	Host   string            // their HTTP call goes there; "": anywhere
	Late   time.Duration     // started later than that after they were due, or not yet, or missed; 0: any
	Key    string            // idempotency key
	Error  string            // part of their last error
	OneOff bool              // of one-off jobs alone
	// CreatedBy is who made their job, or asked for them, as the audit log names callers
	CreatedBy string
	Limit     int // of one page; 0 means 500
}

// params returns the filters of q.
func (q *RunQuery) params() url.Values {
	params := stated(map[string]string{"task": q.Task, "job": q.Job, "key": q.Key, "error": q.Error, "created_by": q.CreatedBy})
	for _, s := range q.States {
		params.Add("state", string(s))
	}
	for name, value := range q.Labels {
		params.Add("label", name+"="+value)
	}
	if q.OneOff {
		params.Set("one_off", "true")
	}
	if q.Host != "" {
		params.Set("host", q.Host)
	}
	if q.Late != 0 {
		params.Set("late", q.Late.String())
	}
	return params
}

// Runs returns the runs of q, in due order. It ends with the first error.
func (c *Client) Runs(ctx context.Context, q RunQuery) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		if !q.To.After(q.From) { // the server says what is wrong with it
			q.To = q.From
		}
		for from := q.From; ; {
			to := from.Add(maxRunsWindow)
			if to.After(q.To) {
				to = q.To
			}
			params := q.params()
			params.Set("from", from.UTC().Format(time.RFC3339Nano))
			params.Set("to", to.UTC().Format(time.RFC3339Nano))
			if !eachItem(ctx, c, "/v1/runs", params, q.Limit, yield) {
				return
			}
			if from = to; !from.Before(q.To) {
				return
			}
		}
	}
}

// RunOfKey returns the run of an idempotency key, and whether there is one. at is the instant of an
// import's line that stated one, which stands together with its key; zero: of any other key, which is
// kept for 24 h.
func (c *Client) RunOfKey(ctx context.Context, key string, at time.Time) (run Run, found bool, err error) {
	params := url.Values{"key": {key}}
	if !at.IsZero() {
		params.Set("at", at.UTC().Format(time.RFC3339Nano))
	}
	eachItem(ctx, c, "/v1/runs", params, 0, func(r Run, failed error) bool {
		run, found, err = r, failed == nil, failed
		return false
	})
	return run, found, err
}

// StepRuns returns the runs of the steps of a workflow run, each item of a step with for_each as a run
// of its own, in the order of the steps, then of items; only of one step unless that is "", and only
// those of q's States and Late. It ends with the first error.
func (c *Client) StepRuns(ctx context.Context, of schema.RunID, step string, q RunQuery) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		params := (&RunQuery{States: q.States, Late: q.Late}).params()
		params.Set("workflow_run", of.String())
		if step != "" {
			params.Set("step", step)
		}
		eachItem(ctx, c, "/v1/runs", params, q.Limit, yield)
	}
}
