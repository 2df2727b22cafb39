package notifications

import (
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// pagerDutyEvent is an event of PagerDuty's Events API v2, without routing_key: that is a secret,
// and is added when the call is made.
type pagerDutyEvent struct {
	Action  string                 `json:"event_action"` // trigger or resolve
	Dedup   string                 `json:"dedup_key"`    // events with the same are of one incident
	Client  string                 `json:"client,omitempty"`
	URL     string                 `json:"client_url,omitempty"` // the first example
	Payload *pagerDutyPayload      `json:"payload,omitempty"`    // of a trigger
	Links   []schema.PagerDutyLink `json:"links,omitempty"`
}

type pagerDutyPayload struct {
	Summary   string           `json:"summary"` // at most 1024 characters
	Source    string           `json:"source"`
	Severity  string           `json:"severity"`
	Timestamp time.Time        `json:"timestamp"`
	Component string           `json:"component,omitempty"` // the job
	Group     string           `json:"group,omitempty"`     // the rule
	Class     string           `json:"class,omitempty"`     // what happened
	Details   pagerDutyDetails `json:"custom_details"`
}

// pagerDutyDetails are what a person reads of an incident.
type pagerDutyDetails struct {
	Summary string            `json:"summary"`
	Labels  map[string]string `json:"labels"` // what is alike in the group
	Count   int64             `json:"count"`  // since the message before
	Total   int64             `json:"total"`  // since the group fires
	Since   time.Time         `json:"since,omitzero"`
	Runs    []string          `json:"runs,omitempty"` // examples
}

// pagerDutyBody: a group is an incident, which a repeated message joins and which a resolved one
// ends.
func pagerDutyBody(m *message, to *schema.PagerDutySink) any {
	e := pagerDutyEvent{Action: "trigger", Dedup: m.dedupKey()}
	if m.state == stateResolved {
		e.Action = "resolve"
		return e
	}
	severity := to.InForce().Severity
	if m.state == stateTest {
		severity = "info"
	}
	e.Client, e.URL, e.Links = "Carillon", m.firstLink(), slices.Clone(to.Links)
	for i, link := range m.links() {
		if link != "" {
			e.Links = append(e.Links, schema.PagerDutyLink{Href: link, Text: "run " + m.row.Examples[i].Run.String()})
		}
	}
	e.Payload = &pagerDutyPayload{
		Summary: m.title(), Source: "carillon/" + m.row.Tenant, Severity: severity, Timestamp: m.row.At.UTC(), Group: m.row.Rule,
		Details: pagerDutyDetails{
			Summary: m.summary(), Labels: m.labels(), Count: m.row.Told, Total: m.row.Total, Since: m.row.Since, Runs: m.lines(),
		},
	}
	for _, v := range m.row.Values {
		switch v.Name {
		case byJob:
			e.Payload.Component = say(v.Value, maxName)
		case byKind:
			e.Payload.Class = v.Value
		}
	}
	return e
}

// dedupKey returns a name of the group that stays when its rule is put again, so that what goes on
// joins the incident that is open. A test has its own. It has less than 255 characters.
func (m *message) dedupKey() string {
	if m.state == stateTest {
		return m.row.Tenant + "/" + m.row.Name
	}
	parts := []string{"dedup"}
	for _, v := range m.row.Values {
		parts = append(parts, v.Name, v.Value)
	}
	return fmt.Sprintf("%s/%s/%016x", m.row.Tenant, m.row.Rule, schema.HashOf(parts...))
}
