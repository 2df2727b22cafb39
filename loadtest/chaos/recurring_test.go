package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/workload"
)

// Recurring jobs, small: a Cassandra, a NATS server, two nodes of which one is killed -9 and comes
// back.
func TestRecurringJobsEndToEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: make test-all runs it")
	}
	cluster.Require(t)
	cfg := endToEnd(t, Recurring)
	cfg.Jobs, cfg.Every, cfg.Span, cfg.Create = 200, 3*time.Second, 18*time.Second, 10*time.Second
	rep := playEndToEnd(t, cfg)

	// That the judge is content says little if nothing happened. Each job has as many times as
	// there are between start and end, unless it was created late.
	res, want := rep.Recurring, cfg.Jobs*6
	if c := res.Check; c.JobsAcknowledged != cfg.Jobs || c.Targets != want && res.LateSeconds == 0 || c.Targets < want/2 || c.Done != c.Targets || !c.SeenAll {
		t.Errorf("check = %+v, want %d jobs, %d targets, all done, by a complete record; the last job was created %g s late", c, cfg.Jobs, want, res.LateSeconds)
	}
	if c := res.Check.Changes; c.Cancelled != 0 || res.Ending.Requests != 0 {
		t.Errorf("%d jobs were cancelled, want none: they end by themselves", c.Cancelled)
	}
	if e := rep.Events; len(e) != 2 || e[0].Act != ActKill || e[1].Act != ActStart || e[1].Member != "carillon-1" {
		t.Errorf("events = %v, want one kill and one start of carillon-1", e)
	}
}

// jobShown is what a node shows of a recurring job.
const jobShown = `{"id":"j1","state":"active","generation":7,"schedule":{"every":"30s","anchor":"2026-11-21T12:00:00.000Z"},"jitter":"3s"}`

func TestRequestsAboutJobsAreWrittenDownAsTheyWereAnswered(t *testing.T) {
	ref := check.Ref{Source: "recurring", Line: 5}
	create := jobRequest{ref: ref, kind: check.JobCreated, body: []byte(`{}`)}
	change := func(kind check.JobEventKind) jobRequest { return jobRequest{ref: ref, kind: kind, id: "j1"} }
	dead := nobody(t)
	rows := []struct {
		name           string
		request        jobRequest
		answers        []int
		first          string // a node that is asked before; "" = none
		asked          string // last request
		acked, refused bool
		fails          bool
	}{
		{name: "a creation", request: create, answers: []int{201}, asked: "POST /v1/jobs {} recurring-5", acked: true},
		{name: "a creation that is in doubt is asked for again under its key", request: create, answers: []int{503, 0, 201}, asked: "POST /v1/jobs {} recurring-5", acked: true},
		{name: "a creation that should not be refused", request: create, answers: []int{422}, asked: "POST /v1/jobs {} recurring-5", fails: true},
		{name: "a pause", request: change(check.JobPaused), answers: []int{200}, asked: "POST /v1/jobs/j1/pause", acked: true},
		{name: "a resume", request: change(check.JobResumed), answers: []int{200}, asked: "POST /v1/jobs/j1/resume", acked: true},
		{name: "a cancel", request: change(check.JobCancelled), answers: []int{200}, asked: "DELETE /v1/jobs/j1", acked: true},
		{name: "refused", request: change(check.JobPaused), answers: []int{409}, asked: "POST /v1/jobs/j1/pause", refused: true},
		{name: "hung up, then refused: perhaps because of ourselves", request: change(check.JobPaused), answers: []int{0, 409}, asked: "POST /v1/jobs/j1/pause"},
		{name: "nobody there, then refused: never taken", request: change(check.JobPaused), first: dead, answers: []int{409}, asked: "POST /v1/jobs/j1/pause", refused: true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			n := &node{answers: row.answers, shows: jobShown}
			srv := httptest.NewServer(n)
			defer srv.Close()
			var out bytes.Buffer
			a := &asker{urls: []string{srv.URL}, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, out: &out}
			if row.first != "" {
				a.urls = []string{row.first, srv.URL}
			}
			_, err := a.ask(t.Context(), row.request, 0)
			if (err != nil) != row.fails {
				t.Fatalf("ask(%v) = %v, want an error: %t", row.request, err, row.fails)
			}
			if got := n.asked[len(n.asked)-1]; got != row.asked {
				t.Errorf("ask(%v) asked %q, want %q at last", row.request, n.asked, row.asked)
			}
			events, err := journal.ReadEvents(&out)
			if err != nil || len(events) != 1 && !row.fails {
				t.Fatalf("ReadEvents = %v, %v, want one", events, err)
			}
			for _, e := range events {
				if e.Acked.IsZero() == row.acked || e.Refused != row.refused || e.Ref != ref || e.Kind != row.request.kind || e.Requested.IsZero() {
					t.Errorf("wrote %+v, want the event of %+v, acknowledged %t, refused %t", e, row.request, row.acked, row.refused)
				}
				if row.acked && (e.Job.Generation != 7 || time.Duration(e.Job.Jitter) != 3*time.Second || !e.Job.Schedule.Anchor.Equal(noon)) {
					t.Errorf("wrote the job %+v, want that of the answer", e.Job)
				}
			}
		})
	}
}

