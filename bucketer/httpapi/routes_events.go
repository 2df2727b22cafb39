package httpapi

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/events"
	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

const eventsPath = "/v1/events"

// Event is an event as the API answers it.
type Event struct {
	ID         schema.EntryID  `json:"id"`
	Tenant     string          `json:"tenant"`
	Name       string          `json:"name"`
	AcceptedAt Time            `json:"accepted_at"`
	Body       json.RawMessage `json:"body,omitempty" doc:"Only if it is at most 4 KiB, and can be opened if it is stored encrypted"`
}

func eventOf(e *schema.Entry) Event {
	body, _ := opened(e.Payload)
	return Event{ID: e.ID, Tenant: e.Spec.Tenant, Name: e.Spec.Event.Name, AcceptedAt: Time{e.ID.Time()}, Body: body}
}

type (
	eventPost struct {
		Name string `path:"name" doc:"The event's name: 1 to 63 characters of a-z, 0-9, '.', '_' and '-'" example:"file.uploaded"`
		Key  string `header:"Idempotency-Key" maxLength:"260" doc:"At most 128 bytes, quoted or not, kept for 24 h: the same key and body give the same event"`
		body
	}
	eventAnswer struct {
		Status   int
		Replayed string `header:"Idempotency-Replayed" doc:"true, if the key was known"`
		Location string `header:"Location"`
		Body     EventReceipt
	}
	eventFilter struct {
		Limit  int       `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most items of one answer"`
		Cursor string    `query:"cursor" maxLength:"1024" doc:"next_cursor of the answer before; opaque, and good only for the same list"`
		Name   string    `query:"name" doc:"Only events of this name"`
		From   time.Time `query:"from" required:"true" doc:"Accepted at this instant or later"`
		To     time.Time `query:"to" required:"true" doc:"Accepted before this one; at most an hour after from"`
	}
	hearersOf struct {
		Name string `path:"name" doc:"The event's name" example:"file.uploaded"`
	}
	hearersAnswer struct{ Body EventHearers }
	eventList     struct {
		Body struct {
			Items      []Event `json:"items"`
			NextCursor string  `json:"next_cursor,omitempty"`
		}
	}
)

// EventReceipt says that an event is durable.
type EventReceipt struct {
	ID schema.EntryID `json:"id" doc:"Its runs: GET /v1/runs?event=<id>"`
}

// EventHearers are those who would hear of an event if it was published now.
type EventHearers struct {
	Jobs  []EventJob  `json:"jobs" doc:"Jobs and workflows of which it would start a run, if their filter takes its body"`
	Steps []EventStep `json:"steps" doc:"Steps that wait for it, and that it would end, if their filter takes its body"`
	More  bool        `json:"more,omitempty" doc:"There are more than were looked at: 200"`
}

// EventJob is a job that runs on an event.
type EventJob struct {
	ID     schema.JobID `json:"id"`
	Name   string       `json:"name,omitempty"`
	Kind   string       `json:"kind" enum:"job,workflow"`
	Filter string       `json:"filter,omitempty"`
}

// EventStep is a step of a workflow run that waits for an event.
type EventStep struct {
	RunID         schema.RunID `json:"run_id" doc:"The run of the step"`
	WorkflowRunID schema.RunID `json:"workflow_run_id"`
	Workflow      string       `json:"workflow,omitempty"`
	Step          string       `json:"step"`
	Filter        string       `json:"filter,omitempty"`
	Since         Time         `json:"since"`
}

// maxHearers bounds the subscriptions of an event that are looked at for one answer.
const maxHearers = 200

// eventRoutes serves events.
type eventRoutes struct{ *Server }

