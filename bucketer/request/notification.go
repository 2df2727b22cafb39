package request

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"carillon.dev/carillon/bucketer/notifications"
	"carillon.dev/carillon/schema"
)

// Bounds of a rule for notifications.
const (
	maxGroupBy     = 8
	maxGlob        = maxLabelValue // bytes
	maxMutes       = 16
	maxMuteRanges  = 32  // of a field of one
	maxLinkText    = 255 // bytes
	minGroupWait   = 0 * time.Second
	minGroupRepeat = time.Minute
	maxGroupSpan   = 7 * 24 * time.Hour
)

// NotificationRequest is the body of PUT /v1/notifications/{name}. What is left out has the default of
// Alertmanager.
type NotificationRequest struct {
	Description    string                    `json:"description,omitempty"`
	On             []schema.NotificationKind `json:"on"`
	Match          schema.NotificationMatch  `json:"match,omitzero"`
	Sinks          []NotificationSink        `json:"sinks"`
	GroupBy        []string                  `json:"group_by,omitzero"`
	GroupWait      *schema.Duration          `json:"group_wait,omitempty"`
	GroupInterval  *schema.Duration          `json:"group_interval,omitempty"`
	RepeatInterval *schema.Duration          `json:"repeat_interval,omitempty"`
	SendResolved   *bool                     `json:"send_resolved,omitempty"`

	Mute []schema.MuteTimeInterval `json:"mute_time_intervals,omitempty"`
}

// NotificationSink is where messages go: exactly one field is set.
type NotificationSink struct {
	Webhook      *SinkCall `json:"webhook,omitempty"`
	Slack        *SinkCall `json:"slack,omitempty"`
	Teams        *SinkCall `json:"teams,omitempty"`
	Alertmanager *SinkCall `json:"alertmanager,omitempty"`

	PagerDuty *schema.PagerDutySink `json:"pagerduty,omitempty"`
	Email     *schema.EmailTarget   `json:"email,omitempty"`
}

// SinkCall is how a sink is called: a POST of JSON, as an HTTP task makes it. Either URL or
// URLSecret is set.
type SinkCall struct {
	URL        string            `json:"url,omitempty"`
	URLSecret  string            `json:"url_secret,omitempty"` // the tenant's secret that holds the URL
	Headers    map[string]string `json:"headers,omitempty"`
	SigningKey string            `json:"signing_key,omitempty"`
	Auth       *schema.HTTPAuth  `json:"auth,omitempty"`
}

// Notification reads the body of PUT /v1/notifications/{name}. A fault of the name is located at
// path.name.
func (d *Decoder) Notification(tenant, name string, body []byte) (schema.NotificationRule, error) {
	if !d.begin(body) {
		return schema.NotificationRule{}, d.err()
	}
	d.faults = append(d.faults, pathFaults("path.name", name)...)
	r := notificationReader{workReader: workReader{d: d, tenant: tenant, urlSecret: true}, rule: schema.NotificationRule{
		Tenant: tenant, Name: name, GroupBy: slices.Clone(notifications.DefaultGroupBy), GroupWait: schema.Duration(notifications.DefaultGroupWait),
		GroupInterval: schema.Duration(notifications.DefaultGroupInterval), RepeatInterval: schema.Duration(notifications.DefaultRepeatInterval), SendResolved: true,
	}}
	var on, sinks bool
	for c := range d.members(0) {
		field := string(d.doc.name(c))
		on, sinks = on || field == "on", sinks || field == "sinks"
		r.field(field, c)
	}
	if other := slices.IndexFunc(r.rule.On, isNoFailure); r.inARow && other >= 0 {
		d.faultAt(d.doc.location(0)+".match.in_a_row", "cannot be stated with %s in on: it is for failed, dead and recovered", r.rule.On[other])
	}
	if r.lateBy && !slices.Contains(r.rule.On, schema.NotifyLate) {
		d.faultAt(d.doc.location(0)+".match.late_by", "can be stated only with late in on")
	}
	d.require(0, on, "on")
	d.require(0, sinks, "sinks")
	if err := d.err(); err != nil {
		return schema.NotificationRule{}, err
	}
	return r.rule, nil
}

