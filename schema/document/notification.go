package document

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/damage"
)

// notifications are the roles of schema.NotificationStore and IncidentStore. They are apart since Roles
// has many methods.
type notifications struct {
	rows   Rows
	damage *damage.Log
}

// IncidentScope returns the scope of the incidents of a minute: tenant, a zero byte, the minute.
func IncidentScope(tenant string, minute schema.Bucket) string {
	return tenant + "\x00" + strconv.FormatInt(int64(minute), 10)
}

// ParseIncidentScope is the inverse of IncidentScope.
func ParseIncidentScope(scope string) (tenant string, minute schema.Bucket) {
	tenant, text, _ := strings.Cut(scope, "\x00")
	n, _ := strconv.ParseInt(text, 10, 64) // IncidentScope wrote it
	return tenant, schema.Bucket(n)
}

// PutNotification implements schema.NotificationStore.
func (r notifications) PutNotification(ctx context.Context, n schema.NotificationRule) error {
	d := Document{Kind: Notification, Scope: n.Tenant, Name: n.Name, Written: n.UpdatedAt}
	var err error
	if d.Text, err = json.Marshal(n); err == nil {
		err = r.rows.PutDocuments(ctx, d)
	}
	if err != nil {
		return fmt.Errorf("put notification %s of %s: %w", n.Name, n.Tenant, err)
	}
	return nil
}

// DeleteNotification implements schema.NotificationStore.
func (r notifications) DeleteNotification(ctx context.Context, tenant, name string, at time.Time) error {
	if err := r.rows.PutDocuments(ctx, Document{Kind: Notification, Scope: tenant, Name: name, Written: at, Deleted: true}); err != nil {
		return fmt.Errorf("delete notification %s of %s: %w", name, tenant, err)
	}
	return nil
}

// Notification implements schema.NotificationStore.
func (r notifications) Notification(ctx context.Context, tenant, name string) (n schema.NotificationRule, err error) {
	d, err := r.rows.Document(ctx, Notification, tenant, name)
	if err == nil {
		n = r.load(&d)
		err = n.Fault
	}
	if err != nil {
		return n, fmt.Errorf("read notification %s of %s: %w", name, tenant, err)
	}
	return n, nil
}

// Notifications implements schema.NotificationStore.
func (r notifications) Notifications(ctx context.Context, tenant, after string, limit int) ([]schema.NotificationRule, error) {
	all, err := listOf(ctx, r.rows, Notification, tenant, after, limit, r.load)
	if err != nil {
		return nil, fmt.Errorf("read notifications of %s: %w", tenant, err)
	}
	return all, nil
}

func (r notifications) load(d *Document) schema.NotificationRule {
	n, err := schema.Decode[schema.NotificationRule](d.Text, "notification")
	if r.damage.Found("notifications", d.Scope+"/"+d.Name, err) != nil {
		n = schema.NotificationRule{Fault: err, UpdatedAt: d.Written}
	}
	n.Tenant, n.Name = d.Scope, d.Name
	return n
}

// PutIncidents implements schema.IncidentStore.
func (r notifications) PutIncidents(ctx context.Context, incidents []schema.Incident) error {
	docs := make([]Document, len(incidents))
	for i := range incidents {
		n := &incidents[i]
		text, err := json.Marshal(n)
		if err != nil {
			return fmt.Errorf("put incident of run %s: %w", n.Run, err)
		}
		docs[i] = Document{
			Kind: Incident, Scope: IncidentScope(n.Tenant, schema.BucketOf(n.ID.Time())), Name: string(n.ID[:]), Text: text,
			Written: n.ID.Time(), Expires: n.Expires,
		}
	}
	if err := r.rows.PutDocuments(ctx, docs...); err != nil {
		return fmt.Errorf("put %d incidents: %w", len(docs), err)
	}
	return nil
}

// Incidents implements schema.IncidentStore.
func (r notifications) Incidents(ctx context.Context, tenant string, minute schema.Bucket, after schema.EntryID, limit int) ([]schema.Incident, error) {
	name := ""
	if !after.IsZero() {
		name = string(after[:])
	}
	all, err := listOf(ctx, r.rows, Incident, IncidentScope(tenant, minute), name, limit, func(d *Document) schema.Incident {
		n, err := schema.Decode[schema.Incident](d.Text, "incident")
		copy(n.ID[:], d.Name)
		if r.damage.Found("incidents", n.ID.String(), err) != nil {
			n.Fault = err
		}
		n.Tenant = tenant
		return n
	})
	if err != nil {
		return nil, fmt.Errorf("read incidents of %s: %w", tenant, err)
	}
	return all, nil
}

// SwapNotificationGroup implements schema.IncidentStore.
func (r notifications) SwapNotificationGroup(ctx context.Context, was int64, is schema.NotificationGroup) error {
	err := is.Follows(was)
	d := Document{Kind: NotificationGroup, Scope: is.Tenant, Name: is.Name, Revision: is.Revision}
	if err == nil {
		d.Text, err = json.Marshal(is)
	}
	if err == nil {
		err = r.rows.SwapDocument(ctx, was, d)
	}
	if err != nil {
		return fmt.Errorf("swap notification group %s of %s: %w", is.Name, is.Tenant, err)
	}
	return nil
}

// DeleteNotificationGroup implements schema.IncidentStore.
func (r notifications) DeleteNotificationGroup(ctx context.Context, tenant, name string, was int64) error {
	if err := r.rows.SwapDocument(ctx, was, Document{Kind: NotificationGroup, Scope: tenant, Name: name, Deleted: true}); err != nil {
		return fmt.Errorf("delete notification group %s of %s: %w", name, tenant, err)
	}
	return nil
}

// NotificationGroups implements schema.IncidentStore.
func (r notifications) NotificationGroups(ctx context.Context, tenant, after string, limit int) ([]schema.NotificationGroup, error) {
	all, err := listOf(ctx, r.rows, NotificationGroup, tenant, after, limit, func(d *Document) schema.NotificationGroup {
		g, err := schema.Decode[schema.NotificationGroup](d.Text, "notification group")
		if r.damage.Found("notification_groups", d.Scope+"/"+d.Name, err) != nil {
			g = schema.NotificationGroup{Fault: err}
		}
		g.Tenant, g.Name, g.Revision = d.Scope, d.Name, d.Revision
		return g
	})
	if err != nil {
		return nil, fmt.Errorf("read notification groups of %s: %w", tenant, err)
	}
	return all, nil
}
