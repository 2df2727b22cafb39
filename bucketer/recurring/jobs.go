package recurring

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

const (
	// nameGrace is how long a name may stand without its job before another job takes it over.
	nameGrace = time.Minute
	// nameTries bounds how often a name is registered again because its holder keeps changing.
	nameTries = 5
	// slowCreation is how long a creation may take before what it rests on is looked at again.
	slowCreation = unsureFor / 2
	// generationBits are the random low bits of a generation's number: two that are drawn in one ms
	// differ.
	generationBits = 10
)

// draw returns the number of a new generation after the one that is stored: µs since the Unix epoch
// with random low bits.
func draw(stored int64, now time.Time) int64 {
	random := rand.Int64N(1 << generationBits) // #nosec G404 -- against accidents, no secret
	if n := now.UnixMicro()>>generationBits<<generationBits | random; n > stored {
		return n
	}
	return stored + 1 + random
}

// firstGeneration returns the number of a job's first generation. It is a function of the job's id,
// so every node that makes the job of a key makes the same.
func firstGeneration(id schema.JobID) int64 {
	e := schema.EntryID(id)
	return e.Time().UnixMicro()>>generationBits<<generationBits | int64(e.Hash()&(1<<generationBits-1)) // #nosec G115 -- few bits
}

// CreateJob makes a job that can have many runs. The answer has the values in force. If the key was
// used before, it returns the job that was made then, as it is now, and existing is true.
//
// The first occurrence is held before the job is, so a job that exists never ends by accident. If
// we crash before the job exists, the occurrence is cancelled when it is due, and the name is free
// again after nameGrace.
//
// What it costs is in the package's comment.
func (j *Creator) CreateJob(ctx context.Context, spec schema.JobSpec, key, bodyHash string) (job schema.Job, existing bool, err error) {
	settings, err := j.core.InForce()
	if err != nil {
		j.core.CountRefused("not_ready")
		return schema.Job{}, false, err
	}
	if spec.After != nil {
		err := j.resolveAfter(ctx, schema.JobID{}, &spec)
		if err == nil {
			err = j.core.NoteDependents(ctx, spec.Tenant)
		}
		if err != nil {
			return schema.Job{}, false, err
		}
	}
	now := j.now()
	if err := j.core.CheckTask(ctx, spec.Tenant, spec.Task, spec.Payload); err != nil {
		return schema.Job{}, false, err
	}
	shard, err := j.core.Regions().Draw(spec.Tenant, settings.Shards)
	if err != nil {
		return schema.Job{}, false, err
	}
	id, err := j.define(ctx, &spec, shard, now)
	if err != nil {
		return schema.Job{}, false, err
	}
	if key != "" {
		text, err := schema.EncodeJobSpec(&spec)
		if err != nil {
			return schema.Job{}, false, err
		}
		record := schema.KeyRecord{BodyHash: bodyHash, Entry: keyEntry(id), Text: text, Expires: now.Add(bucketer.KeyRetention)}
		held, mine, err := j.store.RegisterKey(ctx, spec.Tenant, key, record, now.Add(bucketer.KeyRetention))
		switch {
		case err != nil:
			return schema.Job{}, false, fmt.Errorf("register key: %w", err)
		case !mine:
			return j.repeatCreation(ctx, held, bodyHash, now)
		}
	}
	job, err = j.create(ctx, id, spec, now, making{number: firstGeneration(id), write: j.store.CreateJob, alone: key == ""})
	if err == nil {
		err = j.core.Regions().Acknowledges(id.Shard())
	}
	return job, false, err
}

