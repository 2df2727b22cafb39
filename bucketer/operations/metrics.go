package operations

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/schema"
)

type metrics struct {
	open  *prometheus.GaugeVec   // by action
	steps *prometheus.CounterVec // by action and result
	acts  *prometheus.CounterVec // by action and result
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "carillon_operations_open",
			Help: "Operations of all tenants that have not ended, by action, as this node saw them last: nodes see the same ones.",
		}, []string{"action"}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_operation_steps_total",
			Help: "Steps (a page of what matches, a look at a backfill) that this node took, by action and result: what failed is repeated.",
		}, []string{"action", "result"}),
		acts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_operation_acts_total",
			Help: "What operations did on this node, by action and result: changed (of backfills: runs asked for), unchanged, or failed.",
		}, []string{"action", "result"}),
	}
	for _, action := range countedActions {
		m.open.WithLabelValues(action)
		for _, result := range []string{"done", "failed"} {
			m.steps.WithLabelValues(action, result)
		}
		for _, result := range []string{"changed", "unchanged", "failed"} {
			m.acts.WithLabelValues(action, result)
		}
	}
	r.MustRegister(m.open, m.steps, m.acts)
	return m
}

// otherAction is what operations of another version are counted under.
const otherAction = "other"

// countedActions are the actions by which operations are counted.
var countedActions = append(slices.Clone(Actions), ActionBackfill, otherAction)

// actionLabel returns under which action an operation is counted.
func actionLabel(action string) string {
	if slices.Contains(countedActions, action) {
		return action
	}
	return otherAction
}

// countStep counts a step with an operation, and what came of it: how far it has come before and
// after.
func (m *metrics) countStep(op *schema.Operation, was *schema.Progress, err error) {
	action := actionLabel(op.Spec.Action)
	if err != nil {
		m.steps.WithLabelValues(action, "failed").Inc()
		return
	}
	m.steps.WithLabelValues(action, "done").Inc()
	for _, c := range []struct {
		result   string
		now, was int64
	}{
		{"changed", op.Progress.Changed, was.Changed},
		{"unchanged", op.Progress.Unchanged, was.Unchanged},
		{"failed", op.Progress.Failed, was.Failed},
	} {
		m.acts.WithLabelValues(action, c.result).Add(float64(max(c.now-c.was, 0)))
	}
}

// countOpen counts the operations that are open, by action; one that was not looked at yet is not
// counted.
func (m *metrics) countOpen(known map[schema.OperationID]*openOperation) {
	counts := make(map[string]int)
	for _, op := range known {
		if op.action != "" {
			counts[actionLabel(op.action)]++
		}
	}
	for _, action := range countedActions {
		m.open.WithLabelValues(action).Set(float64(counts[action]))
	}
}
