package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/wait"
	"carillon.dev/carillon/loadtest/workload"
)

const (
	// guaranteesSource names the jobs of scenarios with guarantees.
	guaranteesSource = "guarded"
	// warmSource names the jobs that warm the cluster up. Their import begins warmLead before the
	// first is due.
	warmSource = "warm"
	warmLead   = 5 * time.Second
	// A killed executor starts again between restartLeast and restartMost later, at random: some
	// return long before their session ends, some after others have noticed.
	restartLeast = 500 * time.Millisecond
	restartMost  = 4 * time.Second
	// frozenWork is how long the receiver works on calls of Frozen: longer than the span, shorter
	// than a session.
	frozenWork = 4 * time.Second
	// thawFor is how long the thawed executor may act before the second read. It has the answers to
	// its calls, and repeats writes that failed within seconds.
	thawFor = 15 * time.Second
	// heldPoll is how often the judge's mark is looked for.
	heldPoll = 200 * time.Millisecond
)

// guarantees are all there are.
var guarantees = []check.Guarantee{check.AtLeastOnce, check.AtMostOnce, check.EffectivelyOnce}

// guaranteeScenarios are those with guarantees.
var guaranteeScenarios = []Scenario{Guarantees, Frozen}

// Guards reports whether the scenario is of guarantees: jobs under all three, and nodes that only
// execute.
func (s Scenario) Guards() bool { return slices.Contains(guaranteeScenarios, s) }

// executorRoles gives all nodes but the first the role of an executor alone. These can be killed
// without harm to intake and dispatch.
func executorRoles(nodes int) [][]string {
	roles := [][]string{{"bucketer", "dispatcher"}}
	for range nodes - 1 {
		roles = append(roles, []string{"executor"})
	}
	return roles
}

// intakeURLs are the APIs of the nodes that take jobs in.
func intakeURLs(c *cluster.Cluster) []string {
	var urls []string
	for _, n := range c.Status().Carillon {
		if slices.Contains(n.Roles, "bucketer") {
			urls = append(urls, n.API)
		}
	}
	return urls
}

// A guaranteesCourse is the course of scenarios with guarantees.
type guaranteesCourse struct{ *run }

// Mix is how many parts of the jobs of Guarantees are under which guarantee.
type Mix struct{ AtLeastOnce, EffectivelyOnce, AtMostOnce int }

// defaultMix has half of the runs claimed.
var defaultMix = Mix{10, 6, 4}

// guaranteeKinds are the jobs of Guarantees. The receiver works up to 2 s on most. Three in ten
// fail and are retried, some after Retry-After; three of twenty fail for good.
func guaranteeKinds(mix Mix) []workload.Kind {
	kind := func(g check.Guarantee, manner string, attempts int) workload.Kind {
		return workload.Kind{
			Manner: manner, Guarantee: string(g), Timeout: "10s",
			Retry: &workload.Retry{MaxAttempts: attempts, Initial: "500ms", Max: "5s"},
		}
	}
	const tries = check.DefaultMaxAttempts
	groups := []struct {
		guarantee check.Guarantee
		parts     int
		tries     int
		manners   []string
		failing   string // twice, and then for good
	}{
		{
			check.AtLeastOnce, mix.AtLeastOnce, tries,
			[]string{"", "", "", "work-50ms", "work-200ms", "work-500ms", "work-2s", "fail-1/status-429/after-3s", "work-200ms/fail-2"},
			"work-50ms/fail",
		},
		{check.EffectivelyOnce, mix.EffectivelyOnce, tries, []string{"", "work-50ms", "work-500ms", "work-2s", "work-200ms/fail-1"}, "work-50ms/fail"},
		{check.AtMostOnce, mix.AtMostOnce, 1, []string{"", "work-200ms", "work-2s", "status-404"}, ""},
	}
	var kinds []workload.Kind
	for _, g := range groups {
		var of []workload.Kind
		for _, manner := range g.manners {
			of = append(of, kind(g.guarantee, manner, g.tries))
		}
		if g.failing != "" {
			of = append(of, kind(g.guarantee, g.failing, 2))
		}
		// a multiple of the kinds of every guarantee, so that there are equally many of each
		const each = 60
		for i := range each * g.parts {
			kinds = append(kinds, of[i%len(of)])
		}
	}
	return mixed(kinds)
}

