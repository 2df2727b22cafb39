package schema

import (
	"context"
	"maps"
	"slices"
	"time"
)

// NotificationKind is what a notification may be about.
type NotificationKind string

// The kinds. They are stored: never change their values.
const (
	NotifyFailed    NotificationKind = "failed"    // a run, or a step, failed for good
	NotifyDead      NotificationKind = "dead"      // a dead letter was written: as failed, without steps
	NotifyMissed    NotificationKind = "missed"    // a run was recorded as missed
	NotifyLate      NotificationKind = "late"      // a run started more than LateStart after its time
	NotifyStuck     NotificationKind = "stuck"     // a run waits for other jobs beyond its deadline
	NotifyPaused    NotificationKind = "paused"    // a job was paused since its runs fail (JobSpec.PauseAfter)
	NotifyRecovered NotificationKind = "recovered" // a job succeeded after what is above
)

// NotificationKinds are all kinds. Do not modify.
var NotificationKinds = []NotificationKind{NotifyFailed, NotifyDead, NotifyMissed, NotifyLate, NotifyStuck, NotifyPaused, NotifyRecovered}

// Bounds of notifications.
const (
	MaxNotifications      = 100  // rules of a tenant
	MaxNotificationSinks  = 5    // of a rule
	MaxNotificationGroups = 1000 // of a tenant; what finds no place is told together, as the group *
	MaxNotifiedRuns       = 5    // examples in a message
	MaxNotifiedJobs       = 100  // of a group, whose recovery is watched
	// IncidentRetention is how long an incident stays: longer than any owner is away from its tenant.
	IncidentRetention = 25 * time.Hour
)

// Notifying is the name under which it is kept that a tenant has rules for notifications
// (SubscriptionStore.PutListening). No tenant has such a name.
func Notifying(tenant string) string { return tenant + notifyingSuffix }

const notifyingSuffix = "/notifications"

// NotificationRule says of what a tenant is told, where, and how often. The words for how often are
// those of Prometheus Alertmanager.
type NotificationRule struct {
	Tenant string `json:"-"`
	Name   string `json:"-"` // unique in the tenant

	Description string             `json:"description,omitempty"`
	On          []NotificationKind `json:"on"`
	Match       NotificationMatch  `json:"match,omitzero"`
	Sinks       []NotificationSink `json:"sinks"`

	// GroupBy: what is alike in these is told together: job, task, workflow, kind, error (what errors
	// of a kind share), and label.NAME.
	GroupBy        []string           `json:"group_by"`
	GroupWait      Duration           `json:"group_wait"`      // from the first of a group to its message
	GroupInterval  Duration           `json:"group_interval"`  // between messages of a group that has more to tell
	RepeatInterval Duration           `json:"repeat_interval"` // between messages of a group that still stands
	SendResolved   bool               `json:"send_resolved"`   // a message when all jobs of a group succeeded again
	Mute           []MuteTimeInterval `json:"mute_time_intervals,omitempty"`

	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by,omitempty"`
	// UpdatedAt is the write timestamp, µs.
	UpdatedAt time.Time `json:"updated_at"`
	// BeganAt is when the rule began to take what it takes: what happened before is not told. A
	// rule that is put again with another On, Match or GroupBy begins anew: its groups are others.
	// Zero: UpdatedAt, as older versions write it (Began).
	BeganAt time.Time `json:"began_at,omitzero"`

	// Fault is set in a list where the stored text cannot be understood (ErrNotUnderstood). Then all
	// but the names is unknown.
	Fault error `json:"-"`
}

// Began returns when the rule began to take what it takes.
func (r *NotificationRule) Began() time.Time {
	if r.BeganAt.IsZero() {
		return r.UpdatedAt
	}
	return r.BeganAt
}

// TakesAs reports whether r takes and groups what other does.
func (r *NotificationRule) TakesAs(other *NotificationRule) bool {
	m, o := &r.Match, &other.Match
	return slices.Equal(r.On, other.On) && slices.Equal(r.GroupBy, other.GroupBy) &&
		m.Job == o.Job && m.Task == o.Task && m.Workflow == o.Workflow && m.InARow == o.InARow && m.LateBy == o.LateBy && maps.Equal(m.Labels, o.Labels)
}

