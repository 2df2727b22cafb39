package joins_test

import (
	"context"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

// workflow makes a workflow of one step.
func (w *world) workflow(name string) schema.Job {
	w.T.Helper()
	d, err := workflow.Decode([]byte(`{"steps":[{"name":"only","http":{"url":"http://x.test/"}}]}`))
	if err != nil {
		w.T.Fatal(err)
	}
	stored, err := orchestration.NewJobWorkflow(d)
	if err != nil {
		w.T.Fatal(err)
	}
	job, _, err := w.e.PutJob(context.Background(), "t", name, 0, schema.JobSpec{Workflow: stored})
	if err != nil {
		w.T.Fatalf("PutJob(%s) = %v", name, err)
	}
	return job
}

// finish advances a run of such a workflow to its end, and does what follows from that.
func (w *world) finish(id schema.RunID, succeeds bool) {
	w.T.Helper()
	first := &orchestration.Turn{Run: id}
	w.e.Advance(context.Background(), []*orchestration.Turn{first}, 10)
	if first.Err != nil || len(first.Start) != 1 {
		w.T.Fatalf("Advance = %v, starts %d steps, want 1", first.Err, len(first.Start))
	}
	rec := schema.Record{Outcome: schema.Succeeded, Started: time.Now()}
	if !succeeds {
		rec.Outcome, rec.Final = schema.Failed, true
	}
	w.Recorded(first.Start[0], 1, rec)
	last := &orchestration.Turn{Run: id, State: first.State, Ended: []orchestration.StepEnd{{Run: first.Start[0].ID, Succeeded: succeeds}}}
	w.e.Advance(context.Background(), []*orchestration.Turn{last}, 10)
	if last.Err != nil || !last.Over {
		w.T.Fatalf("Advance = %v, over %v, want the end", last.Err, last.Over)
	}
}

// A job runs after a workflow, as after any other job.
func TestAfterAWorkflow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		etl := w.workflow("etl")
		report, handler := w.job("report", after("", 0, "etl")), w.job("handler", after("any_failed", 0, "etl"))
		for _, succeeds := range []bool{true, false} {
			began := time.Now()
			w.finish(w.trigger(&etl), succeeds)
			w.plan()
			for _, c := range []struct {
				job  *schema.Job
				runs bool
			}{{&report, succeeds}, {&handler, !succeeds}} {
				name, n := c.job.Current.Spec.Name, 0
				for _, r := range w.joins(c.job) {
					if !r.ID.Time().Before(began.Truncate(time.Millisecond)) {
						n += w.starts(r.ID)
					}
				}
				if want := map[bool]int{true: 1}[c.runs]; n != want {
					t.Errorf("etl succeeds: %v. %s starts %d times, want %d", succeeds, name, n, want)
				}
			}
			time.Sleep(time.Minute)
		}
	})
}