// frozenKinds are the jobs of Frozen, equally many of each guarantee. An executor holds nearly all
// of them when it is frozen. When it thaws it finds successes, failures and time-outs.
func frozenKinds() []workload.Kind {
	var kinds []workload.Kind
	for _, g := range guarantees {
		attempts := check.DefaultMaxAttempts
		if g == check.AtMostOnce {
			attempts = 1
		}
		for _, manner := range []string{"work-%s", "work-%s/fail-1", "work-%s/status-404", ""} {
			timeout := "30s"
			if manner == "work-%s" && len(kinds)%2 == 0 {
				timeout = "8s"
			}
			if manner != "" {
				manner = fmt.Sprintf(manner, frozenWork)
			}
			kinds = append(kinds, workload.Kind{
				Manner: manner, Guarantee: string(g), Timeout: timeout, Retry: &workload.Retry{MaxAttempts: attempts, Initial: "500ms", Max: "5s"},
			})
		}
	}
	return mixed(kinds)
}

// mixed shuffles kinds, the same way each time, so that guarantees do not come in blocks.
func mixed(kinds []workload.Kind) []workload.Kind {
	rng := rand.New(rand.NewPCG(7, 7)) // #nosec G404 -- a repeatable choice, no secret
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	return kinds
}

// guaranteePart describes the jobs.
func (r *run) guaranteePart(t0 time.Time) workload.Spec {
	spec := r.jobs(guaranteesSource, r.cfg.Jobs, t0, r.cfg.Span)
	spec.Keyed, spec.Kinds = !r.cfg.Unkeyed, guaranteeKinds(r.cfg.Mix)
	if r.cfg.Scenario == Frozen {
		spec.Kinds = frozenKinds()
	}
	return spec
}

// warm imports jobs of these kinds, rate a second, that run before the first due instant.
func (r *run) warm(ctx context.Context, t0 time.Time, kinds []workload.Kind, rate float64) error {
	if r.cfg.Warm <= 0 {
		return nil
	}
	spec := r.guaranteePart(time.Now().Add(warmLead).UTC().Truncate(time.Millisecond))
	spec.Spread, spec.Kinds = t0.Sub(spec.From), kinds
	if spec.N = int(rate * spec.Spread.Seconds()); spec.N < 1 {
		r.log.Warn("the import took all the time to warm up")
		return nil
	}
	spec.Source, spec.Seed = warmSource, spec.Seed+1
	return r.importJobs(ctx, spec)
}

// executorKills kills one executor after the other, each `every`, and starts it again. All are up
// again when the span ends.
func executorKills(executors []string, every, span time.Duration, rng *rand.Rand) chain {
	var c chain
	for k := 1; time.Duration(k)*every+every/2 <= span; k++ {
		victim, at := executors[(k-1)%len(executors)], time.Duration(k)*every
		back := restartLeast + time.Duration(rng.Int64N(int64(restartMost-restartLeast)))
		c = append(c, step{at, ActKill, victim}, step{at + min(back, every/2).Truncate(time.Millisecond), ActStart, victim})
	}
	return c
}

// executors names the nodes that only execute.
func executors(nodes int) []string {
	var names []string
	for n := 2; n <= nodes; n++ {
		names = append(names, fmt.Sprintf("carillon-%d", n))
	}
	return names
}

// play is a run of a scenario with guarantees, from the idle cluster to the last arrival.
// In Frozen the executor stays frozen: it thaws between the judge's two reads.
func (r guaranteesCourse) play(ctx context.Context) error {
	cfg := r.cfg
	begin, start, t0, err := r.idle(ctx)
	if err != nil {
		return err
	}
	if err := r.importJobs(ctx, r.guaranteePart(t0)); err != nil {
		return err
	}
	if err := r.warm(ctx, t0, r.guaranteePart(t0).Kinds, float64(r.cfg.Jobs)/2/r.cfg.Span.Seconds()); err != nil {
		return err
	}
	imported := r.mark()
	if imported.at.After(t0) {
		r.log.Warn("the import ended after the first due instant", "by", imported.at.Sub(t0))
	}
	var c chain
	if cfg.Scenario == Frozen {
		c = chain{{cfg.Span + frozenWork/8, ActFreeze, r.victim()}}
	} else {
		rng := rand.New(rand.NewPCG(cfg.Seed, 3)) // #nosec G404 -- a repeatable choice, no secret
		c = executorKills(executors(cfg.Cluster.Nodes), cfg.KillEvery, cfg.Span, rng)
	}
	if err := r.take(ctx, t0, c); err != nil {
		return err
	}
	return r.finish(ctx, begin, start, imported)
}

// victim is the executor that Frozen freezes.
func (r guaranteesCourse) victim() string { return executors(r.cfg.Cluster.Nodes)[0] }

