package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// maxJobs is how many jobs one read may name.
const maxJobs = 100

// Faults of the caller.
var (
	errOneOff    = errors.New("a one-off job has no row but its run's")
	errElsewhere = errors.New("not in the shard")
	errManyJobs  = fmt.Errorf("more than %d jobs", maxJobs)
	errNotNewer  = errors.New("the generation is not newer than the one it replaces")
	errNotFirst  = errors.New("a job that is created has neither changed nor ended")
)

// storedJob is the value of a job's row.
type storedJob struct {
	Current storedGeneration  `json:"current"`
	Before  *storedGeneration `json:"before,omitempty"`
	Cut     int64             `json:"cut,omitempty"` // ms since the Unix epoch
}

type storedGeneration struct {
	Number int64           `json:"number"`
	State  schema.JobState `json:"state"`
	Spec   json.RawMessage `json:"spec"`
}

func storeGeneration(g *schema.Generation) (storedGeneration, error) {
	spec, err := schema.EncodeJobSpec(&g.Spec)
	return storedGeneration{Number: g.Number, State: g.State, Spec: spec}, err
}

// decoder is how specs are decoded. schema.LoadJobSpec is for reads that happen for every run;
// freshSpec for walks over all jobs, and for readers that will change what they read.
type decoder func(job schema.JobID, generation int64, text []byte) (schema.JobSpec, error)

func freshSpec(_ schema.JobID, _ int64, text []byte) (schema.JobSpec, error) {
	return schema.DecodeJobSpec(text)
}

func loadGeneration(id schema.JobID, g *storedGeneration, decode decoder) schema.Generation {
	out := schema.Generation{Number: g.Number, State: g.State}
	var err error
	if out.Spec, err = decode(id, g.Number, g.Spec); err != nil {
		out.Fault = fmt.Errorf("generation %d of job %s: %w", g.Number, id, err)
	}
	return out
}

