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
	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/workload"
)

const (
	// guaranteesSource names the jobs of scenarios with guarantees.
	guaranteesSource = "guarded"
	// warmSource names those that run before, and warmLead is how long before the first of them their import begins.
	warmSource = "warm"
	warmLead   = 5 * time.Second
	// A killed executor is started again between restartLeast and restartMost after, at random, so that some come back long before their
	// session has run out and some after others have noticed.
	restartLeast = 500 * time.Millisecond
	restartMost  = 4 * time.Second
	// frozenWork is how long the receiver works on the calls of Frozen: longer than all fall due, shorter than a session.
	frozenWork = 4 * time.Second
	// thawFor is how long the thawed executor has, before everything is read again, to do what it likes with what it holds: its calls have their
	// answers, and outcomes that could not be recorded are tried again within seconds.
	thawFor = 15 * time.Second
	// heldPoll is how often the judge's mark is looked for.
	heldPoll = 200 * time.Millisecond
)

// guaranteeScenarios are those with guarantees.
var guaranteeScenarios = []Scenario{Guarantees, Frozen}

// Guards reports whether the scenario is of guarantees: of jobs under all three, run by executors that are nodes of their own.
func (s Scenario) Guards() bool { return slices.Contains(guaranteeScenarios, s) }

// guaranteeDefaults are those of the scenarios with guarantees.
var guaranteeDefaults = map[Scenario]struct {
	jobs             int
	lead, span, warm time.Duration
}{
	Guarantees: {180_000, 40 * time.Second, 3 * time.Minute, 90 * time.Second},
	Frozen:     {900, 10 * time.Second, 3 * time.Second, 0},
}

// executorRoles are those of a cluster of which all nodes but the first can be killed without anything else being hurt.
func executorRoles(nodes int) [][]string {
	roles := [][]string{{"bucketer", "dispatcher"}}
	for range nodes - 1 {
		roles = append(roles, []string{"executor"})
	}
	return roles
}

// intakeURLs are the APIs of the nodes that take jobs in and tell of runs. They are never killed or frozen where others are.
func intakeURLs(c *cluster.Cluster) []string {
	var urls []string
	for _, n := range c.Status().Carillon {
		if slices.Contains(n.Roles, "bucketer") {
			urls = append(urls, n.API)
		}
	}
	return urls
}

// Mix is how many parts of the jobs of Guarantees are under which guarantee.
type Mix struct{ AtLeastOnce, EffectivelyOnce, AtMostOnce int }

// defaultMix has half of the runs claimed.
var defaultMix = Mix{10, 6, 4}

// guaranteeKinds are the jobs of Guarantees. The receiver works up to 2 s on most of them, three in ten fail and are retried, some of these no sooner than
// their receiver asks for, and three of twenty fail for good.
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
		const each = 60 // a multiple of the kinds of every guarantee, so that there are equally many of each
		for i := range each * g.parts {
			kinds = append(kinds, of[i%len(of)])
		}
	}
	return mixed(kinds)
}

// frozenKinds are the jobs of Frozen, equally many of each guarantee: nearly all are in the hands of an executor when it is frozen. What it finds
// when it thaws is a success, a failure, or a time-out.
func frozenKinds() []workload.Kind {
	var kinds []workload.Kind
	for _, g := range []check.Guarantee{check.AtLeastOnce, check.AtMostOnce, check.EffectivelyOnce} {
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

// mixed puts kinds into an order in which those of one guarantee do not follow each other in blocks. It is the same each time.
func mixed(kinds []workload.Kind) []workload.Kind {
	rng := rand.New(rand.NewPCG(7, 7)) // #nosec G404 -- a repeatable choice, no secret
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	return kinds
}

// guaranteePart describes the jobs.
func (r *run) guaranteePart(t0 time.Time) workload.Spec {
	kinds := guaranteeKinds(r.cfg.Mix)
	if r.cfg.Scenario == Frozen {
		kinds = frozenKinds()
	}
	return workload.Spec{
		N: r.cfg.Jobs, From: t0, Spread: r.cfg.Span, PayloadBytes: r.cfg.Payload, Seed: r.cfg.Seed, Source: guaranteesSource,
		Target: r.sink.URL, Keyed: !r.cfg.Unkeyed, Kinds: kinds,
	}
}

// warm imports what runs before the first due instant: kinds of jobs, so many a second.
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

// executorKills kills one executor after the other, every so often, and starts it again a while later. The last one is killed early
// enough that all are up again when the span ends. away is how long it is away; 0 = as long as chance has it.
func executorKills(executors []string, every, away, span time.Duration, rng *rand.Rand) chain {
	var c chain
	for k := 1; time.Duration(k)*every+every/2 <= span; k++ {
		victim, at := executors[(k-1)%len(executors)], time.Duration(k)*every
		back := restartLeast + time.Duration(rng.Int64N(int64(restartMost-restartLeast)))
		if away > 0 {
			back = away
		}
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

// playGuarantees is a run of a scenario with guarantees, from the idle cluster to the last arrival. In Frozen the frozen executor is left so: it thaws
// between the judge's two reads.
func (r *run) playGuarantees(ctx context.Context) error {
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
		c = executorKills(executors(cfg.Cluster.Nodes), cfg.KillEvery, cfg.Away, cfg.Span, rng)
	}
	if err := r.take(ctx, t0, c); err != nil {
		return err
	}
	return r.finish(ctx, begin, start, imported)
}

// victim is the executor that Frozen freezes.
func (r *run) victim() string { return executors(r.cfg.Cluster.Nodes)[0] }

// thawBetween thaws the frozen executor when the judge has made its mark, a file that says that its first read is over, gives it thawFor, and lets the
// judge go on by removing the file.
func (r *run) thawBetween(ctx context.Context, mark string) error {
	for {
		_, err := os.Stat(mark)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("look for the judge's mark: %w", err)
		}
		if err := api.SleepUntil(ctx, time.Now().Add(heldPoll)); err != nil {
			return err
		}
	}
	if err := r.take(ctx, time.Now(), chain{{0, ActThaw, r.victim()}}); err != nil {
		return err
	}
	if err := api.SleepUntil(ctx, time.Now().Add(thawFor)); err != nil {
		return err
	}
	if err := os.Remove(mark); err != nil {
		return fmt.Errorf("let the judge go on: %w", err)
	}
	return nil
}

// judgeAcrossThaw runs the judge with the thaw between its two reads.
func (r *run) judgeAcrossThaw(ctx context.Context, what []string, out io.Writer, into any) error {
	mark := filepath.Join(r.cfg.Dir, "first-read")
	ctx, judged := context.WithCancel(ctx)
	defer judged()
	g, gctx := errgroup.WithContext(ctx)
	over := errors.New("the judge is done")
	g.Go(func() error {
		if err := r.judgeBy(gctx, "check", r.sink, append(what, "--between", mark), out, into); err != nil {
			return err
		}
		return over // whoever still waits for its mark need not
	})
	g.Go(func() error { return r.thawBetween(gctx, mark) })
	if err := g.Wait(); !errors.Is(err, over) {
		return err
	}
	return nil
}

// guaranteeFaults says what of a scenario with guarantees did not happen that has to, for its verdict to mean something.
func (r *Report) guaranteeFaults() []string {
	if !r.Scenario.Guards() || !r.Judged {
		return nil
	}
	var faults []string
	for _, g := range []check.Guarantee{check.AtLeastOnce, check.AtMostOnce, check.EffectivelyOnce} {
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
