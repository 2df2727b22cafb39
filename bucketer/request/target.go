package request

// TargetRequest is the body of POST /v1/targets/reset.
type TargetRequest struct {
	Target string `json:"target"`
}

// maxTarget is the longest name of a target, in bytes: more than a URL's scheme, host and port, or
// a subject, can have.
const maxTarget = 1024

// Target reads the body of POST /v1/targets/reset.
func (d *Decoder) Target(body []byte) (TargetRequest, error) {
	var r TargetRequest
	if !d.begin(body) {
		return r, d.err()
	}
	named := false
	for c := range d.members(0) {
		switch field := d.doc.name(c); string(field) {
		case "target":
			named = true
			if r.Target = d.string(c); d.is(c, kindString) && (r.Target == "" || len(r.Target) > maxTarget) {
				d.fault(c, "must be 1 to %d bytes long", maxTarget)
			}
		default:
			d.faultQuietly(c, "is not a field of this request")
		}
	}
	d.require(0, named, "target")
	return r, d.err()
}
