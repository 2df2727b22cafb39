package auth

import (
	"encoding/json"
	"unicode/utf8"

	"carillon.dev/carillon/schema"
)

// WithField returns a body, which is a JSON object, with the member that shows who calls. An error
// is a Fault.
func WithField(body []byte, a *schema.BodyFieldAuth, v Values) ([]byte, error) {
	value, err := v.newest(a.Secret)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(value) {
		return nil, faultf("the secret %s cannot be sent in a body: it is not UTF-8", a.Secret)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, faultf("the body is no JSON object, so it cannot have the secret %s", a.Secret)
	}
	if members[a.Name], err = json.Marshal(string(value)); err != nil {
		return nil, err // a string always can
	}
	return json.Marshal(members)
}
