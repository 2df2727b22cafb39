package logs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// FollowPosition is where Follow goes on. Of the beginning Seen alone is set.
type FollowPosition struct {
	// Seen: the runs that are due before it were found, and in the part of the window behind it
	// those up to After.
	Seen  time.Time     `json:"seen"`
	After runs.Position `json:"after"`
	Open  []Followed    `json:"open,omitempty"` // runs that have not ended, in the order in which they were found
}

// Followed is a run that has not ended, or of which not all was told.
type Followed struct {
	Run schema.RunID `json:"run"`
	At  Reading      `json:"at"`
	// Ended is of a workflow run: of the steps that ended up to then all was told.
	Ended time.Time `json:"ended,omitzero"`
}

// FollowLogs returns items that came since pos, at most limit of them, and where to go on; nil: q
// asks for one run, which has ended. Of q, To means nothing. The items of a run are in order; runs
// are mixed. Looked.Behind says that there is more now: else the caller waits a while before it
// goes on.
//
// A run is found followLag after it was due; one whose row is held later is not. At most
// maxFollowed runs are followed at once: Looked.LetGo counts those that had to make room. About
// errors see SearchLogs.
func (s *Searcher) FollowLogs(ctx context.Context, q *Query, pos FollowPosition, limit int) (Page, *FollowPosition, error) {
	a := s.answer(q, limit)
	if !q.Run.IsZero() && len(pos.Open) == 0 {
		pos.Open = []Followed{{Run: q.Run}}
	}
	pos.Open = slices.Clone(pos.Open)
	if err := a.followOpen(ctx, &pos); err != nil {
		return Page{}, nil, err
	}
	if !q.Run.IsZero() {
		if len(pos.Open) == 0 {
			return a.page, nil, nil
		}
		return a.page, &pos, nil
	}
	to := a.core.Now().Add(-followLag)
	for !a.page.Looked.Behind && to.After(pos.Seen) {
		if a.spent() {
			a.page.Looked.Behind = true
			break
		}
		if err := a.discover(ctx, &pos, to); err != nil {
			return Page{}, nil, err
		}
	}
	if over := len(pos.Open) - maxFollowed; over > 0 {
		pos.Open, a.page.Looked.LetGo = pos.Open[over:], over
	}
	a.page.Looked.Reached = pos.Seen
	return a.page, &pos, nil
}

// followOpen reads on in the runs that are followed, and leaves those that have ended.
func (a *answer) followOpen(ctx context.Context, pos *FollowPosition) error {
	var still []Followed
	for _, f := range pos.Open {
		if a.spent() {
			a.page.Looked.Behind = true
			still = append(still, f)
			continue
		}
		run, err := a.runs.Run(ctx, a.q.Tenant, f.Run)
		switch {
		case errors.Is(err, schema.ErrNotFound) && f.Run != a.q.Run: // it has left
			continue
		case err != nil:
			return fmt.Errorf("follow logs: %w", err)
		}
		if err := a.follow(ctx, &run, f, pos, &still); err != nil {
			return err
		}
	}
	pos.Open = still
	return nil
}

// follow reads on in a run, and adds it to open if there is or may be more of it. What it finds of
// the steps of a workflow run stands behind that.
func (a *answer) follow(ctx context.Context, run *runs.Run, f Followed, pos *FollowPosition, open *[]Followed) error {
	at := len(*open)
	*open = append(*open, f)
	all, err := a.readOn(ctx, run, &f, pos, open)
	if err != nil {
		return err
	}
	if (*open)[at] = f; !all {
		a.page.Looked.Behind = true
		return nil
	}
	if run.State.Terminal() && !isAhead(run, *open) {
		*open = slices.Delete(*open, at, at+1)
	}
	return nil
}

// isAhead reports whether a step has ended, and its workflow run does not know yet that all of it
// was told: it would be found again.
func isAhead(step *runs.Run, open []Followed) bool {
	of := step.Entry.Spec.Step
	return of != nil && slices.ContainsFunc(open, func(f Followed) bool { return f.Run == of.Workflow && lastEnd(step).After(f.Ended) })
}

