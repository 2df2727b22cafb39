package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/wait"
	"carillon.dev/carillon/loadtest/workload"
)

const (
	// lateOf is the part of a steady load that is imported while it runs, one portion each
	// lateEvery. A tenth of a portion is immediate.
	lateOf       = 5
	lateEvery    = 5 * time.Second
	lateSoon     = 500 * time.Millisecond
	immediateOf  = 10
	steadySource = "steady"
	// steadySends bounds how often a portion is sent: clients wait while nobody answers.
	steadySends = 400
	// agreeWithin is how long after the end of a fault all nodes may take to see the same cluster.
	agreeWithin = 60 * time.Second
	agreePoll   = 500 * time.Millisecond
	viewTimeout = 5 * time.Second
)

// More acts. ActStop stops a member (SIGTERM) and waits for its end. ActAgree waits until all
// running nodes show the same members and owners of shards.
const (
	ActStop  Act = "stop"
	ActAgree Act = "wait until views agree"
)

// seconds count from T0.
type seconds float64

func (s seconds) span() time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

// A steadyCourse is the course of scenarios with a steady load.
type steadyCourse struct{ *run }

// do is an act at an instant.
func do(at seconds, act Act, member string) step { return step{at.span(), act, member} }

// steady returns a load of the usual rate and mix.
func steady(span, maxLateness time.Duration, faults func(members cluster.Spec) []chain) *Load {
	return &Load{Rate: steadyRate, Span: span, Mix: steadyMix, MaxLateness: maxLateness, Faults: faults}
}

// away is a member that is killed (or stopped) and started again, or frozen and thawed.
func away(act Act, member string, from, to seconds) chain {
	back := ActStart
	if act == ActFreeze {
		back = ActThaw
	}
	return chain{do(from, act, member), do(to, back, member)}
}

// agree waits from an instant on until all nodes agree.
func agree(at seconds) step { return do(at, ActAgree, "") }

// part describes jobs of a steady load.
func (r steadyCourse) part(source string, n int, from time.Time, spread time.Duration) workload.Spec {
	spec := r.jobs(source, n, from, spread)
	kinds := r.cfg.Scenario.plan().Load.Kinds
	if kinds == nil {
		kinds = guaranteeKinds // quick ones and some of up to 2 s, of which some fail
	}
	spec.Kinds = kinds(r.cfg.Mix)
	return spec
}

// play is a run with a steady load, from the idle cluster to the last arrival.
func (r steadyCourse) play(ctx context.Context) error {
	cfg := r.cfg
	begin, start, t0, err := r.idle(ctx)
	if err != nil {
		return err
	}
	if err := r.importJobs(ctx, r.part(steadySource, cfg.Jobs-cfg.Jobs/lateOf, t0, cfg.Span)); err != nil {
		return err
	}
	imported := r.mark()
	if imported.at.After(t0) {
		r.log.Warn("the import ended after the first due instant", "by", imported.at.Sub(t0))
	}
	g, gctx := errgroup.WithContext(ctx)
	for _, c := range cfg.Scenario.plan().Load.Faults(cfg.Cluster) {
		g.Go(func() error { return r.take(gctx, t0, c) })
	}
	g.Go(func() error { return r.importLate(gctx, t0) })
	if err := g.Wait(); err != nil {
		return err
	}
	return r.finish(ctx, begin, start, imported)
}

