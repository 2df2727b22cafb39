package recurring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const (
	// cutAhead is how far ahead of a change its cut lies: from there on only the new generation
	// starts.
	cutAhead = knownBefore + 500*time.Millisecond
	// knownBefore is how long before the cut a change must be known to be committed. Whoever read
	// the job before it was starts nothing later than 1.9 s after that read, and so nothing after
	// the cut.
	knownBefore = bucketer.TaskChangeWithin
	// pastFor is how long generations that were replaced are remembered, at most maxPast of them: a
	// run may be as late as that when its job is changed again, and is recorded as missed all the
	// same.
	pastFor = 5 * time.Minute
	MaxPast = 4
	// changeTries bounds how often a change is tried because another was faster, its commit was
	// known too late, or what was read plainly did not do.
	changeTries = 6
)

// endless is the cut of a job that has finished: the runs of its last generation start however
// late.
var endless = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// PutJob creates the tenant's job of that name, or replaces what it says. ifMatch is the generation
// that it must have, 0 = any or none.
func (j *Jobs) PutJob(ctx context.Context, tenant, name string, ifMatch int64, spec schema.JobSpec) (job schema.Job, created bool, err error) {
	spec.Tenant, spec.Name = tenant, name
	for range changeTries {
		id, _, err := j.store.JobByName(ctx, tenant, name)
		if err != nil && !errors.Is(err, schema.ErrNotFound) {
			return schema.Job{}, false, fmt.Errorf("job %q: %w", name, err)
		}
		if err == nil {
			job, err = j.ChangeJob(ctx, tenant, id, ifMatch, func(s *schema.JobSpec) error { *s = spec; return nil })
			if !errors.Is(err, bucketer.ErrFinished) && !errors.Is(err, schema.ErrNotFound) {
				return job, false, err
			}
		}
		if ifMatch != 0 {
			return schema.Job{}, false, ErrStale
		}
		job, _, err = j.CreateJob(ctx, spec, "", "")
		if !errors.Is(err, ErrNameTaken) {
			return job, err == nil, err
		}
		if _, err := j.JobByName(ctx, tenant, name); errors.Is(err, schema.ErrNotFound) {
			return schema.Job{}, false, ErrNameTaken // by one that is being made, or never was
		}
	}
	return schema.Job{}, false, fmt.Errorf("put job %q: %w: it keeps changing", name, schema.ErrUnavailable)
}

// ChangeJob has change make what the job says up from what it said. Tenant, name and creation stay.
// ifMatch is the generation that it must have, 0 = any: ErrStale. A job that has ended is not
// changed: ErrFinished. The answer comes when the change holds: from 2 s after it on nothing starts
// as it was before.
func (j *Jobs) ChangeJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64, change func(*schema.JobSpec) error) (schema.Job, error) {
	return j.swap(ctx, tenant, id, ifMatch, func(g *schema.Generation, from time.Time) (bool, error) {
		if g.State.Ended() {
			return false, bucketer.ErrFinished
		}
		was := g.Spec
		if err := change(&g.Spec); err != nil {
			return false, err
		}
		spec := &g.Spec
		spec.Tenant, spec.Name, spec.Created = was.Tenant, was.Name, was.Created
		if err := j.checkChanged(ctx, spec, &was); err != nil {
			return false, err
		}
		if err := complete(id, spec, from); err != nil {
			return false, err
		}
		if spec.MaxRuns > 0 && spec.MaxRuns == was.MaxRuns && sameTimes(spec, &was) {
			spec.Schedule.End = was.Schedule.End // it was counted from where the times began
		}
		same, err := sameText(spec, &was)
		return !same, err
	})
}

// checkChanged checks the task of a spec, and its payload if either is another than it was: one
// that was found good stays so, whatever the task says by now.
func (j *Jobs) checkChanged(ctx context.Context, spec, was *schema.JobSpec) error {
	if spec.Task == was.Task && bytes.Equal(spec.Payload, was.Payload) {
		_, err := j.core.TaskOf(ctx, spec.Tenant, spec.Task)
		return err
	}
	return j.core.CheckTask(ctx, spec.Tenant, spec.Task, spec.Payload)
}

