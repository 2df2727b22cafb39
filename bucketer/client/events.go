package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"time"
)

// Events are what can be asked for about events.
type Events struct{ node *node }

// Publish publishes an event, and returns its id once it is durable. The body is anything that
// encodes as JSON; it is the payload of the runs that the event starts.
func (e Events) Publish(ctx context.Context, name string, body any, options ...CreateOption) (EventID, error) {
	text, err := encode(body) // nil is null
	if err != nil {
		return EventID{}, Faults{{Location: "body", Message: "cannot be encoded as JSON: " + err.Error()}}
	}
	out, err := ask[struct {
		ID EventID `json:"id"`
	}](ctx, e.node, question{path: []string{"events", name}, body: json.RawMessage(text)}.create(options))
	return out.ID, err
}

// EventQuery selects events by when they were accepted, From ≤ accepted < To.
type EventQuery struct {
	From, To time.Time // must be stated
	Name     string    // "": of any name
}

// List returns the events of a window, in the order in which they were accepted. It asks for an
// hour at a time, and ends with the first error.
func (e Events) List(ctx context.Context, q EventQuery) iter.Seq2[Event, error] {
	return listWindow[Event](ctx, e.node, q.From, q.To, stated(map[string]string{"name": q.Name}), "events")
}

// Runs returns the runs that an event started, in the order in which they were planned. They are
// planned soon after the event: at first there may be none. It ends with the first error.
func (e Events) Runs(ctx context.Context, id EventID) iter.Seq2[Run, error] {
	return list[Run](ctx, e.node, url.Values{"event": {id.String()}}, "runs")
}
