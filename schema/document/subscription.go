package document

import (
	"context"
	"fmt"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

// subscriptions is the role of schema.SubscriptionStore. It is apart since Roles has many methods.
type subscriptions struct{ rows Rows }

// EventScope returns the scope of subscriptions: tenant, a zero byte, event. Neither holds a zero
// byte.
func EventScope(tenant, event string) string { return tenant + "\x00" + event }

// ParseEventScope is the inverse of EventScope.
func ParseEventScope(scope string) (tenant, event string) {
	tenant, event, _ = strings.Cut(scope, "\x00")
	return tenant, event
}

func subscriptionDocument(s *schema.Subscription) Document {
	return Document{
		Kind: Subscription, Scope: EventScope(s.Tenant, s.Event), Name: string(s.Subscriber[:]), Written: s.Written, Expires: s.Expires,
	}
}

// PutSubscription implements schema.SubscriptionStore.
func (r subscriptions) PutSubscription(ctx context.Context, s schema.Subscription) error {
	if err := r.rows.PutDocuments(ctx, subscriptionDocument(&s)); err != nil {
		return fmt.Errorf("subscribe %s to %s of %s: %w", s.Subscriber, s.Event, s.Tenant, err)
	}
	return nil
}

// DeleteSubscription implements schema.SubscriptionStore.
func (r subscriptions) DeleteSubscription(ctx context.Context, s schema.Subscription) error {
	d := subscriptionDocument(&s)
	d.Deleted = true
	if err := r.rows.PutDocuments(ctx, d); err != nil {
		return fmt.Errorf("unsubscribe %s from %s of %s: %w", s.Subscriber, s.Event, s.Tenant, err)
	}
	return nil
}

// PutListening implements schema.SubscriptionStore.
func (r subscriptions) PutListening(ctx context.Context, tenant string, at time.Time) error {
	if err := r.rows.PutDocuments(ctx, Document{Kind: Listening, Name: tenant, Written: at}); err != nil {
		return fmt.Errorf("note that %s listens: %w", tenant, err)
	}
	return nil
}

// Listening implements schema.SubscriptionStore.
func (r subscriptions) Listening(ctx context.Context, after string, limit int) ([]string, error) {
	docs, err := r.rows.Documents(ctx, Listening, "", after, limit)
	if err != nil {
		return nil, fmt.Errorf("read which tenants listen: %w", err)
	}
	tenants := make([]string, len(docs))
	for i := range docs {
		tenants[i] = docs[i].Name
	}
	return tenants, nil
}

// Subscribers implements schema.SubscriptionStore.
func (r subscriptions) Subscribers(ctx context.Context, tenant, event string, after schema.EntryID, limit int) ([]schema.EntryID, error) {
	name := ""
	if !after.IsZero() {
		name = string(after[:])
	}
	docs, err := r.rows.Documents(ctx, Subscription, EventScope(tenant, event), name, limit)
	if err != nil {
		return nil, fmt.Errorf("read subscribers of %s of %s: %w", event, tenant, err)
	}
	ids := make([]schema.EntryID, len(docs))
	for i := range docs {
		copy(ids[i][:], docs[i].Name)
	}
	return ids, nil
}
