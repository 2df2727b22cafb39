package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

// stubJobs are jobs that can have many runs, in memory. They are part of a stub, and under its
// lock.
type stubJobs struct {
	byID    map[schema.JobID]*schema.Job
	history map[schema.JobID][]schema.RunID // of ended runs, oldest first
	made    map[string]stubKey
	batches []int // the jobs of each CreateJobs
	// onChange comes before a change looks at the job.
	onChange func(*schema.Job)
}

type stubKey struct {
	job  schema.JobID
	run  schema.RunID
	hash string
}

func newStubJobs() stubJobs {
	return stubJobs{byID: map[schema.JobID]*schema.Job{}, history: map[schema.JobID][]schema.RunID{}, made: map[string]stubKey{}}
}

func (s *stub) CreateJob(_ context.Context, spec schema.JobSpec, key, bodyHash string) (schema.Job, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return schema.Job{}, false, s.err
	}
	if spec.Task != "" {
		if _, ok := s.tasks[spec.Tenant+"/"+spec.Task]; !ok {
			return schema.Job{}, false, fmt.Errorf("create job: %w", bucketer.ErrNoTask)
		}
	}
	if known, ok := s.jobs.made[spec.Tenant+"/"+key]; ok && key != "" {
		if known.hash != bodyHash {
			return schema.Job{}, false, fmt.Errorf("create job: %w", bucketer.ErrKeyReused)
		}
		return *s.jobs.byID[known.job], true, nil
	}
	if _, err := s.named(spec.Tenant, spec.Name); err == nil && spec.Name != "" {
		return schema.Job{}, false, fmt.Errorf("create job: %w", recurring.ErrNameTaken)
	}
	j := s.create(spec)
	if key != "" {
		s.jobs.made[spec.Tenant+"/"+key] = stubKey{job: j.ID, hash: bodyHash}
	}
	return j, false, nil
}

func (s *stub) CreateJobs(ctx context.Context, all []recurring.Creation, answer func(i int, job schema.Job, existing bool, err error)) {
	s.mu.Lock()
	s.jobs.batches = append(s.jobs.batches, len(all))
	s.mu.Unlock()
	createEach(ctx, s, all, answer)
}

// createEach makes jobs one after the other.
func createEach(ctx context.Context, by interface {
	CreateJob(ctx context.Context, spec schema.JobSpec, key, bodyHash string) (schema.Job, bool, error)
}, all []recurring.Creation, answer func(i int, job schema.Job, existing bool, err error),
) {
	for i := range all {
		job, existing, err := by.CreateJob(ctx, all[i].Spec, all[i].Key, all[i].BodyHash)
		answer(i, job, existing, err)
	}
}

// create makes a job with its defaults.
func (s *stub) create(spec schema.JobSpec) schema.Job {
	s.count++
	if spec.Schedule != nil {
		rule := *spec.Schedule
		if rule.Every > 0 && rule.Anchor.IsZero() {
			rule.Anchor = testNow
		}
		if compiled, err := schedule.Compile(rule, 0); err == nil && !spec.JitterStated {
			rule.Jitter = schema.Duration(schedule.DefaultJitter(compiled.Shortest()))
		}
		spec.Schedule = &rule
	}
	spec.Created, spec.Updated = testNow, testNow
	j := &schema.Job{
		ID:      schema.MakeJobID(testNow.Add(time.Duration(s.count)*time.Millisecond), 3, s.count),
		Current: schema.Generation{Number: testNow.UnixMicro() + int64(s.count), State: schema.JobActive, Spec: spec}, // #nosec G115
	}
	s.jobs.byID[j.ID] = j
	return *j
}

func (s *stub) named(tenant, name string) (*schema.Job, error) {
	for _, j := range s.jobs.byID {
		if c := &j.Current; c.Spec.Tenant == tenant && c.Spec.Name == name && !c.State.Ended() {
			return j, nil
		}
	}
	return nil, fmt.Errorf("job %q: %w", name, schema.ErrNotFound)
}

// free ends the jobs and workflows of these names.
func (s *stub) free(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs.byID {
		if slices.Contains(names, j.Current.Spec.Name) && !j.Current.State.Ended() {
			j.Current.State = schema.JobCancelled
		}
	}
}

