package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/check/workflows"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/wait"
	"carillon.dev/carillon/loadtest/workload"
)

// Workflows runs workflows, while members are killed and frozen as in Faults, again and again.
const Workflows Scenario = "workflows"

const (
	// workflowRuns, workflowItems and workflowSpan are the defaults of Workflows: runs of workflows,
	// items of the one with many, and the span over which runs are asked for.
	workflowRuns  = 2000
	workflowItems = 1000
	workflowSpan  = 5 * time.Minute
	// workflowGraphs is how many workflows are drawn, beside that with many items.
	workflowGraphs = 20
	// storeRounds: Cassandra and NATS have their faults in the first of so many minutes. A Cassandra
	// takes up to two minutes to come back, and members start one at a time.
	storeRounds      = 3
	minWorkflowRuns  = 20
	mostWorkflowRuns = 100_000 // the judge reads each of them twice, with its steps
)

// workflowPlans has the scenario with a course of its own in this file.
var workflowPlans = []Plan{{
	Name: Workflows, Takes: 14 * time.Minute, Members: three,
	Does:     "2,000 runs of workflows of 10 to 50 steps, some of 1,000 items; each minute a node is killed -9 and one frozen, each third a Cassandra and a NATS killed",
	Promises: "each step runs as its definition says, after those before it; every run ends, and truly",
	Course: Course{
		Jobs: workflowRuns, Span: workflowSpan, Unchanged: true,
		// Two deaths may delay one step, and a backlog lasts as long as the span.
		Late: func(c Config) check.LatenessBound { return check.LatenessBound{Max: 2*deathCosts + c.Span} },
	},
}}

// A workflowsCourse is the course of Workflows.
type workflowsCourse struct{ *run }

// A WorkflowsResult is the part of the report about workflows.
type WorkflowsResult struct {
	// Workflows is how many there are, and Steps how many steps all their definitions have.
	Workflows int `json:"workflows"`
	Steps     int `json:"steps"`
	// Items is how many items a run of the largest has.
	Items int `json:"items"`
	// Triggering is the rate of the requests to run them.
	Triggering AskRate          `json:"triggering"`
	Check      workflows.Report `json:"check"`
}

// A flow is the workflows of one tenant, and the requests to run them.
type flow struct {
	*run
	urls   []string // of the nodes that are asked, in turn
	tenant string   // "" = the default one, which has the files without a name
	spec   workload.Workflows
	span   time.Duration // over which runs are asked for
	result *WorkflowsResult
}

func (f flow) file(kind string) string {
	if f.tenant != "" {
		kind = f.tenant + "." + kind
	}
	return filepath.Join(f.cfg.Dir, kind+".ndjson")
}

func (f flow) workflowsFile() string { return f.file("workflows") }

func (f flow) triggersFile() string { return f.file("triggers") }

// evidence are the arguments of a judge of the flow.
func (f flow) evidence() []string {
	return []string{"--workflows", f.workflowsFile(), "--triggers", f.triggersFile()}
}

// flow is that of Workflows.
func (r workflowsCourse) flow() flow {
	return flow{
		run: r.run, urls: r.client.URLs, span: r.cfg.Span, result: r.report.Workflows,
		spec: workload.Workflows{
			Graphs: min(workflowGraphs, r.cfg.Jobs), Items: r.cfg.Items, Runs: r.cfg.Jobs, Seed: r.cfg.Seed, Target: r.sink.URL,
		},
	}
}

// play is a run of Workflows, from the idle cluster to the last arrival. T0 is the first request to run
// a workflow.
func (r workflowsCourse) play(ctx context.Context) error {
	begin, start, t0, err := r.idle(ctx)
	if err != nil {
		return err
	}
	r.report.Workflows = &WorkflowsResult{}
	f := r.flow()
	if err := f.put(ctx); err != nil {
		return err
	}
	created := r.mark()
	g, gctx := errgroup.WithContext(ctx)
	for _, c := range workflowFaults(r.cfg.Cluster, r.cfg.Span) {
		g.Go(func() error { return r.take(gctx, t0, c) })
	}
	g.Go(func() error { return f.trigger(gctx, t0) })
	if err := g.Wait(); err != nil {
		return err
	}
	triggered := r.mark()
	if err := r.untilQuiet(ctx); err != nil {
		return err
	}
	r.report.Phases = []Phase{
		phase("idle", begin, start), phase("creation", start, created), phase("runs", created, triggered), phase("end", triggered, r.mark()),
	}
	return nil
}

