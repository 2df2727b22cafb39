package recurring

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

const (
	// unsureFor is how long a run waits whose generation the job's row does not know: its writer is
	// about to commit, or never will.
	unsureFor = 30 * time.Second
	// maxJumps bounds the decisions (conditional writes) of one call of PlanOn, jumpsAtOnce those
	// under way. Further ones wait for the next call.
	maxJumps    = 64
	jumpsAtOnce = 8
	// jobsAtOnce bounds the reads of jobs under way for one call.
	jobsAtOnce = 8
)

// PlanOn looks at the jobs of entries before they start, writes what comes next in each job, and
// says of each entry whether it may be published. Entries of one-off jobs, and later entries of
// runs that have started, are Publish at once.
//
// When PlanOn returns, the next occurrence of each run that may be published is held. After an
// error nothing is known of any of the entries: the next call writes the same again. While the
// clock may be wrong, the error is ErrNotReady.
//
// If we crash at any point, the next node that reads the entries does the same again, to the same
// ids.
func (j *Planner) PlanOn(ctx context.Context, entries []schema.Entry, now time.Time) ([]bucketer.Verdict, error) {
	p := planning{b: j, asked: now, now: now, entries: entries, verdicts: make([]bucketer.Verdict, len(entries))}
	var err error
	if p.jobs, err = j.jobsOf(ctx, entries); err != nil {
		return nil, err
	}
	if now := j.now(); len(p.jobs) > 0 && now.After(p.now) {
		// reading the jobs may take long: what they say is not recorded as of a time before
		p.now = now
	}
	for i := range entries {
		if e := &entries[i]; e.FirstOfJob() && e.Fault == nil {
			p.judge(i)
		}
	}
	if j.core.Halted() {
		// asked after the clock was read: nothing that a wrong clock decided is recorded
		return nil, bucketer.ErrNotReady
	}
	if err := p.write(ctx); err != nil {
		return nil, err
	}
	return p.verdicts, nil
}

// planning is one PlanOn under way.
type planning struct {
	b        *Planner
	asked    time.Time // before the jobs were read: changes that they do not show came later
	now      time.Time // after
	entries  []schema.Entry
	jobs     map[schema.JobID]*schema.Job
	verdicts []bucketer.Verdict

	steps []step // what comes next after entries that may be published
	// first occurrences of generations in force whose predecessor had an entry dropped
	begins []step
	// what would have come next, before the cut, after entries that were missed because of it
	changed  []step
	dropped  []bucketer.Finished // what is recorded instead of a start
	lines    []schema.JobRun
	finished []*schema.Job
	jumps    int
}

// step is a nominal time of a series that is to be held.
type step struct {
	i       int // the entry that it follows on; -1: none
	job     *schema.Job
	s       *series
	nominal time.Time
	cut     time.Time // of a series that was replaced: no nominal time due at it or later
}

// judge decides on entry i by the row of its job.
func (p *planning) judge(i int) {
	e := &p.entries[i]
	job, ok := p.jobs[e.Spec.Job]
	right := schema.StartDecision{Unknown: true, Outcome: schema.Cancelled, Reason: "the job does not exist"}
	if ok {
		right = job.DecideStart(e, p.now)
	}
	switch {
	case right.Unknown && p.asked.Before(bucketer.Latest(time.UnixMicro(e.Spec.Generation), e.MisfireFrom()).Add(unsureFor)):
		p.verdicts[i] = bucketer.Undecided
	case right.Outcome != "":
		p.drop(i, schema.Record{Outcome: right.Outcome, Reason: right.Reason})
		if ok && e.IsOccurrence() {
			p.replaced(i, job, right)
		}
	default:
		if !right.Before.IsZero() {
			p.verdicts[i] = bucketer.Doubtful
		}
		if e.IsOccurrence() {
			p.goOn(i, job, right)
		}
	}
}

// replaced finds what follows when entry i is dropped because its generation is not in force.
func (p *planning) replaced(i int, job *schema.Job, right schema.StartDecision) {
	if right.Outcome == schema.Missed {
		s, err := p.b.series.of(job.ID, right.Generation)
		if err != nil {
			p.b.reportFault(err)
		} else if s != nil {
			if next, ok := s.Next(p.entries[i].Spec.Nominal); ok && s.due(next).Before(right.Cut) {
				p.changed = append(p.changed, step{i, job, s, next, right.Cut})
			}
		}
	}
	if job.Current.State != schema.JobActive {
		return
	}
	if s, nominal, ok, err := p.b.first(job); err != nil {
		p.b.reportFault(err)
	} else if ok {
		p.begins = append(p.begins, step{i: -1, job: job, s: s, nominal: nominal})
	}
}

