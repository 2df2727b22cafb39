package document

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/damage"
)

// calendars are the roles of schema.CalendarStore.
type calendars struct {
	rows   Rows
	damage *damage.Log
}

// PutCalendar implements schema.CalendarStore.
func (r calendars) PutCalendar(ctx context.Context, c schema.Calendar) error {
	d := Document{Kind: Calendar, Scope: c.Tenant, Name: c.Name, Written: c.UpdatedAt}
	var err error
	if d.Text, err = json.Marshal(c); err == nil {
		err = r.rows.PutDocuments(ctx, d)
	}
	if err != nil {
		return fmt.Errorf("put calendar %s of %s: %w", c.Name, c.Tenant, err)
	}
	return nil
}

// DeleteCalendar implements schema.CalendarStore.
func (r calendars) DeleteCalendar(ctx context.Context, tenant, name string, at time.Time) error {
	if err := r.rows.PutDocuments(ctx, Document{Kind: Calendar, Scope: tenant, Name: name, Written: at, Deleted: true}); err != nil {
		return fmt.Errorf("delete calendar %s of %s: %w", name, tenant, err)
	}
	return nil
}

// Calendar implements schema.CalendarStore.
func (r calendars) Calendar(ctx context.Context, tenant, name string) (c schema.Calendar, err error) {
	d, err := r.rows.Document(ctx, Calendar, tenant, name)
	if err == nil {
		c = r.load(&d)
		err = c.Fault
	}
	if err != nil {
		return c, fmt.Errorf("read calendar %s of %s: %w", name, tenant, err)
	}
	return c, nil
}

// Calendars implements schema.CalendarStore.
func (r calendars) Calendars(ctx context.Context, tenant, after string, limit int) ([]schema.Calendar, error) {
	all, err := listOf(ctx, r.rows, Calendar, tenant, after, limit, r.load)
	if err != nil {
		return nil, fmt.Errorf("read calendars of %s: %w", tenant, err)
	}
	return all, nil
}

func (r calendars) load(d *Document) schema.Calendar {
	c, err := schema.Decode[schema.Calendar](d.Text, "calendar")
	if r.damage.Found("calendars", d.Scope+"/"+d.Name, err) != nil {
		c = schema.Calendar{Fault: err, UpdatedAt: d.Written}
	}
	c.Tenant, c.Name = d.Scope, d.Name
	return c
}
