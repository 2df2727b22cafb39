package logs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// SearchLogs returns at most limit items of q from pos on, what it looked at, and where to go on;
// nil: all was looked at. About the order and what an answer may cost see the package. An answer
// may hold fewer items than limit, even none, and still say where to go on.
//
// schema.ErrNotFound: the tenant has no such run, or no such job.
func (s *Searcher) SearchLogs(ctx context.Context, q *Query, pos Position, limit int) (Page, *Position, error) {
	a := s.answer(q, limit)
	if pos.Minute != 0 {
		a.page.Looked.Reached = pos.Minute.End()
	}
	if pos.Run.IsZero() {
		pos.Run = q.Run
	}
	if !pos.Run.IsZero() {
		all, err := a.resume(ctx, &pos)
		switch {
		case err != nil:
			return Page{}, nil, err
		case !all:
			return a.page, &pos, nil
		case !q.Run.IsZero():
			a.page.Looked.Reached = q.Run.Time()
			return a.page, nil, nil
		}
		pos = done(pos)
	}
	for !a.spent() {
		l, ended, err := a.next(ctx, &pos)
		if err != nil {
			return Page{}, nil, err
		}
		for i := range l.runs {
			if a.spent() {
				return a.page, &pos, nil
			}
			run := &l.runs[i]
			pos.Minute, pos.After, pos.Run = l.minute, l.after(run), run.ID
			all, err := a.run(ctx, run, &pos)
			switch {
			case err != nil:
				return Page{}, nil, err
			case !all:
				return a.page, &pos, nil
			}
			pos = done(pos)
			if l.minute == 0 { // within a minute of a window, runs that are due later may be left
				a.page.Looked.Reached = run.Place().Time()
			}
		}
		if ended {
			a.page.Looked.Reached = q.From
			return a.page, nil, nil
		}
		if l.minute != l.nextMinute {
			a.page.Looked.Reached = l.minute.Start()
		}
		pos.Minute, pos.After, a.moved = l.nextMinute, l.next, true
	}
	return a.page, &pos, nil
}

// resume goes on with the run that is half read. It reports whether it read all.
func (a *answer) resume(ctx context.Context, pos *Position) (all bool, err error) {
	run, err := a.runs.Run(ctx, a.q.Tenant, pos.Run)
	switch {
	case errors.Is(err, schema.ErrNotFound) && pos.Run != a.q.Run: // it has left meanwhile
		return true, nil
	case err != nil:
		return false, fmt.Errorf("search logs: %w", err)
	}
	return a.run(ctx, &run, pos)
}

// done returns pos once the run that was half read is read.
func done(pos Position) Position { return Position{Minute: pos.Minute, After: pos.After} }

// run reads a run, of a workflow those of its steps, and moves pos within it. It reports whether it
// read all.
func (a *answer) run(ctx context.Context, run *runs.Run, pos *Position) (all bool, err error) {
	if run.Entry.Spec.Workflow == nil {
		return a.leaf(ctx, run, &pos.At)
	}
	// its own errors first: why the run as a whole failed
	if pos.Step.IsZero() && pos.In.IsZero() && a.q.Task == "" {
		if all, err = a.leaf(ctx, run, &pos.At); err != nil || !all {
			return all, err
		}
	}
	if !pos.In.IsZero() {
		step, err := a.runs.Run(ctx, a.q.Tenant, pos.In)
		switch {
		case errors.Is(err, schema.ErrNotFound): // it has left meanwhile
		case err != nil:
			return false, fmt.Errorf("search logs: %w", err)
		default:
			if all, err := a.leaf(ctx, &step, &pos.At); err != nil || !all {
				return false, err
			}
		}
		pos.Step, pos.In, pos.At = pos.In, schema.RunID{}, Reading{}
	}
	for {
		if a.spent() || !a.affords(stepSlices) {
			return false, nil
		}
		list, next, err := a.steps.StepRuns(ctx, run, "", runs.Filter{Task: a.q.Task}, pos.Step, pageRuns)
		if err != nil {
			return false, fmt.Errorf("search logs: steps: %w", err)
		}
		for i := range list {
			if a.spent() {
				return false, nil
			}
			pos.In, pos.At = list[i].ID, Reading{}
			if all, err := a.leaf(ctx, &list[i], &pos.At); err != nil || !all {
				return false, err
			}
			pos.Step, pos.In, pos.At = list[i].ID, schema.RunID{}, Reading{}
		}
		if next.IsZero() {
			return true, nil
		}
		pos.Step, a.moved = next, true
	}
}

