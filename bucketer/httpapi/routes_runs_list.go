package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

const (
	// maxRunsWindow is the longest stretch of due times of one list of runs, maxEventsWindow that of
	// one list of events.
	maxRunsWindow   = 24 * time.Hour
	maxEventsWindow = time.Hour
)

// runsAsked says what a list of runs can be asked for.
const runsAsked = "A list is asked for in one of five ways: from and to, with any filters; order=newest, with any filters and a window of up to 366 days; key, and at where the key is that of an import's line with an instant: the run that it made; " +
	"event: the runs that it started; workflow_run: the runs of its steps, with an item of a step with for_each as a run of its own. " +
	"A page walks a bounded part of the window, so a filter that matches rarely gives empty pages with next_cursor. Payloads are not searched.\n\n" +
	"order=newest is a search: the runs of the newest minute come first, those of one minute in the order of due times. " + searchCost + " Indexed are the runs of a job (job: the latest due first), and those that failed, " +
	"where state=failed alone is asked for while dead letters are kept: the latest due first, a second or two after they failed, each at the due time that it had first. searched.by says what was used."

type runFilter struct {
	Limit       int       `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most items of one answer"`
	Cursor      string    `query:"cursor" maxLength:"1024" doc:"next_cursor of the answer before; opaque, and good only for the same list"`
	Order       string    `query:"order" enum:"due,newest" default:"due" doc:"due: in the order of due times. newest: from the newest minute back, over long windows: see the description"`
	From        time.Time `query:"from" doc:"First due time; needed unless order=newest, key, event or workflow_run is stated. Default with order=newest: 24 hours before to, and of a job: any"`
	To          time.Time `query:"to" doc:"Due times before this one; at most 24 hours after from, and 366 days with order=newest, where the default is now"`
	State       []string  `query:"state,explode" enum:"pending,running,waiting,stuck,retrying,succeeded,failed,cancelled,missed,skipped" maxItems:"10" doc:"Only runs in this state; stated again: or in that. waiting: workflow runs of which nothing but waits is under way (they are among those that are running, too), and runs that wait for other jobs; stuck: those whose deadline has passed (both are among those that are pending, too)"`
	Job         string    `query:"job" doc:"Only runs of the job of this id or name, and those that repeat one of them; of one that can have many, the latest due first, as at /v1/jobs/{id}/runs. A one-off job has its one run: replayed_as names the run that repeats it"`
	Task        string    `query:"task" doc:"Only runs of this task"`
	Host        string    `query:"host" maxLength:"260" doc:"Only runs whose HTTP call goes to this host, which has a port where the URL states one; of a run of a task, by what the task says now" example:"api.example.com:8443"`
	Label       []string  `query:"label,explode" maxItems:"16" doc:"Only runs that have this label, as name=value; stated again: and that"`
	Error       string    `query:"error" maxLength:"256" doc:"Only runs whose last error, as attempts show it, has this in it, in capitals or not. No pattern: it is taken as it is" example:"connection refused"`
	OneOff      bool      `query:"one_off" doc:"Only runs of one-off jobs"`
	CreatedBy   string    `query:"created_by" maxLength:"256" doc:"Only runs whose created_by is this: the name of an API key, as the audit log has it"`
	Late        string    `query:"late" maxLength:"32" doc:"Only runs whose first attempt started later than this span after they were due (lateness_ms), those that could have started for longer and have not, and those that were missed" example:"5s"`
	Key         string    `query:"key" maxLength:"512" doc:"Only the run of this idempotency key. Without from and to it is looked up, as long as keys are kept: 24 h; that of an import's line with an instant as long as its run is, if at is stated. With from and to: of one-off jobs and lines of imports, due then"`
	At          time.Time `query:"at" doc:"Beside key, without from and to: the instant of the import's line, which stands together with its key"`
	Event       string    `query:"event" doc:"The runs that the event of this id started, in the order in which they were planned; nothing else can be asked for beside it"`
	WorkflowRun string    `query:"workflow_run" doc:"The runs of the steps of the workflow run of this id, in the order of the steps, then of items; beside it step, state and late can be asked for"`
	Step        string    `query:"step" doc:"Beside workflow_run: only runs of the step of this name"`
}