// repeatCreation answers a key that was used before: with the job that it made, or by making that
// job, if it was never finished.
func (j *Creator) repeatCreation(ctx context.Context, held schema.KeyRecord, bodyHash string, now time.Time) (schema.Job, bool, error) {
	if held.BodyHash != bodyHash {
		return schema.Job{}, false, bucketer.ErrKeyReused
	}
	id := keyJob(held.Entry)
	job, err := j.store.Job(ctx, id)
	switch {
	case err == nil:
		err = j.goesOn(ctx, &job)
		return job, true, err
	case !errors.Is(err, schema.ErrNotFound):
		return job, true, err
	}
	spec, err := schema.DecodeJobSpec(held.Text)
	if err != nil {
		return schema.Job{}, false, err
	}
	m := making{number: firstGeneration(id), write: j.store.CreateJob}
	if now.Sub(spec.Created) >= unsureFor {
		// The job is made as of now, so that its first run is still to come: no sweep would find
		// the row of an earlier one. The node that registered the key would make another row of the
		// job. So this one is made on the condition that there is none.
		spec.Created = now.UTC().Truncate(time.Millisecond)
		spec.Updated = spec.Created
		if err := complete(id, &spec, spec.Created); err != nil {
			return schema.Job{}, false, err
		}
		m.number = draw(m.number, now)
		m.write = func(ctx context.Context, made schema.Job) error { return j.store.SwapJob(ctx, 0, made) }
	}
	job, err = j.create(ctx, id, spec, now, m)
	if errors.Is(err, schema.ErrConflict) { // by the node that registered the key, meanwhile
		job, err = j.store.Job(ctx, id)
	}
	return job, true, err
}

// making says how a job is made.
type making struct {
	number int64 // of its generation
	write  func(ctx context.Context, job schema.Job) error
	alone  bool // no other node makes it: without a key its id is known here alone
}

// create makes the job of a complete spec: it writes the name, the list, the first occurrence, and
// then the row, which makes all of them count.
func (j *Creator) create(ctx context.Context, id schema.JobID, spec schema.JobSpec, began time.Time, m making) (schema.Job, error) {
	job := schema.Job{ID: id, Current: schema.Generation{Number: m.number, State: schema.JobActive, Spec: spec}}
	s, nominal, ok, err := j.first(&job)
	if err != nil {
		return schema.Job{}, err
	}
	if spec.Schedule != nil && !ok {
		return schema.Job{}, noTimeToCome()
	}
	if spec.Name != "" {
		if err := j.registerName(ctx, spec.Tenant, spec.Name, id, began); err != nil {
			return schema.Job{}, err
		}
	}
	first, err := j.createRow(ctx, job, s, nominal, m.write)
	if err != nil {
		if spec.Name != "" && m.alone && !errors.Is(err, schema.ErrUnknown) {
			j.releaseName(ctx, spec.Tenant, spec.Name, id)
		}
		return schema.Job{}, err
	}
	j.hintSoon(first)
	if now := j.now(); now.Sub(began) > slowCreation || len(first) > 0 && now.After(first[0].Due().Add(bucketer.LateAfter)) {
		return j.createdLate(ctx, job, now)
	}
	return job, nil
}

// createRow lists the job and holds its first occurrence, both at once, and then its row.
func (j *Creator) createRow(
	ctx context.Context, job schema.Job, s *series, nominal time.Time, write func(context.Context, schema.Job) error,
) (first []schema.Entry, err error) {
	if s != nil {
		row, err := j.occurrence(s, nominal, j.now())
		if err != nil {
			return nil, err
		}
		first = []schema.Entry{row}
	}
	var listing sync.WaitGroup
	var unlisted error
	listing.Go(func() {
		if unlisted = j.store.ListJob(ctx, job.Current.Spec.Tenant, job.ID, time.Time{}); unlisted == nil {
			unlisted = j.subscribe(ctx, &job)
		}
	})
	if len(first) > 0 {
		err = j.core.PutRows(ctx, first)
	}
	listing.Wait()
	switch {
	case err != nil:
		return nil, fmt.Errorf("first run: %w", err)
	case unlisted != nil:
		return nil, fmt.Errorf("list or subscribe job: %w", unlisted)
	}
	j.core.CountWritten(first)
	if err = write(ctx, job); errors.Is(err, schema.ErrUnknown) && ctx.Err() == nil {
		// Writing it again finds out what happened, or does it. If that fails too, the first write
		// may have succeeded.
		if again := write(ctx, job); again == nil || errors.Is(again, schema.ErrConflict) {
			err = again
		}
	}
	return first, err
}