// sameText reports whether two specs say the same.
func sameText(a, b *schema.JobSpec) (bool, error) {
	x, y := *a, *b
	x.Updated, x.Past = y.Updated, y.Past
	text, err := schema.EncodeJobSpec(&x)
	if err != nil {
		return false, err
	}
	other, err := schema.EncodeJobSpec(&y)
	return bytes.Equal(text, other), err
}

// sameTimes reports whether two specs name the same times, their ends aside.
func sameTimes(a, b *schema.JobSpec) bool {
	if a.Schedule == nil || b.Schedule == nil {
		return a.Schedule == b.Schedule
	}
	x, y := *a.Schedule, *b.Schedule
	same := x.Anchor.Equal(y.Anchor) && x.Start.Equal(y.Start) && a.EndStated.Equal(b.EndStated)
	x.Anchor, x.Start, x.End, x.Jitter = y.Anchor, y.Start, y.End, y.Jitter
	return same && x == y
}

// PauseJob stops the planning of runs. Pausing twice answers the same as once.
func (j *Jobs) PauseJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error) {
	return j.swap(ctx, tenant, id, ifMatch, turn(schema.JobPaused))
}

// ResumeJob goes on with a job that was paused, from the first time to come. Resuming an active job
// changes nothing.
func (j *Jobs) ResumeJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error) {
	return j.swap(ctx, tenant, id, ifMatch, turn(schema.JobActive))
}

// CancelJob ends a job: no run of it makes a first start, and none that failed is tried again. What
// is under way ends by itself. Cancelling twice answers the same as once. The job's name is free
// again.
func (j *Jobs) CancelJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error) {
	return j.swap(ctx, tenant, id, ifMatch, turn(schema.JobCancelled))
}

// turn returns the change of a job's state alone.
func turn(state schema.JobState) mutation {
	return func(g *schema.Generation, _ time.Time) (bool, error) {
		switch {
		case g.State == state:
			return false, nil
		case g.State.Ended():
			return false, bucketer.ErrFinished
		}
		g.State = state
		return true, nil
	}
}

// mutation makes a new generation of a copy of the one in force, and reports whether anything
// changes. New runs are due later than from.
type mutation func(g *schema.Generation, from time.Time) (bool, error)

// swap replaces the generation in force. Its first run is held before the change is, with a number
// that nobody else draws: the row of a race that was lost is never in force. The change is answered
// when its commit was known knownBefore its cut, and not before that time; a commit known too late
// is followed by another generation that says the same.
//
// The job is read plainly at first: the commit finds out whether that was what stands. Whatever is
// answered without a commit is answered by a read that decides (SERIAL).
//
// A cut is drawn by a clock that is right alone: by one that was set ahead meanwhile it would lie
// so far away that what was replaced starts long after the answer. A change of ours that is
// committed then, and not answered, is of unknown outcome.
//
// If we crash between the first run and the commit, the run is cancelled when it is due. If we
// crash after the commit, the change holds, and may be known to be so late that runs of the
// generation before start up to 1.9 s after the commit. Nobody was told that they would not.
func (j *Jobs) swap(ctx context.Context, tenant string, id schema.JobID, ifMatch int64, mutate mutation) (schema.Job, error) {
	if _, err := j.core.InForce(); err != nil {
		return schema.Job{}, err
	}
	mine := int64(0) // a generation of ours whose commit was known too late
	failed := func(err error) error {
		if mine == 0 {
			return err
		}
		return fmt.Errorf("change job %s: %w: it was committed too late, and then not made again: %s", id, schema.ErrUnknown, err.Error())
	}
	for try := range changeTries {
		decided := try > 0
		job, err := j.settled(ctx, tenant, id, decided)
		stale := mine == 0 && ifMatch != 0 && job.Current.Number != ifMatch
		switch {
		case err != nil:
			return schema.Job{}, failed(err)
		case mine != 0 && job.Current.Number != mine:
			return job, nil // changed again by somebody else: nothing is ours to answer for
		case stale && decided:
			return job, ErrStale
		case stale:
			continue
		case mine != 0:
			mutate = again
		}
		next, first, err := j.replace(ctx, &job, mutate)
		var refused refusal
		switch {
		case errors.As(err, &refused) && !decided, errors.Is(err, schema.ErrConflict):
			continue
		case errors.Is(err, errAsItIs):
			// Said again, maybe since an answer was lost: it is answered no earlier than the first
			// time. (A finished job's cut never comes.)
			if err := j.goesOn(ctx, &job); err != nil {
				return schema.Job{}, failed(err)
			}
			if wait := job.Cut.Add(-knownBefore).Sub(j.now()); wait > 0 && wait < cutAhead {
				return job, pause(ctx, wait)
			}
			return job, nil
		case errors.As(err, &refused):
			return job, refused.error
		case err != nil:
			return schema.Job{}, failed(err)
		}
		known := j.now()
		j.hintSoon(first)
		j.unlist(ctx, &next)
		if answer := next.Cut.Add(-knownBefore); !known.After(answer) {
			return next, pause(ctx, answer.Sub(known))
		}
		mine = next.Current.Number
	}
	return schema.Job{}, fmt.Errorf("change job %s: %w: it keeps changing, or the store is too slow", id, schema.ErrUnknown)
}

