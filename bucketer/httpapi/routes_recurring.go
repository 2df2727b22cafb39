package httpapi

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

type (
	jobPut struct {
		ID      string `path:"id" doc:"The job's name: 1 to 63 characters of a-z, 0-9, '.', '_' and '-', not a UUID" example:"nightly-report"`
		IfMatch string `header:"If-Match" doc:"Replace it only if this is its ETag; else 412"`
		body
	}
	jobControl struct {
		ID      string `path:"id" doc:"The job's id, or its name"`
		IfMatch string `header:"If-Match" doc:"Do it only if this is its ETag; else 412"`
		body
	}
	jobTrigger struct {
		ID  string `path:"id" doc:"The job's id, or its name"`
		Key string `header:"Idempotency-Key" maxLength:"260" doc:"At most 128 bytes, quoted or not, kept for 24 h: the same key gives the same run"`
		body
	}
	jobPage struct {
		Limit      int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most items of one answer"`
		Cursor     string `query:"cursor" maxLength:"1024" doc:"next_cursor of the answer before; opaque, and good only for the same list"`
		State      string `query:"state" enum:"active,paused,cancelled,finished"`
		Label      string `query:"label" maxLength:"400" doc:"Only jobs that have this label, as name=value" example:"team=billing"`
		NamePrefix string `query:"name_prefix" maxLength:"63" doc:"Only jobs whose name begins so"`
	}
	jobRunsPage struct {
		ID     string    `path:"id" doc:"The job's id, or its name"`
		Limit  int       `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most items of one answer"`
		Cursor string    `query:"cursor" maxLength:"1024" doc:"next_cursor of the answer before; opaque, and good only for the same list"`
		State  []string  `query:"state,explode" enum:"pending,running,waiting,stuck,retrying,succeeded,failed,cancelled,missed,skipped" maxItems:"10" doc:"Only runs in this state; stated again: or in that"`
		From   time.Time `query:"from" doc:"First due time"`
		To     time.Time `query:"to" doc:"Due times before this one"`
	}
	jobUpcoming struct {
		ID    string    `path:"id" doc:"The job's id, or its name"`
		From  time.Time `query:"from" doc:"Runs that are due after it; absent or past: after now"`
		Count int       `query:"count" minimum:"1" maximum:"100" default:"10" doc:"The most items of the answer"`
	}
)

type jobList struct {
	Body struct {
		Items      []Job  `json:"items"`
		NextCursor string `json:"next_cursor,omitempty"`
	}
}

type upcomingList struct {
	Body struct {
		Items []NextRun `json:"items"`
	}
}

// recurringRoutes serves jobs that can have many runs.
type recurringRoutes struct{ *Server }

func (s recurringRoutes) route() {
	huma.Register(s.api, s.operation("list-jobs", http.MethodGet, "/v1/jobs", "The jobs of the tenant that can have many runs, newest first. An answer may hold fewer items than limit, even none, and still have next_cursor. One-off jobs are runs: GET /v1/runs?one_off=true&label= lists them", 200, 422, 503), s.listJobs)
	huma.Register(s.api, s.operation("put-job", http.MethodPut, "/v1/jobs/{id}", "Create or replace a recurring job by its name", 200, 400, 408, 409, 412, 413, 415, 422, 429, 503), s.putJob)
	s.alsoAnswers("/v1/jobs/{id}", http.MethodPut, http.StatusCreated, http.StatusOK)
	s.describeBody("/v1/jobs/{id}", http.MethodPut, reflect.TypeFor[request.JobRequest](), "application/json")
	control := []int{400, 404, 408, 409, 412, 413, 415, 422, 429, 503}
	huma.Register(s.api, s.operation("pause-job", http.MethodPost, "/v1/jobs/{id}/pause", "Pause a job: none of its runs starts until it is resumed; twice is the same as once", 200, control...), s.pauseJob)
	huma.Register(s.api, s.operation("resume-job", http.MethodPost, "/v1/jobs/{id}/resume", "Resume a job that was paused, from now on; twice is the same as once", 200, control...), s.resumeJob)
	huma.Register(s.api, s.operation("trigger-job", http.MethodPost, "/v1/jobs/{id}/trigger", "Run a job now, besides its schedule", 201, 400, 404, 408, 409, 413, 415, 422, 429, 503), s.triggerJob)
	list := s.operation("list-job-runs", http.MethodGet, "/v1/jobs/{id}/runs", "The runs of a job, newest first: the next one, those that wait or are under way, and those that have ended", 200, 404, 422, 503)
	list.Description = jobRunsOrder
	huma.Register(s.api, list, s.listJobRuns)
	huma.Register(s.api, s.operation("list-upcoming", http.MethodGet, "/v1/jobs/{id}/upcoming", "The next runs of a job, if it stays as it is", 200, 404, 422, 503), s.listUpcoming)
}