// selections are the parameters that say which runs are listed, in the order of the document.
func (in *runFilter) selections() []selection {
	return []selection{
		{"from", !in.From.IsZero()},
		{"to", !in.To.IsZero()},
		{"state", len(in.State) > 0},
		{"job", in.Job != ""},
		{"task", in.Task != ""},
		{"host", in.Host != ""},
		{"label", len(in.Label) > 0},
		{"late", in.Late != ""},
		{"error", in.Error != ""},
		{"one_off", in.OneOff},
		{"created_by", in.CreatedBy != ""},
		{"order", in.Order == orderNewest},
		{"key", in.Key != ""},
		{"at", !in.At.IsZero()},
		{"event", in.Event != ""},
		{"workflow_run", in.WorkflowRun != ""},
		{"step", in.Step != ""},
	}
}

type selection struct {
	name   string
	stated bool
}

// besides finds fault with what is asked for beside one parameter, unless it is among those that may
// be.
func (in *runFilter) besides(only string, may ...string) (faults bucketer.Faults) {
	for _, p := range in.selections() {
		if p.stated && p.name != only && !slices.Contains(may, p.name) {
			faults = append(faults, bucketer.Fault{Location: "query." + p.name, Message: "cannot be asked for beside " + only})
		}
	}
	return faults
}

// filter reads what runs are asked for, besides a job and due times.
func (in *runFilter) filter() (runs.Filter, bucketer.Faults) {
	text := runs.FilterText{States: in.State, Task: in.Task, Host: in.Host, Labels: in.Label, Late: in.Late, Key: in.Key, Error: in.Error, OneOff: in.OneOff, CreatedBy: in.CreatedBy}
	f, wrong := text.Parse()
	f.Says = runs.ErrorOf
	var faults bucketer.Faults
	for _, w := range wrong {
		faults = append(faults, bucketer.Fault{Location: "query." + w.Field, Message: w.Message, Value: w.Value})
	}
	return f, faults
}

func (s runRoutes) listRuns(ctx context.Context, in *runFilter) (*runList, error) {
	switch {
	case in.Event != "":
		return eventRoutes(s).runsOfEvent(ctx, in)
	case in.WorkflowRun != "":
		return s.listSteps(ctx, in)
	case in.Key != "" && in.From.IsZero() && in.To.IsZero():
		return s.listKeyed(ctx, in)
	case in.Order == orderNewest:
		return searchRoutes(s).listNewest(ctx, in)
	}
	w := runs.Window{Tenant: tenantOf(ctx), From: in.From.UTC(), To: in.To.UTC()}
	faults := append(checkWindow(w.From, w.To, maxRunsWindow), beforeKept(ctx, s.Server, in.Cursor, w.From)...)
	for _, p := range []selection{{"at", !in.At.IsZero()}, {"step", in.Step != ""}} {
		if p.stated {
			faults = append(faults, bucketer.Fault{Location: "query." + p.name, Message: "cannot be asked for beside from and to"})
		}
	}
	var more bucketer.Faults
	w.Filter, more = in.filter()
	faults = append(faults, more...)
	job, what, err := s.jobOfQuery(ctx, in.Job)
	switch {
	case err != nil:
		return nil, s.fail(ctx, "list runs", err)
	case what != "":
		faults = append(faults, bucketer.Fault{Location: "query.job", Message: what, Value: in.Job})
	}
	var pos runs.Position
	question := []any{"runs", w, in.Job}
	if bucketer.NameFault(in.Job) == "" { // a name may be given to another job between two pages
		question[2] = job.String()
	}
	if err := s.goOn(in.Cursor, question, &pos, faults); err != nil {
		return nil, err
	}
	calls := w.CallsTo(func(tenant, task string) (schema.Task, error) { return s.deps.Tasks.Task(ctx, tenant, task) })
	answer, err := s.listWindow(ctx, &w, job, pos, in.Limit, question)
	if unread := calls.Unread(); err == nil && unread != nil { // a run may be missing whose task could not be read
		return nil, s.fail(ctx, "list runs", unread)
	}
	return answer, err
}

