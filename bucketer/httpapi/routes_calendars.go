package httpapi

import (
	"context"
	"errors"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// Calendars keeps the calendars of tenants (recurring.Jobs has it).
type Calendars interface {
	// PutCalendar answers recurring.ErrManyCalendars.
	PutCalendar(ctx context.Context, c schema.Calendar) (recurring.CalendarChange, error)
	Calendar(ctx context.Context, tenant, name string) (schema.Calendar, error)
	Calendars(ctx context.Context, tenant, after string, limit int) ([]schema.Calendar, error)
	// DeleteCalendar answers *recurring.CalendarInUseError.
	DeleteCalendar(ctx context.Context, tenant, name string) (schema.Calendar, error)
	// ResolveCalendars fills in the dates that the calendars of a schedule have.
	ResolveCalendars(ctx context.Context, tenant string, s *schema.Schedule) error
}

// Calendar is a calendar as the API answers it.
type Calendar struct {
	Name        string   `json:"name" example:"holidays-de"`
	Tenant      string   `json:"tenant" example:"default"`
	Description string   `json:"description,omitempty"`
	Dates       []string `json:"dates" doc:"In order, each once" example:"[\"2026-12-25\",\"2026-12-26\"]"`
	CreatedAt   Time     `json:"created_at,omitzero"`
	CreatedBy   string   `json:"created_by,omitempty"`
	UpdatedAt   Time     `json:"updated_at,omitzero"`
	Jobs        *int     `json:"jobs,omitempty" doc:"In the answer to a change: how many jobs use it"`
	OpenJobs    int      `json:"open_jobs,omitempty" doc:"In the answer to a change: how many of these go by the dates before for some minutes more"`
	Fault       string   `json:"fault,omitempty" doc:"Why what is stored of it cannot be understood: then nothing but its name is known"`
}

func calendarOf(c schema.Calendar) Calendar {
	out := Calendar{
		Name: c.Name, Tenant: c.Tenant, Description: c.Description, Dates: c.Dates, CreatedAt: Time{c.CreatedAt}, CreatedBy: c.CreatedBy,
		UpdatedAt: Time{c.UpdatedAt}, Fault: faultOf(c.Fault),
	}
	if out.Dates == nil {
		out.Dates = []string{}
	}
	return out
}

type (
	calendarByName struct {
		Name string `path:"name" doc:"The name of the calendar" example:"holidays-de"`
	}
	calendarPut struct {
		Name string `path:"name" doc:"The name of the calendar" example:"holidays-de"`
		body
	}
	calendarAnswer struct {
		Status int
		Body   Calendar
	}
	calendarList struct {
		Body struct {
			Items      []Calendar `json:"items"`
			NextCursor string     `json:"next_cursor,omitempty"`
		}
	}
)

const calendarsPath = "/v1/calendars"

// calendarRoutes serves calendars.
type calendarRoutes struct{ *Server }

func (s calendarRoutes) route() {
	const path = calendarsPath + "/{name}"
	op := s.operation("put-calendar", http.MethodPut, path, "Create a calendar or replace its dates", 200, 400, 408, 409, 413, 415, 422, 429, 503)
	op.Description = "A calendar is dates, such as holidays, that schedules of jobs name: on these dates they are not due, or on a day nearby. " +
		"Where it changes, the jobs that use it change with it, as if each was changed itself: 2 s after the answer nothing starts by the dates before. " +
		"open_jobs counts those that could not be changed in time: they follow within minutes, and so do all if there was no answer. " +
		"Events of an iCalendar that repeat each year are written out once, from last year to five years from now: put it again before the last of them. " +
		"A calendar has at most 500 dates, and a tenant 100 calendars: beyond that it is 409."
	huma.Register(s.api, op, s.putCalendar)
	s.alsoAnswers(path, http.MethodPut, http.StatusCreated, http.StatusOK)
	s.describeBody(path, http.MethodPut, reflect.TypeFor[request.CalendarRequest](), "application/json")
	huma.Register(s.api, s.operation("get-calendar", http.MethodGet, path, "A calendar", 200, 404, 409, 422, 503), s.getCalendar)
	huma.Register(s.api, s.operation("list-calendars", http.MethodGet, calendarsPath, "The calendars of the tenant, by name", 200, 422, 503), s.listCalendars)
	op = s.operation("delete-calendar", http.MethodDelete, path, "Delete a calendar that no job uses", 204, 404, 409, 422, 503)
	op.Description = "While jobs use it, the answer is 409, and names them."
	huma.Register(s.api, op, s.deleteCalendar)
}

// calendars returns what keeps the calendars.
func calendars(s *Server) (Calendars, error) {
	if s.deps.Calendars == nil {
		return nil, notFound("This node keeps no calendars.")
	}
	return s.deps.Calendars, nil
}

func (s calendarRoutes) putCalendar(ctx context.Context, in *calendarPut) (*calendarAnswer, error) {
	all, err := calendars(s.Server)
	if err != nil {
		return nil, err
	}
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	c, err := d.Calendar(tenantOf(ctx), in.Name, text, s.config.Now())
	if err != nil {
		return nil, s.fail(ctx, "put calendar", err)
	}
	c.CreatedBy = actorOf(ctx)
	var before any
	if was, err := all.Calendar(ctx, c.Tenant, c.Name); err == nil {
		before = calendarOf(was)
	}
	change, err := all.PutCalendar(ctx, c)
	if err != nil {
		return nil, s.fail(ctx, "put calendar", err)
	}
	shown := calendarOf(change.Calendar)
	action, status := "update", http.StatusOK
	if change.Created {
		action, status, before = "create", http.StatusCreated, nil
	}
	s.note(ctx, action, "calendar/"+c.Name, before, shown, "")
	shown.Jobs, shown.OpenJobs = &change.Jobs, change.Open
	return &calendarAnswer{Status: status, Body: shown}, nil
}

func (s calendarRoutes) getCalendar(ctx context.Context, in *calendarByName) (*calendarAnswer, error) {
	all, err := in.check(s)
	if err != nil {
		return nil, err
	}
	found, err := all.Calendar(ctx, tenantOf(ctx), in.Name)
	if err != nil {
		return nil, s.fail(ctx, "read calendar", err)
	}
	return &calendarAnswer{Status: http.StatusOK, Body: calendarOf(found)}, nil
}

func (s calendarRoutes) listCalendars(ctx context.Context, in *page) (*calendarList, error) {
	all, err := calendars(s.Server)
	if err != nil {
		return nil, err
	}
	out := new(calendarList)
	out.Body.Items, out.Body.NextCursor, err = listed(s.cursors, []string{"calendars", tenantOf(ctx)}, in.Cursor, in.Limit,
		func(after string, limit int) ([]schema.Calendar, error) {
			return all.Calendars(ctx, tenantOf(ctx), after, limit)
		},
		func(found *schema.Calendar) string { return found.Name }, calendarOf)
	if err != nil {
		return nil, s.fail(ctx, "list calendars", err)
	}
	return out, nil
}

func (s calendarRoutes) deleteCalendar(ctx context.Context, in *calendarByName) (*struct{}, error) {
	all, err := in.check(s)
	if err != nil {
		return nil, err
	}
	was, err := all.DeleteCalendar(ctx, tenantOf(ctx), in.Name)
	if err != nil {
		return nil, s.fail(ctx, "delete calendar", err)
	}
	s.note(ctx, "delete", "calendar/"+in.Name, calendarOf(was), nil, "")
	return nil, nil //nolint:nilnil // huma's way to say 204
}

// fail is Server.fail. A calendar that cannot be understood is no job.
func (s calendarRoutes) fail(ctx context.Context, what string, err error) error {
	if !errors.Is(err, schema.ErrNotUnderstood) {
		return s.Server.fail(ctx, what, err)
	}
	p := problemOf(err)
	p.Detail = "Nothing was changed. A newer version wrote it, or it is damaged: ask a node of that version, or put it again."
	return p
}

// check checks the name, and returns what keeps the calendars.
func (n *calendarByName) check(s calendarRoutes) (Calendars, error) {
	if what := bucketer.NameFault(n.Name); what != "" {
		return nil, invalid(bucketer.Fault{Location: "path.name", Message: what})
	}
	return calendars(s.Server)
}
