package runs

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/tally"
	"carillon.dev/carillon/schema"
)

// MaxErrorText bounds the text that is looked for in errors, in characters.
const MaxErrorText = 256

// FilterText is a Filter in the words of requests. Lists of runs and operations on runs are asked for
// with it, so both mean the same. Empty fields select all.
type FilterText struct {
	States []string
	Task   string
	Host   string   // as a URL has it
	Labels []string // name=value; all of them
	Late   string   // a duration
	Key    string
	Error  string // part of the last error
	OneOff bool
	// CreatedBy is who made the run's job, or asked for the run.
	CreatedBy string
}

// FilterFault is what is wrong with a field of a FilterText.
type FilterFault struct {
	Field   string // state, task, host, label, late, key or error
	At      int    // which of the states or labels
	Message string // in words that fit behind the field
	Value   any    // what was stated, if that may be said back
}

// Parse returns the filter, and all that is wrong with its words. Which states there are, the caller
// says. The filter asks for a host by name alone: see CallsTo.
func (t *FilterText) Parse() (f Filter, faults []FilterFault) {
	for _, s := range t.States {
		f.States = append(f.States, schema.State(s))
	}
	slices.Sort(f.States) // the same question, however it is put
	f.States = slices.Compact(f.States)
	fault := func(field string, at int, what string, value any) {
		faults = append(faults, FilterFault{Field: field, At: at, Message: what, Value: value})
	}
	if f.Task = t.Task; f.Task != "" {
		if what := bucketer.NameFault(f.Task); what != "" {
			fault("task", 0, what, nil)
		}
	}
	if f.Host = strings.ToLower(t.Host); f.Host != "" && tally.HostOf("http://"+f.Host) != f.Host {
		fault("host", 0, "must be a host as a URL has it, such as api.example.com or api.example.com:8443", t.Host)
	}
	for i, text := range t.Labels {
		name, value, ok := strings.Cut(text, "=")
		if before, twice := f.Labels[name]; !ok || name == "" {
			fault("label", i, "must be a name, '=' and a value", text)
		} else if twice && before != value {
			fault("label", i, "is another value of a label that is asked for before", text)
		}
		if f.Labels == nil {
			f.Labels = make(map[string]string, len(t.Labels))
		}
		f.Labels[name] = value
	}
	if t.Late != "" {
		late, err := time.ParseDuration(t.Late)
		switch {
		case err != nil:
			fault("late", 0, `is not a duration such as "5s"`, t.Late)
		case late < 0:
			fault("late", 0, "must not be negative", t.Late)
		default:
			f.Late = &late
		}
	}
	f.OneOff, f.CreatedBy = t.OneOff, t.CreatedBy
	if f.Error = t.Error; strings.ContainsFunc(f.Error, unicode.IsControl) {
		fault("error", 0, "must be a part of one line, without control characters", nil)
	}
	if f.Key = t.Key; f.Key != "" {
		if what := bucketer.KeyFault(f.Key); what != "" {
			fault("key", 0, what, nil)
		}
	}
	return f, faults
}
