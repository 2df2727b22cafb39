package schema

import (
	"context"
	"time"
)

// MaxCalendarDates bounds the dates of a calendar, and MaxCalendars the calendars of a tenant.
const (
	MaxCalendarDates = 500
	MaxCalendars     = 100
)

// Calendar is dates of a tenant, such as the holidays of a country. Schedules name it.
type Calendar struct {
	Tenant      string    `json:"-"`
	Name        string    `json:"-"`
	Description string    `json:"description,omitempty"`
	Dates       []string  `json:"dates"` // such as "2026-12-25", in order, each once
	CreatedAt   time.Time `json:"created_at"`
	CreatedBy   string    `json:"created_by,omitempty"`
	UpdatedAt   time.Time `json:"updated_at"` // to the µs: the version of the dates

	// Fault is set where the stored text cannot be understood (ErrNotUnderstood). Then all but the
	// names and UpdatedAt, the write timestamp, is unknown.
	Fault error `json:"-"`
}

// What a schedule does on the dates of a calendar.
const (
	OnDateSkip     = "skip"         // it is not due then; the default
	OnDateNext     = "next_day"     // it is due on the next day that is none of them
	OnDatePrevious = "previous_day" // it is due on the day before that is none of them
)

// ScheduleCalendar is what a schedule does on the dates of a calendar.
type ScheduleCalendar struct {
	Name string `json:"name"`
	On   string `json:"on,omitempty"` // "" = OnDateSkip
	// Dates are those of the calendar as of Version, so that a generation of a job names the same
	// times for ever. A change of the calendar changes the jobs that name it.
	Dates   []string `json:"dates,omitempty"`
	Version int64    `json:"version,omitempty"` // Calendar.UpdatedAt, µs
}

func (c *ScheduleCalendar) sameAs(o *ScheduleCalendar) bool {
	return c == o || c != nil && o != nil && c.Name == o.Name && c.On == o.On
}

// CalendarEvent is the name of the event, which nobody publishes, to which the jobs are subscribed
// that use a calendar.
func CalendarEvent(name string) string { return "carillon.calendar." + name }

// CalendarStore holds the calendars of tenants.
type CalendarStore interface {
	// PutCalendar creates or replaces a calendar. Of two writes the one with the later UpdatedAt
	// stands.
	PutCalendar(ctx context.Context, c Calendar) error
	// DeleteCalendar removes a calendar as of that instant.
	DeleteCalendar(ctx context.Context, tenant, name string, at time.Time) error
	// Calendar returns a calendar, or ErrNotFound, or ErrNotUnderstood.
	Calendar(ctx context.Context, tenant, name string) (Calendar, error)
	// Calendars returns at most limit calendars of a tenant with a name after `after`, in name
	// order.
	Calendars(ctx context.Context, tenant, after string, limit int) ([]Calendar, error)
}