// thawBetween waits for the judge's mark, a file that says that its first read is over. It thaws
// the executor, waits thawFor, and removes the file so that the judge goes on.
func (r guaranteesCourse) thawBetween(ctx context.Context, mark string) error {
	_, err := wait.Poll(ctx, heldPoll, time.Time{}, func() (bool, error) {
		_, err := os.Stat(mark)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return fmt.Errorf("look for the judge's mark: %w", err)
	}
	if err := r.take(ctx, time.Now(), chain{{0, ActThaw, r.victim()}}); err != nil {
		return err
	}
	if err := wait.For(ctx, thawFor); err != nil {
		return err
	}
	if err := os.Remove(mark); err != nil {
		return fmt.Errorf("let the judge go on: %w", err)
	}
	return nil
}

// judge runs the judge with the thaw between its two reads.
func (r guaranteesCourse) judge(ctx context.Context, what []string, out io.Writer, into any) error {
	mark := filepath.Join(r.cfg.Dir, "first-read")
	ctx, judged := context.WithCancel(ctx)
	defer judged()
	g, gctx := errgroup.WithContext(ctx)
	over := errors.New("the judge is done")
	g.Go(func() error {
		if err := judging(r).by(gctx, "check", r.sink, append(what, "--between", mark), out, into); err != nil {
			return err
		}
		return over // ends the waits for a mark
	})
	g.Go(func() error { return r.thawBetween(gctx, mark) })
	if err := g.Wait(); !errors.Is(err, over) {
		return err
	}
	return nil
}

// guaranteeFaults names what must have happened in a scenario with guarantees, and did not.
func (r *Report) guaranteeFaults() []string {
	if !r.Scenario.Guards() || !r.Judged {
		return nil
	}
	var faults []string
	for _, g := range guarantees {
		i := slices.IndexFunc(r.Check.Guarantees, func(c check.GuaranteeCount) bool { return c.Guarantee == g })
		switch {
		case i < 0 || r.Check.Guarantees[i].Runs == 0:
			faults = append(faults, fmt.Sprintf("nothing was run under %s", g))
		case r.Scenario == Frozen && r.Check.Guarantees[i].Lost == 0:
			faults = append(faults, fmt.Sprintf("the frozen executor had nothing under %s in its hands", g))
		}
	}
	if r.Scenario == Guarantees && r.Check.AskedToWait == 0 {
		faults = append(faults, "no call followed an answer with Retry-After")
	}
	thawed := slices.ContainsFunc(r.Events, func(e Event) bool { return e.Act == ActThaw })
	if r.Scenario == Frozen && !thawed {
		faults = append(faults, "the frozen executor was not thawed between the reads")
	}
	return faults
}

// guaranteeRows are of scenarios with guarantees.
var guaranteeRows = []row{
	{"duplicate outcomes, overlaps, second starts, bad fences, untrue outcomes, rewritten records", func(r *Report) string {
		var sum check.GuaranteeCount
		for _, g := range r.Check.Guarantees {
			sum.Overlaps += g.Overlaps
			sum.SecondStarts += g.SecondStarts
			sum.Fences += g.Fences
			sum.Untrue += g.Untrue
			sum.Rewritten += g.Rewritten
		}
		return fmt.Sprintf("%d, %d, %d, %d, %d, %d", r.Check.DuplicateOutcomes, sum.Overlaps, sum.SecondStarts, sum.Fences, sum.Untrue, sum.Rewritten)
	}},
	{"dead letters (of failed runs), attempts beyond the bound, retries too soon (asked by Retry-After to wait)", func(r *Report) string {
		return fmt.Sprintf("%d (%d), %d, %d (%d)", r.Check.DeadLetters, r.Check.DoneFailed, r.Check.ExcessAttempts, r.Check.EarlyRetries, r.Check.AskedToWait)
	}},
	guaranteeRow(check.AtLeastOnce), guaranteeRow(check.AtMostOnce), guaranteeRow(check.EffectivelyOnce),
}

// guaranteeRow shows one guarantee.
func guaranteeRow(g check.Guarantee) row {
	name := string(g) + ": runs = succeeded + failed; calls (duplicate, abandoned, stale); attempts lost, superseded, most"
	return row{name, func(r *Report) string {
		for _, c := range r.Check.Guarantees {
			if c.Guarantee == g {
				return fmt.Sprintf("%d = %d + %d; %d (%d, %d, %d); %d, %d, %d", c.Runs, c.Succeeded, c.Failed, c.Calls, c.Duplicate, c.Abandoned, c.Stale,
					c.Lost, c.Superseded, c.MostAttempts)
			}
		}
		return "none"
	}}
}
