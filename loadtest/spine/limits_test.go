package spine

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/workload"
)

// Rates and limits, small: a Cassandra, a NATS server, two nodes of which one is killed -9 and comes back.
func TestLimitsEndToEnd(t *testing.T) {
	cluster.Require(t)
	cfg := endToEnd(t, Limits)
	cfg.Jobs, cfg.Lead, cfg.Span = 800, 20*time.Second, 24*time.Second
	rep := playEndToEnd(t, cfg)

	// That the judges are content says little if nothing happened; that runs waited, and were put off, skipped and cancelled, the report asks for itself.
	c, res := rep.Check, rep.Recurring
	if c.Acknowledged != cfg.Jobs || c.Done != cfg.Jobs || !c.SeenAll || len(c.Rates) != 4 {
		t.Errorf("check = %+v, want %d jobs acknowledged and done, by a complete record, of 4 tasks", c, cfg.Jobs)
	}
	for _, rate := range c.Rates {
		if want := map[string]int{"shaky": 2 * rate.Runs}[rate.Task]; rate.Runs == 0 || rate.Starts < max(want, rate.Runs) {
			t.Errorf("rate = %+v, want starts of all attempts, at least %d", rate, max(want, rate.Runs))
		}
	}
	if l := res.Check; l.JobsAcknowledged != cfg.Jobs/limitedPart || l.Targets == 0 || l.Done+l.MissedByPolicy != l.Targets || !l.SeenAll || len(l.Limits) < 5 {
		t.Errorf("check of limits = %+v, want %d jobs, all targets done or given up by policy, by a complete record", l, cfg.Jobs/limitedPart)
	}
}

func TestRatedTasksNeedTheirShareOfTheSpan(t *testing.T) {
	total := 0
	for _, task := range ratedTasks(limitsJobs, limitsSpan) {
		total += task.jobs
		want := map[string]string{"brisk": "50/s", "herd": "888/m", "shaky": "9/s", "ample": "200/s"}[task.name]
		if task.rate != want || task.over > limitsSpan {
			t.Errorf("ratedTasks = %+v, want the rate %s within the span", task, want)
		}
		if err := (workload.Spec{N: task.jobs, From: noon, Source: "rated-" + task.name, Target: "http://h", Kinds: []workload.Kind{{Task: task.name}}}).Validate(); err != nil {
			t.Errorf("the jobs of %s: %v", task.name, err)
		}
	}
	if total != limitsJobs {
		t.Errorf("ratedTasks has %d jobs, want %d", total, limitsJobs)
	}
	for _, task := range ratedTasks(minLimited, time.Second) {
		var rate check.Rate
		if err := rate.UnmarshalText([]byte(task.rate)); err != nil || task.jobs < 1 {
			t.Errorf("ratedTasks of few jobs = %+v: %v", task, err)
		}
	}
}

func TestLimitedShapesAreOfAllKinds(t *testing.T) {
	shapes := limitedShapes()
	for _, onLimit := range []string{"queue", "skip", "cancel_oldest"} {
		busy, idle := 0, 0
		for _, s := range shapes {
			if s.OnLimit != onLimit {
				continue
			}
			if s.Work >= time.Duration(s.Limit)*s.Every {
				busy++
			} else {
				idle++
			}
			if s.Work >= check.SlotHeld {
				t.Errorf("%+v, want work for less than %s: the slot of an executor that died must outlast it", s, check.SlotHeld)
			}
		}
		if busy == 0 || idle == 0 {
			t.Errorf("%s: %d shapes that are due more often than they may run and %d others, want both", onLimit, busy, idle)
		}
	}
	l := workload.Limited{N: len(shapes), Start: noon, End: noon.Add(limitsSpan), Shapes: shapes, Source: limitedSource, Target: "http://h"}
	for n := range shapes {
		if _, err := l.Body(n + 1); err != nil {
			t.Errorf("Body(%d) = %v", n+1, err)
		}
	}
}

