package request

// SessionRequest is the body of POST /v1/session.
type SessionRequest struct {
	Key string `json:"key"` // an API key
}

// maxSessionKey bounds the key of a log-in, bytes: keys are shorter.
const maxSessionKey = 256

// Session reads the body of POST /v1/session by a decoder and returns the key. No fault says any of
// the body back.
func Session(d *Decoder, body []byte) (key string, err error) {
	if !d.begin(body) {
		d.faults = withoutValues(d.faults)
		return "", d.err()
	}
	d.faults = withoutValues(d.faults)
	stated := false
	for c := range d.members(0) {
		switch field := d.doc.name(c); string(field) {
		case "key":
			stated = true
			if !d.is(c, kindString) {
				d.faultQuietly(c, "must be a string")
				continue
			}
			if key = string(d.doc.stringOf(c)); key == "" || len(key) > maxSessionKey {
				d.faultQuietly(c, "must be 1 to %d bytes long", maxSessionKey)
			}
		default:
			d.faultQuietly(c, "is not a field of a log-in")
		}
	}
	d.require(0, stated, "key")
	if err := d.err(); err != nil {
		return "", err
	}
	return key, nil
}
