package cassandra

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

// onlySlice is the slice of jobs and of job_index in which every row lies.
//
//	jobs        about 50,000 rows in 30 MB, for each shard
//	job_index   a million rows in 50 MB, for each tenant
//
// A partition that outgrows this needs a rule by which the slice of new ids follows from the id,
// and reads that join the slices. Those are all in this file and in jobindex.go.
const onlySlice = 0

// Faults of the caller.
var (
	errOneOff   = errors.New("a one-off job has no row but its run's")
	errNotShard = errors.New("not in the shard")
	errNotNewer = errors.New("the generation is not newer than the one it replaces")
	errNotFirst = errors.New("a job that is created has neither changed nor ended")
)

// createdAt is the write timestamp of CreateJob, in µs since the Unix epoch: the lowest one. A
// conditional write has the time of its ballot, and writes every cell. So a copy of a creation that
// arrives later, on any replica, changes nothing of what conditional writes have made of the row.
//
// That is why this row may be created without a condition and changed with one. Two creations of
// one id would be mixed; the contract excludes them.
const createdAt = 1

// CreateJob implements schema.JobStore.
func (s jobStore) CreateJob(ctx context.Context, j schema.Job) error {
	err := errNotFirst
	if j.Before == nil && j.Cut.IsZero() && j.Expires.IsZero() {
		err = s.createJob(ctx, &j)
	}
	if err != nil {
		return fmt.Errorf("create job %s: %w", j.ID, err)
	}
	return nil
}

func (s jobStore) createJob(ctx context.Context, j *schema.Job) error {
	l, err := s.creation(j)
	if err != nil {
		return err
	}
	return s.write(ctx, createJob, l.args...)
}

// creation returns the values of createJob.
func (s jobStore) creation(j *schema.Job) (line, error) {
	args, err := s.jobCells(j)
	if err != nil {
		return line{}, err
	}
	// Of its cells those that a creation has: nothing is written as nothing, which would leave a
	// tombstone in every row.
	spec, state, generation, key := args[1], args[2], args[3], args[len(args)-3:]
	text, _ := spec.([]byte)
	return line{args: append([]any{createdAt, spec, state, generation}, key...), bytes: len(text) + 128}, nil
}

// CreateJobs implements schema.JobBatchStore. Batches over the bounds are split.
func (s jobStore) CreateJobs(ctx context.Context, jobs []schema.Job) error {
	lines := make([]line, len(jobs))
	for i := range jobs {
		j, err := &jobs[i], errNotFirst
		switch {
		case j.ID.Shard() != jobs[0].ID.Shard():
			err = errNotShard
		case j.Before == nil && j.Cut.IsZero() && j.Expires.IsZero():
			lines[i], err = s.creation(j)
		}
		if err != nil {
			return fmt.Errorf("create job %s: %w", j.ID, err)
		}
	}
	if err := s.writeBatches(ctx, createJob, lines); err != nil {
		return fmt.Errorf("create %d jobs: %w", len(jobs), err)
	}
	return nil
}

// SwapJob implements schema.JobStore.
func (s jobStore) SwapJob(ctx context.Context, was int64, j schema.Job) error {
	args, err := s.jobCells(&j)
	if err == nil && j.Current.Number <= was {
		err = errNotNewer
	}
	switch {
	case err != nil:
	case was == 0:
		err = s.writeJob(ctx, &j, firstJob, args, func(stands *schema.Job) bool { return stands == nil })
	default:
		err = s.writeJob(ctx, &j, swapJob, append(args, was), func(stands *schema.Job) bool {
			return stands != nil && stands.Current.Number == was
		})
	}
	if err != nil {
		return fmt.Errorf("swap job %s: %w", j.ID, err)
	}
	return nil
}

// writeJob executes st, a conditional write of j. holds says whether its condition holds for what
// stands; nil: nothing does.
func (s jobStore) writeJob(ctx context.Context, j *schema.Job, st statement, args []any, holds func(stands *schema.Job) bool) error {
	row := make(map[string]any)
	applied, err := s.swap(ctx, st, rowKey{int(j.ID.Shard()), onlySlice, gocql.UUID(j.ID)}, row, args...)
	switch {
	case errors.Is(err, schema.ErrUnknown):
		return s.settleJob(ctx, j, holds, err)
	case err != nil:
		return err
	case applied:
		return nil
	case st == swapJob && row["generation"] == nil:
		return schema.ErrNotFound
	}
	return schema.ErrConflict
}

// settleJob decides a write of j of unknown outcome by reading the job.
func (s jobStore) settleJob(ctx context.Context, j *schema.Job, holds func(stands *schema.Job) bool, unknown error) error {
	stands, err := s.Job(ctx, j.ID)
	if errors.Is(err, schema.ErrNotFound) {
		if holds(nil) {
			return unknown // it may yet be done
		}
		return schema.ErrNotFound
	}
	if err != nil {
		return readAgain(unknown, err)
	}
	switch done, sure := stands.Written(j.Current.Number); {
	case done:
		return nil
	case !sure || holds(&stands):
		return unknown
	}
	return schema.ErrConflict
}

