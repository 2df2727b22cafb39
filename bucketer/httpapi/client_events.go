package httpapi

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"

	"carillon.dev/carillon/schema"
)

// EventQuery says which events to list: those accepted at From or later, before To, of a name; "": of
// any.
type EventQuery struct {
	Name     string
	From, To time.Time
	Limit    int // the most items of one request; 0: the default
}

// PublishEvent publishes an event, with any JSON as body, and returns its id once it is durable. About
// key see CreateJob.
func (c *Client) PublishEvent(ctx context.Context, name string, event json.RawMessage, key string) (schema.EntryID, error) {
	var out EventReceipt
	_, err := c.call(ctx, ask{
		method: http.MethodPost, path: eventsPath + "/" + url.PathEscape(name), body: event, header: keyed(key), repeatable: key != "",
	}, &out)
	return out.ID, err
}

// Events returns the events of q, in the order in which they were accepted. It ends with the first
// error.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[Event, error] {
	v := url.Values{"from": {q.From.UTC().Format(time.RFC3339Nano)}, "to": {q.To.UTC().Format(time.RFC3339Nano)}}
	if q.Name != "" {
		v.Set("name", q.Name)
	}
	return func(yield func(Event, error) bool) { eachItem(ctx, c, eventsPath, v, q.Limit, yield) }
}

// Stuck returns the runs that wait for other jobs beyond their deadline, in the order in which their
// chains began; limit is of one request. It ends with the first error.
func (c *Client) Stuck(ctx context.Context, limit int) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) { eachItem(ctx, c, stuckPath, url.Values{}, limit, yield) }
}

// RunsOfEvent returns the runs that an event started, in the order in which they were planned. It ends
// with the first error.
func (c *Client) RunsOfEvent(ctx context.Context, id schema.EntryID, limit int) iter.Seq2[Run, error] {
	v := url.Values{"event": {id.String()}}
	return func(yield func(Run, error) bool) { eachItem(ctx, c, "/v1/runs", v, limit, yield) }
}
