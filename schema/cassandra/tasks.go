package cassandra

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

// PutTask implements schema.TaskStore. Of two writes the one with the later UpdatedAt stays.
func (s *Store) PutTask(ctx context.Context, t schema.Task) error {
	text, err := json.Marshal(t)
	if err == nil && len(text) > maxRowBytes {
		err = schema.ErrTooLarge
	}
	if err == nil {
		written := t.UpdatedAt
		if written.IsZero() {
			written = s.cfg.Now()
		}
		err = s.write(ctx, insertTask, t.Tenant, t.Name, text, written.UnixMicro())
	}
	if err != nil {
		return fmt.Errorf("put task %s of %s: %w", t.Name, t.Tenant, err)
	}
	return nil
}

// Task implements schema.TaskStore.
func (s *Store) Task(ctx context.Context, tenant, name string) (schema.Task, error) {
	var text []byte
	var written int64
	err := s.one(ctx, selectTask, []any{tenant, name}, &text, &written)
	t := schema.Task{}
	if err == nil {
		t = s.loadTask(tenant, name, text, written)
		err = t.Fault
	}
	if err != nil {
		return t, fmt.Errorf("read task %s of %s: %w", name, tenant, err)
	}
	return t, nil
}

// Tasks implements schema.TaskStore.
func (s *Store) Tasks(ctx context.Context, tenant, after string, limit int) ([]schema.Task, error) {
	tasks, err := readPages(ctx, s, selectTasks, &s.smallRows, limit, []any{tenant, after},
		func(iter *gocql.Iter) (t schema.Task, size int, keep, more bool) {
			var name string
			var text []byte
			var written int64
			if !iter.Scan(&name, &text, &written) {
				return t, 0, false, false
			}
			return s.loadTask(tenant, name, text, written), len(name) + len(text) + 64, true, true
		})
	if err != nil {
		return nil, fmt.Errorf("read tasks of %s: %w", tenant, err)
	}
	return tasks, nil
}

// DeleteTask implements schema.TaskStore.
func (s *Store) DeleteTask(ctx context.Context, tenant, name string, at time.Time) error {
	if err := s.write(ctx, deleteTask, at.UnixMicro(), tenant, name); err != nil {
		return fmt.Errorf("delete task %s of %s: %w", name, tenant, err)
	}
	return nil
}

// loadTask makes a task of its row, written at that time in µs. One that cannot be understood has a Fault.
func (s *Store) loadTask(tenant, name string, text []byte, written int64) schema.Task {
	t, err := schema.Decode[schema.Task](text, "task")
	if s.damage.Found("tasks", tenant+"/"+name, err) != nil {
		t.Fault, t.UpdatedAt = err, time.UnixMicro(written).UTC()
	}
	t.Tenant, t.Name = tenant, name
	return t
}
