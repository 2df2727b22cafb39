package chaos

import (
	"context"
	"fmt"
	"io"
	"time"

	"carillon.dev/carillon/loadtest/workload"
	"carillon.dev/carillon/schema"
)

// Each home has workflows: flowGraphs that are drawn, and one with flowItems items. A run of them
// is asked for every flowEvery, in turn of a node of the home's own region and one of another.
const (
	flowGraphs, flowItems = 4, 30
	flowEvery             = 6 * time.Second
	// flowCosts is how much later than another run a step may start: it may be met by a fault as
	// its workflow is woken, and again as it is to start.
	flowCosts = deathCosts
	// flowsAcknowledged is the part of the requests of a home without a fault that must be
	// answered.
	flowsAcknowledged = 0.9
)

// flowTenant is the tenant of the workflows of a home.
func flowTenant(home string) string { return "flow-" + home }

// flow is that of a home.
func (r regionsCourse) flow(h home) flow {
	return flow{
		run: r.run, urls: h.client.URLs, tenant: flowTenant(h.name), span: r.cfg.Span, result: r.report.Regions.Workflows[h.name],
		spec: workload.Workflows{
			Graphs: flowGraphs, Items: flowItems, Runs: max(int(r.cfg.Span/flowEvery), 1),
			Seed: r.cfg.Seed + schema.HashOf(flowTenant(h.name))%(1<<32), Target: r.apart[flowTenant(h.name)].URL,
		},
	}
}

// judgeFlows has the workflows of each home judged, by the rules of Workflows. A workflow run with
// calls that another region did not hear of before it took the home over is judged by its end.
func (r regionsCourse) judgeFlows(ctx context.Context, out io.Writer) error {
	for _, h := range r.homes() {
		f := r.flow(h)
		args := append(f.evidence(), "--tenant", f.tenant, "--max-lateness", (r.cfg.Late.Max + flowCosts).String())
		if h.name == lostHome {
			args = append(args, lossArgs(r.losses(ActRegionCut, ActRegionKill))...)
		}
		if err := judging(r).by(ctx, "check-"+f.tenant, r.apart[f.tenant], args, out, &f.result.Check); err != nil {
			return err
		}
		c := &f.result.Check
		r.figure("workflows of home "+h.name, "%d of %d runs acknowledged, %d steps and items; a step after those before it p99 %s ms, greatest %s ms; judged by their end alone %d",
			c.Acknowledged, c.Triggers, c.StepRuns, number(c.Late.P99), number(c.Late.Max), c.Forgiven)
	}
	return nil
}

// flowsFaults says what is wrong with the workflows of homes, by home.
func (res *RegionsResult) flowsFaults() map[string][]string {
	all := map[string][]string{}
	for home, f := range res.Workflows {
		fault := func(format string, args ...any) { all[home] = append(all[home], fmt.Sprintf(format, args...)) }
		c := &f.Check
		if c.Failed() {
			fault("%s", flowFault(c))
		}
		if c.StepRuns == 0 || c.Items == 0 {
			fault("%d steps ran, and %d items", c.StepRuns, c.Items)
		}
		if home != lostHome && float64(c.Acknowledged) < flowsAcknowledged*float64(c.Triggers) {
			fault("%d of %d requests to run workflows were acknowledged", c.Acknowledged, c.Triggers)
		}
	}
	return all
}
