package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// timeFormat is how answers write times: UTC, with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z"

// Time is an instant that is written in UTC with milliseconds. The zero Time is left out.
type Time struct{ time.Time }

// MarshalJSON writes t in UTC with milliseconds.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(t.UTC().Format(`"` + timeFormat + `"`)), nil
}

// UnmarshalJSON reads an RFC 3339 time.
func (t *Time) UnmarshalJSON(text []byte) error {
	if err := t.Time.UnmarshalJSON(text); err != nil {
		return fmt.Errorf("read time: %w", err)
	}
	return nil
}

// Schema describes a Time in the OpenAPI document.
func (Time) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Examples: []any{"2026-11-21T09:30:00.000Z"}}
}

// Task is a task as the API answers it, with the values in force.
type Task struct {
	Name string `json:"name"`
	schema.Work
	Rate          string          `json:"rate,omitempty"`
	MaxConcurrent int             `json:"max_concurrent,omitempty"`
	PayloadSchema json.RawMessage `json:"payload_schema,omitempty"`
	Description   string          `json:"description,omitempty"`
	// Region is the home at which its one-off jobs lie that name none.
	Region    schema.RegionChoice `json:"region,omitzero"`
	CreatedAt Time                `json:"created_at,omitzero"`
	UpdatedAt Time                `json:"updated_at,omitzero"`
	Fault     string              `json:"fault,omitempty" doc:"Why what is stored of it cannot be understood: then nothing but its name is known, and its runs fail until it is put again"`
}

func taskOf(t schema.Task) Task {
	return Task{
		Name: t.Name, Work: t.Work.InForce(), Rate: t.Rate, MaxConcurrent: t.MaxConcurrent, PayloadSchema: t.PayloadSchema, Description: t.Description, Region: t.Region,
		CreatedAt: Time{t.CreatedAt}, UpdatedAt: Time{t.UpdatedAt}, Fault: faultOf(t.Fault),
	}
}

// faultOf returns how an answer says that what is stored cannot be understood, "" for nil.
func faultOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Attempt is one execution of a run as the API answers it. One without outcome is still going.
type Attempt struct {
	Number       int            `json:"number"`
	Executor     string         `json:"executor,omitempty"`
	Region       string         `json:"region,omitempty"`
	PublishedAt  Time           `json:"published_at,omitzero" doc:"When its message was published to the executors"`
	ReceivedAt   Time           `json:"received_at,omitzero" doc:"When its executor received the message"`
	StartedAt    Time           `json:"started_at,omitzero"`
	FinishedAt   Time           `json:"finished_at,omitzero"`
	Outcome      schema.Outcome `json:"outcome,omitempty" enum:"succeeded,failed,timed_out,cancelled,lost,superseded"`
	Error        string         `json:"error,omitempty"`
	StatusCode   int            `json:"status_code,omitempty"`
	Output       string         `json:"output,omitempty" doc:"The output, or its first 2 KiB as text"`
	OutputSize   int64          `json:"output_size,omitempty" doc:"Bytes that were kept, if that is more than output shows"`
	OutputCut    bool           `json:"output_cut,omitempty" doc:"There was more output than was kept"`
	OutputBinary bool           `json:"output_binary,omitempty" doc:"The output is not UTF-8"`
	LogLines     int            `json:"log_lines,omitempty" doc:"Lines of log that were kept"`
	LogDropped   int            `json:"log_dropped,omitempty" doc:"Lines of log that were not kept: too many, or too fast"`
	Progress     *Progress      `json:"progress,omitempty" doc:"The last that the worker told"`
	Redispatched bool           `json:"redispatched,omitempty"`
}

// Progress is how far the worker of an attempt says that it has come.
type Progress struct {
	Done  int64  `json:"done"`
	Total int64  `json:"total,omitempty" doc:"Absent if the worker does not say"`
	Text  string `json:"text,omitempty"`
	At    Time   `json:"at" doc:"When it was told"`
}

func progressOf(p *schema.RunProgress) *Progress {
	if p == nil {
		return nil
	}
	return &Progress{Done: p.Done, Total: p.Total, Text: p.Text, At: Time{p.At}}
}

// Missed says which nominal times had no run, and why.
type Missed struct {
	From   Time   `json:"from"`
	To     Time   `json:"to"`
	Count  int64  `json:"count"`
	Reason string `json:"reason,omitempty"`
}