// goOn finds what comes after entry i, which may be published.
func (p *planning) goOn(i int, job *schema.Job, right schema.StartDecision) {
	e := &p.entries[i]
	s, err := p.b.series.of(job.ID, right.Generation)
	switch {
	case err != nil:
		p.b.reportFault(err)
		return
	case s == nil:
		return
	}
	if e.Marks.Cancelled != nil {
		// Cancelled before it was read: no record will lead to its line of history.
		rec := schema.Record{Entry: e.ID, Outcome: schema.Cancelled, Finished: e.Marks.Cancelled.At}
		line, _ := runs.HistoryLine(e, &schema.Attempt{Record: &rec, Expires: p.b.core.Expiry(e.Due(), p.now)})
		p.lines = append(p.lines, line)
	}
	nominal, more := s.Next(e.Spec.Nominal)
	switch {
	case !more && right.Before.IsZero():
		p.finished = append(p.finished, job)
	case !more, !right.Before.IsZero() && !s.due(nominal).Before(right.Before):
		// The generation in force goes on from here; its first occurrence was held before it was.
	default:
		p.steps = append(p.steps, step{i: i, job: job, s: s, nominal: nominal})
		return
	}
	p.misfire(i, s)
}

// misfire gives up entry i if it is too late by its policy.
func (p *planning) misfire(i int, s *series) {
	if rec, missed := misfired(s, &p.entries[i], p.now); missed {
		p.drop(i, rec)
	}
}

// drop has rec recorded instead of a start of entry i.
func (p *planning) drop(i int, rec schema.Record) {
	p.verdicts[i] = bucketer.Dropped
	e := &p.entries[i]
	p.dropped = append(p.dropped, bucketer.Finished{Entry: *e, Attempt: p.b.runs.NotStarted(*e, rec, p.now)})
}

// reportFault logs and counts a stored job or schedule that this program does not understand.
// Another version may, for example one with other zone data. What was planned of it runs. The job
// does not go on until it is understood or changed. Then Mend takes it up again, and what was left
// out is caught up with by its policy. No other job is held up.
func (j *Reader) reportFault(err error) {
	j.metrics.faulty.Inc()
	j.log.Error("what is stored of a job cannot be understood: it does not go on", "err", err)
}

// NotUnderstood returns why the job does not go on, because its row is not understood; nil if it
// does.
func (j *Reader) NotUnderstood(job *schema.Job) error {
	_, err := j.series.of(job.ID, &job.Current)
	return err
}

// jobsOf reads the jobs of the entries that would make the first start of their run.
func (j *Planner) jobsOf(ctx context.Context, entries []schema.Entry) (map[schema.JobID]*schema.Job, error) {
	var ids []schema.JobID
	for i := range entries {
		if e := &entries[i]; e.FirstOfJob() && e.Fault == nil {
			ids = append(ids, e.Spec.Job)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return j.Jobs(ctx, ids)
}

// Jobs reads any number of jobs. Those that do not exist are absent.
func (j *Reader) Jobs(ctx context.Context, ids []schema.JobID) (map[schema.JobID]*schema.Job, error) {
	slices.SortFunc(ids, func(x, y schema.JobID) int {
		if d := int(x.Shard()) - int(y.Shard()); d != 0 {
			return d
		}
		return slices.Compare(x[:], y[:])
	})
	ids = slices.Compact(ids)
	found := make(map[schema.JobID]*schema.Job, len(ids))
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(jobsAtOnce)
	for len(ids) > 0 {
		shard := ids[0].Shard()
		n := 1
		for n < len(ids) && n < bucketer.ReadIDs && ids[n].Shard() == shard {
			n++
		}
		part := ids[:n]
		ids = ids[n:]
		g.Go(func() error {
			jobs, err := j.store.Jobs(ctx, shard, part)
			mu.Lock()
			defer mu.Unlock()
			for i := range jobs {
				found[jobs[i].ID] = &jobs[i]
			}
			if err != nil {
				return fmt.Errorf("jobs of shard %d: %w", shard, err)
			}
			return nil
		})
	}
	return found, g.Wait()
}
