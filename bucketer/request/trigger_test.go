package request

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer"
)

func TestDecodeTrigger(t *testing.T) {
	for name, row := range map[string]struct {
		body, payload string
		faults        []string // locations
	}{
		"no body":          {"", "", nil},
		"nothing":          {"{}", "", nil},
		"null":             {`{"payload":null}`, "", nil},
		"a payload":        {`{"payload":{"a":[1]}}`, `{"a":[1]}`, nil},
		"an empty text":    {`{"payload":""}`, `""`, nil},
		"no object":        {`[]`, "", []string{"body"}},
		"an unknown field": {`{"payload":1,"x":1}`, "", []string{"body.x"}},
		"twice":            {`{"payload":1,"payload":2}`, "", []string{"body.payload"}},
		"too large":        {`{"payload":"` + strings.Repeat("a", 64<<10) + `"}`, "", []string{"body.payload"}},
	} {
		t.Run(name, func(t *testing.T) {
			var d Decoder
			payload, err := d.Trigger([]byte(row.body))
			if string(payload) != row.payload {
				t.Errorf("Trigger = %s, want %s", payload, row.payload)
			}
			var faults bucketer.Faults
			var got []string
			if errors.As(err, &faults) {
				for _, f := range faults {
					got = append(got, f.Location)
				}
			} else if err != nil {
				t.Errorf("Trigger = %v, want faults or none", err)
			}
			if !slices.Equal(got, row.faults) {
				t.Errorf("Trigger finds fault at %q, want at %q", got, row.faults)
			}
		})
	}
	var d Decoder
	var syntax *NotJSONError
	if _, err := d.Trigger([]byte("{")); !errors.As(err, &syntax) {
		t.Errorf("Trigger of what is not JSON = %v", err)
	}
}
