package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/logs"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// Logs finds lines in the logs of runs (engine.Engine).
type Logs interface {
	SearchLogs(ctx context.Context, q *logs.Query, pos logs.Position, limit int) (logs.Page, *logs.Position, error)
	FollowLogs(ctx context.Context, q *logs.Query, pos logs.FollowPosition, limit int) (logs.Page, *logs.FollowPosition, error)
}

const (
	logsPath = "/v1/logs"
	// defaultLogSpan is how far a search goes back where no from is stated, followSpan a follow.
	defaultLogSpan = time.Hour
	followSpan     = time.Minute
	// maxSearches bounds the searches of logs and runs under way on a node, maxTenantSearches those
	// of one tenant.
	maxSearches       = 16
	maxTenantSearches = 4
)

type (
	logFilter struct {
		Limit  int       `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most items of one answer"`
		Cursor string    `query:"cursor" maxLength:"8192" doc:"next_cursor of the answer before; opaque, and good only for the same search"`
		From   time.Time `query:"from" doc:"First due time of the runs that are looked at; default: an hour before to, with follow a minute before now, and of a job or a run: any"`
		To     time.Time `query:"to" doc:"Due times before this one; default: now. At most 24 hours after from, unless job or run is stated"`
		Job    string    `query:"job" doc:"Only runs of the job or workflow of this id or name, the latest due first"`
		Run    string    `query:"run" doc:"Only this run; of a workflow run: its steps"`
		Task   string    `query:"task" doc:"Only runs, and steps of workflow runs, of this task"`
		Label  []string  `query:"label,explode" maxItems:"16" doc:"Only runs, and workflow runs, that have this label, as name=value; stated again: and that"`
		Text   string    `query:"text" maxLength:"256" doc:"Only lines that have this in them, in capitals or not. No pattern: it is taken as it is"`
		Kind   string    `query:"kind" enum:"line,error" doc:"Only lines that workers logged, or only errors of attempts. Errors alone cost least: no log is read for them"`
		Follow bool      `query:"follow" doc:"Go with time instead: see the description"`
	}

	logSearch struct {
		Body struct {
			Items      []FoundLine `json:"items"`
			LookedAt   LookedAt    `json:"looked_at"`
			NextCursor string      `json:"next_cursor,omitempty" doc:"Present until all was looked at; with follow until the run that was asked for has ended, else always"`
		}
	}
)

// FoundLine is a line of the log of a run, or the error of an attempt.
type FoundLine struct {
	ID            string       `json:"id" doc:"Names the line: the same in every answer that has it"`
	Kind          logs.Kind    `json:"kind" enum:"line,error"`
	At            Time         `json:"at,omitzero" doc:"When its executor heard the line, or when the attempt ended"`
	Text          string       `json:"text,omitempty"`
	Dropped       int          `json:"dropped,omitempty" doc:"No line of its own: so many that came here were not kept. Not told where text is asked for"`
	RunID         schema.RunID `json:"run_id"`
	Attempt       int          `json:"attempt"`
	DueAt         Time         `json:"due_at" doc:"When the run was due"`
	JobID         schema.JobID `json:"job_id,omitzero" doc:"Absent for a step of a workflow run"`
	JobName       string       `json:"job_name,omitempty"`
	Task          string       `json:"task,omitempty"`
	WorkflowRunID schema.RunID `json:"workflow_run_id,omitzero" doc:"Of a step: the workflow run"`
	Step          string       `json:"step,omitempty" doc:"Of a step: its name"`
	Item          *int         `json:"item,omitempty" doc:"Of a step with for_each: which item it is, from 0"`
}

// LookedAt is what an answer to a search has cost, and how far it came.
type LookedAt struct {
	Runs     int  `json:"runs" doc:"How many runs were looked at, with steps of workflow runs"`
	LogReads int  `json:"log_reads" doc:"How often a part of a log was read: about once for each run that logged"`
	Lines    int  `json:"lines" doc:"How many lines and errors were looked at"`
	Damaged  int  `json:"damaged,omitempty" doc:"Parts of logs that could not be understood, and were passed over"`
	Reached  Time `json:"reached,omitzero" doc:"How far the search came: the runs of the window that were due then or later were looked at. With follow: those that were due before then"`
	Behind   bool `json:"behind,omitempty" doc:"With follow: there is more now. Else wait a second or two before you ask again"`
	LetGo    int  `json:"let_go,omitempty" doc:"With follow: how many runs under way are not followed any more, since there are too many"`
}

// logRoutes serves the search of logs.
type logRoutes struct{ *Server }

