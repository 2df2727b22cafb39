package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/request"
)

// Targets asks the executors of the cluster for what they know of the targets of tenants. Each
// knows its own calls alone.
type Targets interface {
	// Targets returns what each executor knows that answered within a second, and the names of
	// those that did not. The error is ErrNoExecutor if none could be asked, or none answered.
	Targets(ctx context.Context, tenant string) (known []NodeTarget, missing []string, err error)
	// ResetTarget has every executor close the circuit of a target, and returns what they know of
	// the tenant's targets then. An executor that is missing may have heard it or not.
	ResetTarget(ctx context.Context, tenant, target string) (known []NodeTarget, missing []string, err error)
}

// ErrNoExecutor: no executor could be asked, or none answered.
var ErrNoExecutor = errors.New("no executor answers")

// NodeTarget is what one executor knows of a target.
type NodeTarget struct {
	Target string `json:"-"`
	Node   string `json:"node" doc:"The executor"`
	TargetState
}

// TargetState is how a target stands.
type TargetState struct {
	State       string `json:"state" enum:"closed,open,half_open,unknown" doc:"Of its circuit breaker. closed: runs start. open: they are deferred. half_open: a few start, to see whether it works again. unknown, after a reset: no executor that answered knows the target"`
	Since       Time   `json:"since,omitzero" doc:"Since when it is not closed"`
	NextProbeAt Time   `json:"next_probe_at,omitzero" doc:"Of an open one: when the next attempt is let through"`
	Failures    int    `json:"failures" doc:"Attempts that failed: of a closed one in the last 30 s, else since shortly before it opened"`
	Deferrals   int    `json:"deferrals" doc:"How often a start was deferred since it is not closed; a run may be more than once"`
	Running     int    `json:"running" doc:"Attempts under way"`

	LastError    string `json:"last_error,omitempty" doc:"What the last attempt said that counted as a failure of the target, in at most 500 bytes; absent once it works again"`
	LastFailedAt Time   `json:"last_failed_at,omitzero" doc:"When that was"`
}

// TargetOfTenant is a target of a tenant, over all executors that know of it.
type TargetOfTenant struct {
	Target string `json:"target" doc:"Scheme, host and port of HTTP calls, or the subject of NATS requests" example:"https://api.example.com"`
	TargetState
	Nodes []NodeTarget `json:"nodes" doc:"What each executor knows: every one has a circuit breaker of its own"`
}

// unknownState is the state of a target that no executor knows which answered.
const unknownState = "unknown"

// severity orders states: what a target is as a whole is the worst that it is anywhere.
var severity = map[string]int{"closed": 0, "half_open": 1, "open": 2}

// merged returns what executors know as one list, by name.
func merged(known []NodeTarget) []TargetOfTenant {
	byName := make(map[string]*TargetOfTenant)
	for _, n := range known {
		t := byName[n.Target]
		if t == nil {
			t = &TargetOfTenant{Target: n.Target, TargetState: TargetState{State: "closed"}}
			byName[n.Target] = t
		}
		if severity[n.State] > severity[t.State] {
			t.State = n.State
		}
		t.Since, t.NextProbeAt = first(t.Since, n.Since), first(t.NextProbeAt, n.NextProbeAt)
		t.Failures, t.Deferrals, t.Running = t.Failures+n.Failures, t.Deferrals+n.Deferrals, t.Running+n.Running
		if n.LastFailedAt.After(t.LastFailedAt.Time) {
			t.LastError, t.LastFailedAt = n.LastError, n.LastFailedAt
		}
		t.Nodes = append(t.Nodes, n)
	}
	out := make([]TargetOfTenant, 0, len(byName))
	for _, t := range byName {
		slices.SortFunc(t.Nodes, func(a, b NodeTarget) int { return cmp.Compare(a.Node, b.Node) })
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b TargetOfTenant) int { return cmp.Compare(a.Target, b.Target) })
	return out
}

// first returns the earlier of two times, of which zero is none.
func first(a, b Time) Time {
	if a.IsZero() || !b.IsZero() && b.Before(a.Time) {
		return b
	}
	return a
}

type (
	targetPage struct {
		Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most items of one answer"`
		Cursor string `query:"cursor" maxLength:"2048" doc:"next_cursor of the answer before; opaque, and good only for the same list"`
		State  string `query:"state" enum:"closed,open,half_open"`
	}
	targetList struct {
		Body struct {
			Items        []TargetOfTenant `json:"items"`
			MissingNodes []string         `json:"missing_nodes" doc:"Executors that did not answer within a second: what they know is not in the list"`
			NextCursor   string           `json:"next_cursor,omitempty"`
		}
	}
	targetReset  struct{ body }
	targetAnswer struct {
		Body struct {
			TargetOfTenant
			MissingNodes []string `json:"missing_nodes" doc:"Executors that did not answer within a second: whether they heard of the reset is not known"`
		}
	}
)

