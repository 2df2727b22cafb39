package request

import (
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// CalendarRequest is the body of PUT /v1/calendars/{name}: dates, or an iCalendar that has them.
type CalendarRequest struct {
	Description string   `json:"description,omitempty"`
	Dates       []string `json:"dates,omitempty"`     // such as "2026-12-25"
	ICalendar   string   `json:"icalendar,omitempty"` // its all-day events, also yearly ones
}

// Calendar reads the body of PUT /v1/calendars/{name}. A fault of the name is located at path.name.
// The dates come back in order, each once. Events of an iCalendar that repeat each year are written
// out for the years around now.
func (d *Decoder) Calendar(tenant, name string, body []byte, now time.Time) (schema.Calendar, error) {
	if !d.begin(body) {
		return schema.Calendar{}, d.err()
	}
	d.faults = append(d.faults, pathFaults("path.name", name)...)
	c := schema.Calendar{Tenant: tenant, Name: name}
	var dates, file int32
	for f := range d.members(0) {
		switch field := d.doc.name(f); string(field) {
		case "description":
			c.Description = d.text(f, maxDescription)
		case "dates":
			dates, c.Dates = f, readDates(&d.fields, f, schema.MaxCalendarDates)
		case "icalendar":
			file = f
			if d.is(f, kindString) {
				var faults []string
				c.Dates, faults = readICalendar(d.doc.stringOf(f), now)
				for _, what := range faults {
					d.faultQuietly(f, "%s", what)
				}
			} else {
				d.fault(f, "must be the text of an iCalendar")
			}
		default:
			d.faultQuietly(f, "is not a field of a calendar")
		}
	}
	if (dates > 0) == (file > 0) {
		d.faultAt("body", "must have exactly one of dates and icalendar")
	}
	if err := d.err(); err != nil {
		return schema.Calendar{}, err
	}
	slices.Sort(c.Dates)
	c.Dates = slices.Compact(c.Dates)
	return c, nil
}