func TestAnswersThatShowAnotherJobAreFound(t *testing.T) {
	const shown = `{"schedule":{"every":"30s","anchor":"2026-11-21T12:00:00Z"},"jitter":"3s","misfire":{"policy":"run_latest"}}`
	rows := []struct {
		name, asked, shown string
		same               bool
	}{
		{"nothing stated but the interval", `{"schedule":{"every":"30s"}}`, shown, true},
		{"another interval", `{"schedule":{"every":"31s"}}`, shown, false},
		{"another anchor", `{"schedule":{"every":"30s","anchor":"2026-11-21T12:00:01Z"}}`, shown, false},
		{"another start", `{"schedule":{"every":"30s"},"start":"2026-11-21T12:00:00Z"}`, shown, false},
		{"another end", `{"schedule":{"every":"30s"}}`, `{"schedule":{"every":"30s"},"end":"2026-11-21T12:00:00Z"}`, false},
		{"the same start in other words", `{"schedule":{"every":"30s"},"start":"2026-11-21T12:00:00Z"}`, `{"schedule":{"every":"30s"},"start":"2026-11-21T12:00:00.000Z"}`, true},
		{"another limit", `{"schedule":{"every":"30s"},"concurrency":{"limit":1,"on_limit":"skip"}}`, `{"schedule":{"every":"30s"},"concurrency":{"limit":1,"on_limit":"queue"}}`, false},
		{"no limit", `{"schedule":{"every":"30s"},"concurrency":{"limit":1,"on_limit":"skip"}}`, shown, false},
		{"another jitter", `{"schedule":{"every":"30s"},"jitter":"0s"}`, shown, false},
		{"another policy", `{"schedule":{"every":"30s"},"misfire":{"policy":"skip"}}`, shown, false},
		{"a cron", `{"schedule":{"cron":"5/30 * * * * *"}}`, `{"schedule":{"cron":"5/30 * * * * *","timezone":"UTC"},"jitter":"3s"}`, true},
		{"another zone", `{"schedule":{"cron":"5/30 * * * * *","timezone":"Asia/Kathmandu"}}`, `{"schedule":{"cron":"5/30 * * * * *","timezone":"UTC"},"jitter":"3s"}`, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			var v check.JobView
			if err := json.Unmarshal([]byte(row.shown), &v); err != nil {
				t.Fatal(err)
			}
			if what, err := differs([]byte(row.asked), &v); err != nil || (what == "") != row.same {
				t.Errorf("differs(%s, %s) = %q, %v, want the same: %t", row.asked, row.shown, what, err, row.same)
			}
		})
	}
}

func TestPlanJobs(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	jobs := make([]liveJob, 1000)
	for i := range jobs {
		jobs[i] = liveJob{check.Ref{Source: "s", Line: i + 1}, fmt.Sprint(i)}
	}
	const span = time.Minute
	kinds := map[check.JobEventKind]int{}
	for i, p := range planJobs(jobs, 2*time.Second, span, rand.New(rand.NewPCG(seed, 0))) {
		if p.job != jobs[i] || len(p.steps) == 0 {
			t.Fatalf("plan %d = %+v, want steps for %+v", i, p, jobs[i])
		}
		last := span / 10
		for _, s := range p.steps {
			kinds[s.kind]++
			if s.at < last || s.at > span {
				t.Errorf("plan %d has a step at %s, want it after %s and within %s", i, s.at, last, span)
			}
			last = s.at + pauseFor
		}
	}
	if want := (map[check.JobEventKind]int{check.JobPaused: 400, check.JobResumed: 200, check.JobUpdated: 400, check.JobCancelled: 200}); fmt.Sprint(kinds) != fmt.Sprint(want) {
		t.Errorf("planJobs = %v, want %v", kinds, want)
	}
}

