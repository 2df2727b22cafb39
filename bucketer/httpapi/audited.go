package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"time"

	limits "golang.org/x/time/rate"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

// Audit keeps what callers changed (admin.Audit).
type Audit interface {
	// Note notes a change that was made. It does not wait.
	Note(act admin.AuditEvent)
	Entries(ctx context.Context, q admin.AuditQuery, pos *admin.AuditPosition, limit int) ([]schema.AuditEntry, *admin.AuditPosition, error)
}

// The audit log has changes of tasks, jobs that can have many runs, workflows, keys, tenants and
// operations; runs that were cancelled, changed or repeated; steps that were skipped; dead letters
// that were replayed or discarded; events that were published through the API; and an import as one
// entry. A new one-off job is in it if its tenant asks for that (audit.creations): else the list of
// runs shows it, and who made it.
//
// A job that an operation cancelled, paused or resumed has an entry of its own (NoteOfOperation), so
// that its history is whole. What an operation did to runs and dead letters, its own entry tells.
//
// Events come by thousands a second, and what decides on a workflow run is one of them. So each caller
// has a budget of entries on each node (eventNotes): a person is always within it. Of a program
// that publishes faster the next entry says how many were left out. Events that come over NATS carry
// no key: the permissions of NATS say who may publish, and they are not in the log.

// watch puts quotas, the audit log and redaction between the routes and what they call.
func (s *Server) watch() {
	if s.deps.Quotas != nil {
		s.deps.Jobs = metered{s.deps.Jobs, s.deps.Quotas}
		s.deps.Recurring = meteredRecurring{s.deps.Recurring, s.deps.Quotas}
		s.deps.Workflows = meteredWorkflows{s.deps.Workflows, s.deps.Quotas}
		if s.deps.Operations != nil {
			s.deps.Operations = meteredOperations{s.deps.Operations, s.deps.Quotas}
		}
		if s.deps.DeadLetters != nil {
			s.deps.DeadLetters = meteredLetters{s.deps.DeadLetters, s.deps.Quotas}
		}
	}
	s.deps.Recurring = redactedRecurring{auditedRecurring{s.deps.Recurring, s}}
	s.deps.Workflows = auditedWorkflows{s.deps.Workflows, s}
	s.deps.Runs = redactedRuns{s.deps.Runs}
	s.deps.Jobs, s.deps.Tasks = audited{s.deps.Jobs, s}, redactedTasks{auditedTasks{tasks: s.deps.Tasks, s: s}}
}

// note writes to the audit log what the caller did to an object of the request's tenant.
func (s *Server) note(ctx context.Context, action, object string, before, after any, note string) {
	s.noteFor(ctx, tenantOf(ctx), action, object, before, after, note)
}

func (s *Server) noteFor(ctx context.Context, tenant, action, object string, before, after any, note string) {
	if s.deps.Audit == nil {
		return
	}
	who := callerOf(ctx)
	s.deps.Audit.Note(admin.AuditEvent{
		Tenant: tenant, Actor: who.actor(tenant), Action: action, Object: object, Before: before, After: after, Note: note,
	})
}

// hidden replaces what the audit log must not have.
const hidden = "…"

// withoutSecrets returns w without the values of its headers.
func withoutSecrets(w schema.Work) schema.Work {
	if w.Kafka != nil && len(w.Kafka.Headers) > 0 {
		k := *w.Kafka
		k.Headers = make(map[string]string, len(w.Kafka.Headers))
		for name := range w.Kafka.Headers {
			k.Headers[name] = hidden
		}
		w.Kafka = &k
	}
	if w.HTTP == nil || len(w.HTTP.Headers) == 0 {
		return w
	}
	h := *w.HTTP
	h.Headers = make(map[string]string, len(w.HTTP.Headers))
	for name := range w.HTTP.Headers {
		h.Headers[name] = hidden
	}
	w.HTTP = &h
	return w
}

// audited notes changes of one-off jobs and runs, and signs what is made or cancelled with who did
// it.
type audited struct {
	Jobs
	s *Server
}

// SubmitBatch signs the jobs in place.
func (a audited) SubmitBatch(ctx context.Context, jobs []bucketer.Job, answer func(i int, r bucketer.Receipt, err error)) {
	if by := authorOf(ctx); by != "" {
		for i := range jobs {
			jobs[i].CreatedBy = by
		}
	}
	a.Jobs.SubmitBatch(ctx, jobs, answer)
}