// put makes the workflows and writes down what was asked.
func (f flow) put(ctx context.Context) (err error) {
	all, err := f.spec.All()
	if err != nil {
		return err
	}
	out, err := createNew(f.workflowsFile())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	f.result.Workflows, f.result.Items = len(all), f.spec.Items
	for i := range all {
		w := &all[i]
		body, err := json.Marshal(w.Definition)
		if err != nil {
			return fmt.Errorf("make workflow %s: %w", w.Name, err)
		}
		if err := journal.WriteLine(out, w); err != nil {
			return err
		}
		o, err := askUntil(ctx, f.http, f.urls, api.Request{
			Method: http.MethodPut, URL: "/v1/workflows/" + w.Name, Type: "application/json", Body: body, Timeout: askTimeout,
			Header: map[string]string{"Carillon-Tenant": f.tenant},
		}, i, askPatient)
		if err == nil && o.acked.IsZero() {
			err = errors.New("no node has said that it is there")
		}
		if err != nil {
			return fmt.Errorf("make workflow %s: %w", w.Name, err)
		}
		f.result.Steps += len(w.Definition.Steps)
	}
	return nil
}

// trigger asks for the runs, evenly over the span, and writes down each request with its answer.
func (f flow) trigger(ctx context.Context, t0 time.Time) (err error) {
	out, err := createNew(f.triggersFile())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	var mu sync.Mutex // guards out
	err = recurringCourse{f.run}.askAll(ctx, "workflows triggered", f.spec.Runs, &f.result.Triggering, func(ctx context.Context, i int) error {
		if err := wait.Until(ctx, t0.Add(time.Duration(i)*f.span/time.Duration(f.spec.Runs))); err != nil {
			return err
		}
		t, err := f.triggerOne(ctx, i+1)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		return journal.WriteLine(out, t)
	})
	f.keepDue(time.Now())
	return err
}

// triggerOne makes request n.
func (f flow) triggerOne(ctx context.Context, n int) (workflows.Trigger, error) {
	name, payload := f.spec.Trigger(n)
	t := workflows.Trigger{Ref: check.Ref{Source: name, Line: n}, Payload: payload, Requested: time.Now().UTC()}
	body, err := json.Marshal(map[string]json.RawMessage{"payload": payload})
	if err != nil {
		return t, fmt.Errorf("trigger %s: %w", t.Ref, err)
	}
	o, err := askUntil(ctx, f.http, f.urls, api.Request{
		Method: http.MethodPost, URL: "/v1/workflows/" + name + "/trigger", Type: "application/json", Body: body, Timeout: askTimeout,
		Header: map[string]string{"Carillon-Tenant": f.tenant, "Idempotency-Key": fmt.Sprintf("run-%d", n)},
	}, n, askPatient)
	if err != nil || o.acked.IsZero() {
		return t, errors.Join(err, ctx.Err())
	}
	var made struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(o.body, &made); err != nil {
		return t, fmt.Errorf("trigger %s: read answer: %w", t.Ref, err)
	}
	t.Run, t.Acked = made.ID, o.acked
	return t, nil
}

// workflowFaults returns the faults of Faults: those of Carillon nodes each minute of the span, of one
// node after the other, those of Cassandra and NATS each storeRounds minutes. A kind with one member is
// left alone: without it nothing runs.
func workflowFaults(members cluster.Spec, span time.Duration) []chain {
	var all []chain
	for round := range max(int(span/fullSpan), 1) {
		for i, c := range schedule(Faults, members.Cassandra, members.NATS, members.Nodes, span) {
			if i == len(all) {
				all = append(all, nil)
			}
			if !strings.HasPrefix(c[0].member, "carillon-") && round%storeRounds != 0 {
				continue
			}
			for _, s := range c {
				s.at += time.Duration(round) * fullSpan
				s.member = turned(s.member, round, members.Nodes)
				all[i] = append(all[i], s)
			}
		}
	}
	return slices.DeleteFunc(all, func(c chain) bool {
		return strings.HasPrefix(c[0].member, "cassandra-") && members.Cassandra == 1 ||
			strings.HasPrefix(c[0].member, "nats-") && members.NATS == 1
	})
}

// turned returns the Carillon node that stands so many places after a member; others as they are.
func turned(member string, places, nodes int) string {
	var n int
	if _, err := fmt.Sscanf(member, "carillon-%d", &n); err != nil {
		return member
	}
	return numbered("carillon", (n-1+places)%nodes+1)
}

// judge has the runs of the workflows judged.
func (r workflowsCourse) judge(ctx context.Context, out io.Writer) error {
	return judging(r).by(ctx, "check", r.sink, r.flow().evidence(), out, &r.report.Workflows.Check)
}

