package workflow

import (
	"encoding/json"
	"slices"

	"carillon.dev/carillon/schema"
)

// Graph is a definition that was compiled. It never changes, and is safe for concurrent use.
type Graph struct {
	steps    []Step
	deadline schema.Duration
	index    map[string]int
	plans    []plan
	after    [][]int32 // the steps directly before each, in the order of its after
	before   [][]int32 // the steps directly after each, in their order
	sorted   []int32   // all steps, each after those before it
}

// plan is what a step has become.
type plan struct {
	condition *condition        // nil: none
	filter    *Filter           // of a wait; nil: none
	list      reference         // of for_each
	items     []json.RawMessage // of for_each, stated
	payload   *template         // nil: none
	needs     []int
}

// finish takes over what was found out of a definition without a fault.
func (g *Graph) finish(o order) {
	g.after, g.before, g.sorted = o.after, o.before, o.sorted
	for i := range g.plans {
		p := &g.plans[i]
		var needs []int
		if p.condition != nil {
			needs = append(needs, p.condition.outputs...)
		}
		if p.list.kind == refFrom {
			needs = append(needs, p.list.step)
		}
		if f := g.steps[i].ForEach; f != nil && f.Items != nil {
			p.items = compactItems(f.Items)
		}
		if p.payload != nil {
			for _, part := range p.payload.parts {
				if part.ref.kind == refFrom {
					needs = append(needs, part.ref.step)
				}
			}
		}
		slices.Sort(needs)
		p.needs = slices.Compact(needs)
	}
}

// Len returns the number of steps.
func (g *Graph) Len() int { return len(g.steps) }

// Deadline is how long a run may take; 0: as long as it takes.
func (g *Graph) Deadline() schema.Duration { return g.deadline }

// Step returns step i. Do not modify it.
func (g *Graph) Step(i int) *Step { return &g.steps[i] }

// Index returns the step of that name.
func (g *Graph) Index(name string) (int, bool) {
	i, ok := g.index[name]
	return i, ok
}

// After returns the steps directly before step i, in the order of its after. Do not modify it.
func (g *Graph) After(i int) []int32 { return g.after[i] }

// Before returns the steps directly after step i, in their order. Do not modify it.
func (g *Graph) Before(i int) []int32 { return g.before[i] }

// Needs returns the steps whose outputs Prepare(i) may read, in their order. Do not modify it.
func (g *Graph) Needs(i int) []int { return g.plans[i].needs }

// Filter returns the filter of a step that waits for an event, nil if it has none.
func (g *Graph) Filter(i int) *Filter { return g.plans[i].filter }