// jobRunsOrder says how runs of one job are listed.
const jobRunsOrder = "In the order of due times, the latest first. Where a run stands never changes, so pages neither skip nor repeat one that starts or ends meanwhile. " +
	"Runs that repeat one of the job's (replays of dead letters, retries) are runs of their own, and listed here too, at their own due times; those that were asked for before an upgrade to this version are not, nor what repeats one of these. " +
	"Of runs to come the next one is listed, once it is planned. An answer may hold fewer items than limit, even none, and still have next_cursor."

func (s recurringRoutes) createRecurring(ctx context.Context, spec schema.JobSpec, key, hash string) (*jobAnswer, error) {
	job, existing, err := s.deps.Recurring.CreateJob(ctx, spec, key, hash)
	if err != nil {
		return nil, s.fail(ctx, "create job", err)
	}
	out := s.answerRecurring(&job)
	out.Status, out.Location = http.StatusCreated, "/v1/jobs/"+job.ID.String()
	if existing {
		out.Replayed = "true"
	}
	return out, nil
}

func (s recurringRoutes) putJob(ctx context.Context, in *jobPut) (*jobAnswer, error) {
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	spec, err := d.PutJob(tenantOf(ctx), in.ID, text, s.config.Now())
	var generation int64
	if err == nil && in.IfMatch != "" {
		generation, err = s.matchNamed(ctx, in.ID, in.IfMatch, recurring.NoWorkflows)
	}
	if err != nil {
		return nil, s.fail(ctx, "put job", err)
	}
	job, created, err := s.deps.Recurring.PutJob(ctx, spec.Tenant, spec.Name, generation, spec)
	if err != nil {
		return nil, s.fail(ctx, "put job", err)
	}
	out := s.answerRecurring(&job)
	if created {
		out.Status, out.Location = http.StatusCreated, "/v1/jobs/"+job.ID.String()
	}
	return out, nil
}

// matchNamed checks the header If-Match of a request to replace the job or workflow of a name, and
// returns the generation that it asks for.
func (s recurringRoutes) matchNamed(ctx context.Context, name, header string, kind recurring.JobKind) (int64, error) {
	job, err := s.deps.Recurring.JobByName(ctx, tenantOf(ctx), name)
	switch {
	case errors.Is(err, schema.ErrNotFound):
		p := problemOf(recurring.ErrStale)
		p.Detail = "There is no " + string(kind) + " of this name."
		return 0, p
	case err != nil:
		return 0, err
	case kind == recurring.NoWorkflows && isWorkflow(&job):
		return 0, recurring.ErrWorkflowHasName
	case kind == recurring.OnlyWorkflows && isPlainJob(&job):
		return 0, recurring.ErrJobHasName
	}
	return job.Current.Number, found{job: &job}.match(header)
}

// patchRecurring makes a patch up to what the job says when it is changed.
func (s recurringRoutes) patchRecurring(ctx context.Context, f found, header string, text []byte) (found, error) {
	d := s.decoder()
	defer s.decoders.Put(d)
	now := s.config.Now()
	if fault := f.job.Current.Fault; fault != nil { // there is nothing to patch
		return f, fault
	}
	// Also one that changes nothing is put to the store: what was read here may be a change that is
	// not decided yet.
	if _, err := d.PatchJob(f.job.Current.Spec, text, now); err != nil {
		return f, err
	}
	job, err := s.deps.Recurring.ChangeJob(ctx, tenantOf(ctx), f.job.ID, f.generation(header), func(spec *schema.JobSpec) error {
		patched, err := d.PatchJob(*spec, text, now)
		if err == nil {
			*spec = patched
		}
		return err
	})
	return found{job: &job}, err
}

func (s *Server) answerRecurring(j *schema.Job) *jobAnswer {
	return &jobAnswer{Status: http.StatusOK, ETag: generationTag(j), Body: s.recurring(j)}
}

// recurring returns a job that can have many runs, with the run that comes next.
func (s *Server) recurring(j *schema.Job) Job {
	out := recurringOf(j, s.deps.Recurring.Upcoming(*j, 1, s.config.Now()))
	if err := s.deps.Recurring.NotUnderstood(j); err != nil {
		out.Fault = err.Error()
	}
	return out
}