// refusal is what a mutation has against a job as it was read.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// errAsItIs is the refusal of a mutation by which nothing changes.
var errAsItIs = errors.New("it says so already")

// again is the mutation after one that was known too late: it says the same once more.
func again(*schema.Generation, time.Time) (bool, error) { return true, nil }

// replace puts a new generation in the place of the one in force, once it is the turn of the job's
// shard. schema.ErrConflict: that was replaced meanwhile. Who asks waits here, and not while the
// cut that was drawn comes nearer.
func (j *Jobs) replace(ctx context.Context, job *schema.Job, mutate mutation) (next schema.Job, first []schema.Entry, err error) {
	release, err := j.locks.acquire(ctx, job.ID.Shard())
	if err != nil {
		return schema.Job{}, nil, err
	}
	defer release()
	now := j.now()
	if _, err := j.core.InForce(); err != nil {
		// asked after the reading: a clock set in between is noticed
		return schema.Job{}, nil, err
	}
	next = schema.Job{ID: job.ID, Current: job.Current, Before: &job.Current, Cut: bucketer.CeilMilli(now.Add(cutAhead)).UTC()}
	switch changed, err := mutate(&next.Current, next.Cut); {
	case err != nil:
		return schema.Job{}, nil, refusal{err}
	case !changed:
		return schema.Job{}, nil, refusal{errAsItIs}
	}
	next.Current.Spec.Updated, next.Current.Spec.Past = now.UTC().Truncate(time.Millisecond), pastOf(job, now)
	next.Current.Number = draw(job.Current.Number, now)
	if first, err = j.prepare(ctx, &next, now); err != nil {
		return schema.Job{}, nil, err
	}
	if err = j.commit(ctx, job.Current.Number, next); err != nil {
		err = fmt.Errorf("change job %s: %w", job.ID, err)
	}
	return next, first, err
}

// pastOf returns what is to be remembered of the generations of a job that is about to be changed,
// besides the one in force.
func pastOf(job *schema.Job, now time.Time) []schema.PastGeneration {
	past := job.Current.Spec.Past
	if job.Before != nil && job.Before.State == schema.JobActive {
		past = append([]schema.PastGeneration{{Number: job.Before.Number, Schedule: job.Before.Spec.Schedule, Cut: job.Cut}}, past...)
	}
	for i := range past {
		if i == MaxPast || now.Sub(past[i].Cut) > pastFor {
			return past[:i:i]
		}
	}
	return past
}

// settled reads a job once its cut has passed: at most two generations are live. decided says
// whether every change that was begun before is to be decided by the read; otherwise a plain read
// will do, if it finds a job.
func (j *Jobs) settled(ctx context.Context, tenant string, id schema.JobID, decided bool) (schema.Job, error) {
	if _, oneOff := id.OneOff(); oneOff {
		return schema.Job{}, fmt.Errorf("job %s: %w", id, schema.ErrNotFound)
	}
	for {
		job, err := j.read(ctx, id, decided)
		switch {
		case errors.Is(err, schema.ErrNotUnderstood):
			// it does not say whose it is: the list of jobs does
			if _, owned := j.JobByID(ctx, tenant, id); owned != nil {
				err = owned
			}
		case err == nil && job.Current.Spec.Tenant != tenant:
			err = schema.ErrNotFound
		}
		if err != nil {
			return schema.Job{}, fmt.Errorf("job %s: %w", id, err)
		}
		wait := job.Cut.Sub(j.now())
		if wait <= 0 || job.Current.State.Ended() {
			return job, nil
		}
		if err := pause(ctx, min(wait, cutAhead)); err != nil {
			return schema.Job{}, err
		}
	}
}

