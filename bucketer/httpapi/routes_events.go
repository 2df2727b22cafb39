package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
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
	Body       json.RawMessage `json:"body,omitempty" doc:"Only if it is at most 4 KiB"`
}

func eventOf(e *schema.Entry) Event {
	return Event{ID: e.ID, Tenant: e.Spec.Tenant, Name: e.Spec.Event.Name, AcceptedAt: Time{e.ID.Time()}, Body: e.Payload}
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
	eventList struct {
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

// eventRoutes serves events.
type eventRoutes struct{ *Server }

func (s eventRoutes) route() {
	post := s.operation("publish-event", http.MethodPost, eventsPath+"/{name}", "Publish an event: the jobs and workflows start that run on it, and steps go on that wait for it", 202, 400, 408, 413, 415, 422, 429, 503)
	post.Description = "The answer comes when the event is durable. A job or workflow that was answered before starts one run of it at most, whose payload is the body. Names that begin with run., dead_letter. and workflow. are those of the system. " +
		"Clients of NATS publish to the subject carillon.event.<tenant>.<name> by JetStream, with a colon for each dot of the tenant; a Nats-Msg-Id is the idempotency key. Who may publish for a tenant is a permission of NATS, on carillon.event.<tenant>.>"
	huma.Register(s.api, post, s.publish)
	s.describeBody(eventsPath+"/{name}", http.MethodPost, reflect.TypeFor[json.RawMessage](), "application/json")
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
	}
	return out, nil
}

func (s eventRoutes) list(ctx context.Context, in *eventFilter) (*eventList, error) {
	w := runs.Window{Tenant: tenantOf(ctx), From: in.From.UTC(), To: in.To.UTC()}
	faults := checkWindow(w.From, w.To, maxEventsWindow)
	if in.Name != "" {
		if what := bucketer.NameFault(in.Name); what != "" {
			faults = append(faults, bucketer.Fault{Location: "query.name", Message: what, Value: in.Name})
		}
	}
	var pos runs.Position
	question := []any{"events", w, in.Name}
	if in.Cursor != "" && len(faults) == 0 {
		var p *Problem
		if err := s.cursors.read(in.Cursor, question, &pos); errors.As(err, &p) {
			faults = append(faults, p.Errors...)
		}
	}
	if len(faults) > 0 {
		return nil, invalid(faults...)
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
