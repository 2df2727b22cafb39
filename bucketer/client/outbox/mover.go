package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"carillon.dev/carillon/bucketer/client"
)

// Defaults of a Mover.
const (
	DefaultBatch = 500
	DefaultPoll  = time.Second
)

// MoverConfig says how a Mover works. The zero value is the default.
type MoverConfig struct {
	Batch  int           // rows that are moved together, at most client.MaxLines; default DefaultBatch
	Poll   time.Duration // how often an empty table is looked at; default DefaultPoll
	Logger *slog.Logger  // nil logs nothing
}

// Mover moves rows of an Outbox to Carillon.
type Mover struct {
	outbox *Outbox
	db     *sql.DB
	client *client.Client
	cfg    MoverConfig
	woken  chan struct{}
}

// Mover returns a Mover, which does nothing until Run or Step. db and c stay the caller's.
func (o *Outbox) Mover(db *sql.DB, c *client.Client, cfg MoverConfig) *Mover {
	if cfg.Batch <= 0 {
		cfg.Batch = DefaultBatch
	}
	cfg.Batch = min(cfg.Batch, client.MaxLines)
	if cfg.Poll <= 0 {
		cfg.Poll = DefaultPoll
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Mover{outbox: o, db: db, client: c, cfg: cfg, woken: make(chan struct{}, 1)}
}

// Wake has Run look at the table at once: call it after a transaction that has enqueued. It never
// waits.
func (m *Mover) Wake() {
	select {
	case m.woken <- struct{}{}:
	default:
	}
}

// Run moves rows until ctx ends, and returns nil then. An error of the database or of Carillon is
// logged, and the rows are tried again after a pause.
func (m *Mover) Run(ctx context.Context) error {
	for {
		moved, err := m.Step(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			m.cfg.Logger.Error("rows of the outbox could not be moved", "table", m.outbox.table, "err", err)
		} else if moved == m.cfg.Batch {
			continue
		}
		poll := time.NewTimer(m.cfg.Poll)
		select {
		case <-ctx.Done():
			poll.Stop()
			return nil
		case <-m.woken:
			poll.Stop()
		case <-poll.C:
		}
	}
}

// Step moves one batch, and returns how many rows have left the table. Rows that another mover has
// locked are left to it. An error may come beside rows that were moved.
func (m *Mover) Step(ctx context.Context) (moved int, err error) {
	tx, err := m.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("outbox: begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	lines, err := m.lock(ctx, tx)
	if err != nil || len(lines) == 0 {
		return 0, err
	}
	results, asking := m.client.Jobs.Import(ctx, lines)
	var acknowledged []string
	var refused []refusal
	for i, r := range results {
		var e *client.Error
		switch {
		case r.Err == nil:
			acknowledged = append(acknowledged, lines[i].Key)
		case errors.As(r.Err, &e) && final(e.Status):
			refused = append(refused, refusal{lines[i].Key, e.Error()})
		}
	}
	if err := m.settle(ctx, tx, acknowledged, refused); err != nil {
		return 0, errors.Join(asking, err)
	}
	for _, r := range refused {
		m.cfg.Logger.Error("a job of the outbox is refused: its row stays", "table", m.outbox.table, "key", r.Key, "reason", r.Refused)
	}
	if asking != nil {
		return len(acknowledged), fmt.Errorf("outbox: %w", asking)
	}
	return len(acknowledged), nil
}

// final reports whether a job that is refused with such a status would be refused again. Who may
// not create jobs now (401, 403) may later.
func final(status int) bool { return status == 400 || status == 409 || status == 413 || status == 422 }

// lock takes the rows that have waited longest and that no other mover has, as lines of an import.
func (m *Mover) lock(ctx context.Context, tx *sql.Tx) (lines []client.Line, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT key, job FROM `+m.outbox.table+
		` WHERE refused IS NULL ORDER BY enqueued_at LIMIT $1 FOR UPDATE SKIP LOCKED`, m.cfg.Batch)
	if err != nil {
		return nil, fmt.Errorf("outbox: lock rows: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var key, job string
		if err := rows.Scan(&key, &job); err != nil {
			return nil, fmt.Errorf("outbox: read row: %w", err)
		}
		lines = append(lines, client.Line{Key: key, Job: json.RawMessage(job)})
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("outbox: lock rows: %w", err)
	}
	return lines, nil
}

// A refusal is a row whose job Carillon does not take.
type refusal struct {
	Key     string `json:"key"`
	Refused string `json:"refused"`
}

// settle deletes what was acknowledged, notes what was refused, and commits. Lists are passed as
// JSON: how a driver passes an array differs from one to the next.
func (m *Mover) settle(ctx context.Context, tx *sql.Tx, acknowledged []string, refused []refusal) error {
	if len(acknowledged) > 0 {
		keys, _ := json.Marshal(acknowledged) // text encodes
		if _, err := tx.ExecContext(ctx, `DELETE FROM `+m.outbox.table+
			` WHERE key IN (SELECT jsonb_array_elements_text($1::jsonb))`, string(keys)); err != nil {
			return fmt.Errorf("outbox: delete rows: %w", err)
		}
	}
	if len(refused) > 0 {
		list, _ := json.Marshal(refused) // text encodes
		if _, err := tx.ExecContext(ctx, `UPDATE `+m.outbox.table+
			` t SET refused = r.refused FROM jsonb_to_recordset($1::jsonb) AS r(key text, refused text) WHERE t.key = r.key`, string(list)); err != nil {
			return fmt.Errorf("outbox: note what was refused: %w", err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("outbox: commit: %w", err)
	}
	return nil
}
