package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// stubTargets are the targets of tenants, as executors know them.
type stubTargets struct {
	mu      sync.Mutex
	known   map[string][]NodeTarget // by tenant
	missing []string
	err     error
	resets  []string
}

func (s *stubTargets) Targets(_ context.Context, tenant string) ([]NodeTarget, []string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.known[tenant]), s.missing, s.err
}

func (s *stubTargets) ResetTarget(_ context.Context, tenant, target string) ([]NodeTarget, []string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, nil, s.err
	}
	s.resets = append(s.resets, tenant+" "+target)
	for i := range s.known[tenant] {
		if n := &s.known[tenant][i]; n.Target == target {
			n.TargetState = TargetState{State: "closed"}
		}
	}
	return slices.Clone(s.known[tenant]), s.missing, nil
}

// broken are the targets of a tenant: one that is open on one node and probed on another, one that
// is well, and a subject.
func broken(tenant string) *stubTargets {
	at := func(s int) Time { return Time{testNow.Add(time.Duration(s) * time.Second)} }
	return &stubTargets{known: map[string][]NodeTarget{tenant: {
		{"http://b.test", "y", TargetState{State: "open", Since: at(-20), NextProbeAt: at(5), Failures: 20, Deferrals: 7}},
		{"work.email", "x", TargetState{State: "closed", Running: 1}},
		{"http://b.test", "x", TargetState{State: "half_open", Since: at(-30), Failures: 3, Running: 2}},
		{"http://a.test:8080", "x", TargetState{State: "closed", Failures: 1}},
	}}}
}

func TestTargetsAreListed(t *testing.T) {
	targets := broken(defaultTenant)
	hs := serve(t, newStub(), func(_ *Config, d *Deps) { d.Targets = targets })
	list := func(query string) (all []string, missing []string) {
		t.Helper()
		for cursor := ""; ; {
			var page struct {
				Items        []TargetOfTenant
				MissingNodes []string `json:"missing_nodes"`
				NextCursor   string   `json:"next_cursor"`
			}
			doJSON(t, hs, call{method: "GET", path: targetsPath + "?limit=2" + query + cursor}, 200, &page)
			for _, i := range page.Items {
				all = append(all, fmt.Sprint(i.Target, " ", i.State, " ", i.Since.Format("05"), " ", i.NextProbeAt.Format("05"), " ", i.Failures, " ", i.Deferrals, " ", i.Running, " ", len(i.Nodes), i.Nodes[0].Node))
			}
			if missing = page.MissingNodes; page.NextCursor == "" {
				return all, missing
			}
			cursor = "&cursor=" + page.NextCursor
		}
	}
	want := []string{"http://a.test:8080 closed 00 00 1 0 0 1x", "http://b.test open 30 05 23 7 2 2x", "work.email closed 00 00 0 0 1 1x"}
	if got, missing := list(""); !slices.Equal(got, want) || missing == nil || len(missing) != 0 {
		t.Errorf("targets = %q, %q missing; want %q, and none", got, missing, want)
	}
	if got, _ := list("&state=open"); !slices.Equal(got, want[1:2]) {
		t.Errorf("open targets = %q, want %q", got, want[1:2])
	}
	if got, _ := list("&state=half_open"); len(got) != 0 {
		t.Errorf("half-open targets = %q, want none: as a whole it is open", got)
	}
	targets.missing = []string{"z", "y"}
	if _, missing := list(""); !slices.Equal(missing, []string{"y", "z"}) {
		t.Errorf("missing nodes = %q, want y and z", missing)
	}
	// It was said that the store could not be reached, when it was NATS.
	targets.err = fmt.Errorf("ask executors: %w: %w", ErrNoExecutor, schema.ErrUnavailable)
	if p := doProblem(t, hs, call{method: "GET", path: targetsPath}, 503); p.Kind() != "no-executor-answers" || strings.Contains(p.Title, "store") || !strings.Contains(p.Detail, "NATS") {
		t.Errorf("a list that nobody answers = %+v, want that no executor answers, and NATS named", p)
	}
	if p := doProblem(t, hs, call{method: "GET", path: targetsPath + "?state=asleep&cursor=x&limit=0"}, 422); len(p.Errors) < 2 {
		t.Errorf("a list of wrong parameters = %+v, want every fault", p)
	}
	doProblem(t, serve(t, newStub()), call{method: "GET", path: targetsPath}, 404)
}

