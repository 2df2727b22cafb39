package request

import (
	"encoding/json"
)

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