// Waiting says what holds a run back.
type Waiting struct {
	Since  Time   `json:"since"`
	Reason string `json:"reason" doc:"A word and what it means. jobs: those that it runs after. event, time: what a step waits for. concurrency: the limit of its job. rate, limit: those of its task. slot: the time that the rate gave it has come; it waits for a slot of the limit of its task, of a quota, of its target or of an executor. quota: one of its tenant, of runs at once or of runs a minute. breaker: its target failed again and again. target_share, tenant_share: slow calls to its target, or of its tenant, have their part of the slots. region: its region alone may run it, and another serves its home now. pool: no executor that it reached has the labels that it requires"`
}

// deferrals are the reasons of deferrals.
var deferrals = map[schema.Cause]string{
	schema.CauseRate:        "the rate of its task is used up until then",
	schema.CauseLimit:       "as many runs of its task are under way as may be at once",
	schema.CauseQuota:       "a quota of its tenant is reached: of runs at once, or of runs a minute",
	schema.CauseBreaker:     "its target failed again and again",
	schema.CauseTargetShare: "its target is slow, and has its part of the slots",
	schema.CauseRegion:      "only its region may run it, and another serves its home now",
	schema.CauseTenantShare: "its tenant's calls are slow, and have their part of the slots",
	schema.CausePool:        "no executor that it reached has the labels that it requires",
}

// deferredBy returns why the start of a run was deferred, nil if the record does not say so.
func deferredBy(rec *schema.Record) *Waiting {
	if rec == nil || rec.Cause == "" {
		return nil
	}
	reason := string(rec.Cause)
	if meaning, ok := deferrals[rec.Cause]; ok { // a newer version may have others
		reason += ": " + meaning
	}
	return &Waiting{Since: Time{rec.Finished}, Reason: reason}
}

// Run is a run as the API answers it.
type Run struct {
	ID         schema.RunID `json:"id"`
	JobID      schema.JobID `json:"job_id,omitzero" doc:"Absent for a step of a workflow run"`
	JobName    string       `json:"job_name,omitempty" doc:"The name of its job. Of a run that repeats another: of the job that the other is a run of"`
	Tenant     string       `json:"tenant"`
	Task       string       `json:"task,omitempty"`
	Calls      string       `json:"calls,omitempty" doc:"What it calls, without a query: of a task, what the task says now; not in lists" example:"POST https://example.com/hook"`
	State      schema.State `json:"state" enum:"pending,running,waiting,stuck,retrying,succeeded,failed,cancelled,missed,skipped" doc:"waiting: of a workflow run, of which nothing but waits is under way (it is among those that are running, where a list asks for that), of a step that waits, or of a run that waits for other jobs; and stuck if its deadline has passed (both are among those that are pending, where a list asks for that). skipped: of a step, or of a run that never starts since other jobs did not end as it asks for"`
	DeadLetter bool         `json:"dead_letter,omitempty"`

	Priority      schema.Priority   `json:"priority" enum:"critical,high,normal,low"`
	Labels        map[string]string `json:"labels,omitempty"`
	NominalAt     Time              `json:"nominal_at"`
	DueAt         Time              `json:"due_at"`
	StartedAt     Time              `json:"started_at,omitzero"`
	FinishedAt    Time              `json:"finished_at,omitzero"`
	LatenessMS    *int64            `json:"lateness_ms,omitempty" doc:"Start of the first attempt less the later of due time and acceptance, in ms"`
	Origin        schema.RunID      `json:"origin,omitzero" doc:"The run that it repeats"`
	ReplayedAs    schema.RunID      `json:"replayed_as,omitzero" doc:"Of a run that failed: the run that repeats it, as its dead letter was replayed. Known as long as the dead letter is kept"`
	NextAttemptAt Time              `json:"next_attempt_at,omitzero"`
	DeferredUntil Time              `json:"deferred_until,omitzero" doc:"While it waits: when its start will be tried that was put off, by the rate of its task, since as many runs of its task were under way as may, or since its target had no room or failed"`
	Missed        *Missed           `json:"missed,omitempty"`
	Waiting       *Waiting          `json:"waiting,omitempty" doc:"Of a pending or retrying run whose time has come, and that may not start yet: what it waits for. Of one that was cancelled before it started: what it waited for last"`
	Waited        *Waiting          `json:"waited,omitempty" doc:"Of a run that has started: what held it back last before that, and since when anything did"`
	Preempted     int               `json:"preempted,omitempty" doc:"How often it was stopped to let a critical run start (preemptible). Such a start is not among the attempts: it used none up. started_at is the first start of all"`
	CancelReason  string            `json:"cancel_reason,omitempty" doc:"Why it was cancelled, if nobody asked for that"`
	CreatedBy     string            `json:"created_by,omitempty" doc:"Who made its job, as the audit log names callers; of a run that was triggered, or retried outside of a workflow: who asked for that. Absent where the node asked for no keys"`
	Event         *RunEvent         `json:"event,omitempty" doc:"What started it, if trigger is event"`
	Trigger       schema.Trigger    `json:"trigger" enum:"schedule,manual,retry,backfill,event,dependency,notification"`
	Payload       json.RawMessage   `json:"payload,omitempty" doc:"In a list only if it is at most 4 KiB"`
	PayloadFault  string            `json:"payload_fault,omitempty" doc:"Why the payload is absent: it is stored encrypted and cannot be opened"`
	Progress      *Progress         `json:"progress,omitempty" doc:"Of the attempt under way; not in lists"`
	Attempts      []Attempt         `json:"attempts"`
	Error         string            `json:"error,omitempty" doc:"Why the last attempt failed that has an error, of a run that has not succeeded: what lists select by error, and its first 512 bytes. Whole it is in attempts"`
	Fault         string            `json:"fault,omitempty" doc:"Why what is stored of its last attempt cannot be understood: the run counts as failed, but what it came to is unknown"`

	Workflow      string       `json:"workflow,omitempty" doc:"Of a workflow run: the workflow. Its one attempt stands for all that its steps do"`
	Steps         []RunStep    `json:"steps,omitempty" doc:"Of a workflow run: its steps, in the order of the workflow; not in lists"`
	DeadlineAt    Time         `json:"deadline_at,omitzero" doc:"Of a workflow run that has begun, and of a step that has a deadline: when it ends at the latest. That of a workflow run is not in lists. Of a run that waits for other jobs: when it is stuck"`
	WorkflowRunID schema.RunID `json:"workflow_run_id,omitzero" doc:"Of a step: the workflow run"`
	Step          string       `json:"step,omitempty" doc:"Of a step: its name"`
	Item          *int         `json:"item,omitempty" doc:"Of a step with for_each: which item it is, from 0"`
	Reason        string       `json:"reason,omitempty" doc:"Of a step: why it was skipped, or could not be started. Of a run that would run after other jobs: why it was skipped"`
}

