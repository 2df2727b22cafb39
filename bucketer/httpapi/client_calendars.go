package httpapi

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"carillon.dev/carillon/bucketer/request"
)

func calendarPath(name string) string { return calendarsPath + "/" + url.PathEscape(name) }

// PutCalendar creates a calendar or replaces its dates.
func (c *Client) PutCalendar(ctx context.Context, name string, r request.CalendarRequest) (Calendar, error) {
	var out Calendar
	_, err := c.call(ctx, ask{method: http.MethodPut, path: calendarPath(name), body: r, repeatable: true}, &out)
	return out, err
}

// Calendar returns a calendar.
func (c *Client) Calendar(ctx context.Context, name string) (Calendar, error) {
	var out Calendar
	_, err := c.call(ctx, ask{method: http.MethodGet, path: calendarPath(name), repeatable: true}, &out)
	return out, err
}

// Calendars returns the calendars of the tenant, by name. It ends with the first error.
func (c *Client) Calendars(ctx context.Context) iter.Seq2[Calendar, error] {
	return func(yield func(Calendar, error) bool) {
		eachItem(ctx, c, calendarsPath, url.Values{}, 0, yield)
	}
}

// DeleteCalendar deletes a calendar that no job uses.
func (c *Client) DeleteCalendar(ctx context.Context, name string) error {
	_, err := c.call(ctx, ask{method: http.MethodDelete, path: calendarPath(name)}, nil)
	return err
}
