package request

import (
	"bytes"
	"fmt"
	"time"

	ics "github.com/arran4/golang-ical"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

// The forms of a date in an iCalendar.
const icsDate = "20060102"

// maxEventFaults bounds what is said of the events of an iCalendar.
const maxEventFaults = 10

// readICalendar returns the dates of the all-day events of an iCalendar (RFC 5545), and what is
// wrong with it. An event of several days is each of them; one that is cancelled is none.
func readICalendar(text []byte) (dates []string, faults []string) {
	cal, err := ics.ParseCalendar(bytes.NewReader(text))
	if err != nil {
		return nil, []string{"is no iCalendar: " + string(bucketer.Shorten([]byte(err.Error()), 200))}
	}
	events := cal.Events()
	if len(events) == 0 {
		return nil, []string{"has no events"}
	}
	for n, e := range events {
		days, what := datesOf(e)
		if what != "" {
			if len(faults) == maxEventFaults {
				return nil, append(faults, "has more events that are wrong")
			}
			name := fmt.Sprintf("event %d", n+1)
			if p := e.GetProperty(ics.ComponentPropertySummary); p != nil {
				name += fmt.Sprintf(" (%q)", string(bucketer.Shorten([]byte(p.Value), 60)))
			}
			faults = append(faults, name+" "+what)
			continue
		}
		if dates = append(dates, days...); len(dates) > schema.MaxCalendarDates {
			return nil, append(faults, fmt.Sprintf("has more than %d dates", schema.MaxCalendarDates))
		}
	}
	return dates, faults
}

// datesOf returns the dates of an event, or what is wrong with it.
func datesOf(e *ics.VEvent) (dates []string, what string) {
	if p := e.GetProperty(ics.ComponentPropertyStatus); p != nil && p.Value == string(ics.ObjectStatusCancelled) {
		return nil, ""
	}
	for _, p := range []ics.ComponentProperty{ics.ComponentPropertyRrule, ics.ComponentPropertyRdate, ics.ComponentPropertyExdate} {
		if e.GetProperty(p) != nil {
			return nil, "repeats (" + string(p) + "): each date must be an event of its own"
		}
	}
	start, what := dayOfProperty(e, ics.ComponentPropertyDtStart)
	if what != "" {
		return nil, what
	}
	if start.IsZero() {
		return nil, "has no DTSTART"
	}
	end, what := dayOfProperty(e, ics.ComponentPropertyDtEnd)
	switch {
	case what != "":
		return nil, what
	case end.IsZero() && e.GetProperty("DURATION") != nil:
		return nil, "has a DURATION: it must have a DTEND"
	case end.IsZero():
		end = start.AddDate(0, 0, 1)
	case !end.After(start):
		return nil, "ends before it starts: DTEND is the day after its last one"
	}
	for day := start; day.Before(end); day = day.AddDate(0, 0, 1) {
		text := day.Format(time.DateOnly)
		if _, ok := schedule.DayOf(text); !ok {
			return nil, "has dates beyond the years 1970 to 2399"
		}
		if dates = append(dates, text); len(dates) > schema.MaxCalendarDates {
			return nil, fmt.Sprintf("lasts longer than %d days", schema.MaxCalendarDates)
		}
	}
	return dates, ""
}

// dayOfProperty returns the day that a property is; the zero time: it is not there.
func dayOfProperty(e *ics.VEvent, name ics.ComponentProperty) (day time.Time, what string) {
	p := e.GetProperty(name)
	if p == nil {
		return time.Time{}, ""
	}
	day, err := time.Parse(icsDate, p.Value)
	if err != nil {
		return time.Time{}, "is no all-day event: " + string(name) + " must be a date such as 20261225"
	}
	return day, ""
}