func (s *stub) PutJob(_ context.Context, tenant, name string, ifMatch int64, spec schema.JobSpec) (schema.Job, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return schema.Job{}, false, s.err
	}
	j, err := s.named(tenant, name)
	if errors.Is(err, schema.ErrNotFound) {
		return s.create(spec), true, nil
	}
	out, err := s.change(j, ifMatch, func(s *schema.JobSpec) error {
		if s.Workflow != nil && spec.Workflow == nil {
			return recurring.ErrWorkflowHasName
		}
		if s.Workflow == nil && spec.Workflow != nil {
			return recurring.ErrJobHasName
		}
		spec.Created, spec.CreatedBy, spec.Updated = s.Created, s.CreatedBy, testNow
		*s = spec
		return nil
	})
	return out, false, err
}

// change makes a new generation of a job.
func (s *stub) change(j *schema.Job, ifMatch int64, change func(*schema.JobSpec) error) (schema.Job, error) {
	if s.jobs.onChange != nil {
		s.jobs.onChange(j)
	}
	switch {
	case j.Current.Fault != nil:
		return schema.Job{}, j.Current.Fault
	case ifMatch != 0 && ifMatch != j.Current.Number:
		return schema.Job{}, fmt.Errorf("change job: %w", recurring.ErrStale)
	case j.Current.State.Ended():
		return schema.Job{}, fmt.Errorf("change job: %w", bucketer.ErrFinished)
	}
	next := j.Current
	if err := change(&next.Spec); err != nil {
		return schema.Job{}, err
	}
	before := j.Current
	next.Number++
	j.Before, j.Current, j.Cut = &before, next, testNow
	return *j, nil
}

func (s *stub) ChangeJob(_ context.Context, tenant string, id schema.JobID, ifMatch int64, change func(*schema.JobSpec) error) (schema.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.job(tenant, id)
	if err != nil {
		return schema.Job{}, err
	}
	was := *j
	changed, err := s.change(j, ifMatch, change)
	if err == nil && reflect.DeepEqual(was.Current.Spec, changed.Current.Spec) { // nothing changes
		*j = was
		return was, nil
	}
	return changed, err
}

func (s *stub) job(tenant string, id schema.JobID) (*schema.Job, error) {
	if s.err != nil {
		return nil, s.err
	}
	j, ok := s.jobs.byID[id]
	if !ok || j.Current.Spec.Tenant != tenant {
		return nil, fmt.Errorf("job %s: %w", id, schema.ErrNotFound)
	}
	return j, nil
}

func (s *stub) state(tenant string, id schema.JobID, ifMatch int64, to schema.JobState) (schema.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.job(tenant, id)
	if err != nil {
		return schema.Job{}, err
	}
	if j.Current.Fault == nil && j.Current.State == to && (ifMatch == 0 || ifMatch == j.Current.Number) {
		return *j, nil
	}
	out, err := s.change(j, ifMatch, func(*schema.JobSpec) error { return nil })
	if err == nil {
		j.Current.State, out.Current.State = to, to
	}
	return out, err
}

func (s *stub) PauseJob(_ context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error) {
	return s.state(tenant, id, ifMatch, schema.JobPaused)
}

func (s *stub) ResumeJob(_ context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error) {
	return s.state(tenant, id, ifMatch, schema.JobActive)
}

func (s *stub) CancelJob(_ context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error) {
	return s.state(tenant, id, ifMatch, schema.JobCancelled)
}

func (s *stub) Trigger(_ context.Context, job schema.Job, payload json.RawMessage, key, bodyHash string) (bucketer.Receipt, error) {
	tenant, id := job.Current.Spec.Tenant, job.ID
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.job(tenant, id)
	if err != nil {
		return bucketer.Receipt{}, err
	}
	if j.Current.Fault != nil {
		return bucketer.Receipt{}, j.Current.Fault
	}
	if j.Current.State.Ended() {
		return bucketer.Receipt{}, fmt.Errorf("trigger job: %w", bucketer.ErrFinished)
	}
	if known, ok := s.jobs.made[tenant+"/"+key]; ok && key != "" {
		if known.hash != bodyHash {
			return bucketer.Receipt{}, fmt.Errorf("trigger job: %w", bucketer.ErrKeyReused)
		}
		return bucketer.Receipt{Run: known.run, Existing: true}, nil
	}
	run, err := s.occur(&job, testNow, schema.TriggerManual, payload)
	if err == nil && key != "" {
		s.jobs.made[tenant+"/"+key] = stubKey{run: run, hash: bodyHash}
	}
	return bucketer.Receipt{Run: run}, err
}

