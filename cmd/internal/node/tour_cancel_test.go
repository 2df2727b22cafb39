package node

import (
	"net/http"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/schema"
)

func (r *running) showCancelOfAHandler(g ground) {
	run := r.cancelled(endlessHandler(r.t, g.server, r))
	if line := r.firstLine(run.ID); line.Attempt != 1 {
		r.t.Errorf("the first line, once the run has ended, is of attempt %d, want 1", line.Attempt)
	}
}

func (r *running) showCancelOfACall(ground) { r.cancelled(endlessCall(r.t)) }

func (r *running) showCancelOfAScript(ground) { r.cancelled(endlessScript(r.t)) }

// That a run does not start shows by one that was to start after it.
func (r *running) showCancelOfAPendingRun(ground) {
	t, c := r.t, r.client()
	job, due, called := r.cancelledWhilePending()
	if again, err := c.CancelRun(t.Context(), schema.RunID(job)); err != nil || again.State != schema.StateCancelled {
		t.Errorf("CancelRun a second time = %s, %v; want the same", again.State, err)
	}
	next := r.create(sink(t, func(http.ResponseWriter, *http.Request) {}), due.Add(300*time.Millisecond))
	r.awaitState(next.ID, schema.StateSucceeded)
	if run := r.awaitState(job, schema.StateCancelled); called.Load() != 0 || len(run.Attempts) != 0 {
		t.Errorf("the run was called %d times, and has attempts %+v; want none", called.Load(), run.Attempts)
	}
}

// cancelledWhilePending returns a job whose one run was cancelled before it was due, and the number
// of its calls. A machine that is too slow for that is given longer.
func (r *running) cancelledWhilePending() (id schema.JobID, due time.Time, called *atomic.Int32) {
	t := r.t
	for ahead := 2 * time.Second; ; ahead *= 2 {
		called = new(atomic.Int32)
		url := sink(t, func(http.ResponseWriter, *http.Request) { called.Add(1) })
		due = time.Now().Add(ahead)
		job := r.create(url, due)
		run, err := r.client().CancelRun(t.Context(), schema.RunID(job.ID))
		if !time.Now().Before(due) {
			continue
		}
		if err != nil || run.State != schema.StateCancelled {
			t.Fatalf("CancelRun = %s, %v; want cancelled", run.State, err)
		}
		return job.ID, due, called
	}
}
