package tasks

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

func TestPutAndDeleteTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		begin := time.Now().UTC()
		job := bucketer.Job{Tenant: "t", Task: "a"}
		if _, err := w.Submit(t.Context(), job); !errors.Is(err, bucketer.ErrNoTask) {
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
		if _, err := w.Submit(t.Context(), job); !errors.Is(err, bucketer.ErrNoTask) {
			t.Errorf("Submit after the task = %v, want ErrNoTask", err)
		}
		if want := []string{"task:t\na", "task:t\na", "task:t\na"}; !slices.Equal(w.Sent, want) {
			t.Errorf("signals = %q, want %q", w.Sent, want)
		}
		w.Stopped.Store(true)
		if _, _, err := w.PutTask(t.Context(), schema.Task{Tenant: "t", Name: "a"}); !errors.Is(err, bucketer.ErrNotReady) {
			t.Errorf("PutTask while halted = %v, want ErrNotReady", err)
		}
	})
}
