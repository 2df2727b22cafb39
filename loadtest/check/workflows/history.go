package workflows

import (
	"fmt"
	"slices"
	"strings"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// A History is the input of [Judge], which does not change it. The slices may be in any order.
type History struct {
	Workflows []Workflow
	Triggers  []Trigger
	// Seen is the record of the sink. SeenAll: it has no gap.
	Seen    []check.Sighting
	SeenAll bool
	// Runs holds every workflow run that the API listed, and every acknowledged one.
	Runs []check.Observation
	// Unlisted counts the windows of time whose list of runs could not be read to its end.
	Unlisted int
	// StepRuns are the runs of steps that [Suspects] names.
	StepRuns []check.Observation
	// Late is how late steps may start. Its zero value bounds nothing.
	Late check.LatenessBound
	// Losses are spans whose writes may not have been known where the work went on, as those of a
	// region that was cut off.
	Losses []check.Loss
}

// stepHex is how many hexadecimal digits at the end of the id of a step's run name step and item. What
// is before them is the workflow run's.
const stepHex = 6

// runOf returns what the runs of all steps of one workflow run have in common.
func runOf(step string) string { return step[:max(len(step)-stepHex, 0)] }

// stepID returns the id of the run of a step, or of an item from 1.
func stepID(run schema.RunID, step, item int) string {
	return schema.MakeStepID(run, step, item).String()
}

// Suspects returns the runs of steps that Judge cannot judge without their records, in order: those
// that were called twice as one attempt, and those whose calls do not say how they ended. The error is
// that of Judge.
func Suspects(h History) ([]string, error) {
	j, err := newJudge(h)
	if err != nil {
		return nil, err
	}
	j.judgeAll()
	ids := make([]string, 0, len(j.suspects))
	for id := range j.suspects {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, nil
}

// gather sorts the history by run.
func (j *judge) gather() error {
	for i := range j.h.Workflows {
		w := &j.h.Workflows[i]
		g, err := newGraph(w)
		if err != nil {
			return err
		}
		if j.graphs[w.Name] != nil {
			return fmt.Errorf("%w: workflow %s is there twice", check.ErrHistory, w.Name)
		}
		j.graphs[w.Name] = g
	}
	for i := range j.h.Seen {
		s := &j.h.Seen[i]
		j.calls[s.Run] = append(j.calls[s.Run], s)
	}
	for _, seen := range j.calls {
		slices.SortStableFunc(seen, func(a, b *check.Sighting) int { return a.At.Compare(b.At) })
	}
	for _, of := range []struct {
		all  []check.Observation
		into map[string]*check.Observation
	}{{j.h.Runs, j.observed}, {j.h.StepRuns, j.records}} {
		for i := range of.all {
			o := &of.all[i]
			if of.into[o.ID] != nil {
				return fmt.Errorf("%w: run %s observed twice", check.ErrHistory, o.ID)
			}
			of.into[o.ID] = o
		}
	}
	return nil
}

// isWorkflowRun reports whether a run in a list is one of a workflow of this history.
func (j *judge) isWorkflowRun(o *check.Observation) bool {
	for _, r := range []*check.Reading{&o.First, &o.Second} {
		if r.Status == check.Found && (r.Run.Workflow == "" || j.graphs[r.Run.Workflow] == nil) {
			return false
		}
	}
	return true
}

// refText names what a call's address names.
func refText(r check.Ref) string {
	if r.IsZero() {
		return "nothing"
	}
	return strings.TrimSpace(r.String())
}