// workflowsFaults says what the judge found, and names what must have happened in Workflows and did not.
func (r *Report) workflowsFaults() []string {
	if r.Scenario != Workflows || !r.Judged || r.Workflows == nil {
		return nil
	}
	var faults []string
	c := &r.Workflows.Check
	if c.Failed() {
		faults = append(faults, flowFault(c))
	}
	for _, n := range []struct {
		n    int
		what string
	}{
		{c.Items, "item ran"}, {c.Retried, "call was tried again"}, {c.FailedSteps, "step failed"}, {c.Skipped, "step was skipped"}, {c.Waits, "step waited"},
	} {
		if n.n == 0 {
			faults = append(faults, "no "+n.what)
		}
	}
	if c.Acknowledged < r.Settings.Jobs {
		faults = append(faults, fmt.Sprintf("%d of %d runs were acknowledged", c.Acknowledged, r.Settings.Jobs))
	}
	if !slices.ContainsFunc(r.Events, func(e Event) bool { return e.Act == ActKill }) {
		faults = append(faults, "no node was killed")
	}
	return faults
}

// flowFault says in words what the judge of a flow found.
func flowFault(c *workflows.Report) string {
	return fmt.Sprintf("missed %d, extra %d, stuck %d, untrue %d, early %d, unexplained duplicates %d, called twice by one process %d, too late %d, unreadable %d, record of the sink complete: %t",
		c.Missed, c.Extra, c.Stuck, c.Untrue, c.Early, c.Unexplained, c.CalledTwice, c.TooLate, c.Unreadable+c.Unread+c.Unlisted, c.SeenAll)
}

// workflowRows are of Workflows.
var workflowRows = []row{
	{"workflows", ofWorkflows(func(r *Report, res *WorkflowsResult) string {
		return fmt.Sprintf("%d with %d steps, one with %d items; %d runs asked for over %g s (%.1f/s)",
			res.Workflows, res.Steps, res.Items, r.Settings.Jobs, r.Settings.SpanSeconds, res.Triggering.PerSecond())
	})},
	{"runs: acknowledged, unknown; failed, as they had to", ofWorkflows(func(_ *Report, res *WorkflowsResult) string {
		c := &res.Check
		return fmt.Sprintf("%d, %d; %d", c.Acknowledged, c.Unknown, c.DoneFailed)
	})},
	{"runs of steps, of which of items; failed, skipped, waited; calls of later attempts", ofWorkflows(func(_ *Report, res *WorkflowsResult) string {
		c := &res.Check
		return fmt.Sprintf("%d, %d; %d, %d, %d; %d", c.StepRuns, c.Items, c.FailedSteps, c.Skipped, c.Waits, c.Retried)
	})},
	{"**missed, extra, stuck**", ofWorkflows(func(_ *Report, res *WorkflowsResult) string {
		return fmt.Sprintf("**%d, %d, %d**", res.Check.Missed, res.Check.Extra, res.Check.Stuck)
	})},
	{"**untrue, early**", ofWorkflows(func(_ *Report, res *WorkflowsResult) string {
		return fmt.Sprintf("**%d, %d**", res.Check.Untrue, res.Check.Early)
	})},
	{"duplicate executions; unexplained, called twice by one process", ofWorkflows(func(_ *Report, res *WorkflowsResult) string {
		return fmt.Sprintf("%d; %d, %d", res.Check.DuplicateExecutions, res.Check.Unexplained, res.Check.CalledTwice)
	})},
	{"unreadable runs, steps, windows", ofWorkflows(func(_ *Report, res *WorkflowsResult) string {
		return fmt.Sprintf("%d, %d, %d", res.Check.Unreadable, res.Check.Unread, res.Check.Unlisted)
	})},
	{"a step after those before it, as seen by the sink, ms: p50 / p90 / p99 / p99.9 / max", ofWorkflows(func(_ *Report, res *WorkflowsResult) string {
		return latenessText(res.Check.Late)
	})},
	{"too late (bound)", ofWorkflows(func(_ *Report, res *WorkflowsResult) string {
		return fmt.Sprintf("%d (%s)", res.Check.TooLate, res.Check.Bound)
	})},
	{"arrivals: mean, peak second, last", arrivalsCell},
	{"CPU idle, s/s", coresIn("idle")},
	{"CPU while they run, s/s", coresIn("runs")},
}

// ofWorkflows makes a cell that is empty in reports without workflows.
func ofWorkflows(cell func(*Report, *WorkflowsResult) string) func(*Report) string {
	return func(r *Report) string {
		if r.Workflows == nil {
			return ""
		}
		return cell(r, r.Workflows)
	}
}
