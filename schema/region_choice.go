package schema

import (
	"bytes"
	"encoding/json"
)

// RegionChoice says at which home work lies, and which region may run it. The zero value says
// nothing. Its JSON is the name alone, or {"name": …, "require": true}.
type RegionChoice struct {
	// Name is that of the home, which is called after the region that serves it at first; "": where
	// it lies anyway.
	Name string
	// Require: no other region runs it, ever. While another one serves its home, it waits.
	Require bool
}

// regionChoice is the long form of a RegionChoice.
type regionChoice struct {
	Name    string `json:"name,omitempty"`
	Require bool   `json:"require,omitempty"`
}

// MarshalJSON writes the short form where it says all.
func (c RegionChoice) MarshalJSON() ([]byte, error) {
	if !c.Require {
		return json.Marshal(c.Name)
	}
	return json.Marshal(regionChoice(c))
}

// UnmarshalJSON reads both forms.
func (c *RegionChoice) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte(`"`)) {
		*c = RegionChoice{}
		return json.Unmarshal(text, &c.Name)
	}
	var long regionChoice
	if err := json.Unmarshal(text, &long); err != nil {
		return err
	}
	*c = RegionChoice(long)
	return nil
}
