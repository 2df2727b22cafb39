package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

// Bounds of what Compile looks at and says.
const (
	maxFaults      = 200       // what is found beyond them is only said to exist
	maxExpressions = 128 << 10 // bytes of all different expressions of a definition
	maxName        = 63        // characters
)

// Fault is one thing that is wrong with a definition.
type Fault struct {
	Pointer string // where, as a JSON pointer (RFC 6901) into the definition: "/steps/3/after/0"
	Message string // what is wrong, in words that fit behind the pointer
	Value   any    // what was stated, if it is short and cannot be a secret
}

// compiler gathers what is wrong with a definition.
type compiler struct {
	d           *Definition
	g           *Graph
	order       order
	faults      []located
	expressions int // bytes of those in conditions and filters
	conditions  map[string]*condition
	filters     map[string]*Filter
}

// located is a fault of a step, or of the whole for -1.
type located struct {
	step  int
	fault Fault
}

// Compile returns the graph of a definition, or everything that is wrong with it, in the order of
// the steps. What inline work says (URLs, subjects, time-outs) is not looked at: package request
// does that. The graph keeps d: it must not be changed any more.
func Compile(d *Definition) (*Graph, []Fault) {
	if n := len(d.Steps); n == 0 || n > MaxSteps {
		return nil, []Fault{{Pointer: "/steps", Message: fmt.Sprintf("must be 1 to %d, not %d", MaxSteps, n)}}
	}
	c := compiler{
		d: d, g: &Graph{steps: d.Steps, deadline: d.Deadline, plans: make([]plan, len(d.Steps)), index: make(map[string]int, len(d.Steps))},
		conditions: make(map[string]*condition), filters: make(map[string]*Filter),
	}
	c.deadline(-1, "/deadline", d.Deadline)
	c.names()
	c.edges()
	for i := range d.Steps {
		c.step(i)
	}
	if len(c.faults) > 0 {
		return nil, c.sorted()
	}
	c.g.finish(c.order)
	return c.g, nil
}

func (c *compiler) note(step int, at, message string, value any) {
	if len(c.faults) <= maxFaults {
		c.faults = append(c.faults, located{step, Fault{Pointer: at, Message: message, Value: value}})
	}
}

// at returns the pointer of a field of a step.
func at(step int, field string) string {
	if field == "" {
		return fmt.Sprintf("/steps/%d", step)
	}
	return fmt.Sprintf("/steps/%d/%s", step, field)
}

// sorted returns the faults in the order of the steps, at most maxFaults of them.
func (c *compiler) sorted() []Fault {
	more := len(c.faults) > maxFaults
	c.faults = c.faults[:min(len(c.faults), maxFaults)]
	slices.SortStableFunc(c.faults, func(a, b located) int { return a.step - b.step })
	out := make([]Fault, 0, len(c.faults)+1)
	for _, f := range c.faults {
		out = append(out, f.fault)
	}
	if more {
		out = append(out, Fault{Message: "has more faults than are listed here"})
	}
	return out
}

// names gives each name its step.
func (c *compiler) names() {
	for i := range c.d.Steps {
		name := c.d.Steps[i].Name
		if c.name(i, "name", name); name == "" {
			continue
		}
		if _, ok := c.g.index[name]; ok {
			c.note(i, at(i, "name"), "is the name of an earlier step, too", short(name))
			continue
		}
		c.g.index[name] = i
	}
}

// name checks a name.
func (c *compiler) name(step int, field, name string) {
	if name == "" {
		c.note(step, at(step, field), "is missing", nil)
	} else if what := nameFault(name); what != "" {
		c.note(step, at(step, field), what, short(name))
	}
}

// nameFault says what is wrong with a name, or "". It is the rule of all names (API.md).
func nameFault(name string) string {
	ok := len(name) <= maxName
	for i := 0; ok && i < len(name); i++ {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			ok = false
		}
	}
	switch {
	case !ok || name == "":
		return "must be 1 to 63 characters of a-z, 0-9, '.', '_' and '-', and start with a letter or a digit"
	case isUUID(name):
		return "must not be a UUID: those are ids"
	}
	return ""
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return false
			}
		} else if !strings.ContainsRune("0123456789abcdef", rune(s[i])) {
			return false
		}
	}
	return true
}

