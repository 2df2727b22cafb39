package workflow_test

import (
	"encoding/json"
	"fmt"

	"carillon.dev/carillon/bucketer/workflow"
)

// A run of two steps, of which the second has an item for each file that the first found.
func Example() {
	d, err := workflow.Decode([]byte(`{"steps": [
	  {"name": "find", "task": "find-files"},
	  {"name": "load", "after": ["find"], "task": "load-file",
	   "for_each": {"from": "find", "pointer": "/files", "max_concurrent": 2},
	   "payload": {"file": {"$item": ""}, "day": {"$input": "/day"}}}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	g, faults := workflow.Compile(d)
	if len(faults) > 0 {
		fmt.Println(faults)
		return
	}
	in := workflow.Input{
		Payload: json.RawMessage(`{"day": "friday"}`),
		Output:  func(int) (json.RawMessage, error) { return json.RawMessage(`{"files": ["a", "b", "c"]}`), nil },
	}
	p := workflow.NewProgress(g)
	var runs []int // of load, under way
	for done := false; !done; {
		for _, a := range p.Next() {
			switch a.Kind {
			case workflow.PrepareStep:
				step, err := g.Prepare(a.Step, in)
				if err != nil {
					fmt.Println(err)
					return
				}
				for _, payload := range step.Items {
					fmt.Printf("a run of %s, payload %q\n", g.Step(a.Step).Name, payload)
				}
				p.Start(a.Step, len(step.Items))
			case workflow.LaunchItems:
				fmt.Printf("%s may run items %d to %d\n", g.Step(a.Step).Name, a.From, a.To-1)
				for i := a.From; i < a.To; i++ {
					runs = append(runs, i)
				}
				p.Launch(a.Step, a.To)
				if a.Step == 0 {
					p.End(0, 0, workflow.Succeeded)
					runs = nil
				}
			case workflow.EndRun:
				fmt.Println("the run has", a.Verdict)
				done = true
			}
		}
		if len(runs) > 0 {
			p.End(1, runs[0], workflow.Succeeded)
			runs = runs[1:]
		}
	}
	// Output:
	// a run of find, payload ""
	// find may run items 0 to 0
	// a run of load, payload "{\"file\":\"a\",\"day\":\"friday\"}"
	// a run of load, payload "{\"file\":\"b\",\"day\":\"friday\"}"
	// a run of load, payload "{\"file\":\"c\",\"day\":\"friday\"}"
	// load may run items 0 to 1
	// load may run items 2 to 2
	// the run has succeeded
}

// A definition has all of its faults told at once.
func ExampleCompile() {
	d, err := workflow.Decode([]byte(`{"steps": [
	  {"name": "a", "after": ["b"], "task": "t"},
	  {"name": "b", "after": ["a", "c"], "task": "t", "if": "size(input)"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, faults := workflow.Compile(d)
	for _, f := range faults {
		fmt.Println(f.Pointer, f.Message)
	}
	// Output:
	// /steps/0/after/0 closes a cycle: a → b → a
	// /steps/1/after/1 is not the name of a step
	// /steps/1/if must be true or false, not of type int
}
