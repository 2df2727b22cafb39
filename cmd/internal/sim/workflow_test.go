package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// Steps of workflows call addresses of stepSource. A callee of refusedSource refuses for good.
const (
	stepSource    = "step"
	refusedSource = "refused"
	// stepTook is how long a call of a step takes at most.
	stepTook = 2 * time.Second
	// workflowCancelGrace is how long after the acknowledgement of a cancel a step may start: as any
	// run, and until its owner has heard of it.
	workflowCancelGrace = 30 * time.Second
)

// simWorkflow is a workflow that was asked for, and what was asked of it.
type simWorkflow struct {
	name string
	def  workflow.Definition
	id   schema.JobID
	runs []*simRun
	// limit bounds the runs that may be under way at once; nil: nothing does.
	limit *schema.Concurrency
}

// simRun is an acknowledged run of a workflow.
type simRun struct {
	id        schema.RunID
	n         int       // of its payload
	cancelled time.Time // when its cancel was acknowledged; zero: it was not asked for
	asked     bool      // a cancel was asked for

	from, until time.Time // as the receiver saw it under way; zero: it did not
}

// drawDefinition draws a graph: of a few steps, each after up to three before it.
func drawDefinition(rng *rand.Rand) workflow.Definition {
	var d workflow.Definition
	whens := []workflow.When{"", "", "", "", "", workflow.AllDone, workflow.AnySucceeded, workflow.AnyFailed, workflow.Always}
	for i := range 2 + rng.IntN(9) {
		s := workflow.Step{Name: fmt.Sprintf("s%d", i)}
		for range rng.IntN(4) {
			if i == 0 {
				break
			}
			name := fmt.Sprintf("s%d", rng.IntN(i))
			known := false
			for _, a := range s.After {
				known = known || a == name
			}
			if !known {
				s.After = append(s.After, name)
			}
		}
		if len(s.After) > 0 {
			s.When = whens[rng.IntN(len(whens))]
		}
		source := stepSource
		if rng.IntN(8) == 0 {
			source = refusedSource
		}
		switch rng.IntN(8) {
		case 0:
			s.Wait = &workflow.Wait{For: schema.Duration(time.Duration(1+rng.IntN(8)) * time.Second)}
		case 1:
			s.ForEach = &workflow.ForEach{Input: new(string), MaxConcurrent: rng.IntN(3)}
			*s.ForEach.Input = "/files"
			s.Payload = json.RawMessage(`{"file": {"$item": ""}}`)
		case 2:
			s.If = "input.n % 2 == 0"
		}
		if s.Wait == nil {
			s.Work = &schema.Work{
				HTTP:    &schema.HTTPTarget{URL: fmt.Sprintf("http://sink/%s/%d", source, i+1)},
				Timeout: schema.Duration(15 * time.Second),
				Retry:   &schema.Retry{MaxAttempts: 4 + rng.IntN(3), Initial: schema.Duration(500 * time.Millisecond), Factor: 2, Max: schema.Duration(8 * time.Second)},
			}
		}
		d.Steps = append(d.Steps, s)
	}
	return d
}

// askWorkflows makes workflows, triggers runs of them, and cancels some.
func (w *world) askWorkflows(ctx context.Context, wg *sync.WaitGroup) {
	for i := range w.s.Workflows {
		rng := rand.New(rand.NewPCG(w.s.Seed, uint64(100+i))) // #nosec G404 -- drawn from the seed
		f := &simWorkflow{name: fmt.Sprintf("workflow-%d", i), def: drawDefinition(rng)}
		if w.s.WorkflowLimits {
			f.limit = &schema.Concurrency{Limit: 1 + i%2, OnLimit: []string{schema.OnLimitQueue, schema.OnLimitQueue, schema.OnLimitSkip}[i%3]}
		}
		w.workflows = append(w.workflows, f)
		wg.Go(func() { w.askWorkflow(ctx, f, rng) })
	}
}

