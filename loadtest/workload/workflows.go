package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/check/workflows"
	"carillon.dev/carillon/schema"
)

// Workflows describes workflows and the requests to run them. The same Workflows makes the same ones.
//
// Step n (from 1) of workflow w calls "<target>/<manner>/w/n". Of a graph of 10 to 50 steps some come
// after the step before them, some join up to three, a few come after none. Their conditions are of
// every kind. Some wait for up to 3 s, fail the first time, fail for good, have an if, or a run for
// each of up to three items.
type Workflows struct {
	// Graphs is how many workflows are drawn. One more has a step with Items items.
	Graphs, Items int
	// Runs is how many requests there are. The first of each fanOutOf is of the workflow with items.
	Runs int
	Seed uint64
	// Target is the base URL of the sink.
	Target string
}

const (
	// FanOut names the workflow with many items.
	FanOut = "fan-out"
	// fanOutOf: one of so many runs is of FanOut.
	fanOutOf = 100
	// fanOutAtOnce bounds the items of a run that are under way at once, so that many nodes start some.
	fanOutAtOnce = 250
	// leastSteps and mostSteps bound a drawn graph.
	leastSteps, mostSteps = 10, 50
	// mostFew is how many items a drawn step has at most.
	mostFew = 3
	// stepTimeout bounds a call of a step.
	stepTimeout = "10s"
)

// Validate reports every fault of w.
func (w Workflows) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if w.Graphs < 1 || w.Runs < 1 {
		bad("graphs is %d and runs %d, want at least 1", w.Graphs, w.Runs)
	}
	if w.Items < 1 || w.Items > schema.MaxItems {
		bad("items is %d, want 1 to %d", w.Items, schema.MaxItems)
	}
	addressed(FanOut, w.Target, bad)
	return errors.Join(errs...)
}

// All returns the workflows, that with many items first.
func (w Workflows) All() ([]workflows.Workflow, error) {
	if err := w.Validate(); err != nil {
		return nil, fmt.Errorf("make workflows: %w", err)
	}
	all := []workflows.Workflow{w.fanOut()}
	for n := range w.Graphs {
		all = append(all, w.draw(n+1))
	}
	return all, nil
}

// Trigger returns the workflow of request n, from 1, and the payload of its run.
func (w Workflows) Trigger(n int) (workflow string, payload json.RawMessage) {
	rng := rand.New(rand.NewPCG(w.Seed, uint64(n)<<1|1)) // #nosec G404 G115 -- a repeatable choice
	input := struct {
		N     int   `json:"n"`
		Few   []int `json:"few"`
		Items []int `json:"items,omitempty"`
	}{N: n, Few: count(rng.IntN(mostFew + 1))}
	workflow = drawnName(1 + rng.IntN(max(w.Graphs, 1)))
	if n%fanOutOf == 1 {
		workflow, input.Items = FanOut, count(w.Items)
	}
	payload, err := json.Marshal(input)
	if err != nil { // numbers always marshal
		panic(err)
	}
	return workflow, payload
}

// count returns 1 to n.
func count(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

func drawnName(n int) string { return fmt.Sprintf("workflow-%02d", n) }

// patient is how calls of steps are tried again that fail at first, or whose executor dies.
var patient = &workflows.Retry{MaxAttempts: 6, Initial: "200ms", Max: "2s"}

// hopeless is the same for those that always fail.
var hopeless = &workflows.Retry{MaxAttempts: 3, Initial: "200ms", Max: "1s"}

// call has a step call the sink, which answers in a manner.
func (w Workflows) call(s *workflows.Step, workflow string, n int, manner string, retry *workflows.Retry) {
	if manner != "" {
		manner += "/"
	}
	s.HTTP = &workflows.Target{URL: fmt.Sprintf("%s/%s%s/%d", w.Target, manner, workflow, n)}
	s.Timeout, s.Retry = stepTimeout, retry
}

// fanOut is the workflow with many items: a step before them, and two after.
func (w Workflows) fanOut() workflows.Workflow {
	steps := []workflows.Step{
		{Name: "s1"},
		{
			Name: "s2", After: []string{"s1"}, ForEach: &workflows.ForEach{Input: "/items", MaxConcurrent: fanOutAtOnce},
			Payload: json.RawMessage(`{"item":{"$item":""}}`),
		},
		{Name: "s3", After: []string{"s2"}},
		{Name: "s4", After: []string{"s2"}, When: "any_failed"},
	}
	for i := range steps {
		w.call(&steps[i], FanOut, i+1, "", patient)
	}
	return workflows.Workflow{Name: FanOut, Definition: workflows.Definition{Steps: steps}}
}

// draw draws workflow n.
func (w Workflows) draw(n int) workflows.Workflow {
	rng := rand.New(rand.NewPCG(w.Seed, uint64(n)<<1)) // #nosec G404 G115 -- a repeatable choice
	out := workflows.Workflow{Name: drawnName(n)}
	for i := range leastSteps + rng.IntN(mostSteps-leastSteps+1) {
		s := workflows.Step{Name: stepName(i)}
		w.drawPlace(&s, i, rng)
		w.drawWork(&s, out.Name, i, rng)
		out.Definition.Steps = append(out.Definition.Steps, s)
	}
	return out
}

func stepName(i int) string { return fmt.Sprintf("s%d", i+1) }

// drawPlace draws what a step comes after, and its condition.
func (w Workflows) drawPlace(s *workflows.Step, i int, rng *rand.Rand) {
	const near = 8 // a join is of steps so near before it
	switch kind := rng.IntN(20); {
	case i == 0 || kind == 0:
		return // it comes after none
	case kind < 11:
		s.After = []string{stepName(i - 1)}
	default:
		for _, k := range rng.Perm(min(i, near))[:min(i, 2+rng.IntN(2))] {
			s.After = append(s.After, stepName(i-1-k))
		}
	}
	s.When = []string{"", "", "", "", "", "all_done", "all_done", "always", "any_succeeded", "any_failed"}[rng.IntN(10)]
	switch kind := rng.IntN(20); {
	case kind < 2:
		s.If = fmt.Sprintf("input.n %% %d == %d", 2+rng.IntN(2), rng.IntN(2))
	case kind == 2 && (s.When == "all_done" || s.When == "always"): // all before it have ended then
		s.If = fmt.Sprintf("steps.%s.state == %q", s.After[0], []string{"succeeded", "failed", "skipped"}[rng.IntN(3)])
	}
}

// drawWork draws what a step does.
func (w Workflows) drawWork(s *workflows.Step, workflow string, i int, rng *rand.Rand) {
	manner, retry := "", patient
	switch kind := rng.IntN(80); {
	case kind < 6:
		s.Wait = &workflows.Wait{For: check.Span(time.Duration(500+rng.IntN(2500)) * time.Millisecond)}
		return
	case kind < 10:
		s.ForEach = &workflows.ForEach{Input: "/few"}
		s.Payload = json.RawMessage(`{"item":{"$item":""}}`)
	case kind < 20:
		manner = "fail-1"
	case kind < 32:
		manner = fmt.Sprintf("work-%dms", 50+rng.IntN(450))
	case kind == 32:
		manner = "status-404" // it is refused for good
	case kind == 33:
		manner, retry = "fail", hopeless
	}
	w.call(s, workflow, i+1, manner, retry)
}