// createdLate looks after a job whose creation took long. Meanwhile its name may have gone to
// another job, the job may have been made anew under its key, and its first occurrence may have
// been given up or been held too late for its sweep. The job stands: where this fails, what became
// of its creation is unknown.
func (j *Creator) createdLate(ctx context.Context, job schema.Job, now time.Time) (_ schema.Job, err error) {
	defer func() {
		if err != nil && !errors.Is(err, ErrNameTaken) && !errors.Is(err, bucketer.ErrFinished) && !errors.Is(err, schema.ErrUnknown) {
			err = fmt.Errorf("%w: %w", schema.ErrUnknown, err)
		}
	}()
	spec := &job.Current.Spec
	if spec.Name != "" {
		holder, _, err := j.store.JobByName(ctx, spec.Tenant, spec.Name)
		switch {
		case err != nil && !errors.Is(err, schema.ErrNotFound):
			return schema.Job{}, fmt.Errorf("name of job %s: %w", job.ID, err)
		case holder != job.ID:
			if _, err := j.cancel(ctx, spec.Tenant, job.ID, 0); err != nil {
				return schema.Job{}, err
			}
			return schema.Job{}, ErrNameTaken
		}
	}
	switch stands, err := j.store.Job(ctx, job.ID); {
	case err != nil:
		return schema.Job{}, fmt.Errorf("job %s: %w", job.ID, err)
	case stands.Current.State.Ended():
		return schema.Job{}, bucketer.ErrFinished
	case stands.Current.Number != job.Current.Number:
		return stands, nil // the node that made or changed it looked after its runs
	}
	err = j.planFrom(ctx, &job, now)
	return job, err
}

// goesOn looks after the next run of a job that is answered as it is. The node that made or changed
// it may have held its first run too late, or may have committed so late that the run was dropped,
// and then crashed.
func (j *upkeep) goesOn(ctx context.Context, job *schema.Job) error {
	if job.Current.State != schema.JobActive {
		return nil
	}
	return j.planFrom(ctx, job, j.now())
}

// planFrom holds the first occurrence of the generation in force that is due after now.
func (j *upkeep) planFrom(ctx context.Context, job *schema.Job, now time.Time) error {
	s, nominal, ok, err := j.first(job)
	if s == nil || err != nil || !ok {
		return err
	}
	if !s.due(nominal).After(now) {
		if nominal, ok = s.Next(now.Add(-s.Offset())); !ok {
			return nil
		}
	}
	row, err := j.occurrence(s, nominal, now)
	if err != nil {
		return err
	}
	return j.core.WriteAll(ctx, []schema.Entry{row})
}

// hintSoon tells the shard's owner of rows whose job exists only now. If it read them before, they
// wait.
func (j *upkeep) hintSoon(rows []schema.Entry) {
	near := make(map[schema.Shard][]schema.Entry)
	for _, row := range rows {
		if row.Due().Sub(j.now()) < bucketer.NearSpan {
			near[row.ID.Shard()] = append(near[row.ID.Shard()], row)
		}
	}
	j.core.Hint(near)
}

