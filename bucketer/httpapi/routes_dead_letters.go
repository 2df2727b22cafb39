package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// DeadLetters keeps the runs that have failed for good (engine.Engine).
type DeadLetters interface {
	// DeadLetters returns at most limit letters of a query, the latest due first, and where to go on.
	DeadLetters(ctx context.Context, q runs.DeadLetterQuery, pos *runs.DeadLetterPosition, limit int) ([]schema.DeadLetter, *runs.DeadLetterPosition, error)
	// DeadLetter returns one that waits or was replayed, with its payload and the attempts of its
	// run.
	DeadLetter(ctx context.Context, tenant string, id schema.RunID) (runs.DeadLetter, error)
	// Replay runs one again; however often it is asked for, that is one run.
	Replay(ctx context.Context, tenant string, id schema.RunID, by string) (bucketer.Receipt, error)
	// Discard lets one go, and reports whether it was there until now.
	Discard(ctx context.Context, tenant string, id schema.RunID, by string) (changed bool, err error)
	// States returns how the runs stand that letters were replayed as, of those that are still there.
	States(ctx context.Context, replays []schema.RunID) (map[schema.RunID]schema.State, error)
	// Resolutions returns, for each of the runs that has one, what became of it; nil: it waits.
	Resolutions(ctx context.Context, tenant string, runs []schema.RunID) (map[schema.RunID]*schema.Resolution, error)
}

type deadLetters = DeadLetters

// meteredLetters holds replays to the quotas of their tenants.
type meteredLetters struct {
	deadLetters
	quotas Quotas
}

func (m meteredLetters) Replay(ctx context.Context, tenant string, id schema.RunID, by string) (bucketer.Receipt, error) {
	if err := m.quotas.AdmitRun(ctx, tenant, 0); err != nil {
		return bucketer.Receipt{}, err
	}
	return m.deadLetters.Replay(ctx, tenant, id, by)
}

// DeadLetter is a run that has failed for good, as the API answers it.
type DeadLetter struct {
	ID       schema.RunID    `json:"id" doc:"The run's id"`
	JobID    schema.JobID    `json:"job_id"`
	JobName  string          `json:"job_name,omitempty"`
	Tenant   string          `json:"tenant"`
	Task     string          `json:"task,omitempty"`
	State    string          `json:"state" enum:"waiting,replayed"`
	Priority schema.Priority `json:"priority" enum:"critical,high,normal,low"`

	Labels map[string]string `json:"labels,omitempty"`

	NominalAt  Time           `json:"nominal_at"`
	DueAt      Time           `json:"due_at" doc:"When the run was first to start: what lists of dead letters are ordered by"`
	StartedAt  Time           `json:"started_at,omitzero" doc:"Start of the first attempt"`
	FailedAt   Time           `json:"failed_at" doc:"End of the last one"`
	ExpiresAt  Time           `json:"expires_at" doc:"When the dead letter leaves by itself"`
	Attempts   int            `json:"attempt_count" doc:"How many attempts were counted"`
	Outcome    schema.Outcome `json:"outcome" enum:"failed,timed_out,lost" doc:"Of the last attempt, as the next three"`
	Error      string         `json:"error,omitempty" doc:"Of an answer with a status alone also how its body begins"`
	Pattern    string         `json:"error_pattern" doc:"What errors of its kind have in common: the first line, without what differs from one run to the next (ids, times, numbers, what stands in quotes). Lists and operations select by it"`
	StatusCode int            `json:"status_code,omitempty"`
	Output     string         `json:"output,omitempty" doc:"Its head"`

	Origin     schema.RunID `json:"origin,omitzero"`
	ReplayedAt Time         `json:"replayed_at,omitzero"`
	ReplayedBy string       `json:"replayed_by,omitempty"`
	Replay     schema.RunID `json:"replay,omitzero" doc:"The run that repeats it"`
	// ReplayState is how that run stands.
	ReplayState schema.State    `json:"replay_state,omitempty" enum:"pending,running,waiting,stuck,retrying,succeeded,failed,cancelled,missed,skipped" doc:"How the run stands that repeats it; absent if that has left"`
	Payload     json.RawMessage `json:"payload,omitempty" doc:"Not in a list"`
	Fault       string          `json:"fault,omitempty" doc:"Why what is stored of it cannot be understood: it cannot be replayed, but discarded"`
	// History is all attempts.
	History []Attempt `json:"attempts,omitempty" doc:"All attempts that were known when the run failed; those that have left with the run as its dead letter tells them: errors in short, outputs of the last one only; not in a list"`
}

