package httpapi

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// jobPath returns the path of what there is to ask about a job, by its id or name.
func jobPath(id, what string) string { return "/v1/jobs/" + url.PathEscape(id) + what }

// PutJob creates or replaces the recurring job of a name, and reports whether it was created. The
// job is anything that encodes as the body of POST /v1/jobs, such as a request.JobRequest.
func (c *Client) PutJob(ctx context.Context, name string, job any) (Job, bool, error) {
	var out Job
	header, err := c.call(ctx, ask{method: http.MethodPut, path: jobPath(name, ""), body: job, repeatable: true}, &out)
	return out, header.Get("Location") != "", err
}

// PauseJob pauses a job; twice is the same as once.
func (c *Client) PauseJob(ctx context.Context, id string) (Job, error) {
	var out Job
	_, err := c.call(ctx, ask{method: http.MethodPost, path: jobPath(id, "/pause"), repeatable: true}, &out)
	return out, err
}

// ResumeJob resumes a job; twice is the same as once.
func (c *Client) ResumeJob(ctx context.Context, id string) (Job, error) {
	var out Job
	_, err := c.call(ctx, ask{method: http.MethodPost, path: jobPath(id, "/resume"), repeatable: true}, &out)
	return out, err
}

// TriggerJob runs a job now, besides its schedule. About key see CreateJob.
func (c *Client) TriggerJob(ctx context.Context, id, key string) (Run, error) {
	var out Run
	_, err := c.call(ctx, ask{method: http.MethodPost, path: jobPath(id, "/trigger"), header: keyed(key), repeatable: key != ""}, &out)
	return out, err
}

// JobQuery selects jobs that can have many runs. Empty fields select all.
type JobQuery struct {
	State      schema.JobState
	Label      string // name=value
	NamePrefix string
	Limit      int // of one page; 0 means 500
}

// Jobs returns the jobs of q, newest first. It ends with the first error.
func (c *Client) Jobs(ctx context.Context, q JobQuery) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) { eachItem(ctx, c, "/v1/jobs", q.parameters(), q.Limit, yield) }
}

func (q *JobQuery) parameters() url.Values {
	return stated(map[string]string{"state": string(q.State), "label": q.Label, "name_prefix": q.NamePrefix})
}

// JobRunQuery selects runs of one job by due time, From ≤ due < To. Empty fields select all.
type JobRunQuery struct {
	From, To time.Time
	State    schema.State
	Limit    int // of one page; 0 means 500
}

// JobRuns returns the runs of a job, the latest due first: also those under way, those that wait,
// and the next one. It ends with the first error.
func (c *Client) JobRuns(ctx context.Context, id string, q JobRunQuery) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		eachItem(ctx, c, jobPath(id, "/runs"), q.parameters(), q.Limit, yield)
	}
}

func (q *JobRunQuery) parameters() url.Values {
	return stated(map[string]string{"state": string(q.State), "from": timeParameter(q.From), "to": timeParameter(q.To)})
}

// stated returns the parameters that are not empty.
func stated(params map[string]string) url.Values {
	out := make(url.Values)
	for name, v := range params {
		if v != "" {
			out.Set(name, v)
		}
	}
	return out
}

// timeParameter returns t as a parameter; the zero time is not stated.
func timeParameter(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Upcoming returns the next runs of a job that are due after from, at most count of them. If from
// is zero or past, these are due after now.
func (c *Client) Upcoming(ctx context.Context, id string, from time.Time, count int) ([]NextRun, error) {
	return c.upcoming(ctx, jobPath(id, "/upcoming"), from, count)
}

func (c *Client) upcoming(ctx context.Context, path string, from time.Time, count int) ([]NextRun, error) {
	var out struct {
		Items []NextRun `json:"items"`
	}
	query := url.Values{"count": {strconv.Itoa(count)}}
	if !from.IsZero() {
		query.Set("from", from.Format(time.RFC3339Nano))
	}
	_, err := c.call(ctx, ask{method: http.MethodGet, path: path + "?" + query.Encode(), repeatable: true}, &out)
	return out.Items, err
}

// BeginOperation does one thing to everything that matches, in the background. About key see
// CreateJob.
func (c *Client) BeginOperation(ctx context.Context, op request.OperationRequest, key string) (OperationBegun, error) {
	var out OperationBegun
	_, err := c.call(ctx, ask{method: http.MethodPost, path: operationsPath, body: op, header: keyed(key), repeatable: key != ""}, &out)
	return out, err
}

// Operation tells how far an operation has come.
func (c *Client) Operation(ctx context.Context, id schema.OperationID) (Operation, error) {
	var out Operation
	_, err := c.call(ctx, ask{method: http.MethodGet, path: operationsPath + "/" + id.String(), repeatable: true}, &out)
	return out, err
}

// OperationQuery selects operations. Empty fields select all.
type OperationQuery struct {
	State string // running, done or cancelled
	Limit int    // of one page; 0 means 500
}

// Operations returns the operations and backfills of the tenant, newest first. It ends with the
// first error.
func (c *Client) Operations(ctx context.Context, q OperationQuery) iter.Seq2[Operation, error] {
	return func(yield func(Operation, error) bool) {
		eachItem(ctx, c, operationsPath, stated(map[string]string{"state": q.State}), q.Limit, yield)
	}
}

// CancelOperation ends an operation where it is: what it did stays done.
func (c *Client) CancelOperation(ctx context.Context, id schema.OperationID) (Operation, error) {
	var out Operation
	_, err := c.call(ctx, ask{method: http.MethodDelete, path: operationsPath + "/" + id.String(), repeatable: true}, &out)
	return out, err
}

// Backfill runs a stretch of a job's past again, in the background. About key see CreateJob.
func (c *Client) Backfill(ctx context.Context, id string, b request.BackfillRequest, key string) (Operation, error) {
	var out Operation
	_, err := c.call(ctx, ask{method: http.MethodPost, path: jobPath(id, "/backfills"), body: b, header: keyed(key), repeatable: key != ""}, &out)
	return out, err
}

// PreviewBackfill says what a backfill would do.
func (c *Client) PreviewBackfill(ctx context.Context, id string, b request.BackfillRequest) (BackfillPreview, error) {
	var out BackfillPreview
	_, err := c.call(ctx, ask{method: http.MethodPost, path: jobPath(id, "/backfills/preview"), body: b, repeatable: true}, &out)
	return out, err
}

// operationWait is how long AwaitOperation waits between two looks.
const operationWait = time.Second

// AwaitOperation looks at an operation until it is done or cancelled, and calls onLook, which may
// be nil, with what it saw each time.
func (c *Client) AwaitOperation(ctx context.Context, id schema.OperationID, onLook func(Operation)) (Operation, error) {
	for {
		op, err := c.Operation(ctx, id)
		if err != nil {
			return op, err
		}
		if onLook != nil {
			onLook(op)
		}
		if op.State != schema.OperationRunning {
			return op, nil
		}
		if err := sleep(ctx, operationWait); err != nil {
			return op, err
		}
	}
}

// PreviewSchedule tells the next times of a schedule.
func (c *Client) PreviewSchedule(ctx context.Context, p request.PreviewRequest) (Preview, error) {
	var out Preview
	_, err := c.call(ctx, ask{method: http.MethodPost, path: previewPath, body: p, repeatable: true}, &out)
	return out, err
}
