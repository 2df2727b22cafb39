package workflows

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// judge judges one history.
type judge struct {
	h        History
	graphs   map[string]*graph
	calls    map[string][]*check.Sighting // by run of a step, in order of time; judged ones are taken out
	observed map[string]*check.Observation
	records  map[string]*check.Observation // of runs of steps
	suspects map[string]struct{}

	rep    Report
	late   []time.Duration
	faults map[check.Kind][]check.Fault
}

func newJudge(h History) (*judge, error) {
	j := &judge{
		h: h, graphs: map[string]*graph{}, calls: map[string][]*check.Sighting{}, observed: map[string]*check.Observation{},
		records: map[string]*check.Observation{}, suspects: map[string]struct{}{}, faults: map[check.Kind][]check.Fault{},
	}
	if err := j.gather(); err != nil {
		return nil, err
	}
	acked := map[string]bool{}
	for i := range h.Triggers {
		t := &h.Triggers[i]
		g := j.graphs[t.Ref.Source]
		if g == nil {
			return nil, fmt.Errorf("%w: a trigger of %s, which is not there", check.ErrHistory, t.Ref)
		}
		for k := range g.steps {
			if f := g.steps[k].ForEach; f != nil {
				if _, err := f.items(t.Payload); err != nil {
					return nil, err
				}
			}
		}
		if t.Run == "" {
			continue
		}
		if _, err := schema.ParseEntryID(t.Run); err != nil || acked[t.Run] {
			return nil, fmt.Errorf("%w: trigger %s was answered with the run %q, another one's or none", check.ErrHistory, t.Ref, t.Run)
		}
		acked[t.Run] = true
	}
	return j, nil
}

// Judge judges h by the rules of the package comment. The error is check.ErrHistory: a definition that
// it cannot read, a workflow or run that is there twice, or a trigger of no workflow.
func Judge(h History) (Report, error) {
	j, err := newJudge(h)
	if err != nil {
		return Report{}, err
	}
	j.judgeAll()
	return j.sum(), nil
}

// judgeAll judges every acknowledged run, and then what is left.
func (j *judge) judgeAll() {
	acked := map[string]bool{}
	for i := range j.h.Triggers {
		t := &j.h.Triggers[i]
		if t.Run == "" {
			j.rep.Unknown++
			continue
		}
		acked[t.Run] = true
		j.judgeRun(t)
	}
	j.strangers(acked)
}

// strangers judges what no acknowledged run explains. Each trigger of unknown outcome may have one
// workflow run.
func (j *judge) strangers(acked map[string]bool) {
	type stranger struct {
		id    string
		calls int
	}
	all, known := map[string]*stranger{}, map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(j.observed)) {
		run, err := schema.ParseEntryID(id)
		switch {
		case acked[id]:
		case err != nil || !j.isWorkflowRun(j.observed[id]):
			j.extra("", id, "nobody asked for it, and it is of none of the workflows")
		default:
			all[runOf(stepID(run, 0, 0))] = &stranger{id: id}
		}
	}
	for id := range acked {
		run, _ := schema.ParseEntryID(id) // newJudge has parsed it
		known[runOf(stepID(run, 0, 0))] = true
	}
	for _, id := range slices.Sorted(maps.Keys(j.calls)) {
		step, err := schema.ParseEntryID(id)
		key := runOf(id)
		switch {
		case err != nil || !step.IsStep():
			j.extra("", id, "%d calls name no run of a step", len(j.calls[id]))
		case known[key]:
			i, item := step.StepOf()
			j.extra("", id, "%d calls of step %d, item %d, which the workflow has not", len(j.calls[id]), i+1, item)
		case all[key] == nil:
			all[key] = &stranger{id: id, calls: len(j.calls[id])}
		default:
			all[key].calls += len(j.calls[id])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if j.rep.UnknownRan < j.rep.Unknown {
			j.rep.UnknownRan++
			continue
		}
		j.extra("", all[key].id, "nobody asked for this workflow run: %d calls of its steps", all[key].calls)
	}
}

// run is an acknowledged workflow run under judgement.
type run struct {
	*Trigger
	*graph
	id    schema.RunID
	shown *check.Run // as it was read last; nil: it was not
	over  bool       // it has ended, by that
	fates []fate
}

