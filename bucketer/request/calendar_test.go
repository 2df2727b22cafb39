package request

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	ics "github.com/arran4/golang-ical"
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
		"one of each year":   {"h", icalendar(t, icsHead+christmas+event("DTSTART;VALUE=DATE:20290101", "RRULE:FREQ=YEARLY")+icsTail), []string{"2026-12-25", "2026-12-26", "2029-01-01", "2030-01-01", "2031-01-01"}, nil},
		"one of each week":   {"h", icalendar(t, icsHead+christmas+event("DTSTART;VALUE=DATE:20270101", "RRULE:FREQ=WEEKLY")+icsTail), nil, []string{"body.icalendar event 2 repeats (FREQ=WEEKLY): only FREQ=YEARLY"}},
		"an end before":      {"h", icalendar(t, icsHead+event("DTSTART;VALUE=DATE:20270101", "DTEND;VALUE=DATE:20270101")+icsTail), nil, []string{"body.icalendar event 1 ends before it starts"}},
		"a century":          {"h", icalendar(t, icsHead+event("DTSTART;VALUE=DATE:20270101", "DTEND;VALUE=DATE:21270101")+icsTail), nil, []string{"body.icalendar event 1 lasts longer than 500 days"}},
		"no start":           {"h", icalendar(t, icsHead+event("SUMMARY:x")+icsTail), nil, []string{"body.icalendar event 1"}},
		"every one is wrong": {"h", icalendar(t, icsHead+strings.Repeat(event("DTSTART:20261225T120000Z"), 20)+icsTail), nil, slicesRepeat("body.icalendar event", 10, "body.icalendar has more events that are wrong")},
		"an alarm":           {"h", icalendar(t, icsHead+event("DTSTART;VALUE=DATE:20261225", "BEGIN:VALARM", "ACTION:DISPLAY", "END:VALARM")+icsTail), []string{"2026-12-25"}, nil},
		"too deep":           {"h", icalendar(t, icsHead+strings.Repeat("BEGIN:VEVENT\r\n", 70_000)), nil, []string{"body.icalendar has components within components, more than 5 deep"}},
		"too deep, folded":   {"h", icalendar(t, icsHead+strings.Repeat("BEG\r\n IN;X=1:VEVENT\r\n", 40_000)), nil, []string{"body.icalendar has components within components, more than 5 deep"}},
		"no object":          {"h", `[]`, nil, []string{"body must be an object"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := new(Decoder).Calendar("acme", row.name, []byte(row.body), testNow)
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

// fromTo returns a month and day of each year.
func fromTo(first, last int, day string) (all []string) {
	for year := first; year <= last; year++ {
		all = append(all, fmt.Sprintf("%d-%s", year, day))
	}
	return all
}

// It is 2026: of a rule the dates of 2025 to 2031 are kept.
func TestEventsThatRepeat(t *testing.T) {
	start := func(day string) string { return "DTSTART;VALUE=DATE:" + day }
	for name, row := range map[string]struct {
		events string
		want   []string
		fault  string
	}{
		"each year":                      {event(start("19701225"), "RRULE:FREQ=YEARLY"), fromTo(2025, 2031, "12-25"), ""},
		"of a month and day":             {event(start("20200101"), "RRULE:FREQ=YEARLY;BYMONTH=1;BYMONTHDAY=1"), fromTo(2025, 2031, "01-01"), ""},
		"in small letters":               {event(start("20200101"), "RRULE:freq=yearly;bymonth=1;"), fromTo(2025, 2031, "01-01"), ""},
		"two days":                       {event(start("20281225"), "DTEND;VALUE=DATE:20281227", "RRULE:FREQ=YEARLY;COUNT=2"), []string{"2028-12-25", "2028-12-26", "2029-12-25", "2029-12-26"}, ""},
		"the fourth Thursday":            {event(start("20191128"), "RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH"), []string{"2025-11-27", "2026-11-26", "2027-11-25", "2028-11-23", "2029-11-22", "2030-11-28", "2031-11-27"}, ""},
		"the last Monday":                {event(start("20250526"), "RRULE:FREQ=YEARLY;UNTIL=20270531;BYMONTH=5;BYDAY=-1MO"), []string{"2025-05-26", "2026-05-25", "2027-05-31"}, ""},
		"the last Monday by position":    {event(start("20250526"), "RRULE:FREQ=YEARLY;UNTIL=20270530T235959Z;BYMONTH=5;BYDAY=MO;BYSETPOS=-1"), []string{"2025-05-26", "2026-05-25"}, ""},
		"a Tuesday of some dates":        {event(start("20241105"), "RRULE:FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8"), []string{"2028-11-07"}, ""},
		"a day of the year":              {event(start("20240409"), "RRULE:FREQ=YEARLY;BYYEARDAY=100;COUNT=3"), []string{"2025-04-10", "2026-04-10"}, ""},
		"the last Monday of the year":    {event(start("20261228"), "RRULE:FREQ=YEARLY;BYDAY=-1MO;COUNT=1"), []string{"2026-12-28"}, ""},
		"leap days":                      {event(start("20000229"), "RRULE:FREQ=YEARLY"), []string{"2028-02-29"}, ""},
		"every third year":               {event(start("20000101"), "RRULE:FREQ=YEARLY;INTERVAL=3"), []string{"2027-01-01", "2030-01-01"}, ""},
		"a count":                        {event(start("20000101"), "RRULE:FREQ=YEARLY;INTERVAL=3;COUNT=10"), []string{"2027-01-01"}, ""},
		"over long ago":                  {event(start("20000101"), "RRULE:FREQ=YEARLY;UNTIL=20091231") + event(start("20260606")), []string{"2026-06-06"}, ""},
		"not yet":                        {event(start("20400101"), "RRULE:FREQ=YEARLY") + event(start("20260606")), []string{"2026-06-06"}, ""},
		"a huge interval":                {event(start("20260101"), "RRULE:FREQ=YEARLY;INTERVAL=9223372036854775807"), []string{"2026-01-01"}, ""},
		"a huge count":                   {event(start("20260101"), "RRULE:FREQ=YEARLY;COUNT=9223372036854775807"), fromTo(2026, 2031, "01-01"), ""},
		"more dates":                     {event(start("20260101"), "RDATE;VALUE=DATE:20260202,20400303", "RDATE;VALUE=DATE:20260404"), []string{"2026-01-01", "2026-02-02", "2026-04-04", "2040-03-03"}, ""},
		"without some":                   {event(start("20280101"), "RRULE:FREQ=YEARLY", "RDATE;VALUE=DATE:20280202", "EXDATE;VALUE=DATE:20290101,20280202", "EXDATE;VALUE=DATE:20310101"), []string{"2028-01-01", "2030-01-01"}, ""},
		"one moved, one cancelled":       {event(start("20290101"), "RRULE:FREQ=YEARLY") + event("RECURRENCE-ID;VALUE=DATE:20300101", start("20300102")) + event("RECURRENCE-ID;VALUE=DATE:20310101", "STATUS:CANCELLED"), []string{"2029-01-01", "2030-01-02"}, ""},
		"monthly":                        {event(start("20260101"), "RRULE:FREQ=MONTHLY"), nil, "event 1 repeats (FREQ=MONTHLY): only FREQ=YEARLY is written out"},
		"no frequency":                   {event(start("20260101"), "RRULE:BYMONTH=1"), nil, "event 1 has an RRULE that is wrong: RRULE property FREQ is required"},
		"Easter":                         {event(start("20260101"), "RRULE:FREQ=YEARLY;BYEASTER=0"), nil, `event 1 has an RRULE with "BYEASTER=0"`},
		"hours":                          {event(start("20260101"), "RRULE:FREQ=YEARLY;BYHOUR=1,2"), nil, `event 1 has an RRULE with "BYHOUR=1,2"`},
		"a part twice":                   {event(start("20260101"), "RRULE:FREQ=YEARLY;BYMONTH=1;BYMONTH=2"), nil, `event 1 has an RRULE with "BYMONTH=2"`},
		"no month":                       {event(start("20260101"), "RRULE:FREQ=YEARLY;BYMONTH=13"), nil, "bymonth must be between 1 and 12"},
		"no number":                      {event(start("20260101"), "RRULE:FREQ=YEARLY;BYMONTH=x"), nil, "event 1 has an RRULE that is wrong"},
		"no interval":                    {event(start("20260101"), "RRULE:FREQ=YEARLY;INTERVAL=0"), nil, "INTERVAL and COUNT must be at least 1"},
		"no count":                       {event(start("20260101"), "RRULE:FREQ=YEARLY;COUNT=0"), nil, "INTERVAL and COUNT must be at least 1"},
		"a week that no month has":       {event(start("20261201"), "RRULE:FREQ=YEARLY;BYMONTH=12;BYDAY=53TU"), nil, "BYDAY names a week that no month, or no year, has"},
		"a week that no month has, back": {event(start("20260101"), "RRULE:FREQ=YEARLY;BYMONTH=1;BYDAY=-53TH"), nil, "BYDAY names a week that no month, or no year, has"},
		"a date that never comes":        {event(start("20260301"), "RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"), nil, "event 1 starts on a day that its RRULE does not name"},
		"a start beside the rule":        {event(start("20260101"), "RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH"), nil, "event 1 starts on a day that its RRULE does not name"},
		"the year 1":                     {event(start("00010101"), "RRULE:FREQ=YEARLY;COUNT=5000"), nil, "event 1 has dates beyond the years 1970 to 2399"},
		"a long list":                    {event(start("20260101"), "RRULE:FREQ=YEARLY;BYYEARDAY=1"+strings.Repeat(",2", 200)), nil, "event 1 has an RRULE of more than 200 bytes"},
		"every day":                      {event(start("20260101"), "RRULE:FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU"), nil, "event 1 has more than 500 dates"},
		"many long ones":                 {event(start("20260101"), "DTEND;VALUE=DATE:20260501", "RRULE:FREQ=YEARLY"), nil, "event 1 has more than 500 dates"},
		"two rules":                      {event(start("20260101"), "RRULE:FREQ=YEARLY", "RRULE:FREQ=YEARLY;BYMONTH=2"), nil, "event 1 repeats by more than one RRULE"},
		"an EXRULE":                      {event(start("20260101"), "RRULE:FREQ=YEARLY", "EXRULE:FREQ=YEARLY;INTERVAL=2"), nil, "event 1 repeats with an EXRULE"},
		"all later ones":                 {event("RECURRENCE-ID;RANGE=THISANDFUTURE;VALUE=DATE:20300101", start("20300102")), nil, "event 1 changes all later ones of its series"},
		"a time left out":                {event(start("20260101"), "RRULE:FREQ=YEARLY", "EXDATE:20270101T000000Z"), nil, "event 1 has an EXDATE that is no date such as 20261225"},
		"a period":                       {event(start("20260101"), "RDATE;VALUE=PERIOD:20270101T000000Z/P1D"), nil, "event 1 has an RDATE that is no date such as 20261225"},
		"too many dates":                 {event(start("20260101"), "RDATE;VALUE=DATE:20270101"+strings.Repeat(",20270101", 500)), nil, "event 1 has more than 500 dates in RDATE"},
		// Each is looked at from its start, as it counts: 57 years.
		"too much work": {strings.Repeat(event(start("19700101"), "RRULE:FREQ=YEARLY;COUNT=56"), 200), fromTo(2025, 2025, "01-01"), "event 88 is one of too many that repeat"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := new(Decoder).Calendar("acme", "h", []byte(icalendar(t, icsHead+row.events+icsTail)), testNow)
			if row.fault != "" {
				if err == nil || !strings.Contains(err.Error(), row.fault) {
					t.Errorf("Calendar(%s) = %v, %v, want %q", row.events, got.Dates, err, row.fault)
				}
				return
			}
			if diff := cmp.Diff(row.want, got.Dates); err != nil || diff != "" {
				t.Errorf("Calendar(%s): %v (-want +got):\n%s", row.events, err, diff)
			}
		})
	}
}

// FuzzRules: whatever an RRULE and dates say, they neither panic nor give dates of other years.
func FuzzRules(f *testing.F) {
	f.Add("20261201", "FREQ=YEARLY;BYMONTH=12;BYDAY=53TU", "20270101")
	f.Add("20260101", "FREQ=YEARLY;INTERVAL=9223372036854775807;BYSETPOS=-366;BYYEARDAY=-366,366", "20270101,20260101")
	f.Add("20240229", "FREQ=YEARLY;BYMONTHDAY=-1;COUNT=7;WKST=SU;UNTIL=20300101T000000", "")
	f.Add("20260101", "FREQ=YEARLY;BYDAY=-53TH,1TH,TH;BYMONTH=1,1,1", "x")
	f.Fuzz(func(t *testing.T, start, rule, without string) {
		r := eventReader{first: 2025, last: 2031, work: 100}
		e := ics.NewEvent("u")
		e.SetProperty(ics.ComponentPropertyDtStart, start)
		e.SetProperty(ics.ComponentPropertyRrule, rule)
		e.SetProperty(ics.ComponentPropertyExdate, without)
		dates, what := r.datesOf(e)
		if what != "" && dates != nil {
			t.Fatalf("%q %q: %v, and %q", start, rule, dates, what)
		}
		for _, date := range dates {
			if date < "2025" || date >= "2032" {
				t.Fatalf("%q %q: %s", start, rule, date)
			}
		}
	})
}
