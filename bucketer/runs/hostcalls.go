package runs

import (
	"errors"
	"sync"

	"carillon.dev/carillon/bucketer/tally"
	"carillon.dev/carillon/schema"
)

// HostCalls says which runs call a host. It reads each task once.
type HostCalls struct {
	host string
	read func(tenant, task string) (schema.Task, error)

	mu    sync.Mutex
	tasks map[string]bool // by name: whether it calls the host
	err   error           // why a task could not be read
}

// CallsTo has a filter that asks for a host select the runs of one tenant that call it, those of a
// task by what read tells of it. What it returns says whether all tasks could be read.
func (f *Filter) CallsTo(read func(tenant, task string) (schema.Task, error)) *HostCalls {
	c := &HostCalls{host: f.Host, read: read, tasks: make(map[string]bool)}
	if f.Host != "" {
		f.Calls = c.of
	}
	return c
}

// Unread returns why a task could not be read, nil if all could. If one could not, a run may be
// missing from what was selected.
func (c *HostCalls) Unread() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *HostCalls) of(spec *schema.Spec) bool {
	if spec.Work != nil {
		return c.goesThere(spec.Work)
	}
	if spec.Task == "" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	calls, known := c.tasks[spec.Task]
	if known {
		return calls
	}
	task, err := c.read(spec.Tenant, spec.Task)
	switch {
	case err == nil:
		calls = c.goesThere(&task.Work)
	case !errors.Is(err, schema.ErrNotFound):
		c.err = err
	}
	c.tasks[spec.Task] = calls
	return calls
}

func (c *HostCalls) goesThere(w *schema.Work) bool {
	return w.HTTP != nil && tally.HostOf(w.HTTP.URL) == c.host
}
