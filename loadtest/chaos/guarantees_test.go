package chaos

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/sink"
	"carillon.dev/carillon/loadtest/workload"
)

func TestExecutorsAreKilledInTurnAndComeBack(t *testing.T) {
	for seed := range uint64(20) {
		span := time.Minute
		c := executorKills([]string{"carillon-2", "carillon-3"}, 10*time.Second, span, rand.New(rand.NewPCG(seed, 3)))
		if len(c) != 2*5 {
			t.Fatalf("seed %d: %d steps, want 5 kills and 5 starts: %v", seed, len(c), c)
		}
		for i := 0; i < len(c); i += 2 {
			kill, start := c[i], c[i+1]
			victim := fmt.Sprintf("carillon-%d", 2+i/2%2)
			if kill.act != ActKill || start.act != ActStart || kill.member != victim || start.member != victim || kill.at != time.Duration(i/2+1)*10*time.Second {
				t.Errorf("seed %d: steps %d are %v, %v, want %s killed at %d s and started", seed, i, kill, start, victim, 10*(i/2+1))
			}
			if away := start.at - kill.at; away < restartLeast || away > restartMost || start.at > span {
				t.Errorf("seed %d: %s is away for %s, up to %s, want %s to %s, and up again by %s", seed, victim, away, start.at, restartLeast, restartMost, span)
			}
		}
	}
	if c := executorKills([]string{"carillon-2"}, 4*time.Second, 5*time.Second, rand.New(rand.NewPCG(1, 1))); len(c) != 0 {
		t.Errorf("a span too short for a kill and a start has the steps %v, want none", c)
	}
}

func TestGuardedKindsAreOfAllGuarantees(t *testing.T) {
	for name, kinds := range map[string][]workload.Kind{"guarantees": guaranteeKinds(defaultMix), "seldom claimed": guaranteeKinds(Mix{8, 1, 1}), "frozen": frozenKinds()} {
		of := map[string]int{}
		for _, k := range kinds {
			of[k.Guarantee]++
			if k.Guarantee == string(check.AtMostOnce) && k.Retry.MaxAttempts != 1 {
				t.Errorf("%s: %+v, want one attempt", name, k)
			}
			spec := workload.Spec{N: 1, From: noon, Source: "s", Target: "http://h", Kinds: []workload.Kind{k}}
			if err := spec.Validate(); err != nil {
				t.Errorf("%s: %+v: %v", name, k, err)
			}
		}
		parts, stated := map[string]Mix{"guarantees": {10, 6, 4}, "seldom claimed": {8, 1, 1}}[name]
		each := len(kinds) / max(parts.AtLeastOnce+parts.EffectivelyOnce+parts.AtMostOnce, 1)
		want := map[string]int{"at_least_once": each * parts.AtLeastOnce, "effectively_once": each * parts.EffectivelyOnce, "at_most_once": each * parts.AtMostOnce}
		if len(of) != 3 || stated && !reflect.DeepEqual(of, want) {
			t.Errorf("%s: kinds by guarantee are %v, want all three in the parts %+v", name, of, parts)
		}
	}
	// The judge's rule about overlaps holds for work shorter than what is left of a session at a
	// crash, see check.
	const least = 9 * time.Second
	if frozenWork >= least || sink.MaxHold < frozenWork {
		t.Errorf("the receiver works for %s, want less than %s", frozenWork, least)
	}
}

func guardedReport(s Scenario) *Report {
	r := good()
	r.Scenario = s
	r.Settings.Cluster.Roles = executorRoles(3)
	for _, g := range []check.Guarantee{check.AtLeastOnce, check.AtMostOnce, check.EffectivelyOnce} {
		r.Check.Guarantees = append(r.Check.Guarantees, check.GuaranteeCount{Guarantee: g, Runs: 10, Lost: 1})
	}
	r.Check.AskedToWait = 1
	r.Events = append(r.Events, Event{Act: ActThaw, Member: "carillon-2"})
	return r
}

