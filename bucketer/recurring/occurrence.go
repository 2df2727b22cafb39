package recurring

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

// scheduleCacheSize bounds the compiled schedules kept in memory; beyond it the cache is emptied.
const scheduleCacheSize = 100_000

// series is one generation of a job and the times that it names.
type series struct {
	job schema.JobID
	*schema.Generation
	*schedule.Schedule
}

type seriesKey struct {
	job        schema.JobID
	generation int64
}

// seriesCache keeps compiled schedules. A generation never changes, so what is kept stays right.
type seriesCache struct {
	mu    sync.Mutex
	known map[seriesKey]*schedule.Schedule
}

// of returns a generation with its times, or nil for a job without schedule. An error says that
// this program does not understand a generation that was right when it was stored.
func (c *seriesCache) of(job schema.JobID, g *schema.Generation) (*series, error) {
	return c.compiled(job, g, true)
}

// once is of for a walk over all jobs, and for new jobs, whose times are not asked for again soon:
// it keeps nothing, so that a million of them take no memory, and no place of those that run.
func (c *seriesCache) once(job schema.JobID, g *schema.Generation) (*series, error) {
	return c.compiled(job, g, false)
}

func (c *seriesCache) compiled(job schema.JobID, g *schema.Generation, keep bool) (*series, error) {
	switch {
	case g.Fault != nil:
		return nil, g.Fault
	case g.Spec.Schedule == nil:
		return nil, nil
	}
	key := seriesKey{job, g.Number}
	c.mu.Lock()
	s, ok := c.known[key]
	c.mu.Unlock()
	if !ok {
		var err error
		if s, err = schedule.Compile(*g.Spec.Schedule, SeedOf(job)); err != nil {
			return nil, fmt.Errorf("schedule of job %s: %w: %w", job, schema.ErrNotUnderstood, err)
		}
	}
	if !ok && keep {
		c.mu.Lock()
		if len(c.known) >= scheduleCacheSize {
			clear(c.known)
		}
		c.known[key] = s
		c.mu.Unlock()
	}
	return &series{job, g, s}, nil
}

// SeedOf returns the seed of a job's hashed fields and of its offset, which stay for the life of
// the job.
func SeedOf(job schema.JobID) uint64 { return schema.HashOf(job.String()) }

// due returns when the occurrence of a nominal time is due.
func (s *series) due(nominal time.Time) time.Time { return nominal.Add(s.Offset()) }

// ran reports whether the series has a run of the nominal time that is due before the cut.
func (s *series) ran(nominal, cut time.Time) bool {
	if !s.due(nominal).Before(cut) {
		return false
	}
	named, ok := s.Next(nominal.Add(-time.Millisecond))
	return ok && named.Equal(nominal)
}

// last returns the last nominal time from `from` on, itself included, whose occurrence is due at
// now or before.
func (s *series) last(from, now time.Time) (time.Time, bool) {
	return s.Last(from.Add(-time.Millisecond), now.Add(-s.Offset()))
}

// count returns how many nominal times lie between from and to, both included.
func (s *series) count(from, to time.Time) int64 {
	return int64(s.Count(from.Add(-time.Millisecond), to, MaxStretch))
}

// MaxStretch bounds the count of a stretch. No schedule names more in 63 years.
const MaxStretch = 2_000_000_000

// id returns the id of an occurrence: a function of (tenant, job, generation, nominal time) alone.
func (s *series) id(nominal time.Time) schema.RunID {
	hash := schema.HashOf(s.Spec.Tenant, s.job.String(), strconv.FormatInt(s.Number, 10), strconv.FormatInt(nominal.UnixMilli(), 10))
	return schema.MakeEntryID(s.due(nominal), s.job.Shard(), hash)
}

// occurrence returns an occurrence as it is when it is asked about.
func (s *series) occurrence(nominal time.Time) Occurrence {
	return Occurrence{ID: s.id(nominal), Nominal: nominal, Due: s.due(nominal)}
}

