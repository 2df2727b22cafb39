package client

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"
)

// Calendars are what can be asked for about calendars: dates, such as holidays, that schedules
// name. See Schedule.Calendar.
type Calendars struct{ node *node }

// Calendar is the dates of a calendar: as dates, or as an iCalendar, of which the all-day events
// count. Those that repeat each year become their dates from last year to five years from now.
type Calendar struct {
	Description string   `json:"description,omitempty"`
	Dates       []string `json:"dates,omitempty"` // such as "2026-12-25"
	ICalendar   string   `json:"icalendar,omitempty"`
}

// CalendarInfo is a calendar as the API answers it.
type CalendarInfo struct {
	Name        string    `json:"name"`
	Tenant      string    `json:"tenant"`
	Description string    `json:"description,omitempty"`
	Dates       []string  `json:"dates"` // in order
	CreatedAt   time.Time `json:"created_at,omitzero"`
	CreatedBy   string    `json:"created_by,omitempty"`
	UpdatedAt   time.Time `json:"updated_at,omitzero"`
	// Jobs is, after a change, how many jobs use it, and OpenJobs how many of these go by the dates
	// before for some minutes more.
	Jobs     *int `json:"jobs,omitempty"`
	OpenJobs int  `json:"open_jobs,omitempty"`
	// Fault is why nothing but the name is known: the node does not understand what is stored.
	Fault string `json:"fault,omitempty"`
}

// Put creates the calendar of a name, or replaces its dates: then the jobs that use it change with
// it.
func (c Calendars) Put(ctx context.Context, name string, is Calendar) (CalendarInfo, error) {
	return ask[CalendarInfo](ctx, c.node, question{method: http.MethodPut, path: []string{"calendars", name}, body: is})
}

// Get returns a calendar.
func (c Calendars) Get(ctx context.Context, name string) (CalendarInfo, error) {
	return ask[CalendarInfo](ctx, c.node, question{method: http.MethodGet, path: []string{"calendars", name}})
}

// List returns the calendars of the tenant, by name. It ends with the first error.
func (c Calendars) List(ctx context.Context) iter.Seq2[CalendarInfo, error] {
	return list[CalendarInfo](ctx, c.node, nil, "calendars")
}

// Delete deletes a calendar. One that does not exist is deleted already. While jobs use it, that is
// an *Error of the kind "calendar-in-use".
func (c Calendars) Delete(ctx context.Context, name string) error {
	_, err := c.node.send(ctx, &question{method: http.MethodDelete, path: []string{"calendars", name}})
	var e *Error
	if errors.As(err, &e) && e.Kind == "not-found" { // as an earlier try may have done
		return nil
	}
	return err
}
