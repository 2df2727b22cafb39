package request

import (
	"time"

	"carillon.dev/carillon/schema"
)

// How many times of a schedule one preview may show, and shows if nothing is said.
const (
	maxPreview     = 100
	defaultPreview = 10
)

// PreviewRequest is the body of POST /v1/schedules/preview.
type PreviewRequest struct {
	Schedule  *Schedule        `json:"schedule,omitempty"`  // with cron or every …
	Schedules []Schedule       `json:"schedules,omitempty"` // … or several: one of the two
	Start     time.Time        `json:"start,omitzero"`
	End       time.Time        `json:"end,omitzero"`
	Jitter    *schema.Duration `json:"jitter,omitempty"`
	From      time.Time        `json:"from,omitzero"`   // absent: now
	Count     int              `json:"count,omitempty"` // absent: 10
}

// Preview is a validated request to see when a schedule is due.
type Preview struct {
	Schedule     schema.Schedule // an interval without anchor has From
	JitterStated bool
	From         time.Time // the times come after it
	Count        int
}

// Preview reads the body of POST /v1/schedules/preview. A schedule may have no time at all after
// From.
func (d *Decoder) Preview(body []byte, now time.Time) (Preview, error) {
	if !d.begin(body) {
		return Preview{}, d.err()
	}
	p := Preview{From: now.UTC(), Count: defaultPreview}
	when := scheduleReader{d: d, now: now}
	for c := range d.members(0) {
		switch name := d.doc.name(c); string(name) {
		case "schedule":
			when.read(c)
		case "schedules":
			when.readList(c)
		case "start":
			when.start, when.schedule.Start = c, d.instant(c, lastInstant)
		case "end":
			when.end, when.schedule.End = c, d.instant(c, lastInstant)
		case "jitter":
			p.JitterStated, when.schedule.Jitter = true, when.jitter(c)
		case "from":
			p.From = d.instant(c, lastInstant)
		case "count":
			p.Count = d.integer(c, 1, maxPreview)
		default:
			d.faultQuietly(c, "is not a field of a preview")
		}
	}
	switch {
	case when.node == 0:
		d.faultAt("body.schedule", "is missing")
	case when.recurring():
		when.otherwise = p.From.Truncate(time.Millisecond)
		when.compile()
	case !when.faulty:
		d.faultAt("body.schedule", "must have cron or every")
	}
	if err := d.err(); err != nil {
		return Preview{}, err
	}
	p.Schedule = when.rule()
	return p, nil
}
