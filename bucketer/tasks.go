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
	taskCacheSize = 10_000 // tasks kept in memory; beyond it the cache is emptied
	// TaskCacheAge is how long a task is believed if no change is heard of.
	TaskCacheAge = 10 * time.Second
)

type taskKey struct{ tenant, name string }

type cachedTask struct {
	task schema.Task
	err  error // nil or ErrNotFound
	at   time.Time
}

// TaskCache answers for tasks by name. It answers from memory if it read the task less than
// TaskCacheAge ago and has heard of no change since.
type TaskCache struct {
	store schema.TaskStore
	now   func() time.Time

	mu      sync.Mutex
	known   map[taskKey]cachedTask
	changes int // heard of so far: what was read while one was heard of may be out of date
}

// NewTaskCache returns an empty cache over store.
func NewTaskCache(store schema.TaskStore, now func() time.Time) *TaskCache {
	return &TaskCache{store: store, now: now, known: make(map[taskKey]cachedTask)}
}

// Task returns a task, or schema.ErrNotFound.
func (t *TaskCache) Task(ctx context.Context, tenant, name string) (schema.Task, error) {
	return t.Within(ctx, tenant, name, TaskCacheAge)
}

// Within is Task for what was read less than age ago.
func (t *TaskCache) Within(ctx context.Context, tenant, name string, age time.Duration) (schema.Task, error) {
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

// Changed forgets a task. body is that of a signal of topic "task".
func (t *TaskCache) Changed(body []byte) {
	tenant, name, _ := strings.Cut(string(body), "\n")
	t.mu.Lock()
	delete(t.known, taskKey{tenant, name})
	t.changes++
	t.mu.Unlock()
}

// ForgetAt forgets all tasks whenever halts tells that the process was stopped, until ctx ends: a
// change may have been answered meanwhile without waiting for this node.
func (t *TaskCache) ForgetAt(ctx context.Context, halts <-chan struct{}) {
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

// CheckTask reports ErrNoTask if the task of a job with many runs does not exist, and Faults for a
// payload (nil = none) that does not fit the task's schema, or if the task requires a region that
// is not the tenant's home. Inline work has the task "" and no schema.
func (b *Bucketer) CheckTask(ctx context.Context, tenant, task string, payload []byte) error {
	t, err := payloadFits(ctx, b, tenant, task, payload)
	if err == nil {
		err = b.regions.checkTask(&t, tenant, true)
	}
	return err
}

// TaskOf returns the task of a job, or ErrNoTask. The task of inline work is empty.
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

// CheckPayload holds a payload to the schema of its task, which has one. It is called when a client
// states a payload, or asks for a run by hand. A task that changes leaves existing jobs alone, and
// scheduled runs keep the payload that was found good.
func (b *Bucketer) CheckPayload(t *schema.Task, text []byte) error {
	s, err := b.payloads.Schema(t.PayloadSchema)
	if err != nil { // written by a version that allowed what ours does not
		return Faults{{Location: "body.payload", Message: fmt.Sprintf("cannot be checked: the schema of task %s is refused by now: %v", t.Name, err)}}
	}
	return payloadFaults("body.payload", s.Check(text))
}

// payloadFaults returns the faults that package payload found, located below at, and any other
// error as it is.
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

// payloadFits returns a task, if a payload fits its schema. The task of inline work is empty.
func payloadFits(ctx context.Context, b *Bucketer, tenant, task string, payload []byte) (schema.Task, error) {
	t, err := b.TaskOf(ctx, tenant, task)
	if err == nil && len(t.PayloadSchema) > 0 {
		err = b.CheckPayload(&t, payload)
	}
	return t, err
}

// checkTask is CheckTask for a one-off job, and returns where it is to lie. The job gets the
// durability in force.
func (b *Bucketer) checkTask(ctx context.Context, job *Job) (homeOf, error) {
	t, err := payloadFits(ctx, b, job.Tenant, job.Task, job.Payload)
	if err != nil {
		return homeOf{}, err
	}
	of, err := b.regions.choose(job, &t)
	durability, durabilityErr := b.regions.DurabilityOf(ctx, job.Tenant, job.Durability)
	if err != nil && durabilityErr != nil {
		return of, bothFaults(err, durabilityErr)
	}
	if err == nil {
		err = durabilityErr
	}
	job.Durability = durability
	return of, err
}

// bothFaults returns the faults of two errors together, or the first if one of them is another
// error.
func bothFaults(first, second error) error {
	var faults, more Faults
	if errors.As(first, &faults) && errors.As(second, &more) {
		return append(faults, more...)
	}
	return first
}

// TaskCache returns the cache that the Bucketer itself uses.
func (b *Bucketer) TaskCache() *TaskCache { return b.tasks }