func (w *world) askWorkflow(ctx context.Context, f *simWorkflow, rng *rand.Rand) {
	time.Sleep(time.Duration(rng.Float64() * float64(w.s.Span) / 3))
	stored, err := orchestration.NewJobWorkflow(&f.def)
	if err != nil {
		w.c.fault("workflow %s: %v", f.name, err)
		return
	}
	if err := w.retry(func(b *engine.Engine) error {
		job, _, err := b.PutJob(ctx, "default", f.name, 0, schema.JobSpec{Workflow: stored, Concurrency: f.limit})
		f.id = job.ID
		return err
	}); err != nil {
		return
	}
	for n := range 1 + rng.IntN(4) {
		r := &simRun{n: n}
		payload := json.RawMessage(fmt.Sprintf(`{"n":%d,"files":[%s]}`, n, []string{"", "1", "1,2", "1,2,3,4,5"}[rng.IntN(4)]))
		key := fmt.Sprintf("%s-%d", f.name, n)
		if !w.trigger(ctx, f, r, payload, key) {
			continue
		}
		w.mu.Lock()
		f.runs = append(f.runs, r)
		w.mu.Unlock()
		if rng.IntN(5) == 0 && w.s.Changes {
			r.asked = true
			wait := time.Duration(rng.Float64() * float64(15*time.Second))
			time.Sleep(wait)
			_ = w.retry(func(b *engine.Engine) error {
				_, err := b.Cancel(ctx, "default", r.id, "sim")
				if err == nil {
					r.cancelled = time.Now()
				}
				if errors.Is(err, bucketer.ErrFinished) {
					return nil
				}
				return err
			})
		}
		time.Sleep(time.Duration(rng.Float64() * float64(w.s.Span) / 6))
	}
}

// trigger asks for a run until it has an answer: one that was not answered may have made the run,
// which then runs, and nobody could judge it. It reports whether there was one.
func (w *world) trigger(ctx context.Context, f *simWorkflow, r *simRun, payload json.RawMessage, key string) bool {
	for range 20 {
		if err := w.retry(func(b *engine.Engine) error {
			receipt, err := b.TriggerJob(ctx, "default", f.id, payload, key, key)
			r.id = receipt.Run
			return err
		}); err == nil {
			return true
		}
	}
	return false
}

// calls are what the receiver saw of one run of a step.
type calls struct {
	sightings []check.Sighting
	succeeded time.Time // the earliest end of a call that it answered with success
	refused   time.Time // the earliest end of a call that it refused for good
	last      time.Time // the latest end
}

// ended returns the earliest instant at which the run may have ended.
func (c *calls) ended() time.Time {
	end := c.succeeded
	if end.IsZero() || !c.refused.IsZero() && c.refused.Before(end) {
		end = c.refused
	}
	if end.IsZero() {
		end = c.last
	}
	return end
}

// judgeWorkflows judges the runs of workflows, by what the receiver saw of their steps and how the
// API says that the steps' runs ended. It has its own reading of the definition.
func (w *world) judgeWorkflows(ctx context.Context, b *engine.Engine, seen []check.Sighting) error {
	byRun := make(map[string]*calls)
	for _, s := range seen {
		c := byRun[s.Run]
		if c == nil {
			c = new(calls)
			byRun[s.Run] = c
		}
		c.sightings = append(c.sightings, s)
		if s.Status == 200 && (c.succeeded.IsZero() || s.End.Before(c.succeeded)) {
			c.succeeded = s.End
		}
		if s.Status == 400 && (c.refused.IsZero() || s.End.Before(c.refused)) {
			c.refused = s.End
		}
		end := s.End
		if !s.Gone.IsZero() { // its caller did not wait for the answer
			end = s.Gone
		}
		if end.After(c.last) {
			c.last = end
		}
	}
	for _, f := range w.workflows {
		for _, r := range f.runs {
			if err := w.judgeWorkflow(ctx, b, f, r, byRun); err != nil {
				return err
			}
		}
		w.judgeWorkflowLimit(f)
	}
	for id, c := range byRun {
		w.c.fault("%d calls of a step's run %s that no definition allows", len(c.sightings), id)
	}
	return nil
}

// judgedStep is what the judge makes of a step.
type judgedStep struct {
	verdict      string // succeeded, failed, cancelled; "" unknown
	ran          bool
	from, until  time.Time // the first call, the last end of a call that counts; zero: unknown
	firstSuccess time.Time
}

