package node

import (
	"context"
	"fmt"
	"log/slog"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/executor"
	"carillon.dev/carillon/executor/admission"
	"carillon.dev/carillon/schema"
)

// Circuit breakers live in the memory of executors. A node that is asked about targets asks all
// executors.

// maxTargets bounds the targets of one answer, and maxTargetErrors those whose errors are told:
// about 400 and 150 KiB, well below the limit of a message together.
const (
	maxTargets      = 2000
	maxTargetErrors = 300
)

// targetsRequest is the body of schema.TopicTargets.
type targetsRequest struct {
	question
	Tenant string `json:"tenant"`
	// Reset is the target whose circuit breaker to close before the answer.
	Reset string `json:"reset,omitempty"`
}

// targetsAnswer is the answer of an executor.
type targetsAnswer struct {
	Node    string                  `json:"node"`
	Targets []admission.TargetState `json:"targets"`
}

func (a targetsAnswer) from() string { return a.Node }

// targets asks the executors of the cluster, and answers for our own.
type targets struct {
	queue     queue.Signals
	executors func() []string // the names of those that should answer
	log       *slog.Logger
}

// Targets implements httpapi.Targets.
func (t *targets) Targets(ctx context.Context, tenant string) (known []httpapi.NodeTarget, missing []string, err error) {
	return t.ask(ctx, targetsRequest{Tenant: tenant})
}

// ResetTarget implements httpapi.Targets.
func (t *targets) ResetTarget(ctx context.Context, tenant, target string) (known []httpapi.NodeTarget, missing []string, err error) {
	return t.ask(ctx, targetsRequest{Tenant: tenant, Reset: target})
}

// ask asks all executors. The reset is part of the same signal, because two signals may arrive in
// any order.
func (t *targets) ask(ctx context.Context, ask targetsRequest) (known []httpapi.NodeTarget, missing []string, err error) {
	members := t.executors()
	missing, err = askNodes(ctx, survey{
		queue: t.queue, log: t.log, topic: schema.TopicTargets, members: members, ask: func(q question) any { ask.question = q; return ask },
	}, func(a targetsAnswer) {
		for _, s := range a.Targets {
			known = append(known, nodeTarget(a.Node, s))
		}
	})
	switch {
	case ctx.Err() != nil:
		return nil, nil, fmt.Errorf("ask executors: %w", err)
	case err != nil: // the queue refuses: the store has nothing to do with it
		return nil, nil, fmt.Errorf("ask executors: %w: %w", httpapi.ErrNoExecutor, err)
	case len(members) > 0 && len(missing) == len(members):
		return nil, nil, fmt.Errorf("ask executors: %w: none of %d", httpapi.ErrNoExecutor, len(members))
	}
	return known, missing, nil
}

func nodeTarget(node string, s admission.TargetState) httpapi.NodeTarget {
	return httpapi.NodeTarget{Target: s.Target, Node: node, TargetState: httpapi.TargetState{
		State: s.Circuit, Since: httpapi.Time{Time: s.Since}, NextProbeAt: httpapi.Time{Time: s.NextProbe},
		Failures: s.Failures, Deferrals: s.Deferrals, Running: s.Running, LastError: s.LastError, LastFailedAt: httpapi.Time{Time: s.LastFailed},
	}}
}

// answer makes x answer and reset as other nodes ask, until cancel is called.
func (t *targets) answer(node string, x *executor.Executor) (cancel func(), err error) {
	return answerNodes(t.queue, t.log, schema.TopicTargets, node, func(ask targetsRequest) targetsAnswer {
		if ask.Reset != "" {
			x.ResetTarget(ask.Tenant, ask.Reset)
		}
		states := x.TargetStates(ask.Tenant)
		states = states[:min(len(states), maxTargets)]
		for i := range states[min(len(states), maxTargetErrors):] {
			states[maxTargetErrors+i].LastError = "" // those that are not closed come first
		}
		return targetsAnswer{node, states}
	})
}

// targets returns what asks the executors of the cluster.
func (n *Node) targets() *targets {
	return &targets{queue: n.queue, log: n.log.With("part", "targets"), executors: func() (names []string) {
		for _, m := range n.ring.Snapshot().Members() {
			if m.Has(config.ExecutorR) {
				names = append(names, m.Name)
			}
		}
		return names
	}}
}
