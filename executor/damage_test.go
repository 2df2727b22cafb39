package executor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// oddTasks is a store in which no task can be understood.
type oddTasks struct{ schema.TaskStore }

func (oddTasks) Task(_ context.Context, tenant, name string) (schema.Task, error) {
	return schema.Task{Tenant: tenant, Name: name, Fault: schema.ErrNotUnderstood}, schema.ErrNotUnderstood
}

// A task that cannot be understood fails its runs, which leave letters: they do not go round for
// ever.
func TestRunsOfATaskThatCannotBeUnderstoodFail(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1", func(c *Config) { c.Tasks = bucketer.NewTaskCache(oddTasks{}, time.Now) })
		e := w.entry(inAWhile(time.Second), func(s *schema.Spec) { s.Work, s.Task = nil, "odd" })
		w.publish(e, time.Now())
		time.Sleep(time.Minute)
		if got := w.state(e.ID); got != schema.StateFailed || len(w.started()) != 0 {
			t.Errorf("the run is %s after %s, want it failed, and nothing called", got, w.happened())
		}
		if l := w.letter(e.ID); l == nil || !strings.Contains(l.Last.Error, errOddTask.Error()) {
			t.Errorf("letter = %+v, want one that says why", l)
		}
	})
}

// A claim that cannot be understood ends its run: whether an attempt may start is not known.
func TestAClaimThatCannotBeUnderstoodEndsItsRun(t *testing.T) {
	for name, text := range map[string]string{"half an object": `{`, "an array": `[]`, "null": `null`} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x1")
				e := w.entry(inAWhile(time.Second), guarded(schema.AtMostOnce))
				bad := schema.Lease{Key: schema.RunLease(e.ID), Fence: 1, Record: []byte(text)}
				if _, err := w.inner.SwapLease(t.Context(), schema.Lease{}, bad, e.Due().Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
				if _, err := bad.Claim(); !errors.Is(err, schema.ErrNotUnderstood) {
					t.Fatalf("Claim = %v, want ErrNotUnderstood", err)
				}
				w.publish(e, time.Now())
				time.Sleep(time.Minute)
				if got := w.state(e.ID); got != schema.StateFailed || len(w.started()) != 0 {
					t.Errorf("the run is %s after %s, want it failed, and nothing called", got, w.happened())
				}
			})
		})
	}
}
