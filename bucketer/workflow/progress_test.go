package workflow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A script is told line by line, and says what is then possible. Facts: "start STEP [ITEMS]",
// "launch STEP UPTO", "run STEP [ITEMS]" (both at once), "end STEP VERDICT [ITEM]", "skip STEP
// VERDICT", "fail STEP", "cancel", "expire". "→" says what Next answers.

// foldCases is the table of the fold: what becomes of a run.
var foldCases = map[string]struct {
	graph  string
	script string
}{
	"a chain": {steps("a", "b <- a"), `
		→ prepare a
		start a → launch a 0 1
		launch a 1 →
		end a succeeded → prepare b
		run b →
		end b succeeded → end succeeded`},
	"steps without after start at once": {steps("a", "b", "c <- a b"), `
		→ prepare a, prepare b
		run b → prepare a
		end b succeeded → prepare a
		run a →
		end a succeeded → prepare c`},
	"a failure is handed on": {steps("a", "b <- a", "c <- b"), `
		run a →
		end a failed → skip b failed (all_succeeded cannot be met: a step before it failed)
		skip b failed → skip c failed (all_succeeded cannot be met: a step before it failed)
		skip c failed → end failed (step "a" failed)`},
	"one failure is enough": {steps("a", "b", "c <- a b"), `
		run a → prepare b
		run b →
		end a failed → skip c failed (all_succeeded cannot be met: a step before it failed)
		skip c failed →
		end b succeeded → end failed (step "a" failed)`},
	"a cancelled step is handed on": {steps("a", "b <- a"), `
		run a →
		end a cancelled → skip b cancelled (all_succeeded cannot be met: a step before it was cancelled)
		skip b cancelled → end cancelled (step "a" was cancelled)`},
	"of a cancelled step the verdict waits for failures": {steps("a", "b", "c <- a b"), `
		run a → prepare b
		run b →
		end a cancelled →
		end b failed → skip c failed (all_succeeded cannot be met: a step before it failed)`},
	"skipped by its own if counts as succeeded": {steps("a", "b <- a"), `
		skip a succeeded → prepare b
		run b →
		end b succeeded → end succeeded`},
	"the alert fires whichever step failed first": {steps("extract", "transform <- extract", "load <- transform", "alert <- load, any_failed"), `
		run extract →
		end extract failed → skip transform failed (all_succeeded cannot be met: a step before it failed)
		skip transform failed → skip load failed (all_succeeded cannot be met: a step before it failed)
		skip load failed → prepare alert
		run alert →
		end alert succeeded → end failed (step "extract" failed)`},
	"the alert does not fire": {steps("load", "alert <- load, any_failed"), `
		run load →
		end load succeeded → skip alert succeeded (any_failed cannot be met: no step before it failed)
		skip alert succeeded → end succeeded`},
	"the handler of a failure fails, too": {steps("a", "b <- a, any_failed"), `
		run a →
		end a failed → prepare b
		run b →
		end b failed → end failed (step "a" failed)`},
	"any_failed does not wait for the others": {steps("a", "b", "c <- a b, any_failed"), `
		run a → prepare b
		run b →
		end b failed → prepare c`},
	"any_succeeded does not wait for the others": {steps("a", "b", "c <- a b, any_succeeded"), `
		run a → prepare b
		run b →
		end a failed →
		end b succeeded → prepare c
		run c →
		end c succeeded → end failed (step "a" failed)`},
	"any_succeeded of none": {steps("a", "b", "c <- a b, any_succeeded"), `
		run a → prepare b
		run b →
		end a failed →
		end b cancelled → skip c failed (any_succeeded cannot be met: no step before it succeeded)`},
	"all_done waits for all": {steps("a", "b", "c <- a b, all_done"), `
		run a → prepare b
		run b →
		end a failed →
		end b cancelled → prepare c
		run c →
		end c succeeded → end failed (step "a" failed)`},
	"all_done comes after what is skipped": {steps("a", "b <- a", "c <- b, all_done"), `
		run a →
		end a failed → skip b failed (all_succeeded cannot be met: a step before it failed)
		skip b failed → prepare c`},
	"always without a cancel": {steps("a", "b <- a, always"), `
		run a →
		end a failed → prepare b
		run b →
		end b succeeded → end failed (step "a" failed)`},
	"a step cannot be prepared": {steps("a", "b <- a, any_failed"), `
		fail a → prepare b
		run b →
		end b succeeded → end failed (step "a" failed)`},
	"nothing is said twice": {steps("a", "b <- a"), `
		run a →
		start a 7 →
		launch a 0 →
		end a failed → skip b failed (all_succeeded cannot be met: a step before it failed)
		end a succeeded → skip b failed (all_succeeded cannot be met: a step before it failed)
		skip a succeeded → skip b failed (all_succeeded cannot be met: a step before it failed)
		fail b → end failed (step "a" failed)
		skip b succeeded → end failed (step "a" failed)`},

	"a cancel before anything": {steps("a", "b <- a", "c <- b, always"), `
		cancel → skip a cancelled (the run was cancelled before it started)
		skip a cancelled → skip b cancelled (all_succeeded cannot be met: a step before it was cancelled)
		skip b cancelled → prepare c
		run c →
		end c succeeded → end cancelled (the run was cancelled)`},
	"a cancel while a step runs": {steps("a", "b <- a", "c <- a, all_done", "d <- b c, always"), `
		run a →
		cancel →
		end a succeeded → skip b cancelled (the run was cancelled before it started), skip c cancelled (the run was cancelled before it started)
		skip b cancelled → skip c cancelled (the run was cancelled before it started)
		skip c cancelled → prepare d
		run d →
		end d failed → end cancelled (the run was cancelled)`},
	"a cancel changes no verdict of a condition": {steps("a", "b <- a"), `
		run a →
		end a failed → skip b failed (all_succeeded cannot be met: a step before it failed)
		cancel → skip b failed (all_succeeded cannot be met: a step before it failed)
		skip b failed → end cancelled (the run was cancelled)`},
	"a cancel starts no handlers but always": {steps("a", "b <- a, any_failed", "c <- a, always"), `
		run a →
		end a failed → prepare b, prepare c
		cancel → skip b cancelled (the run was cancelled before it started), prepare c`},
	"a deadline": {steps("a", "b <- a", "c <- b, always"), `
		run a →
		expire →
		end a cancelled → skip b cancelled (all_succeeded cannot be met: a step before it was cancelled)
		skip b cancelled → prepare c
		run c →
		end c succeeded → end failed (the deadline of the run passed)`},
	"a deadline before anything": {steps("a"), `
		expire → skip a cancelled (the deadline of the run passed before it started)
		skip a cancelled → end failed (the deadline of the run passed)`},
	"a deadline and a cancel": {steps("a"), `
		expire → skip a cancelled (the deadline of the run passed before it started)
		cancel → skip a cancelled (the run was cancelled before it started)
		skip a cancelled → end cancelled (the run was cancelled)`},

	"items": {each(0), `
		→ prepare a
		start a 3 → launch a 0 3
		launch a 2 → launch a 2 3
		launch a 3 →
		end a succeeded 1 →
		end a succeeded 1 →
		end a succeeded 0 →
		end a succeeded 2 → prepare b`},
	"no items": {each(0), `
		start a 0 → prepare b`},
	"one item failed": {each(0), `
		run a 3 →
		end a failed 0 →
		end a cancelled 1 →
		end a succeeded 2 → skip b failed (all_succeeded cannot be met: a step before it failed)
		skip b failed → end failed (step "a" failed)`},
	"one item was cancelled": {each(0), `
		run a 2 →
		end a cancelled 1 →
		end a succeeded 0 → skip b cancelled (all_succeeded cannot be met: a step before it was cancelled)`},
	"max_concurrent": {each(2), `
		start a 5 → launch a 0 2
		launch a 2 →
		end a succeeded 1 → launch a 2 3
		end a failed 0 → launch a 2 4
		launch a 4 →
		end a succeeded 3 → launch a 4 5
		launch a 5 →
		end a succeeded 2 →
		end a succeeded 4 → skip b failed (all_succeeded cannot be met: a step before it failed)`},
	"an item that cannot be": {each(0), `
		run a 2 →
		end a failed 2 →
		end a failed -1 →
		end a failed 10000 →
		end a succeeded 0 →
		end a succeeded 1 → prepare b`},
	"a cancel among the items": {each(2), `
		start a 5 → launch a 0 2
		launch a 2 →
		end a succeeded 0 → launch a 2 3
		cancel →
		end a succeeded 1 → skip a cancelled (the run was cancelled before all of its items started)
		skip a cancelled → skip b cancelled (all_succeeded cannot be met: a step before it was cancelled)`},
	"a cancel among the items, of which one failed": {each(2), `
		start a 5 → launch a 0 2
		launch a 2 →
		end a failed 0 → launch a 2 3
		expire →
		end a cancelled 1 → skip a failed (the deadline of the run passed before all of its items started)
		skip a failed → skip b failed (all_succeeded cannot be met: a step before it failed)`},
	"a cancel when all items have runs": {each(0), `
		run a 2 →
		cancel →
		end a succeeded 0 →
		end a succeeded 1 → skip b cancelled (the run was cancelled before it started)`},
	"a cancel before the first run": {each(0), `
		start a 2 → launch a 0 2
		cancel → skip a cancelled (the run was cancelled before all of its items started)
		launch a 2 →
		end a succeeded 0 →
		end a succeeded 1 → skip b cancelled (the run was cancelled before it started)`},
	"a step is skipped by hand while it runs": {each(0), `
		run a 2 →
		skip a succeeded → prepare b
		end a failed 0 → prepare b`},
}

