package cassandra

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocql/gocql"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/document"
)

// The statements about documents; the words are those of statements.go. A statement that puts binds
// key, cells, timestamp and, if the kind expires, expiry; one that removes binds timestamp and key.
const (
	// One row of tenants. Idempotent.
	insertTenant statement = `INSERT INTO tenants (scope, name, spec) VALUES ('tenants', ?, ?) USING TIMESTAMP ?`
	// One row of tenants. Idempotent.
	selectTenant statement = `SELECT spec, writetime(spec) FROM tenants WHERE scope = 'tenants' AND name = ?`
	// A slice of the partition of tenants, in name order. Idempotent.
	selectTenants statement = `SELECT name, spec, writetime(spec) FROM tenants WHERE scope = 'tenants' AND name > ?`

	// One row of tasks. Idempotent.
	insertTask statement = `INSERT INTO tasks (tenant, name, spec) VALUES (?, ?, ?) USING TIMESTAMP ?`
	// One row of tasks. Idempotent.
	deleteTask statement = `DELETE FROM tasks USING TIMESTAMP ? WHERE tenant = ? AND name = ?`
	// One row of tasks. Idempotent.
	selectTask statement = `SELECT spec, writetime(spec) FROM tasks WHERE tenant = ? AND name = ?`
	// A slice of one tenant's tasks, in name order. Idempotent.
	selectTasks statement = `SELECT name, spec, writetime(spec) FROM tasks WHERE tenant = ? AND name > ?`

	// One row of rated_tasks. Idempotent.
	insertRated statement = `INSERT INTO rated_tasks (list, tenant, task) VALUES ('*', ?, ?) USING TIMESTAMP ?`
	// One row of rated_tasks. Idempotent.
	deleteRated statement = `DELETE FROM rated_tasks USING TIMESTAMP ? WHERE list = '*' AND tenant = ? AND task = ?`
	// A slice of the only partition of rated_tasks, by tenant and task. Idempotent.
	selectRated statement = `SELECT tenant, task FROM rated_tasks WHERE list = '*' AND (tenant, task) > (?, ?)`

	// One row of operations. Idempotent.
	insertOperation statement = `INSERT INTO operations (tenant, operation_id, spec, progress) VALUES (?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// One row of operations. Idempotent.
	cancelOperation statement = `INSERT INTO operations (tenant, operation_id, cancelled) VALUES (?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// One row of operations. Idempotent. One that was only marked has no spec.
	selectOperation statement = `SELECT spec, progress, cancelled FROM operations WHERE tenant = ? AND operation_id = ?`
	// A slice of one tenant's operations, newest first, as the table keeps them. Idempotent.
	selectOperations statement = `SELECT operation_id, spec, progress, cancelled FROM operations WHERE tenant = ? AND operation_id < ?`
	// One row of the partition of open operations. Idempotent.
	insertOpen statement = `INSERT INTO operations (tenant, operation_id, spec) VALUES ('*', ?, ?) USING TIMESTAMP ? AND TTL ?`
	// One row of the partition of open operations. Idempotent.
	deleteOpen statement = `DELETE FROM operations USING TIMESTAMP ? WHERE tenant = '*' AND operation_id = ?`
	// The partition of open operations (no tenant has that name), oldest first. Idempotent.
	selectOpen statement = `SELECT operation_id, spec FROM operations WHERE tenant = '*' ORDER BY operation_id ASC`

	// One row of signing_keys, conditional: a null revision stands for a row that is
	// not there. Not idempotent.
	swapSigningKeys statement = `UPDATE signing_keys SET revision = ?, spec = ? WHERE tenant = ? IF revision = ?`
	// One row of signing_keys, serial. Idempotent.
	selectSigningRevision statement = `SELECT revision FROM signing_keys WHERE tenant = ?`
	// One row of signing_keys. Idempotent.
	selectSigningKeys statement = `SELECT revision, spec FROM signing_keys WHERE tenant = ?`

	// One row of subscriptions. Idempotent.
	insertSubscription statement = `INSERT INTO subscriptions (tenant, event, job_id) VALUES (?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// One row of subscriptions. Idempotent.
	deleteSubscription statement = `DELETE FROM subscriptions USING TIMESTAMP ? WHERE tenant = ? AND event = ? AND job_id = ?`
	// A slice of the subscribers of one event, in the order of ids. Idempotent.
	selectSubscriptions statement = `SELECT job_id FROM subscriptions WHERE tenant = ? AND event = ? AND job_id > ?`

	// One row of listening_tenants. Idempotent.
	insertListening statement = `INSERT INTO listening_tenants (list, tenant) VALUES ('*', ?) USING TIMESTAMP ?`
	// A slice of the only partition of listening_tenants, in order. Idempotent.
	selectListening statement = `SELECT tenant FROM listening_tenants WHERE list = '*' AND tenant > ?`

	// One row of secrets, conditional, as swapSigningKeys. Not idempotent.
	swapSecret statement = `UPDATE secrets SET revision = ?, spec = ? WHERE tenant = ? AND name = ? IF revision = ?`
	// One row of secrets, conditional. Not idempotent.
	dropSecret statement = `DELETE FROM secrets WHERE tenant = ? AND name = ? IF revision = ?`
	// One row of secrets, serial. Idempotent.
	selectSecretRevision statement = `SELECT revision FROM secrets WHERE tenant = ? AND name = ?`
	// One row of secrets. Idempotent. One that was only used has no revision.
	selectSecret statement = `SELECT revision, spec, used FROM secrets WHERE tenant = ? AND name = ?`
	// A slice of one tenant's secrets, in name order. Idempotent.
	selectSecrets statement = `SELECT name, revision, spec, used FROM secrets WHERE tenant = ? AND name > ?`
	// One row of secrets. Idempotent.
	touchSecret statement = `INSERT INTO secrets (tenant, name, used) VALUES (?, ?, ?) USING TIMESTAMP ?`

	// One row of notifications. Idempotent.
	insertNotification statement = `INSERT INTO notifications (tenant, name, spec) VALUES (?, ?, ?) USING TIMESTAMP ?`
	// One row of notifications. Idempotent.
	deleteNotification statement = `DELETE FROM notifications USING TIMESTAMP ? WHERE tenant = ? AND name = ?`
	// One row of notifications. Idempotent.
	selectNotification statement = `SELECT spec, writetime(spec) FROM notifications WHERE tenant = ? AND name = ?`
	// A slice of one tenant's notifications, in name order. Idempotent.
	selectNotifications statement = `SELECT name, spec, writetime(spec) FROM notifications WHERE tenant = ? AND name > ?`
	// One row of calendars. Idempotent.
	insertCalendar statement = `INSERT INTO calendars (tenant, name, spec) VALUES (?, ?, ?) USING TIMESTAMP ?`
	// One row of calendars. Idempotent.
	deleteCalendar statement = `DELETE FROM calendars USING TIMESTAMP ? WHERE tenant = ? AND name = ?`
	// One row of calendars. Idempotent.
	selectCalendar statement = `SELECT spec, writetime(spec) FROM calendars WHERE tenant = ? AND name = ?`
	// A slice of one tenant's calendars, in name order. Idempotent.
	selectCalendars statement = `SELECT name, spec, writetime(spec) FROM calendars WHERE tenant = ? AND name > ?`
	// One row of dead_letter_days, without cells. Idempotent.
	insertDeadLetterDay statement = `INSERT INTO dead_letter_days (ended, tenant, day) VALUES (?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// A slice of one partition of dead_letter_days, by tenant and day. Idempotent.
	selectDeadLetterDays statement = `SELECT tenant, day FROM dead_letter_days WHERE ended = ? AND (tenant, day) > (?, ?)`
	// One row of incidents. Idempotent.
	insertIncident statement = `INSERT INTO incidents (tenant, minute, incident_id, spec) VALUES (?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// A slice of one partition of incidents, in the order of ids. Idempotent.
	selectIncidents statement = `SELECT incident_id, spec FROM incidents WHERE tenant = ? AND minute = ? AND incident_id > ?`
	// One row of notification_groups, conditional, as swapSigningKeys. Not idempotent.
	swapGroup statement = `UPDATE notification_groups SET revision = ?, spec = ? WHERE tenant = ? AND name = ? IF revision = ?`
	// One row of notification_groups, conditional. Not idempotent.
	dropGroup statement = `DELETE FROM notification_groups WHERE tenant = ? AND name = ? IF revision = ?`
	// One row of notification_groups, serial. Idempotent.
	selectGroupRevision statement = `SELECT revision FROM notification_groups WHERE tenant = ? AND name = ?`
	// One row of notification_groups, at a serial level and at EACH_QUORUM. Idempotent.
	confirmGroup statement = `SELECT revision, spec FROM notification_groups WHERE tenant = ? AND name = ?`
	// A slice of one tenant's notification_groups, in name order. Idempotent.
	selectGroups statement = `SELECT name, revision, spec FROM notification_groups WHERE tenant = ? AND name > ?`
)

// documents implements document.Rows.
type documents struct{ *core }

// documentTable says how the documents of a kind lie in their table. A statement that is "" is one
// that the kind does not need.
type documentTable struct {
	put, mark, remove, get, list statement
	expires                      bool
	backwards                    bool      // listed from the highest name to the lowest
	swap, drop, revision         statement // of a kind that is swapped
	key                          func(scope, name string) []any
	cells                        func(text []byte) ([]any, error) // nil: the text is one cell
	row                          func(doc *document.Document, scan func(dest ...any) error) error
	next                         func(doc *document.Document, iter *gocql.Iter) bool
}

var documentTables = map[document.Kind]documentTable{
	document.Tenant: {
		put: insertTenant, get: selectTenant, list: selectTenants,
		key: nameKey, row: textRow, next: nextText,
	},
	document.Task: {
		put: insertTask, remove: deleteTask, get: selectTask, list: selectTasks,
		key: scopedKey, row: textRow, next: nextText,
	},
	document.RatedTask: {
		put: insertRated, remove: deleteRated, list: selectRated,
		key: func(_, name string) []any {
			task := document.ParseRatedName(name)
			return []any{task.Tenant, task.Name}
		},
		cells: func([]byte) ([]any, error) { return nil, nil }, next: nextRated,
	},
	document.Operation: {
		put: insertOperation, mark: cancelOperation, get: selectOperation, list: selectOperations, expires: true, backwards: true,
		key:   func(tenant, id string) []any { return []any{tenant, idOf(id)} },
		cells: operationCells, row: operationRow, next: nextOperation,
	},
	document.OpenOperation: {
		put: insertOpen, remove: deleteOpen, list: selectOpen, expires: true,
		key: func(_, id string) []any {
			if id == "" {
				return nil // the list is read from its begin
			}
			return []any{idOf(id)}
		},
		next: nextOpen,
	},
	document.SigningKeys: {
		get: selectSigningKeys, swap: swapSigningKeys, revision: selectSigningRevision,
		key: nameKey, row: revisedRow,
	},
	document.Subscription: {
		put: insertSubscription, remove: deleteSubscription, list: selectSubscriptions, expires: true,
		key: func(scope, name string) []any {
			tenant, event := document.ParseEventScope(scope)
			return []any{tenant, event, idOf(name)}
		},
		cells: func([]byte) ([]any, error) { return nil, nil }, next: nextID,
	},
	document.Listening: {
		put: insertListening, list: selectListening, key: nameKey,
		cells: func([]byte) ([]any, error) { return nil, nil }, next: nextName,
	},
	document.Secret: {
		mark: touchSecret, get: selectSecret, list: selectSecrets, swap: swapSecret, drop: dropSecret, revision: selectSecretRevision,
		key: scopedKey, row: secretRow, next: nextSecret,
	},
	document.Notification: {
		put: insertNotification, remove: deleteNotification, get: selectNotification, list: selectNotifications,
		key: scopedKey, row: textRow, next: nextText,
	},
	document.Calendar: {
		put: insertCalendar, remove: deleteCalendar, get: selectCalendar, list: selectCalendars,
		key: scopedKey, row: textRow, next: nextText,
	},
	document.Incident: {
		put: insertIncident, list: selectIncidents, expires: true,
		key: func(scope, name string) []any {
			tenant, minute := document.ParseIncidentScope(scope)
			return []any{tenant, int64(minute), idOf(name)}
		},
		next: nextOpen,
	},
	document.DeadLetterDay: {
		put: insertDeadLetterDay, list: selectDeadLetterDays, expires: true,
		key: func(scope, name string) []any {
			at := document.ParseDeadLetterDayName(name)
			return []any{dayOf(document.ParseDay(scope)), at.Tenant, dayOf(at.Day)}
		},
		cells: func([]byte) ([]any, error) { return nil, nil }, next: nextDeadLetterDay,
	},
	document.NotificationGroup: {
		list: selectGroups, swap: swapGroup, drop: dropGroup, revision: selectGroupRevision,
		key: scopedKey, next: nextRevised,
	},
}

func nameKey(_, name string) []any { return []any{name} }

func scopedKey(scope, name string) []any { return []any{scope, name} }

func idOf(name string) (id gocql.UUID) {
	copy(id[:], name)
	return id
}

// operationCells takes the text of an operation apart, which lies in two cells.
func operationCells(text []byte) ([]any, error) {
	var o document.OperationText
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, err
	}
	return []any{[]byte(o.Spec), []byte(o.Progress)}, nil
}

func operationRow(doc *document.Document, scan func(dest ...any) error) error {
	var spec, progress []byte
	if err := scan(&spec, &progress, &doc.Mark); err != nil {
		return err
	}
	if spec == nil {
		return schema.ErrNotFound
	}
	doc.Text = operationText(spec, progress)
	return nil
}

// operationText is the inverse of operationCells.
func operationText(spec, progress []byte) []byte {
	return fmt.Appendf(nil, `{"spec":%s,"progress":%s}`, spec, progress)
}

func nextOperation(doc *document.Document, iter *gocql.Iter) bool {
	var id gocql.UUID
	var spec, progress []byte
	more := iter.Scan(&id, &spec, &progress, &doc.Mark)
	doc.Name = string(id[:])
	if spec != nil { // else it has a mark alone
		doc.Text = operationText(spec, progress)
	}
	return more
}

func textRow(doc *document.Document, scan func(dest ...any) error) error {
	var written int64
	err := scan(&doc.Text, &written)
	doc.Written = time.UnixMicro(written).UTC()
	return err
}

func revisedRow(doc *document.Document, scan func(dest ...any) error) error {
	return scan(&doc.Revision, &doc.Text)
}

func secretRow(doc *document.Document, scan func(dest ...any) error) error {
	err := scan(&doc.Revision, &doc.Text, &doc.Mark)
	if err == nil && doc.Revision == 0 {
		err = schema.ErrNotFound
	}
	return err
}

func nextSecret(doc *document.Document, iter *gocql.Iter) bool {
	return iter.Scan(&doc.Name, &doc.Revision, &doc.Text, &doc.Mark)
}

func nextRevised(doc *document.Document, iter *gocql.Iter) bool {
	return iter.Scan(&doc.Name, &doc.Revision, &doc.Text)
}

func nextText(doc *document.Document, iter *gocql.Iter) bool {
	var written int64
	more := iter.Scan(&doc.Name, &doc.Text, &written)
	doc.Written = time.UnixMicro(written).UTC()
	return more
}

func nextRated(doc *document.Document, iter *gocql.Iter) bool {
	var task schema.TaskName
	more := iter.Scan(&task.Tenant, &task.Name)
	doc.Name = document.RatedName(task)
	return more
}

func nextDeadLetterDay(doc *document.Document, iter *gocql.Iter) bool {
	var tenant string
	var day time.Time
	more := iter.Scan(&tenant, &day)
	doc.Name = document.DeadLetterDayName(schema.TenantDay{Tenant: tenant, Day: schema.PeriodOf(day)})
	return more
}

func nextName(doc *document.Document, iter *gocql.Iter) bool { return iter.Scan(&doc.Name) }

func nextID(doc *document.Document, iter *gocql.Iter) bool {
	var id gocql.UUID
	more := iter.Scan(&id)
	doc.Name = string(id[:])
	return more
}

func nextOpen(doc *document.Document, iter *gocql.Iter) bool {
	var id gocql.UUID
	more := iter.Scan(&id, &doc.Text)
	doc.Name = string(id[:])
	return more
}

// PutDocuments implements document.Rows: one statement after the other. Incidents of one partition
// that are beside one another share batches.
func (d documents) PutDocuments(ctx context.Context, docs ...document.Document) error {
	for len(docs) > 0 {
		n := 1
		for n < len(docs) && docs[0].Kind == document.Incident && docs[n].Kind == docs[0].Kind && docs[n].Scope == docs[0].Scope {
			n++
		}
		if err := d.putTogether(ctx, docs[:n]); err != nil {
			return err
		}
		docs = docs[n:]
	}
	return nil
}

// putTogether puts documents of one kind, in batches if there are several.
func (d documents) putTogether(ctx context.Context, docs []document.Document) error {
	lines := make([]line, len(docs))
	st := statement("")
	for i := range docs {
		var err error
		if st, lines[i].args, err = bindDocument(&docs[i], d.cfg.Now()); err != nil {
			return err
		}
		lines[i].bytes = len(docs[i].Text) + len(docs[i].Scope) + 64
	}
	if len(lines) == 1 {
		return d.write(ctx, st, lines[0].args...)
	}
	return d.writeBatches(ctx, st, lines)
}

// bindDocument returns the statement that puts a document at now, and what it binds.
func bindDocument(doc *document.Document, now time.Time) (statement, []any, error) {
	t, at := documentTables[doc.Kind], doc.Written
	if at.IsZero() {
		at = now
	}
	args := t.key(doc.Scope, doc.Name)
	if doc.Deleted {
		return t.remove, append([]any{at.UnixMicro()}, args...), nil
	}
	if len(doc.Text) > maxRowBytes {
		return "", nil, schema.ErrTooLarge
	}
	st, cells := t.put, []any{doc.Text}
	switch {
	case doc.Mark != nil:
		st, cells[0] = t.mark, doc.Mark
	case t.cells != nil:
		var err error
		if cells, err = t.cells(doc.Text); err != nil {
			return "", nil, err
		}
	}
	args = append(append(args, cells...), at.UnixMicro())
	if t.expires {
		args = append(args, ttlAt(now, doc.Expires))
	}
	return st, args, nil
}

// Document implements document.Rows.
func (d documents) Document(ctx context.Context, kind document.Kind, scope, name string) (document.Document, error) {
	t, doc := documentTables[kind], document.Document{Kind: kind, Scope: scope, Name: name}
	err := t.row(&doc, func(dest ...any) error { return d.one(ctx, t.get, t.key(scope, name), dest...) })
	return doc, err
}

// Documents implements document.Rows. Open operations are always read from the first one.
func (d documents) Documents(ctx context.Context, kind document.Kind, scope, after string, limit int) ([]document.Document, error) {
	t := documentTables[kind]
	if t.backwards && after == "" {
		after = string(highestID[:])
	}
	return readPages(ctx, d.core, t.list, &d.smallRows, limit, t.key(scope, after),
		func(iter *gocql.Iter) (doc document.Document, size int, keep, more bool) {
			doc.Kind, doc.Scope = kind, scope
			more = t.next(&doc, iter)
			keep = t.has(&doc)
			return doc, len(doc.Name) + len(doc.Text) + 64, keep, more
		})
}

// has reports whether a row of a list is a document: one that has a mark alone is none.
func (t *documentTable) has(doc *document.Document) bool {
	if t.swap != "" {
		return doc.Revision != 0
	}
	return t.mark == "" || doc.Text != nil
}

// SwapDocument implements document.Rows.
func (d documents) SwapDocument(ctx context.Context, was int64, is document.Document) error {
	if len(is.Text) > maxRowBytes {
		return fmt.Errorf("%d bytes: %w", len(is.Text), schema.ErrTooLarge)
	}
	var before any
	if was != 0 {
		before = was
	}
	t := documentTables[is.Kind]
	key := t.key(is.Scope, is.Name)
	st, args := t.drop, key
	if !is.Deleted {
		st, args = t.swap, append([]any{is.Revision, string(is.Text)}, key...)
	}
	row := make(map[string]any)
	applied, err := d.swap(ctx, st, key, row, append(slices.Clip(args), before)...)
	stands, _ := row["revision"].(int64)
	if errors.Is(err, schema.ErrUnknown) {
		stands = 0
		readErr := d.oneSerial(ctx, t.revision, key, &stands)
		if readErr != nil && !errors.Is(readErr, schema.ErrNotFound) || stands == was {
			return err // its condition still holds: it may yet be done
		}
		err = nil
	}
	switch {
	case err != nil:
		return err
	case !applied && stands != is.Revision:
		return schema.ErrConflict
	}
	return nil
}
