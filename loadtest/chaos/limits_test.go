package chaos

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/metrics"
	"carillon.dev/carillon/loadtest/workload"
)

// Rates and limits, small: a Cassandra, a NATS server, two nodes of which one is killed -9 and
// comes back.
func TestLimitsEndToEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: make test-all runs it")
	}
	cluster.Require(t)
	cfg := endToEnd(t, Limits)
	cfg.Jobs, cfg.Lead, cfg.Span, cfg.Warm = 800, 20*time.Second, 24*time.Second, -1
	rep := playEndToEnd(t, cfg)

	// That the judges are content says little if nothing happened; that runs waited, and were put
	// off, skipped and cancelled, the report asks for itself.
	c, res := rep.Check, rep.Recurring
	if c.Acknowledged != cfg.Jobs || c.Done != cfg.Jobs || !c.SeenAll || len(c.Rates) != 4 || len(c.Limits) != 2 {
		t.Errorf("check = %+v, want %d jobs acknowledged and done, by a complete record, of 4 tasks with rates and 2 with limits", c, cfg.Jobs)
	}
	for _, rate := range c.Rates {
		if want := map[string]int{"shaky": 2 * rate.Runs}[rate.Task]; rate.Runs == 0 || rate.Starts+rate.Uncalled < max(want, rate.Runs) {
			t.Errorf("rate = %+v, want starts of all attempts but those that a kill kept from their calls, at least %d", rate, max(want, rate.Runs))
		}
	}
	for _, limit := range c.Limits {
		if limit.Waited == 0 || limit.Most < 2 || limit.Calls < limit.Runs {
			t.Errorf("limit = %+v, want calls of all its runs, several at once, of which some waited", limit)
		}
	}
	if rep.Deferrals == 0 {
		t.Error("no node says that it has deferred a run of a task that was at its limit")
	}
	if l := res.Check; l.JobsAcknowledged != cfg.Jobs/limitedPart || l.Targets == 0 || l.Done+l.MissedByPolicy != l.Targets || !l.SeenAll || len(l.Limits) < 5 {
		t.Errorf("check of limits = %+v, want %d jobs, all targets done or given up by policy, by a complete record", l, cfg.Jobs/limitedPart)
	}
}

func TestLimitedTasksNeedTheirShareOfTheSpan(t *testing.T) {
	total := 0
	for _, task := range limitedTasks(limitsJobs, limitsSpan) {
		total += task.jobs
		rate := map[string]string{"brisk": "25/s", "herd": "888/m", "shaky": "9/s", "ample": "200/s"}[task.name]
		most := map[string]int{"crew": 20, "pair": 2}[task.name]
		if task.rate != rate || task.most != most || rate == "" && most == 0 || task.over > limitsSpan {
			t.Errorf("limitedTasks = %+v, want the rate %q and %d at once, within the span", task, rate, most)
		}
		if err := (workload.Spec{N: task.jobs, From: noon, Source: task.source(), Target: "http://h", Kinds: []workload.Kind{{Task: task.name}}}).Validate(); err != nil {
			t.Errorf("the jobs of %s: %v", task.name, err)
		}
	}
	if total != limitsJobs {
		t.Errorf("limitedTasks has %d jobs, want %d", total, limitsJobs)
	}
	for _, task := range limitedTasks(minLimited, time.Second) {
		var rate check.Rate
		if err := rate.UnmarshalText([]byte(task.rate)); task.jobs < 1 || task.most < 1 && err != nil {
			t.Errorf("limitedTasks of few jobs = %+v: %v", task, err)
		}
	}
	if crewWork >= check.SlotHeld || pairWork >= check.SlotHeld {
		t.Errorf("the receiver works for %s and %s, want less than %s: the slot of an executor that died must outlast it", crewWork, pairWork, check.SlotHeld)
	}
}

func TestLimitedTasksAreAskedFor(t *testing.T) {
	rows := []struct {
		name string
		task limitedTask
		want string
	}{
		{
			"a rate",
			limitedTask{name: "a", rate: "9/s", manner: "fail-1"},
			`{"http":{"url":"http://h/fail-1/task-a/calls"},"timeout":"15s","retry":{"initial":"500ms","max":"5s"},"rate":"9/s"}`,
		},
		{
			"runs at once",
			limitedTask{name: "b", most: 20},
			`{"http":{"url":"http://h/task-b/calls"},"timeout":"15s","retry":{"initial":"500ms","max":"5s"},"max_concurrent":20}`,
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got := string(row.task.body("http://h")); got != row.want {
				t.Errorf("body = %s, want %s", got, row.want)
			}
		})
	}
}

func TestReadPutOffs(t *testing.T) {
	const text = "# TYPE carillon_executor_deferred_total counter\ncarillon_executor_deferred_total{reason=\"breaker\"} 7\n" +
		"carillon_executor_deferred_total{reason=\"limit\"} 1.2e+03\ncarillon_executor_deferred_total{reason=\"rate\"} 8\n"
	v, err := metrics.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := v.Value(deferralCounter); n != 1200 || err != nil {
		t.Errorf("%s = %g, %v, want 1200", deferralCounter, n, err)
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
	r.Check.Limits = []check.SlotCount{{Of: "crew", Limit: 20, Runs: 1500, Calls: 1510, Most: 20, Waited: 1400, Doubled: 3, Outlived: 2}}
	r.Deferrals = 2700
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
		{"nothing was deferred", func(r *Report) { r.Check.Rates[0].Deferred = 0 }, "no run was deferred by a rate"},
		{"nobody was killed", func(r *Report) { r.Events = nil }, "no node was killed"},
		{"a limit was broken", func(r *Report) { r.Recurring.Check.Limits[1].Over = 7 }, "queue 2: calls beyond the limit 7"},
		{"a run beside itself", func(r *Report) { r.Recurring.Check.Limits[1].Twice = 7 }, "runs beside themselves 7"},
		{"nothing waited for others of its task", func(r *Report) { r.Check.Limits[0].Waited = 0 }, "no run waited for others of its task"},
		{"a limit of a task was broken", func(r *Report) { r.Check.Limits[0].Over = 7 }, "crew 20: calls beyond the limit 7, runs beside themselves 0"},
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
		"| jobs | 6000 one-off jobs of tasks with limits, 150 recurring jobs with limits; for 90 s |  |",
		"herd 888/m: 1200, 1201, 1100; 15.0, 2.5; 0 |  |",
		"| crew 20: 1500, 1510 (3, 2), 20; 1400; 0 |  |",
		"| starts deferred by max_concurrent | 2700 |  |",
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