// each is a graph of a, which has items, and b after it.
func each(maxConcurrent int) string {
	return fmt.Sprintf(`{"steps":[{"name":"a","task":"t","for_each":{"input":"","max_concurrent":%d}},{"name":"b","task":"t","after":["a"]}]}`, maxConcurrent)
}

func TestFold(t *testing.T) {
	for name, row := range foldCases {
		t.Run(name, func(t *testing.T) {
			g := mustCompile(t, row.graph)
			p := NewProgress(g)
			for line := range strings.Lines(strings.TrimSpace(row.script)) {
				fact, want, _ := strings.Cut(strings.TrimSpace(line), "→")
				tell(t, p, strings.Fields(fact))
				if got := said(p); got != strings.TrimSpace(want) {
					t.Fatalf("after %q Next says %q, want %q", fact, got, strings.TrimSpace(want))
				}
				if again := said(p); again != said(p) {
					t.Fatalf("after %q Next says %q, and then %q", fact, again, said(p))
				}
			}
		})
	}
}

// tell tells a fact of a script.
func tell(t *testing.T, p *Progress, words []string) {
	t.Helper()
	if len(words) == 0 {
		return
	}
	number := func(at, otherwise int) int {
		n := otherwise
		if len(words) > at {
			if _, err := fmt.Sscan(words[at], &n); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	step := -1
	if len(words) > 1 {
		step = index(t, p.g, words[1])
	}
	switch words[0] {
	case "start":
		p.Start(step, number(2, 1))
	case "launch":
		p.Launch(step, number(2, 0))
	case "run":
		p.Start(step, number(2, 1))
		p.Launch(step, number(2, 1))
	case "end":
		p.End(step, number(3, 0), Verdict(words[2]))
	case "skip":
		p.Skip(step, Verdict(words[2]))
	case "fail":
		p.Fail(step)
	case "cancel":
		p.Cancel()
	case "expire":
		p.Expire()
	default:
		t.Fatalf("a script says %q", words)
	}
}

// said writes what Next answers.
func said(p *Progress) string {
	var out []string
	for _, a := range p.Next() {
		words := []string{string(a.Kind)}
		if a.Step >= 0 {
			words = append(words, p.g.Step(a.Step).Name)
		}
		if a.Kind == LaunchItems {
			words = append(words, fmt.Sprint(a.From), fmt.Sprint(a.To))
		}
		if a.Verdict != "" {
			words = append(words, string(a.Verdict))
		}
		if a.Reason != "" {
			words = append(words, "("+a.Reason+")")
		}
		out = append(out, strings.Join(words, " "))
	}
	return strings.Join(out, ", ")
}

// TestFactsComeInAnyOrder: of what was told in another order the same is possible.
func TestFactsComeInAnyOrder(t *testing.T) {
	facts := [][]string{
		strings.Fields("start a 70"), strings.Fields("launch a 70"), strings.Fields("start b"), strings.Fields("end b succeeded"), {"cancel"},
	}
	for i := range 70 {
		facts = append(facts, []string{"end", "a", "succeeded", fmt.Sprint(i)})
	}
	forward, backward := NewProgress(mustCompile(t, each(0))), NewProgress(mustCompile(t, each(0)))
	for i := range facts {
		tell(t, forward, facts[i])
		tell(t, backward, facts[len(facts)-1-i])
	}
	want := "end cancelled (the run was cancelled)"
	if a, b := said(forward), said(backward); a != want || b != want {
		t.Errorf("Next says %q, and %q of facts in the opposite order; want %q", a, b, want)
	}
	if a, b := forward.Counts(0), backward.Counts(0); a != b || a != (Counts{Items: 70, Launched: 70, Succeeded: 70}) {
		t.Errorf("Counts = %+v, and %+v in the opposite order", a, b)
	}
}

func TestViewOfProgress(t *testing.T) {
	g := mustCompile(t, steps("a", "b", "c <- b a", "d"))
	p := NewProgress(g)
	for _, fact := range []string{"run a", "run b", "end b failed", "skip d cancelled"} {
		tell(t, p, strings.Fields(fact))
	}
	if !p.Running(0) || p.Running(1) || p.Running(2) || !p.Started(1) || p.Started(3) || !p.Skipped(3) || p.Skipped(0) {
		t.Errorf("running %v %v %v, started %v %v, skipped %v %v", p.Running(0), p.Running(1), p.Running(2), p.Started(1), p.Started(3), p.Skipped(3), p.Skipped(0))
	}
	if p.Verdict(0) != "" || p.Verdict(1) != Failed || p.Verdict(3) != Cancelled || p.Outcome() != "" {
		t.Errorf("verdicts %q %q %q, outcome %q", p.Verdict(0), p.Verdict(1), p.Verdict(3), p.Outcome())
	}
	if got := p.Awaits(2); !slices.Equal(got, []int{0}) {
		t.Errorf("Awaits(c) = %v, want a", got)
	}
	if got := p.Counts(1); got != (Counts{Items: 1, Launched: 1, Failed: 1}) {
		t.Errorf("Counts(b) = %+v", got)
	}
	for _, fact := range []string{"end a succeeded", "skip c failed"} {
		tell(t, p, strings.Fields(fact))
	}
	if p.Outcome() != Failed || len(p.Awaits(2)) != 0 {
		t.Errorf("Outcome = %q, Awaits(c) = %v", p.Outcome(), p.Awaits(2))
	}
}
