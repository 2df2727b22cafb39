package client

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"carillon.dev/carillon/schema"
)

// Notifications are what can be asked for about rules by which a tenant is told what happens to its
// runs.
type Notifications struct{ node *node }

// NotificationKind is what a notification may be about.
type NotificationKind = schema.NotificationKind

// The kinds.
const (
	NotifyFailed    = schema.NotifyFailed    // a run, or a step, failed for good
	NotifyDead      = schema.NotifyDead      // a dead letter was written
	NotifyMissed    = schema.NotifyMissed    // a run was recorded as missed
	NotifyLate      = schema.NotifyLate      // a run started more than a second after its time
	NotifyStuck     = schema.NotifyStuck     // a run waits for other jobs beyond its deadline
	NotifyPaused    = schema.NotifyPaused    // a job was paused since its runs fail
	NotifyRecovered = schema.NotifyRecovered // all jobs of a group have succeeded since
)

// NotificationMatch selects runs: all that is stated must fit. A text is equal, or a glob, in which
// * stands for any characters and ? for one.
type NotificationMatch = schema.NotificationMatch

// MuteTimeInterval is a span in which nothing is sent, in the words of Prometheus Alertmanager.
type MuteTimeInterval = schema.MuteTimeInterval

// MuteTimes is a part of each day.
type MuteTimes = schema.MuteTimes

// Notification is a rule. Zero fields have the defaults of Alertmanager.
type Notification struct {
	Description string             `json:"description,omitempty"`
	On          []NotificationKind `json:"on"`
	Match       NotificationMatch  `json:"match,omitzero"`
	Sinks       []NotificationSink `json:"sinks"`
	// GroupBy: what is alike in these is told together: job, task, workflow, kind, error,
	// label.NAME; nil: job and error.
	GroupBy        []string           `json:"group_by,omitzero"`
	GroupWait      Duration           `json:"group_wait,omitzero"`      // from the first of a group to its message
	GroupInterval  Duration           `json:"group_interval,omitzero"`  // between messages of a group that has more to tell
	RepeatInterval Duration           `json:"repeat_interval,omitzero"` // between messages of a group that still stands
	SendResolved   *bool              `json:"send_resolved,omitempty"`  // a message when all is well again; nil: true
	Mute           []MuteTimeInterval `json:"mute_time_intervals,omitempty"`
}

// NotificationSink is where messages go: exactly one field is set.
type NotificationSink struct {
	Webhook      *SinkCall `json:"webhook,omitempty"` // as Standard Webhooks has it
	Slack        *SinkCall `json:"slack,omitempty"`
	Teams        *SinkCall `json:"teams,omitempty"`
	Alertmanager *SinkCall `json:"alertmanager,omitempty"` // the URL of its /api/v2/alerts

	PagerDuty *PagerDutySink `json:"pagerduty,omitempty"`
	Email     *EmailTarget   `json:"email,omitempty"`
}

// EmailTarget is to whom mails go, and by which mail server.
type EmailTarget = schema.EmailTarget

// EmailServer is a mail server.
type EmailServer = schema.EmailServer

// PagerDutySink is an integration of PagerDuty with its Events API v2. A group is one incident.
type PagerDutySink = schema.PagerDutySink

// PagerDutyLink is a link that PagerDuty shows with an incident.
type PagerDutyLink = schema.PagerDutyLink

// SinkCall is how a sink is called. Either URL or URLSecret is set.
type SinkCall struct {
	URL        string            `json:"url,omitempty"`
	URLSecret  string            `json:"url_secret,omitempty"` // the tenant's secret that holds the URL
	Headers    map[string]string `json:"headers,omitempty"`
	SigningKey string            `json:"signing_key,omitempty"` // of the tenant
	Auth       *HTTPAuth         `json:"auth,omitempty"`
}

// NotificationInfo is a rule as the API answers it, with the values in force.
type NotificationInfo struct {
	Name   string `json:"name"`
	Tenant string `json:"tenant"`
	Notification
	CreatedAt time.Time `json:"created_at,omitzero"`
	CreatedBy string    `json:"created_by,omitempty"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	BeganAt   time.Time `json:"began_at,omitzero"` // what happened before is not told
	// State is how it stands; nil in the answer to Put.
	State *NotificationState `json:"state,omitempty"`
	// Fault is why nothing but the name is known: the node does not understand what is stored.
	Fault string `json:"fault,omitempty"`
}

// NotificationState is how a rule stands.
type NotificationState struct {
	Muted         bool       `json:"muted"`  // a mute time interval lasts: nothing is sent
	Firing        int        `json:"firing"` // groups of which a message told, and none that all is well again
	Untold        int64      `json:"untold"` // what happened and no message told yet, as far as it is written
	LastMessageAt time.Time  `json:"last_message_at,omitzero"`
	Deliveries    []Delivery `json:"deliveries,omitempty"` // of that message, by sink
}

// Delivery is what became of a message at a sink.
type Delivery struct {
	Sink  string `json:"sink"`
	Run   RunID  `json:"run_id"`
	State State  `json:"state,omitempty"` // of the run; "": it is not there
}

// Put creates the rule of a name, or replaces it. With another On, Match or GroupBy it begins anew.
func (s Notifications) Put(ctx context.Context, name string, n Notification) (NotificationInfo, error) {
	return ask[NotificationInfo](ctx, s.node, question{method: http.MethodPut, path: []string{"notifications", name}, body: n})
}

// Get returns a rule.
func (s Notifications) Get(ctx context.Context, name string) (NotificationInfo, error) {
	return ask[NotificationInfo](ctx, s.node, question{method: http.MethodGet, path: []string{"notifications", name}})
}

// List returns the rules, by name. It ends with the first error.
func (s Notifications) List(ctx context.Context) iter.Seq2[NotificationInfo, error] {
	return list[NotificationInfo](ctx, s.node, nil, "notifications")
}

// Delete deletes a rule: within seconds nothing is told by it. One that does not exist is deleted
// already.
func (s Notifications) Delete(ctx context.Context, name string) error {
	_, err := s.node.send(ctx, &question{method: http.MethodDelete, path: []string{"notifications", name}})
	var e *Error
	if errors.As(err, &e) && e.Kind == "not-found" { // as an earlier try may have done
		return nil
	}
	return err
}
