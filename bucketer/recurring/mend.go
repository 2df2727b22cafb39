package recurring

import (
	"context"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	// mendAfter is how long an occurrence may be due before its job, if it did not go on, is
	// mended. A slow dispatcher gets there by itself.
	mendAfter = 3 * time.Minute
	// mendPeriods bounds how many periods of history are searched for the last run of a job that
	// does not go on.
	mendPeriods = 8
	// mendReads bounds the pages of lines of a period that are read for it: runs that were asked
	// for besides the schedule may lie before it.
	mendReads = 20
	// mendSteps bounds the occurrences looked for after that run.
	mendSteps = 100
)

// Mend looks at the jobs of a shard with an id after `after`, at most limit of them. For each
// active job without a next run it plans one, and leaves what was lost in between to a catch-up
// entry. It returns the last job that it looked at; zero means that there are no more.
//
// A job that goes on always has the row of the first occurrence that is due after now, or of one
// that is due and was not published yet. No known fault loses both: Mend is for unknown ones.
func (j *Planner) Mend(ctx context.Context, shard schema.Shard, after schema.JobID, limit int, now time.Time) (schema.JobID, error) {
	began := j.now()
	jobs, err := j.store.JobsOf(ctx, shard, after, limit)
	defer func() {
		j.metrics.looked.Add(float64(len(jobs)))
		j.metrics.lookTime.Add(max(j.now().Sub(began), 0).Seconds())
	}()
	if err != nil {
		return after, fmt.Errorf("jobs of shard %d: %w", shard, err)
	}
	stale, err := j.outdated(ctx, jobs)
	if err != nil {
		return after, fmt.Errorf("calendars of shard %d: %w", shard, err)
	}
	for _, job := range stale {
		j.changer.stale.add(job.Current.Spec.Tenant, job.ID)
	}
	var planned []step
	for i := range jobs {
		if job := &jobs[i]; job.Current.State == schema.JobActive && now.Sub(job.Cut) > unsureFor {
			if next, ok := j.mustBePlanned(ctx, job, now); ok {
				planned = append(planned, next)
			}
		}
	}
	rows, err := j.find(ctx, planned)
	if err != nil {
		return after, err
	}
	for _, next := range planned {
		if _, there := rows[next.s.id(next.nominal)]; there {
			continue
		}
		if err := j.mendJob(ctx, next, now); err != nil {
			return after, fmt.Errorf("mend job %s: %w", next.job.ID, err)
		}
	}
	if len(jobs) < limit {
		return schema.JobID{}, nil
	}
	return jobs[len(jobs)-1].ID, nil
}

// mustBePlanned returns the first occurrence of the job that is due after now, or false if there is
// none. It finishes a job whose last occurrence is long past.
func (j *Planner) mustBePlanned(ctx context.Context, job *schema.Job, now time.Time) (step, bool) {
	s, first, ok, err := firstBy(j.series.once, job)
	if err != nil {
		j.reportFault(err)
		return step{}, false
	}
	if s == nil {
		return step{}, false
	}
	if ok && s.due(first).After(now) {
		return step{i: -1, job: job, s: s, nominal: first}, true
	}
	nominal, more := s.Next(now.Add(-s.Offset()))
	switch {
	case more:
		return step{i: -1, job: job, s: s, nominal: nominal}, true
	case !ok:
		j.changer.finish(ctx, *job, now)
	default:
		if last, _ := s.last(first, now); now.Sub(s.due(last)) > mendAfter {
			j.changer.finish(ctx, *job, now)
		}
	}
	return step{}, false
}

// mendJob plans a job on whose next occurrence is not there, unless a dispatcher is about to.
func (j *Planner) mendJob(ctx context.Context, due step, now time.Time) error {
	s := due.s
	_, at, _, err := j.first(due.job)
	if err != nil {
		return err
	}
	done, ok, err := j.lastRun(ctx, s, now)
	switch {
	case err != nil:
		return err
	case ok && now.Sub(s.due(done)) < mendAfter:
		return nil
	case ok:
		if at, ok = s.Next(done); !ok {
			return nil
		}
	}
	// From the last run that is known to be over to the first occurrence that was never planned.
	var row schema.Entry
	for range mendSteps {
		if !at.Before(due.nominal) {
			break
		}
		rows, err := j.find(ctx, []step{{i: -1, job: due.job, s: s, nominal: at}})
		if err != nil {
			return err
		}
		var there bool
		if row, there = rows[s.id(at)]; !there {
			break
		}
		if now.Sub(row.Due()) < mendAfter {
			return nil // it is on its way, or has just been
		}
		touched, err := j.core.HaveAttempts(ctx, []schema.Entry{row})
		if err != nil {
			return err
		}
		if !touched[row.ID] {
			// no sweep found it: the job goes on from its late entry
			return j.core.CheckLate(ctx, []schema.Entry{row})
		}
		if at, ok = s.Next(at); !ok {
			return nil
		}
	}
	if now.Sub(s.due(at)) < mendAfter && at.Before(due.nominal) {
		return nil
	}
	j.metrics.mended.Inc()
	j.log.Warn("a job had no next run: it goes on", "job", due.job.ID, "from", at, "next", due.nominal)
	if !at.Before(due.nominal) {
		row, err := j.occurrence(s, due.nominal, now)
		if err != nil {
			return err
		}
		return j.core.WriteAll(ctx, []schema.Entry{row})
	}
	_, _, err = j.jump(ctx, s, at, now)
	return err
}

// lastRun returns the nominal time of the last run of the series in the job's history, if there is
// one in the last mendPeriods.
func (j *Planner) lastRun(ctx context.Context, s *series, now time.Time) (time.Time, bool, error) {
	for period := schema.PeriodOf(now); period > schema.PeriodOf(now)-mendPeriods; period-- {
		var before schema.RunID
		for last, reads := historyPage, 0; last == historyPage && reads < mendReads; reads++ {
			lines, err := j.store.JobRuns(ctx, s.job, period, before, historyPage)
			if err != nil {
				return time.Time{}, false, fmt.Errorf("history: %w", err)
			}
			i := slices.IndexFunc(lines, func(r schema.JobRun) bool { return r.Run == s.id(r.Nominal) })
			switch {
			case i >= 0 && lines[i].Missed != nil:
				return lines[i].Missed.To, true, nil
			case i >= 0:
				return lines[i].Nominal, true, nil
			}
			if last = len(lines); last > 0 {
				before = lines[last-1].Run
			}
		}
	}
	return time.Time{}, false, nil
}
