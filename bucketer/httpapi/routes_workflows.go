package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

const workflowsPath = "/v1/workflows"

// checksAtOnce bounds the tasks of one workflow that are looked up at once.
const checksAtOnce = 16

type (
	workflowPut struct {
		Name    string `path:"name" doc:"The workflow's name: 1 to 63 characters of a-z, 0-9, '.', '_' and '-', not a UUID. Workflows share names with jobs" example:"etl"`
		IfMatch string `header:"If-Match" doc:"Replace it only if this is its ETag; else 412"`
		DryRun  bool   `query:"dry_run" doc:"Check it, answer what would be, and change nothing"`
		body
	}
	workflowByName struct {
		Name string `path:"name" doc:"The workflow's name, or its id" example:"etl"`
	}
	workflowDelete struct {
		Name    string `path:"name" doc:"The workflow's name, or its id"`
		IfMatch string `header:"If-Match" doc:"Cancel it only if this is its ETag; else 412"`
	}
	workflowControl struct {
		Name    string `path:"name" doc:"The workflow's name, or its id"`
		IfMatch string `header:"If-Match" doc:"Do it only if this is its ETag; else 412"`
		body
	}
	workflowTrigger struct {
		Name string `path:"name" doc:"The workflow's name, or its id"`
		Key  string `header:"Idempotency-Key" maxLength:"260" doc:"At most 128 bytes, quoted or not, kept for 24 h: the same key and body give the same run"`
		body
	}
	workflowGraph struct {
		Name   string `path:"name" doc:"The workflow's name, or its id"`
		Format string `query:"format" enum:"json,mermaid,dot,tree" default:"json" doc:"json; else text for Mermaid, for Graphviz, or for a terminal"`
	}
	workflowRunsPage struct {
		Name   string    `path:"name" doc:"The workflow's name, or its id"`
		Limit  int       `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most items of one answer"`
		Cursor string    `query:"cursor" maxLength:"1024" doc:"next_cursor of the answer before; opaque, and good only for the same list"`
		State  []string  `query:"state,explode" enum:"pending,running,waiting,retrying,succeeded,failed,cancelled,missed" maxItems:"10" doc:"Only runs in this state; stated again: or in that"`
		From   time.Time `query:"from" doc:"First due time"`
		To     time.Time `query:"to" doc:"Due times before this one"`
	}
	workflowPage struct {
		Limit      int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most items of one answer"`
		Cursor     string `query:"cursor" maxLength:"1024" doc:"next_cursor of the answer before; opaque, and good only for the same list"`
		State      string `query:"state" enum:"active,paused,cancelled,finished"`
		Label      string `query:"label" maxLength:"400" doc:"Only workflows that have this label, as name=value" example:"team=billing"`
		NamePrefix string `query:"name_prefix" maxLength:"63" doc:"Only workflows whose name begins so"`
		Waiting    bool   `query:"waiting" doc:"Say of each workflow which of its runs wait for an event, such as the word of a person"`
	}
	workflowUpcoming struct {
		Name  string    `path:"name" doc:"The workflow's name, or its id"`
		From  time.Time `query:"from" doc:"Runs that are due after it; absent or past: after now"`
		Count int       `query:"count" minimum:"1" maximum:"100" default:"10" doc:"The most items of the answer"`
	}
)

type workflowAnswer struct {
	Status   int
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Body     Workflow
}

type workflowList struct {
	Body struct {
		Items      []Workflow `json:"items"`
		NextCursor string     `json:"next_cursor,omitempty"`
	}
}

// workflowRoutes serves workflows. Their runs are runs: see runStepRoutes for what only those have.
type workflowRoutes struct{ *Server }