// jobCells returns the values of firstJob, and of swapJob but for its condition.
func (s jobStore) jobCells(j *schema.Job) ([]any, error) {
	if _, oneOff := j.ID.OneOff(); oneOff {
		return nil, errOneOff
	}
	spec, err := schema.EncodeJobSpec(&j.Current.Spec)
	if err != nil {
		return nil, err
	}
	size := len(spec)
	// A row is written whole: what is not there any more is written as nothing.
	var cut, beforeSpec, beforeState, beforeNumber any
	if !j.Cut.IsZero() {
		cut = j.Cut
	}
	if b := j.Before; b != nil {
		text, err := schema.EncodeJobSpec(&b.Spec)
		if err != nil {
			return nil, err
		}
		size += len(text)
		beforeSpec, beforeState, beforeNumber = text, string(b.State), b.Number
	}
	if size > maxRowBytes {
		return nil, fmt.Errorf("%d bytes: %w", size, schema.ErrTooLarge)
	}
	return []any{
		s.ttl(j.Expires), spec, string(j.Current.State), j.Current.Number, cut, beforeSpec, beforeState, beforeNumber,
		int(j.ID.Shard()), onlySlice, gocql.UUID(j.ID),
	}, nil
}

// jobRow is a row of jobs as it is read.
type jobRow struct {
	id                       gocql.UUID
	spec, beforeSpec         []byte
	state, beforeState       string
	generation, beforeNumber int64
	cut                      time.Time
}

// dest returns where to scan the row to, after its id.
func (r *jobRow) dest() []any {
	return []any{&r.spec, &r.state, &r.generation, &r.cut, &r.beforeSpec, &r.beforeState, &r.beforeNumber}
}

func (r *jobRow) size() int { return len(r.spec) + len(r.beforeSpec) + 128 }

// decoder is how specs are decoded. schema.LoadJobSpec is for reads that happen for every run;
// freshSpec for walks over all jobs, and for readers that will change what they read.
type decoder func(job schema.JobID, generation int64, text []byte) (schema.JobSpec, error)

func freshSpec(_ schema.JobID, _ int64, text []byte) (schema.JobSpec, error) {
	return schema.DecodeJobSpec(text)
}

// job makes a job of the row.
func (r *jobRow) job(decode decoder) schema.Job {
	j := schema.Job{ID: schema.JobID(r.id)}
	generation := func(number int64, state string, text []byte) schema.Generation {
		g := schema.Generation{Number: number, State: schema.JobState(state)}
		var err error
		if g.Spec, err = decode(j.ID, number, text); err != nil {
			g.Fault = fmt.Errorf("generation %d of job %s: %w", number, j.ID, err)
		}
		return g
	}
	j.Current = generation(r.generation, r.state, r.spec)
	if r.beforeSpec != nil {
		before := generation(r.beforeNumber, r.beforeState, r.beforeSpec)
		j.Before = &before
	}
	if !r.cut.IsZero() {
		j.Cut = r.cut.UTC()
	}
	return j
}

// Job implements schema.JobStore.
func (s jobStore) Job(ctx context.Context, id schema.JobID) (schema.Job, error) {
	row := jobRow{id: gocql.UUID(id)}
	err := s.oneSerial(ctx, selectJob, []any{int(id.Shard()), onlySlice, row.id}, row.dest()...)
	var j schema.Job
	if err == nil {
		j = row.job(freshSpec)
		// a reader of one job is about to change it
		err = s.damage.Found("jobs", id.String(), j.Current.Fault)
	}
	if err != nil {
		return schema.Job{}, fmt.Errorf("read job %s: %w", id, err)
	}
	return j, nil
}

// Jobs implements schema.JobStore.
func (s jobStore) Jobs(ctx context.Context, shard schema.Shard, ids []schema.JobID) ([]schema.Job, error) {
	if len(ids) > maxIDsPerRead {
		return nil, fmt.Errorf("read %d jobs: %w", len(ids), errManyIDs)
	}
	wanted := make([]gocql.UUID, len(ids))
	for i, id := range ids {
		if id.Shard() != shard {
			return nil, fmt.Errorf("read job %s, shard %d: %w", id, shard, errNotShard)
		}
		wanted[i] = gocql.UUID(id)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	jobs, err := s.readJobs(ctx, selectJobs, schema.LoadJobSpec, len(ids), int(shard), onlySlice, wanted)
	if err != nil {
		return nil, fmt.Errorf("read %d jobs of shard %d: %w", len(ids), shard, err)
	}
	return jobs, nil
}

// JobsOf implements schema.JobStore.
func (s jobStore) JobsOf(ctx context.Context, shard schema.Shard, after schema.JobID, limit int) ([]schema.Job, error) {
	jobs, err := s.readJobs(ctx, selectJobsOf, freshSpec, limit, int(shard), onlySlice, gocql.UUID(after))
	if err != nil {
		return nil, fmt.Errorf("read jobs of shard %d: %w", shard, err)
	}
	return jobs, nil
}

func (s jobStore) readJobs(ctx context.Context, st statement, decode decoder, limit int, args ...any) ([]schema.Job, error) {
	return readPages(ctx, s.core, st, &s.jobRows, limit, args,
		func(iter *gocql.Iter) (j schema.Job, size int, keep, more bool) {
			var row jobRow
			if !iter.Scan(append([]any{&row.id}, row.dest()...)...) {
				return j, 0, false, false
			}
			j = row.job(decode)
			_ = s.damage.Found("jobs", j.ID.String(), j.Current.Fault)
			return j, row.size(), true, true
		})
}
