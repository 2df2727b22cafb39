package request

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/operations"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// maxLate bounds the text of a span in a filter, in bytes.
const maxLate = 32

var jobStates = []string{string(schema.JobActive), string(schema.JobPaused), string(schema.JobCancelled), string(schema.JobFinished)}

// filterReader reads what the action of an operation is for.
type filterReader struct {
	d      *Decoder
	action string
	f      schema.OperationFilter

	state, states, from, to   int32           // nodes; 0: not stated
	ofJobs, ofRuns, ofLetters []int32         // those that select jobs alone, not jobs, and dead letters alone
	label                     int32           // of jobs or runs
	text                      runs.FilterText // what is stated in words of lists of runs
	nodes                     map[string][]int32
}

// read reads the filter that node i is: with from and to it is for runs, or for dead letters.
func (r *filterReader) read(i int32) schema.OperationFilter {
	d := r.d
	r.nodes = make(map[string][]int32)
	for c := range d.object(i) {
		r.field(c, string(d.doc.name(c)))
	}
	if !d.is(i, kindObject) {
		return r.f
	}
	_, faults := r.text.Parse()
	for _, wrong := range faults {
		d.fault(r.nodes[wrong.Field][wrong.At], "%s", wrong.Message)
	}
	letters := r.action == operations.ActionReplay || r.action == operations.ActionDiscard
	ofDue := r.from > 0 || r.to > 0 || r.action == operations.ActionRetry || letters
	r.checkScope(ofDue, letters)
	r.checkStates(ofDue, letters)
	if ofDue {
		r.checkSpan(i)
		if r.action != "" && r.action != operations.ActionCancel && r.action != operations.ActionRetry && !letters {
			d.faultAt(d.doc.location(i), "selects runs: they can be cancelled and retried")
		}
		if r.action == operations.ActionRetry && r.f.State == "" && len(r.f.States) == 0 {
			r.f.State = string(schema.StateFailed)
		}
	}
	return r.f
}

// field reads a field of the filter.
func (r *filterReader) field(c int32, name string) {
	d, f := r.d, &r.f
	inWords := func(field string, s string) string {
		r.nodes[field] = append(r.nodes[field], c)
		if s == "" && d.is(c, kindString) {
			d.fault(c, "must not be empty")
		}
		return s
	}
	switch name {
	case "state":
		r.state, f.State = c, d.string(c)
	case "label":
		r.label = c
		if f.Label = d.string(c); d.is(c, kindString) {
			r.labelled(c, f.Label)
		}
	case "name_prefix":
		r.ofJobs = append(r.ofJobs, c)
		if f.NamePrefix = d.string(c); len(f.NamePrefix) > bucketer.MaxName {
			d.fault(c, "must be at most %d bytes long", bucketer.MaxName)
		}
		return
	case "from":
		r.from, f.From = c, d.instant(c, lastInstant)
	case "to":
		r.to, f.To = c, d.instant(c, lastInstant)
	case "error_pattern":
		r.ofLetters = append(r.ofLetters, c)
		if f.ErrorPattern = d.string(c); f.ErrorPattern == "" && d.is(c, kindString) {
			d.fault(c, "must not be empty: without it any error is selected")
		} else if utf8.RuneCountInString(f.ErrorPattern) > runs.MaxErrorPattern {
			d.fault(c, "must be at most %d characters long", runs.MaxErrorPattern)
		}
	case "error":
		r.ofLetters = append(r.ofLetters, c)
		f.Error = inWords("error", d.string(c))
		if r.text.Error = f.Error; utf8.RuneCountInString(f.Error) > runs.MaxErrorText {
			d.fault(c, "must be at most %d characters long", runs.MaxErrorText)
		}
	case "states":
		r.states, f.States = c, r.list(c, len(operations.OpenStates), func(int32, string) {})
	case "labels":
		f.Labels = r.list(c, maxLabels, r.labelled)
	case "task":
		f.Task = inWords("task", d.string(c))
		r.text.Task = f.Task
	case "host":
		f.Host = inWords("host", d.string(c))
		r.text.Host = f.Host
	case "late":
		f.Late = inWords("late", d.string(c))
		if r.text.Late = f.Late; len(f.Late) > maxLate {
			r.text.Late = ""
			d.fault(c, "must be at most %d bytes long", maxLate)
		}
	case "key":
		f.Key = inWords("key", d.string(c))
		r.text.Key = f.Key
	case "job":
		if f.Job = inWords("job", d.string(c)); f.Job != "" {
			if what := JobFault(f.Job); what != "" {
				d.fault(c, "%s", what)
			}
		}
	default:
		d.faultQuietly(c, "is not a field of this filter")
	}
	switch name {
	case "states", "labels", "task", "host", "late", "key", "job":
		r.ofRuns = append(r.ofRuns, c)
	}
}