func (s workflowRoutes) route() {
	one := workflowsPath + "/{name}"
	put := s.operation("put-workflow", http.MethodPut, one, "Create or replace a workflow: a named graph of steps", 200, 400, 408, 409, 412, 413, 415, 422, 429, 503)
	put.Description = "A run keeps the definition that it began with. All faults are named, each with its place. At most 1,000 steps, in a body of at most 1 MiB."
	huma.Register(s.api, put, s.putWorkflow)
	s.alsoAnswers(one, http.MethodPut, http.StatusCreated, http.StatusOK)
	s.describeBody(one, http.MethodPut, reflect.TypeFor[request.WorkflowRequest](), "application/json")
	huma.Register(s.api, s.operation("list-workflows", http.MethodGet, workflowsPath, "The workflows of the tenant, newest first, without their steps. An answer may hold fewer items than limit, even none, and still have next_cursor", 200, 422, 503), s.listWorkflows)
	huma.Register(s.api, s.operation("get-workflow", http.MethodGet, one, "A workflow", 200, 404, 422, 503), s.getWorkflow)
	huma.Register(s.api, s.operation("delete-workflow", http.MethodDelete, one, "Cancel a workflow: no run of it begins any more. Runs under way go on: they are cancelled one by one. Twice is the same as once", 200, 404, 409, 412, 422, 429, 503), s.deleteWorkflow)
	control := []int{400, 404, 408, 409, 412, 413, 415, 422, 429, 503}
	huma.Register(s.api, s.operation("pause-workflow", http.MethodPost, one+"/pause", "Pause a workflow: none of its runs begins until it is resumed. Runs under way go on. Twice is the same as once", 200, control...), s.pauseWorkflow)
	huma.Register(s.api, s.operation("resume-workflow", http.MethodPost, one+"/resume", "Resume a workflow that was paused, from now on; twice is the same as once", 200, control...), s.resumeWorkflow)
	trigger := s.operation("trigger-workflow", http.MethodPost, one+"/trigger", "Run a workflow now, besides its schedule. The id of the run is that of /v1/runs/{id}", 202, 400, 404, 408, 409, 413, 415, 422, 429, 503)
	huma.Register(s.api, trigger, s.triggerWorkflow)
	s.describeBody(one+"/trigger", http.MethodPost, reflect.TypeFor[request.TriggerRequest](), "application/json")
	s.api.OpenAPI().Paths[one+"/trigger"].Post.RequestBody.Required = false
	huma.Register(s.api, documentWriter(s).graphOperation("get-workflow-graph", one+"/graph", "The steps of a workflow as a graph"), s.getGraph)
	list := s.operation("list-workflow-runs", http.MethodGet, one+"/runs", "The runs of a workflow, newest first, without their steps", 200, 404, 422, 503)
	list.Description = jobRunsOrder
	huma.Register(s.api, list, s.listWorkflowRuns)
	huma.Register(s.api, s.operation("list-workflow-upcoming", http.MethodGet, one+"/upcoming", "The next runs of a workflow, if it stays as it is", 200, 404, 422, 503), s.listUpcoming)
}

// findWorkflow returns the tenant's workflow of a name or an id.
func (s workflowRoutes) findWorkflow(ctx context.Context, text string) (schema.Job, error) {
	id, err := schema.ParseJobID(text)
	var job schema.Job
	switch {
	case err == nil:
		job, err = s.deps.Recurring.JobByID(ctx, tenantOf(ctx), id)
		err = or(err, notFound("There is no workflow with this id."))
	case bucketer.NameFault(text) != "":
		err = invalid(bucketer.Fault{Location: "path.name", Message: "is neither the name nor the id of a workflow"})
	default:
		job, err = s.deps.Recurring.JobByName(ctx, tenantOf(ctx), text)
		err = or(err, notFound("There is no workflow of this name."))
	}
	if err == nil && isPlainJob(&job) {
		err = notFound("This is a job, and no workflow: it is at /v1/jobs/" + job.Current.Spec.Name + ".")
	}
	return job, err
}