// NotificationMatch selects runs: all that is stated must fit. A text is equal, or a glob, in which *
// stands for any characters and ? for one.
type NotificationMatch struct {
	Job      string            `json:"job,omitempty"` // its name
	Task     string            `json:"task,omitempty"`
	Workflow string            `json:"workflow,omitempty"` // its name; steps bear its labels, not its name
	Labels   map[string]string `json:"labels,omitempty"`
	// InARow: only runs that failed, of jobs of which at least so many runs in a row have failed;
	// 0: all.
	InARow int `json:"in_a_row,omitempty"`
	// LateBy: of runs that were late only those that started at least so much after their time; 0:
	// all, which are those that started more than LateStart after it.
	LateBy Duration `json:"late_by,omitempty"`
}

// The bounds of NotificationMatch.InARow.
const (
	MinInARow = 2
	MaxInARow = 100
)

// MaxLateBy bounds NotificationMatch.LateBy.
const MaxLateBy = 24 * time.Hour

// NotificationSink is where messages go: exactly one field is set. Each is called as a task is.
type NotificationSink struct {
	Webhook      *HTTPTarget `json:"webhook,omitempty"`      // Standard Webhooks
	Slack        *HTTPTarget `json:"slack,omitempty"`        // an incoming webhook of Slack
	Teams        *HTTPTarget `json:"teams,omitempty"`        // a workflow of Microsoft Teams
	Alertmanager *HTTPTarget `json:"alertmanager,omitempty"` // its API v2: the URL of /api/v2/alerts

	PagerDuty *PagerDutySink `json:"pagerduty,omitempty"`
	Email     *EmailTarget   `json:"email,omitempty"`
}

// PagerDutySink is an integration of PagerDuty with its Events API v2. A group is one incident.
type PagerDutySink struct {
	RoutingKeySecret string          `json:"routing_key_secret"` // the tenant's secret that holds the integration's key
	URL              string          `json:"url,omitempty"`      // default DefaultPagerDutyURL
	Severity         string          `json:"severity,omitempty"` // one of PagerDutySeverities; default error
	Links            []PagerDutyLink `json:"links,omitempty"`    // shown with the incident, such as a runbook
}

// PagerDutyLink is a link that PagerDuty shows.
type PagerDutyLink struct {
	Href string `json:"href"`
	Text string `json:"text,omitempty"`
}

const (
	// DefaultPagerDutyURL is where PagerDuty takes events of accounts in the US region.
	DefaultPagerDutyURL = "https://events.pagerduty.com/v2/enqueue"
	// MaxPagerDutyLinks bounds the links of a sink.
	MaxPagerDutyLinks = 5

	defaultSeverity = "error"
)

// PagerDutySeverities are what PagerDuty takes for a severity. Do not modify.
var PagerDutySeverities = []string{"critical", defaultSeverity, "warning", "info"}

// InForce returns s with every default filled in.
func (s *PagerDutySink) InForce() PagerDutySink {
	out := *s
	out.URL, out.Severity = or(out.URL, DefaultPagerDutyURL), or(out.Severity, defaultSeverity)
	return out
}

// call returns how PagerDuty is called: its key is a member of the body.
func (s *PagerDutySink) call() *HTTPTarget {
	return &HTTPTarget{URL: s.InForce().URL, Auth: &HTTPAuth{Field: &BodyFieldAuth{Name: "routing_key", Secret: s.RoutingKeySecret}}}
}

// The names of sinks.
const (
	SinkWebhook      = "webhook"
	SinkSlack        = "slack"
	SinkTeams        = "teams"
	SinkAlertmanager = "alertmanager"
	SinkPagerDuty    = "pagerduty"
	SinkEmail        = "email"
)

// NotificationSinks are the names of all sinks. Do not modify.
var NotificationSinks = []string{SinkWebhook, SinkSlack, SinkTeams, SinkAlertmanager, SinkPagerDuty, SinkEmail}

