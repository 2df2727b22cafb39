package bucketer

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
		tasks := NewTasks(w.Counts, time.Now)
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
		time.Sleep(taskCacheAge - time.Nanosecond)
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
	tasks := NewTasks(w.Counts, time.Now)
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
	var tasks *Tasks
	tasks = NewTasks(putting{w.Counts, func() {
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

func TestPutAndDeleteTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		begin := time.Now().UTC()
		job := Job{Tenant: "t", Task: "a"}
		if _, err := w.Submit(t.Context(), job); !errors.Is(err, ErrNoTask) {
			t.Errorf("Submit before the task = %v, want ErrNoTask", err)
		}
		put := func(want bool, created time.Time) {
			t.Helper()
			task, isNew, err := w.PutTask(t.Context(), schema.Task{Tenant: "t", Name: "a"})
			if err != nil || isNew != want || !task.CreatedAt.Equal(created) || !task.UpdatedAt.Equal(time.Now()) {
				t.Errorf("PutTask = %+v, new %v, %v; want new %v, created %v, updated now", task, isNew, err, want, created)
			}
		}
		put(true, begin)
		w.submit(job)
		time.Sleep(time.Minute)
		put(false, begin)
		time.Sleep(time.Minute)
		if err := w.DeleteTask(t.Context(), "t", "a"); err != nil {
			t.Errorf("DeleteTask = %v", err)
		}
		if err := w.DeleteTask(t.Context(), "t", "a"); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("DeleteTask again = %v, want ErrNotFound", err)
		}
		if _, err := w.Submit(t.Context(), job); !errors.Is(err, ErrNoTask) {
			t.Errorf("Submit after the task = %v, want ErrNoTask", err)
		}
		if want := []string{"task:t\na", "task:t\na", "task:t\na"}; !slices.Equal(w.Sent, want) {
			t.Errorf("signals = %q, want %q", w.Sent, want)
		}
		w.Stopped.Store(true)
		if _, _, err := w.PutTask(t.Context(), schema.Task{Tenant: "t", Name: "a"}); !errors.Is(err, ErrNotReady) {
			t.Errorf("PutTask while halted = %v, want ErrNotReady", err)
		}
	})
}
