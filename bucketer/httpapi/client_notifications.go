package httpapi

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
)

func notificationPath(name, rest string) string {
	return notificationsPath + "/" + url.PathEscape(name) + rest
}

// PutNotification creates or replaces a rule for notifications; rule is a
// request.NotificationRequest as JSON.
func (c *Client) PutNotification(ctx context.Context, name string, rule json.RawMessage) (Notification, error) {
	var out Notification
	_, err := c.call(ctx, ask{method: http.MethodPut, path: notificationPath(name, ""), body: rule, repeatable: true}, &out)
	return out, err
}

// Notification returns a rule for notifications.
func (c *Client) Notification(ctx context.Context, name string) (Notification, error) {
	var out Notification
	_, err := c.call(ctx, ask{method: http.MethodGet, path: notificationPath(name, ""), repeatable: true}, &out)
	return out, err
}

// Notifications returns the rules for notifications of the tenant, by name. It ends with the first
// error.
func (c *Client) Notifications(ctx context.Context) iter.Seq2[Notification, error] {
	return func(yield func(Notification, error) bool) {
		eachItem(ctx, c, notificationsPath, url.Values{}, 0, yield)
	}
}

// DeleteNotification deletes a rule for notifications: within seconds nothing is told by it.
func (c *Client) DeleteNotification(ctx context.Context, name string) error {
	_, err := c.call(ctx, ask{method: http.MethodDelete, path: notificationPath(name, "")}, nil)
	return err
}

// TestNotification sends a test message to each sink of a rule. It is not sent again when its
// answer is lost.
func (c *Client) TestNotification(ctx context.Context, name string) (NotificationTested, error) {
	var out NotificationTested
	_, err := c.call(ctx, ask{method: http.MethodPost, path: notificationPath(name, "/test")}, &out)
	return out, err
}
