package bucketer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer/payload"
	"carillon.dev/carillon/schema"
)

const (
	taskCacheSize = 10_000           // tasks kept in memory; beyond it the cache is emptied
	taskCacheAge  = 10 * time.Second // how long one is believed without a word
)

type taskKey struct{ tenant, name string }

type cachedTask struct {
	task schema.Task
	err  error // nil or ErrNotFound
	at   time.Time
}

// Tasks answers for tasks by name, from memory where it read them less than 10 s ago and heard of no change.
type Tasks struct {
	store schema.TaskStore
	now   func() time.Time

	mu      sync.Mutex
	known   map[taskKey]cachedTask
	changes int // heard of so far: what was read across one may be out of date
}

// NewTasks returns an empty cache over store.
func NewTasks(store schema.TaskStore, now func() time.Time) *Tasks {
	return &Tasks{store: store, now: now, known: make(map[taskKey]cachedTask)}
}

// Task returns a task, or schema.ErrNotFound.
func (t *Tasks) Task(ctx context.Context, tenant, name string) (schema.Task, error) {
	return t.within(ctx, tenant, name, taskCacheAge)
}

// within is Task, from memory where it was read less than age ago and no change was heard of.
func (t *Tasks) within(ctx context.Context, tenant, name string, age time.Duration) (schema.Task, error) {
	key := taskKey{tenant, name}
	now := t.now()
	t.mu.Lock()
	c, ok := t.known[key]
	changes := t.changes
	t.mu.Unlock()
	if ok && now.Sub(c.at) < age {
		return c.task, c.err
	}
	task, err := t.store.Task(ctx, tenant, name)
	if err != nil && !errors.Is(err, schema.ErrNotFound) {
		return schema.Task{}, fmt.Errorf("task %s: %w", name, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changes != changes {
		return task, err // right for a call that began before the change, not for later ones
	}
	if len(t.known) >= taskCacheSize {
		clear(t.known)
	}
	t.known[key] = cachedTask{task, err, now}
	return task, err
}

// Changed forgets a task: the body of a signal of topic "task".
func (t *Tasks) Changed(body []byte) {
	tenant, name, _ := strings.Cut(string(body), "\n")
	t.mu.Lock()
	delete(t.known, taskKey{tenant, name})
	t.changes++
	t.mu.Unlock()
}

// ForgetAt forgets all tasks whenever halts tells that the process was stopped, until ctx ends: the others may have given this node up, and not have
// waited for it.
func (t *Tasks) ForgetAt(ctx context.Context, halts <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-halts:
		}
		t.mu.Lock()
		clear(t.known)
		t.changes++
		t.mu.Unlock()
	}
}

// CheckTask reports ErrNoTask if a job's task does not exist, and Faults for a payload (nil = none) that does not fit the schema of its task.
// Work that is stated inline has the task "", and no schema.
func (b *Bucketer) CheckTask(ctx context.Context, tenant, task string, payload []byte) error {
	t, err := b.TaskOf(ctx, tenant, task)
	if err != nil || len(t.PayloadSchema) == 0 {
		return err
	}
	return b.fits(&t, payload)
}

// TaskOf returns the task of a job, or ErrNoTask; that of work that is stated inline says nothing.
func (b *Bucketer) TaskOf(ctx context.Context, tenant, task string) (schema.Task, error) {
	if task == "" {
		return schema.Task{}, nil
	}
	t, err := b.tasks.Task(ctx, tenant, task)
	if errors.Is(err, schema.ErrNotFound) {
		return schema.Task{}, fmt.Errorf("%w: %q", ErrNoTask, task)
	}
	return t, err
}

// fits holds a payload to the schema of its task, which has one. It is asked when somebody states a payload, or asks for a run by hand: a
// task that changes leaves jobs alone, and what a schedule names runs with the payload that was found good.
func (b *Bucketer) fits(t *schema.Task, text []byte) error {
	s, err := b.payloads.Schema(t.PayloadSchema)
	if err != nil { // of a version that allowed what ours does not
		return Faults{{Location: "body.payload", Message: fmt.Sprintf("cannot be checked: the schema of task %s is refused by now: %v", t.Name, err)}}
	}
	return payloadFaults("body.payload", s.Check(text))
}