// registerName gets the name for the job. It answers ErrNameTaken if a job has the name that goes
// on. It takes the name over from a job that has ended or was never made.
func (j *Creator) registerName(ctx context.Context, tenant, name string, id schema.JobID, now time.Time) error {
	for range nameTries {
		holder, since, mine, err := j.store.RegisterName(ctx, tenant, name, id, now)
		switch {
		case errors.Is(err, schema.ErrUnknown) && ctx.Err() == nil:
			continue // the next try finds out
		case err != nil:
			return fmt.Errorf("register name: %w", err)
		case mine:
			return nil
		}
		job, err := j.store.Job(ctx, holder)
		switch {
		case errors.Is(err, schema.ErrNotFound):
			if now.Sub(since) < nameGrace {
				return ErrNameTaken
			}
			switch err := j.neverMade(ctx, tenant, name, holder, since, now); {
			case errors.Is(err, schema.ErrConflict), errors.Is(err, schema.ErrUnknown) && ctx.Err() == nil:
				continue // it was released, or the next try finds out
			case err != nil:
				return fmt.Errorf("take over name: %w", err)
			}
		case errors.Is(err, schema.ErrNotUnderstood):
			return ErrNameTaken // as far as is known that job goes on
		case err != nil:
			return fmt.Errorf("job that has the name: %w", err)
		case !job.Current.State.Ended():
			return ErrNameTaken
		}
		err = j.store.TransferName(ctx, tenant, name, holder, id, now)
		if err != nil && !errors.Is(err, schema.ErrConflict) && !errors.Is(err, schema.ErrUnknown) {
			return fmt.Errorf("take over name: %w", err)
		}
	}
	return fmt.Errorf("register name: %w: its holder keeps changing", schema.ErrUnavailable)
}

// neverMade ends a job that has a name and no row. The outcome of its creation is unknown: a copy
// of its row may exist on a replica and be read later. A row that was written under a condition
// hides that copy, so there are never two jobs of one name. A job that has had the name for long
// has ended and left instead: it does not come back to the list.
func (j *Creator) neverMade(ctx context.Context, tenant, name string, id schema.JobID, since, now time.Time) error {
	at := now.UTC().Truncate(time.Millisecond)
	ended := schema.Job{
		ID: id, Expires: j.lastAsked(now),
		Current: schema.Generation{
			Number: draw(firstGeneration(id), now), State: schema.JobCancelled,
			Spec: schema.JobSpec{Tenant: tenant, Name: name, Created: at, Updated: at},
		},
	}
	err := j.store.SwapJob(ctx, 0, ended)
	if err == nil && now.Sub(since) < schema.HistoryPeriod {
		// less than any row stays after its job's end
		j.unlist(ctx, &ended)
	}
	return err
}

// releaseTimeout bounds the return of the name of a job that was not made.
const releaseTimeout = 2 * time.Second

// releaseName gives a name back whose job was not made. If that fails, the name is free after
// nameGrace.
func (j *Creator) releaseName(ctx context.Context, tenant, name string, id schema.JobID) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := j.store.TransferName(bounded, tenant, name, id, schema.JobID{}, j.now()); err != nil && !errors.Is(err, schema.ErrConflict) {
		j.log.Debug("the name of a job that was not made stays taken for a while", "err", err)
	}
}

// complete fills in what a spec leaves open: the anchor, the default jitter, and the end that
// max_runs amounts to, counted from `from` on.
func complete(id schema.JobID, spec *schema.JobSpec, from time.Time) error {
	if spec.Schedule == nil {
		return nil
	}
	rule := spec.Schedule.Anchored(spec.Created)
	spec.Schedule = &rule
	rule.End = spec.EndStated
	if !spec.JitterStated {
		rule.Jitter = 0
	}
	compiled, err := schedule.Compile(rule, SeedOf(id))
	if err != nil {
		return err
	}
	if !spec.JitterStated {
		rule.Jitter = schema.Duration(schedule.DefaultJitter(compiled.Shortest()))
	}
	if spec.MaxRuns > 0 {
		if last, ok := compiled.NthAfter(from, spec.MaxRuns); ok {
			rule.End = last.Add(time.Millisecond)
		}
	}
	return nil
}

