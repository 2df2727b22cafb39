package httpapi

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer/notifications"
	"carillon.dev/carillon/schema"
)

// ruleDesk keeps rules for notifications in memory, by tenant and name; it answers err if it is set.
type ruleDesk struct {
	rules map[string]schema.NotificationRule
	err   error
}

func (d *ruleDesk) PutNotification(_ context.Context, r schema.NotificationRule) (schema.NotificationRule, bool, error) {
	if d.err != nil {
		return r, false, d.err
	}
	_, found := d.rules[r.Tenant+"/"+r.Name]
	if !found && len(d.rules) == 3 {
		return r, false, notifications.ErrManyNotifications
	}
	r.CreatedAt, r.UpdatedAt = testNow, testNow
	d.rules[r.Tenant+"/"+r.Name] = r
	return r, !found, nil
}

func (d *ruleDesk) Notification(_ context.Context, tenant, name string) (schema.NotificationRule, error) {
	r, found := d.rules[tenant+"/"+name]
	switch {
	case d.err != nil:
		return schema.NotificationRule{}, d.err
	case !found:
		return r, fmt.Errorf("read notification: %w", schema.ErrNotFound)
	}
	return r, nil
}

func (d *ruleDesk) Notifications(_ context.Context, tenant, after string, limit int) (all []schema.NotificationRule, err error) {
	for _, at := range slices.Sorted(maps.Keys(d.rules)) {
		if r := d.rules[at]; r.Tenant == tenant && r.Name > after && len(all) < limit {
			all = append(all, r)
		}
	}
	return all, d.err
}

func (d *ruleDesk) DeleteNotification(ctx context.Context, tenant, name string) (schema.NotificationRule, error) {
	r, err := d.Notification(ctx, tenant, name)
	if err == nil {
		delete(d.rules, tenant+"/"+name)
	}
	return r, err
}

func (d *ruleDesk) TestNotification(ctx context.Context, tenant, name string) ([]schema.RunID, error) {
	_, err := d.Notification(ctx, tenant, name)
	return []schema.RunID{schema.MakeEntryID(testNow, 1, 2)}, err
}

func (d *ruleDesk) NotificationStates(_ context.Context, _ string, rules []schema.NotificationRule) (map[string]notifications.RuleState, error) {
	states := make(map[string]notifications.RuleState)
	for _, r := range rules {
		states[r.Name] = notifications.RuleState{
			Mute: true, Firing: 2, Untold: 3, LastAt: testNow, Deliveries: []notifications.Delivery{{Sink: "slack", Run: schema.MakeEntryID(testNow, 1, 2), State: schema.StateFailed}},
		}
	}
	return states, d.err
}

func (d *ruleDesk) deps(_ *Config, to *Deps) { to.Notifications = d }

const ruleBody = `{"on":["failed"],"sinks":[{"slack":{"url":"https://hooks.test/services/token","headers":{"x-key":"hush"}}},{"webhook":{"url":"https://x.test/hook"}},{"teams":{"url_secret":"by-name"}}]}`