func (a audited) Submit(ctx context.Context, job bucketer.Job) (bucketer.Receipt, error) {
	if by := authorOf(ctx); by != "" {
		job.CreatedBy = by
	}
	r, err := a.Jobs.Submit(ctx, job)
	if err == nil && !r.Existing && job.Trigger == schema.TriggerRetry {
		a.s.note(ctx, "retry", "run/"+job.Origin.String(), nil, nil, "run "+r.Run.String())
	}
	if err == nil && !r.Existing && job.Trigger == schema.TriggerSchedule {
		a.noteCreation(ctx, &job, r.Run)
	}
	return r, err
}

// noteCreation notes that a one-off job was created, if its tenant asks for that.
func (a audited) noteCreation(ctx context.Context, job *bucketer.Job, id schema.RunID) {
	if a.s.deps.Audit == nil || a.s.deps.Tenants == nil || ctx.Value(importing{}) != nil || !a.s.deps.Tenants.AuditsCreations(ctx, job.Tenant) {
		return
	}
	after := changedJob{Priority: &job.Priority, Labels: &job.Labels}
	if !job.At.IsZero() {
		after.At = &Time{job.At}
	}
	if job.Task != "" {
		after.Task = &job.Task
	}
	after.Work = job.Work
	redactRun(&after.Work, job.Labels)
	if job.Payload != nil {
		after.Payload = sizeOf(job.Payload)
	}
	a.s.note(ctx, "create", "run/"+id.String(), nil, after, "")
}

func (a audited) Cancel(ctx context.Context, tenant string, id schema.RunID, by string) (runs.Run, error) {
	if who := callerOf(ctx); who.of != "" {
		by = who.actor(tenant)
	}
	began := a.s.config.Now()
	run, err := a.Jobs.Cancel(ctx, tenant, id, by)
	// A run that was cancelled before was not changed, though the answer is the same.
	if mark := run.Entry.Marks.Cancelled; err == nil && (mark == nil || mark.By == by && !mark.At.Before(began.Truncate(time.Millisecond))) {
		a.s.note(ctx, "cancel", "run/"+id.String(), nil, nil, "")
	}
	return run, err
}

// changedJob is what the audit log has of a one-off job that was changed or created: only what is
// new, and the size of its payload.
type changedJob struct {
	At       *Time              `json:"at,omitempty"`
	Task     *string            `json:"task,omitempty"`
	Work     *schema.Work       `json:"work,omitempty"`
	Priority *schema.Priority   `json:"priority,omitempty"`
	Labels   *map[string]string `json:"labels,omitempty"`
	Payload  string             `json:"payload,omitempty"`
}

func (a audited) Reschedule(ctx context.Context, tenant string, id schema.RunID, c runs.Change) (runs.Run, error) {
	run, err := a.Jobs.Reschedule(ctx, tenant, id, c)
	if err != nil {
		return run, err
	}
	after := changedJob{Task: c.Task, Priority: c.Priority, Labels: c.Labels}
	if c.At != nil {
		after.At = &Time{run.Current.Due()}
	}
	if c.Work != nil {
		w := withoutSecrets(*c.Work)
		after.Work = &w
	}
	if c.Payload != nil {
		after.Payload = sizeOf(*c.Payload)
	}
	a.s.note(ctx, "update", "run/"+id.String(), nil, after, "")
	return run, nil
}

func sizeOf(payload []byte) string { return fmt.Sprintf("%d bytes", len(payload)) }

// auditedRecurring audits changes of jobs that can have many runs. For an import only its summary
// is audited.
type auditedRecurring struct {
	Recurring
	s *Server
}

// importing is the key under which the context of an import says that it is one.
type importing struct{}

// NoteOfOperation returns what notes jobs that operations changed: by whom the operation was begun.
func NoteOfOperation(log Audit) func(op *schema.Operation, job *schema.Job) {
	return func(op *schema.Operation, job *schema.Job) {
		log.Note(admin.AuditEvent{
			Tenant: op.Tenant, Actor: op.Spec.By, Action: op.Spec.Action, Object: objectOf(job),
			Note: "job " + job.ID.String() + " by operation " + op.ID.String(),
		})
	}
}

// changed notes that a job was changed; a nil spec stands for no job.
func (a auditedRecurring) changed(ctx context.Context, action string, before *schema.JobSpec, job *schema.Job) {
	if ctx.Value(importing{}) != nil {
		return
	}
	var was, is any
	if before != nil {
		was = auditedSpec(*before, "")
	}
	if spec := &job.Current.Spec; action == "create" || action == "update" {
		others := ""
		if before != nil && len(before.Payload) == len(spec.Payload) && !bytes.Equal(before.Payload, spec.Payload) {
			others = ", others than before"
		}
		is = auditedSpec(*spec, others)
	}
	a.s.note(ctx, action, objectOf(job), was, is, "job "+job.ID.String())
}