// listWindow lists the runs of w, of a job if there is one.
func (s runRoutes) listWindow(ctx context.Context, w *runs.Window, job schema.JobID, pos runs.Position, limit int, question any) (*runList, error) {
	if only, ok := job.OneOff(); ok {
		return s.listOne(ctx, w, only)
	}
	if !job.IsZero() {
		return s.listHistory(ctx, w, job, pos, limit, question)
	}
	page, next, err := s.deps.Runs.Runs(ctx, *w, pos, limit)
	if err != nil {
		return nil, s.fail(ctx, "list runs", err)
	}
	if next == nil {
		return s.answerRuns(ctx, page, question, nil)
	}
	return s.answerRuns(ctx, page, question, next)
}

// goOn reads into at where a list goes on, if there is a cursor, and returns the faults of a request
// as an error. The question is part of a cursor, so it is read only if that has none.
func (s *Server) goOn(cursor string, question, at any, faults bucketer.Faults) error {
	if cursor == onlyFaults {
		return invalid(faults...)
	}
	if cursor != "" && len(faults) == 0 {
		err := s.cursors.read(cursor, question, at)
		var p *Problem
		switch {
		case errors.As(err, &p):
			faults = append(faults, p.Errors...)
		case err != nil:
			return err
		}
	}
	if len(faults) > 0 {
		return invalid(faults...)
	}
	return nil
}

// answerRuns answers a page of runs; next is where the list goes on, nil: it ends.
func (s runRoutes) answerRuns(ctx context.Context, page []runs.Run, question, next any) (*runList, error) {
	out := new(runList)
	out.Body.Items = []Run{}
	for i := range page {
		out.Body.Items = append(out.Body.Items, runOf(&page[i], standing(&page[i]).Payload, s.config.Now()))
	}
	err := s.noteDeadLetters(ctx, out.Body.Items)
	if err == nil && next != nil {
		out.Body.NextCursor, err = s.cursors.make(question, next)
	}
	if err != nil {
		return nil, s.fail(ctx, "list runs", err)
	}
	return out, nil
}

// checkWindow finds fault with a window of instants, which may be so long.
func checkWindow(from, to time.Time, most time.Duration) bucketer.Faults {
	var faults bucketer.Faults
	for _, stated := range []struct {
		name string
		at   time.Time
	}{{"from", from}, {"to", to}} {
		if stated.at.IsZero() {
			faults = append(faults, bucketer.Fault{Location: "query." + stated.name, Message: "must be stated"})
		}
	}
	if len(faults) > 0 {
		return faults
	}
	faults = checkYears(from, to)
	switch {
	case !to.After(from):
		faults = append(faults, bucketer.Fault{Location: "query.to", Message: "must be after from"})
	case to.Sub(from) > most:
		span := "an hour"
		switch {
		case most > 48*time.Hour:
			span = fmt.Sprintf("%d days", most/(24*time.Hour))
		case most > time.Hour:
			span = fmt.Sprintf("%.0f hours", most.Hours())
		}
		faults = append(faults, bucketer.Fault{Location: "query.to", Message: "must be at most " + span + " after from"})
	}
	return faults
}

// jobOfQuery returns the job of an id or a name, or what is wrong with that.
func (s runRoutes) jobOfQuery(ctx context.Context, text string) (id schema.JobID, what string, err error) {
	if text == "" {
		return id, "", nil
	}
	if id, err = schema.ParseJobID(text); err == nil {
		return id, "", nil
	}
	if what := request.JobFault(text); what != "" {
		return id, what, nil
	}
	job, err := s.deps.Recurring.JobByName(ctx, tenantOf(ctx), text)
	if errors.Is(err, schema.ErrNotFound) {
		return id, "there is no job of this name", nil
	}
	return job.ID, "", err
}

