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
	err := s.one(ctx, selectTask, []any{tenant, name}, &text)
	var t schema.Task
	if err == nil {
		t, err = loadTask(tenant, name, text)
	}
	if err != nil {
		return schema.Task{}, fmt.Errorf("read task %s of %s: %w", name, tenant, err)
	}
	return t, nil
}

// Tasks implements schema.TaskStore.
func (s *Store) Tasks(ctx context.Context, tenant, after string, limit int) ([]schema.Task, error) {
	var fault error
	tasks, err := readPages(ctx, s, selectTasks, &s.smallRows, limit, []any{tenant, after},
		func(iter *gocql.Iter) (t schema.Task, size int, keep, more bool) {
			var name string
			var text []byte
			if !iter.Scan(&name, &text) {
				return t, 0, false, false
			}
			t, err := loadTask(tenant, name, text)
			if err != nil && fault == nil {
				fault = fmt.Errorf("task %s: %w", name, err)
			}
			return t, len(name) + len(text) + 64, err == nil, true
		})
	if err == nil {
		err = fault
	}
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

func loadTask(tenant, name string, text []byte) (schema.Task, error) {
	var t schema.Task
	if err := json.Unmarshal(text, &t); err != nil {
		return schema.Task{}, fmt.Errorf("decode: %w", err)
	}
	t.Tenant, t.Name = tenant, name
	return t, nil
}