func (s recurringRoutes) pauseJob(ctx context.Context, in *jobControl) (*jobAnswer, error) {
	return s.controlJob(ctx, "pause job", in, Recurring.PauseJob)
}

func (s recurringRoutes) resumeJob(ctx context.Context, in *jobControl) (*jobAnswer, error) {
	return s.controlJob(ctx, "resume job", in, Recurring.ResumeJob)
}

// controlOf changes the state of a job that can have many runs.
type controlOf func(r Recurring, ctx context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error)

func (s recurringRoutes) controlJob(ctx context.Context, act string, in *jobControl, do controlOf) (*jobAnswer, error) {
	err := s.noBody(&in.body)
	var f found
	if err == nil {
		f, err = s.find(ctx, in.ID)
	}
	if err == nil {
		err = f.match(in.IfMatch)
	}
	if err == nil && f.job == nil {
		err = oneOffProblem("It can be given another time, or be cancelled.")
	}
	if err == nil {
		f, err = s.control(ctx, f, in.IfMatch, do)
	}
	if err != nil {
		return nil, s.fail(ctx, act, err)
	}
	return s.answerRecurring(f.job), nil
}

func (s *Server) control(ctx context.Context, f found, header string, do controlOf) (found, error) {
	job, err := do(s.deps.Recurring, ctx, tenantOf(ctx), f.job.ID, f.generation(header))
	return found{job: &job}, err
}

// oneOffProblem refuses what only a job that can have many runs can be asked.
func oneOffProblem(detail string) *Problem {
	return &Problem{Type: problemType + "one-off", Title: "The job is a one-off job", Status: http.StatusConflict, Detail: detail}
}

func (s recurringRoutes) triggerJob(ctx context.Context, in *jobTrigger) (*runAnswer, error) {
	err := s.noBody(&in.body)
	key, faults := idempotencyKey(in.Key)
	err = also(err, faults)
	var f found
	if err == nil {
		f, err = s.find(ctx, in.ID)
	}
	if err == nil && f.job == nil {
		err = oneOffProblem("Give it another time, or retry its run when that has ended.")
	}
	if err != nil {
		return nil, s.fail(ctx, "trigger job", err)
	}
	hash := ""
	if key != "" {
		hash = "trigger " + f.job.ID.String()
	}
	receipt, err := s.trigger(ctx, f.job, nil, key, hash)
	if err != nil {
		return nil, s.fail(ctx, "trigger job", err)
	}
	return s.answerNewRun(ctx, receipt, triggered(f.job, receipt), f.job.Current.Spec.Payload), nil
}

// triggered returns what a run says that was asked for now.
func triggered(job *schema.Job, receipt bucketer.Receipt) schema.Spec {
	spec := &job.Current.Spec
	out := schema.Spec{
		Tenant: spec.Tenant, Job: job.ID, JobName: spec.Name, Nominal: receipt.Run.Time(), Task: spec.Task, Work: spec.Work,
		Priority: spec.Priority, Trigger: schema.TriggerManual,
	}
	if isWorkflow(job) {
		out.Workflow = new(schema.WorkflowRun)
	}
	return out
}

func (s recurringRoutes) listJobs(ctx context.Context, in *jobPage) (*jobList, error) {
	jobs, next, err := s.jobsPage(ctx, in, recurring.NoWorkflows)
	if err != nil {
		return nil, s.fail(ctx, "list jobs", err)
	}
	out := new(jobList)
	out.Body.Items, out.Body.NextCursor = []Job{}, next
	for i := range jobs {
		out.Body.Items = append(out.Body.Items, s.recurring(&jobs[i]))
	}
	return out, nil
}

// jobsPage returns a page of the jobs of a kind, and the cursor of the next one, "" if there is none.
func (s recurringRoutes) jobsPage(ctx context.Context, in *jobPage, kind recurring.JobKind) ([]schema.Job, string, error) {
	filter := recurring.JobFilter{Kind: kind, State: schema.JobState(in.State), NamePrefix: in.NamePrefix}
	if in.Label != "" {
		var ok bool
		if filter.Label, filter.Value, ok = strings.Cut(in.Label, "="); !ok || filter.Label == "" {
			return nil, "", invalid(bucketer.Fault{Location: "query.label", Message: "must be a name, '=' and a value"})
		}
	}
	question := []any{"jobs", tenantOf(ctx), filter}
	var before schema.JobID
	if in.Cursor != "" { // the question is part of it
		if err := s.cursors.read(in.Cursor, question, &before); err != nil {
			return nil, "", err
		}
	}
	jobs, next, err := s.deps.Recurring.ListJobs(ctx, tenantOf(ctx), filter, before, in.Limit)
	if err != nil || next == nil {
		return jobs, "", err
	}
	cursor, err := s.cursors.make(question, next)
	return jobs, cursor, err
}