// edges finds the steps before each, and sorts the graph.
func (c *compiler) edges() {
	after := make([][]int32, len(c.d.Steps))
	seen := make([]int, len(c.d.Steps)) // by which step it was seen last, plus 1
	for i := range c.d.Steps {
		s := &c.d.Steps[i]
		after[i] = make([]int32, 0, len(s.After))
		for k, name := range s.After {
			j, ok := c.g.index[name]
			switch {
			case !ok:
				c.note(i, at(i, fmt.Sprintf("after/%d", k)), "is not the name of a step", short(name))
			case seen[j] == i+1:
				c.note(i, at(i, fmt.Sprintf("after/%d", k)), "is there twice", short(name))
			default:
				seen[j] = i + 1
				after[i] = append(after[i], int32(j)) // #nosec G115 -- at most MaxSteps
			}
		}
		switch {
		case !slices.Contains(Whens, s.When.Or()):
			c.note(i, at(i, "when"), "must be one of "+joined(Whens), short(string(s.When)))
		case s.When != "" && len(s.After) == 0:
			c.note(i, at(i, "when"), "goes with after alone", string(s.When))
		}
	}
	c.order = sortSteps(after)
	for _, path := range c.order.cycles {
		first, last := path[0], path[len(path)-1]
		names := make([]string, len(path))
		for k, i := range path {
			names[k] = c.d.Steps[i].Name
		}
		k := slices.Index(c.d.Steps[first].After, c.d.Steps[last].Name)
		c.note(int(first), at(int(first), fmt.Sprintf("after/%d", k)), "closes a cycle: "+cyclePath(names), nil)
	}
	for _, i := range c.order.unreachable {
		c.note(int(i), at(int(i), "after"), "can never be: it comes after a cycle", nil)
	}
}

func joined[T ~string](words []T) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(w))
	}
	return b.String()
}

// step checks what a step says by itself, and what it refers to.
func (c *compiler) step(i int) {
	s := &c.d.Steps[i]
	p := &c.g.plans[i]
	c.work(i, s)
	c.deadline(i, at(i, "deadline"), s.Deadline)
	if s.Priority != "" && !slices.Contains(schema.Priorities, s.Priority) {
		c.note(i, at(i, "priority"), "must be one of "+joined(schema.Priorities), short(string(s.Priority)))
	}
	if s.If != "" {
		p.condition = c.condition(i, s.If)
	}
	if s.ForEach != nil {
		c.forEach(i, s.ForEach, p)
	}
	allowed := []refKind{refFrom, refInput, refRun}
	if s.ForEach != nil {
		allowed = append(allowed, refItem, refIndex)
	}
	r := templateReader{allowed: allowed, step: c.finder(i), fault: func(at, message string, value any) { c.note(i, at, message, value) }}
	p.payload = r.read(s.Payload, at(i, "payload"))
}

// kindsOfStep are the kinds of work that a step may have.
const kindsOfStep = "task, http, nats, script, lambda, jetstream, sqs, sns, eventbridge, step_functions, kafka, wait and workflow"

// work checks that a step has one kind of work.
func (c *compiler) work(i int, s *Step) {
	kinds := 0
	count := func(stated bool) {
		if stated {
			kinds++
		}
	}
	count(s.Task != "")
	count(s.Workflow != "")
	count(s.Wait != nil)
	if w := s.Work; w != nil {
		before := kinds
		count(w.HTTP != nil)
		count(w.NATS != nil)
		count(w.Script != nil)
		count(w.Lambda != nil)
		for _, stated := range []bool{w.JetStream != nil, w.SQS != nil, w.SNS != nil, w.EventBridge != nil, w.StepFunctions != nil, w.Kafka != nil} {
			count(stated)
		}
		if kinds == before && before > 0 {
			c.limits(i, s)
		}
	}
	if kinds != 1 {
		c.note(i, at(i, ""), "must have exactly one of "+kindsOfStep, nil)
	}
	if s.Task != "" {
		c.name(i, "task", s.Task)
	}
	if s.Workflow != "" {
		c.name(i, "workflow", s.Workflow)
	}
	if s.Wait != nil {
		c.wait(i, s)
	}
}

// limits notes what is stated of an attempt where there is no inline work.
func (c *compiler) limits(i int, s *Step) {
	message := "goes with http, nats and script alone"
	if s.Task != "" {
		message = "belongs to the task: it cannot be stated beside one"
	}
	for _, f := range []struct {
		name   string
		stated bool
	}{{"timeout", s.Work.Timeout != 0}, {"retry", s.Work.Retry != nil}, {"guarantee", s.Work.Guarantee != ""}, {"requires", s.Work.Requires != nil}, {"preemptible", s.Work.Preemptible}} {
		if f.stated {
			c.note(i, at(i, f.name), message, nil)
		}
	}
}

func (c *compiler) wait(i int, s *Step) {
	w := s.Wait
	kinds := 0
	for _, stated := range []bool{w.For != 0, w.Until != "", w.Event != ""} {
		if stated {
			kinds++
		}
	}
	if kinds != 1 {
		c.note(i, at(i, "wait"), "must have exactly one of for, until and event", nil)
	}
	c.deadline(i, at(i, "wait/for"), w.For)
	if w.Until != "" {
		if _, err := time.Parse(time.RFC3339, w.Until); err != nil {
			c.note(i, at(i, "wait/until"), `must be an RFC 3339 time with an offset, such as "2026-11-21T09:30:00Z"`, short(w.Until))
		}
	}
	if w.Event != "" {
		c.name(i, "wait/event", w.Event)
		if schema.IsSystemEvent(w.Event) && !slices.Contains(schema.SystemEvents, w.Event) {
			c.note(i, at(i, "wait/event"), "is no event of the system: those are "+strings.Join(schema.SystemEvents, ", "), short(w.Event))
		}
	}
	if w.Filter != "" {
		if w.Event == "" {
			c.note(i, at(i, "wait/filter"), "goes with event alone", nil)
		}
		c.g.plans[i].filter = c.filter(i, w.Filter)
	}
	if w.Deadline != 0 && w.Event == "" {
		c.note(i, at(i, "wait/deadline"), "goes with event alone", nil)
	}
	c.deadline(i, at(i, "wait/deadline"), w.Deadline)
	if s.ForEach != nil {
		c.note(i, at(i, "for_each"), "does not go with wait", nil)
	}
	if len(s.Payload) > 0 {
		c.note(i, at(i, "payload"), "does not go with wait, which hands nothing to anybody", nil)
	}
}