// RunEvent is the event that started a run.
type RunEvent struct {
	ID   schema.EntryID `json:"id"`
	Name string         `json:"name"`
}

// opened returns a payload as the API answers it, and why it is absent if it could not be opened.
func opened(payload []byte) (shown json.RawMessage, fault string) {
	if schema.IsSealed(payload) {
		return nil, "it is encrypted and cannot be opened here: its key is not configured (secrets.keys), or it is damaged"
	}
	return payload, ""
}

// runOf returns the run r as the API answers it at now.
func runOf(r *runs.Run, payload []byte, now time.Time) Run {
	e := standing(r)
	s := &r.Entry.Spec
	out := Run{
		ID: r.ID, JobID: s.Job, JobName: s.JobName, Tenant: s.Tenant, Task: e.Spec.Task, State: r.Shown(),
		DeadLetter: r.State == schema.StateFailed, Priority: e.Spec.Priority.Or(), Labels: e.Spec.Labels,
		NominalAt: Time{e.Spec.Nominal}, DueAt: Time{e.Due()}, Origin: s.Origin, Trigger: s.Trigger, CreatedBy: s.CreatedBy,
		Progress: progressOf(r.Progress), Attempts: []Attempt{}, Fault: faultOf(schema.Unreadable(r.Attempts)),
	}
	out.Payload, out.PayloadFault = opened(payload)
	if v := s.Event; v != nil && s.Trigger == schema.TriggerEvent {
		out.Event = &RunEvent{ID: v.ID, Name: v.Name}
	}
	switch {
	case s.Step != nil:
		out.noteStep(r)
	case out.JobID.IsZero():
		out.JobID = schema.JobOf(r.ID)
	}
	if s.Workflow != nil {
		out.Workflow, out.Payload = s.JobName, inputOf(r, out.Payload)
	}
	if out.Trigger == schema.TriggerSchedule {
		out.Trigger = "schedule"
	}
	var givenUp string
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Unstarted() {
			continue
		}
		if a.Number == 0 {
			if rec := a.Record; rec != nil && rec.Ruined() {
				givenUp = rec.Error
			}
			if rec := a.Record; rec != nil && rec.Outcome == schema.Missed && r.State == schema.StateMissed {
				missed := Missed{From: out.NominalAt, To: out.NominalAt, Count: 1, Reason: rec.Reason}
				if m := rec.Missed; m != nil { // it stands for a stretch
					missed = Missed{From: Time{m.From}, To: Time{m.To}, Count: m.Count, Reason: m.Reason}
				}
				// A step of a catch-up that was taken again, later, gave up more than the first
				// time.
				if out.Missed == nil || missed.To.After(out.Missed.To.Time) {
					out.Missed, out.FinishedAt = &missed, Time{rec.Finished}
				}
			}
			continue
		}
		shown := attemptOf(a)
		if schema.IsSuperseded(r.Attempts, i) {
			shown.Outcome = schema.Superseded
		}
		out.Attempts = append(out.Attempts, shown)
	}
	if n := len(out.Attempts); n > 0 && givenUp != "" {
		shown := &out.Attempts[n-1]
		shown.Error = strings.TrimPrefix(shown.Error+"; "+givenUp, "; ")
	}
	if r.State != schema.StateSucceeded {
		out.Error = headOf(r.LastError(runs.ErrorOf))
	}
	out.Preempted = schema.CountPreempted(r.Attempts)
	out.StartedAt, out.Waited = Time{r.Started()}, waitedBefore(r)
	if late, started := r.Lateness(); started {
		ms := late.Milliseconds()
		out.LatenessMS = &ms
	}
	out.NextAttemptAt = Time{r.NextAttempt()}
	if put := r.Deferral(); put != nil && (r.State == schema.StatePending || r.State == schema.StateRetrying) && put.To.Time().After(bucketer.Latest(now, out.NextAttemptAt.Time)) {
		out.DeferredUntil = Time{put.To.Time()}
	}
	switch {
	case r.State.Terminal():
		if out.Missed == nil {
			out.FinishedAt = finished(r)
		}
		out.noteSkip(r)
		out.CancelReason = cancelReason(r)
		if r.State == schema.StateCancelled && out.CancelReason == "" && len(out.Attempts) == 0 {
			out.Waiting = waitedFor(r)
		}
	case e.Spec.Kind == schema.KindJoin:
		out.noteJoin(r)
	default:
		held := r.HeldBack()
		if runs.SlotAwaited(held, now) {
			out.Waiting = &Waiting{Since: Time{held.To.Time()}, Reason: runs.WaitsForSlot + ": its time has come, and it waits for a slot: of the limit of its task, of a quota, of its target or of an executor"}
		} else if w := waitingFor(held); w != nil {
			out.Waiting = w
		}
	}
	return out
}