// listOne lists the run id if w has it.
func (s runRoutes) listOne(ctx context.Context, w *runs.Window, id schema.RunID) (*runList, error) {
	run, err := s.deps.Runs.Run(ctx, w.Tenant, id)
	switch {
	case errors.Is(err, schema.ErrNotFound):
		return s.answerRuns(ctx, nil, nil, nil)
	case err != nil:
		return nil, s.fail(ctx, "list runs", err)
	case !w.Holds(&run, s.config.Now()):
		return s.answerRuns(ctx, nil, nil, nil)
	}
	return s.answerRuns(ctx, []runs.Run{run}, nil, nil)
}

// listHistory lists the runs of a job that can have many, the latest due first: a window of due
// times may lie in many partitions, and the history knows the job's.
func (s runRoutes) listHistory(ctx context.Context, w *runs.Window, job schema.JobID, pos runs.Position, limit int, question any) (*runList, error) {
	out := new(runList)
	out.Body.Items = []Run{}
	asked := historyPage{filter: recurring.JobRunFilter{Filter: w.Filter, From: w.From, To: w.To}, pos: pos, limit: limit, question: question}
	err := recurringRoutes(s).historyOf(ctx, job, asked, out)
	var none *Problem
	if errors.As(err, &none) && none.Status == http.StatusNotFound {
		return out, nil
	}
	return out, err
}

// listKeyed lists the run of an idempotency key.
func (s runRoutes) listKeyed(ctx context.Context, in *runFilter) (*runList, error) {
	f, faults := in.filter()
	faults = append(faults, in.besides("key", "at")...)
	faults = append(faults, checkYears(in.At, in.At)...)
	if err := s.goOn(in.Cursor, []any{"run of key", tenantOf(ctx), f.Key, in.At.UTC()}, new(string), faults); err != nil {
		return nil, err
	}
	run, err := s.deps.Runs.RunByKey(ctx, tenantOf(ctx), f.Key, in.At)
	switch {
	case errors.Is(err, schema.ErrNotFound):
		return s.answerRuns(ctx, nil, nil, nil)
	case err != nil:
		return nil, s.fail(ctx, "look a key up", err)
	}
	return s.answerRuns(ctx, []runs.Run{run}, nil, nil)
}

// listSteps lists the runs of the steps of a workflow run.
func (s runRoutes) listSteps(ctx context.Context, in *runFilter) (*runList, error) {
	f, faults := in.filter()
	faults = append(faults, in.besides("workflow_run", "step", "state", "late")...)
	id, err := schema.ParseEntryID(in.WorkflowRun)
	if err != nil {
		faults = append(faults, bucketer.Fault{Location: "query.workflow_run", Message: "is not the id of a run", Value: in.WorkflowRun})
	}
	if in.Step != "" {
		if what := bucketer.NameFault(in.Step); what != "" {
			faults = append(faults, bucketer.Fault{Location: "query.step", Message: what, Value: in.Step})
		}
	}
	var after schema.RunID
	question := []any{"runs of steps", tenantOf(ctx), id, in.Step, f}
	if err := s.goOn(in.Cursor, question, &after, faults); err != nil {
		return nil, err
	}
	of, err := s.deps.Runs.Run(ctx, tenantOf(ctx), id)
	if err == nil && of.Entry.Spec.Workflow == nil {
		err = notFound("The run is not one of a workflow.")
	}
	if err != nil {
		return nil, s.fail(ctx, "list runs of steps", or(err, notFound("There is no run with this id.")))
	}
	page, next, err := s.deps.Workflows.StepRuns(ctx, &of, in.Step, f, after, in.Limit)
	switch {
	case errors.Is(err, orchestration.ErrNoStep):
		return nil, invalid(bucketer.Fault{Location: "query.step", Message: "the workflow has no step of this name", Value: in.Step})
	case err != nil:
		return nil, s.fail(ctx, "list runs of steps", err)
	}
	if next.IsZero() {
		return s.answerRuns(ctx, page, question, nil)
	}
	return s.answerRuns(ctx, page, question, next)
}
