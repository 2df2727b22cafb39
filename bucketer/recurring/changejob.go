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
	// knownBefore is how long before its cut a change must be known to be committed. A node that
	// read the job before the commit starts nothing later than 1.9 s after that read, and so
	// nothing after the cut.
	knownBefore = bucketer.TaskChangeWithin
	// pastFor is how long replaced generations are remembered, at most MaxPast of them. A run of
	// theirs that is that late is still recorded as missed.
	pastFor = 5 * time.Minute
	// MaxPast: see pastFor.
	MaxPast = 4
	// changeTries bounds how often a change is tried: again after a conflict, after a commit that
	// was known too late, and after a plain read that was out of date.
	changeTries = 6
)

// endless is the cut of a finished job: the runs of its last generation start however late they
// are.
var endless = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// PutJob creates the tenant's job of that name, or replaces what it says. ifMatch is the generation
// that it must have, 0 = any or none. A workflow stays one, and no other job becomes one:
// ErrWorkflowHasName, ErrJobHasName.
func (j *Changer) PutJob(ctx context.Context, tenant, name string, ifMatch int64, spec schema.JobSpec) (job schema.Job, created bool, err error) {
	spec.Tenant, spec.Name = tenant, name
	for range changeTries {
		id, _, err := j.store.JobByName(ctx, tenant, name)
		if err != nil && !errors.Is(err, schema.ErrNotFound) {
			return schema.Job{}, false, fmt.Errorf("job %q: %w", name, err)
		}
		if err == nil {
			job, err = j.ChangeJob(ctx, tenant, id, ifMatch, func(s *schema.JobSpec) error { return replaceSpec(s, &spec) })
			if !errors.Is(err, bucketer.ErrFinished) && !errors.Is(err, schema.ErrNotFound) {
				return job, false, err
			}
		}
		if ifMatch != 0 {
			return schema.Job{}, false, ErrStale
		}
		job, _, err = j.creator.CreateJob(ctx, spec, "", "")
		if !errors.Is(err, ErrNameTaken) {
			return job, err == nil, err
		}
		if _, err := j.JobByName(ctx, tenant, name); errors.Is(err, schema.ErrNotFound) {
			return schema.Job{}, false, ErrNameTaken // the job that has it is being made, or was never made
		}
	}
	return schema.Job{}, false, fmt.Errorf("put job %q: %w: it keeps changing", name, schema.ErrUnavailable)
}

// replaceSpec puts what is asked for in the place of what a job says.
func replaceSpec(says, asked *schema.JobSpec) error {
	switch was, is := says.Workflow != nil, asked.Workflow != nil; {
	case was && !is:
		return ErrWorkflowHasName
	case is && !was:
		return ErrJobHasName
	}
	*says = *asked
	return nil
}

// ChangeJob changes what a job says. change gets a copy of the spec and may be called again with a
// newer one. Tenant, name and creation stay. ifMatch is the generation that the job must have, 0 =
// any; otherwise the error is ErrStale. A job that has ended answers ErrFinished. The answer comes
// when the change is in force: from 2 s after it nothing starts as it was before.
func (j *Changer) ChangeJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64, change func(*schema.JobSpec) error) (schema.Job, error) {
	noted := false
	for {
		job, err := j.changeJob(ctx, tenant, id, ifMatch, &noted, change)
		if !errors.Is(err, errNote) {
			return job, err
		}
		if err := j.core.NoteDependents(ctx, tenant); err != nil {
			return job, err
		}
		noted = true
	}
}

