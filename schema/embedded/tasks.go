package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// PutTask implements schema.TaskStore. Its write timestamp is UpdatedAt.
func (s *Store) PutTask(ctx context.Context, t schema.Task) error {
	data, err := json.Marshal(t)
	if err == nil && len(data) > maxRow {
		err = fmt.Errorf("%w: %d bytes", schema.ErrTooLarge, len(data))
	}
	if err == nil {
		err = s.mergeTask(ctx, t.Tenant, t.Name, cell{column: colValue, timestamp: t.UpdatedAt.UnixMicro(), data: data})
	}
	if err != nil {
		return fmt.Errorf("put task %s of %s: %w", t.Name, t.Tenant, err)
	}
	return nil
}

// DeleteTask implements schema.TaskStore. Its write timestamp is at: of a task put at the same instant nothing stays.
func (s *Store) DeleteTask(ctx context.Context, tenant, name string, at time.Time) error {
	if err := s.mergeTask(ctx, tenant, name, cell{column: colDeleted, timestamp: at.UnixMicro()}); err != nil {
		return fmt.Errorf("delete task %s of %s: %w", name, tenant, err)
	}
	return nil
}

func (s *Store) mergeTask(ctx context.Context, tenant, name string, c cell) error {
	return s.mergeCell(ctx, appendName(nil, tableTasks, tenant, name), c)
}

// mergeCell writes one cell of a row that never leaves by itself.
func (s *Store) mergeCell(ctx context.Context, key []byte, c cell) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	b := s.db.NewBatch()
	defer closeQuietly(b)
	if err := b.Merge(key, appendCell(nil, c), nil); err != nil {
		return err
	}
	return s.commit(b)
}

// Task implements schema.TaskStore.
func (s *Store) Task(ctx context.Context, tenant, name string) (schema.Task, error) {
	t, err := s.task(ctx, tenant, name)
	if err != nil {
		return t, fmt.Errorf("read task %s of %s: %w", name, tenant, err)
	}
	return t, nil
}

func (s *Store) task(ctx context.Context, tenant, name string) (schema.Task, error) {
	if err := s.enter(ctx); err != nil {
		return schema.Task{}, err
	}
	defer s.leave()
	row, err := s.row(appendName(nil, tableTasks, tenant, name))
	if err != nil {
		return schema.Task{}, err
	}
	t, ok := s.loadTask(tenant, name, &row)
	if !ok {
		return schema.Task{}, schema.ErrNotFound
	}
	return t, t.Fault
}

// Tasks implements schema.TaskStore.
func (s *Store) Tasks(ctx context.Context, tenant, after string, limit int) ([]schema.Task, error) {
	tasks, err := s.tasks(ctx, tenant, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read tasks of %s: %w", tenant, err)
	}
	return tasks, nil
}

func (s *Store) tasks(ctx context.Context, tenant, after string, limit int) ([]schema.Task, error) {
	if limit <= 0 {
		return nil, nil
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	lower := appendName(nil, tableTasks, tenant, after)
	if after != "" {
		lower = append(lower, 0)
	}
	var tasks []schema.Task
	prefix := appendName(nil, tableTasks, tenant, "")
	err := s.scan(lower, prefixEnd(prefix), func(key, value []byte) (bool, error) {
		row, err := parseRow(value)
		if err != nil {
			return false, err
		}
		if t, ok := s.loadTask(tenant, string(key[len(prefix):]), &row); ok {
			tasks = append(tasks, t)
		}
		return len(tasks) < limit, nil
	})
	return tasks, err
}

// loadTask makes a task of its row; ok is false where there is none, or it was deleted after it was put. One that cannot be understood
// has a Fault.
func (s *Store) loadTask(tenant, name string, row *cells) (t schema.Task, ok bool) {
	put, deleted := row.at(colValue, 0), row.at(colDeleted, 0)
	if put == nil || deleted != nil && deleted.timestamp >= put.timestamp {
		return schema.Task{}, false
	}
	t, err := schema.Decode[schema.Task](put.data, "task")
	if s.damage.Found("tasks", tenant+"/"+name, err) != nil {
		t.Fault, t.UpdatedAt = err, time.UnixMicro(put.timestamp).UTC()
	}
	t.Tenant, t.Name = tenant, name
	return t, true
}