func TestMarkdownOfRecurringJobs(t *testing.T) {
	r := good()
	r.Scenario, r.Settings.Jobs = Stopped, 600
	r.Recurring = &RecurringResult{
		EverySeconds: 10, Creating: AskRate{600, 3}, Ending: AskRate{600, 6}, Stops: []check.Stop{{From: noon, To: noon.Add(3 * time.Minute)}},
		Check: check.RecurringReport{
			Targets: 18_000, Done: 17_000, MissedByPolicy: 1000, MissedReasons: map[string]int{"skip": 1000}, End: noon.Add(5 * time.Minute),
			Policies: []check.PolicyCount{{Policy: "skip", Deadline: check.Span(90 * time.Second), Jobs: 100, Targets: 1800, RunMin: 600, RunMax: 700, Ran: 650, Missed: 1150}},
		},
	}
	var out bytes.Buffer
	if err := WriteMarkdown(&out, r, good()); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"| | stopped | faults |",
		"| recurring jobs | 600, every 10 s; no node for 180 s; observed for 300 s from the last creation |  |",
		"| targets, done | 18000, 17000 |  |",
		"| recorded as missed by policy | 1000 (skip 1000) |  |",
		"| asked, acknowledged, done |  | 100000, 100000, 100000",
		"| after the stop, by policy | skip 1m30s: of 1800 computed 600–700, ran 650, missed 1150 |  |",
		"| created, cancelled | 200/s, 100/s |  |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("WriteMarkdown has no %q:\n%s", want, text)
		}
	}
	res := r.Recurring
	res.Start, res.End, res.LateSeconds, res.Ending = noon, noon.Add(5*time.Minute), 7, AskRate{}
	out.Reset()
	if err := WriteMarkdown(&out, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"from a start to an end that they state, 300 s (the last was created 7 s after the start) |", "| created, cancelled | 200/s, none |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("WriteMarkdown of jobs with an end has no %q:\n%s", want, out.String())
		}
	}
	r.Recurring.Check.Ghosts = 2
	if !r.Failed() || !strings.Contains(strings.Join(r.Faults(), ""), "ghosts after change 2") {
		t.Errorf("Faults of a report with ghosts = %q", r.Faults())
	}
}

func TestRecurringConfig(t *testing.T) {
	base := Config{Dir: "d", Program: "p", Cluster: cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 2}}
	for _, s := range recurringScenarios {
		c := base
		c.Scenario = s
		if err := c.Validate(); err != nil {
			t.Errorf("Validate of %s with its defaults = %v", s, err)
		}
		if _, err := (workload.Recurring{
			N: 1, Every: c.withDefaults().Every, From: noon, Misfires: misfires(c.withDefaults()), Source: recurringSource, Target: "http://127.0.0.1:9",
		}).Body(1); err != nil {
			t.Errorf("the jobs of %s cannot be made: %v", s, err)
		}
	}
	for jobs, want := range map[int]time.Duration{20: 5 * time.Second, 50_000: 400 * time.Second} {
		c := base
		c.Scenario, c.Jobs = Recurring, jobs
		if got := c.withDefaults().Create.Truncate(time.Second); got != want {
			t.Errorf("Create of %d jobs = %s, want %s", jobs, got, want)
		}
	}
	for name, change := range map[string]func(*Config){
		"jobs":        func(c *Config) { c.Jobs = 1 },
		"every":       func(c *Config) { c.Every = time.Millisecond },
		"span":        func(c *Config) { c.Span = time.Second },
		"stop":        func(c *Config) { c.Stop = -1 },
		"concurrency": func(c *Config) { c.Concurrency = -1 },
		"create":      func(c *Config) { c.Create = time.Second },
	} {
		c := base
		c.Scenario = Stopped
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Validate with a bad %s = %v, want it named", name, err)
		}
	}
}