// judgeWorkflow judges one run. It takes the calls that belong to it out of byRun.
func (w *world) judgeWorkflow(ctx context.Context, b *engine.Engine, f *simWorkflow, r *simRun, byRun map[string]*calls) error {
	run, err := b.Run(ctx, "default", r.id)
	if err != nil {
		return fmt.Errorf("workflow run %s: %w", r.id, err)
	}
	fault := func(format string, args ...any) {
		text, _ := workflow.Encode(&f.def)
		w.c.fault("run %s of %s (n %d, payload %s, %s, cancelled %v): %s; the workflow: %s", r.id, f.name, r.n, run.Entry.Payload, run.State, !r.cancelled.IsZero(), fmt.Sprintf(format, args...), text)
	}
	if !run.State.Terminal() {
		fault("it is %s in the end, attempts %+v", run.State, run.Attempts)
	}
	if f.limit != nil && f.limit.OnLimit == schema.OnLimitSkip && run.State == schema.StateMissed {
		return w.judgeSkipped(ctx, b, fault, f, r)
	}
	items := filesOf(&run.Entry)
	steps := make([]judgedStep, len(f.def.Steps))
	index := make(map[string]int)
	for i := range f.def.Steps {
		index[f.def.Steps[i].Name] = i
	}
	for i := range f.def.Steps {
		s := &f.def.Steps[i]
		var before []*judgedStep
		for _, name := range s.After {
			before = append(before, &steps[index[name]])
		}
		expected, skipped := expect(s, before)
		ids := []schema.RunID{schema.MakeStepID(r.id, i, 0)}
		if s.ForEach != nil {
			ids = nil
			for k := range items {
				ids = append(ids, schema.MakeStepID(r.id, i, k+1))
			}
		}
		j := &steps[i]
		switch {
		case !expected:
			j.verdict = skipped
		case s.If != "" && r.n%2 != 0:
			j.verdict = "succeeded"
		default:
			j.ran = true
		}
		for _, id := range ids {
			c := byRun[id.String()]
			delete(byRun, id.String())
			if c != nil {
				w.judgeCalls(fault, s, j, before, c, r)
				r.sawUnderWay(c)
			}
			if !j.ran {
				continue
			}
			of, err := b.Run(ctx, "default", id)
			switch {
			case errors.Is(err, schema.ErrNotFound):
				if !r.asked {
					fault("step %s has no run, and is to run", s.Name)
				}
				worse(j, "cancelled")
				continue
			case err != nil:
				return err
			}
			w.judgeEnd(fault, s, j, c, of.State, r)
		}
		if j.ran && len(ids) == 0 {
			j.verdict = "succeeded"
		}
	}
	want := "succeeded"
	for i := range steps {
		if v := steps[i].verdict; v == "failed" || v == "cancelled" && want != "failed" {
			want = v
		}
	}
	switch {
	case r.asked: // it may have ended before
		if !r.cancelled.IsZero() && run.State != schema.StateCancelled && string(run.State) != want {
			fault("it is %s after its cancel", run.State)
		}
	case string(run.State) != want:
		fault("it is %s, and its steps say %s: %+v", run.State, want, steps)
	}
	return nil
}

// sawUnderWay notes that the receiver saw a step of the run. A call counts until the step may have
// ended: another call of it may come later.
func (r *simRun) sawUnderWay(c *calls) {
	for _, saw := range c.sightings {
		if r.from.IsZero() || saw.At.Before(r.from) {
			r.from = saw.At
		}
	}
	if end := c.ended(); end.After(r.until) {
		r.until = end
	}
}

// judgeWorkflowLimit judges that no more runs of a workflow were under way at once than may be. Those
// that were to be cancelled are left out: a callee may work on when its run has ended.
func (w *world) judgeWorkflowLimit(f *simWorkflow) {
	if f.limit == nil {
		return
	}
	for _, r := range f.runs {
		n := 0
		for _, other := range f.runs {
			if !r.from.IsZero() && !other.from.IsZero() && !other.asked && !other.from.After(r.from) && other.until.After(r.from) {
				n++
			}
		}
		if n > f.limit.Limit {
			w.c.fault("%d runs of %s were under way at %s, of at most %d", n, f.name, r.from.Format(clockTime), f.limit.Limit)
		}
	}
}

// judgeSkipped judges a run that was skipped since as many were under way as may be: some were, when
// it was due.
func (w *world) judgeSkipped(ctx context.Context, b *engine.Engine, fault func(string, ...any), f *simWorkflow, r *simRun) error {
	under := 0
	for _, other := range f.runs {
		if other == r {
			continue
		}
		run, err := b.Run(ctx, "default", other.id)
		if err != nil {
			return fmt.Errorf("workflow run %s: %w", other.id, err)
		}
		for i := range run.Attempts {
			if rec := run.Attempts[i].Record; rec != nil && run.Attempts[i].Number > 0 && !rec.Finished.Before(r.id.Time().Add(-time.Second)) {
				under++
				break
			}
		}
	}
	if under < f.limit.Limit {
		fault("it was skipped, and at most %d runs were under way, of %d that may be", under, f.limit.Limit)
	}
	return nil
}

