package recurring

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const (
	// maxTodo bounds the jobs that wait to be looked at. One that is left out is looked at when a
	// run of it fails the next time, or when Mend comes there again.
	maxTodo = 10_000
	// todoRetry is when a job is looked at again that could not be changed.
	todoRetry = 5 * time.Second
)

// todo are jobs that are to be looked at, and maybe changed: of which a run has failed, or that go
// by old dates of a calendar. That is done in the background: a change is a conditional write,
// which a record must not wait for. A process that crashes forgets them: then the next failure
// pauses the job, one run later.
type todo struct {
	mu   sync.Mutex
	jobs map[schema.JobID]string // their tenants
	more chan struct{}           // holds one when there may be something to do
}

func newTodo() todo {
	return todo{jobs: make(map[schema.JobID]string), more: make(chan struct{}, 1)}
}

func (f *todo) add(tenant string, id schema.JobID) {
	f.mu.Lock()
	if len(f.jobs) < maxTodo {
		f.jobs[id] = tenant
	}
	f.mu.Unlock()
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// take takes all of the jobs out.
func (f *todo) take() map[schema.JobID]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.jobs
	f.jobs = make(map[schema.JobID]string)
	return all
}

// NoteFailure notes that a run of a job has failed for good, and that the job may have to be
// paused. The run's line of history is held.
func (j *Changer) NoteFailure(tenant string, id schema.JobID) { j.failing.add(tenant, id) }

// do looks at jobs, several at a time, until ctx ends. One of which look answers an error is looked
// at again; open says in the log what is open until then.
func (j *Changer) do(ctx context.Context, jobs *todo, open string, look func(ctx context.Context, tenant string, id schema.JobID) error) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-jobs.more:
		}
		var g errgroup.Group
		g.SetLimit(endsAtOnce)
		var mu sync.Mutex
		again := make(map[schema.JobID]string)
		for id, tenant := range jobs.take() {
			g.Go(func() error {
				if err := look(ctx, tenant, id); err != nil && ctx.Err() == nil {
					j.log.Debug("a job is to be looked at again", "reason", open, "job", id, "err", err)
					mu.Lock()
					defer mu.Unlock()
					again[id] = tenant
				}
				return nil
			})
		}
		_ = g.Wait() // each tells of its error
		if len(again) == 0 {
			continue
		}
		if pause(ctx, todoRetry) != nil {
			return
		}
		for id, tenant := range again {
			jobs.add(tenant, id)
		}
	}
}

// pauseIfFailing pauses a job if as many runs in a row have failed as it allows. A change or a
// resume of the job in between begins the count anew. Who asked for it is told before: a process
// that crashes in between leaves the job active, and the next failure tells and pauses. So a job
// that somebody changes at that very moment may be told as paused, and is not.
func (j *Changer) pauseIfFailing(ctx context.Context, tenant string, id schema.JobID) error {
	job, err := j.JobByID(ctx, tenant, id)
	switch {
	case errors.Is(err, schema.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	spec := &job.Current.Spec
	if job.Current.Fault != nil || spec.PauseAfter == 0 || job.Current.State != schema.JobActive {
		return nil
	}
	failed, last, err := j.failedInARow(ctx, &job, spec.PauseAfter)
	if err != nil || failed < spec.PauseAfter {
		return err
	}
	because := fmt.Sprintf("%d runs in a row have failed, the last of them %s", failed, last.Run)
	if err := j.runs.NotePaused(ctx, &job, &last, because); err != nil {
		return fmt.Errorf("tell that job %s is paused: %w", id, err)
	}
	paused, err := j.swap(ctx, tenant, id, job.Current.Number, func(g *schema.Generation, _ time.Time) (bool, error) {
		if g.State != schema.JobActive {
			return false, nil
		}
		g.State, g.Spec.PausedBecause = schema.JobPaused, because
		return true, nil
	})
	switch {
	case errors.Is(err, bucketer.ErrFinished), errors.Is(err, schema.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("pause job %s: %w", id, err)
	}
	if paused.Current.State == schema.JobPaused {
		j.metrics.paused.Inc()
		j.log.Info("a job is paused because its runs fail", "tenant", tenant, "job", id, "name", spec.Name, "failed", failed, "run", last.Run)
	}
	return nil
}

// failedInARow returns how many runs of the job in force have failed for good since the last that
// succeeded, at most `most` of them, and the line of the last of them (runs.Reader.FailedInARow).
// It looks as far back as the history of the job reaches.
func (j *Reader) failedInARow(ctx context.Context, job *schema.Job, most int) (failed int, last schema.JobRun, err error) {
	now := j.now()
	stays := j.core.Expiry(now, now).Sub(now) + historyWait
	return j.runs.FailedInARow(ctx, job.ID, schema.RunID{}, bucketer.Latest(job.Current.Spec.Created, job.Cut, now.Add(-stays)), most)
}