// objectOf returns how the audit log calls a job that can have many runs.
func objectOf(job *schema.Job) string {
	kind := "job/"
	if isWorkflow(job) {
		kind = "workflow/"
	}
	if job.Current.Spec.Name == "" {
		return kind + job.ID.String()
	}
	return kind + job.Current.Spec.Name
}

// auditedSpec returns what a job says, without its secrets, and with the size of its payload and what
// is to be said of that. Of a workflow it has the steps as the API shows them.
func auditedSpec(spec schema.JobSpec, ofPayload string) any {
	if spec.Work != nil {
		w := withoutSecrets(*spec.Work)
		spec.Work = &w
	}
	if spec.Payload != nil {
		spec.Payload = []byte(strconv.Quote(sizeOf(spec.Payload) + ofPayload))
	}
	if spec.Workflow == nil {
		return spec
	}
	def, err := orchestration.DecodeDefinition(spec.Workflow.Definition)
	said := auditedWorkflow{JobSpec: spec, Deadline: spec.Workflow.Deadline, Fault: faultOf(err)}
	if err == nil {
		said.Steps = stepsOf(def.Steps, true)
	}
	return said
}

// auditedWorkflow is what the audit log has of a workflow: its steps instead of their stored form.
type auditedWorkflow struct {
	schema.JobSpec
	Workflow *struct{}       `json:"workflow,omitempty"` // hides that of JobSpec
	Deadline schema.Duration `json:"deadline,omitempty"`
	Steps    []workflow.Step `json:"steps,omitempty"`
	Fault    string          `json:"fault,omitempty"`
}

func (a auditedRecurring) CreateJob(ctx context.Context, spec schema.JobSpec, key, bodyHash string) (schema.Job, bool, error) {
	spec.CreatedBy = authorOf(ctx)
	job, existing, err := a.Recurring.CreateJob(ctx, spec, key, bodyHash)
	if err == nil && !existing {
		a.changed(ctx, "create", nil, &job)
	}
	return job, existing, err
}

func (a auditedRecurring) PutJob(ctx context.Context, tenant, name string, ifMatch int64, spec schema.JobSpec) (schema.Job, bool, error) {
	var before *schema.JobSpec
	if was, err := a.JobByName(ctx, tenant, name); err == nil {
		before = &was.Current.Spec
	}
	spec.CreatedBy = authorOf(ctx) // of a job that is there it stays
	job, created, err := a.Recurring.PutJob(ctx, tenant, name, ifMatch, spec)
	switch {
	case err != nil:
	case created:
		a.changed(ctx, "create", nil, &job)
	default:
		a.changed(ctx, "update", before, &job)
	}
	return job, created, err
}

func (a auditedRecurring) ChangeJob(
	ctx context.Context, tenant string, id schema.JobID, ifMatch int64, change func(*schema.JobSpec) error,
) (schema.Job, error) {
	var before *schema.JobSpec
	job, err := a.Recurring.ChangeJob(ctx, tenant, id, ifMatch, func(spec *schema.JobSpec) error {
		was := *spec
		before = &was
		return change(spec)
	})
	if err == nil && !saysTheSame(before, &job) {
		a.changed(ctx, "update", before, &job)
	}
	return job, err
}

// saysTheSame reports whether a change left a job as it was.
func saysTheSame(before *schema.JobSpec, job *schema.Job) bool {
	if before == nil {
		return false
	}
	was := *before
	was.Updated, was.Past = job.Current.Spec.Updated, job.Current.Spec.Past
	return reflect.DeepEqual(was, job.Current.Spec)
}

// control audits a change of a job's state, if the state did change.
func (a auditedRecurring) control(
	ctx context.Context, action, tenant string, id schema.JobID, ifMatch int64,
	do func(ctx context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error),
) (schema.Job, error) {
	was, readErr := a.JobByID(ctx, tenant, id)
	job, err := do(ctx, tenant, id, ifMatch)
	if err == nil && (readErr != nil || was.Current.Number != job.Current.Number) {
		a.changed(ctx, action, nil, &job)
	}
	return job, err
}

func (a auditedRecurring) PauseJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error) {
	return a.control(ctx, "pause", tenant, id, ifMatch, a.Recurring.PauseJob)
}

func (a auditedRecurring) ResumeJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error) {
	return a.control(ctx, "resume", tenant, id, ifMatch, a.Recurring.ResumeJob)
}

func (a auditedRecurring) CancelJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error) {
	return a.control(ctx, "cancel", tenant, id, ifMatch, a.Recurring.CancelJob)
}