// encodeJob returns the value of j's row.
func encodeJob(j *schema.Job) ([]byte, error) {
	if _, oneOff := j.ID.OneOff(); oneOff {
		return nil, errOneOff
	}
	var stored storedJob
	var err error
	if stored.Current, err = storeGeneration(&j.Current); err != nil {
		return nil, err
	}
	if j.Before != nil {
		before, err := storeGeneration(j.Before)
		if err != nil {
			return nil, err
		}
		stored.Before = &before
	}
	if !j.Cut.IsZero() {
		stored.Cut = j.Cut.UnixMilli()
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // specs keep their bytes
	if err := e.Encode(&stored); err != nil {
		return nil, err
	}
	if text.Len() > maxRow {
		return nil, fmt.Errorf("%w: %d bytes", schema.ErrTooLarge, text.Len())
	}
	return text.Bytes(), nil
}

// decodeJob is the inverse of encodeJob. A text that cannot be understood is a fault of its job.
func decodeJob(id schema.JobID, data []byte, decode decoder) schema.Job {
	j := schema.Job{ID: id}
	var stored storedJob
	if err := json.Unmarshal(data, &stored); err != nil {
		j.Current = schema.Generation{State: schema.JobActive, Fault: fmt.Errorf("job %s: %w: %w: %w", id, schema.ErrNotUnderstood, errCorrupt, err)}
		return j
	}
	j.Current = loadGeneration(id, &stored.Current, decode)
	if stored.Before != nil {
		before := loadGeneration(id, stored.Before, decode)
		j.Before = &before
	}
	if stored.Cut != 0 {
		j.Cut = time.UnixMilli(stored.Cut).UTC()
	}
	return j
}

// errStands: the job is there already, so it is not created again.
var errStands = errors.New("it is there")

// CreateJob implements schema.JobStore.
func (s jobStore) CreateJob(ctx context.Context, j schema.Job) error {
	if j.Before != nil || !j.Cut.IsZero() || !j.Expires.IsZero() {
		return fmt.Errorf("create job %s: %w", j.ID, errNotFirst)
	}
	err := s.writeJob(ctx, &j, func(_ schema.Job, exists bool) error {
		if exists {
			return errStands
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStands) {
		return fmt.Errorf("create job %s: %w", j.ID, err)
	}
	return nil
}

// CreateJobs implements schema.JobBatchStore: one batch, all of it or nothing.
func (s jobStore) CreateJobs(ctx context.Context, jobs []schema.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	if err := s.createJobs(ctx, jobs); err != nil {
		return fmt.Errorf("create %d jobs: %w", len(jobs), err)
	}
	return nil
}

func (s jobStore) createJobs(ctx context.Context, jobs []schema.Job) error {
	keys, rows := make([][]byte, len(jobs)), make([][]byte, len(jobs))
	size := 0
	for i := range jobs {
		j := &jobs[i]
		if j.ID.Shard() != jobs[0].ID.Shard() {
			return fmt.Errorf("%s: %w", j.ID, errElsewhere)
		}
		if j.Before != nil || !j.Cut.IsZero() || !j.Expires.IsZero() {
			return fmt.Errorf("%s: %w", j.ID, errNotFirst)
		}
		data, err := encodeJob(j)
		if err != nil {
			return fmt.Errorf("%s: %w", j.ID, err)
		}
		keys[i], rows[i] = jobKey(j.ID), data
		size += len(data) + 64
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	defer s.lockAll(keys...)()
	b := s.db.NewBatchWithSize(size)
	defer closeQuietly(b)
	nowMS := s.nowMS()
	for i, key := range keys {
		row, err := s.row(key)
		if err != nil {
			return err
		}
		if row.at(colValue, nowMS) != nil {
			continue // it stands, whatever was made of it
		}
		if err := b.Set(key, appendCell(nil, cell{column: colValue, expires: never, data: rows[i]}), nil); err != nil {
			return err
		}
	}
	return s.commit(b)
}

// SwapJob implements schema.JobStore.
func (s jobStore) SwapJob(ctx context.Context, was int64, j schema.Job) error {
	if j.Current.Number <= was {
		return fmt.Errorf("swap job %s: %w", j.ID, errNotNewer)
	}
	err := s.writeJob(ctx, &j, func(stands schema.Job, exists bool) error {
		switch {
		case !exists && was == 0:
			return nil
		case !exists:
			return schema.ErrNotFound
		case was == 0:
			return schema.ErrConflict
		case stands.Current.Number == 0 && stands.Current.Fault != nil:
			return stands.Current.Fault // it is not known whether the condition holds
		case stands.Current.Number != was:
			return schema.ErrConflict
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("swap job %s: %w", j.ID, err)
	}
	return nil
}

// writeJob writes the row of j unless may, which is given the row that stands, returns an error.
func (s jobStore) writeJob(ctx context.Context, j *schema.Job, may func(stands schema.Job, exists bool) error) error {
	data, err := encodeJob(j)
	if err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	key := jobKey(j.ID)
	defer s.lock(key)()
	row, err := s.row(key)
	if err != nil {
		return err
	}
	var stands schema.Job
	c := row.at(colValue, s.nowMS())
	if c != nil {
		stands = decodeJob(j.ID, c.data, freshSpec)
	}
	if err := may(stands, c != nil); err != nil {
		return err
	}
	return s.setRow(key, data, j.Expires)
}

// Job implements schema.JobStore.
func (s jobStore) Job(ctx context.Context, id schema.JobID) (schema.Job, error) {
	data, err := s.value(ctx, jobKey(id))
	var j schema.Job
	if err == nil {
		j = decodeJob(id, data, freshSpec)
		err = j.Current.Fault // a reader of one job is about to change it
	}
	if err != nil {
		return schema.Job{}, fmt.Errorf("read job %s: %w", id, err)
	}
	return j, nil
}

// Jobs implements schema.JobStore.
func (s jobStore) Jobs(ctx context.Context, shard schema.Shard, ids []schema.JobID) ([]schema.Job, error) {
	jobs, err := s.jobs(ctx, shard, ids)
	if err != nil {
		return nil, fmt.Errorf("read %d jobs of shard %d: %w", len(ids), shard, err)
	}
	return jobs, nil
}

func (s jobStore) jobs(ctx context.Context, shard schema.Shard, ids []schema.JobID) ([]schema.Job, error) {
	if len(ids) > maxJobs {
		return nil, errManyJobs
	}
	for _, id := range ids {
		if id.Shard() != shard {
			return nil, fmt.Errorf("%s: %w", id, errElsewhere)
		}
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	nowMS := s.nowMS()
	var jobs []schema.Job
	for _, id := range slices.Compact(slices.SortedFunc(slices.Values(ids), compareJobs)) {
		row, err := s.row(jobKey(id))
		if err != nil {
			return nil, err
		}
		c := row.at(colValue, nowMS)
		if c == nil {
			continue
		}
		jobs = append(jobs, decodeJob(id, c.data, schema.LoadJobSpec))
	}
	return jobs, nil
}

// JobsOf implements schema.JobStore.
func (s jobStore) JobsOf(ctx context.Context, shard schema.Shard, after schema.JobID, limit int) ([]schema.Job, error) {
	var jobs []schema.Job
	var from []byte
	if !after.IsZero() {
		from = after[:]
	}
	err := s.list(ctx, appendJobShard(nil, shard), from, limit, func(rest []byte, row *cells, nowMS int64) (bool, error) {
		c := row.at(colValue, nowMS)
		if c != nil {
			jobs = append(jobs, decodeJob(schema.JobID(rest), c.data, freshSpec))
		}
		return c != nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read jobs of shard %d: %w", shard, err)
	}
	return jobs, nil
}

const jobShardSize = 1 + 2 // table, shard

func appendJobShard(dst []byte, shard schema.Shard) []byte {
	return binary.BigEndian.AppendUint16(append(dst, byte(tableJobs)), uint16(shard))
}

func jobKey(id schema.JobID) []byte {
	return append(appendJobShard(make([]byte, 0, jobShardSize+len(id)), id.Shard()), id[:]...)
}

func compareJobs(a, b schema.JobID) int { return bytes.Compare(a[:], b[:]) }
