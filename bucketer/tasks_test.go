package bucketer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

func TestTasksAreRememberedForTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		w.task("t", "known")
		tasks := NewTaskCache(w.Counts, time.Now)
		w.Counts.Reset()
		reads := func(want int, when string) {
			t.Helper()
			for range 5 {
				if task, err := tasks.Task(t.Context(), "t", "known"); err != nil || task.Name != "known" {
					t.Errorf("%s: Task = %+v, %v", when, task, err)
				}
				if _, err := tasks.Task(t.Context(), "t", "none"); !errors.Is(err, schema.ErrNotFound) {
					t.Errorf("%s: Task of none = %v, want ErrNotFound", when, err)
				}
			}
			if got := w.Counts.Tally("Task").Calls; got != want {
				t.Errorf("%s: %d reads, want %d", when, got, want)
			}
		}
		reads(2, "at first")
		time.Sleep(TaskCacheAge - time.Nanosecond)
		reads(2, "just before 10 s")
		time.Sleep(time.Nanosecond)
		reads(4, "after 10 s")
		tasks.Changed([]byte("t\nnone"))
		reads(5, "after a change of one")
		tasks.Changed([]byte("u\nknown"))
		tasks.Changed([]byte("no line feed"))
		reads(5, "after changes of others")
	})
}

func TestTasksForgetWhatDoesNotFit(t *testing.T) {
	w := newWorld(t, schema.Settings{})
	tasks := NewTaskCache(w.Counts, time.Now)
	for i := range taskCacheSize + 5 {
		if _, err := tasks.Task(t.Context(), "t", fmt.Sprint(i)); !errors.Is(err, schema.ErrNotFound) {
			t.Fatalf("Task = %v, want ErrNotFound", err)
		}
	}
	if n := len(tasks.known); n != 5 {
		t.Errorf("%d tasks are kept, want the 5 since the cache was emptied", n)
	}
}

func TestTaskReadThatFailedIsNotRemembered(t *testing.T) {
	w := newWorld(t, schema.Settings{})
	w.task("t", "known")
	w.tasks.Changed([]byte("t\nknown"))
	w.BefallFirst(1, "Task", schematest.Fault{Fail: true})
	if _, err := w.tasks.Task(t.Context(), "t", "known"); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("Task = %v, want ErrUnavailable", err)
	}
	if _, err := w.tasks.Task(t.Context(), "t", "known"); err != nil {
		t.Errorf("Task again = %v", err)
	}
}

// putting is a store in which a task is put, and the change told, while it is being read.
type putting struct {
	schema.TaskStore
	put func()
}

func (p putting) Task(ctx context.Context, tenant, name string) (schema.Task, error) {
	task, err := p.TaskStore.Task(ctx, tenant, name)
	p.put()
	return task, err
}

// What was read before a change and arrived after it is out of date.
func TestTaskReadAcrossAChangeIsNotRemembered(t *testing.T) {
	w := newWorld(t, schema.Settings{})
	var tasks *TaskCache
	tasks = NewTaskCache(putting{w.Counts, func() {
		w.task("t", "new")
		tasks.Changed([]byte("t\nnew"))
	}}, time.Now)
	if _, err := tasks.Task(t.Context(), "t", "new"); !errors.Is(err, schema.ErrNotFound) {
		t.Fatalf("Task before the change = %v, want ErrNotFound", err)
	}
	if _, err := tasks.Task(t.Context(), "t", "new"); err != nil {
		t.Errorf("Task after the change = %v, want it found", err)
	}
}