// readOn reads what has come of a run since, and reports whether that is all.
func (a *answer) readOn(ctx context.Context, run *runs.Run, f *Followed, pos *FollowPosition, open *[]Followed) (all bool, err error) {
	if run.Entry.Spec.Workflow == nil {
		return a.leaf(ctx, run, &f.At)
	}
	if a.q.Task == "" {
		if all, err := a.leaf(ctx, run, &f.At); err != nil || !all {
			return false, err
		}
	}
	return a.followSteps(ctx, run, f, pos, open)
}

// followSteps reads the steps of a workflow run that have ended since it was looked at, and finds
// those that have begun. It reports whether there is no more of them now. Steps that find no place
// among those that are followed are told of when they have ended.
func (a *answer) followSteps(ctx context.Context, of *runs.Run, f *Followed, pos *FollowPosition, open *[]Followed) (all bool, err error) {
	known := make(map[schema.RunID]bool)
	for _, some := range [][]Followed{pos.Open, *open} {
		for _, o := range some {
			known[o.Run] = true
		}
	}
	ended, begun, err := a.newSteps(ctx, of, f.Ended)
	if err != nil || a.over {
		return false, err
	}
	for _, step := range ended {
		if !known[step.ID] {
			if a.spent() {
				return false, nil
			}
			found := Followed{Run: step.ID}
			if all, err = a.leaf(ctx, step, &found.At); err != nil {
				return false, err
			}
			if !all {
				*open = append(*open, found)
			}
		}
		f.Ended = lastEnd(step)
	}
	for _, step := range begun {
		if known[step.ID] || len(known) >= maxFollowed {
			continue
		}
		if a.spent() {
			return false, nil
		}
		found := Followed{Run: step.ID}
		if _, err = a.leaf(ctx, step, &found.At); err != nil {
			return false, err
		}
		*open, known[step.ID] = append(*open, found), true
	}
	return !a.spent(), nil
}

// newSteps returns the steps of a workflow run that ended after that, in that order, and those that
// are under way.
func (a *answer) newSteps(ctx context.Context, of *runs.Run, since time.Time) (ended, begun []*runs.Run, err error) {
	for after := (schema.RunID{}); ; {
		if !a.affords(stepSlices) {
			return nil, nil, nil
		}
		list, next, err := a.steps.StepRuns(ctx, of, "", runs.Filter{Task: a.q.Task}, after, pageRuns)
		if err != nil {
			return nil, nil, fmt.Errorf("follow logs: steps: %w", err)
		}
		for i := range list {
			switch step := &list[i]; {
			case !step.State.Terminal() && len(step.Attempts) > 0:
				begun = append(begun, step)
			case step.State.Terminal() && lastEnd(step).After(since):
				ended = append(ended, step)
			}
		}
		if after = next; after.IsZero() {
			slices.SortStableFunc(ended, func(x, y *runs.Run) int { return lastEnd(x).Compare(lastEnd(y)) })
			return ended, begun, nil
		}
	}
}

// lastEnd returns when the last attempt of a run ended.
func lastEnd(run *runs.Run) (at time.Time) {
	for i := range run.Attempts {
		if rec := run.Attempts[i].Record; rec != nil {
			at = bucketer.Latest(at, rec.Finished)
		}
	}
	return at
}

// discover finds runs that are due before to, some more of them.
func (a *answer) discover(ctx context.Context, pos *FollowPosition, to time.Time) error {
	shards, err := a.core.ShardsEver()
	if err != nil {
		return fmt.Errorf("follow logs: %w", err)
	}
	// a minute at a time, so that its cost is known
	end := earliest(to, schema.BucketOf(pos.Seen).End())
	if !a.affords(shards) {
		return nil
	}
	w := runs.Window{Tenant: a.q.Tenant, From: pos.Seen, To: end, Filter: a.q.filter()}
	page, next, err := a.runs.Runs(ctx, w, pos.After, pageRuns)
	if err != nil {
		return fmt.Errorf("follow logs: %w", err)
	}
	for i := range page {
		run := &page[i]
		if a.spent() {
			return nil
		}
		pos.After = runs.Position{After: run.Place()}
		if !a.q.Job.IsZero() && run.Entry.Spec.Job != a.q.Job {
			continue
		}
		if err := a.follow(ctx, run, Followed{Run: run.ID}, pos, &pos.Open); err != nil {
			return err
		}
	}
	a.moved = true
	if next != nil {
		pos.After = *next
		return nil
	}
	pos.Seen, pos.After = end, runs.Position{}
	return nil
}