func (s recurringRoutes) listJobRuns(ctx context.Context, in *jobRunsPage) (*runList, error) {
	asked, err := s.readHistoryPage(ctx, in)
	var f found
	if err == nil {
		f, err = s.find(ctx, in.ID)
	}
	if err != nil {
		return nil, s.fail(ctx, "list runs of job", err)
	}
	out := new(runList)
	out.Body.Items = []Run{}
	if f.job == nil {
		w := runs.Window{Tenant: tenantOf(ctx), From: asked.filter.From, To: asked.filter.To, Filter: asked.filter.Filter}
		if w.Holds(f.run, s.config.Now()) {
			out.Body.Items = append(out.Body.Items, runOf(f.run, standing(f.run).Payload, s.config.Now()))
		}
		if err := s.noteDeadLetters(ctx, out.Body.Items); err != nil {
			return nil, s.fail(ctx, "list runs of job", err)
		}
		return out, nil
	}
	return out, s.historyOf(ctx, f.job.ID, asked, out)
}

// historyPage is a page of the runs of a job that can have many, as it is asked for.
type historyPage struct {
	filter   recurring.JobRunFilter
	pos      runs.Position
	limit    int
	question any // for the cursor of the next one
}

func (s recurringRoutes) readHistoryPage(ctx context.Context, in *jobRunsPage) (historyPage, error) {
	filter := recurring.JobRunFilter{From: in.From.UTC(), To: in.To.UTC()}
	var faults bucketer.Faults
	filter.Filter, faults = (&runFilter{State: in.State}).filter()
	faults = append(faults, checkYears(filter.From, filter.To)...)
	if !filter.To.IsZero() && !filter.To.After(filter.From) {
		faults = append(faults, bucketer.Fault{Location: "query.to", Message: "must be after from"})
	}
	asked := historyPage{filter: filter, limit: in.Limit, question: []any{"job runs", tenantOf(ctx), in.ID, filter}}
	return asked, s.goOn(in.Cursor, asked.question, &asked.pos, faults)
}

// historyOf fills a page of the runs of a job that can have many.
func (s recurringRoutes) historyOf(ctx context.Context, id schema.JobID, asked historyPage, out *runList) error {
	page, next, err := s.deps.Recurring.JobRuns(ctx, tenantOf(ctx), id, asked.filter, asked.pos, asked.limit)
	if err != nil {
		return s.fail(ctx, "list runs of job", err)
	}
	for i := range page {
		out.Body.Items = append(out.Body.Items, runOf(&page[i], standing(&page[i]).Payload, s.config.Now()))
	}
	if err := s.noteDeadLetters(ctx, out.Body.Items); err != nil {
		return s.fail(ctx, "list runs of job", err)
	}
	if next != nil {
		if out.Body.NextCursor, err = s.cursors.make(asked.question, next); err != nil {
			return s.fail(ctx, "list runs of job", err)
		}
	}
	return nil
}

// checkYears finds fault with times that have no form in JSON.
func checkYears(from, to time.Time) (faults bucketer.Faults) {
	for _, t := range []struct {
		location string
		time     time.Time
	}{{"query.from", from}, {"query.to", to}} {
		if y := t.time.Year(); y < 0 || y > 9999 {
			faults = append(faults, bucketer.Fault{Location: t.location, Message: "must lie in the years 0 to 9999 of UTC"})
		}
	}
	return faults
}

func (s recurringRoutes) listUpcoming(ctx context.Context, in *jobUpcoming) (*upcomingList, error) {
	f, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, s.fail(ctx, "list upcoming runs", err)
	}
	out := new(upcomingList)
	out.Body.Items = []NextRun{}
	switch {
	case f.job != nil:
		out.Body.Items = s.upcoming(f.job, in.From, in.Count)
	case f.run.State == schema.StatePending && (f.run.Due().After(in.From) || !in.From.After(s.config.Now())):
		out.Body.Items = append(out.Body.Items, nextOf(occurrenceOf(f.run)))
	}
	return out, nil
}

func (s recurringRoutes) upcoming(job *schema.Job, from time.Time, count int) []NextRun {
	next := []NextRun{}
	for _, o := range s.deps.Recurring.Upcoming(*job, count, bucketer.Latest(from, s.config.Now())) {
		next = append(next, nextOf(o))
	}
	return next
}
