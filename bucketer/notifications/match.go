package notifications

import (
	"slices"
	"strings"

	"carillon.dev/carillon/schema"
)

// Ways to group, beside label.NAME.
const (
	byJob      = "job"
	byTask     = "task"
	byWorkflow = "workflow"
	byKind     = "kind"
	byError    = "error"
	// labelPrefix begins a way to group by a label.
	labelPrefix = "label."
)

// GroupWays are the ways to group, beside label.NAME. Do not modify.
var GroupWays = []string{byJob, byTask, byWorkflow, byKind, byError}

// GroupLabel returns the label that a way to group is by.
func GroupLabel(way string) (label string, ok bool) { return strings.CutPrefix(way, labelPrefix) }

// glob reports whether a text fits a pattern, in which * stands for any characters and ? for one.
// Its time is bounded by the product of both lengths.
func glob(pattern, text string) bool {
	p, t, star, from := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0: // the last * takes one more
			from++
			p, t = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// takes returns as what a rule takes an incident: the first of the kinds that it asks for.
func takes(r *schema.NotificationRule, n *schema.Incident) (schema.NotificationKind, bool) {
	kind, ok := mayTake(r, n)
	return kind, ok && n.InARow >= r.Match.InARow
}

// mayTake is takes, however many runs in a row have failed.
func mayTake(r *schema.NotificationRule, n *schema.Incident) (schema.NotificationKind, bool) {
	if r.Fault != nil || n.Fault != nil || n.ID.Time().Before(r.Began().Truncate(millisecond)) {
		return "", false
	}
	m := &r.Match
	for _, f := range [...]struct{ pattern, text string }{{m.Job, n.JobName}, {m.Task, n.Task}, {m.Workflow, n.Workflow}} {
		if f.pattern != "" && !glob(f.pattern, f.text) {
			return "", false
		}
	}
	for label, pattern := range m.Labels {
		if value, ok := n.Labels[label]; !ok || !glob(pattern, value) {
			return "", false
		}
	}
	for _, kind := range trackedKinds(r) {
		if slices.Contains(n.Kinds, kind) && (kind != schema.NotifyLate || n.Late >= m.LateBy) {
			return kind, true
		}
	}
	return "", false
}

// onlyFailed is what is counted for a rule that asks for recoveries alone.
var onlyFailed = []schema.NotificationKind{schema.NotifyFailed}

// trackedKinds returns the kinds that are counted for a rule: a recovery is of one of the others.
func trackedKinds(r *schema.NotificationRule) []schema.NotificationKind {
	if !asksOnlyRecovered(r) {
		return r.On
	}
	return onlyFailed
}

func asksRecovered(r *schema.NotificationRule) bool {
	return slices.Contains(r.On, schema.NotifyRecovered)
}

func asksOnlyRecovered(r *schema.NotificationRule) bool { return asksRecovered(r) && len(r.On) == 1 }

// valuesOf returns what an incident that a rule takes as that kind has in common with its group.
func valuesOf(r *schema.NotificationRule, n *schema.Incident, kind schema.NotificationKind) []schema.NotificationValue {
	values := make([]schema.NotificationValue, len(r.GroupBy))
	for i, way := range r.GroupBy {
		var v string
		switch way {
		case byJob:
			if v = n.JobName; v == "" && !n.Job.IsZero() {
				v = n.Job.String()
			}
		case byTask:
			v = n.Task
		case byWorkflow:
			v = n.Workflow
		case byKind:
			v = string(kind)
		case byError:
			v = n.Pattern
		default:
			label, _ := GroupLabel(way)
			v = n.Labels[label]
		}
		values[i] = schema.NotificationValue{Name: way, Value: v}
	}
	return values
}