// TestNotificationRules: rules are put, read, listed, tested and deleted; a viewer and the audit log see
// nothing by which others could send.
func TestNotificationRules(t *testing.T) {
	o := newAdminStub()
	hs := serve(t, newStub(), o.desk)
	admin, viewer := o.key("a/operator"), o.key("a/viewer")
	ask := func(key http.Header, method, path, body string, status int) string {
		t.Helper()
		got, _, text := do(t, hs, call{method: method, path: path, body: body, header: key})
		if got != status {
			t.Errorf("%s %s = %d %s, want %d", method, path, got, text, status)
		}
		return string(text)
	}
	ask(admin, "PUT", "/v1/notifications/n", ruleBody, 201)
	if text := ask(admin, "PUT", "/v1/notifications/n", ruleBody, 200); !strings.Contains(text, "services/token") || !strings.Contains(text, "hush") || !strings.Contains(text, `"group_wait":"30s"`) {
		t.Errorf("a rule = %s, want all of it, with the values in force", text)
	}
	for _, path := range []string{"/v1/notifications/n", "/v1/notifications"} {
		if text := ask(admin, "GET", path, "", 200); !strings.Contains(text, `"state":{"muted":true,"firing":2,"untold":3,"last_message_at"`) || !strings.Contains(text, `"state":"failed"`) {
			t.Errorf("a rule = %s, want how it stands", text)
		}
		if text := ask(viewer, "GET", path, "", 200); strings.Contains(text, "token") || strings.Contains(text, "hush") || !strings.Contains(text, "https://hooks.test/…") || !strings.Contains(text, "https://x.test/…") || !strings.Contains(text, `{"teams":{"url_secret":"by-name"}}`) {
			t.Errorf("a viewer sees %s", text)
		}
	}
	ask(viewer, "PUT", "/v1/notifications/n", ruleBody, 403)
	ask(viewer, "POST", "/v1/notifications/n/test", "", 403)
	if text := ask(admin, "POST", "/v1/notifications/n/test", "", 200); !strings.Contains(text, schema.MakeEntryID(testNow, 1, 2).String()) {
		t.Errorf("a test = %s, want its run", text)
	}
	ask(admin, "POST", "/v1/notifications/none/test", "", 404)
	ask(admin, "PUT", "/v1/notifications/n2", ruleBody, 201)
	ask(admin, "PUT", "/v1/notifications/n3", ruleBody, 201)
	if text := ask(admin, "PUT", "/v1/notifications/n4", ruleBody, 409); !strings.Contains(text, "too-many-notifications") {
		t.Errorf("one too many = %s", text)
	}
	if text := ask(admin, "PUT", "/v1/notifications/n", `{"on":["x"],"sinks":[]}`, 422); !strings.Contains(text, "body.on[0]") || !strings.Contains(text, "body.sinks") {
		t.Errorf("faults = %s, want all of them", text)
	}
	ask(admin, "DELETE", "/v1/notifications/n", "", 204)
	ask(admin, "DELETE", "/v1/notifications/n", "", 404)
	noted := fmt.Sprintf("%+v", o.noted())
	for _, want := range []string{"create", "update", "test", "delete", "notification/n"} {
		if !strings.Contains(noted, want) {
			t.Errorf("the audit log has no %s: %s", want, noted)
		}
	}
	if strings.Contains(noted, "token") || strings.Contains(noted, "hush") {
		t.Errorf("the audit log has what others could send by: %s", noted)
	}
}

// TestRunsOfMessages: a run says which call it is without a URL that lets others post, and so does
// the job that it is for a viewer.
func TestRunsOfMessages(t *testing.T) {
	message := func(sink string, h *schema.HTTPTarget) *schema.Spec {
		return &schema.Spec{Labels: map[string]string{notifications.RuleLabel: "n", notifications.SinkLabel: sink}, Work: &schema.Work{HTTP: h}}
	}
	plain := message(schema.SinkSlack, &schema.HTTPTarget{URL: "https://hooks.test/services/token"})
	plain.Labels = map[string]string{notifications.SinkLabel: schema.SinkSlack}
	for want, spec := range map[string]*schema.Spec{
		"POST https://hooks.test/…":              message(schema.SinkSlack, &schema.HTTPTarget{URL: "https://hooks.test/services/token"}),
		"POST https://x.test/…":                  message(schema.SinkTeams, &schema.HTTPTarget{URL: "https://x.test/workflows/a?sig=token"}),
		"POST https://y.test/…":                  message(schema.SinkWebhook, &schema.HTTPTarget{URL: "https://y.test/hook?k=token"}),
		"POST to the URL in the secret s":        message(schema.SinkSlack, &schema.HTTPTarget{URLSecret: "s"}),
		"POST https://hooks.test/services/token": plain, // of no rule
	} {
		if got := callOf(t.Context(), nil, spec); got != want {
			t.Errorf("callOf = %q, want %q", got, want)
		}
		work := spec.Work
		redactRun(&spec.Work, spec.Labels)
		if shown := spec.Work.HTTP.URL; strings.Contains(want, "…") != strings.HasSuffix(shown, ".test/…") || work.HTTP.URL == shown && strings.Contains(want, "…") {
			t.Errorf("a viewer sees the URL %q of %q", shown, want)
		}
	}
}
