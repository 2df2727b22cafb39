package request

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	icsHead = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//y//EN\r\n"
	icsTail = "END:VCALENDAR\r\n"
)

// event returns an event of an iCalendar with those lines.
func event(lines ...string) string {
	return "BEGIN:VEVENT\r\nUID:u\r\nDTSTAMP:20260101T000000Z\r\n" + strings.Join(lines, "\r\n") + "\r\nEND:VEVENT\r\n"
}

func icalendar(t *testing.T, text string) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{"icalendar": text})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestDecodeCalendar(t *testing.T) {
	var many []string
	for i := range 501 {
		many = append(many, fmt.Sprintf("%q", fmt.Sprintf("%d-01-01", 1970+i%430)))
	}
	christmas := event("SUMMARY:Christmas", "DTSTART;VALUE=DATE:20261225", "DTEND;VALUE=DATE:20261227")
	for name, row := range map[string]struct {
		name, body string
		want       []string // dates
		faults     []string
	}{
		"dates":              {"h", `{"dates":["2026-12-26","2026-12-25","2026-12-26"],"description":"x"}`, []string{"2026-12-25", "2026-12-26"}, nil},
		"no dates":           {"h", `{"dates":[]}`, nil, nil},
		"an iCalendar":       {"h", icalendar(t, icsHead+christmas+event("DTSTART;VALUE=DATE:20270101", "SUMMARY:New Year")+event("STATUS:CANCELLED", "DTSTART:20260101T000000Z")+icsTail), []string{"2026-12-25", "2026-12-26", "2027-01-01"}, nil},
		"nothing":            {"h", `{}`, nil, []string{"body must have exactly one of dates and icalendar"}},
		"both":               {"h", `{"dates":[],"icalendar":"x"}`, nil, []string{"body.icalendar is no iCalendar", "body must have exactly one of"}},
		"a bad name":         {"H!", `{"dates":[],"x":1}`, nil, []string{"path.name must be", "body.x is not a field of a calendar"}},
		"bad dates":          {"h", `{"dates":["2026-02-29",7]}`, nil, []string{"body.dates[0] must be a date", "body.dates[1] must be a string"}},
		"too many dates":     {"h", `{"dates":[` + strings.Join(many, ",") + `]}`, nil, []string{"body.dates must be at most 500 dates"}},
		"no text":            {"h", `{"icalendar":5}`, nil, []string{"body.icalendar must be the text of an iCalendar"}},
		"no calendar":        {"h", icalendar(t, "hello"), nil, []string{"body.icalendar is no iCalendar"}},
		"an empty calendar":  {"h", icalendar(t, icsHead+icsTail), nil, []string{"body.icalendar has no events"}},
		"a time of day":      {"h", icalendar(t, icsHead+event("SUMMARY:lunch", "DTSTART:20261225T120000Z", "DTEND:20261225T130000Z")+icsTail), nil, []string{`body.icalendar event 1 ("lunch") is no all-day event`}},
		"one that repeats":   {"h", icalendar(t, icsHead+christmas+event("DTSTART;VALUE=DATE:20270101", "RRULE:FREQ=YEARLY")+icsTail), nil, []string{"body.icalendar event 2 repeats (RRULE)"}},
		"an end before":      {"h", icalendar(t, icsHead+event("DTSTART;VALUE=DATE:20270101", "DTEND;VALUE=DATE:20270101")+icsTail), nil, []string{"body.icalendar event 1 ends before it starts"}},
		"a century":          {"h", icalendar(t, icsHead+event("DTSTART;VALUE=DATE:20270101", "DTEND;VALUE=DATE:21270101")+icsTail), nil, []string{"body.icalendar event 1 lasts longer than 500 days"}},
		"no start":           {"h", icalendar(t, icsHead+event("SUMMARY:x")+icsTail), nil, []string{"body.icalendar event 1"}},
		"every one is wrong": {"h", icalendar(t, icsHead+strings.Repeat(event("DTSTART:20261225T120000Z"), 20)+icsTail), nil, slicesRepeat("body.icalendar event", 10, "body.icalendar has more events that are wrong")},
		"no object":          {"h", `[]`, nil, []string{"body must be an object"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := new(Decoder).Calendar("acme", row.name, []byte(row.body))
			if row.faults != nil {
				checkFaults(t, err, row.faults)
				return
			}
			if diff := cmp.Diff(row.want, got.Dates); err != nil || diff != "" || got.Tenant != "acme" || got.Name != row.name {
				t.Errorf("Calendar(%s) = %+v, %v (-want +got):\n%s", row.body, got, err, diff)
			}
		})
	}
}

func slicesRepeat(s string, n int, last string) (all []string) {
	for range n {
		all = append(all, s)
	}
	return append(all, last)
}
