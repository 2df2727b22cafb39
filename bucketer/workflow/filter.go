package workflow

import (
	"encoding/json"
	"errors"
	"sync"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Filter is a compiled expression over event and input. It is safe for concurrent use.
type Filter struct{ *checked }

// CompileFilter returns the filter of events that text says, or its faults, which have no pointer.
// It is true or false; event is the body of an event, and input the payload of the run that waits,
// null where there is none.
func CompileFilter(text string) (*Filter, []Fault) {
	e, messages := compileExpression(filterEnv(), text, filterCost)
	if len(messages) == 0 {
		return &Filter{e}, nil
	}
	faults := make([]Fault, len(messages))
	for i, m := range messages {
		faults[i].Message = m
	}
	return nil, faults
}

// maxFilters bounds the compiled filters of a FilterCache; beyond it all are forgotten.
const maxFilters = 1000

// FilterCache keeps compiled filters by their text. The zero value is ready to use; its method may be
// called from any goroutine.
type FilterCache struct {
	mu    sync.Mutex
	known map[string]*Filter // nil: the text has faults
}

// Filter returns what CompileFilter does of a text that was checked when it was stated; nil: this
// program finds fault with it.
func (c *FilterCache) Filter(text string) *Filter {
	c.mu.Lock()
	f, ok := c.known[text]
	c.mu.Unlock()
	if ok {
		return f
	}
	f, _ = CompileFilter(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxFilters {
		c.known = make(map[string]*Filter)
	}
	c.known[text] = f
	return f
}

// Match reports whether a filter takes an event. An error says why that cannot be said, such as a
// member that the event lacks: then it is not taken.
func (f *Filter) Match(event, input Value) (bool, error) {
	holds, why := f.evaluate(map[string]any{"event": event.orNull(), "input": input.orNull()})
	if why != "" {
		return false, errors.New(why)
	}
	return holds, nil
}

// Value is a JSON text as expressions see it, taken apart once for many of them. It is never
// changed. The zero value is null.
type Value struct{ v ref.Val }

// ParseValue takes a JSON text apart; no text is null.
func ParseValue(text json.RawMessage) (Value, error) {
	if text = trim(text); len(text) == 0 {
		return Value{}, nil
	}
	if what := jsonFault(text); what != "" {
		return Value{}, errors.New(what)
	}
	return Value{valueOf(text)}, nil
}

func (v Value) orNull() ref.Val {
	if v.v == nil {
		return types.NullValue
	}
	return v.v
}