// filesOf returns how many items a run's payload has, as a slice to range over.
func filesOf(e *schema.Entry) []json.RawMessage {
	var payload struct{ Files []json.RawMessage }
	_ = json.Unmarshal(e.Payload, &payload) // the simulation made it
	return payload.Files
}

// expect says by its own reading whether a step is to run, after what became of those before it; if
// not, what it counts as.
func expect(s *workflow.Step, before []*judgedStep) (runs bool, skipped string) {
	n := map[string]int{}
	for _, b := range before {
		n[b.verdict]++
	}
	worst := "succeeded"
	if n["cancelled"] > 0 {
		worst = "cancelled"
	}
	if n["failed"] > 0 {
		worst = "failed"
	}
	switch s.When {
	case workflow.AllDone, workflow.Always:
		return true, ""
	case workflow.AnySucceeded:
		return n["succeeded"] > 0, worst
	case workflow.AnyFailed:
		return n["failed"] > 0, worst
	}
	return worst == "succeeded", worst
}

// judgeCalls judges when a step was called.
func (w *world) judgeCalls(fault func(string, ...any), s *workflow.Step, j *judgedStep, before []*judgedStep, c *calls, r *simRun) {
	if !j.ran && !r.asked {
		fault("step %s was called %d times, and is not to run", s.Name, len(c.sightings))
		return
	}
	for _, saw := range c.sightings {
		if j.from.IsZero() || saw.At.Before(j.from) {
			j.from = saw.At
		}
		if !r.cancelled.IsZero() && s.When != workflow.Always && saw.Attempt == 1 && saw.At.After(r.cancelled.Add(workflowCancelGrace)) {
			fault("step %s was called %v after the cancel", s.Name, saw.At.Sub(r.cancelled))
		}
	}
	if end := c.ended(); end.After(j.until) {
		j.until = end
	}
	if !c.succeeded.IsZero() && (j.firstSuccess.IsZero() || c.succeeded.Before(j.firstSuccess)) {
		j.firstSuccess = c.succeeded
	}
	if r.asked {
		return
	}
	// None of these conditions is met before the first of those before it has ended; the others
	// wait for all.
	var first, last time.Time
	for _, b := range before {
		if b.until.IsZero() {
			continue
		}
		if first.IsZero() || b.until.Before(first) {
			first = b.until
		}
		if b.until.After(last) {
			last = b.until
		}
	}
	bound := last
	if s.When == workflow.AnySucceeded || s.When == workflow.AnyFailed {
		bound = first
		for _, b := range before {
			if b.until.IsZero() { // it was skipped, or waited: nobody saw when
				return
			}
		}
	}
	if j.from.Before(bound) {
		fault("step %s was called %v before those before it had ended", s.Name, bound.Sub(j.from))
	}
}

// judgeEnd judges how the run of a step ended, by what the receiver answered.
func (w *world) judgeEnd(fault func(string, ...any), s *workflow.Step, j *judgedStep, c *calls, state schema.State, r *simRun) {
	called, succeeded := c != nil, c != nil && !c.succeeded.IsZero()
	switch state {
	case schema.StateSucceeded:
		if s.Wait == nil && !succeeded {
			fault("step %s has succeeded, and its callee never said so", s.Name)
		}
		worse(j, "succeeded")
	case schema.StateFailed:
		if !called {
			fault("step %s has failed, and was never called", s.Name)
		}
		worse(j, "failed")
	case schema.StateCancelled, schema.StateSkipped:
		if !r.asked {
			fault("step %s is %s, and nobody asked for that", s.Name, state)
		}
		worse(j, "cancelled")
	default:
		fault("step %s is %s in the end", s.Name, state)
		worse(j, "failed")
	}
}

// worse has the verdict of a step be v, if that is worse than what it is.
func worse(j *judgedStep, v string) {
	rank := map[string]int{"": 0, "succeeded": 1, "cancelled": 2, "failed": 3}
	if rank[v] > rank[j.verdict] {
		j.verdict = v
	}
}
