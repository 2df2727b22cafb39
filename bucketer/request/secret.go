package request

import (
	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
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

// SigningRequest is the body of POST /v1/signing-keys.
type SigningRequest struct {
	Name string `json:"name,omitempty"` // absent: "default"
}

// RotateRequest is the body of POST /v1/signing-keys/{name}/rotate.
type RotateRequest struct {
	// Overlap is how long the secret before goes on signing; absent: DefaultOverlap.
	Overlap *schema.Duration `json:"overlap,omitempty"`
}

// Signing reads the body of POST /v1/signing-keys.
func (d *Decoder) Signing(body []byte) (SigningRequest, error) {
	r := SigningRequest{Name: schema.DefaultSigningKey}
	if !d.begin(body) {
		return r, d.err()
	}
	for c := range d.members(0) {
		switch field := d.doc.name(c); string(field) {
		case "name":
			r.Name = d.named(c)
		default:
			d.faultQuietly(c, "is not a field of a signing key")
		}
	}
	return r, d.err()
}

// Rotation reads the body of POST /v1/signing-keys/{name}/rotate, which may be empty. Overlap is
// stated in what it returns.
func (d *Decoder) Rotation(body []byte) (RotateRequest, error) {
	overlap := schema.Duration(admin.DefaultOverlap)
	r := RotateRequest{Overlap: &overlap}
	if len(body) == 0 {
		return r, nil
	}
	if !d.begin(body) {
		return r, d.err()
	}
	for c := range d.members(0) {
		switch field := d.doc.name(c); string(field) {
		case "overlap":
			overlap = d.duration(c, 0, admin.MaxOverlap)
		default:
			d.faultQuietly(c, "is not a field of a rotation")
		}
	}
	return r, d.err()
}