// Target returns which sink it is, and what is called; "" if it is none that this build knows.
func (s *NotificationSink) Target() (name string, to Work) {
	switch {
	case s.Webhook != nil:
		return SinkWebhook, Work{HTTP: s.Webhook}
	case s.Slack != nil:
		return SinkSlack, Work{HTTP: s.Slack}
	case s.Teams != nil:
		return SinkTeams, Work{HTTP: s.Teams}
	case s.Alertmanager != nil:
		return SinkAlertmanager, Work{HTTP: s.Alertmanager}
	case s.PagerDuty != nil:
		return SinkPagerDuty, Work{HTTP: s.PagerDuty.call()}
	case s.Email != nil:
		return SinkEmail, Work{Email: s.Email}
	}
	return "", Work{}
}

// MuteTimeInterval is a span in which no message is sent, in the words of Alertmanager: an instant lies
// in it if it fits every field that is stated. Months, days and weekdays may be ranges: "monday:friday".
type MuteTimeInterval struct {
	Times       []MuteTimes `json:"times,omitempty"`
	Weekdays    []string    `json:"weekdays,omitempty"`      // "monday", "monday:friday"
	DaysOfMonth []string    `json:"days_of_month,omitempty"` // "1:5"; below zero counts from the end: "-3:-1"
	Months      []string    `json:"months,omitempty"`        // "january:march", "12"
	Years       []string    `json:"years,omitempty"`         // "2026:2028"
	Location    string      `json:"location,omitempty"`      // a time zone; "": UTC
}

// MuteTimes is a part of each day, from StartTime up to and without EndTime: "22:00" to "24:00".
type MuteTimes struct {
	StartTime string `json:"start_time"`
	EndTime   string `json:"end_time"`
}

// Incident says that something happened to a run of which its tenant may be told. It is written once for
// each record of an attempt, under an id that follows from the record, so that what is found again is
// not counted again.
type Incident struct {
	Tenant string  `json:"-"`
	ID     EntryID `json:"-"` // the instant, and a hash of what happened

	Kinds    []NotificationKind `json:"kinds"`
	Run      RunID              `json:"run"`
	Job      JobID              `json:"job,omitzero"` // of a job that can have many runs
	JobName  string             `json:"job_name,omitempty"`
	Task     string             `json:"task,omitempty"`
	Workflow string             `json:"workflow,omitempty"`
	Step     string             `json:"step,omitempty"`
	Labels   map[string]string  `json:"labels,omitempty"`
	Error    string             `json:"error,omitempty"`   // its begin
	Pattern  string             `json:"pattern,omitempty"` // what errors of this kind share
	Status   int                `json:"status,omitempty"`
	// InARow is how many runs of the job in a row have failed, as far as a rule asked when it was
	// written; 0: none asked.
	InARow int `json:"in_a_row,omitempty"`
	// Late is how long after its time the run started; 0: it is not known, or the run was not late.
	Late Duration `json:"late,omitempty"`

	Expires time.Time `json:"-"` // when it leaves; not read back
	// Fault is set where the stored text cannot be understood (ErrNotUnderstood).
	Fault error `json:"-"`
}

// NotifiedRun is an example of what a message tells.
type NotifiedRun struct {
	Run   RunID            `json:"run"`
	Kind  NotificationKind `json:"kind"`
	At    time.Time        `json:"at"`
	Job   string           `json:"job,omitempty"`
	Task  string           `json:"task,omitempty"`
	Step  string           `json:"step,omitempty"`
	Error string           `json:"error,omitempty"`
}

// NotifiedJob is a job of a group that has not succeeded since Last.
type NotifiedJob struct {
	ID   JobID     `json:"id"`
	Name string    `json:"name,omitempty"`
	Last time.Time `json:"last"`
}

