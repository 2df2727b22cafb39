package notifications

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// The labels of the runs of messages.
const (
	RuleLabel = "notification" // the rule
	SinkLabel = "sink"         // schema.NotificationSinks
)

// How a message is tried: some 20 minutes long, at low priority.
const (
	messageTimeout  = schema.Duration(15 * time.Second)
	mailTimeout     = schema.Duration(time.Minute) // mail servers let strangers wait on purpose
	messageAttempts = 8
)

// shardOf returns the shard of the runs of a group's messages.
func (r *Rules) shardOf(row *schema.NotificationGroup, shards int) schema.Shard {
	return r.core.Regions().KeyedShard(row.Tenant, schema.HashOf("notification", row.Tenant, row.Name), shards)
}

// runOf makes, without writing it, the run that tells a sink the message of a row.
func (r *Rules) runOf(row *schema.NotificationGroup, rule *schema.NotificationRule, i int, test bool) (e schema.Entry, sink string, err error) {
	sink, work := rule.Sinks[i].Target()
	if sink == "" {
		return e, "", fmt.Errorf("sink %d of notification %s: %w", i, rule.Name, schema.ErrNotUnderstood)
	}
	m := messageOf(row, rule, test)
	m.sink, m.base = i, r.base
	body, err := bodyFor(&rule.Sinks[i], m)
	if err != nil {
		return e, sink, err
	}
	work.Timeout = messageTimeout
	if work.Email != nil {
		work.Timeout = mailTimeout
	}
	work.Retry = &schema.Retry{MaxAttempts: messageAttempts, Initial: schema.Duration(5 * time.Second), Factor: 3, Max: schema.Duration(10 * time.Minute), Jitter: "full"}
	id, days := messageID(row, i), r.core.RetentionOf(row.Tenant)
	says := schema.Spec{
		Tenant: row.Tenant, Nominal: id.Time(), Accepted: r.core.StampOf(row.At.UnixMicro(), days), Trigger: schema.TriggerNotification, Priority: schema.Low,
		Work: &work, Labels: map[string]string{RuleLabel: row.Rule, SinkLabel: sink}, Retention: days,
	}
	e, err = schema.NewEntry(id, says, body, r.core.ExpiryOf(&says, id.Time(), row.At))
	return e, sink, err
}

// send writes the runs that tell the message of a row, unless they are held already, and returns
// their ids. Calling it again writes the same. A sink that this build does not know is left out,
// and counted.
func (r *Rules) send(ctx context.Context, row *schema.NotificationGroup, rule *schema.NotificationRule, test bool) ([]schema.RunID, error) {
	var entries []schema.Entry
	var names []string
	var ids []schema.EntryID
	for i := range sinksOf(row, rule) {
		e, sink, err := r.runOf(row, rule, i, test)
		switch {
		case errors.Is(err, schema.ErrNotUnderstood): // of a newer version
			r.metrics.failures.Inc()
			continue
		case err != nil:
			return nil, err
		}
		entries, names, ids = append(entries, e), append(names, sink), append(ids, e.ID)
	}
	held, err := r.core.Stored(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("runs of a message: %w", err)
	}
	var known []schema.Entry
	for i := range entries {
		if e, ok := held[ids[i]]; ok {
			known = append(known, e)
			continue
		}
		if err := r.core.WriteNew(ctx, entries[i]); err != nil {
			return nil, fmt.Errorf("run of a message: %w", err)
		}
		r.metrics.count(names[i], sent)
	}
	// They may have been held too late for their sweep, by an owner that crashed.
	return ids, r.core.CheckLate(ctx, known)
}

// bodyFor returns the body by which a sink is told a message.
func bodyFor(sink *schema.NotificationSink, m *message) (json.RawMessage, error) {
	var body any
	switch {
	case sink.Webhook != nil:
		body = webhookBody(m)
	case sink.Slack != nil:
		body = slackBody(m)
	case sink.Teams != nil:
		body = teamsBody(m)
	case sink.Alertmanager != nil:
		body = alertmanagerBody(m)
	case sink.Email != nil:
		body = emailBody(m)
	case sink.PagerDuty != nil:
		body = pagerDutyBody(m, sink.PagerDuty)
	}
	return json.Marshal(body)
}