// notificationReader reads a rule.
type notificationReader struct {
	workReader
	rule           schema.NotificationRule
	inARow, lateBy bool // match states it, right or wrong
}

func (r *notificationReader) field(name string, c int32) {
	d, rule := r.d, &r.rule
	switch name {
	case "description":
		rule.Description = d.text(c, maxDescription)
	case "on":
		rule.On = r.kinds(c)
	case "match":
		rule.Match = r.match(c)
	case "sinks":
		r.each(c, schema.MaxNotificationSinks, func(s int32) { rule.Sinks = append(rule.Sinks, r.sink(s)) })
		if d.is(c, kindArray) && len(rule.Sinks) == 0 {
			d.faultQuietly(c, "must not be empty")
		}
	case "group_by":
		rule.GroupBy = []string{}
		r.each(c, maxGroupBy, func(w int32) { rule.GroupBy = append(rule.GroupBy, d.checked(w, groupWayFault)) })
	case "group_wait":
		rule.GroupWait = d.duration(c, minGroupWait, maxGroupSpan)
	case "group_interval":
		rule.GroupInterval = d.duration(c, minGroupRepeat, maxGroupSpan)
	case "repeat_interval":
		rule.RepeatInterval = d.duration(c, minGroupRepeat, maxGroupSpan)
	case "send_resolved":
		if rule.SendResolved = d.is(c, kindTrue); !rule.SendResolved && !d.is(c, kindFalse) {
			d.fault(c, "must be true or false")
		}
	case "mute_time_intervals":
		r.each(c, maxMutes, func(m int32) { rule.Mute = append(rule.Mute, r.mute(m)) })
	default:
		d.faultQuietly(c, "is not a field of a notification")
	}
}

// each reads the elements of an array, at most so many.
func (r *notificationReader) each(i int32, most int, read func(c int32)) {
	if !r.d.is(i, kindArray) {
		r.d.fault(i, "must be an array")
		return
	}
	n := 0
	for c := range r.d.allMembers(i) {
		if n++; n > most {
			r.d.faultQuietly(i, "must be at most %d", most)
			return
		}
		read(c)
	}
}

func (r *notificationReader) kinds(i int32) (kinds []schema.NotificationKind) {
	words := make([]string, len(schema.NotificationKinds))
	for k, kind := range schema.NotificationKinds {
		words[k] = string(kind)
	}
	r.each(i, len(words), func(c int32) {
		kind := schema.NotificationKind(r.d.oneOf(c, words))
		if kind != "" && slices.Contains(kinds, kind) {
			r.d.fault(c, "is there twice")
		}
		kinds = append(kinds, kind)
	})
	if r.d.is(i, kindArray) && len(kinds) == 0 {
		r.d.faultQuietly(i, "must not be empty: %s", strings.Join(words, ", "))
	}
	return kinds
}

func (r *notificationReader) match(i int32) (m schema.NotificationMatch) {
	d := r.d
	for c := range d.object(i) {
		switch name := string(d.doc.name(c)); name {
		case "job":
			m.Job = d.checked(c, globFault)
		case "task":
			m.Task = d.checked(c, globFault)
		case "workflow":
			m.Workflow = d.checked(c, globFault)
		case "labels":
			m.Labels = d.labels(c)
		case "in_a_row":
			r.inARow, m.InARow = true, d.integer(c, schema.MinInARow, schema.MaxInARow)
		case "late_by":
			r.lateBy, m.LateBy = true, d.duration(c, schema.LateStart, schema.MaxLateBy)
		default:
			d.faultQuietly(c, "is not a field of match")
		}
	}
	return m
}

// isNoFailure reports whether a kind tells of something else than runs that failed, or succeeded
// after that.
func isNoFailure(kind schema.NotificationKind) bool {
	return kind != "" && kind != schema.NotifyFailed && kind != schema.NotifyDead && kind != schema.NotifyRecovered
}

// globFault says what is wrong with a text that others must fit, or "".
func globFault(s string) string {
	switch {
	case s == "" || len(s) > maxGlob:
		return "must be a name, or a glob with * and ?, of at most 255 bytes"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "must not hold control characters"
	}
	return ""
}

