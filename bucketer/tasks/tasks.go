package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// PutTask creates or replaces a task. It returns once the change is in force on every node: the
// task as stored, and whether it is new.
func (t *Tasks) PutTask(ctx context.Context, task schema.Task) (schema.Task, bool, error) {
	return t.PutTaskIf(ctx, task, time.Time{})
}

// PutTaskIf is PutTask of a task that must be as it was put at `seen` (zero: any, or none): else it
// is bucketer.ErrStale. Of two changes of one task that was seen, one is refused.
func (t *Tasks) PutTaskIf(ctx context.Context, task schema.Task, seen time.Time) (schema.Task, bool, error) {
	if _, err := t.core.InForce(); err != nil {
		return schema.Task{}, false, err
	}
	if err := t.core.Regions().CheckChoice(task.Region); err != nil {
		return schema.Task{}, false, err
	}
	old, err := t.store.Task(ctx, task.Tenant, task.Name)
	isNew := errors.Is(err, schema.ErrNotFound)
	if err != nil && !isNew && !errors.Is(err, schema.ErrNotUnderstood) {
		// a task that is not understood is mended by replacing it
		return schema.Task{}, false, fmt.Errorf("put task %s: %w", task.Name, err)
	}
	if !seen.IsZero() && (isNew || !old.UpdatedAt.Equal(seen)) {
		return schema.Task{}, false, fmt.Errorf("put task %s: %w", task.Name, bucketer.ErrStale)
	}
	if task.UpdatedAt, err = t.stampTask(ctx, schema.TaskName{Tenant: task.Tenant, Name: task.Name}, old.UpdatedAt, seen); err != nil {
		return schema.Task{}, false, fmt.Errorf("put task %s: %w", task.Name, err)
	}
	if task.CreatedAt = old.CreatedAt; task.CreatedAt.IsZero() {
		task.CreatedAt = task.UpdatedAt
	}
	if err := t.listRated(ctx, &task, &old); err != nil {
		return schema.Task{}, false, fmt.Errorf("put task %s: %w", task.Name, err)
	}
	if err := t.store.PutTask(ctx, task); err != nil {
		return schema.Task{}, false, fmt.Errorf("put task %s: %w", task.Name, err)
	}
	t.unlistRated(ctx, &task, &old)
	t.taskChanged(ctx, task.Tenant, task.Name)
	return task, isNew, nil
}

// Task returns a task as the store has it, or schema.ErrNotFound.
func (t *Tasks) Task(ctx context.Context, tenant, name string) (schema.Task, error) {
	return t.store.Task(ctx, tenant, name)
}

// Tasks returns at most limit tasks of a tenant with a name after `after`, in name order.
func (t *Tasks) Tasks(ctx context.Context, tenant, after string, limit int) ([]schema.Task, error) {
	return t.store.Tasks(ctx, tenant, after, limit)
}

// DeleteTask removes a task, or answers schema.ErrNotFound. Runs that name it and have not started
// fail.
func (t *Tasks) DeleteTask(ctx context.Context, tenant, name string) error {
	return t.DeleteTaskIf(ctx, tenant, name, time.Time{})
}

// DeleteTaskIf is DeleteTask of a task that must be as it was put at `seen`, as PutTaskIf has it.
func (t *Tasks) DeleteTaskIf(ctx context.Context, tenant, name string, seen time.Time) error {
	if _, err := t.core.InForce(); err != nil {
		return err
	}
	old, err := t.store.Task(ctx, tenant, name)
	if err != nil && !errors.Is(err, schema.ErrNotUnderstood) {
		return err
	}
	if !seen.IsZero() && !old.UpdatedAt.Equal(seen) {
		return fmt.Errorf("delete task %s: %w", name, bucketer.ErrStale)
	}
	at, err := t.stampTask(ctx, schema.TaskName{Tenant: tenant, Name: name}, old.UpdatedAt, seen)
	if err == nil {
		err = t.store.DeleteTask(ctx, tenant, name, at)
	}
	if err != nil {
		return fmt.Errorf("delete task %s: %w", name, err)
	}
	t.unlistRated(ctx, &schema.Task{Tenant: tenant, Name: name, UpdatedAt: at}, &old)
	t.taskChanged(ctx, tenant, name)
	return nil
}

// taskChanged tells every node of a change, and returns once it is in force.
func (t *Tasks) taskChanged(ctx context.Context, tenant, name string) {
	body := []byte(tenant + "\n" + name)
	t.cache.Changed(body)
	t.signals.Signal(schema.TopicTask, body)
	t.awaitListeners(ctx, tenant, name)
}
