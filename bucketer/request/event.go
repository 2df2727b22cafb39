package request

import (
	"encoding/json"
	"slices"
	"strings"

	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

// ReadEvent reads the body of POST /v1/events/{name}: any JSON. A fault of the name is located at
// path.name. Names of events of the system are refused.
func ReadEvent(d *Decoder, name string, body []byte) (json.RawMessage, error) {
	if !parseAny(&d.fields, body) {
		return nil, d.err()
	}
	d.faults = append(pathFaults("path.name", name), d.faults...)
	if len(d.faults) == 0 && schema.IsSystemEvent(name) {
		d.faultAt("path.name", "is that of an event of the system: only Carillon publishes those")
	}
	text := d.payload(0)
	if err := d.err(); err != nil {
		return nil, err
	}
	return text, nil
}

// event reads what says which events start a run.
func (r *jobReader) event(i int32) *schema.EventTrigger {
	d, on, stated := r.d, new(schema.EventTrigger), false
	for c := range d.object(i) {
		switch name := d.doc.name(c); string(name) {
		case "event":
			stated = true
			on.Event = d.named(c)
			if schema.IsSystemEvent(on.Event) && !slices.Contains(schema.SystemEvents, on.Event) {
				d.fault(c, "is no event of the system: those are %s", strings.Join(schema.SystemEvents, ", "))
			}
		case "filter":
			if on.Filter = r.notEmpty(c); on.Filter == "" {
				continue
			}
			_, faults := workflow.CompileFilter(on.Filter)
			for _, f := range faults {
				d.faultQuietly(c, "%s", f.Message)
			}
		case "delay":
			on.Delay = d.duration(c, 0, workflow.MaxDeadline)
		default:
			d.faultQuietly(c, "is not a field of on")
		}
	}
	d.require(i, stated, "event")
	return on
}

// notEmpty returns the string that node i is.
func (r *jobReader) notEmpty(i int32) string {
	return r.d.checked(i, func(s string) string {
		if s == "" {
			return "must not be empty"
		}
		return ""
	})
}

// onlyOne checks that a job is started in one of those ways, which are by its schedule, by events or by
// other jobs.
func (r *jobReader) onlyOne(ways string) {
	n := 0
	for _, node := range []int32{r.when.node, r.onNode, r.afterNode} {
		if node > 0 {
			n++
		}
	}
	if n > 1 {
		r.d.faultAt("body", "must have only one of %s", ways)
	}
}

// TriggerRequest is the body of POST /v1/workflows/{name}/trigger.
type TriggerRequest struct {
	Payload json.RawMessage `json:"payload,omitempty"` // absent: the workflow's
}

// Trigger reads the body of a request to run a workflow now. It returns the payload of the run, nil
// if none is stated. A request may have no body.
func (d *Decoder) Trigger(body []byte) (payload json.RawMessage, err error) {
	if len(body) == 0 {
		body = []byte("{}")
	}
	if !d.begin(body) {
		return nil, d.err()
	}
	for c := range d.members(0) {
		switch name := d.doc.name(c); string(name) {
		case "payload":
			payload = d.payload(c)
		default:
			d.faultQuietly(c, "is not a field of this request")
		}
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return payload, nil
}