// judgeRun judges one acknowledged run. It takes the calls of its steps.
func (j *judge) judgeRun(t *Trigger) {
	j.rep.Acknowledged++
	r := &run{Trigger: t, graph: j.graphs[t.Ref.Source]}
	r.id, _ = schema.ParseEntryID(t.Run) // newJudge has parsed it
	r.fates = make([]fate, len(r.steps))
	j.readings(r)
	if j.lost(r) {
		j.rep.Forgiven++
		return
	}
	for i := range r.steps {
		j.judgeStep(r, i)
	}
	if r.over {
		j.states(r)
	}
}

// lost reports whether a call of a run was under way within a loss. Then it takes all its calls.
func (j *judge) lost(r *run) bool {
	if len(j.h.Losses) == 0 {
		return false
	}
	var ids []string
	met := false
	for id, seen := range j.calls {
		if runOf(id) != runOf(stepID(r.id, 0, 0)) {
			continue
		}
		ids = append(ids, id)
		met = met || slices.ContainsFunc(seen, func(s *check.Sighting) bool {
			return slices.ContainsFunc(j.h.Losses, func(l check.Loss) bool { return l.Meets(s) })
		})
	}
	if met {
		for _, id := range ids {
			j.take(id)
		}
	}
	return met
}

// readings judges whether a run was found, and has ended.
func (j *judge) readings(r *run) {
	o := j.observed[r.Run]
	switch {
	case o == nil || o.First.Status == check.Unreadable || o.Second.Status == check.Unreadable:
		j.rep.Unreadable++
		j.fault(check.FaultUnreadable, r.Ref.String(), r.Run, "the API gave no answer")
		return
	case o.First.Status == check.Absent || o.Second.Status == check.Absent:
		j.missed(r, "acknowledged, and the API knows no such run")
		return
	}
	was, is := o.First.Run.State, o.Second.Run.State
	r.shown, r.over = &o.Second.Run, is.Terminal()
	switch {
	case was.Terminal() && was != is:
		j.untrue(r, "it was %s at the first read and %s at the second", was, is)
	case !r.over:
		j.rep.Stuck++
		j.fault(FaultStuck, r.Ref.String(), r.Run, "%s at the last read%s", is, open(r.shown.Steps))
	}
}

// open names steps that have not ended.
func open(steps []check.WorkflowStep) string {
	const most = 5
	text, n := "", 0
	for i := range steps {
		s := &steps[i]
		if s.State.Terminal() || s.State == check.Skipped {
			continue
		}
		if n++; n <= most {
			text += fmt.Sprintf("; step %s %s", s.Name, s.State)
		}
	}
	if n > most {
		text += fmt.Sprintf("; and %d more", n-most)
	}
	return text
}

// judgeStep judges a step of a run, and finds out what becomes of it.
func (j *judge) judgeStep(r *run, i int) {
	n, f := &r.steps[i], &r.fates[i]
	*f = expect(n, r.fates, r.Payload, r.Requested)
	ids := []string{stepID(r.id, i, 0)}
	if n.ForEach != nil {
		items, _ := n.ForEach.items(r.Payload) // newJudge has read it
		ids = ids[:0]
		for k := range items {
			ids = append(ids, stepID(r.id, i, k+1))
		}
	}
	if f.known && !f.runs {
		j.rep.Skipped++
		for _, id := range ids {
			if seen := j.take(id); len(seen) > 0 {
				j.extra(r.Ref.String(), id, "step %s was called %d times, and is not to run", n.Name, len(seen))
			}
		}
		return
	}
	if n.Wait != nil {
		for _, id := range ids {
			if seen := j.take(id); len(seen) > 0 {
				j.extra(r.Ref.String(), id, "step %s was called %d times, and waits", n.Name, len(seen))
			}
		}
		if f.waited(n.Wait); f.known {
			j.rep.Waits++
		}
		return
	}
	j.judgeCalls(r, i, ids)
}