func letterOf(l *schema.DeadLetter) DeadLetter {
	s, last := &l.Entry.Spec, &l.Last
	out := DeadLetter{
		ID: l.Run, JobID: s.Job, JobName: s.JobName, Tenant: l.Tenant, Task: s.Task, State: "waiting", Priority: s.Priority.Or(), Labels: s.Labels,
		NominalAt: Time{s.Nominal}, DueAt: Time{l.Run.Time()}, StartedAt: Time{l.Began}, FailedAt: Time{last.Finished}, ExpiresAt: Time{l.Expires},
		Attempts: l.Attempts, Outcome: last.Outcome, Error: runs.ErrorOf(last), Pattern: runs.ErrorPattern(last), StatusCode: last.Status, Output: last.Output,
		Origin: s.Origin, Payload: l.Entry.Payload, Fault: faultOf(l.Fault),
	}
	if out.Outcome == "" {
		out.Outcome = schema.Failed // that it failed is all that a letter with a fault says
	}
	if out.JobID.IsZero() {
		out.JobID = schema.JobOf(l.Run)
	}
	if f := l.Resolution; f != nil && f.Kind == schema.ResolvedReplayed {
		out.State, out.ReplayedAt, out.ReplayedBy, out.Replay = "replayed", Time{f.At}, f.By, f.Run
	}
	return out
}

type (
	letterFilter struct {
		Limit   int       `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most items of one answer"`
		Cursor  string    `query:"cursor" maxLength:"1024" doc:"next_cursor of the answer before; opaque, and good only for the same list"`
		State   string    `query:"state" enum:"waiting,replayed" default:"waiting" doc:"Those that wait, or those that were replayed, with how the new run stands"`
		Task    string    `query:"task" doc:"Only runs of this task"`
		Job     string    `query:"job" doc:"Only runs of this job: its id or its name. Of one that can have many, also those that repeat one of them"`
		Label   []string  `query:"label,explode" maxItems:"16" doc:"Only runs that have this label, as name=value; stated again: and that"`
		Pattern string    `query:"error_pattern" maxLength:"480" doc:"Only errors of this error_pattern"`
		Error   string    `query:"error" maxLength:"256" doc:"Only those whose error has this in it, in capitals or not. No pattern: it is taken as it is" example:"card declined"`
		From    time.Time `query:"from" doc:"First due time; default: 31 days before to"`
		To      time.Time `query:"to" doc:"Due times before this one; default: a day from now. At most 400 days after from"`
	}
	letterByID struct {
		ID string `path:"id" doc:"The run's id" example:"0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60"`
	}
	letterReplay struct {
		ID string `path:"id" doc:"The run's id"`
		body
	}
	letterList struct {
		Body struct {
			Items      []DeadLetter `json:"items"`
			NextCursor string       `json:"next_cursor,omitempty"`
		}
	}
	letterAnswer struct{ Body DeadLetter }
)

// letterCursor is where a list of dead letters goes on. It holds its window, since the ends of that
// may be left to the first answer.
type letterCursor struct {
	From time.Time               `json:"from"`
	To   time.Time               `json:"to"`
	At   runs.DeadLetterPosition `json:"at"`
}

const (
	lettersPath = "/v1/dead-letters"
	// maxLetterSpan is the longest stretch of due times of one list, defaultLetterSpan the one that
	// is taken where none is stated.
	maxLetterSpan     = 400 * 24 * time.Hour
	defaultLetterSpan = 31 * 24 * time.Hour
)

// deadLetterRoutes serves dead letters.
type deadLetterRoutes struct{ *Server }

func (s deadLetterRoutes) route() {
	op := s.operation("list-dead-letters", http.MethodGet, lettersPath, "Runs that have failed for good and were neither replayed nor discarded, or those that were replayed; the latest due first", 200, 404, 422, 503)
	op.Description = "A run that gets a final answer, or has used its attempts up, lies here until it is replayed or discarded, for 30 days unless the operator says otherwise. " +
		"from and to are of the time at which the run was first to start. An answer may hold fewer items than limit, even none, and still have next_cursor: " +
		"it looks at no more than 60 days and some 5,000 dead letters, whatever job, label, task, error and error_pattern select of them."
	huma.Register(s.api, op, s.listLetters)
	huma.Register(s.api, s.operation("get-dead-letter", http.MethodGet, lettersPath+"/{id}", "A dead letter, its payload and all attempts; one that was discarded is gone", 200, 404, 422, 503), s.getLetter)
	huma.Register(s.api, s.operation("replay-dead-letter", http.MethodPost, lettersPath+"/{id}/replay",
		"Run what failed again, as a new run whose origin is the old one. However often it is asked for, it is one run", 201, 400, 404, 408, 409, 413, 415, 422, 429, 503), s.replayLetter)
	huma.Register(s.api, s.operation("discard-dead-letter", http.MethodDelete, lettersPath+"/{id}", "Let a dead letter go; twice is the same as once", 204, 404, 422, 503), s.discardLetter)
}