func (s eventRoutes) route() {
	post := s.operation("publish-event", http.MethodPost, eventsPath+"/{name}", "Publish an event: the jobs and workflows start that run on it, and steps go on that wait for it", 202, 400, 408, 413, 415, 422, 429, 503)
	post.Description = "The answer comes when the event is durable. A job or workflow that was answered before starts one run of it at most, whose payload is the body. Names that begin with run., dead_letter. and workflow. are those of the system. " +
		"Clients of NATS publish to the subject carillon.event.<tenant>.<name> by JetStream, with a colon for each dot of the tenant; a Nats-Msg-Id is the idempotency key. Who may publish for a tenant is a permission of NATS, on carillon.event.<tenant>.>"
	huma.Register(s.api, post, s.publish)
	s.describeBody(eventsPath+"/{name}", http.MethodPost, reflect.TypeFor[json.RawMessage](), "application/json")
	huma.Register(s.api, s.operation("list-event-hearers", http.MethodGet, eventsPath+"/{name}/hearers", "Who would hear of an event if it was published now: jobs and workflows that run on it, and steps that wait for it", 200, 422, 503), s.hearers)
	huma.Register(s.api, s.operation("list-events", http.MethodGet, eventsPath, "Events of a window, in the order in which they were accepted. An answer may hold fewer items than limit, even none, and still have next_cursor", 200, 422, 503), s.list)
}

func (s eventRoutes) publish(ctx context.Context, in *eventPost) (*eventAnswer, error) {
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	value, err := request.ReadEvent(d, in.Name, text)
	key, faults := idempotencyKey(in.Key)
	if err = also(err, faults); err != nil {
		return nil, s.fail(ctx, "publish event", err)
	}
	hash := ""
	if key != "" {
		hash = "event " + d.BodyHash()
	}
	receipt, err := s.deps.Events.Publish(ctx, tenantOf(ctx), in.Name, value, key, hash)
	if err != nil {
		return nil, s.fail(ctx, "publish event", err)
	}
	out := &eventAnswer{Status: http.StatusAccepted, Location: "/v1/runs?event=" + receipt.Run.String(), Body: EventReceipt{ID: receipt.Run}}
	if receipt.Existing {
		out.Replayed = "true"
	} else {
		s.noteEvent(ctx, in.Name, receipt.Run)
	}
	return out, nil
}

func (s eventRoutes) hearers(ctx context.Context, in *hearersOf) (*hearersAnswer, error) {
	if what := bucketer.NameFault(in.Name); what != "" {
		return nil, invalid(bucketer.Fault{Location: "path.name", Message: what, Value: in.Name})
	}
	found, err := s.deps.Events.Hearers(ctx, tenantOf(ctx), in.Name, maxHearers)
	if err != nil {
		return nil, s.fail(ctx, "list hearers of event", err)
	}
	out := &hearersAnswer{EventHearers{Jobs: []EventJob{}, Steps: []EventStep{}, More: found.More}}
	for i := range found.Jobs {
		job := &found.Jobs[i]
		kind := "job"
		if isWorkflow(job) {
			kind = "workflow"
		}
		out.Body.Jobs = append(out.Body.Jobs, EventJob{ID: job.ID, Name: job.Current.Spec.Name, Kind: kind, Filter: job.Current.Spec.On.Filter})
	}
	for i := range found.Steps {
		step := &found.Steps[i].Step.Entry
		out.Body.Steps = append(out.Body.Steps, EventStep{
			RunID: step.ID, WorkflowRunID: step.Spec.Step.Workflow, Workflow: found.Steps[i].Workflow, Step: step.Spec.Step.Name,
			Filter: step.Spec.Step.Wait.Filter, Since: Time{step.Due()},
		})
	}
	return out, nil
}

// maxWaitedFor bounds the events of one list of workflows that are looked at for runs that wait.
const maxWaitedFor = 100