const (
	targetsPath = "/v1/targets"
	resetPath   = targetsPath + "/reset"
)

// targetRoutes serves targets.
type targetRoutes struct{ *Server }

func (s targetRoutes) route() {
	op := s.operation("list-targets", http.MethodGet, targetsPath, "The targets that executors have called lately, and their circuit breakers, by name", 200, 422, 503)
	op.Description = "A target of which nine of ten calls fail (of 20 within 30 s) is called by probes alone for a while, and runs for it are deferred. " +
		"Every executor knows what it saw itself, since it started. An executor tells of at most 2,000 targets of a tenant, those that are not closed first."
	huma.Register(s.api, op, s.listTargets)
	op = s.operation("reset-target", http.MethodPost, resetPath, "Close the circuit breaker of a target on every executor", 200, 400, 404, 408, 413, 415, 422, 429, 503)
	op.Description = "Calls that began before count no more; if the target fails on, it opens again. Runs that were deferred start at the time to which they were. Twice is the same as once."
	huma.Register(s.api, op, s.resetTarget)
	s.describeBody(resetPath, http.MethodPost, reflect.TypeFor[request.TargetRequest](), "application/json")
}

// targetsOf returns the targets of the caller's tenant, by name. It resets one before, unless that
// is "".
func (s targetRoutes) targetsOf(ctx context.Context, reset string) (all []TargetOfTenant, missing []string, err error) {
	if s.deps.Targets == nil {
		return nil, nil, notFound("This node asks no executors.")
	}
	var known []NodeTarget
	if reset == "" {
		known, missing, err = s.deps.Targets.Targets(ctx, tenantOf(ctx))
	} else {
		known, missing, err = s.deps.Targets.ResetTarget(ctx, tenantOf(ctx), reset)
	}
	slices.Sort(missing)
	return merged(known), append([]string{}, missing...), err
}

func (s targetRoutes) listTargets(ctx context.Context, in *targetPage) (*targetList, error) {
	out := new(targetList)
	var err error
	out.Body.Items, out.Body.NextCursor, err = listed(s.cursors, []string{"targets", tenantOf(ctx), in.State}, in.Cursor, in.Limit,
		func(after string, limit int) ([]TargetOfTenant, error) {
			all, missing, err := s.targetsOf(ctx, "")
			all = slices.DeleteFunc(all, func(t TargetOfTenant) bool { return t.Target <= after || in.State != "" && t.State != in.State })
			out.Body.MissingNodes = missing
			return all[:min(limit, len(all))], err
		},
		func(t *TargetOfTenant) string { return t.Target }, func(t TargetOfTenant) TargetOfTenant { return t })
	if err != nil {
		return nil, s.fail(ctx, "list targets", err)
	}
	return out, nil
}

func (s targetRoutes) resetTarget(ctx context.Context, in *targetReset) (*targetAnswer, error) {
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	asked, err := d.Target(text)
	if err != nil {
		return nil, s.fail(ctx, "reset target", err)
	}
	known, missing, err := s.targetsOf(ctx, "")
	if err != nil {
		return nil, s.fail(ctx, "reset target", err)
	}
	if strings.Contains(asked.Target, "://") {
		asked.Target = strings.ToLower(asked.Target) // so executors name hosts; subjects stay as they are
	}
	was, ok := named(known, asked.Target)
	if !ok && len(missing) == 0 { // otherwise a node that did not answer may know it
		p := notFound(fmt.Sprintf("No executor knows a target %q of the tenant. A target is scheme, host and port, such as https://api.example.com, or a subject.", asked.Target))
		p.Errors = []bucketer.Fault{{Location: "body.target", Message: "is not known", Value: asked.Target}}
		return nil, p
	}
	after, missingAfter, err := s.targetsOf(ctx, asked.Target)
	if was.State != "closed" || len(missing) > 0 {
		// else nothing has changed. What was not answered may have been heard
		s.note(ctx, "reset", "target/"+asked.Target, was.TargetState, nil, "")
	}
	if err != nil {
		return nil, s.fail(ctx, "reset target", err)
	}
	out := new(targetAnswer)
	out.Body.MissingNodes = missingAfter
	if out.Body.TargetOfTenant, ok = named(after, asked.Target); !ok { // forgotten meanwhile, or known to none that answered
		state := "closed"
		if len(missingAfter) > 0 {
			state = unknownState
		}
		out.Body.TargetOfTenant = TargetOfTenant{Target: asked.Target, TargetState: TargetState{State: state}, Nodes: []NodeTarget{}}
	}
	return out, nil
}

// named returns the target of a name.
func named(all []TargetOfTenant, name string) (TargetOfTenant, bool) {
	i, ok := slices.BinarySearchFunc(all, name, func(t TargetOfTenant, name string) int { return cmp.Compare(t.Target, name) })
	if !ok {
		return TargetOfTenant{}, false
	}
	return all[i], true
}