// trigger runs a job or a workflow now, of that payload; nil means its own. The run is the
// caller's.
func (s recurringRoutes) trigger(ctx context.Context, job *schema.Job, payload json.RawMessage, key, bodyHash string) (bucketer.Receipt, error) {
	asked := *job
	if by := authorOf(ctx); by != "" {
		asked.Current.Spec.CreatedBy = by
	}
	r, err := s.deps.Recurring.Trigger(ctx, asked, payload, key, bodyHash)
	if err == nil && !r.Existing {
		s.note(ctx, "trigger", objectOf(job), nil, nil, "run "+r.Run.String())
	}
	return r, err
}

// auditedWorkflows audits what is done with workflow runs.
type auditedWorkflows struct {
	Workflows
	s *Server
}

func (a auditedWorkflows) RetryWorkflow(ctx context.Context, tenant string, id schema.RunID, key string) (bucketer.Receipt, error) {
	r, err := a.Workflows.RetryWorkflow(ctx, tenant, id, key)
	if err == nil && !r.Existing {
		a.s.note(ctx, "retry", "run/"+id.String(), nil, nil, "run "+r.Run.String())
	}
	return r, err
}

func (a auditedWorkflows) SkipStep(ctx context.Context, tenant string, id schema.RunID, step string) error {
	err := a.Workflows.SkipStep(ctx, tenant, id, step)
	if err == nil {
		a.s.note(ctx, "skip", "run/"+id.String(), nil, nil, "step "+step)
	}
	return err
}

// auditedTasks audits changes of tasks.
type auditedTasks struct {
	tasks // not by its name, which is that of a method
	s     *Server
}

type tasks = Tasks

func auditedTask(t schema.Task) Task {
	t.Work = withoutSecrets(t.Work)
	return taskOf(t)
}

// before returns a task as it is, for the log alone: nil if there is none, or it cannot be read.
func (a auditedTasks) before(ctx context.Context, tenant, name string) any {
	t, err := a.Task(ctx, tenant, name)
	switch {
	case err == nil:
		return auditedTask(t)
	case !errors.Is(err, schema.ErrNotFound):
		return "not known: it could not be read"
	}
	return nil
}

func (a auditedTasks) PutTaskIf(ctx context.Context, t schema.Task, seen time.Time) (schema.Task, bool, error) {
	before := a.before(ctx, t.Tenant, t.Name)
	stored, created, err := a.tasks.PutTaskIf(ctx, t, seen)
	if err != nil {
		return stored, created, err
	}
	action := "update"
	if created {
		action, before = "create", nil
	}
	a.s.note(ctx, action, "task/"+t.Name, before, auditedTask(stored), "")
	return stored, created, nil
}

func (a auditedTasks) DeleteTaskIf(ctx context.Context, tenant, name string, seen time.Time) error {
	before := a.before(ctx, tenant, name)
	if err := a.tasks.DeleteTaskIf(ctx, tenant, name, seen); err != nil {
		return err
	}
	a.s.note(ctx, "delete", "task/"+name, before, nil, "")
	return nil
}

// The budget of each caller for entries about events: eventBurst at once, and one each eventEvery more.
// It is kept of eventCallers callers at most.
const (
	eventBurst   = 30
	eventEvery   = 2 * time.Second
	eventCallers = 1000
)

// eventNotes keeps the budgets. Its methods may be called from any goroutine.
type eventNotes struct {
	mu      sync.Mutex
	callers map[string]*eventBudget
}

type eventBudget struct {
	limit *limits.Limiter
	left  int // that were left out since the last entry
}

// admit reports whether an event of the caller is noted at now, and how many before it were not.
func (n *eventNotes) admit(caller string, now time.Time) (left int, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.callers[caller]
	if b == nil {
		if n.callers == nil || len(n.callers) == eventCallers {
			n.callers = make(map[string]*eventBudget)
		}
		b = &eventBudget{limit: limits.NewLimiter(limits.Every(eventEvery), eventBurst)}
		n.callers[caller] = b
	}
	if !b.limit.AllowN(now, 1) {
		b.left++
		return 0, false
	}
	left, b.left = b.left, 0
	return left, true
}

// noteEvent notes that the caller published an event, within its budget.
func (s eventRoutes) noteEvent(ctx context.Context, name string, id schema.EntryID) {
	left, ok := s.events.admit(tenantOf(ctx)+" "+actorOf(ctx), s.config.Now())
	if !ok {
		return
	}
	note := "event " + id.String()
	if left > 0 {
		note += fmt.Sprintf("; %d more were published since the entry before that are not in the log", left)
	}
	s.note(ctx, "publish", "event/"+name, nil, nil, note)
}