// groupWayFault says what is wrong with a way to group, or "".
func groupWayFault(s string) string {
	if label, ok := notifications.GroupLabel(s); ok && isLabelName(label) || slices.Contains(notifications.GroupWays, s) {
		return ""
	}
	return "must be one of " + strings.Join(notifications.GroupWays, ", ") + ", or label.NAME"
}

func (r *notificationReader) sink(i int32) (s schema.NotificationSink) {
	d, n := r.d, 0
	for c := range d.object(i) {
		name := string(d.doc.name(c))
		n++
		switch name {
		case schema.SinkWebhook:
			s.Webhook = r.call(c)
		case schema.SinkSlack:
			s.Slack = r.call(c)
		case schema.SinkTeams:
			s.Teams = r.call(c)
		case schema.SinkAlertmanager:
			s.Alertmanager = r.call(c)
		case schema.SinkPagerDuty:
			s.PagerDuty = r.pagerDuty(c)
		case schema.SinkEmail:
			s.Email = r.email(c)
		default:
			d.faultQuietly(c, "is no sink: there are %s", strings.Join(schema.NotificationSinks, ", "))
		}
	}
	if d.is(i, kindObject) && n != 1 {
		d.faultQuietly(i, "must have exactly one of %s", strings.Join(schema.NotificationSinks, ", "))
	}
	return s
}

// call reads how a sink is called.
func (r *notificationReader) call(i int32) *schema.HTTPTarget {
	if r.d.is(i, kindObject) {
		for c := range r.d.members(i) {
			if name := string(r.d.doc.name(c)); name == "method" || name == "body" {
				r.d.faultQuietly(c, "cannot be stated: a sink is called by POST, with a message as its body")
			}
		}
	}
	return r.http(i)
}

func (r *notificationReader) pagerDuty(i int32) *schema.PagerDutySink {
	s := new(schema.PagerDutySink)
	r.record(i, "pagerduty", []string{"routing_key_secret"}, map[string]func(int32){
		"routing_key_secret": func(c int32) { s.RoutingKeySecret = r.secretRef(c) },
		"url":                func(c int32) { s.URL = r.quiet(c, urlFault) },
		"severity":           func(c int32) { s.Severity = r.d.oneOf(c, schema.PagerDutySeverities) },
		"links": func(c int32) {
			r.each(c, schema.MaxPagerDutyLinks, func(l int32) { s.Links = append(s.Links, r.link(l)) })
		},
	})
	return s
}

func (r *notificationReader) link(i int32) (l schema.PagerDutyLink) {
	r.record(i, "links", []string{"href"}, map[string]func(int32){
		"href": func(c int32) { l.Href = r.quiet(c, urlFault) },
		"text": func(c int32) { l.Text = r.d.text(c, maxLinkText) },
	})
	return l
}

func (r *notificationReader) mute(i int32) (m schema.MuteTimeInterval) {
	d, faults := r.d, len(r.d.faults)
	at := make(map[string]int32)
	for c := range d.object(i) {
		name := string(d.doc.name(c))
		at[name] = c
		strs := func(into *[]string) {
			r.each(c, maxMuteRanges, func(s int32) { *into = append(*into, d.string(s)) })
		}
		switch name {
		case "times":
			r.each(c, maxMuteRanges, func(t int32) { m.Times = append(m.Times, r.times(t)) })
		case "weekdays":
			strs(&m.Weekdays)
		case "days_of_month":
			strs(&m.DaysOfMonth)
		case "months":
			strs(&m.Months)
		case "years":
			strs(&m.Years)
		case "location":
			m.Location = d.string(c)
		default:
			d.faultQuietly(c, "is not a field of a mute time interval")
		}
	}
	if len(d.faults) > faults {
		return m
	}
	if field, fault := notifications.MuteFault(&m); fault != "" {
		d.faultQuietly(at[field], "%s", fault)
	}
	if len(at) == 0 && d.is(i, kindObject) {
		d.faultQuietly(i, "must have a field: without one it lasts for ever")
	}
	return m
}

func (r *notificationReader) times(i int32) (t schema.MuteTimes) {
	d := r.d
	for c := range d.object(i) {
		switch name := string(d.doc.name(c)); name {
		case "start_time":
			t.StartTime = d.string(c)
		case "end_time":
			t.EndTime = d.string(c)
		default:
			d.faultQuietly(c, "is not a field of times")
		}
	}
	return t
}
