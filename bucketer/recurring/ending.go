package recurring

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/schema"
)

const (
	// maxEnding bounds the jobs that wait to be finished; those beyond it are left to Mend, as are
	// all of a process that crashes.
	maxEnding = 10_000
	// endsAtOnce bounds the conditional writes under way that finish jobs.
	endsAtOnce = 16
)

// ending are jobs whose last run was published, and which are to be finished. That is a conditional
// write, too slow to have a run wait for: a thousand jobs that end at once would hold up their
// shards for seconds. Nothing depends on when it is done, because the last runs of a finished job
// start nevertheless.
type ending struct {
	mu   sync.Mutex
	jobs map[schema.JobID]*schema.Job
	more chan struct{} // holds one when there may be something to do
}

// add notes that a job is to be finished.
func (e *ending) add(job *schema.Job) {
	e.mu.Lock()
	if len(e.jobs) < maxEnding {
		e.jobs[job.ID] = job
	}
	e.mu.Unlock()
	select {
	case e.more <- struct{}{}:
	default:
	}
}

// take takes one of the jobs out; nil = there is none.
func (e *ending) take() *schema.Job {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, job := range e.jobs {
		delete(e.jobs, id)
		return job
	}
	return nil
}

// finishAll finishes jobs, several at a time, until ctx ends.
func (j *Changer) finishAll(ctx context.Context) {
	var g errgroup.Group
	g.SetLimit(endsAtOnce)
	defer func() { _ = g.Wait() }() // finish tells of its errors
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.ending.more:
		}
		for job := j.ending.take(); job != nil && ctx.Err() == nil; job = j.ending.take() {
			g.Go(func() error {
				j.finish(ctx, *job, j.now())
				return nil
			})
		}
	}
}
