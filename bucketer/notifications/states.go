package notifications

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"carillon.dev/carillon/schema"
)

// Delivery is what became of a message at a sink.
type Delivery struct {
	Sink string
	Run  schema.RunID // that sends it
	// State is that of the run; "" if it is not there: it is about to be written, or was long ago.
	State schema.State
}

// RuleState is how a rule stands.
type RuleState struct {
	Mute   bool // it sends nothing now
	Firing int  // groups that a message told of, and none that all is well again
	Untold int64
	// LastAt is when the last message was decided; zero: none was lately. Groups are forgotten some
	// minutes after they are over.
	LastAt     time.Time
	Deliveries []Delivery // of the last message, in the order of the sinks
}

// NotificationStates returns how rules of a tenant stand, by their names. It reads the groups of
// the tenant, and the runs of each rule's last message.
func (r *Rules) NotificationStates(ctx context.Context, tenant string, rules []schema.NotificationRule) (map[string]RuleState, error) {
	now := r.core.Now()
	states, last := make(map[string]RuleState, len(rules)), make(map[string]schema.NotificationGroup, len(rules))
	for i := range rules {
		if rules[i].Fault == nil {
			states[rules[i].Name] = RuleState{Mute: isMute(&rules[i], now)}
		}
	}
	for after := ""; len(states) > 0; {
		page, err := r.store.NotificationGroups(ctx, tenant, after, groupPage)
		if err != nil {
			return nil, err
		}
		for i := range page {
			row := &page[i]
			st, asked := states[row.Rule]
			if row.Fault != nil || !asked {
				continue
			}
			if isFiring(row) {
				st.Firing++
			}
			st.Untold += row.Untold
			if !row.Silent && row.At.After(st.LastAt) {
				st.LastAt, last[row.Rule] = row.At, *row
			}
			states[row.Rule] = st
		}
		if len(page) < groupPage {
			break
		}
		after = page[len(page)-1].Name
	}
	return states, r.addDeliveries(ctx, rules, last, states)
}

// addDeliveries notes what became of the last message of each rule.
func (r *Rules) addDeliveries(ctx context.Context, rules []schema.NotificationRule, last map[string]schema.NotificationGroup, states map[string]RuleState) error {
	var ids []schema.RunID
	for i := range rules {
		row, told := last[rules[i].Name]
		if !told {
			continue
		}
		st := states[row.Rule]
		for s := range sinksOf(&row, &rules[i]) {
			name, _ := rules[i].Sinks[s].Target()
			st.Deliveries = append(st.Deliveries, Delivery{Sink: name, Run: messageID(&row, s)})
			ids = append(ids, messageID(&row, s))
		}
		states[row.Rule] = st
	}
	held, err := r.core.Stored(ctx, ids)
	if err != nil {
		return fmt.Errorf("runs of messages: %w", err)
	}
	ids = slices.DeleteFunc(ids, func(id schema.RunID) bool { _, ok := held[id]; return !ok })
	attempts, err := r.core.AttemptsOf(ctx, ids)
	if err != nil {
		return fmt.Errorf("runs of messages: %w", err)
	}
	for _, st := range states {
		for i := range st.Deliveries {
			d := &st.Deliveries[i]
			if e, ok := held[d.Run]; ok {
				d.State = schema.Fold(e.Marks, attempts[d.Run], func(schema.SessionRef) bool { return true })
			}
		}
	}
	return nil
}

// sinksOf returns how many of a rule's sinks the message of a row goes to: those that came since
// the decision are told of the next one.
func sinksOf(row *schema.NotificationGroup, rule *schema.NotificationRule) int {
	if row.Sinks > 0 {
		return min(len(rule.Sinks), row.Sinks)
	}
	return len(rule.Sinks)
}

// messageID returns the id of the run that tells a sink the message of a row.
func messageID(row *schema.NotificationGroup, sink int) schema.RunID {
	hash := schema.HashOf("notification", row.Tenant, row.Name, strconv.FormatInt(row.Flush, 10), strconv.Itoa(sink))
	return schema.MakeEntryID(row.At, row.Shard, hash)
}
