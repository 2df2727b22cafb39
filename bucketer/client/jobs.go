package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Jobs are what can be asked for about jobs. Where a method takes an id it also takes a name.
type Jobs struct{ node *node }

// Create makes a job. Without a name, a schedule, an instant, an event or jobs before it, it is due
// at once.
func (j Jobs) Create(ctx context.Context, job *Job, options ...CreateOption) (JobInfo, error) {
	body, err := job.build()
	if err != nil {
		return JobInfo{}, err
	}
	return ask[JobInfo](ctx, j.node, question{path: []string{"jobs"}, body: body}.create(options))
}

// Put creates the job of a name, or replaces what it says. Without a schedule, events or jobs
// before it, it runs only when it is triggered.
func (j Jobs) Put(ctx context.Context, name string, job *Job) (JobInfo, error) {
	body, err := job.build()
	if err != nil {
		return JobInfo{}, err
	}
	return ask[JobInfo](ctx, j.node, question{method: http.MethodPut, path: []string{"jobs", name}, body: body})
}

// Get returns a job. A job that does not exist is an *Error of the kind "not-found".
func (j Jobs) Get(ctx context.Context, id string) (JobInfo, error) {
	return ask[JobInfo](ctx, j.node, question{method: http.MethodGet, path: []string{"jobs", id}})
}

// Patch changes a job that can have many runs, or a one-off job that has not started, by a JSON
// merge patch (RFC 7396), such as
//
//	map[string]any{"schedule": map[string]any{"at": tomorrow}}
func (j Jobs) Patch(ctx context.Context, id string, patch any) (JobInfo, error) {
	return ask[JobInfo](ctx, j.node, question{method: http.MethodPatch, path: []string{"jobs", id}, body: patch})
}

// Cancel cancels a job; twice is the same as once. One that has finished is an *Error of the kind
// "finished".
func (j Jobs) Cancel(ctx context.Context, id string) (JobInfo, error) {
	return ask[JobInfo](ctx, j.node, question{method: http.MethodDelete, path: []string{"jobs", id}})
}

// Pause lets no run of a job start until it is resumed; twice is the same as once.
func (j Jobs) Pause(ctx context.Context, id string) (JobInfo, error) {
	return ask[JobInfo](ctx, j.node, question{method: http.MethodPost, path: []string{"jobs", id, "pause"}})
}

// Resume lets a job that was paused go on, from now on; twice is the same as once.
func (j Jobs) Resume(ctx context.Context, id string) (JobInfo, error) {
	return ask[JobInfo](ctx, j.node, question{method: http.MethodPost, path: []string{"jobs", id, "resume"}})
}

// Trigger runs a job now, besides its schedule, and returns the run.
func (j Jobs) Trigger(ctx context.Context, id string, options ...CreateOption) (Run, error) {
	return ask[Run](ctx, j.node, question{path: []string{"jobs", id, "trigger"}}.create(options))
}

// JobQuery selects jobs or workflows. Empty fields select all.
type JobQuery struct {
	State      JobState
	Label      string // name=value
	NamePrefix string
}

func (q JobQuery) parameters() url.Values {
	return stated(map[string]string{"state": string(q.State), "label": q.Label, "name_prefix": q.NamePrefix})
}

// List returns the jobs that can have many runs, newest first. It ends with the first error.
// One-off jobs are runs: see Runs.List.
func (j Jobs) List(ctx context.Context, q JobQuery) iter.Seq2[JobInfo, error] {
	return list[JobInfo](ctx, j.node, q.parameters(), "jobs")
}

// JobRunQuery selects runs of one job or workflow, From ≤ due < To. Empty fields select all.
type JobRunQuery struct {
	From, To time.Time
	State    State
}

func (q JobRunQuery) parameters() url.Values {
	return stated(map[string]string{"state": string(q.State), "from": instant(q.From), "to": instant(q.To)})
}

// Runs returns the runs of a job, the latest due first: also those under way, and the next one. It
// ends with the first error.
func (j Jobs) Runs(ctx context.Context, id string, q JobRunQuery) iter.Seq2[Run, error] {
	return list[Run](ctx, j.node, q.parameters(), "jobs", id, "runs")
}

// Upcoming returns the next runs of a job, if it stays as it is: at most count of them, from 1 to
// 100.
func (j Jobs) Upcoming(ctx context.Context, id string, count int) ([]NextRun, error) {
	return upcoming(ctx, j.node, count, "jobs", id, "upcoming")
}

func upcoming(ctx context.Context, n *node, count int, path ...string) ([]NextRun, error) {
	out, err := ask[struct {
		Items []NextRun `json:"items"`
	}](ctx, n, question{method: http.MethodGet, path: path, query: url.Values{"count": {strconv.Itoa(count)}}})
	return out.Items, err
}
