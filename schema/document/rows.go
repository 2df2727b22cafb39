package document

import (
	"context"
	"encoding/json"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/damage"
)

// Kind says what a document is about, and so in which table it lies.
type Kind string

// The kinds, and what their scopes and names are. SigningKeys, Secrets and NotificationGroups are
// swapped, all others are put.
const (
	Tenant        Kind = "tenant"         // name: the tenant's
	Task          Kind = "task"           // scope: the tenant; name: the task's
	RatedTask     Kind = "rated task"     // name: see RatedName; it has no text
	Operation     Kind = "operation"      // scope: the tenant; name: the 16 bytes of the id
	OpenOperation Kind = "open operation" // name: the 16 bytes of the id; text: the tenant
	SigningKeys   Kind = "signing keys"   // name: the tenant
	Subscription  Kind = "subscription"   // scope: see EventScope; name: the 16 bytes of the subscriber; it has no text
	Listening     Kind = "listening"      // name: the tenant; it has no text
	Secret        Kind = "secret"         // scope: the tenant; name: the secret's; mark: its last use

	Notification      Kind = "notification"       // scope: the tenant; name: the rule's
	Incident          Kind = "incident"           // scope: see IncidentScope; name: the 16 bytes of the id
	NotificationGroup Kind = "notification group" // scope: the tenant; name: the group's

	Calendar Kind = "calendar" // scope: the tenant; name: the calendar's

	DeadLetterDay Kind = "dead letter day" // scope: the day in which runs ended; name: see DeadLetterDayName; it has no text
)

// Document is a row that holds one text.
type Document struct {
	Kind  Kind
	Scope string // only documents of one scope are listed together
	Name  string // unique in the scope
	Text  []byte
	// Mark is a second cell, which only an Operation and a Secret have. A put with a Mark writes the
	// Mark alone, and leaves the text as it is, also where there is none. A swap leaves the Mark.
	Mark []byte
	// Deleted is set in a put, or in a swap of a Secret or NotificationGroup, that removes the document.
	Deleted bool
	// Written is the timestamp of a put, to the µs. Only tenants and tasks return it.
	Written time.Time
	// Expires is when a put document leaves; zero: never. Nothing returns it.
	Expires time.Time
	// Revision numbers the swaps of a document. It only grows.
	Revision int64
}

// Rows is what a backend implements. Its methods may be called concurrently.
type Rows interface {
	// PutDocuments writes the documents, in this order. A backend that can do so writes all or
	// none. Errors as schema.EntryWriter.PutEntries.
	PutDocuments(ctx context.Context, docs ...Document) error
	// Document returns a document, or schema.ErrNotFound. A document that has a mark and no text
	// does not exist.
	Document(ctx context.Context, kind Kind, scope, name string) (Document, error)
	// Documents returns the documents of a scope whose names come after `after` ("": all), in the
	// order of their names, at most limit of them. Fewer than limit means that there are no more.
	// Operations are listed the other way round, newest first: those whose names come before it.
	Documents(ctx context.Context, kind Kind, scope, after string, limit int) ([]Document, error)
	// SwapDocument replaces the document, as read at the revision was (0: there is none), by is.
	// Errors as schema.SigningKeyStore.SwapSigningKeys, or as schema.SecretStore.DeleteSecret.
	SwapDocument(ctx context.Context, was int64, is Document) error
}

// Roles implements schema.TenantStore, TaskStore, RateStore, OperationStore, SigningKeyStore,
// SecretStore, SubscriptionStore, NotificationStore, IncidentStore and CalendarStore, and what of
// DeadLetterIndex is about no letter. A backend embeds it.
type Roles struct {
	subscriptions
	notifications
	calendars
	letterDays
	rows   Rows
	damage *damage.Log
}

// New returns the roles that keep their rows in rows, and report those that cannot be understood.
func New(rows Rows, log *damage.Log) Roles {
	return Roles{subscriptions: subscriptions{rows}, notifications: notifications{rows, log}, calendars: calendars{rows, log}, letterDays: letterDays{rows}, rows: rows, damage: log}
}

// put writes d with v as its text.
func (r Roles) put(ctx context.Context, d Document, v any) (err error) {
	if d.Text, err = json.Marshal(v); err != nil {
		return err
	}
	return r.rows.PutDocuments(ctx, d)
}

// list returns what load makes of each document of a list.
func list[T any](ctx context.Context, r Roles, kind Kind, scope, after string, limit int, load func(*Document) T) ([]T, error) {
	return listOf(ctx, r.rows, kind, scope, after, limit, load)
}

// listOf is list of rows.
func listOf[T any](ctx context.Context, rows Rows, kind Kind, scope, after string, limit int, load func(*Document) T) ([]T, error) {
	if limit <= 0 {
		return nil, nil
	}
	docs, err := rows.Documents(ctx, kind, scope, after, limit)
	if err != nil || len(docs) == 0 {
		return nil, err
	}
	all := make([]T, len(docs))
	for i := range docs {
		all[i] = load(&docs[i])
	}
	return all, nil
}

var (
	_ schema.TenantStore       = Roles{}
	_ schema.TaskStore         = Roles{}
	_ schema.RateStore         = Roles{}
	_ schema.OperationStore    = Roles{}
	_ schema.SigningKeyStore   = Roles{}
	_ schema.SecretStore       = Roles{}
	_ schema.SubscriptionStore = Roles{}
	_ schema.NotificationStore = Roles{}
	_ schema.IncidentStore     = Roles{}
	_ schema.CalendarStore     = Roles{}
)
