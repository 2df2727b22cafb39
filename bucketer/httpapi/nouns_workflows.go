package httpapi

import (
	"encoding/json"
	"maps"
	"strconv"

	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

// Workflow is a workflow as the API answers it, with the values in force. It has the fields of a job
// that can have many runs, and steps instead of work.
type Workflow struct {
	ID     schema.JobID `json:"id"`
	Tenant string       `json:"tenant"`
	Name   string       `json:"name"`

	Schedule    *JobSchedule        `json:"schedule,omitempty" doc:"Absent: it runs when it is asked to, or has several"`
	Schedules   []JobSchedule       `json:"schedules,omitempty" doc:"Instead of one: it is due when any of them is, once at each instant"`
	Start       Time                `json:"start,omitzero" doc:"No run before it"`
	End         Time                `json:"end,omitzero" doc:"No run from it on; that of max_runs, if it is earlier"`
	MaxRuns     int                 `json:"max_runs,omitempty"`
	Jitter      *schema.Duration    `json:"jitter,omitempty" doc:"The window of the workflow's own offset, which is the same for all its runs"`
	Concurrency *schema.Concurrency `json:"concurrency,omitempty"`
	Misfire     JobMisfire          `json:"misfire"`

	PauseOnFailure *request.PauseOnFailure `json:"pause_on_failure,omitempty"`

	On       *schema.EventTrigger `json:"on,omitempty" doc:"Which events start a run; such a workflow has no schedule"`
	Deadline schema.Duration      `json:"deadline" doc:"How long after its due time a run ends at the latest"`
	Payload  json.RawMessage      `json:"payload,omitempty" doc:"The input of scheduled runs, and of others that state none"`
	Priority schema.Priority      `json:"priority"`
	Labels   map[string]string    `json:"labels,omitempty"`
	Steps    []workflow.Step      `json:"steps,omitempty" doc:"Not in lists"`

	Durability schema.Durability `json:"durability,omitempty" enum:"home,everywhere" doc:"As of a job"`

	State         string            `json:"state" enum:"active,paused,cancelled,finished"`
	Waiting       []WorkflowWaiting `json:"waiting,omitempty" doc:"In a list that asks for it: which of its runs wait for events, by the events that its definition names now"`
	PausedBecause string            `json:"paused_because,omitempty" doc:"Why the workflow is paused, if nobody has paused it"`
	Generation    int64             `json:"generation" doc:"Grows with every change; 0 in a dry run, of a workflow that does not exist"`
	NextRun       *NextRun          `json:"next_run,omitempty"`
	Fault         string            `json:"fault,omitempty" doc:"Why the workflow does not go on, though it is active: what is stored of it is not understood by this node"`
	CreatedAt     Time              `json:"created_at,omitzero"`
	CreatedBy     string            `json:"created_by,omitempty" doc:"As of a job"`
	UpdatedAt     Time              `json:"updated_at,omitzero"`
}

// WorkflowWaiting says how many runs of a workflow wait for an event.
type WorkflowWaiting struct {
	Event string `json:"event"`
	Runs  int    `json:"runs"`
	More  bool   `json:"more,omitempty" doc:"There may be more: not all that wait for the event were looked at"`
}

// isWorkflow reports whether a job is a workflow.
func isWorkflow(j *schema.Job) bool { return j.Current.Spec.Workflow != nil }

// isPlainJob reports whether a job is known to be none.
func isPlainJob(j *schema.Job) bool { return j.Current.Fault == nil && !isWorkflow(j) }

// workflowOf returns a workflow as the API answers it, without its steps. It has what shown has,
// which is the same as a job.
func workflowOf(j *schema.Job, shown *Job) Workflow {
	out := Workflow{
		ID: shown.ID, Tenant: shown.Tenant, Name: shown.Name, Start: shown.Start, End: shown.End, MaxRuns: shown.MaxRuns, Jitter: shown.Jitter,
		Concurrency: shown.Concurrency, On: shown.On, Misfire: shown.Misfire, Payload: shown.Payload, Priority: shown.Priority, Labels: shown.Labels, Durability: shown.Durability,
		State: shown.State, Generation: shown.Generation, NextRun: shown.NextRun, Fault: shown.Fault, CreatedAt: shown.CreatedAt, CreatedBy: shown.CreatedBy, UpdatedAt: shown.UpdatedAt,
	}
	if out.Schedules = shown.Schedules; j.Current.Spec.Schedule != nil && out.Schedules == nil {
		out.Schedule = &shown.Schedule
	}
	out.PauseOnFailure, out.PausedBecause = shown.PauseOnFailure, shown.PausedBecause
	if w := j.Current.Spec.Workflow; w != nil {
		out.Deadline = w.Deadline
	}
	return out
}

// stepsOf returns steps with the values in force; hide leaves out the values of headers, which may be
// secrets.
func stepsOf(steps []workflow.Step, hide bool) []workflow.Step {
	out := make([]workflow.Step, len(steps))
	for i := range steps {
		out[i] = steps[i]
		s := &out[i]
		if hide && s.Payload != nil {
			s.Payload = []byte(strconv.Quote(sizeOf(s.Payload)))
		}
		if len(s.After) > 0 {
			s.When = s.When.Or()
		}
		if s.Work != nil {
			w := s.Work.InForce()
			if hide {
				w = withoutSecrets(w)
			}
			s.Work = &w
		}
	}
	return out
}

// RunStep is a step of a workflow run.
type RunStep struct {
	Name       string       `json:"name"`
	After      []string     `json:"after,omitempty"`
	RunID      schema.RunID `json:"run_id,omitzero" doc:"Its run. Absent: it has none, because it has not started, was skipped since what it comes after ended otherwise, or has a run for each item"`
	State      schema.State `json:"state" enum:"pending,running,waiting,retrying,succeeded,failed,cancelled,missed,skipped"`
	Reason     string       `json:"reason,omitempty" doc:"Why it waits, was skipped or failed"`
	Attempts   int          `json:"attempts,omitempty" doc:"Of all items, if it has any"`
	StartedAt  Time         `json:"started_at,omitzero"`
	FinishedAt Time         `json:"finished_at,omitzero"`
	Items      *StepItems   `json:"items,omitempty" doc:"Of a step with for_each"`
	Event      *RunEvent    `json:"event,omitempty" doc:"Of a step that waited for an event, and has it: that event, whose publisher the audit log knows. Of a run the first 20 steps that have one are told of"`
}

// StepItems counts the items of a step.
type StepItems struct {
	Total  int                  `json:"total"`
	States map[schema.State]int `json:"states" doc:"How many are pending, running, retrying, succeeded, failed, cancelled. Items that have no run yet are in none"`
}

// noteView puts into the answer what the rows of a workflow run tell of its steps.
func (r *Run) noteView(v *orchestration.View) {
	if v.Waiting {
		r.State = schema.StateWaiting
	}
	r.DeadlineAt = Time{v.Until}
	r.Steps = make([]RunStep, len(v.Steps))
	for i := range v.Steps {
		r.Steps[i] = stepOf(v, i)
	}
}

func stepOf(v *orchestration.View, i int) RunStep {
	s := &v.Steps[i]
	out := RunStep{
		Name: s.Name, RunID: s.Run, State: stepState(v, i), Reason: s.Reason, Attempts: s.Attempts,
		StartedAt: Time{s.Started}, FinishedAt: Time{s.Finished},
	}
	if v.Graph != nil {
		out.After = v.Graph.Step(i).After
	}
	if v.Graph != nil && !s.Event.IsZero() && v.Graph.Step(i).Wait != nil {
		out.Event = &RunEvent{ID: s.Event, Name: v.Graph.Step(i).Wait.Event}
	}
	if s.Items != nil {
		out.Items = &StepItems{Total: s.Total, States: maps.Clone(s.Items)}
	}
	return out
}

// stepState is how a step stands: one that waits for a time or an event is waiting, not running.
func stepState(v *orchestration.View, i int) schema.State {
	state := v.Steps[i].State
	if state == schema.StateRunning && v.Graph != nil && v.Graph.Step(i).Wait != nil {
		return schema.StateWaiting
	}
	return state
}

// inputOf returns the payload of a workflow run as its steps see it: references to facts of the run
// are replaced.
func inputOf(run *runs.Run, payload []byte) json.RawMessage {
	input, err := workflow.ResolveRunPayload(payload, run.ID.String(), run.Entry.Spec.Nominal)
	if err != nil { // it is no template: the steps see it as it is
		return payload
	}
	return input
}

// noteStep says in the answer that the run is one of a step.
func (r *Run) noteStep(run *runs.Run) {
	s := run.Entry.Spec.Step
	r.WorkflowRunID, r.Step, r.DeadlineAt = s.Workflow, s.Name, Time{s.Deadline}
	if w := s.Wait; w != nil && !run.State.Terminal() {
		r.Waiting = &Waiting{Since: Time{run.Entry.Due()}, Reason: "event: it waits for the event " + w.Event}
		if !w.Until.IsZero() {
			r.Waiting.Reason = "time: it waits until " + w.Until.UTC().Format(timeFormat)
		}
	}
	if _, item := run.ID.StepOf(); item > 0 {
		item--
		r.Item = &item
	}
	for i := range run.Attempts {
		switch rec := run.Attempts[i].Record; {
		case run.Attempts[i].Number > 0 || rec == nil:
		case rec.Outcome == schema.Skipped:
			r.Reason = rec.Reason
		case rec.Ruined():
			r.Reason = rec.Error
		}
	}
}