// read reads a job that is about to be changed: plainly, unless every change that was begun before
// is to be decided by it, or the plain read does not find a job that is understood.
func (j *Jobs) read(ctx context.Context, id schema.JobID, decided bool) (schema.Job, error) {
	if !decided {
		jobs, err := j.store.Jobs(ctx, id.Shard(), []schema.JobID{id})
		if err == nil && len(jobs) == 1 && jobs[0].Current.Fault == nil {
			return jobs[0], nil
		}
	}
	return j.store.Job(ctx, id)
}

// prepare holds what a generation needs before it is committed: its first run, if it is active; and
// an expiry, if it ends the job.
func (j *Jobs) prepare(ctx context.Context, next *schema.Job, now time.Time) ([]schema.Entry, error) {
	var first []schema.Entry
	if next.Current.State == schema.JobActive {
		s, nominal, ok, err := j.first(next)
		if err != nil {
			return nil, err
		}
		switch {
		case ok:
			row, err := j.occurrence(s, nominal, now)
			if err != nil {
				return nil, err
			}
			first = []schema.Entry{row}
			if err := j.core.PutRows(ctx, first); err != nil {
				return nil, fmt.Errorf("first run: %w", err)
			}
			j.core.CountWritten(first)
		case s != nil:
			next.Current.State = schema.JobFinished
		}
	}
	if next.Current.State.Ended() {
		next.Expires = j.lastAsked(now)
	}
	return first, nil
}

// lastAsked returns when the row of a job that ends at now may leave: no run can ask for it any
// more.
func (j *Jobs) lastAsked(now time.Time) time.Time {
	return j.core.Expiry(now.Add(schema.HistoryPeriod), now)
}

// unlist has a job that ended leave the list of its tenant together with its row. Otherwise it
// would be listed without one, which is harmless.
func (j *Jobs) unlist(ctx context.Context, job *schema.Job) {
	if job.Expires.IsZero() {
		return
	}
	if err := j.store.ListJob(ctx, job.Current.Spec.Tenant, job.ID, job.Expires); err != nil {
		j.log.Debug("an ended job stays in the list of jobs", "job", job.ID, "err", err)
	}
}

// commit replaces the generation was. Of an unknown outcome it finds out what became of it.
func (j *Jobs) commit(ctx context.Context, was int64, next schema.Job) error {
	err := j.store.SwapJob(ctx, was, next)
	if !errors.Is(err, schema.ErrUnknown) || ctx.Err() != nil {
		return err
	}
	switch stands, rerr := j.store.Job(ctx, next.ID); {
	case rerr != nil:
		return err
	case stands.Current.Number == next.Current.Number:
		return nil
	}
	return schema.ErrConflict // it is decided: ours was not written
}

// finish ends a job whose schedule names nothing more; the runs of its last generation start
// however late. It is tried again by Mend, so a failure is only told.
func (j *Jobs) finish(ctx context.Context, job schema.Job, now time.Time) {
	if job.Current.State != schema.JobActive || now.Before(job.Cut) {
		return
	}
	last := job.Current
	next := schema.Job{ID: job.ID, Current: last, Before: &last, Cut: endless}
	next.Current.State, next.Current.Number = schema.JobFinished, draw(last.Number, now)
	next.Current.Spec.Updated, next.Current.Spec.Past = now.UTC().Truncate(time.Millisecond), pastOf(&job, now)
	next.Expires = j.lastAsked(now)
	release, err := j.locks.acquire(ctx, job.ID.Shard())
	if err != nil {
		return // told to stop
	}
	err = j.store.SwapJob(ctx, last.Number, next)
	release()
	switch {
	case err == nil:
		j.unlist(ctx, &next)
	case !errors.Is(err, schema.ErrConflict):
		j.log.Warn("a job that names no more times could not be finished yet", "job", job.ID, "err", err)
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