// NotificationValue is what the incidents of a group have in common.
type NotificationValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// NotificationGroup is a row for what one rule tells together. It says how many incidents were counted,
// and what was told last: a message follows from the row.
type NotificationGroup struct {
	Tenant   string `json:"-"`
	Name     string `json:"-"` // the rule's, a slash, and a hash of the values
	Revision int64  `json:"-"` // drawn for every change, and higher than the one before

	Rule   string              `json:"rule"`
	RuleAt time.Time           `json:"rule_at"` // Began of the rule
	Values []NotificationValue `json:"values,omitempty"`

	// Counted is how many incidents of a minute (their bucket) are in Untold, or were told.
	Counted map[Bucket]int64 `json:"counted,omitempty"`
	Untold  int64            `json:"untold,omitempty"`
	Since   time.Time        `json:"since,omitzero"` // of the first incident since the group fires; zero: it never did
	First   time.Time        `json:"first,omitzero"` // of the first that is not told of a group that does not fire; zero: unknown

	Flush    int64         `json:"flush,omitempty"` // the number of the last message; 0: none was sent
	At       time.Time     `json:"at,omitzero"`     // of that message, UTC, to the ms
	Shard    Shard         `json:"shard,omitempty"` // of its runs
	Told     int64         `json:"told,omitempty"`  // incidents that it told of …
	Total    int64         `json:"total,omitempty"` // … and all messages since the group fires
	Examples []NotifiedRun `json:"examples,omitempty"`
	Resolved bool          `json:"resolved,omitempty"` // the last message said that all is well again
	Silent   bool          `json:"silent,omitempty"`   // nothing was sent at the last flush
	Sinks    int           `json:"sinks,omitempty"`    // to how many of the rule's sinks the message goes; 0: to all

	Jobs     []NotifiedJob `json:"jobs,omitempty"`
	MoreJobs bool          `json:"more_jobs,omitempty"` // there are others, which are not watched

	// Closed is, in the row named NotificationCursor, up to which minute all incidents are counted.
	Closed Bucket `json:"closed,omitempty"`

	// Fault is set where the stored text cannot be understood (ErrNotUnderstood).
	Fault error `json:"-"`
}

// NotificationCursor is the name of the group that is none: it says how far a tenant's incidents are
// counted. No rule has such a name.
const NotificationCursor = "/cursor"

// Follows returns an error if g may not replace the group of revision was.
func (g *NotificationGroup) Follows(was int64) error {
	if g.Revision <= was || was < 0 {
		return errRevision
	}
	return nil
}

// NotificationStore holds the rules of tenants.
type NotificationStore interface {
	// PutNotification creates or replaces a rule. Of two writes the one with the later UpdatedAt
	// stands.
	PutNotification(ctx context.Context, r NotificationRule) error
	// DeleteNotification removes a rule as of that instant.
	DeleteNotification(ctx context.Context, tenant, name string, at time.Time) error
	// Notification returns a rule, or ErrNotFound, or ErrNotUnderstood.
	Notification(ctx context.Context, tenant, name string) (NotificationRule, error)
	// Notifications returns at most limit rules of a tenant with a name after `after`, in name order.
	Notifications(ctx context.Context, tenant, after string, limit int) ([]NotificationRule, error)
}

// IncidentStore holds what tenants are to be told, and how far they were.
type IncidentStore interface {
	// PutIncidents writes incidents. Those of one tenant and minute that are beside one another are
	// written together. Writing one again is harmless. Errors as PutEntries.
	PutIncidents(ctx context.Context, incidents []Incident) error
	// Incidents returns a tenant's incidents of a minute with an id after `after`, in id order, at most
	// limit. Fewer than limit means that there are no more.
	Incidents(ctx context.Context, tenant string, minute Bucket, after EntryID, limit int) ([]Incident, error)
	// SwapNotificationGroup replaces the group, as read at revision was (0: there is none), by is.
	// Errors as SecretStore.SwapSecret.
	SwapNotificationGroup(ctx context.Context, was int64, is NotificationGroup) error
	// DeleteNotificationGroup removes the group that was read at revision was. Errors as
	// SecretStore.DeleteSecret.
	DeleteNotificationGroup(ctx context.Context, tenant, name string, was int64) error
	// NotificationGroups returns a tenant's groups with a name after `after`, in name order, at most
	// limit.
	NotificationGroups(ctx context.Context, tenant, after string, limit int) ([]NotificationGroup, error)
}
