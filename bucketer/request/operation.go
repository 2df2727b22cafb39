package request

import (
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/operations"
	"carillon.dev/carillon/schema"
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
		spec.Filter = (&filterReader{d: d, action: spec.Action}).read(filter)
	}
	return spec, d.err()
}

// BackfillRequest is the body of POST /v1/jobs/{id}/backfills.
type BackfillRequest struct {
	From          time.Time `json:"from"`
	To            time.Time `json:"to,omitzero"`              // absent: now
	MaxConcurrent int       `json:"max_concurrent,omitempty"` // absent: 5
	Missing       bool      `json:"missing,omitempty"`        // only times without a run
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
		case "missing":
			if r.Missing = d.is(c, kindTrue); !r.Missing && !d.is(c, kindFalse) {
				d.fault(c, "must be true or false")
			}
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