// JobFault says what is wrong with a text that is to be the id or the name of a job, or "".
func JobFault(text string) string {
	if _, err := schema.ParseJobID(text); err == nil || bucketer.NameFault(text) == "" {
		return ""
	}
	return "is neither an id nor a name of a job"
}

// alsoOfLetters are the fields of runs that select dead letters as well.
var alsoOfLetters = []string{"task", "job", "labels"}

// labelled notes that runs are asked for by a label.
func (r *filterReader) labelled(c int32, label string) {
	r.text.Labels, r.nodes["label"] = append(r.text.Labels, label), append(r.nodes["label"], c)
}

// list returns the strings of the array that node i is, at most so many and at least one, and tells
// each of them.
func (r *filterReader) list(i int32, most int, each func(c int32, s string)) (list []string) {
	d := r.d
	if !d.is(i, kindArray) {
		d.fault(i, "must be an array of strings")
		return nil
	}
	for c := range d.allMembers(i) {
		if len(list) == most {
			d.faultQuietly(i, "must be at most %d", most)
			return list
		}
		s := d.string(c)
		if d.is(c, kindString) {
			each(c, s)
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		d.faultQuietly(i, "must not be empty: without it any is selected")
	}
	return list
}

// checkScope finds fault with fields that select something else than the action is for.
func (r *filterReader) checkScope(ofDue, letters bool) {
	d := r.d
	for _, c := range r.ofJobs {
		if ofDue {
			d.faultQuietly(c, "selects jobs, and not runs, which from and to select")
		}
	}
	for _, c := range r.ofRuns {
		switch {
		case !ofDue:
			d.faultQuietly(c, "selects runs: state from and to as well")
		case letters && !slices.Contains(alsoOfLetters, string(d.doc.name(c))):
			d.faultQuietly(c, "selects runs, and not dead letters")
		}
	}
	for _, c := range r.ofLetters {
		if !letters {
			d.faultQuietly(c, "selects dead letters, which are replayed or discarded")
		}
	}
}

// checkStates finds fault with the states that are asked for.
func (r *filterReader) checkStates(ofDue, letters bool) {
	d := r.d
	states := jobStates
	switch {
	case ofDue && r.action == operations.ActionRetry:
		states = operations.EndedStates
	case ofDue:
		states = operations.OpenStates
	}
	switch {
	case letters && r.state > 0:
		d.faultQuietly(r.state, "selects runs, and not dead letters, all of which wait")
	case letters || !ofDue && r.states > 0: // checkScope says so
	case r.state > 0 && r.states > 0:
		d.faultQuietly(r.states, "cannot be stated beside state")
	case r.state > 0 && d.is(r.state, kindString) && !slices.Contains(states, r.f.State):
		d.fault(r.state, "must be one of %s", strings.Join(states, ", "))
	case r.states > 0 && d.is(r.states, kindArray):
		for c := range d.allMembers(r.states) {
			if d.is(c, kindString) && !slices.Contains(states, string(d.doc.stringOf(c))) {
				d.fault(c, "must be one of %s", strings.Join(states, ", "))
			}
		}
	}
}

// checkSpan checks the due times of runs in the filter that node i is.
func (r *filterReader) checkSpan(i int32) {
	d, f := r.d, &r.f
	switch {
	case r.from == 0 || r.to == 0:
		const what = "is missing: runs are selected by due time"
		if r.from == 0 {
			d.faultAt(d.doc.location(i)+".from", what)
		}
		if r.to == 0 {
			d.faultAt(d.doc.location(i)+".to", what)
		}
	case f.From.IsZero() || f.To.IsZero(): // they have faults of their own
	case !f.To.After(f.From):
		d.fault(r.to, "must be after from")
	case f.To.Sub(f.From) > operations.MaxOperationSpan:
		d.fault(r.to, "must be at most %d days after from", operations.MaxOperationSpan/(24*time.Hour))
	}
}
