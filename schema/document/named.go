package document

import (
	"context"
	"fmt"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

// PutTenant implements schema.TenantStore.
func (r Roles) PutTenant(ctx context.Context, t schema.Tenant) error {
	if err := r.put(ctx, Document{Kind: Tenant, Name: t.Name, Written: t.UpdatedAt}, t); err != nil {
		return fmt.Errorf("put tenant %s: %w", t.Name, err)
	}
	return nil
}

// Tenant implements schema.TenantStore.
func (r Roles) Tenant(ctx context.Context, name string) (schema.Tenant, error) {
	d, err := r.rows.Document(ctx, Tenant, "", name)
	if err != nil {
		return schema.Tenant{}, fmt.Errorf("read tenant %s: %w", name, err)
	}
	return r.loadTenant(&d), nil
}

// Tenants implements schema.TenantStore.
func (r Roles) Tenants(ctx context.Context, after string, limit int) ([]schema.Tenant, error) {
	tenants, err := list(ctx, r, Tenant, "", after, limit, r.loadTenant)
	if err != nil {
		return nil, fmt.Errorf("read tenants: %w", err)
	}
	return tenants, nil
}

func (r Roles) loadTenant(d *Document) schema.Tenant {
	t, err := schema.Decode[schema.Tenant](d.Text, "tenant")
	if r.damage.Found("tenants", d.Name, err) != nil {
		t.Fault, t.UpdatedAt = err, d.Written
	}
	t.Name = d.Name
	return t
}

// PutTask implements schema.TaskStore.
func (r Roles) PutTask(ctx context.Context, t schema.Task) error {
	d := Document{Kind: Task, Scope: t.Tenant, Name: t.Name, Written: t.UpdatedAt}
	if err := r.put(ctx, d, t); err != nil {
		return fmt.Errorf("put task %s of %s: %w", t.Name, t.Tenant, err)
	}
	return nil
}

// DeleteTask implements schema.TaskStore.
func (r Roles) DeleteTask(ctx context.Context, tenant, name string, at time.Time) error {
	d := Document{Kind: Task, Scope: tenant, Name: name, Written: at, Deleted: true}
	if err := r.rows.PutDocuments(ctx, d); err != nil {
		return fmt.Errorf("delete task %s of %s: %w", name, tenant, err)
	}
	return nil
}

// Task implements schema.TaskStore.
func (r Roles) Task(ctx context.Context, tenant, name string) (t schema.Task, err error) {
	d, err := r.rows.Document(ctx, Task, tenant, name)
	if err == nil {
		t = r.loadTask(&d)
		err = t.Fault
	}
	if err != nil {
		return t, fmt.Errorf("read task %s of %s: %w", name, tenant, err)
	}
	return t, nil
}

// Tasks implements schema.TaskStore.
func (r Roles) Tasks(ctx context.Context, tenant, after string, limit int) ([]schema.Task, error) {
	tasks, err := list(ctx, r, Task, tenant, after, limit, r.loadTask)
	if err != nil {
		return nil, fmt.Errorf("read tasks of %s: %w", tenant, err)
	}
	return tasks, nil
}

func (r Roles) loadTask(d *Document) schema.Task {
	t, err := schema.Decode[schema.Task](d.Text, "task")
	if r.damage.Found("tasks", d.Scope+"/"+d.Name, err) != nil {
		t.Fault, t.UpdatedAt = err, d.Written
	}
	t.Tenant, t.Name = d.Scope, d.Name
	return t
}

// RatedName returns the name of a RatedTask: tenant, a zero byte, task. Neither holds a zero byte,
// so names are in the order of tenants, then of tasks.
func RatedName(task schema.TaskName) string {
	if task == (schema.TaskName{}) {
		return ""
	}
	return task.Tenant + "\x00" + task.Name
}

// ParseRatedName is the inverse of RatedName.
func ParseRatedName(name string) schema.TaskName {
	tenant, task, _ := strings.Cut(name, "\x00")
	return schema.TaskName{Tenant: tenant, Name: task}
}

// PutRated implements schema.RateStore.
func (r Roles) PutRated(ctx context.Context, task schema.TaskName, rated bool, at time.Time) error {
	d := Document{Kind: RatedTask, Name: RatedName(task), Written: at, Deleted: !rated}
	if err := r.rows.PutDocuments(ctx, d); err != nil {
		return fmt.Errorf("note the rate of task %s of %s: %w", task.Name, task.Tenant, err)
	}
	return nil
}

// RatedTasks implements schema.RateStore.
func (r Roles) RatedTasks(ctx context.Context, after schema.TaskName, limit int) ([]schema.TaskName, error) {
	tasks, err := list(ctx, r, RatedTask, "", RatedName(after), limit, func(d *Document) schema.TaskName { return ParseRatedName(d.Name) })
	if err != nil {
		return nil, fmt.Errorf("read which tasks have a rate: %w", err)
	}
	return tasks, nil
}
