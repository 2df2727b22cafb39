package client

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// LogKind says what a FoundLine is.
type LogKind string

// The kinds.
const (
	LogLine  LogKind = "line"  // a line that a worker logged
	LogError LogKind = "error" // why an attempt failed
)

// LogQuery selects lines in the logs of runs, and errors of attempts. Empty fields select all,
// unless they say otherwise.
type LogQuery struct {
	// From and To are due times of runs, at most a day apart unless Job or Run is stated. Zero: the
	// last hour, or of a job or run all.
	From, To time.Time
	Job      string            // id or name of a job or workflow
	Run      RunID             // of a workflow run: its steps
	Task     string            // of runs, and of steps of workflow runs
	Labels   map[string]string // all of them
	Text     string            // is part of the line, in capitals or not
	Kind     LogKind
	// Looked is told after each answer what that looked at; nil: nobody is.
	Looked func(LookedAt)
}

// FoundLine is a line of the log of a run, or the error of an attempt.
type FoundLine struct {
	ID            string    `json:"id"` // the same in every answer that has it
	Kind          LogKind   `json:"kind"`
	At            time.Time `json:"at,omitzero"` // when its executor heard the line, or when the attempt ended
	Text          string    `json:"text,omitempty"`
	Dropped       int       `json:"dropped,omitempty"` // no line: so many that came here were not kept
	RunID         RunID     `json:"run_id"`
	Attempt       int       `json:"attempt"`
	DueAt         time.Time `json:"due_at"`          // when the run was due
	JobID         JobID     `json:"job_id,omitzero"` // zero for a step of a workflow run
	JobName       string    `json:"job_name,omitempty"`
	Task          string    `json:"task,omitempty"`
	WorkflowRunID RunID     `json:"workflow_run_id,omitzero"` // of a step
	Step          string    `json:"step,omitempty"`
	Item          *int      `json:"item,omitempty"` // of a step with ForEach, from 0
}

// LookedAt is what an answer to a search has cost, and how far it came.
type LookedAt struct {
	Runs     int       `json:"runs"`
	LogReads int       `json:"log_reads"` // reads of logs: about one for each run that logged
	Lines    int       `json:"lines"`
	Damaged  int       `json:"damaged,omitempty"` // parts of logs that could not be understood
	Reached  time.Time `json:"reached,omitzero"`  // runs that were due then or later were looked at; of FollowLogs: before then
	Behind   bool      `json:"behind,omitempty"`  // of FollowLogs: there is more now
	LetGo    int       `json:"let_go,omitempty"`  // of FollowLogs: runs under way that are not followed any more
}

// SearchLogs returns the lines of q, those of the newest runs first, and the lines of a run in the
// order in which it logged them. Logs have no index: runs are looked at one after the other, some
// hundred an answer. It ends with the first error.
func (r Runs) SearchLogs(ctx context.Context, q LogQuery) iter.Seq2[FoundLine, error] {
	return r.foundLines(ctx, &q, q.params(), 0)
}

// followEvery is how often FollowLogs asks for what is new.
const followEvery = time.Second

// FollowLogs returns what runs log that fall due from q.From on (zero: from a minute ago), as it
// comes, until the run q.Run has ended, or else until ctx ends. Of runs under way at most 32 are
// followed at once. q.To must be zero. It ends with the first error.
func (r Runs) FollowLogs(ctx context.Context, q LogQuery) iter.Seq2[FoundLine, error] {
	params := q.params()
	params.Set("follow", "true")
	return r.foundLines(ctx, &q, params, followEvery)
}

func (q *LogQuery) params() url.Values {
	params := stated(map[string]string{
		"from": instant(q.From), "to": instant(q.To), "job": q.Job, "task": q.Task, "text": q.Text, "kind": string(q.Kind),
	})
	if !q.Run.IsZero() {
		params.Set("run", q.Run.String())
	}
	for name, value := range q.Labels {
		params.Add("label", name+"="+value)
	}
	params.Set("limit", strconv.Itoa(maxPage))
	return params
}

// foundLines asks until all was answered, with a pause where there is nothing new.
func (r Runs) foundLines(ctx context.Context, q *LogQuery, query url.Values, pause time.Duration) iter.Seq2[FoundLine, error] {
	return func(yield func(FoundLine, error) bool) {
		params := maps.Clone(query)
		for {
			page, err := ask[struct {
				Items      []FoundLine `json:"items"`
				LookedAt   LookedAt    `json:"looked_at"`
				NextCursor string      `json:"next_cursor"`
			}](ctx, r.node, question{method: http.MethodGet, path: []string{"logs"}, query: params})
			if err != nil {
				yield(FoundLine{}, err)
				return
			}
			for _, line := range page.Items {
				if !yield(line, nil) {
					return
				}
			}
			if q.Looked != nil {
				q.Looked(page.LookedAt)
			}
			if page.NextCursor == "" {
				return
			}
			params.Set("cursor", page.NextCursor)
			if pause > 0 && !page.LookedAt.Behind {
				if err := sleep(ctx, pause); err != nil {
					yield(FoundLine{}, err)
					return
				}
			}
		}
	}
}