// judgeCalls judges the calls of a step that is to run, or of which that is not known.
func (j *judge) judgeCalls(r *run, i int, ids []string) {
	n, f := &r.steps[i], &r.fates[i]
	start, missed, unended := *f, 0, !f.known
	for _, id := range ids {
		seen := j.take(id)
		if len(seen) == 0 {
			unended = true
			if f.known && r.over && j.h.SeenAll {
				missed++
			}
			continue
		}
		j.rep.StepRuns++
		if n.ForEach != nil {
			j.rep.Items++
		}
		j.judgeEach(r, n, id, seen)
		j.early(r, n, id, seen[0].At, start)
		if from := j.metAt(r, n, start.from); !from.IsZero() {
			j.lateness(r, n, id, seen[0].At.Sub(from))
		}
		c := callsOf(seen)
		verdict := j.verdict(r, i, id, c)
		if verdict == "" {
			unended = true
			continue
		}
		f.add(verdict, c.end(verdict))
	}
	if missed > 0 {
		j.missed(r, "step %s was never called%s", n.Name, ofItems(n, missed, len(ids)))
	}
	switch {
	case unended:
		f.verdict, f.ended = "", time.Time{}
	case len(ids) == 0: // no items: it has ended at once
		f.verdict, f.ended = check.Succeeded, start.from
	}
	if f.verdict == check.Failed {
		j.rep.FailedSteps++
	}
}

func ofItems(n *node, some, all int) string {
	if n.ForEach == nil {
		return ""
	}
	return fmt.Sprintf(", of %d items %d", all, some)
}

// metAt returns from when the lateness of a step counts; zero: it does not, as items wait for one
// another, and as only calls of those before it show exactly when its condition was met. from is when
// that was at the earliest.
func (j *judge) metAt(r *run, n *node, from time.Time) time.Time {
	silent := func(k int) bool { return r.steps[k].Wait != nil || !r.fates[k].runs }
	switch {
	case from.IsZero() || n.ForEach != nil || slices.ContainsFunc(n.before, silent):
		return time.Time{}
	case len(n.before) == 0 && r.Acked.After(from):
		return r.Acked
	}
	return from
}

// take returns the calls of a step's run, which count as explained from now on.
func (j *judge) take(id string) []*check.Sighting {
	seen := j.calls[id]
	delete(j.calls, id)
	return seen
}

// states compares what the API says of a run that has ended, and of its steps, with what became of
// them.
func (j *judge) states(r *run) {
	want := check.Succeeded
	for i := range r.fates {
		switch r.fates[i].verdict {
		case "":
			return // something was missed, or is not known
		case check.Failed:
			want = check.Failed
		}
	}
	if r.shown.State != want {
		j.untrue(r, "it is %s, and what its steps were answered makes it %s", r.shown.State, want)
	}
	if r.shown.State == check.Failed {
		j.rep.DoneFailed++
	}
	if len(r.shown.Steps) != len(r.steps) {
		j.untrue(r, "the API tells of %d steps, the workflow has %d", len(r.shown.Steps), len(r.steps))
		return
	}
	for i := range r.steps {
		f, s := &r.fates[i], &r.shown.Steps[i]
		if state := check.State(f.state()); s.State != state {
			j.untrue(r, "step %s is %s, and what it was answered makes it %s", s.Name, s.State, state)
		}
		if n := &r.steps[i]; n.ForEach != nil && f.runs {
			j.items(r, n, s)
		}
	}
}

// items compares the items that the API counts with those of the payload.
func (j *judge) items(r *run, n *node, s *check.WorkflowStep) {
	items, _ := n.ForEach.items(r.Payload) // newJudge has read it
	total, ended := 0, 0
	if s.Items != nil {
		total, ended = s.Items.Total, s.Items.States[check.Succeeded]+s.Items.States[check.Failed]
	}
	if total != items || ended != items {
		j.untrue(r, "step %s has %d items, of which %d have succeeded or failed; its list has %d", s.Name, total, ended, items)
	}
}

// Each of missed, untrue and extra counts a fault and spells it out.
func (j *judge) missed(r *run, format string, args ...any) {
	j.rep.Missed++
	j.fault(check.FaultMissed, r.Ref.String(), r.Run, format, args...)
}

func (j *judge) untrue(r *run, format string, args ...any) {
	j.rep.Untrue++
	j.fault(FaultUntrue, r.Ref.String(), r.Run, format, args...)
}

func (j *judge) extra(ref, id, format string, args ...any) {
	j.rep.Extra++
	j.fault(FaultExtra, ref, id, format, args...)
}

func (j *judge) fault(kind check.Kind, ref, id, format string, args ...any) {
	if fs := j.faults[kind]; len(fs) < check.MaxFaults {
		j.faults[kind] = append(fs, check.Fault{Kind: kind, Run: id, Job: ref, Reason: fmt.Sprintf(format, args...)})
	}
}