func (c *compiler) deadline(step int, at string, d schema.Duration) {
	if d < 0 || d.Std() > MaxDeadline {
		c.note(step, at, fmt.Sprintf("must be more than 0s and at most %s", schema.Duration(MaxDeadline)), d.String())
	}
}

func (c *compiler) forEach(i int, f *ForEach, p *plan) {
	kinds := 0
	for _, stated := range []bool{f.From != "", f.Input != nil, f.Items != nil} {
		if stated {
			kinds++
		}
	}
	if kinds != 1 {
		c.note(i, at(i, "for_each"), "must have exactly one of from, input and items", nil)
	}
	list := func(field, text string) {
		to, what := parsePointer(text)
		if what != "" {
			c.note(i, at(i, field), what, short(text))
		}
		p.list.at = to
	}
	if f.From != "" {
		step, what := c.finder(i)(f.From)
		if what != "" {
			c.note(i, at(i, "for_each/from"), what, short(f.From))
		}
		p.list = reference{kind: refFrom, step: step}
		list("for_each/pointer", f.Pointer)
	} else if f.Pointer != "" {
		c.note(i, at(i, "for_each/pointer"), "goes with from alone", short(f.Pointer))
	}
	if f.Input != nil {
		p.list.kind = refInput
		list("for_each/input", *f.Input)
	}
	if n := len(f.Items); n > MaxItems {
		c.note(i, at(i, "for_each/items"), fmt.Sprintf("must be at most %d, not %d", MaxItems, n), nil)
	}
	for k, item := range f.Items[:min(len(f.Items), MaxItems)] {
		if what := jsonFault(item); what != "" {
			c.note(i, at(i, fmt.Sprintf("for_each/items/%d", k)), what, nil)
		}
	}
	if f.MaxConcurrent < 0 {
		c.note(i, at(i, "for_each/max_concurrent"), "must not be negative", f.MaxConcurrent)
	}
}

// finder returns what finds the steps to which step i may refer.
func (c *compiler) finder(i int) func(name string) (int, string) {
	return func(name string) (int, string) {
		j, ok := c.g.index[name]
		switch {
		case !ok:
			return 0, "is not the name of a step"
		case !slices.Contains(c.order.sorted, int32(i)): // #nosec G115 -- which before which nobody knows
			return j, ""
		case !c.order.runsBefore(j, i):
			return 0, fmt.Sprintf("does not run before step %q", short(c.d.Steps[i].Name))
		}
		return j, ""
	}
}

// condition returns the if of a step. Steps with the same one share it.
func (c *compiler) condition(i int, text string) *condition {
	known, ok := c.conditions[text]
	if ok {
		for name := range known.steps { // they must run before this step, too
			if _, what := c.finder(i)(name); what != "" {
				c.note(i, at(i, "if"), fmt.Sprintf("refers to step %q, which %s", short(name), what), nil)
			}
		}
		return known
	}
	if !c.room(i, "if", text) {
		return nil
	}
	e, faults := compileCondition(text, c.finder(i))
	for _, f := range faults {
		c.note(i, at(i, "if"), f, nil)
	}
	if len(faults) == 0 {
		c.conditions[text] = e
	}
	return e
}

// filter returns the filter of a wait. Steps with the same one share it.
func (c *compiler) filter(i int, text string) *Filter {
	if f, ok := c.filters[text]; ok {
		return f
	}
	if !c.room(i, "wait/filter", text) {
		return nil
	}
	f, faults := CompileFilter(text)
	for _, fault := range faults {
		c.note(i, at(i, "wait/filter"), fault.Message, nil)
	}
	if len(faults) == 0 {
		c.filters[text] = f
	}
	return f
}

// room reports whether one more expression may be compiled, which takes 0.1 ms and more.
func (c *compiler) room(i int, field, text string) bool {
	if len(text) > maxExpression {
		c.note(i, at(i, field), fmt.Sprintf("must be at most %d bytes long", maxExpression), nil)
		return false
	}
	if c.expressions += len(text); c.expressions > maxExpressions {
		c.note(i, at(i, field), fmt.Sprintf("is too much: all expressions together must be at most %d bytes", maxExpressions), nil)
		return false
	}
	return true
}

// compactItems returns items without their white space.
func compactItems(items []json.RawMessage) []json.RawMessage {
	out := make([]json.RawMessage, len(items))
	for i, item := range items {
		out[i] = appendCompact(nil, trim(item))
	}
	return out
}