// importLate imports the rest of a steady load in portions, each due soon after its import. A
// portion that no node takes does not delay the next.
func (r steadyCourse) importLate(ctx context.Context, t0 time.Time) error {
	count := int(r.cfg.Span / lateEvery)
	n := r.cfg.Jobs / lateOf / max(count, 1)
	if n == 0 {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	for i := range count {
		g.Go(func() error {
			if err := wait.Until(ctx, t0.Add(time.Duration(i)*lateEvery)); err != nil {
				return err
			}
			spec := r.part(fmt.Sprintf("late-%d", i+1), n, time.Now().Add(lateSoon), lateEvery)
			spec.Immediate, spec.Seed = n/immediateOf, spec.Seed+uint64(i)+1 // #nosec G115 -- small
			return r.importJobs(ctx, spec)
		})
	}
	return g.Wait()
}

// A view is a node's view of the cluster.
type view struct {
	Version string `json:"version"`
	Members []struct {
		Name string `json:"name"`
	} `json:"members"`
	Shards []struct {
		Shard int    `json:"shard"`
		Owner string `json:"owner"`
	} `json:"shards"`
}

// agreement says why views differ from each other or from the nodes that run; "" = they agree.
func agreement(views map[string]view, running []string) string {
	if len(views) < len(running) {
		return fmt.Sprintf("%d of %d nodes answer", len(views), len(running))
	}
	slices.Sort(running)
	first := views[running[0]]
	for _, node := range running {
		v := views[node]
		var seen []string
		for _, m := range v.Members {
			seen = append(seen, m.Name)
		}
		slices.Sort(seen)
		if !slices.Equal(seen, running) {
			return fmt.Sprintf("%s sees %q, and %q run", node, seen, running)
		}
		if len(v.Shards) == 0 || !slices.Equal(v.Shards, first.Shards) {
			return fmt.Sprintf("%s and %s tell of different owners", node, running[0])
		}
		for _, s := range v.Shards {
			if s.Owner == "" {
				return fmt.Sprintf("%s knows no owner of shard %d", node, s.Shard)
			}
		}
	}
	return ""
}

// awaitAgreement waits until all running nodes agree. That they do not in time breaks a promise.
func (r *run) awaitAgreement(ctx context.Context) (note string, err error) {
	began, why := time.Now(), ""
	agreed, err := wait.Poll(ctx, agreePoll, began.Add(agreeWithin), func() (bool, error) {
		var running []string
		views := map[string]view{}
		for _, n := range r.cluster().Status().Carillon {
			if n.State == cluster.Stopped {
				continue
			}
			running = append(running, n.Node)
			if v, err := r.askView(ctx, n.API); err == nil {
				views[n.Node] = v
			}
		}
		why = agreement(views, running)
		return why == "", nil
	})
	switch {
	case err != nil:
		return "", err
	case agreed:
		return fmt.Sprintf("after %.1f s; %s", time.Since(began).Seconds(), r.ringChanges(ctx)), nil
	}
	r.broken("views did not agree within %s: %s", agreeWithin, why)
	return why, nil
}

// ringChanges lists how often each node has changed its ring since its start.
func (r *members) ringChanges(ctx context.Context) string {
	var texts []string
	for _, n := range r.cluster().Status().Carillon {
		text := "no answer"
		if count, err := r.counter(ctx, n.API, "carillon_ring_rebuilds_total"); err == nil {
			text = fmt.Sprintf("%.0f", count)
		}
		texts = append(texts, n.Name+" "+text)
	}
	return "rings changed: " + strings.Join(texts, ", ")
}

func (r *members) askView(ctx context.Context, node string) (v view, err error) {
	if err := api.AskJSON(ctx, r.http, api.Request{URL: node + "/v1/cluster", Timeout: viewTimeout}, &v); err != nil {
		return v, fmt.Errorf("ask for the cluster: %w", err)
	}
	return v, nil
}

// broken notes a promise that this program itself saw broken.
func (r *recorder) broken(format string, args ...any) {
	r.record(func(rep *Report) { rep.Broken = append(rep.Broken, fmt.Sprintf(format, args...)) })
}

// steadyFaults names what must have happened under a steady load, and did not.
func (r *Report) steadyFaults() []string {
	faults := slices.Clone(r.Broken) // of every scenario
	if !r.Scenario.Steady() || !r.Judged {
		return faults
	}
	for _, g := range guarantees {
		if !slices.ContainsFunc(r.Check.Guarantees, func(c check.GuaranteeCount) bool { return c.Guarantee == g && c.Runs > 0 }) {
			faults = append(faults, fmt.Sprintf("nothing was run under %s", g))
		}
	}
	cuts := slices.ContainsFunc(r.Events, func(e Event) bool { return e.Act == ActCut || e.Act == ActRegionCut })
	if cuts && r.DroppedPackets == 0 {
		faults = append(faults, "links were cut, and no packet was dropped")
	}
	return faults
}
