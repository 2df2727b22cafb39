package search

import (
	"context"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

const (
	// letterPage is how many dead letters are read at a time, and letterCost how many partitions
	// such a page counts as: it, and the rows and attempts of their runs.
	letterPage = 100
	letterCost = 200
	// dayCost is what it costs to find that a day has no dead letters.
	dayCost = 1
)

// indexed reports whether dead letters say which runs q selects, and has pos begin there if it is
// the beginning. Where a search has begun, it goes on.
func (s *Searcher) indexed(q *Query, pos *Position) bool {
	if *pos != (Position{}) {
		return pos.Day != 0
	}
	if !slices.Equal(q.States, []schema.State{schema.StateFailed}) || q.Oldest || q.From.Before(s.core.Now().Add(-s.kept)) || !q.To.After(q.From) {
		return false
	}
	pos.Day = schema.PeriodOf(q.To.Add(-1))
	return true
}

// failed takes the runs that have failed and match, by the tenant's dead letters. It returns where
// to go on; nil: all was looked at.
func (a *answer) failed(ctx context.Context, pos Position) (*Position, error) {
	a.searched = Searched{By: ByFailed, Until: a.q.To}
	switch {
	case !pos.Before.IsZero():
		a.searched.Until = sooner(a.q.To, pos.Before.Time())
	case pos.Day != schema.PeriodOf(a.q.To.Add(-1)):
		a.searched.Until = dayStart(pos.Day + 1)
	}
	for first := schema.PeriodOf(a.q.From); pos.Day >= first; {
		if a.room() == 0 {
			return &pos, nil
		}
		if ok, err := a.affords(ctx, dayCost); err != nil || !ok {
			return &pos, err
		}
		page, err := a.letters.DeadLetters(ctx, a.q.Tenant, pos.Day, pos.Before, letterPage)
		if err != nil {
			return nil, fmt.Errorf("search runs: dead letters: %w", err)
		}
		if len(page) > 0 {
			if ok, err := a.affords(ctx, letterCost); err != nil || !ok {
				return &pos, err
			}
		}
		passed, err := a.letterPage(ctx, page)
		if err != nil {
			return nil, err
		}
		a.moved = true
		if passed > 0 {
			pos.Before = page[passed-1].Run
			a.searched.Until = sooner(a.q.To, pos.Before.Time())
		}
		switch {
		case passed < len(page): // the answer is full
			return &pos, nil
		case len(page) == letterPage:
			continue
		}
		a.searched.Until = later(a.q.From, dayStart(pos.Day))
		pos = Position{Day: pos.Day - 1}
	}
	a.searched.Until = a.q.From
	return nil, nil
}

// letterPage takes the runs of some dead letters that match, and returns how many of the letters
// were looked at: all, unless the answer is full before.
func (a *answer) letterPage(ctx context.Context, page []schema.DeadLetter) (int, error) {
	var ids []schema.EntryID
	for i := range page {
		if at := page[i].Run.Time(); !at.Before(a.q.From) && at.Before(a.q.To) && a.mayMatch(&page[i]) {
			ids = append(ids, page[i].Run)
		}
	}
	rows, err := a.core.Stored(ctx, ids)
	if err != nil {
		return 0, fmt.Errorf("search runs: %w", err)
	}
	var births []schema.Entry
	for _, id := range ids {
		if e, ok := rows[id]; ok && e.Fault == nil && e.Spec.Tenant == a.q.Tenant { // else it expired
			births = append(births, e)
		}
	}
	found, err := a.runs.Fold(ctx, births)
	if err != nil {
		return 0, fmt.Errorf("search runs: %w", err)
	}
	now := a.core.Now()
	found = slices.DeleteFunc(found, func(r runs.Run) bool { return !a.q.MayMatch(&r.Current, &r.Entry) || !a.q.Matches(&r, now) })
	if room := a.room(); len(found) > room {
		found = found[:room]
		last := found[room-1].ID
		a.add(found)
		return 1 + slices.IndexFunc(page, func(l schema.DeadLetter) bool { return l.Run == last }), nil
	}
	a.add(found)
	return len(page), nil
}

// mayMatch reports whether the run of a letter may match, by what the letter alone says.
func (a *answer) mayMatch(l *schema.DeadLetter) bool {
	if l.Fault != nil {
		return true // its run may be well
	}
	by := runs.Filter{Task: a.q.Task, Labels: a.q.Labels, Workflows: a.q.Workflows}
	return by.MayMatch(&l.Entry, &l.Entry)
}

// dayStart returns the first instant of a day, as dead letters count days.
func dayStart(day int) time.Time {
	return time.UnixMilli(int64(day) * schema.HistoryPeriod.Milliseconds()).UTC()
}