// list is some runs, in the order in which they are looked at.
type list struct {
	runs   []runs.Run
	minute schema.Bucket // of a window: in which they are due
	after  func(*runs.Run) runs.Position

	nextMinute schema.Bucket // where to go on after all of them
	next       runs.Position
}

// next returns the runs that are looked at from pos on, and whether there are no more after them.
func (a *answer) next(ctx context.Context, pos *Position) (list, bool, error) {
	if !a.q.Job.IsZero() {
		return a.nextOfJob(ctx, pos)
	}
	return a.nextOfWindow(ctx, pos)
}

func (a *answer) nextOfJob(ctx context.Context, pos *Position) (list, bool, error) {
	if !a.affords(historySlices) {
		return list{next: pos.After}, false, nil
	}
	f := recurring.JobRunFilter{Filter: a.q.filter(), From: a.q.From, To: a.q.To}
	page, next, err := a.jobs.JobRuns(ctx, a.q.Tenant, a.q.Job, f, pos.After, pageRuns)
	if err != nil {
		return list{}, false, fmt.Errorf("search logs: %w", err)
	}
	l := list{runs: page, after: func(r *runs.Run) runs.Position { return runs.Position{After: r.ID} }}
	if next != nil {
		l.next = *next
	}
	return l, next == nil, nil
}

// nextOfWindow goes from the last minute of a window to the first. What is due later than now has
// logged nothing.
func (a *answer) nextOfWindow(ctx context.Context, pos *Position) (list, bool, error) {
	shards, err := a.core.ShardsEver()
	if err != nil {
		return list{}, false, fmt.Errorf("search logs: %w", err)
	}
	to := a.q.To
	if now := a.core.Now().Add(schema.MaxClockDifference); to.After(now) {
		to = now
	}
	if !to.After(a.q.From) {
		return list{}, true, nil
	}
	if pos.Minute == 0 {
		pos.Minute, a.page.Looked.Reached = schema.BucketOf(to.Add(-1)), to
	}
	first := schema.BucketOf(a.q.From)
	for {
		if !a.affords(shards) {
			return list{minute: pos.Minute, nextMinute: pos.Minute, next: pos.After}, false, nil
		}
		w := runs.Window{Tenant: a.q.Tenant, From: latest(a.q.From, pos.Minute.Start()), To: earliest(to, pos.Minute.End()), Filter: a.q.filter()}
		page, next, err := a.runs.Runs(ctx, w, pos.After, pageRuns)
		if err != nil {
			return list{}, false, fmt.Errorf("search logs: %w", err)
		}
		l := list{
			runs: page, minute: pos.Minute, nextMinute: pos.Minute,
			after: func(r *runs.Run) runs.Position { return runs.Position{After: r.Place()} },
		}
		ended := false
		if next != nil {
			l.next = *next
		} else {
			ended, l.nextMinute = pos.Minute <= first, pos.Minute-1
		}
		if len(page) > 0 || ended || a.spent() {
			return l, ended, nil
		}
		if l.nextMinute != pos.Minute {
			a.page.Looked.Reached = pos.Minute.Start()
		}
		pos.Minute, pos.After, a.moved = l.nextMinute, l.next, true
	}
}

func latest(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}

func earliest(x, y time.Time) time.Time {
	if x.Before(y) {
		return x
	}
	return y
}