func (s workflowRoutes) putWorkflow(ctx context.Context, in *workflowPut) (*workflowAnswer, error) {
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	spec, err := s.readWorkflow(ctx, in.Name, text)
	var generation int64
	if err == nil && in.IfMatch != "" {
		generation, err = recurringRoutes(s).matchNamed(ctx, in.Name, in.IfMatch, recurring.OnlyWorkflows)
	}
	if err != nil {
		return nil, s.fail(ctx, "put workflow", err)
	}
	if in.DryRun {
		return s.wouldBe(ctx, spec)
	}
	job, created, err := s.deps.Recurring.PutJob(ctx, spec.Tenant, spec.Name, generation, spec)
	if err != nil {
		return nil, s.fail(ctx, "put workflow", err)
	}
	out, err := s.answerWorkflow(ctx, &job)
	if err == nil && created {
		out.Status, out.Location = http.StatusCreated, workflowsPath+"/"+job.Current.Spec.Name
	}
	return out, err
}

// readWorkflow reads the body of a request to put a workflow.
func (s workflowRoutes) readWorkflow(ctx context.Context, name string, text []byte) (schema.JobSpec, error) {
	d := s.decoder()
	defer s.decoders.Put(d)
	w, err := d.Workflow(tenantOf(ctx), name, text, s.config.Now())
	if err == nil {
		err = s.checkTasks(ctx, w.Definition.Steps)
	}
	spec := w.JobSpec
	if err == nil {
		spec.Workflow, err = orchestration.NewJobWorkflow(&w.Definition)
	}
	if errors.Is(err, schema.ErrTooLarge) {
		p := problemOf(schema.ErrTooLarge)
		p.Detail = fmt.Sprintf("The steps, compressed, have more than %d bytes.", schema.MaxPayload)
		err = p
	}
	return spec, err
}

