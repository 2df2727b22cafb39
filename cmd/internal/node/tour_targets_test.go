package node

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// targets returns the targets of the tenant that are in a state ("" is any).
func (r *running) targets(t *testing.T, state string) (all []httpapi.TargetOfTenant) {
	t.Helper()
	for target, err := range r.client().Targets(t.Context(), state, func([]string) {}) {
		if err != nil {
			t.Fatalf("Targets = %v", err)
		}
		all = append(all, target)
	}
	return all
}

// awaitWaiting waits until one of the runs says that its start was deferred, and why.
func (r *running) awaitWaiting(t *testing.T, why string, ids []schema.RunID) {
	t.Helper()
	await(t, "a run waits because of "+why, func() bool {
		for _, id := range ids {
			run, err := r.client().Run(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if run.Waiting != nil && strings.HasPrefix(run.Waiting.Reason, why) && !run.DeferredUntil.IsZero() {
				return true
			}
		}
		return false
	})
}

// showReset: a node that executes nothing lists the targets that another one knows, says why a run
// waits, and closes a circuit there.
func (r *running) showReset(executor *running) {
	t := r.t
	var well atomic.Bool
	_, at := receive(t, func(*http.Request, int) int {
		if !well.Load() {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	name := executor.node.cfg.Node.Name
	r = r.in(t)
	r.tenant = "t" + uuid.NewString()
	retry := &schema.Retry{MaxAttempts: 20, Initial: schema.Duration(10 * time.Millisecond), Factor: 1, Jitter: "none"}
	ill := request.JobRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: at}, Retry: retry}}
	early := r.batch(10, ill, 0)
	var open []httpapi.TargetOfTenant
	await(t, "the circuit opens", func() bool { open = r.targets(t, "open"); return len(open) > 0 })
	host, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	want := host.Scheme + "://" + host.Host
	if got := open[0]; len(open) != 1 || got.Target != want || got.Since.IsZero() || got.Failures < 20 ||
		!slices.EqualFunc(got.Nodes, []string{name}, func(n httpapi.NodeTarget, node string) bool { return n.Node == node }) {
		t.Errorf("open targets = %+v, want %s alone, open on %s after 20 failures", open, want, name)
	}
	late := r.batch(1, ill, 0)[0]
	r.awaitWaiting(t, "breaker: ", []schema.RunID{late})
	stranger := r.in(t)
	stranger.tenant = "t" + uuid.NewString()
	if got := stranger.targets(t, ""); len(got) != 0 {
		t.Errorf("another tenant sees %+v", got)
	}
	well.Store(true)
	if got, _, err := r.client().ResetTarget(t.Context(), want); err != nil || got.State != "closed" {
		t.Errorf("ResetTarget = %+v, %v; want it closed", got, err)
	}
	again := r.batch(1, ill, 0)[0]
	if run := r.awaitState(schema.JobID(again), schema.StateSucceeded); run.Waiting != nil || len(run.Attempts) != 1 {
		t.Errorf("a run after the reset = %+v, want one attempt, and no wait", run)
	}
	for _, id := range append(early, late) {
		r.awaitState(schema.JobID(id), schema.StateSucceeded)
	}
}
