package httpapi

import (
	"context"
	"errors"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/notifications"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// Notifications keeps the rules by which a tenant is told what happens to its runs (engine.Engine
// has it).
type Notifications interface {
	// PutNotification answers notifications.ErrManyNotifications.
	PutNotification(ctx context.Context, r schema.NotificationRule) (stored schema.NotificationRule, created bool, err error)
	Notification(ctx context.Context, tenant, name string) (schema.NotificationRule, error)
	Notifications(ctx context.Context, tenant, after string, limit int) ([]schema.NotificationRule, error)
	DeleteNotification(ctx context.Context, tenant, name string) (schema.NotificationRule, error)
	// NotificationStates returns how rules of a tenant stand, by their names.
	NotificationStates(ctx context.Context, tenant string, rules []schema.NotificationRule) (map[string]notifications.RuleState, error)
	// TestNotification sends a message to each sink of a rule, and returns the runs.
	TestNotification(ctx context.Context, tenant, name string) ([]schema.RunID, error)
}

// Notification is a rule for notifications as the API answers it, with the values in force.
type Notification struct {
	Name        string                     `json:"name" example:"billing"`
	Tenant      string                     `json:"tenant" example:"default"`
	Description string                     `json:"description,omitempty"`
	On          []schema.NotificationKind  `json:"on" doc:"Of what it tells"`
	Match       schema.NotificationMatch   `json:"match,omitzero"`
	Sinks       []request.NotificationSink `json:"sinks" doc:"Where messages go. A viewer sees only the host of URLs, and no values of headers. Who may change the rule sees all that it says, since a change starts from that: nobody sees a URL that lies in a secret (url_secret)"`

	GroupBy        []string                  `json:"group_by"`
	GroupWait      schema.Duration           `json:"group_wait"`
	GroupInterval  schema.Duration           `json:"group_interval"`
	RepeatInterval schema.Duration           `json:"repeat_interval"`
	SendResolved   bool                      `json:"send_resolved"`
	Mute           []schema.MuteTimeInterval `json:"mute_time_intervals,omitempty"`

	CreatedAt Time               `json:"created_at,omitzero"`
	CreatedBy string             `json:"created_by,omitempty"`
	UpdatedAt Time               `json:"updated_at,omitzero"`
	BeganAt   Time               `json:"began_at,omitzero" doc:"Since when it takes what it takes: what happened before is not told"`
	State     *NotificationState `json:"state,omitempty" doc:"How it stands; not in the answer to a change"`
	Fault     string             `json:"fault,omitempty" doc:"Why what is stored of it cannot be understood: then nothing but its name is known, and nothing is told by it"`
}

// NotificationState is how a rule stands.
type NotificationState struct {
	Muted         bool       `json:"muted" doc:"A mute time interval lasts: nothing is sent"`
	Firing        int        `json:"firing" doc:"Groups of which a message told, and none that all is well again"`
	Untold        int64      `json:"untold" doc:"What happened and no message told yet, as far as it is written"`
	LastMessageAt Time       `json:"last_message_at,omitzero" doc:"Of the groups that are remembered: until some minutes after they are over"`
	Deliveries    []Delivery `json:"deliveries,omitempty" doc:"Of that message: a run for each sink, in their order"`
}

// Delivery is what became of a message at a sink.
type Delivery struct {
	Sink  string       `json:"sink" example:"slack"`
	Run   schema.RunID `json:"run_id"`
	State schema.State `json:"state,omitempty" doc:"Of the run: succeeded is taken by the sink, failed is not, after all attempts. Absent: it is not there"`
}

func notificationStateOf(st *notifications.RuleState) *NotificationState {
	out := &NotificationState{Muted: st.Mute, Firing: st.Firing, Untold: st.Untold, LastMessageAt: Time{st.LastAt}}
	for _, d := range st.Deliveries {
		out.Deliveries = append(out.Deliveries, Delivery(d))
	}
	return out
}

func notificationOf(r schema.NotificationRule) Notification {
	out := Notification{
		Name: r.Name, Tenant: r.Tenant, Description: r.Description, On: r.On, Match: r.Match, Sinks: []request.NotificationSink{},
		GroupBy: r.GroupBy, GroupWait: r.GroupWait, GroupInterval: r.GroupInterval, RepeatInterval: r.RepeatInterval, SendResolved: r.SendResolved,
		Mute: r.Mute, CreatedAt: Time{r.CreatedAt}, CreatedBy: r.CreatedBy, UpdatedAt: Time{r.UpdatedAt}, BeganAt: Time{r.Began()}, Fault: faultOf(r.Fault),
	}
	if out.On == nil {
		out.On = []schema.NotificationKind{}
	}
	if out.GroupBy == nil {
		out.GroupBy = []string{}
	}
	for _, s := range r.Sinks {
		out.Sinks = append(out.Sinks, request.NotificationSink{
			Webhook: sinkCallOf(s.Webhook), Slack: sinkCallOf(s.Slack), Teams: sinkCallOf(s.Teams), Alertmanager: sinkCallOf(s.Alertmanager),
			PagerDuty: pagerDutyOf(s.PagerDuty), Email: emailOf(s.Email),
		})
	}
	return out
}

func pagerDutyOf(s *schema.PagerDutySink) *schema.PagerDutySink {
	if s == nil {
		return nil
	}
	out := s.InForce()
	return &out
}

func emailOf(t *schema.EmailTarget) *schema.EmailTarget {
	if t == nil || t.Server == nil {
		return t
	}
	out, server := *t, t.Server.InForce()
	out.Server = &server
	return &out
}

func sinkCallOf(h *schema.HTTPTarget) *request.SinkCall {
	if h == nil {
		return nil
	}
	return &request.SinkCall{URL: h.URL, URLSecret: h.URLSecret, Headers: h.Headers, SigningKey: h.SigningKey, Auth: h.Auth}
}

// redactedNotification is a rule without what lets others send by it: values of headers, and URLs,
// by which many callees know a sender, behind their host.
func redactedNotification(r schema.NotificationRule) Notification {
	sinks := make([]schema.NotificationSink, len(r.Sinks))
	for i, s := range r.Sinks {
		sinks[i] = schema.NotificationSink{
			Webhook: redactedCall(s.Webhook), Slack: redactedCall(s.Slack), Teams: redactedCall(s.Teams), Alertmanager: redactedCall(s.Alertmanager),
			PagerDuty: s.PagerDuty, Email: s.Email,
		}
	}
	r.Sinks = sinks
	return notificationOf(r)
}

func redactedCall(h *schema.HTTPTarget) *schema.HTTPTarget {
	if h == nil {
		return nil
	}
	out := *withoutSecrets(schema.Work{HTTP: h}).HTTP
	out.URL = hostAlone(out.URL)
	return &out
}

type (
	notificationByName struct {
		Name string `path:"name" doc:"The name of the notification" example:"billing"`
	}
	notificationPut struct {
		Name string `path:"name" doc:"The name of the notification" example:"billing"`
		body
	}
	notificationTest struct {
		Name string `path:"name" doc:"The name of the notification" example:"billing"`
		body
	}
	notificationAnswer struct {
		Status int
		Body   Notification
	}
	notificationList struct {
		Body struct {
			Items      []Notification `json:"items"`
			NextCursor string         `json:"next_cursor,omitempty"`
		}
	}
	notificationTested struct {
		Body NotificationTested
	}
)

// NotificationTested says by which runs messages are sent.
type NotificationTested struct {
	Runs []schema.RunID `json:"runs" doc:"A run for each sink, in their order"`
}

const notificationsPath = "/v1/notifications"

// notificationRoutes serves rules for notifications.
type notificationRoutes struct{ *Server }

func (s notificationRoutes) route() {
	const path = notificationsPath + "/{name}"
	op := s.operation("put-notification", http.MethodPut, path, "Create or replace a rule for notifications", 200, 400, 408, 409, 413, 415, 422, 429, 503)
	op.Description = "Says of what the tenant is told, where, and how often: what is alike is told together, in the words of Prometheus Alertmanager. " +
		"Each message is a run with the label notification=<name>: it is retried, and shown as every other run. A rule that is put again with another on, match or group_by begins anew: what happened before is not told. " +
		"A tenant may have 100 rules: beyond that it is 409."
	huma.Register(s.api, op, s.putNotification)
	s.alsoAnswers(path, http.MethodPut, http.StatusCreated, http.StatusOK)
	s.describeBody(path, http.MethodPut, reflect.TypeFor[request.NotificationRequest](), "application/json")
	huma.Register(s.api, s.operation("get-notification", http.MethodGet, path, "A rule for notifications", 200, 404, 409, 422, 503), s.getNotification)
	huma.Register(s.api, s.operation("list-notifications", http.MethodGet, notificationsPath, "The rules for notifications of the tenant, by name", 200, 422, 503), s.listNotifications)
	huma.Register(s.api, s.operation("delete-notification", http.MethodDelete, path, "Delete a rule for notifications: within seconds nothing is told by it", 204, 404, 422, 503), s.deleteNotification)
	op = s.operation("test-notification", http.MethodPost, path+"/test", "Send a test message to each sink of a rule", 200, 400, 404, 408, 409, 413, 415, 422, 429, 503)
	op.Description = "The runs that are answered show whether the sinks take it."
	huma.Register(s.api, op, s.testNotification)
}

// notifications returns what keeps the rules.
func (s notificationRoutes) notifications() (Notifications, error) {
	if s.deps.Notifications == nil {
		return nil, notFound("This node keeps no notifications.")
	}
	return s.deps.Notifications, nil
}

// shown returns a rule as the caller may see it.
func (s notificationRoutes) shown(ctx context.Context, r schema.NotificationRule) Notification {
	if redacts(ctx) {
		return redactedNotification(r)
	}
	return notificationOf(r)
}

func (s notificationRoutes) putNotification(ctx context.Context, in *notificationPut) (*notificationAnswer, error) {
	rules, err := s.notifications()
	if err != nil {
		return nil, err
	}
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	rule, err := d.Notification(tenantOf(ctx), in.Name, text)
	if err != nil {
		return nil, s.fail(ctx, "put notification", err)
	}
	rule.CreatedBy = actorOf(ctx)
	var before any
	if was, err := rules.Notification(ctx, rule.Tenant, rule.Name); err == nil {
		before = redactedNotification(was)
	}
	stored, created, err := rules.PutNotification(ctx, rule)
	if err != nil {
		return nil, s.fail(ctx, "put notification", err)
	}
	out := &notificationAnswer{Status: http.StatusOK, Body: s.shown(ctx, stored)}
	action := "update"
	if created {
		action, out.Status, before = "create", http.StatusCreated, nil
	}
	s.note(ctx, action, "notification/"+stored.Name, before, redactedNotification(stored), "")
	return out, nil
}

func (s notificationRoutes) getNotification(ctx context.Context, in *notificationByName) (*notificationAnswer, error) {
	rules, err := in.check(s)
	if err != nil {
		return nil, err
	}
	found, err := rules.Notification(ctx, tenantOf(ctx), in.Name)
	if err != nil {
		return nil, s.fail(ctx, "read notification", err)
	}
	states, err := rules.NotificationStates(ctx, tenantOf(ctx), []schema.NotificationRule{found})
	if err != nil {
		return nil, s.fail(ctx, "read notification", err)
	}
	out := &notificationAnswer{Status: http.StatusOK, Body: s.shown(ctx, found)}
	if st, ok := states[found.Name]; ok {
		out.Body.State = notificationStateOf(&st)
	}
	return out, nil
}

func (s notificationRoutes) listNotifications(ctx context.Context, in *page) (*notificationList, error) {
	rules, err := s.notifications()
	if err != nil {
		return nil, err
	}
	out := new(notificationList)
	var states map[string]notifications.RuleState
	out.Body.Items, out.Body.NextCursor, err = listed(s.cursors, []string{"notifications", tenantOf(ctx)}, in.Cursor, in.Limit,
		func(after string, limit int) ([]schema.NotificationRule, error) {
			found, err := rules.Notifications(ctx, tenantOf(ctx), after, limit)
			if err == nil {
				states, err = rules.NotificationStates(ctx, tenantOf(ctx), found)
			}
			return found, err
		},
		func(found *schema.NotificationRule) string { return found.Name },
		func(found schema.NotificationRule) Notification {
			shown := s.shown(ctx, found)
			if st, ok := states[found.Name]; ok {
				shown.State = notificationStateOf(&st)
			}
			return shown
		})
	if err != nil {
		return nil, s.fail(ctx, "list notifications", err)
	}
	return out, nil
}

func (s notificationRoutes) deleteNotification(ctx context.Context, in *notificationByName) (*struct{}, error) {
	rules, err := in.check(s)
	if err != nil {
		return nil, err
	}
	was, err := rules.DeleteNotification(ctx, tenantOf(ctx), in.Name)
	if err != nil {
		return nil, s.fail(ctx, "delete notification", err)
	}
	s.note(ctx, "delete", "notification/"+in.Name, redactedNotification(was), nil, "")
	return nil, nil //nolint:nilnil // huma's way to say 204
}

func (s notificationRoutes) testNotification(ctx context.Context, in *notificationTest) (*notificationTested, error) {
	rules, err := (&notificationByName{in.Name}).check(s)
	if err != nil {
		return nil, err
	}
	if err := s.noBody(&in.body); err != nil {
		return nil, s.fail(ctx, "test notification", err)
	}
	ids, err := rules.TestNotification(ctx, tenantOf(ctx), in.Name)
	if err != nil {
		return nil, s.fail(ctx, "test notification", err)
	}
	s.note(ctx, "test", "notification/"+in.Name, nil, nil, "")
	return &notificationTested{NotificationTested{ids}}, nil
}

// fail is Server.fail. A rule that cannot be understood is no job.
func (s notificationRoutes) fail(ctx context.Context, what string, err error) error {
	if !errors.Is(err, schema.ErrNotUnderstood) {
		return s.Server.fail(ctx, what, err)
	}
	p := problemOf(err)
	p.Detail = "Nothing was changed. A newer version wrote it, or it is damaged: ask a node of that version, or put it again."
	return p
}

// check checks the name, and returns what keeps the rules.
func (n *notificationByName) check(s notificationRoutes) (Notifications, error) {
	if what := bucketer.NameFault(n.Name); what != "" {
		return nil, invalid(bucketer.Fault{Location: "path.name", Message: what})
	}
	return s.notifications()
}