// limitsReport is a good report of limits.
func limitsReport() *Report {
	r := good()
	r.Scenario, r.Settings.Jobs, r.Settings.SpanSeconds = Limits, limitsJobs, 90
	r.Check.Rates = []check.RateCount{{Task: "herd", Rate: check.Rate{Count: 888, Per: time.Minute}, Runs: 1200, Starts: 1201, Deferred: 1100, Seconds: 80, Burst: 2.5}}
	r.Recurring = &RecurringResult{Start: noon, End: noon.Add(90 * time.Second), Check: check.RecurringReport{
		Targets: 4000, Done: 3000, MissedByPolicy: 1000, MissedReasons: map[string]int{"skipped": 1000},
		Limits: []check.SlotCount{
			{Of: "cancel_oldest", Limit: 1, Runs: 900, Calls: 900, Most: 1, Cancelled: 800},
			{Of: "queue", Limit: 2, Runs: 800, Calls: 801, Most: 2, Waited: 600, Outlived: 3},
			{Of: "skip", Limit: 1, Runs: 900, Calls: 500, Most: 1, Skipped: 400},
		},
	}}
	return r
}

func TestLimitsReport(t *testing.T) {
	if r := limitsReport(); r.Failed() {
		t.Fatalf("Faults = %q, want none", r.Faults())
	}
	rows := []struct {
		name   string
		breaks func(*Report)
		says   string
	}{
		{"nothing waited", func(r *Report) { r.Recurring.Check.Limits[1].Waited = 0 }, "no run waited for a slot"},
		{"nothing was skipped", func(r *Report) { r.Recurring.Check.Limits[2].Skipped = 0 }, "no run was skipped"},
		{"nothing was cancelled", func(r *Report) { r.Recurring.Check.Limits[0].Cancelled = 0 }, "no run was cancelled by a limit"},
		{"nothing was put off", func(r *Report) { r.Check.Rates[0].Deferred = 0 }, "no run was put off by a rate"},
		{"nobody was killed", func(r *Report) { r.Events = nil }, "no node was killed"},
		{"a limit was broken", func(r *Report) { r.Recurring.Check.Limits[1].Over = 7 }, "queue 2: calls beyond the limit 7"},
		{"a run beside itself", func(r *Report) { r.Recurring.Check.Limits[1].Twice = 7 }, "runs beside themselves 7"},
		{"a rate was broken", func(r *Report) { r.Check.Rates[0].Over = 7 }, "herd: starts beyond 888/m 7"},
		{"a job was missed", func(r *Report) { r.Recurring.Check.Missed = 7 }, "missed 7"},
		{"a one-off job was missed", func(r *Report) { r.Check.Missed = 7 }, "missed 7"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := limitsReport()
			row.breaks(r)
			if got := strings.Join(r.Faults(), "; "); !strings.Contains(got, row.says) {
				t.Errorf("Faults = %q, want %q", got, row.says)
			}
		})
	}
}

func TestMarkdownOfLimits(t *testing.T) {
	var out bytes.Buffer
	if err := WriteMarkdown(&out, limitsReport(), good()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| | limits | faults |",
		"| jobs | 6000 one-off jobs of tasks with rates, 150 recurring jobs with limits; for 90 s |  |",
		"herd 888/m: 1200, 1201, 1100; 15.0, 2.5; 0 |  |",
		"| cancel_oldest 1: 900, 900, 1; 0, 0, 800, 0; 0, 0<br>queue 2: 800, 801, 2; 600, 0, 0, 3; 0, 0<br>skip 1: 900, 500, 1; 0, 400, 0, 0; 0, 0 |  |",
		"| asked, acknowledged, done |  | 100000, 100000, 100000",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("WriteMarkdown has no %q:\n%s", want, out.String())
		}
	}
}

func TestLimitsConfig(t *testing.T) {
	base := Config{Scenario: Limits, Dir: "d", Program: "p", Cluster: cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 2}}
	if err := base.Validate(); err != nil {
		t.Errorf("Validate of limits with its defaults = %v", err)
	}
	for want, change := range map[string]func(*Config){
		"jobs":    func(c *Config) { c.Jobs = minLimited - 1 },
		"lead":    func(c *Config) { c.Lead = tasksLead },
		"cluster": func(c *Config) { c.Cluster.Nodes = 1 },
	} {
		c := base
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate with a bad %s = %v, want it named", want, err)
		}
	}
}
