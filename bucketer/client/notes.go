package client

import (
	"bytes"
	"encoding/json"
	"time"
)

// notes gather what is wrong with something that is being built. What is checked here is only what
// would not reach the API as it was said: a value that is left out of JSON when it is zero, and one
// that is no JSON. The API checks everything else.
type notes struct{ faults Faults }

func (n *notes) fault(location, message string) {
	n.faults = append(n.faults, Fault{Location: location, Message: message})
}

// take takes over what is wrong with a part, which stands at prefix.
func (n *notes) take(prefix string, part *notes) {
	for _, f := range part.faults {
		f.Location = prefix + f.Location
		n.faults = append(n.faults, f)
	}
}

// span returns a duration that must be more than 0.
func (n *notes) span(location string, d time.Duration) Duration {
	if d <= 0 {
		n.fault(location, "must be more than 0s")
	}
	return Duration(d)
}

// number returns a number that must be more than 0.
func (n *notes) number(location string, i int) int {
	if i <= 0 {
		n.fault(location, "must be more than 0")
	}
	return i
}

// text returns a text that must not be empty.
func (n *notes) text(location, s string) string {
	if s == "" {
		n.fault(location, "must not be empty")
	}
	return s
}

// instant returns an instant that must not be the zero one.
func (n *notes) instant(location string, t time.Time) time.Time {
	if t.IsZero() {
		n.fault(location, "must not be the zero time")
	}
	return t
}

// json returns the JSON of a value.
func (n *notes) json(location string, v any) json.RawMessage {
	text, err := encode(v)
	if err != nil {
		n.fault(location, "cannot be encoded as JSON: "+err.Error())
		return nil
	}
	return text
}

// err returns the faults, located in the body of a request; nil if there are none.
func (n *notes) err() error {
	if len(n.faults) == 0 {
		return nil
	}
	var all notes
	all.take("body.", n)
	return all.faults
}

// encode returns the JSON of a value as it is: payloads are bounded in bytes, and the escapes of
// json.Marshal take six for each "<".
func encode(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
