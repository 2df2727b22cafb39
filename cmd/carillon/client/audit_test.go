package client

import (
	"encoding/json"
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer/httpapi"
)

func TestAuditNamesWhatChanged(t *testing.T) {
	for name, c := range map[string]struct{ before, after, want string }{
		"a field, and one that is new": {`{"name":"a","rate":"1/s","updated_at":"x"}`, `{"name":"a","rate":"2/s","labels":{"a":"b"},"updated_at":"y"}`, "labels,rate"},
		"a field that is gone":         {`{"name":"a","rate":"1/s"}`, `{"name":"a"}`, "rate"},
		"it is new":                    {"", `{"name":"a"}`, ""},
		"it is gone":                   {`{"name":"a"}`, "", ""},
		"too long to be kept":          {`"{\"name\":…"`, `{"name":"a"}`, ""},
		"null":                         {`null`, `{"name":"a"}`, ""},
	} {
		row := auditRow(&httpapi.AuditEntry{Before: json.RawMessage(c.before), After: json.RawMessage(c.after)})
		if len(row) != len(auditHead) || row[4] != c.want {
			t.Errorf("%s: the row is %q, want it to say that %q changed", name, strings.Join(row, "|"), c.want)
		}
	}
}
