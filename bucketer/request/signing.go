package request

import (
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

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
