package tasks

import (
	"context"
	"errors"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// MaxRated bounds the tasks of a cluster that have a rate or require labels, because every
// dispatcher knows all of them. ratedPage is how many are read at a time. ratedAge is how long a
// task is believed if no change is heard of: each dispatcher reads each of them that often.
const (
	MaxRated  = 5000
	ratedPage = 1000
	ratedAge  = bucketer.TaskCacheAge
	// maxRateEcho bounds what is logged of a rate that is not understood, in bytes.
	maxRateEcho = 100
)

// Rates returns the rates of all tasks that have one, and remembers which labels tasks require, for
// Requires. If the signal of a change was lost, both may be 10 s old. A task's first rate is never
// missing: the task is listed before it has one.
func (t *Tasks) Rates(ctx context.Context) (map[schema.TaskName]schema.Rate, error) {
	rates, requires := make(map[schema.TaskName]schema.Rate), make(map[schema.TaskName]schema.Labels)
	err := t.eachRated(ctx, func(name schema.TaskName) error {
		task, err := t.cache.Within(ctx, name.Tenant, name.Name, ratedAge)
		if errors.Is(err, schema.ErrNotFound) || err == nil && !listed(&task) {
			task, err = t.cache.Within(ctx, name.Tenant, name.Name, 0)
		}
		switch {
		case errors.Is(err, schema.ErrNotFound), errors.Is(err, schema.ErrNotUnderstood):
			// nothing starts of a task that is not understood
			return nil
		case err != nil:
			return err
		}
		if len(task.Work.Requires) > 0 {
			requires[name] = task.Work.Requires
		}
		if task.Rate == "" {
			return nil
		}
		r, err := schema.ParseRate(task.Rate)
		if err != nil {
			// a newer version may know other forms; it must not hide the rates of all other tasks
			t.log.Warn("the rate of a task is not understood, and not kept", "tenant", name.Tenant, "task", name.Name, "rate", bucketer.Shorten([]byte(task.Rate), maxRateEcho))
			return nil
		}
		rates[name] = r
		return nil
	})
	if err == nil {
		t.requires.Store(&requires)
	}
	return rates, err
}

// Requires returns the labels that runs of a task require, as Rates found them last; nil: none. It
// does no I/O. What is returned is shared: it is not to be changed.
func (t *Tasks) Requires(name schema.TaskName) schema.Labels {
	if all := t.requires.Load(); all != nil && len(*all) > 0 {
		return (*all)[name]
	}
	return nil
}

// listed reports whether every dispatcher must know of a task: it has a rate, or requires labels.
func listed(task *schema.Task) bool { return task.Rate != "" || len(task.Work.Requires) > 0 }

// eachRated calls f for each task that may have a rate, or require labels.
func (t *Tasks) eachRated(ctx context.Context, f func(schema.TaskName) error) error {
	for after, n := (schema.TaskName{}), 0; n < 2*MaxRated; n += ratedPage {
		// twice the bound: two nodes that add a rate at once do not count each other's
		page, err := t.store.RatedTasks(ctx, after, ratedPage)
		if err != nil {
			return err
		}
		for _, name := range page {
			if err := f(name); err != nil {
				return err
			}
		}
		if len(page) < ratedPage {
			return nil
		}
		after = page[len(page)-1]
	}
	return nil
}

// listRated notes that a task is about to have a rate, or to require labels. was is the task
// before. If we crash before the task is put, the list names a task that has neither.
func (t *Tasks) listRated(ctx context.Context, task, was *schema.Task) error {
	if !listed(task) {
		return nil
	}
	if !listed(was) {
		n := 0
		if err := t.eachRated(ctx, func(schema.TaskName) error { n++; return nil }); err != nil {
			return err
		}
		if n >= MaxRated {
			return bucketer.ErrManyRates
		}
	}
	return t.store.PutRated(ctx, schema.TaskName{Tenant: task.Tenant, Name: task.Name}, true, task.UpdatedAt)
}

// unlistRated notes that a task has no rate any more, and requires no labels. If that fails, the
// list names a task that has neither.
func (t *Tasks) unlistRated(ctx context.Context, task, was *schema.Task) {
	if !listed(was) || listed(task) {
		return
	}
	if err := t.store.PutRated(ctx, schema.TaskName{Tenant: task.Tenant, Name: task.Name}, false, task.UpdatedAt); err != nil {
		t.log.Debug("a task without rate stays in the list of those that may have one", "tenant", task.Tenant, "task", task.Name, "err", err)
	}
}