// occurrence makes the row of an occurrence. Whichever node makes it, and however often, it is the
// same row: same id, bytes and timestamp, which is the generation's number. Only its expiry is
// later if it is made long after its due time. If the tenant's retention changed meanwhile, the row
// with the shorter one stands (Writer.StampOf).
func (j *Reader) occurrence(s *series, nominal, now time.Time) (schema.Entry, error) {
	spec := &s.Spec
	id, days := s.id(nominal), j.core.RetentionOf(spec.Tenant)
	says := schema.Spec{
		Tenant: spec.Tenant, Nominal: nominal, Accepted: j.core.StampOf(s.Number, days), Job: s.job, JobName: spec.Name, Generation: s.Number,
		Priority: spec.Priority, Task: spec.Task, Work: spec.Work, Misfire: spec.Misfire, Labels: spec.Labels,
		Concurrency: spec.Concurrency, Workflow: spec.WorkflowRun(), PauseAfter: spec.PauseAfter, Everywhere: spec.Durability == schema.DurableEverywhere,
		CreatedBy: spec.CreatedBy, Retention: days,
	}
	return schema.NewEntry(id, says, spec.Payload, j.core.ExpiryOf(&says, id.Time(), now))
}

// first returns the first nominal time of the generation in force: the first after the job's
// creation, or the first that is due at the cut or later and that the generation before did not
// name for a time before the cut.
func (j *Reader) first(job *schema.Job) (s *series, nominal time.Time, ok bool, err error) {
	return firstBy(j.series.of, job)
}

// firstBy is first with how compiled schedules are got.
func firstBy(compiled func(schema.JobID, *schema.Generation) (*series, error), job *schema.Job) (s *series, nominal time.Time, ok bool, err error) {
	s, err = compiled(job.ID, &job.Current)
	if s == nil || err != nil {
		return nil, time.Time{}, false, err
	}
	created := job.Current.Spec.Created
	if job.Before == nil {
		nominal, ok = s.Next(created)
		return s, nominal, ok, nil
	}
	nominal, ok = s.Next(bucketer.Latest(created, job.Cut.Add(-s.Offset()-time.Millisecond)))
	if job.Before.State != schema.JobActive {
		return s, nominal, ok, nil
	}
	before, err := compiled(job.ID, job.Before)
	if err != nil {
		// A job that is not understood can be changed. Which times the generation before had run is
		// not known then. If the jitter changed too, a time may have one run before the cut and a
		// second one after it.
		return s, nominal, ok, nil
	}
	for ok && before != nil && before.ran(nominal, job.Cut) {
		nominal, ok = s.Next(nominal)
	}
	return s, nominal, ok, nil
}

// NextRun returns the occurrence that is due next after now, or false if there is none: the job is
// not active, or its schedule names no further time.
func (j *Reader) NextRun(job schema.Job, now time.Time) (Occurrence, bool) {
	next := j.Upcoming(job, 1, now)
	if len(next) == 0 {
		return Occurrence{}, false
	}
	return next[0], true
}

// Upcoming returns the next occurrences that are due after now, at most count of them, in order.
func (j *Reader) Upcoming(job schema.Job, count int, now time.Time) []Occurrence {
	var next []Occurrence
	if job.Before != nil && job.Before.State == schema.JobActive && now.Before(job.Cut) && job.Current.State != schema.JobFinished {
		if before, err := j.series.of(job.ID, job.Before); err == nil && before != nil {
			// none at the creation itself, or before: an interval counts from there (first)
			from := bucketer.Latest(job.Current.Spec.Created, now.Add(-before.Offset()))
			for nominal := range before.From(from) {
				if len(next) == count || !before.due(nominal).Before(job.Cut) {
					break
				}
				next = append(next, before.occurrence(nominal))
			}
		}
	}
	if job.Current.State != schema.JobActive {
		return next
	}
	s, first, ok, err := j.first(&job)
	if err != nil || !ok {
		return next
	}
	from := bucketer.Latest(first.Add(-time.Millisecond), now.Add(-s.Offset()))
	for nominal := range s.From(from) {
		if len(next) >= count {
			break
		}
		next = append(next, s.occurrence(nominal))
	}
	return next
}