// letters returns the keeper of dead letters.
func (s deadLetterRoutes) letters() (DeadLetters, error) {
	if s.deps.DeadLetters == nil {
		return nil, notFound("This node keeps no dead letters.")
	}
	return s.deps.DeadLetters, nil
}

func (s deadLetterRoutes) listLetters(ctx context.Context, in *letterFilter) (*letterList, error) {
	letters, err := s.letters()
	if err != nil {
		return nil, err
	}
	q, faults, err := s.selection(ctx, in)
	if err != nil {
		return nil, s.fail(ctx, "list dead letters", err)
	}
	question := []string{"dead letters", tenantOf(ctx), in.From.String(), in.To.String(), in.Task, in.State, in.Pattern}
	if q.Error != "" {
		question = append(question, "error", q.Error)
	}
	if !q.Job.IsZero() || len(q.Labels) > 0 {
		question = append(append(question, q.Job.String()), q.Labels...)
	}
	c := letterCursor{From: in.From.UTC(), To: in.To.UTC()}
	if in.To.IsZero() {
		c.To = s.config.Now().UTC().Add(24 * time.Hour)
	}
	if in.From.IsZero() {
		c.From = c.To.Add(-defaultLetterSpan)
	}
	var pos *runs.DeadLetterPosition
	years := checkYears(c.From, c.To)
	faults = append(faults, years...)
	if in.Cursor != "" && in.Cursor != onlyFaults {
		var p *Problem
		if err := s.cursors.read(in.Cursor, question, &c); errors.As(err, &p) {
			faults = append(faults, p.Errors...)
		}
		pos = &c.At
	}
	switch {
	case len(years) > 0:
	case !c.To.After(c.From):
		faults = append(faults, bucketer.Fault{Location: "query.to", Message: "must be after from"})
	case c.To.Sub(c.From) > maxLetterSpan:
		faults = append(faults, bucketer.Fault{Location: "query.to", Message: "must be at most 400 days after from"})
	}
	if len(faults) > 0 || in.Cursor == onlyFaults {
		return nil, invalid(faults...)
	}
	q.From, q.To = c.From, c.To
	found, next, err := letters.DeadLetters(ctx, q, pos, in.Limit)
	if err != nil {
		return nil, s.fail(ctx, "list dead letters", err)
	}
	out := new(letterList)
	out.Body.Items = make([]DeadLetter, len(found))
	for i := range found {
		out.Body.Items[i] = letterOf(&found[i])
	}
	if err := s.noteReplays(ctx, out.Body.Items); err != nil {
		return nil, s.fail(ctx, "list dead letters", err)
	}
	if next != nil {
		c.At = *next
		if out.Body.NextCursor, err = s.cursors.make(question, c); err != nil {
			return nil, s.fail(ctx, "list dead letters", err)
		}
	}
	return out, nil
}

// selection reads which dead letters are asked for, besides due times, and all that is wrong with
// that.
func (s deadLetterRoutes) selection(ctx context.Context, in *letterFilter) (q runs.DeadLetterQuery, faults bucketer.Faults, err error) {
	_, wrong := (&runs.FilterText{Task: in.Task, Labels: in.Label, Error: in.Error}).Parse()
	for _, w := range wrong {
		faults = append(faults, bucketer.Fault{Location: "query." + w.Field, Message: w.Message, Value: w.Value})
	}
	job, what, err := runRoutes(s).jobOfQuery(ctx, in.Job)
	switch {
	case err != nil:
		return q, nil, err
	case what != "":
		faults = append(faults, bucketer.Fault{Location: "query.job", Message: what, Value: in.Job})
	}
	q = runs.DeadLetterQuery{Tenant: tenantOf(ctx), Task: in.Task, Pattern: in.Pattern, Error: in.Error, Job: job, Labels: slices.Clone(in.Label), Replayed: in.State == "replayed"}
	slices.Sort(q.Labels) // the same question, however it is put
	q.Labels = slices.Compact(q.Labels)
	return q, faults, nil
}