// payloadFaults returns what package payload found, located from at on; an error that is none of its faults as it is.
func payloadFaults(at string, err error) error {
	var found payload.Faults
	if !errors.As(err, &found) {
		return err
	}
	faults := make(Faults, len(found))
	for i, f := range found {
		faults[i] = Fault{Location: at + f.Pointer, Message: f.Message}
	}
	return faults
}

// checkTask is CheckTask for a job.
func (b *Bucketer) checkTask(ctx context.Context, job *Job) error {
	return b.CheckTask(ctx, job.Tenant, job.Task, job.Payload)
}

// PutTask creates or replaces a task. It returns when that is in force on every node: the task as stored, and whether it is
// new.
func (b *Bucketer) PutTask(ctx context.Context, t schema.Task) (schema.Task, bool, error) {
	if _, err := b.InForce(); err != nil {
		return schema.Task{}, false, err
	}
	old, err := b.store.Task(ctx, t.Tenant, t.Name)
	isNew := errors.Is(err, schema.ErrNotFound)
	if err != nil && !isNew && !errors.Is(err, schema.ErrNotUnderstood) { // that is how such a one is mended
		return schema.Task{}, false, fmt.Errorf("put task %s: %w", t.Name, err)
	}
	if t.UpdatedAt, err = b.stampTask(ctx, schema.TaskName{Tenant: t.Tenant, Name: t.Name}, old.UpdatedAt); err != nil {
		return schema.Task{}, false, fmt.Errorf("put task %s: %w", t.Name, err)
	}
	if t.CreatedAt = old.CreatedAt; t.CreatedAt.IsZero() {
		t.CreatedAt = t.UpdatedAt
	}
	if err := b.listRated(ctx, &t, old.Rate); err != nil {
		return schema.Task{}, false, fmt.Errorf("put task %s: %w", t.Name, err)
	}
	if err := b.store.PutTask(ctx, t); err != nil {
		return schema.Task{}, false, fmt.Errorf("put task %s: %w", t.Name, err)
	}
	b.unlistRated(ctx, &t, old.Rate)
	b.taskChanged(ctx, t.Tenant, t.Name)
	return t, isNew, nil
}

// Task returns a task as the store has it, or schema.ErrNotFound.
func (b *Bucketer) Task(ctx context.Context, tenant, name string) (schema.Task, error) {
	return b.store.Task(ctx, tenant, name)
}

// Tasks returns at most limit tasks of a tenant with a name after `after`, in name order.
func (b *Bucketer) Tasks(ctx context.Context, tenant, after string, limit int) ([]schema.Task, error) {
	return b.store.Tasks(ctx, tenant, after, limit)
}

// DeleteTask removes a task, or answers schema.ErrNotFound. Runs that name it and have not started fail.
func (b *Bucketer) DeleteTask(ctx context.Context, tenant, name string) error {
	if _, err := b.InForce(); err != nil {
		return err
	}
	old, err := b.store.Task(ctx, tenant, name)
	if err != nil && !errors.Is(err, schema.ErrNotUnderstood) {
		return err
	}
	at, err := b.stampTask(ctx, schema.TaskName{Tenant: tenant, Name: name}, old.UpdatedAt)
	if err == nil {
		err = b.store.DeleteTask(ctx, tenant, name, at)
	}
	if err != nil {
		return fmt.Errorf("delete task %s: %w", name, err)
	}
	b.unlistRated(ctx, &schema.Task{Tenant: tenant, Name: name, UpdatedAt: at}, old.Rate)
	b.taskChanged(ctx, tenant, name)
	return nil
}

// taskChanged has every node know of a change, and returns when it is in force.
func (b *Bucketer) taskChanged(ctx context.Context, tenant, name string) {
	body := []byte(tenant + "\n" + name)
	b.tasks.Changed(body)
	b.signals.Signal(topicTask, body)
	b.awaitListeners(ctx, tenant, name)
}

// TaskCache returns the cache that the bucketer itself asks.
func (b *Bucketer) TaskCache() *Tasks { return b.tasks }