// occur makes a pending run of a job, of that payload; nil means the job's.
func (s *stub) occur(j *schema.Job, at time.Time, trigger schema.Trigger, payload json.RawMessage) (schema.RunID, error) {
	s.count++
	spec := &j.Current.Spec
	if payload == nil {
		payload = spec.Payload
	}
	var run *schema.WorkflowRun
	if spec.Workflow != nil {
		run = new(schema.WorkflowRun)
	}
	id := schema.MakeEntryID(at, j.ID.Shard(), s.count)
	e, err := schema.NewEntry(id, schema.Spec{
		Tenant: spec.Tenant, Nominal: at, Accepted: testNow.UnixMicro(), Task: spec.Task, Work: spec.Work, Priority: spec.Priority,
		Labels: spec.Labels, Job: j.ID, JobName: spec.Name, Generation: j.Current.Number, Trigger: trigger, Workflow: run, CreatedBy: spec.CreatedBy,
	}, payload, time.Time{})
	if err != nil {
		return schema.RunID{}, err
	}
	s.runs[id] = &runs.Run{ID: id, Entry: e, Current: e, State: schema.StatePending}
	s.order = append(s.order, id)
	return id, nil
}

// ends makes a run of a job that has ended.
func (s *stub) ends(id schema.JobID, at time.Time, state schema.State) schema.RunID {
	s.mu.Lock()
	defer s.mu.Unlock()
	run, err := s.occur(s.jobs.byID[id], at, "", nil)
	if err != nil {
		panic(err)
	}
	s.runs[run].State = state
	s.jobs.history[id] = append(s.jobs.history[id], run)
	return run
}

func (s *stub) JobByID(_ context.Context, tenant string, id schema.JobID) (schema.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.job(tenant, id)
	if err != nil {
		return schema.Job{}, err
	}
	return *j, nil
}

func (s *stub) JobByName(_ context.Context, tenant, name string) (schema.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return schema.Job{}, s.err
	}
	j, err := s.named(tenant, name)
	if err != nil { // one that has ended has its name until another takes it
		for _, ended := range s.jobs.byID {
			if c := &ended.Current; c.Spec.Tenant == tenant && c.Spec.Name == name && (j == nil || ended.ID.String() > j.ID.String()) {
				j, err = ended, nil
			}
		}
	}
	if err != nil {
		return schema.Job{}, err
	}
	return *j, nil
}

// ListJobs looks at no more than limit jobs a page.
func (s *stub) ListJobs(_ context.Context, tenant string, f recurring.JobFilter, before schema.JobID, limit int) ([]schema.Job, *schema.JobID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, nil, s.err
	}
	var ids []schema.JobID
	for id, j := range s.jobs.byID {
		if j.Current.Spec.Tenant == tenant && (before.IsZero() || schema.EntryID(id).Compare(schema.EntryID(before)) < 0) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b schema.JobID) int { return schema.EntryID(b).Compare(schema.EntryID(a)) })
	var out []schema.Job
	for i, id := range ids {
		if i == limit {
			return out, &ids[i-1], nil
		}
		if j := s.jobs.byID[id]; f.Matches(j) {
			out = append(out, *j)
		}
	}
	return out, nil, nil
}

func (s *stub) JobRuns(_ context.Context, tenant string, id schema.JobID, f recurring.JobRunFilter, pos runs.Position, limit int) ([]runs.Run, *runs.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.job(tenant, id); err != nil {
		return nil, nil, err
	}
	var out []runs.Run
	for _, run := range slices.Backward(s.jobs.history[id]) {
		if !pos.After.IsZero() && run.Compare(pos.After) >= 0 {
			continue
		}
		if line := (schema.JobRun{Run: run, State: s.runs[run].State}); !f.MatchesLine(&line) || !f.MayMatch(&s.runs[run].Current, &s.runs[run].Entry) {
			continue
		}
		if len(out) == limit {
			return out, &runs.Position{After: out[limit-1].ID}, nil
		}
		out = append(out, *s.runs[run])
	}
	return out, nil, nil
}

func (s *stub) Upcoming(job schema.Job, count int, now time.Time) []recurring.Occurrence {
	if job.Current.Spec.Schedule == nil {
		return nil
	}
	compiled, err := schedule.Compile(*job.Current.Spec.Schedule, 0)
	if err != nil || job.Current.State != schema.JobActive {
		return nil
	}
	var out []recurring.Occurrence
	for t := range compiled.From(now) {
		if len(out) == count {
			break
		}
		due := t.Add(compiled.Offset())
		out = append(out, recurring.Occurrence{ID: schema.MakeEntryID(due, job.ID.Shard(), schema.HashOf(t.String())), Nominal: t, Due: due})
	}
	return out
}

// NotUnderstood says what the job itself says.
func (s *stub) NotUnderstood(job *schema.Job) error { return job.Current.Fault }
