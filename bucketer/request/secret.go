package request

import (
	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// SecretRequest is the body of PUT /v1/secrets/{name}.
type SecretRequest struct {
	Value string `json:"value"`
}

// Secret reads the body of PUT /v1/secrets/{name} and returns the value. No fault says any of the
// body back. A fault of the name is located at path.name.
func (d *Decoder) Secret(name string, body []byte) ([]byte, error) {
	if !d.begin(body) {
		d.faults = withoutValues(d.faults)
		return nil, d.err()
	}
	d.faults = append(withoutValues(d.faults), pathFaults("path.name", name)...)
	var value []byte
	stated := false
	for c := range d.members(0) {
		switch field := d.doc.name(c); string(field) {
		case "value":
			stated = true
			if !d.is(c, kindString) {
				d.faultQuietly(c, "must be a string")
				continue
			}
			// a copy: the document is read into again
			if value = append(value, d.doc.stringOf(c)...); len(value) < schema.MinSecretValue || len(value) > schema.MaxSecretValue {
				d.faultQuietly(c, "must be %d to %d bytes long", schema.MinSecretValue, schema.MaxSecretValue)
			}
		default:
			d.faultQuietly(c, "is not a field of a secret")
		}
	}
	d.require(0, stated, "value")
	if err := d.err(); err != nil {
		return nil, err
	}
	return value, nil
}

// withoutValues returns faults that say no value back.
func withoutValues(faults bucketer.Faults) bucketer.Faults {
	for i := range faults {
		faults[i].Value = nil
	}
	return faults
}