// noteWaiting adds to workflows which of their runs wait for events that their steps name.
func (s eventRoutes) noteWaiting(ctx context.Context, jobs []schema.Job, shown []Workflow) error {
	named := make(map[string][]int) // the workflows whose steps wait for an event
	for i := range jobs {
		w := jobs[i].Current.Spec.Workflow
		if jobs[i].Current.Fault != nil || w == nil {
			continue
		}
		def, err := orchestration.DecodeDefinition(w.Definition)
		if err != nil {
			continue // its fault says so
		}
		for j := range def.Steps {
			if wait := def.Steps[j].Wait; wait != nil && wait.Event != "" && !slices.Contains(named[wait.Event], i) {
				named[wait.Event] = append(named[wait.Event], i)
			}
		}
	}
	names := slices.Sorted(maps.Keys(named))
	names = names[:min(len(names), maxWaitedFor)]
	found := make([]events.Hearers, len(names))
	g, bounded := errgroup.WithContext(ctx)
	g.SetLimit(checksAtOnce)
	for i, name := range names {
		g.Go(func() (err error) {
			found[i], err = s.deps.Events.Hearers(bounded, tenantOf(ctx), name, maxHearers)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, name := range names {
		runs := make(map[string]map[schema.RunID]bool) // that wait, by workflow
		for j := range found[i].Steps {
			step := &found[i].Steps[j]
			if runs[step.Workflow] == nil {
				runs[step.Workflow] = make(map[schema.RunID]bool)
			}
			runs[step.Workflow][step.Step.Entry.Spec.Step.Workflow] = true
		}
		for _, w := range named[name] {
			if n := len(runs[shown[w].Name]); n > 0 {
				shown[w].Waiting = append(shown[w].Waiting, WorkflowWaiting{Event: name, Runs: n, More: found[i].More})
			}
		}
	}
	return nil
}

func (s eventRoutes) list(ctx context.Context, in *eventFilter) (*eventList, error) {
	w := runs.Window{Tenant: tenantOf(ctx), From: in.From.UTC(), To: in.To.UTC()}
	faults := append(checkWindow(w.From, w.To, maxEventsWindow), beforeKept(ctx, s.Server, in.Cursor, w.From)...)
	if in.Name != "" {
		if what := bucketer.NameFault(in.Name); what != "" {
			faults = append(faults, bucketer.Fault{Location: "query.name", Message: what, Value: in.Name})
		}
	}
	var pos runs.Position
	question := []any{"events", w, in.Name}
	if err := s.goOn(in.Cursor, question, &pos, faults); err != nil {
		return nil, err
	}
	found, next, err := s.deps.Events.Events(ctx, w, in.Name, pos, in.Limit)
	if err != nil {
		return nil, s.fail(ctx, "list events", err)
	}
	out := new(eventList)
	out.Body.Items = []Event{}
	for i := range found {
		out.Body.Items = append(out.Body.Items, eventOf(&found[i]))
	}
	if next != nil {
		if out.Body.NextCursor, err = s.cursors.make(question, next); err != nil {
			return nil, s.fail(ctx, "list events", err)
		}
	}
	return out, nil
}

// runsOfEvent answers the runs that an event started, a page of them.
func (s eventRoutes) runsOfEvent(ctx context.Context, in *runFilter) (*runList, error) {
	faults := in.besides("event")
	id, err := schema.ParseEntryID(in.Event)
	if err != nil {
		faults = append(faults, bucketer.Fault{Location: "query.event", Message: "is not the id of an event", Value: in.Event})
	}
	from := 0
	question := []any{"runs of event", tenantOf(ctx), id}
	if err := s.goOn(in.Cursor, question, &from, faults); err != nil {
		return nil, err
	}
	found, more, err := s.deps.Events.RunsOf(ctx, tenantOf(ctx), id, from, in.Limit)
	if err != nil {
		return nil, s.fail(ctx, "list runs of event", or(err, notFound("There is no event with this id.")))
	}
	if more {
		return runRoutes(s).answerRuns(ctx, found, question, from+in.Limit)
	}
	return runRoutes(s).answerRuns(ctx, found, question, nil)
}