// checkTasks finds fault with steps whose task does not exist.
func (s workflowRoutes) checkTasks(ctx context.Context, steps []workflow.Step) error {
	first := make(map[string]int) // by task: the first step that names it
	var names []string
	for i := range steps {
		if task := steps[i].Task; task != "" {
			if _, known := first[task]; !known {
				first[task] = i
				names = append(names, task)
			}
		}
	}
	missing := make([]bool, len(names))
	g, bounded := errgroup.WithContext(ctx)
	g.SetLimit(checksAtOnce)
	for i, name := range names {
		g.Go(func() error {
			_, err := s.deps.Tasks.Task(bounded, tenantOf(ctx), name)
			missing[i] = errors.Is(err, schema.ErrNotFound)
			if missing[i] || errors.Is(err, schema.ErrNotUnderstood) { // it exists
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var faults bucketer.Faults
	for i, name := range names {
		if missing[i] {
			faults = append(faults, bucketer.Fault{
				Location: fmt.Sprintf("body.steps[%d].task", first[name]), Message: bucketer.ErrNoTask.Error(), Value: name,
			})
		}
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// wouldBe answers what a workflow would be that is not put.
func (s workflowRoutes) wouldBe(ctx context.Context, spec schema.JobSpec) (*workflowAnswer, error) {
	job, err := s.deps.Recurring.JobByName(ctx, spec.Tenant, spec.Name)
	switch {
	case errors.Is(err, schema.ErrNotFound), err == nil && job.Current.State.Ended():
		job, err = schema.Job{}, nil
		job.Current.State = schema.JobActive
	case err == nil && isPlainJob(&job):
		err = recurring.ErrJobHasName
	}
	if err != nil {
		return nil, s.fail(ctx, "check workflow", err)
	}
	spec.Created, spec.Updated = job.Current.Spec.Created, job.Current.Spec.Updated
	job.Current.Spec = spec
	shown := recurringOf(&job, nil)
	return s.showWorkflow(ctx, &job, &shown)
}

func (s workflowRoutes) answerWorkflow(ctx context.Context, job *schema.Job) (*workflowAnswer, error) {
	shown := s.recurring(job)
	out, err := s.showWorkflow(ctx, job, &shown)
	if err == nil {
		out.ETag = generationTag(job)
	}
	return out, err
}

// showWorkflow answers a workflow with its steps.
func (s workflowRoutes) showWorkflow(ctx context.Context, job *schema.Job, shown *Job) (*workflowAnswer, error) {
	out := &workflowAnswer{Status: http.StatusOK, Body: workflowOf(job, shown)}
	w := job.Current.Spec.Workflow
	if w == nil {
		return out, nil // its fault says why
	}
	switch def, err := orchestration.DecodeDefinition(w.Definition); {
	case err != nil:
		out.Body.Fault = err.Error()
	default:
		out.Body.Steps = stepsOf(def.Steps, redacts(ctx))
	}
	return out, nil
}

func (s workflowRoutes) getWorkflow(ctx context.Context, in *workflowByName) (*workflowAnswer, error) {
	job, err := s.findWorkflow(ctx, in.Name)
	if err != nil {
		return nil, s.fail(ctx, "read workflow", err)
	}
	return s.answerWorkflow(ctx, &job)
}

func (s workflowRoutes) listWorkflows(ctx context.Context, in *workflowPage) (*workflowList, error) {
	page := &jobPage{Limit: in.Limit, Cursor: in.Cursor, State: in.State, Label: in.Label, NamePrefix: in.NamePrefix}
	jobs, next, err := recurringRoutes(s).jobsPage(ctx, page, recurring.OnlyWorkflows)
	if err != nil {
		return nil, s.fail(ctx, "list workflows", err)
	}
	out := new(workflowList)
	out.Body.Items, out.Body.NextCursor = []Workflow{}, next
	for i := range jobs {
		shown := s.recurring(&jobs[i])
		out.Body.Items = append(out.Body.Items, workflowOf(&jobs[i], &shown))
	}
	if in.Waiting {
		err = eventRoutes(s).noteWaiting(ctx, jobs, out.Body.Items)
	}
	if err != nil {
		return nil, s.fail(ctx, "list workflows", err)
	}
	return out, nil
}

func (s workflowRoutes) deleteWorkflow(ctx context.Context, in *workflowDelete) (*workflowAnswer, error) {
	return s.control(ctx, "cancel workflow", in.Name, in.IfMatch, Recurring.CancelJob)
}

func (s workflowRoutes) pauseWorkflow(ctx context.Context, in *workflowControl) (*workflowAnswer, error) {
	if err := s.noBody(&in.body); err != nil {
		return nil, s.fail(ctx, "pause workflow", err)
	}
	return s.control(ctx, "pause workflow", in.Name, in.IfMatch, Recurring.PauseJob)
}

func (s workflowRoutes) resumeWorkflow(ctx context.Context, in *workflowControl) (*workflowAnswer, error) {
	if err := s.noBody(&in.body); err != nil {
		return nil, s.fail(ctx, "resume workflow", err)
	}
	return s.control(ctx, "resume workflow", in.Name, in.IfMatch, Recurring.ResumeJob)
}

func (s workflowRoutes) control(ctx context.Context, act, name, ifMatch string, do controlOf) (*workflowAnswer, error) {
	job, err := s.findWorkflow(ctx, name)
	f := found{job: &job}
	if err == nil {
		err = f.match(ifMatch)
	}
	if err == nil {
		f, err = s.Server.control(ctx, f, ifMatch, do)
	}
	if err != nil {
		return nil, s.fail(ctx, act, err)
	}
	return s.answerWorkflow(ctx, f.job)
}

func (s workflowRoutes) triggerWorkflow(ctx context.Context, in *workflowTrigger) (*runAnswer, error) {
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	payload, err := d.Trigger(text)
	key, faults := idempotencyKey(in.Key)
	err = also(err, faults)
	var job schema.Job
	if err == nil {
		job, err = s.findWorkflow(ctx, in.Name)
	}
	if err != nil {
		return nil, s.fail(ctx, "trigger workflow", err)
	}
	hash := ""
	if key != "" {
		hash = "trigger " + job.ID.String() + " " + d.BodyHash()
	}
	receipt, err := recurringRoutes(s).trigger(ctx, &job, payload, key, hash)
	if err != nil {
		return nil, s.fail(ctx, "trigger workflow", err)
	}
	if payload == nil {
		payload = job.Current.Spec.Payload
	}
	out := s.answerNewRun(ctx, receipt, triggered(&job, receipt), payload)
	out.Status = http.StatusAccepted
	return out, nil
}

func (s workflowRoutes) listWorkflowRuns(ctx context.Context, in *workflowRunsPage) (*runList, error) {
	asked, err := recurringRoutes(s).readHistoryPage(ctx, &jobRunsPage{ID: in.Name, Limit: in.Limit, Cursor: in.Cursor, State: in.State, From: in.From, To: in.To})
	var job schema.Job
	if err == nil {
		job, err = s.findWorkflow(ctx, in.Name)
	}
	if err != nil {
		return nil, s.fail(ctx, "list runs of workflow", err)
	}
	out := new(runList)
	out.Body.Items = []Run{}
	return out, recurringRoutes(s).historyOf(ctx, job.ID, asked, out)
}

func (s workflowRoutes) listUpcoming(ctx context.Context, in *workflowUpcoming) (*upcomingList, error) {
	job, err := s.findWorkflow(ctx, in.Name)
	if err != nil {
		return nil, s.fail(ctx, "list upcoming runs", err)
	}
	out := new(upcomingList)
	out.Body.Items = recurringRoutes(s).upcoming(&job, in.From, in.Count)
	return out, nil
}

func (s workflowRoutes) getGraph(ctx context.Context, in *workflowGraph) (*huma.StreamResponse, error) {
	job, err := s.findWorkflow(ctx, in.Name)
	if err == nil && job.Current.Fault != nil {
		err = job.Current.Fault
	}
	var g *workflow.Graph
	if err == nil {
		g, err = compiled(job.Current.Spec.Workflow.Definition)
	}
	if err != nil {
		return nil, s.fail(ctx, "draw workflow", err)
	}
	return draw(g, in.Format, nil)
}

// compiled returns the graph of a definition as it is stored.
func compiled(stored []byte) (*workflow.Graph, error) {
	def, err := orchestration.DecodeDefinition(stored)
	if err != nil {
		return nil, err
	}
	g, faults := workflow.Compile(def)
	if len(faults) > 0 {
		return nil, fmt.Errorf("definition: %w: %s: %s", schema.ErrNotUnderstood, faults[0].Pointer, faults[0].Message)
	}
	return g, nil
}

// graphOperation describes a request for a graph.
func (s documentWriter) graphOperation(id, path, summary string) huma.Operation {
	op := s.operation(id, http.MethodGet, path, summary, 200, 404, 409, 422, 503)
	op.Responses["200"].Content = map[string]*huma.MediaType{
		"application/json": {Schema: s.schema(reflect.TypeFor[workflow.Drawing]())},
		"text/plain":       {Schema: &huma.Schema{Type: huma.TypeString}},
	}
	return op
}

// draw answers with a graph. states says how each step stands, and may be nil.
func draw(g *workflow.Graph, format string, states func(i int) string) (*huma.StreamResponse, error) {
	media, text := "text/plain; charset=utf-8", []byte(nil)
	switch format {
	case "mermaid":
		text = []byte(g.Mermaid(states))
	case "dot":
		text = []byte(g.DOT(states))
	case "tree":
		text = []byte(g.Tree(states))
	default:
		media = "application/json"
		var err error
		if text, err = g.JSON(states); err != nil {
			return nil, err
		}
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		hc.SetHeader("Content-Type", media)
		hc.SetHeader("X-Content-Type-Options", "nosniff")
		hc.SetStatus(http.StatusOK)
		_, _ = hc.BodyWriter().Write(text) // a caller that has gone needs no answer
	}}, nil
}

// statesOf says how each step of a run stands, in a few words.
func statesOf(v *orchestration.View) func(i int) string {
	return func(i int) string {
		step := stepOf(v, i)
		text := string(step.State)
		if items := step.Items; items != nil {
			done := 0
			for state, n := range items.States {
				if state.Terminal() {
					done += n
				}
			}
			text += fmt.Sprintf(" %d/%d", done, items.Total)
		}
		return text
	}
}
