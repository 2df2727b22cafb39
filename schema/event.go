package schema

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Event says which event a row is about: what an entry of KindEvent is, or what started a run.
type Event struct {
	Name string `json:"name"`
	// ID is the event that started the run; zero in the entry of the event itself.
	ID EntryID `json:"id,omitzero"`
	// Depth is how many events led to this one, each started by a run that the one before started.
	Depth int `json:"depth,omitempty"`
}

// The events of the system. Their bodies say what became of a run (package runs).
const (
	EventRunSucceeded   = "run.succeeded"
	EventRunFailed      = "run.failed"
	EventRunMissed      = "run.missed"
	EventRunLate        = "run.late" // it started more than LateStart after its time
	EventDeadLetter     = "dead_letter.created"
	EventWorkflowFailed = "workflow.failed"
	EventWorkflowStuck  = "workflow.stuck" // the deadline of a join has passed
)

// SystemEvents are the names of all events of the system. Do not modify.
var SystemEvents = []string{EventRunSucceeded, EventRunFailed, EventRunMissed, EventRunLate, EventDeadLetter, EventWorkflowFailed, EventWorkflowStuck}

const (
	// LateStart is the lateness of a first start beyond which EventRunLate follows.
	LateStart = time.Second
	// MaxEventDepth bounds how many events may lead to one another. The next one is dropped.
	MaxEventDepth = 16
)

// IsSystemEvent reports whether a name is that of an event of the system, which no client publishes:
// it begins with run., dead_letter. or workflow.
func IsSystemEvent(name string) bool {
	noun, _, ok := strings.Cut(name, ".")
	return ok && slices.Contains([]string{"run", "dead_letter", "workflow"}, noun)
}

// Dependents is the name under which it is kept that jobs of a tenant run after others. No tenant
// has such a name.
func Dependents(tenant string) string { return tenant + "/dependents" }

// EventTrigger says which events start a run of a job.
type EventTrigger struct {
	Event string `json:"event"`
	// Filter is a CEL expression over event, the body; "": all of them.
	Filter string `json:"filter,omitempty"`
	// Delay is from the event to the run's due time.
	Delay Duration `json:"delay,omitempty"`
}

// Subscription says that somebody is to hear of a tenant's events of one name. Whether he still
// wants to, and which of them, his own row says.
type Subscription struct {
	Tenant, Event string
	// Subscriber is a job, by its id, or the run of a step that waits.
	Subscriber EntryID
	// Written is the instant of the put or deletion, µs.
	Written time.Time
	// Expires is when it leaves; zero: never.
	Expires time.Time
}

// SubscriptionStore holds who is to hear of events.
type SubscriptionStore interface {
	// PutSubscription writes a subscription. Of a put and a deletion the one with the later Written
	// stands; of the same instant the deletion. Errors as EntryWriter.PutEntries.
	PutSubscription(ctx context.Context, s Subscription) error
	// DeleteSubscription removes it as of Written. One that is not there is removed all the same.
	DeleteSubscription(ctx context.Context, s Subscription) error
	// PutListening notes as of that instant that something follows from the ends of runs of a
	// tenant: its name is that of the tenant, or Dependents of it. Keeping of it is noted likewise.
	// It is never taken back.
	PutListening(ctx context.Context, name string, at time.Time) error
	// Listening returns those names, after that one, in order, at most limit.
	Listening(ctx context.Context, after string, limit int) ([]string, error)
	// Subscribers returns who is to hear of an event, jobs before steps, each in the order of their
	// ids, after that subscriber, at most limit. Fewer than limit means that there are no more.
	Subscribers(ctx context.Context, tenant, event string, after EntryID, limit int) ([]EntryID, error)
}
