package notifications

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// The defaults of a rule, as Alertmanager has them.
const (
	DefaultGroupWait      = 30 * time.Second
	DefaultGroupInterval  = 5 * time.Minute
	DefaultRepeatInterval = 4 * time.Hour
)

// DefaultGroupBy is how a rule groups that does not say it.
var DefaultGroupBy = []string{byJob, byError}

const (
	// rulesFresh is how long what was read of a tenant's rules is taken for what they are.
	rulesFresh = 5 * time.Second
	// rulesCached bounds the tenants whose rules are remembered; beyond it all are forgotten.
	rulesCached = 10_000
)

// ErrManyNotifications: the tenant has as many rules as there may be (409).
var ErrManyNotifications = errors.New("there are as many notifications as there may be")

// Rules keeps the rules of tenants. Its methods may be called from any goroutine.
type Rules struct {
	core    *bucketer.Bucketer
	store   bucketer.Store
	metrics *metrics
	base    string // LinkTo

	reads singleflight.Group
	mu    sync.Mutex
	known map[string]knownRules
}

type knownRules struct {
	rules []schema.NotificationRule
	at    time.Time
}

// NewRules returns the rules that lie in the store of the Bucketer.
func NewRules(core *bucketer.Bucketer, store bucketer.Store, reg prometheus.Registerer) *Rules {
	return &Rules{core: core, store: store, metrics: newMetrics(reg), known: make(map[string]knownRules)}
}

// PutNotification creates a rule or replaces it, within rulesFresh for nodes that remember others.
// It begins anew, so that only what happens from now on is told, unless it takes and groups what it
// did before. It answers ErrManyNotifications.
func (r *Rules) PutNotification(ctx context.Context, rule schema.NotificationRule) (stored schema.NotificationRule, created bool, err error) {
	if err := r.core.NoteNotifying(ctx, rule.Tenant); err != nil {
		return rule, false, err
	}
	rule.UpdatedAt = r.core.Now().UTC().Truncate(time.Microsecond)
	rule.CreatedAt = rule.UpdatedAt.Truncate(time.Millisecond)
	was, err := r.store.Notification(ctx, rule.Tenant, rule.Name)
	switch {
	case err == nil:
		rule.CreatedAt, rule.CreatedBy = was.CreatedAt, was.CreatedBy
		if rule.TakesAs(&was) {
			rule.BeganAt = was.Began()
		}
		if !rule.UpdatedAt.After(was.UpdatedAt) { // written by a node whose clock is ahead
			rule.UpdatedAt = was.UpdatedAt.Add(time.Microsecond)
		}
	case errors.Is(err, schema.ErrNotFound):
		created = true
		all, err := r.store.Notifications(ctx, rule.Tenant, "", schema.MaxNotifications)
		if err != nil {
			return rule, false, err
		}
		if len(all) >= schema.MaxNotifications {
			return rule, false, ErrManyNotifications
		}
	case !errors.Is(err, schema.ErrNotUnderstood):
		return rule, false, err
	}
	if err := r.store.PutNotification(ctx, rule); err != nil {
		return rule, false, err
	}
	r.forget(rule.Tenant)
	if created && r.isOneTooMany(ctx, &rule) {
		return rule, false, ErrManyNotifications
	}
	return rule, created, nil
}

// isOneTooMany takes a rule back that was added at once with others, all of which found room for
// one. Perhaps all of them are taken back. What cannot be read stays.
func (r *Rules) isOneTooMany(ctx context.Context, rule *schema.NotificationRule) bool {
	all, err := r.store.Notifications(ctx, rule.Tenant, "", schema.MaxNotifications+1)
	if err != nil || len(all) <= schema.MaxNotifications {
		return false
	}
	defer r.forget(rule.Tenant)
	return r.store.DeleteNotification(ctx, rule.Tenant, rule.Name, bucketer.Latest(r.core.Now(), rule.UpdatedAt.Add(time.Microsecond))) == nil
}

// Notification returns a rule, or schema.ErrNotFound.
func (r *Rules) Notification(ctx context.Context, tenant, name string) (schema.NotificationRule, error) {
	return r.store.Notification(ctx, tenant, name)
}

