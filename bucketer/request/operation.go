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

var (
	jobStates = []string{string(schema.JobActive), string(schema.JobPaused), string(schema.JobCancelled), string(schema.JobFinished)}
	openRuns  = []string{string(schema.StatePending), string(schema.StateRunning), string(schema.StateRetrying)}
	endedRuns = []string{string(schema.StateFailed), string(schema.StateMissed), string(schema.StateCancelled), string(schema.StateSucceeded)}
)

// OperationRequest is the body of POST /v1/operations.
type OperationRequest struct {
	Action string                 `json:"action"`
	Filter schema.OperationFilter `json:"filter"`
	DryRun bool                   `json:"dry_run,omitempty"`
}

// Operation reads the body of POST /v1/operations. A filter without any field selects every job of
// the tenant, so it must be there.
func (d *Decoder) Operation(body []byte) (schema.OperationSpec, error) {
	if !d.begin(body) {
		return schema.OperationSpec{}, d.err()
	}
	var spec schema.OperationSpec
	action, filter := int32(0), int32(0)
	for c := range d.members(0) {
		switch name := d.doc.name(c); string(name) {
		case "action":
			action = c
			spec.Action = d.oneOf(c, operations.Actions)
		case "filter":
			filter = c
		case "dry_run":
			if spec.DryRun = d.is(c, kindTrue); !spec.DryRun && !d.is(c, kindFalse) {
				d.fault(c, "must be true or false")
			}
		default:
			d.faultQuietly(c, "is not a field of an operation")
		}
	}
	d.require(0, action > 0, "action")
	if filter == 0 {
		d.faultAt("body.filter", "is missing: {} selects every job")
	} else {
		spec.Filter = d.operationFilter(filter, spec.Action)
	}
	return spec, d.err()
}

// BackfillRequest is the body of POST /v1/jobs/{id}/backfills.
type BackfillRequest struct {
	From          time.Time `json:"from"`
	To            time.Time `json:"to,omitzero"`              // absent: now
	MaxConcurrent int       `json:"max_concurrent,omitempty"` // absent: 5
}

// Backfill reads the body of POST /v1/jobs/{id}/backfills: a stretch that has passed.
func (d *Decoder) Backfill(body []byte, now time.Time) (operations.Backfill, error) {
	if !d.begin(body) {
		return operations.Backfill{}, d.err()
	}
	r := operations.Backfill{To: now.UTC().Truncate(time.Millisecond), MaxConcurrent: operations.DefaultMaxConcurrent}
	from, to := int32(0), int32(0)
	for c := range d.members(0) {
		switch name := d.doc.name(c); string(name) {
		case "from":
			from, r.From = c, d.instant(c, lastInstant)
		case "to":
			to, r.To = c, d.instant(c, lastInstant)
		case "max_concurrent":
			r.MaxConcurrent = d.integer(c, 1, operations.MaxBackfillRuns)
		default:
			d.faultQuietly(c, "is not a field of a backfill")
		}
	}
	switch reversed := !r.To.After(r.From); {
	case from == 0:
		d.faultAt("body.from", "is missing")
	case to != 0 && r.To.IsZero(), r.From.IsZero(): // they have faults of their own
	case reversed && to == 0:
		d.fault(from, "must have passed: what is to come is the schedule's")
	case reversed:
		d.fault(to, "must be after from")
	}
	if r.To.After(bucketer.CeilMilli(now)) {
		d.fault(to, "must not lie ahead: what is to come is the schedule's")
	}
	return r, d.err()
}

// operationFilter reads what an action is for: with from and to it is for runs.
func (d *Decoder) operationFilter(i int32, action string) schema.OperationFilter {
	var f schema.OperationFilter
	var state, from, to, pattern int32
	var ofJobs, ofRuns []int32
	for c := range d.object(i) {
		switch name := d.doc.name(c); string(name) {
		case "state":
			state, f.State = c, d.string(c)
		case "label":
			ofJobs = append(ofJobs, c)
			if f.Label = d.string(c); d.is(c, kindString) && strings.Index(f.Label, "=") < 1 {
				d.fault(c, "must be a name, '=' and a value")
			}
		case "name_prefix":
			ofJobs = append(ofJobs, c)
			if f.NamePrefix = d.string(c); len(f.NamePrefix) > bucketer.MaxName {
				d.fault(c, "must be at most %d bytes long", bucketer.MaxName)
			}
		case "from":
			from, f.From = c, d.instant(c, lastInstant)
		case "to":
			to, f.To = c, d.instant(c, lastInstant)
		case "task":
			ofRuns = append(ofRuns, c)
			f.Task = d.named(c)
		case "error_pattern":
			pattern = c
			if f.ErrorPattern = d.string(c); f.ErrorPattern == "" && d.is(c, kindString) {
				d.fault(c, "must not be empty: without it any error is selected")
			} else if utf8.RuneCountInString(f.ErrorPattern) > runs.MaxErrorPattern {
				d.fault(c, "must be at most %d characters long", runs.MaxErrorPattern)
			}
		default:
			d.faultQuietly(c, "is not a field of this filter")
		}
	}
	if !d.is(i, kindObject) {
		return f
	}
	letters := action == operations.ActionReplay || action == operations.ActionDiscard
	ofDue := from > 0 || to > 0 || action == operations.ActionRetry || letters
	states := jobStates
	switch {
	case ofDue && action == operations.ActionRetry:
		states = endedRuns
	case ofDue:
		states = openRuns
	}
	for _, c := range ofJobs {
		if ofDue {
			d.faultQuietly(c, "selects jobs, and not runs, which from and to select")
		}
	}
	for _, c := range ofRuns {
		if !ofDue {
			d.faultQuietly(c, "selects runs: state from and to as well")
		}
	}
	if pattern > 0 && !letters {
		d.faultQuietly(pattern, "selects dead letters, which are replayed or discarded")
	}
	if letters && state > 0 {
		d.faultQuietly(state, "selects runs, and not dead letters, all of which wait")
	} else if state > 0 && d.is(state, kindString) && !slices.Contains(states, f.State) {
		d.fault(state, "must be one of %s", strings.Join(states, ", "))
	}
	if ofDue {
		d.operationSpan(i, from, to, &f)
		if action != "" && action != operations.ActionCancel && action != operations.ActionRetry && !letters {
			d.faultAt(d.doc.location(i), "selects runs: they can be cancelled and retried")
		}
		if action == operations.ActionRetry && f.State == "" {
			f.State = string(schema.StateFailed)
		}
	}
	return f
}

// operationSpan checks the due times of runs.
func (d *Decoder) operationSpan(i, from, to int32, f *schema.OperationFilter) {
	switch {
	case from == 0 || to == 0:
		const what = "is missing: runs are selected by due time"
		if from == 0 {
			d.faultAt(d.doc.location(i)+".from", what)
		}
		if to == 0 {
			d.faultAt(d.doc.location(i)+".to", what)
		}
	case f.From.IsZero() || f.To.IsZero(): // they have faults of their own
	case !f.To.After(f.From):
		d.fault(to, "must be after from")
	case f.To.Sub(f.From) > operations.MaxOperationSpan:
		d.fault(to, "must be at most %d days after from", operations.MaxOperationSpan/(24*time.Hour))
	}
}