func (s logRoutes) route() {
	op := s.operation("search-logs", http.MethodGet, logsPath, "Lines in the logs of runs, and errors of attempts that failed", 200, 404, 422, 429, 503)
	op.Description = "Logs lie with their runs, without an index. So runs are looked at one after the other, those of the newest minute first (of a job: the latest due first), " +
		"and the log of each that logged is read. from and to are of the due times of runs, as in lists of runs. The lines of a run come in the order in which it logged them, and the error of an attempt after its lines. " +
		"Lines have no level; kind=error has errors of attempts alone. Outputs and payloads are not searched.\n\n" +
		"An answer is bounded: it ends after at most 500 runs, 64 reads of logs, 512 partitions of due times (a minute has as many as there are shards) or 5 seconds, says in looked_at how much that was and how far it came, " +
		"and has next_cursor while there is more. So it may hold fewer items than limit, even none. A node has at most 16 searches under way, and 4 of one tenant: what is over is answered 429.\n\n" +
		"follow=true goes with time: runs that fall due from from on, found 3 seconds later, and what those log that have not ended, at most 32 of them at once. Ask again with next_cursor, at once if looked_at.behind is true, " +
		"else after a second or two. to cannot be stated beside it."
	huma.Register(s.api, op, s.searchLogs)
}

// logCursor is where a search goes on. It holds its window, since the ends of that may be left to
// the first answer.
type logCursor struct {
	From time.Time     `json:"from,omitzero"`
	To   time.Time     `json:"to,omitzero"`
	At   logs.Position `json:"at"`
}

func (s logRoutes) searchLogs(ctx context.Context, in *logFilter) (*logSearch, error) {
	if s.deps.Logs == nil {
		return nil, notFound("This node searches no logs.")
	}
	q, faults, err := s.logQuery(ctx, in)
	if err != nil {
		return nil, s.fail(ctx, "search logs", err)
	}
	end, ok := s.searches.begin(q.Tenant)
	if !ok {
		return nil, tooManySearches()
	}
	defer end()
	question := []any{"logs", q.Tenant, in.From.UTC(), in.To.UTC(), q.Job, q.Run, q.Task, q.Labels, q.Text, q.Kind, in.Follow}
	if in.Follow {
		return s.follow(ctx, in, &q, question, faults)
	}
	c := logCursor{From: q.From, To: q.To}
	if err := s.goOn(in.Cursor, question, &c, faults); err != nil {
		return nil, s.fail(ctx, "search logs", err)
	}
	q.From, q.To = c.From, c.To
	page, next, err := s.deps.Logs.SearchLogs(ctx, &q, c.At, in.Limit)
	if err != nil {
		return nil, s.failSearch(ctx, in, err)
	}
	if next == nil {
		return s.answerSearch(ctx, &page, question, nil)
	}
	return s.answerSearch(ctx, &page, question, logCursor{q.From, q.To, *next})
}

func (s logRoutes) follow(ctx context.Context, in *logFilter, q *logs.Query, question any, faults bucketer.Faults) (*logSearch, error) {
	pos := logs.FollowPosition{Seen: q.From}
	if err := s.goOn(in.Cursor, question, &pos, faults); err != nil {
		return nil, s.fail(ctx, "follow logs", err)
	}
	page, next, err := s.deps.Logs.FollowLogs(ctx, q, pos, in.Limit)
	if err != nil {
		return nil, s.failSearch(ctx, in, err)
	}
	if next == nil {
		return s.answerSearch(ctx, &page, question, nil)
	}
	return s.answerSearch(ctx, &page, question, next)
}

// answerSearch answers a page; next is where the search goes on, nil: it ends.
func (s logRoutes) answerSearch(ctx context.Context, page *logs.Page, question, next any) (*logSearch, error) {
	out := new(logSearch)
	l := &page.Looked
	out.Body.LookedAt = LookedAt{Runs: l.Runs, LogReads: l.Logs, Lines: l.Lines, Damaged: l.Damaged, Reached: Time{l.Reached}, Behind: l.Behind, LetGo: l.LetGo}
	out.Body.Items = make([]FoundLine, len(page.Items))
	for i := range page.Items {
		out.Body.Items[i] = foundLine(&page.Items[i])
	}
	if next != nil {
		var err error
		if out.Body.NextCursor, err = s.cursors.make(question, next); err != nil {
			return nil, s.fail(ctx, "search logs", err)
		}
	}
	return out, nil
}

// failSearch answers a search that failed. That there is no such run or job is a fault of the
// question.
func (s logRoutes) failSearch(ctx context.Context, in *logFilter, err error) error {
	if !errors.Is(err, schema.ErrNotFound) {
		return s.fail(ctx, "search logs", err)
	}
	if in.Run != "" {
		return invalid(bucketer.Fault{Location: "query.run", Message: "there is no run of this id", Value: in.Run})
	}
	return invalid(bucketer.Fault{Location: "query.job", Message: "there is no job of this id", Value: in.Job})
}