func (s deadLetterRoutes) getLetter(ctx context.Context, in *letterByID) (*letterAnswer, error) {
	id, err := parseRun(in.ID)
	if err != nil {
		return nil, err
	}
	letters, err := s.letters()
	if err != nil {
		return nil, err
	}
	l, err := letters.DeadLetter(ctx, tenantOf(ctx), id)
	if err != nil {
		return nil, s.fail(ctx, "read dead letter", err)
	}
	out := letterOf(&l.DeadLetter)
	for i := range l.Attempted {
		if a := &l.Attempted[i]; a.Number > 0 && !a.Unstarted() {
			shown := attemptOf(a)
			if schema.IsSuperseded(l.Attempted, i) {
				shown.Outcome = schema.Superseded
			}
			out.History = append(out.History, shown)
		}
	}
	one := []DeadLetter{out}
	if err := s.noteReplays(ctx, one); err != nil {
		return nil, s.fail(ctx, "read dead letter", err)
	}
	return &letterAnswer{one[0]}, nil
}

// noteReplays adds how the runs stand as which dead letters were replayed.
func (s deadLetterRoutes) noteReplays(ctx context.Context, letters []DeadLetter) error {
	var replays []schema.RunID
	for i := range letters {
		if !letters[i].Replay.IsZero() {
			replays = append(replays, letters[i].Replay)
		}
	}
	if len(replays) == 0 {
		return nil
	}
	states, err := s.deps.DeadLetters.States(ctx, replays)
	if err != nil {
		return err
	}
	for i := range letters {
		letters[i].ReplayState = states[letters[i].Replay]
	}
	return nil
}

func (s deadLetterRoutes) replayLetter(ctx context.Context, in *letterReplay) (*runAnswer, error) {
	id, err := parseRun(in.ID)
	if err == nil {
		err = s.noBody(&in.body)
	}
	if err != nil {
		return nil, s.fail(ctx, "replay dead letter", err)
	}
	letters, err := s.letters()
	if err != nil {
		return nil, err
	}
	tenant := tenantOf(ctx)
	l, err := letters.DeadLetter(ctx, tenant, id)
	if err != nil {
		return nil, s.fail(ctx, "replay dead letter", err)
	}
	receipt, err := letters.Replay(ctx, tenant, id, actorOf(ctx))
	if err != nil {
		return nil, s.fail(ctx, "replay dead letter", err)
	}
	if !receipt.Existing {
		s.note(ctx, "replay", "dead-letter/"+id.String(), nil, nil, "run "+receipt.Run.String())
	}
	spec := l.Entry.Spec
	return s.answerNewRun(ctx, receipt, schema.Spec{
		Tenant: tenant, JobName: spec.JobName, Nominal: receipt.Run.Time(), Task: spec.Task, Work: spec.Work, Priority: spec.Priority,
		Trigger: schema.TriggerRetry, Origin: id, Labels: spec.Labels,
	}, l.Entry.Payload), nil
}

func (s deadLetterRoutes) discardLetter(ctx context.Context, in *letterByID) (*struct{}, error) {
	id, err := parseRun(in.ID)
	if err != nil {
		return nil, err
	}
	letters, err := s.letters()
	if err != nil {
		return nil, err
	}
	changed, err := letters.Discard(ctx, tenantOf(ctx), id, actorOf(ctx))
	if err != nil {
		return nil, s.fail(ctx, "discard dead letter", err)
	}
	if changed {
		s.note(ctx, "discard", "dead-letter/"+id.String(), nil, nil, "")
	}
	return nil, nil //nolint:nilnil // 204: there is nothing to say
}

// noteDeadLetters notes on failed runs whether they have an unresolved dead letter, and as which
// run it was replayed.
func (s *Server) noteDeadLetters(ctx context.Context, items []Run) error {
	var failed []schema.RunID
	for i := range items {
		if items[i].DeadLetter {
			failed = append(failed, items[i].ID)
		}
	}
	if len(failed) == 0 || s.deps.DeadLetters == nil {
		return nil
	}
	resolutions, err := s.deps.DeadLetters.Resolutions(ctx, tenantOf(ctx), failed)
	if err != nil {
		return err
	}
	for i := range items {
		if !items[i].DeadLetter {
			continue
		}
		resolution, has := resolutions[items[i].ID]
		items[i].DeadLetter = has && resolution == nil
		if resolution != nil && resolution.Kind == schema.ResolvedReplayed {
			items[i].ReplayedAs = resolution.Run
		}
	}
	return nil
}