func TestATargetIsReset(t *testing.T) {
	targets, o := broken(defaultTenant), newAdminStub()
	hs := serve(t, newStub(), o.deps, func(_ *Config, d *Deps) { d.Targets = targets })
	reset := func(body string) call { return call{method: "POST", path: resetPath, body: body} }
	for range 2 { // twice is the same as once
		var got struct {
			TargetOfTenant
			MissingNodes []string `json:"missing_nodes"`
		}
		if doJSON(t, hs, reset(`{"target":"http://b.test"}`), 200, &got); got.Target != "http://b.test" || got.State != "closed" || len(got.Nodes) != 2 || got.MissingNodes == nil {
			t.Errorf("reset = %+v, want the target, closed on both nodes", got)
		}
	}
	// Hosts are named in lower case, however they are written.
	doJSON(t, hs, reset(`{"target":"HTTP://B.test"}`), 200, nil)
	if want := []string{"default http://b.test", "default http://b.test", "default http://b.test"}; !slices.Equal(targets.resets, want) {
		t.Errorf("resets %q, want %q", targets.resets, want)
	}
	if acts := o.noted(); len(acts) != 1 || acts[0].Action != "reset" || acts[0].Object != "target/http://b.test" {
		t.Errorf("the log has %+v, want the first reset alone", acts)
	}
	p := doProblem(t, hs, reset(`{"target":"http://none.test"}`), 404)
	if !strings.Contains(p.Detail, `"http://none.test"`) || len(p.Errors) != 1 || p.Errors[0].Location != "body.target" {
		t.Errorf("reset of a target that nobody knows = %+v, want it named", p)
	}
	for body, faults := range map[string]int{`{}`: 1, `{"target":""}`: 1, `{"target":5,"x":1}`: 2, `{"target":"` + strings.Repeat("a", 1025) + `"}`: 1, `{"x":1}`: 2} {
		if p := doProblem(t, hs, reset(body), 422); len(p.Errors) != faults {
			t.Errorf("reset of %.40s = %+v, want %d faults", body, p.Errors, faults)
		}
	}
	if len(targets.resets) != 3 {
		t.Errorf("what was refused has reset something: %q", targets.resets)
	}
}

// An executor that did not answer may be the one that knows the target: it is asked to reset it,
// and named.
func TestATargetIsResetWhereNobodyAnswered(t *testing.T) {
	targets := &stubTargets{known: map[string][]NodeTarget{}, missing: []string{"node-3"}}
	hs := serve(t, newStub(), func(_ *Config, d *Deps) { d.Targets = targets })
	var got struct {
		State        string   `json:"state"`
		MissingNodes []string `json:"missing_nodes"`
	}
	doJSON(t, hs, call{method: "POST", path: resetPath, body: `{"target":"http://b.test"}`}, 200, &got)
	if len(targets.resets) != 1 || !slices.Equal(got.MissingNodes, []string{"node-3"}) || got.State != "unknown" {
		t.Errorf("resets %q, missing %q, state %q; want one, node-3, and that nobody knows", targets.resets, got.MissingNodes, got.State)
	}
}

// Tenants neither see each other's targets nor reset them.
func TestTargetsOfAnotherTenant(t *testing.T) {
	b, o, targets := newStub(), newAdminStub(), broken("theirs")
	hs := serve(t, b, o.desk, func(_ *Config, d *Deps) { d.Targets = targets })
	o.key("system/admin", "theirs/operator", "theirs/viewer", "ours/operator")
	ours := bearer(secret("ours/operator"))
	var page struct{ Items []TargetOfTenant }
	if doJSON(t, hs, call{method: "GET", path: targetsPath, header: ours}, 200, &page); len(page.Items) != 0 {
		t.Errorf("targets of another tenant: %+v", page.Items)
	}
	body := `{"target":"http://b.test"}`
	doProblem(t, hs, call{method: "POST", path: resetPath, body: body, header: ours}, 404)
	doProblem(t, hs, call{method: "POST", path: resetPath, body: body, header: with(ours, http.Header{tenantHeader: {"theirs"}})}, 403)
	doProblem(t, hs, call{method: "POST", path: resetPath, body: body, header: bearer(secret("theirs/viewer"))}, 403)
	if len(targets.resets) != 0 {
		t.Errorf("another tenant, or a viewer, has reset %q", targets.resets)
	}
	doJSON(t, hs, call{method: "POST", path: resetPath, body: body, header: bearer(secret("theirs/operator"))}, 200, nil)
}

// TestTheErrorOfATarget: the latest that any executor was told.
func TestTheErrorOfATarget(t *testing.T) {
	targets := broken(defaultTenant)
	for i := range targets.known[defaultTenant] {
		n := &targets.known[defaultTenant][i]
		if n.Target == "http://b.test" {
			n.LastError, n.LastFailedAt = "by "+n.Node, Time{testNow.Add(time.Duration(n.Failures) * time.Second)}
		}
	}
	hs := serve(t, newStub(), func(_ *Config, d *Deps) { d.Targets = targets })
	var page struct{ Items []TargetOfTenant }
	doJSON(t, hs, call{method: "GET", path: targetsPath + "?state=open"}, 200, &page)
	if len(page.Items) != 1 || page.Items[0].LastError != "by y" || !page.Items[0].LastFailedAt.Equal(testNow.Add(20*time.Second)) || page.Items[0].Nodes[0].LastError != "by x" {
		t.Errorf("the open target = %+v, want the error of y, which is the latest, and that of each node", page.Items)
	}
}
