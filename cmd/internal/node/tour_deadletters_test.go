package node

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// fail makes runs of a task fail for good, and returns them sorted.
func (r *running) fail(task, url string, n int) (failed []schema.RunID) {
	r.t.Helper()
	c := r.client()
	if _, err := c.PutTask(r.t.Context(), task, request.TaskRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: url}}}); err != nil {
		r.t.Fatalf("PutTask = %v", err)
	}
	for range n {
		job, err := c.CreateJob(r.t.Context(), request.JobRequest{Key: uuid.NewString(), Task: task})
		if err != nil {
			r.t.Fatalf("CreateJob = %v", err)
		}
		failed = append(failed, schema.RunID(job.ID))
	}
	for _, run := range failed {
		r.letter(run)
	}
	slices.SortFunc(failed, compareRuns)
	return failed
}

func compareRuns(a, b schema.RunID) int { return slices.Compare(a[:], b[:]) }

// listed returns the runs of a task that are listed as dead letters, sorted; of all tasks if it is
// empty.
func (r *running) listed(task string) (runs []schema.RunID) {
	r.t.Helper()
	for l, err := range r.client().DeadLetters(r.t.Context(), httpapi.LetterQuery{Task: task, Limit: 2}) {
		if err != nil {
			r.t.Fatalf("DeadLetters = %v", err)
		}
		runs = append(runs, l.ID)
	}
	slices.SortFunc(runs, compareRuns)
	return runs
}

func (r *running) showReplayOfATask(ground) {
	t, c := r.t, r.client()
	var well atomic.Bool
	url := sink(t, func(w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			w.WriteHeader(http.StatusGone)
		}
	})
	const n = 5
	failed, others := r.fail("mail", url, n), r.fail("report", url, 1)
	if got := r.listed("mail"); !slices.Equal(got, failed) {
		t.Errorf("dead letters of the task = %v, want %v", got, failed)
	}
	well.Store(true)
	now := time.Now()
	op := request.OperationRequest{Action: "replay", Filter: schema.OperationFilter{Task: "mail", From: now.Add(-time.Hour), To: now.Add(time.Hour)}}
	begun, err := c.BeginOperation(t.Context(), op, uuid.NewString())
	if err != nil || begun.Matched != n || !begun.All {
		t.Fatalf("BeginOperation = %+v, %v; want that all %d match", begun, err, n)
	}
	done, err := c.AwaitOperation(t.Context(), begun.ID, nil)
	if err != nil || done.State != schema.OperationDone || done.Matched != n || done.Changed != n {
		t.Fatalf("AwaitOperation = %+v, %v; want it done, and all %d replayed", done, err, n)
	}
	for _, run := range failed {
		l, err := c.DeadLetter(t.Context(), run)
		if err != nil || l.State != "replayed" {
			t.Fatalf("DeadLetter = %s, %v; want replayed", l.State, err)
		}
		if again := r.awaitState(schema.JobID(l.Replay), schema.StateSucceeded); again.Origin != run || again.Task != "mail" {
			t.Errorf("replay of %s = run of %q with origin %s, want one of the same task whose origin it is", run, again.Task, again.Origin)
		}
	}
	if got := r.listed(""); !slices.Equal(got, others) {
		t.Errorf("dead letters after the replay = %v, want the other task's alone: %v", got, others)
	}
}

func (r *running) showDiscard(ground) {
	t, c := r.t, r.client()
	failed := r.fail("mail", sink(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }), 2)
	for range 2 { // twice is the same as once
		if err := c.DiscardDeadLetter(t.Context(), failed[0]); err != nil {
			t.Fatalf("DiscardDeadLetter = %v", err)
		}
	}
	if got := r.listed("mail"); !slices.Equal(got, failed[1:]) {
		t.Errorf("dead letters = %v, want what was not discarded: %v", got, failed[1:])
	}
	var p *httpapi.Problem
	for what, ask := range map[string]func() error{
		"DeadLetter":       func() error { _, err := c.DeadLetter(t.Context(), failed[0]); return err },
		"ReplayDeadLetter": func() error { _, err := c.ReplayDeadLetter(t.Context(), failed[0]); return err },
	} {
		if err := ask(); !errors.As(err, &p) || p.Status != http.StatusNotFound && p.Status != http.StatusConflict {
			t.Errorf("%s of what was discarded = %s, want that it is gone", what, fmt.Sprint(err))
		}
	}
	r.awaitState(schema.JobID(failed[0]), schema.StateFailed)
}