func (j *Changer) changeJob(
	ctx context.Context, tenant string, id schema.JobID, ifMatch int64, noted *bool, change func(*schema.JobSpec) error,
) (schema.Job, error) {
	return j.swap(ctx, tenant, id, ifMatch, func(g *schema.Generation, from time.Time) (bool, error) {
		if g.State.Ended() {
			return false, bucketer.ErrFinished
		}
		was := g.Spec
		if err := change(&g.Spec); err != nil {
			return false, err
		}
		spec := &g.Spec
		spec.Tenant, spec.Name, spec.Created, spec.CreatedBy, spec.PausedBecause = was.Tenant, was.Name, was.Created, was.CreatedBy, was.PausedBecause
		if err := j.checkChanged(ctx, spec, &was); err != nil {
			return false, err
		}
		if spec.After != nil {
			if !*noted {
				return false, errNote
			}
			if err := j.resolveAfter(ctx, id, spec); err != nil {
				return false, err
			}
		}
		if err := j.resolveCalendars(ctx, spec); err != nil {
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

// checkChanged checks the task of a changed spec, and its payload if the task or the payload
// changed.
func (j *Changer) checkChanged(ctx context.Context, spec, was *schema.JobSpec) error {
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
	x.End, x.Jitter = y.End, y.Jitter
	return a.EndStated.Equal(b.EndStated) && x.SameAs(&y)
}

// PauseJob stops the planning of runs. Pausing twice answers the same as once.
func (j *Changer) PauseJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error) {
	return j.swap(ctx, tenant, id, ifMatch, turn(schema.JobPaused))
}

// ResumeJob goes on with a job that was paused, from the first time to come. Resuming an active job
// changes nothing.
func (j *Changer) ResumeJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error) {
	return j.swap(ctx, tenant, id, ifMatch, turn(schema.JobActive))
}

// CancelJob ends a job: no run of it makes a first start, and no failed run is tried again.
// Attempts under way end by themselves. Cancelling twice answers the same as once. The job's name
// is free again.
func (j *Changer) CancelJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error) {
	return j.swap(ctx, tenant, id, ifMatch, turn(schema.JobCancelled))
}

// turn returns the mutation that changes a job's state alone.
func turn(state schema.JobState) mutation {
	return func(g *schema.Generation, _ time.Time) (bool, error) {
		switch {
		case g.State == state:
			return false, nil
		case g.State.Ended():
			return false, bucketer.ErrFinished
		}
		g.State, g.Spec.PausedBecause = state, ""
		return true, nil
	}
}

// mutation turns a copy of the generation in force into a new one, and reports whether anything
// changes. New runs are due after from.
type mutation func(g *schema.Generation, from time.Time) (bool, error)

// swap replaces the generation in force:
//
//  1. draw the generation's number and cut, by a clock that is right
//  2. write its first run
//  3. commit, on the condition that the generation that was read is in force
//  4. answer, at the cut − knownBefore, if the commit was known by then; otherwise repeat
//
// No other change draws the same number. So the first run of a change that loses the race is never
// in force.
//
// The job is read plainly at first: the commit finds out whether that was current. What is answered
// without a commit comes from a SERIAL read.
//
// By a clock that was set ahead, the cut would lie so far away that the old generation starts long
// after the answer. A change that was committed when the clock turns out wrong is of unknown
// outcome.
//
// If we crash between 2 and 3, the run is cancelled when it is due. If we crash after 3, the change
// holds. Its commit may be known so late that runs of the generation before start up to 1.9 s after
// it, but no client was told otherwise.
func (j *Changer) swap(ctx context.Context, tenant string, id schema.JobID, ifMatch int64, mutate mutation) (schema.Job, error) {
	if err := j.core.MayWrite(id.Shard()); err != nil {
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
			return job, nil // another change followed: it answers for the cut
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
			// The client repeats a change, maybe because an answer was lost. The answer comes no
			// earlier than that of the first. (A finished job's cut never comes.)
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
		j.unsubscribe(ctx, &job, &next)
		j.unfollow(ctx, &job, &next)
		j.leaveCalendars(ctx, &job, &next)
		if answer := next.Cut.Add(-knownBefore); !known.After(answer) {
			return next, pause(ctx, answer.Sub(known))
		}
		mine = next.Current.Number
	}
	return schema.Job{}, fmt.Errorf("change job %s: %w: it keeps changing, or the store is too slow", id, schema.ErrUnknown)
}

// refusal is why a mutation does not apply to a job as it was read.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// errAsItIs is the refusal of a mutation that changes nothing.
var errAsItIs = errors.New("it says so already")

// again is the mutation after one that was known too late: it says the same once more.
func again(*schema.Generation, time.Time) (bool, error) { return true, nil }

// replace puts a new generation in the place of the one in force. It answers schema.ErrConflict if
// that was replaced meanwhile. It waits for the lock of the job's shard before it draws the cut, so
// that the wait uses nothing of the time until the cut.
func (j *Changer) replace(ctx context.Context, job *schema.Job, mutate mutation) (next schema.Job, first []schema.Entry, err error) {
	release, err := j.locks.acquire(ctx, job.ID.Shard())
	if err != nil {
		return schema.Job{}, nil, err
	}
	defer release()
	now := j.now()
	if err := j.core.MayWrite(job.ID.Shard()); err != nil {
		// asked after the clock was read, so that a clock that is set in between is noticed
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

// pastOf returns the replaced generations that a job which is about to be changed must remember.
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

// settled reads a job once its cut has passed, so that at most two generations are live. decided
// asks for a SERIAL read, which decides every change that was begun before. Otherwise a plain read
// will do, if it finds a job.
func (j *Changer) settled(ctx context.Context, tenant string, id schema.JobID, decided bool) (schema.Job, error) {
	if _, oneOff := id.OneOff(); oneOff {
		return schema.Job{}, fmt.Errorf("job %s: %w", id, schema.ErrNotFound)
	}
	for {
		job, err := j.read(ctx, id, decided)
		switch {
		case errors.Is(err, schema.ErrNotUnderstood):
			// a job that is not understood does not say whose it is: the list of jobs does
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

// read reads a job that is about to be changed: plainly, unless decided is set or the plain read
// finds no job that is understood.
func (j *Changer) read(ctx context.Context, id schema.JobID, decided bool) (schema.Job, error) {
	if !decided {
		jobs, err := j.store.Jobs(ctx, id.Shard(), []schema.JobID{id})
		if err == nil && len(jobs) == 1 && jobs[0].Current.Fault == nil {
			return jobs[0], nil
		}
	}
	return j.store.Job(ctx, id)
}

// prepare writes what a generation needs before its commit: its first run if it is active, an
// expiry if it ends the job.
func (j *Changer) prepare(ctx context.Context, next *schema.Job, now time.Time) ([]schema.Entry, error) {
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
		return first, nil
	}
	return first, j.subscribe(ctx, next)
}

// lastAsked returns when the row of a job that ends at now may leave, because no run can ask for it
// any more.
func (j *upkeep) lastAsked(now time.Time) time.Time {
	return j.core.Expiry(now.Add(schema.HistoryPeriod), now)
}

// unlist makes a job that ended leave the list of its tenant together with its row. If that fails,
// it is listed without a row, which does no harm.
func (j *upkeep) unlist(ctx context.Context, job *schema.Job) {
	if job.Expires.IsZero() {
		return
	}
	if err := j.store.ListJob(ctx, job.Current.Spec.Tenant, job.ID, job.Expires); err != nil {
		j.log.Debug("an ended job stays in the list of jobs", "job", job.ID, "err", err)
	}
}

// commit replaces the generation was. After an unknown outcome it finds out what happened.
func (j *Changer) commit(ctx context.Context, was int64, next schema.Job) error {
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
	return schema.ErrConflict // the read decided: ours was not written
}

// finish ends a job whose schedule names no further time. The runs of its last generation start
// however late. Mend tries again, so a failure is only logged.
func (j *Changer) finish(ctx context.Context, job schema.Job, now time.Time) {
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