func TestGuardedReportFails(t *testing.T) {
	rows := []struct {
		name     string
		scenario Scenario
		spoil    func(*Report)
		want     string // in the faults; empty = none
	}{
		{"a good one", Guarantees, func(*Report) {}, ""},
		{"a good one with a thaw", Frozen, func(*Report) {}, ""},
		{"an overlap", Guarantees, func(r *Report) { r.Check.Guarantees[2].Overlaps = 2 }, "effectively_once broken 2 times"},
		{"a second start", Frozen, func(r *Report) { r.Check.Guarantees[1].SecondStarts = 1 }, "at_most_once broken 1 times"},
		{"a run without its dead letter", Guarantees, func(r *Report) { r.Check.NoDeadLetter = 1 }, "failed without a dead letter 1"},
		{"a guarantee that nothing was run under", Guarantees, func(r *Report) { r.Check.Guarantees = r.Check.Guarantees[:2] }, "nothing was run under effectively_once"},
		{"a freeze that hit nothing", Frozen, func(r *Report) { r.Check.Guarantees[0].Lost = 0 }, "had nothing under at_least_once"},
		{"kills need not hit everything", Guarantees, func(r *Report) { r.Check.Guarantees[0].Lost = 0 }, ""},
		{"nobody was asked to wait", Guarantees, func(r *Report) { r.Check.AskedToWait = 0 }, "no call followed an answer with Retry-After"},
		{"nobody is asked to wait where an executor freezes", Frozen, func(r *Report) { r.Check.AskedToWait = 0 }, ""},
		{"no thaw", Frozen, func(r *Report) { r.Events = nil }, "was not thawed"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := guardedReport(row.scenario)
			row.spoil(r)
			got := strings.Join(r.Faults(), "; ")
			if r.Failed() != (row.want != "") || !strings.Contains(got, row.want) {
				t.Errorf("Faults() = %q, Failed() = %t, want %q", got, r.Failed(), row.want)
			}
		})
	}
}

func TestGuardedMarkdownStandsBesideOthers(t *testing.T) {
	var b bytes.Buffer
	if err := WriteMarkdown(&b, guardedReport(Guarantees), good()); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"bucketer+dispatcher, executor, executor", "| effectively_once: runs", "| 10 = 0 + 0;"} {
		if !strings.Contains(text, want) {
			t.Errorf("WriteMarkdown lacks %q:\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") && strings.Count(line, "|") != 4 {
			t.Errorf("a row without three columns: %s", line)
		}
	}
}

// playGuarded runs a scenario with guarantees, on a node that dispatches and two that execute.
func playGuarded(t *testing.T, cfg Config) *Report {
	t.Helper()
	cfg.Cluster.Nodes, cfg.Lead, cfg.Apart = 3, 6*time.Second, time.Second
	rep := playEndToEnd(t, cfg)
	jobs := 0
	for _, i := range rep.Imports {
		jobs += i.Lines
	}
	if c := rep.Check; jobs < cfg.Jobs || (jobs > cfg.Jobs) != (cfg.Warm > 0) || c.Asked != jobs || c.Acknowledged != jobs || c.Done != jobs || !c.SeenAll {
		t.Errorf("check = %+v, want %d of %d or more asked, acknowledged and done, by a complete record", c, jobs, cfg.Jobs)
	}
	return rep
}

// Executors are killed under runs of all guarantees.
func TestGuaranteesEndToEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: make test-all runs it")
	}
	cluster.Require(t)
	cfg := endToEnd(t, Guarantees)
	cfg.Jobs, cfg.Span, cfg.KillEvery, cfg.Warm = 640, 16*time.Second, 5*time.Second, 6*time.Second
	rep := playGuarded(t, cfg)
	if e := rep.Events; len(e) != 4 || e[0].Act != ActKill || e[0].Member != "carillon-2" || e[3].Act != ActStart || e[3].Member != "carillon-3" {
		t.Errorf("events = %v, want both executors killed and started again", e)
	}
	abandoned := 0
	for _, g := range rep.Check.Guarantees {
		abandoned += g.Abandoned
	}
	if abandoned == 0 {
		t.Error("no call lost its caller: the kills hit nothing")
	}
}

// An executor is frozen with runs of all guarantees in its hands, and thaws when others have
// finished them.
func TestFrozenEndToEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: make test-all runs it")
	}
	cluster.Require(t)
	cfg := endToEnd(t, Frozen)
	cfg.Jobs, cfg.Span = 120, 2*time.Second
	rep := playGuarded(t, cfg)
	if e := rep.Events; len(e) != 2 || e[0].Act != ActFreeze || e[1].Act != ActThaw || e[1].Began.Sub(e[0].Ended) < 12*time.Second {
		t.Errorf("events = %v, want a freeze, and a thaw after its session", e)
	}
}