// JobByID returns a job of the tenant that can have many runs, or schema.ErrNotFound.
func (j *Reader) JobByID(ctx context.Context, tenant string, id schema.JobID) (schema.Job, error) {
	if _, oneOff := id.OneOff(); oneOff {
		return schema.Job{}, fmt.Errorf("job %s: %w", id, schema.ErrNotFound)
	}
	jobs, err := j.store.Jobs(ctx, id.Shard(), []schema.JobID{id})
	if err != nil {
		return schema.Job{}, fmt.Errorf("job %s: %w", id, err)
	}
	if len(jobs) == 0 {
		return schema.Job{}, fmt.Errorf("job %s: %w", id, schema.ErrNotFound)
	}
	job := jobs[0]
	switch owned, err := j.owned(ctx, tenant, &job); {
	case err != nil:
		return schema.Job{}, fmt.Errorf("job %s: %w", id, err)
	case !owned:
		return schema.Job{}, fmt.Errorf("job %s: %w", id, schema.ErrNotFound)
	}
	return job, nil
}

// owned reports whether the job is the tenant's. A job that is not understood does not say so
// itself: the list of jobs does.
func (j *Reader) owned(ctx context.Context, tenant string, job *schema.Job) (bool, error) {
	if job.Current.Fault == nil {
		return job.Current.Spec.Tenant == tenant, nil
	}
	after := job.ID // the id that comes next
	for i := len(after) - 1; i >= 0; i-- {
		if after[i]++; after[i] != 0 {
			break
		}
	}
	ids, err := j.store.JobIDs(ctx, tenant, after, 1)
	job.Current.Spec.Tenant = tenant
	return len(ids) == 1 && ids[0] == job.ID, err
}

// JobByName returns the job of the tenant that has the name, or schema.ErrNotFound.
func (j *Reader) JobByName(ctx context.Context, tenant, name string) (schema.Job, error) {
	called := jobName{tenant, name}
	if id, ok := j.names.of(called); ok {
		switch job, err := j.JobByID(ctx, tenant, id); {
		case err == nil && isCalled(&job, name):
			return job, nil
		case err != nil && !errors.Is(err, schema.ErrNotFound):
			return schema.Job{}, err
		}
	}
	// This read is serial (Paxos): it costs several times as much as that of the job.
	id, _, err := j.store.JobByName(ctx, tenant, name)
	if err != nil {
		return schema.Job{}, fmt.Errorf("job %q: %w", name, err)
	}
	job, err := j.JobByID(ctx, tenant, id)
	if err == nil && isCalled(&job, name) {
		j.names.put(called, id)
	}
	return job, err
}

// isCalled reports whether the row of a job shows that the job has the name still.
func isCalled(job *schema.Job, name string) bool {
	return job.Current.Fault == nil && job.Current.Spec.Name == name && !job.Current.State.Ended()
}

// listPages bounds the pages of ids that one page of a listing reads.
const listPages = 10

// ListJobs returns the tenant's jobs that f selects, the newest first, at most limit of them,
// before `before` (zero: from the newest). A page reads a bounded number of jobs. So it may hold
// fewer than limit, even none, and still name where to go on.
func (j *Reader) ListJobs(ctx context.Context, tenant string, f JobFilter, before schema.JobID, limit int) ([]schema.Job, *schema.JobID, error) {
	var selected []schema.Job
	for range listPages {
		ids, err := j.store.JobIDs(ctx, tenant, before, bucketer.ReadIDs)
		if err != nil {
			return nil, nil, fmt.Errorf("list jobs: %w", err)
		}
		order := append([]schema.JobID(nil), ids...)
		jobs, err := j.Jobs(ctx, ids)
		if err != nil {
			return nil, nil, err
		}
		for _, id := range order {
			before = id
			job, ok := jobs[id]
			if ok && job.Current.Fault != nil {
				job.Current.Spec.Tenant = tenant // whose list it is in
			}
			if !ok || job.Current.Spec.Tenant != tenant || !f.Matches(job) {
				continue
			}
			if selected = append(selected, *job); len(selected) == limit {
				return selected, &before, nil
			}
		}
		if len(order) < bucketer.ReadIDs {
			return selected, nil, nil
		}
	}
	return selected, &before, nil
}