// waitingFor returns what a record says of what holds a run back (runs.Run.HeldBack).
func waitingFor(held *schema.Record) *Waiting {
	if held == nil || held.Reason == schema.Deferred {
		return deferredBy(held)
	}
	return &Waiting{Since: Time{held.Finished}, Reason: held.Reason}
}

// waitedFor returns what held a run back last that never started, nil if nothing is known of it.
func waitedFor(r *runs.Run) *Waiting {
	deferral := r.Deferral()
	if held := schema.LimitHold(r.Attempts); held != nil && (deferral == nil || held.Finished.After(deferral.Finished)) {
		return waitingFor(held)
	}
	return deferredBy(deferral)
}

// waitedBefore returns what held a run back that has started, nil if nothing did. It is what held
// it last, since the instant at which anything first did.
func waitedBefore(r *runs.Run) (last *Waiting) {
	started := r.Started()
	var since, until time.Time
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Number != 0 || a.Record == nil || !a.Record.Finished.Before(started) { // a retry waited
			continue
		}
		held := deferredBy(a.Record)
		if a.HeldByLimit() {
			held = &Waiting{Reason: a.Record.Reason}
		}
		if held == nil {
			continue
		}
		at := a.Record.Finished
		if last == nil || at.Before(since) {
			since = at
		}
		if last == nil || at.After(until) {
			last, until = held, at
		}
		last.Since = Time{since}
	}
	return last
}

// noteJoin adds what a run waits for that waits for other jobs.
func (r *Run) noteJoin(of *runs.Run) {
	join := of.Entry.Spec.Join
	r.DeadlineAt = Time{join.Until}
	ended := make(map[schema.JobID]bool)
	for i := range of.Attempts {
		if rec := of.Attempts[i].Record; rec != nil && rec.Outcome == schema.UpstreamEnded && rec.Before != nil {
			ended[rec.Before.Job] = true
		}
	}
	var open []string
	for _, u := range join.Jobs {
		if !ended[u.Job] {
			open = append(open, u.Name)
		}
	}
	r.Waiting = &Waiting{Since: Time{of.Entry.Due()}, Reason: "jobs: it runs after jobs that have not ended: " + strings.Join(open, ", ")}
}

