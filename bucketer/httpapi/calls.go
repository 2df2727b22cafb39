package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/tally"
	"carillon.dev/carillon/schema"
)

// hostCalls says which runs call a host. It reads each task once.
type hostCalls struct {
	host string
	read func(tenant, task string) (schema.Task, error)

	mu    sync.Mutex
	tasks map[string]bool // by name: whether it calls the host
	err   error           // why a task could not be read
}

// callsTo has a filter that asks for a host select the runs that call it. What it returns says whether
// all tasks could be read.
func callsTo(ctx context.Context, tasks Tasks, f *runs.Filter) *hostCalls {
	c := &hostCalls{host: f.Host, tasks: make(map[string]bool)}
	c.read = func(tenant, task string) (schema.Task, error) { return tasks.Task(ctx, tenant, task) }
	if f.Host != "" {
		f.Calls = c.of
	}
	return c
}

// unread returns why a task could not be read, nil if all could.
func (c *hostCalls) unread() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *hostCalls) of(spec *schema.Spec) bool {
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

func (c *hostCalls) goesThere(w *schema.Work) bool {
	return w.HTTP != nil && tally.HostOf(w.HTTP.URL) == c.host
}

// callOf returns what a run of that spec calls, by what its task says now; "": it calls nothing, or
// that is not known.
func callOf(ctx context.Context, tasks Tasks, spec *schema.Spec) string {
	if spec.Work != nil {
		return callWords(spec.Work)
	}
	if spec.Task == "" {
		return ""
	}
	task, err := tasks.Task(ctx, spec.Tenant, spec.Task)
	if err != nil {
		return ""
	}
	return callWords(&task.Work)
}

// callWords returns what work calls, without what a URL may hide: user, query and fragment.
func callWords(w *schema.Work) string {
	switch {
	case w.HTTP != nil:
		method := w.HTTP.Method
		if method == "" {
			method = http.MethodPost
		}
		url, _, _ := strings.Cut(w.HTTP.URL, "#")
		url, _, _ = strings.Cut(url, "?")
		scheme, rest, ok := strings.Cut(url, "://")
		if !ok {
			return method
		}
		host, path, _ := strings.Cut(rest, "/")
		if path != "" {
			path = "/" + path
		}
		return method + " " + scheme + "://" + host[strings.LastIndexByte(host, '@')+1:] + path
	case w.NATS != nil:
		return "NATS " + w.NATS.Subject
	case w.Script != nil:
		return "script " + w.Script.Command
	case w.Lambda != nil:
		return "Lambda " + w.Lambda.Function
	}
	return ""
}
