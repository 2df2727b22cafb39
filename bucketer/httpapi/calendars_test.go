package httpapi

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/schema"
)

// calendarDesk keeps calendars in memory, by tenant and name. Two jobs use each that is called
// used.
type calendarDesk struct{ all map[string]schema.Calendar }

func newCalendarDesk() *calendarDesk { return &calendarDesk{make(map[string]schema.Calendar)} }

func (d *calendarDesk) PutCalendar(_ context.Context, c schema.Calendar) (recurring.CalendarChange, error) {
	_, found := d.all[c.Tenant+"/"+c.Name]
	if !found && len(d.all) == 3 {
		return recurring.CalendarChange{}, recurring.ErrManyCalendars
	}
	c.CreatedAt, c.UpdatedAt = testNow, testNow
	d.all[c.Tenant+"/"+c.Name] = c
	out := recurring.CalendarChange{Calendar: c, Created: !found}
	if found && c.Name == "used" {
		out.Jobs, out.Open = 2, 1
	}
	return out, nil
}

func (d *calendarDesk) Calendar(_ context.Context, tenant, name string) (schema.Calendar, error) {
	c, found := d.all[tenant+"/"+name]
	if !found {
		return c, fmt.Errorf("read calendar: %w", schema.ErrNotFound)
	}
	return c, nil
}

func (d *calendarDesk) Calendars(_ context.Context, tenant, after string, limit int) (all []schema.Calendar, err error) {
	for _, at := range slices.Sorted(maps.Keys(d.all)) {
		if c := d.all[at]; c.Tenant == tenant && c.Name > after && len(all) < limit {
			all = append(all, c)
		}
	}
	return all, nil
}

func (d *calendarDesk) DeleteCalendar(ctx context.Context, tenant, name string) (schema.Calendar, error) {
	c, err := d.Calendar(ctx, tenant, name)
	switch {
	case err != nil:
		return c, err
	case name == "used":
		return c, &recurring.CalendarInUseError{Jobs: []string{"nightly", "weekly"}, More: true}
	}
	delete(d.all, tenant+"/"+name)
	return c, nil
}

func (d *calendarDesk) ResolveCalendars(ctx context.Context, tenant string, s *schema.Schedule) error {
	for i := range s.Any {
		if of := s.Any[i].Calendar; of != nil {
			c, err := d.Calendar(ctx, tenant, of.Name)
			if err != nil {
				return bucketer.Faults{{Location: "body.schedule.calendar.name", Message: "names no calendar of the tenant"}}
			}
			of.Dates = c.Dates
		}
	}
	return nil
}

// TestCalendars: calendars are put, read, listed and deleted, unless jobs use them; previews go by
// them.
func TestCalendars(t *testing.T) {
	o := newAdminStub()
	hs := serve(t, newStub(), o.desk)
	operator, viewer := o.key("a/operator"), o.key("a/viewer")
	ask := func(key http.Header, method, path, body string, status int, want ...string) {
		t.Helper()
		got, _, text := do(t, hs, call{method: method, path: path, body: body, header: key})
		if got != status {
			t.Errorf("%s %s = %d %s, want %d", method, path, got, text, status)
		}
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s %s = %s, want %s in it", method, path, text, w)
			}
		}
	}
	const body = `{"dates":["2026-11-23","2026-11-22"],"description":"x"}`
	ask(operator, "PUT", "/v1/calendars/used", body, 201, `"dates":["2026-11-22","2026-11-23"]`, `"jobs":0`)
	ask(operator, "PUT", "/v1/calendars/used", body, 200, `"jobs":2`, `"open_jobs":1`)
	ask(operator, "PUT", "/v1/calendars/b", `{"dates":[]}`, 201, `"dates":[]`)
	ask(viewer, "GET", "/v1/calendars/used", "", 200, `"description":"x"`, `"created_by":"`)
	ask(viewer, "GET", "/v1/calendars?limit=1", "", 200, `"name":"b"`, "next_cursor")
	ask(viewer, "GET", "/v1/calendars/none", "", 404)
	ask(viewer, "GET", "/v1/calendars/N!", "", 422, "path.name")
	ask(viewer, "PUT", "/v1/calendars/used", body, 403)
	ask(operator, "PUT", "/v1/calendars/c", `{"dates":["x"],"y":1}`, 422, "body.dates[0]", "body.y")
	ask(operator, "PUT", "/v1/calendars/c", body, 201)
	ask(operator, "PUT", "/v1/calendars/d", body, 409, "too-many-calendars")
	ask(operator, "DELETE", "/v1/calendars/used", "", 409, "calendar-in-use", "nightly, weekly, and others")
	ask(operator, "DELETE", "/v1/calendars/b", "", 204)
	ask(operator, "DELETE", "/v1/calendars/b", "", 404)
	noted := fmt.Sprintf("%+v", o.noted())
	for _, want := range []string{"create", "update", "delete", "calendar/used", "calendar/b"} {
		if !strings.Contains(noted, want) {
			t.Errorf("the audit log has no %s: %s", want, noted)
		}
	}
	preview := func(body string) (got []string) {
		t.Helper()
		var p Preview
		doJSON(t, hs, call{method: "POST", path: previewPath, body: body, header: viewer}, 200, &p)
		for _, at := range p.Times {
			got = append(got, at.UTC().Format(time.DateOnly))
		}
		return got
	}
	if got := preview(`{"schedule":{"cron":"0 9 * * *","calendar":{"name":"used"}},"count":2}`); !slices.Equal(got, []string{"2026-11-24", "2026-11-25"}) {
		t.Errorf("a preview by a calendar is due on %v", got)
	}
	ask(viewer, "POST", previewPath, `{"schedule":{"cron":"0 9 * * *","calendar":{"name":"none"}}}`, 422, "body.schedule.calendar.name")
}