// Notifications returns at most limit rules of a tenant with a name after `after`, in name order.
func (r *Rules) Notifications(ctx context.Context, tenant, after string, limit int) ([]schema.NotificationRule, error) {
	return r.store.Notifications(ctx, tenant, after, limit)
}

// DeleteNotification deletes a rule, or answers schema.ErrNotFound. Within seconds nothing is told
// by it.
func (r *Rules) DeleteNotification(ctx context.Context, tenant, name string) (schema.NotificationRule, error) {
	was, err := r.store.Notification(ctx, tenant, name)
	if err != nil && !errors.Is(err, schema.ErrNotUnderstood) {
		return was, err
	}
	if err := r.store.DeleteNotification(ctx, tenant, name, bucketer.Latest(r.core.Now(), was.UpdatedAt)); err != nil {
		return was, err
	}
	r.forget(tenant)
	return was, nil
}

// TestNotification sends a message by a rule to each of its sinks, and returns the runs.
func (r *Rules) TestNotification(ctx context.Context, tenant, name string) ([]schema.RunID, error) {
	rule, err := r.store.Notification(ctx, tenant, name)
	if err != nil {
		return nil, err
	}
	now := r.core.Now().UTC().Truncate(millisecond)
	row := schema.NotificationGroup{
		Tenant: tenant, Name: fmt.Sprintf("%s/test-%x", name, schema.RandomHash()), Rule: name, RuleAt: rule.Began(), Values: []schema.NotificationValue{{Name: byJob, Value: "test"}},
		Since: now, At: now, Flush: 1, Told: 1, Total: 1,
		Examples: []schema.NotifiedRun{{Kind: schema.NotifyFailed, At: now, Job: "test", Error: "this is a test: nothing has failed"}},
	}
	s, err := r.core.InForce()
	if err != nil {
		return nil, err
	}
	row.Shard = r.shardOf(&row, s.Shards)
	return r.send(ctx, &row, &rule, true)
}

func (r *Rules) forget(tenant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, tenant)
}

// of returns the rules of a tenant, as they were read lately.
func (r *Rules) of(ctx context.Context, tenant string) ([]schema.NotificationRule, error) {
	r.mu.Lock()
	k, ok := r.known[tenant]
	r.mu.Unlock()
	if ok && time.Since(k.at) < rulesFresh {
		return k.rules, nil
	}
	got, err, _ := r.reads.Do(tenant, func() (any, error) {
		at := time.Now()
		rules, err := r.store.Notifications(ctx, tenant, "", schema.MaxNotifications)
		if err != nil {
			return nil, fmt.Errorf("rules for notifications: %w", err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.known) >= rulesCached {
			clear(r.known)
		}
		r.known[tenant] = knownRules{rules, at}
		return rules, nil
	})
	rules, _ := got.([]schema.NotificationRule)
	return rules, err
}

// Wants implements runs.Incidents. While the rules cannot be read any may take the incident.
func (r *Rules) Wants(ctx context.Context, n *schema.Incident) bool {
	rules, err := r.of(ctx, n.Tenant)
	return err != nil || slices.ContainsFunc(rules, func(rule schema.NotificationRule) bool {
		_, ok := takes(&rule, n)
		return ok
	})
}

// InARow implements runs.Incidents.
func (r *Rules) InARow(ctx context.Context, n *schema.Incident) (most int, err error) {
	rules, err := r.of(ctx, n.Tenant)
	if err != nil {
		return 0, err
	}
	for i := range rules {
		if rules[i].Match.InARow > most {
			if _, ok := mayTake(&rules[i], n); ok {
				most = rules[i].Match.InARow
			}
		}
	}
	return most, nil
}

// Delivered implements runs.Incidents.
func (r *Rules) Delivered(spec *schema.Spec, rec *schema.Record) {
	switch {
	case rec.Outcome == schema.Succeeded:
		r.metrics.count(spec.Labels[SinkLabel], delivered)
	case rec.Ruined():
		r.metrics.count(spec.Labels[SinkLabel], failed)
	}
}
