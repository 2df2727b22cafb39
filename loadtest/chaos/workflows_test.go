package chaos

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/check/workflows"
)

// Workflows, small: a Cassandra, a NATS server, two nodes of which one is killed -9 and comes back.
func TestWorkflowsEndToEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: make test-all runs it")
	}
	cluster.Require(t)
	cfg := endToEnd(t, Workflows)
	cfg.Jobs, cfg.Items, cfg.Lead, cfg.Span = 20, 100, 15*time.Second, 20*time.Second
	rep := playEndToEnd(t, cfg)

	// That the judge is content says little if nothing happened; that steps ran, failed, were tried
	// again, skipped and waited, the report asks for itself.
	res := rep.Workflows
	if c := res.Check; c.Acknowledged != cfg.Jobs || c.Items < cfg.Items || c.StepRuns < 10*cfg.Jobs || c.Late.Count == 0 {
		t.Errorf("check = %+v, want %d runs, with steps of their own and %d items", c, cfg.Jobs, cfg.Items)
	}
	if res.Workflows != 21 || res.Steps < 210 {
		t.Errorf("%d workflows with %d steps, want 21 with 10 and more each", res.Workflows, res.Steps)
	}
	for _, e := range rep.Events {
		if !strings.HasPrefix(e.Member, "carillon-") {
			t.Errorf("event %v, want the only Cassandra and the only NATS server left alone", e)
		}
	}
}

func TestWorkflowFaultsComeAgainAndSpareTheOnlyOnes(t *testing.T) {
	all := workflowFaults(three, 6*time.Minute)
	killed := map[string]int{}
	for _, c := range all {
		broken := map[string]bool{}
		for i, s := range c {
			if i > 0 && s.at < c[i-1].at || s.at > 6*time.Minute {
				t.Errorf("%v: step %d comes before that before it, or after the span", c, i)
			}
			switch s.act {
			case ActKill:
				killed[s.member]++
				fallthrough
			case ActFreeze:
				broken[s.member] = true
			default:
				delete(broken, s.member)
			}
		}
		if len(broken) > 0 {
			t.Errorf("%v leaves %v broken", c, broken)
		}
	}
	for _, member := range []string{"carillon-1", "carillon-2", "carillon-3"} {
		if killed[member] != 2 {
			t.Errorf("killed: %v, want each Carillon node once in three minutes", killed)
		}
	}
	if killed["cassandra-2"] != 2 || killed["nats-2"] != 2 {
		t.Errorf("killed: %v, want a Cassandra and a NATS server once in three minutes", killed)
	}
	for _, c := range workflowFaults(cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 2}, time.Minute) {
		if !strings.HasPrefix(c[0].member, "carillon-") {
			t.Errorf("%v, want faults of Carillon nodes alone", c)
		}
	}
}

// workflowsReport is a good report of workflows.
func workflowsReport() *Report {
	r := good()
	r.Scenario, r.Settings.Jobs, r.Settings.SpanSeconds, r.Check, r.Imports = Workflows, 2000, 300, check.Report{}, nil
	r.Workflows = &WorkflowsResult{
		Workflows: 21, Steps: 600, Items: 1000, Triggering: AskRate{Requests: 2000, Seconds: 300},
		Check: workflows.Report{
			Triggers: 2000, Acknowledged: 2000, DoneFailed: 900, StepRuns: 60_000, Items: 20_100, FailedSteps: 3000, Skipped: 9000, Waits: 4000,
			Retried: 7000, DuplicateExecutions: 12, SeenAll: true, Sightings: 67_012, Late: check.Lateness{Count: 1, P50: 20, Max: 31_000},
		},
	}
	return r
}

func TestWorkflowsReport(t *testing.T) {
	if r := workflowsReport(); r.Failed() {
		t.Fatalf("Faults = %q, want none", r.Faults())
	}
	rows := []struct {
		name   string
		breaks func(*Report)
		says   string
	}{
		{"missed", func(r *Report) { r.Workflows.Check.Missed = 7 }, "missed 7"},
		{"extra", func(r *Report) { r.Workflows.Check.Extra = 7 }, "extra 7"},
		{"stuck", func(r *Report) { r.Workflows.Check.Stuck = 7 }, "stuck 7"},
		{"untrue", func(r *Report) { r.Workflows.Check.Untrue = 7 }, "untrue 7"},
		{"early", func(r *Report) { r.Workflows.Check.Early = 7 }, "early 7"},
		{"unexplained", func(r *Report) { r.Workflows.Check.Unexplained = 7 }, "unexplained duplicates 7"},
		{"called twice", func(r *Report) { r.Workflows.Check.CalledTwice = 7 }, "called twice by one process 7"},
		{"unlisted", func(r *Report) { r.Workflows.Check.Unlisted = 7 }, "unreadable 7"},
		{"an incomplete record", func(r *Report) { r.Workflows.Check.SeenAll = false }, "complete: false"},
		{"no items", func(r *Report) { r.Workflows.Check.Items = 0 }, "no item ran"},
		{"no retries", func(r *Report) { r.Workflows.Check.Retried = 0 }, "no call was tried again"},
		{"no skips", func(r *Report) { r.Workflows.Check.Skipped = 0 }, "no step was skipped"},
		{"few runs", func(r *Report) { r.Workflows.Check.Acknowledged = 1999 }, "1999 of 2000 runs were acknowledged"},
		{"nobody was killed", func(r *Report) { r.Events = nil }, "no node was killed"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := workflowsReport()
			row.breaks(r)
			if got := strings.Join(r.Faults(), "; "); !strings.Contains(got, row.says) {
				t.Errorf("Faults = %q, want %q", got, row.says)
			}
		})
	}
}

func TestMarkdownOfWorkflows(t *testing.T) {
	var out bytes.Buffer
	if err := WriteMarkdown(&out, workflowsReport(), good()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| | workflows | faults |",
		"| verdict | ok | ok |",
		"| workflows | 21 with 600 steps, one with 1000 items; 2000 runs asked for over 300 s (6.7/s) |  |",
		"| **missed, extra, stuck** | **0, 0, 0** |  |",
		"| **untrue, early** | **0, 0** |  |",
		"| asked, acknowledged, done |  | 100000, 100000, 100000",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("WriteMarkdown has no %q:\n%s", want, out.String())
		}
	}
	if got, want := summaryRow(workflowsReport()), "| workflows | ok | abc, "; !strings.HasPrefix(got, want) || !strings.Contains(got, "| 2000 | 0 / 0 / 0 | 12 | 31.0 s (") {
		t.Errorf("summaryRow = %q, want %q and its figures", got, want)
	}
}

func TestWorkflowsConfig(t *testing.T) {
	base := Config{Scenario: Workflows, Dir: "d", Program: "p", Cluster: three}
	if err := base.Validate(); err != nil {
		t.Errorf("Validate of workflows with its defaults = %v", err)
	}
	if c := base.withDefaults(); c.Jobs != 2000 || c.Items != 1000 || c.Span != 5*time.Minute || c.Changes != 0 || c.Late.Max <= 0 {
		t.Errorf("the defaults are %+v, want 2,000 runs and 1,000 items over 5 min, without changes, with a bound", c)
	}
	for want, change := range map[string]func(*Config){
		"jobs":    func(c *Config) { c.Jobs = minWorkflowRuns - 1 },
		"items":   func(c *Config) { c.Items = 10_001 },
		"cluster": func(c *Config) { c.Cluster.Nodes = 1 },
	} {
		c := base
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate with a bad %s = %v, want it named", want, err)
		}
	}
}