// noteSkip adds why a run never starts that would run after other jobs.
func (r *Run) noteSkip(of *runs.Run) {
	for i := range of.Attempts {
		if rec := of.Attempts[i].Record; of.Entry.Spec.Join != nil && of.State == schema.StateSkipped && rec != nil && rec.Outcome == schema.Skipped {
			r.Reason, r.FinishedAt = rec.Reason, Time{rec.Finished}
		}
	}
}

// cancelReason returns why Carillon cancelled a run by itself, "" if a caller did.
func cancelReason(r *runs.Run) string {
	if r.State != schema.StateCancelled {
		return ""
	}
	if c := r.Entry.Marks.Cancelled; c != nil && c.By == bucketer.CancelledByLimit {
		return "cancel_oldest: later runs of the job were due"
	}
	for i := range r.Attempts {
		if rec := r.Attempts[i].Record; rec != nil && rec.Outcome == schema.Cancelled && rec.Reason != "" {
			return rec.Reason
		}
	}
	return ""
}

func attemptOf(a *schema.Attempt) Attempt {
	out := Attempt{Number: a.Number}
	if s := a.Session; s != nil {
		out.Executor, out.StartedAt = s.Executor, Time{s.Started}
	}
	if rec := a.Record; rec != nil {
		if rec.Outcome == schema.Began { // a workflow run that has not ended
			out.StartedAt = Time{rec.Started}
			return out
		}
		out.Region, out.FinishedAt, out.Outcome = rec.Region, Time{rec.Finished}, rec.Outcome
		out.Error, out.StatusCode, out.Output, out.Redispatched = runs.ErrorOf(rec), rec.Status, rec.Output, rec.Redispatched
		out.OutputSize, out.OutputCut, out.OutputBinary = rec.OutputSize, rec.OutputCut, rec.OutputBinary
		out.LogLines, out.LogDropped, out.Progress = rec.Lines, rec.LinesDropped, progressOf(rec.Progress)
		if rec.Executor != "" {
			out.Executor = rec.Executor
		}
		if !rec.Started.IsZero() {
			out.StartedAt = Time{rec.Started}
		}
		if rec.PublishedMillis > 0 {
			out.PublishedAt = Time{rec.Started.Add(-time.Duration(rec.PublishedMillis) * time.Millisecond)}
			out.ReceivedAt = Time{rec.Started.Add(-time.Duration(rec.ReceivedMillis) * time.Millisecond)}
		}
	}
	return out
}

// maxError bounds the error of a run, in bytes: as much as a dead letter tells of earlier attempts.
const maxError = 512

// headOf returns how an error begins.
func headOf(text string) string {
	if len(text) <= maxError {
		return text
	}
	return strings.ToValidUTF8(text[:maxError-len("…")], "") + "…"
}

// finished returns when the run came to its end, if it was not missed: the first record that says
// what its state says, or else its cancel mark.
func finished(r *runs.Run) Time {
	var at time.Time
	for i := range r.Attempts {
		rec := r.Attempts[i].Record
		if rec == nil {
			continue
		}
		ends := false
		switch r.State {
		case schema.StateSucceeded:
			ends = rec.Outcome == schema.Succeeded
		case schema.StateFailed:
			ends = rec.Final
		case schema.StateCancelled:
			ends = rec.Outcome == schema.Cancelled
		}
		if ends && (at.IsZero() || rec.Finished.Before(at)) {
			at = rec.Finished
		}
	}
	if c := r.Entry.Marks.Cancelled; at.IsZero() && r.State == schema.StateCancelled && c != nil {
		at = c.At
	}
	return Time{at}
}

// ImportResult is what became of a line of an import.
type ImportResult struct {
	Line int64        `json:"line"`
	ID   schema.JobID `json:"id,omitzero"`
	// 201 made, 200 known before (or valid, if nothing was to be written), else the error's
	Status int      `json:"status"`
	Error  *Problem `json:"error,omitempty"`
}

// ImportSummary is the last word on an import. Lines that are blank do not count.
type ImportSummary struct {
	Lines    int64 `json:"lines"`
	Created  int64 `json:"created"`
	Existing int64 `json:"existing"`
	Failed   int64 `json:"failed"`
}
