package outbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"carillon.dev/carillon/bucketer/client"
)

// DefaultTable is the table unless Config says otherwise.
const DefaultTable = "carillon_outbox"

// Config says where an Outbox lies. The zero value is the default.
type Config struct {
	// Table is the name of the table, with that of a schema before it if need be: lower case
	// letters, digits and underscores. Default DefaultTable.
	Table string
	// Now is when a job without an instant is due; default time.Now.
	Now func() time.Time
}

// Outbox is a table of jobs that Carillon does not have yet. Its methods may be called from any
// goroutine.
type Outbox struct {
	table string
	now   func() time.Time
}

// table names may be written into statements as they are.
var tableName = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,50}$`)

// New returns an Outbox. It asks nobody. The error is of a name that is none.
func New(cfg Config) (*Outbox, error) {
	if cfg.Table == "" {
		cfg.Table = DefaultTable
	}
	if !tableName.MatchString(cfg.Table) {
		return nil, fmt.Errorf("outbox: %q is no name of a table", cfg.Table)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Outbox{table: cfg.Table, now: cfg.Now}, nil
}

// DDL returns the statements that make the table, if it is not there. They may run again.
func (o *Outbox) DDL() string {
	name := o.table[bytes.LastIndexByte([]byte(o.table), '.')+1:]
	return `CREATE TABLE IF NOT EXISTS ` + o.table + ` (
	key         text        PRIMARY KEY,
	job         text        NOT NULL,
	enqueued_at timestamptz NOT NULL DEFAULT now(),
	refused     text
);
CREATE INDEX IF NOT EXISTS ` + name + `_waiting ON ` + o.table + ` (enqueued_at) WHERE refused IS NULL;
`
}

// Execer is a transaction: a *sql.Tx.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Enqueue writes a job in the caller's transaction, and returns the idempotency key that it will be
// created with. The job is a *client.Job, or a json.RawMessage with the body of a request that
// makes a job. What cannot be an entry of an outbox is a client.Faults, and nothing is written.
func (o *Outbox) Enqueue(ctx context.Context, tx Execer, job json.Marshaler) (key string, err error) {
	query, args, err := o.Statement(job)
	if err != nil {
		return "", err
	}
	if _, err := tx.ExecContext(ctx, query, args...); err != nil {
		return "", fmt.Errorf("outbox: enqueue: %w", err)
	}
	return args[0].(string), nil
}

// Statement returns what Enqueue would execute, for transactions of other libraries. The first
// argument is the key.
func (o *Outbox) Statement(job json.Marshaler) (query string, args []any, err error) {
	if job == nil {
		return "", nil, client.Faults{{Location: "body", Message: "must be stated"}}
	}
	text, err := json.Marshal(job)
	if err != nil {
		return "", nil, unwrapMarshal(err)
	}
	if text, err = atInstant(text, o.now()); err != nil {
		return "", nil, err
	}
	key := "outbox-" + rand.Text()
	return `INSERT INTO ` + o.table + ` (key, job) VALUES ($1, $2)`, []any{key, string(text)}, nil
}

// atInstant returns the body of a job that runs once, at an instant: now, if it states none.
func atInstant(text []byte, now time.Time) ([]byte, error) {
	var job map[string]json.RawMessage
	if err := json.Unmarshal(text, &job); err != nil || job == nil {
		return nil, client.Faults{{Location: "body", Message: "must be the body of a request that makes a job"}}
	}
	var faults client.Faults
	for _, field := range []string{"name", "on", "after", "schedules", "start", "end", "max_runs", "concurrency", "pause_on_failure", "key"} {
		if v, ok := job[field]; ok && string(v) != "null" {
			faults = append(faults, client.Fault{Location: "body." + field, Message: "must not be stated: an outbox takes jobs that run once, at an instant"})
		}
	}
	schedule := make(map[string]json.RawMessage)
	if v, ok := job["schedule"]; ok {
		if err := json.Unmarshal(v, &schedule); err != nil {
			faults = append(faults, client.Fault{Location: "body.schedule", Message: "must be an object"})
		}
	}
	for field := range schedule {
		if field != "at" {
			faults = append(faults, client.Fault{Location: "body.schedule." + field, Message: "must not be stated: an outbox takes jobs that run once, at an instant"})
		}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	if at, ok := schedule["at"]; !ok || string(at) == "null" {
		job["schedule"] = json.RawMessage(`{"at":"` + now.UTC().Format(time.RFC3339Nano) + `"}`)
	}
	out, err := json.Marshal(job)
	if err != nil {
		return nil, fmt.Errorf("outbox: encode job: %w", err)
	}
	return out, nil
}

// unwrapMarshal returns the error of a builder out of that of package json.
func unwrapMarshal(err error) error {
	if e, ok := err.(*json.MarshalerError); ok { //nolint:errorlint // json.Marshal returns it as it is
		return e.Err
	}
	return fmt.Errorf("outbox: encode job: %w", err)
}

// Standing is how full an outbox is.
type Standing struct {
	Waiting int       // rows that are to be moved
	Oldest  time.Time // when the first of them was enqueued; zero: there is none
	Refused int       // rows that Carillon has refused
}

// Standing counts the rows, for metrics and alerts.
func (o *Outbox) Standing(ctx context.Context, db *sql.DB) (Standing, error) {
	var s Standing
	var oldest sql.NullTime
	row := db.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE refused IS NULL), min(enqueued_at) FILTER (WHERE refused IS NULL), count(refused) FROM `+o.table)
	if err := row.Scan(&s.Waiting, &oldest, &s.Refused); err != nil {
		return Standing{}, fmt.Errorf("outbox: count: %w", err)
	}
	if oldest.Valid {
		s.Oldest = oldest.Time.UTC()
	}
	return s, nil
}