// logQuery reads what is looked for, and all that is wrong with it.
func (s logRoutes) logQuery(ctx context.Context, in *logFilter) (q logs.Query, faults bucketer.Faults, err error) {
	fault := func(name, what string, value any) {
		faults = append(faults, bucketer.Fault{Location: "query." + name, Message: what, Value: value})
	}
	words := runs.FilterText{Task: in.Task, Labels: in.Label}
	f, wrong := words.Parse()
	for _, w := range wrong {
		fault(w.Field, w.Message, w.Value)
	}
	q = logs.Query{
		Tenant: tenantOf(ctx), From: in.From.UTC(), To: in.To.UTC(), Task: f.Task, Labels: f.Labels, Text: in.Text, Kind: logs.Kind(in.Kind), Says: runs.ErrorOf,
	}
	if len(wrong) == 0 && q.Task != "" {
		_, err := s.deps.Tasks.Task(ctx, q.Tenant, q.Task)
		switch {
		case errors.Is(err, schema.ErrNotFound):
			fault("task", "there is no task of this name", q.Task)
		case err != nil && !errors.Is(err, schema.ErrNotUnderstood):
			return q, nil, err
		}
	}
	if strings.ContainsFunc(in.Text, unicode.IsControl) {
		fault("text", "must be a part of one line, without control characters", nil)
	}
	job, what, err := runRoutes(s).jobOfQuery(ctx, in.Job)
	switch {
	case err != nil:
		return q, nil, err
	case what != "":
		fault("job", what, in.Job)
	}
	if in.Run != "" {
		if q.Run, err = schema.ParseEntryID(in.Run); err != nil {
			fault("run", "is not the id of a run", in.Run)
		}
		for _, p := range []selection{{"job", in.Job != ""}, {"label", len(in.Label) > 0}, {"from", !in.From.IsZero()}, {"to", !in.To.IsZero()}} {
			if p.stated {
				fault(p.name, "cannot be asked for beside run", nil)
			}
		}
	} else if only, ok := job.OneOff(); ok {
		q.Run = only
	} else {
		q.Job = job
	}
	faults = append(faults, s.logWindow(in, &q)...)
	faults = append(faults, beforeKept(ctx, s.Server, in.Cursor, q.From)...)
	return q, faults, nil
}

// logWindow fills in the ends of the window that were left out, and returns what is wrong with it.
func (s logRoutes) logWindow(in *logFilter, q *logs.Query) (faults bucketer.Faults) {
	now := s.config.Now().UTC()
	anywhere := in.Job != "" || in.Run != ""
	most := maxRunsWindow
	if in.Follow {
		if !in.To.IsZero() {
			return bucketer.Faults{{Location: "query.to", Message: "cannot be asked for beside follow"}}
		}
		if q.From.IsZero() {
			q.From = now.Add(-followSpan)
		}
		if q.From.After(now) { // it begins then
			return checkYears(q.From, q.From)
		}
		faults = checkYears(q.From, now)
		if now.Sub(q.From) > most && len(faults) == 0 {
			faults = append(faults, bucketer.Fault{Location: "query.from", Message: "must be at most 24 hours ago beside follow"})
		}
		return faults
	}
	if anywhere {
		faults = checkYears(q.From, q.To)
		if !q.To.IsZero() && !q.To.After(q.From) {
			faults = append(faults, bucketer.Fault{Location: "query.to", Message: "must be after from"})
		}
		return faults
	}
	if q.To.IsZero() {
		q.To = now.Add(time.Second)                           // with what is due right now
		if !q.From.IsZero() && q.From.Add(most).Before(now) { // from alone: the day after it
			q.To = q.From.Add(most)
		}
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-defaultLogSpan)
	}
	return checkWindow(q.From, q.To, most)
}

// foundLine returns an item as the API answers it.
func foundLine(it *logs.Item) FoundLine {
	e := standing(it.Run)
	s := &it.Run.Entry.Spec
	out := FoundLine{
		ID: it.ID(), Kind: it.Kind, At: Time{it.At}, Text: it.Text, Dropped: it.Dropped, RunID: it.Run.ID, Attempt: it.Attempt,
		DueAt: Time{e.Due()}, JobID: s.Job, JobName: s.JobName, Task: e.Spec.Task,
	}
	switch {
	case s.Step != nil:
		step := Run{}
		step.noteStep(it.Run)
		out.WorkflowRunID, out.Step, out.Item = step.WorkflowRunID, step.Step, step.Item
	case out.JobID.IsZero():
		out.JobID = schema.JobOf(it.Run.ID)
	}
	return out
}

// searches counts the searches under way.
type searches struct {
	mu      sync.Mutex
	all     int
	tenants map[string]int
}

// begin counts one more search of a tenant until end is called, or reports that there are too many.
func (c *searches) begin(tenant string) (end func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= maxSearches || c.tenants[tenant] >= maxTenantSearches {
		return nil, false
	}
	if c.tenants == nil {
		c.tenants = make(map[string]int)
	}
	c.all++
	c.tenants[tenant]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all--
		if c.tenants[tenant]--; c.tenants[tenant] == 0 {
			delete(c.tenants, tenant)
		}
	}, true
}

// tooManySearches refuses a search for now.
func tooManySearches() *Problem {
	return &Problem{
		Type: problemType + "too-many-searches", Title: "Too many searches are under way", Status: http.StatusTooManyRequests, RetryAfter: time.Second,
		Detail: "A node answers 16 searches of logs and runs at once, and 4 of one tenant.",
	}
}
