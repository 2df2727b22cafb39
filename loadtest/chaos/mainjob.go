package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/wait"
	"carillon.dev/carillon/loadtest/workload"
)

// A mainJob is the course of the main job (see the package comment).
type mainJob struct{ *run }

// play is the run from the idle cluster to the last arrival.
func (r mainJob) play(ctx context.Context) error {
	cfg := r.cfg
	begin, start, t0, err := r.idle(ctx)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	for _, c := range schedule(cfg.Scenario, cfg.Cluster.Cassandra, cfg.Cluster.NATS, cfg.Cluster.Nodes, cfg.Span) {
		g.Go(func() error { return r.take(gctx, t0, c) })
	}
	g.Go(func() error { return r.lateImports(gctx, t0, portionPlan(cfg.Scenario, cfg.Span)) })
	var imported mark
	g.Go(func() error {
		if err := r.importJobs(gctx, r.mainPart(t0)); err != nil {
			return err
		}
		imported = r.mark()
		return r.afterImport(gctx, t0)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	return r.finish(ctx, begin, start, imported)
}

// afterImport does what needs the answers of the main import: changes, and the blackout.
func (r mainJob) afterImport(ctx context.Context, t0 time.Time) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.makeChanges(ctx, t0) })
	if r.cfg.Scenario == Blackout {
		g.Go(func() error { return r.blackout(ctx) })
	}
	return g.Wait()
}

// makeChanges cancels and reschedules runs of the main import.
func (r mainJob) makeChanges(ctx context.Context, t0 time.Time) (err error) {
	f, err := createNew(r.changesFile())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	asks, err := r.readAsked("main")
	if err != nil {
		return err
	}
	acks, err := journal.ReadFile(r.acksFile("main"), journal.ReadAcks)
	if err != nil {
		return err
	}
	from := latest(t0.Add(-changesFrom), time.Now())
	span := t0.Add(time.Duration(changesUntil * float64(r.cfg.Span))).Sub(from)
	rng := rand.New(rand.NewPCG(r.cfg.Seed, 1)) // #nosec G404 -- a repeatable choice, no secret
	plan := planChanges(known(asks, acks), r.cfg.Changes, from, max(span, 0), rng)
	for _, p := range plan {
		r.keepDue(p.due)
	}
	c := &changer{urls: r.client.URLs, http: r.http, out: f}
	count, err := c.run(ctx, plan)
	r.record(func(rep *Report) { rep.Changes = count })
	if err != nil {
		return fmt.Errorf("make changes: %w", err)
	}
	r.log.Info("changes are over", "cancels", count.Cancels, "reschedules", count.Reschedules, "refused", count.Refused, "unknown", count.Unknown)
	return nil
}

// blackout imports the late part as one portion and kills everything after its summary.
func (r mainJob) blackout(ctx context.Context) error {
	if err := wait.Until(ctx, portionAt(time.Now())); err != nil {
		return err
	}
	if err := r.importJobs(ctx, r.latePart(1, 1, time.Now())); err != nil {
		return err
	}
	summary := time.Now()
	return r.take(ctx, summary, chain{{blackoutAfter, ActKillAll, ""}, {blackoutAfter, ActStartAll, ""}})
}

// mainPart describes the jobs of the main import.
func (r mainJob) mainPart(t0 time.Time) workload.Spec {
	n, _, _ := counts(r.cfg.Jobs)
	spec := r.jobs("main", n, t0, r.cfg.Span)
	spec.Keyed = !r.cfg.Unkeyed
	return spec
}

// latePart describes the jobs of late import number n (from 1) of of, imported at t.
func (r mainJob) latePart(n, of int, t time.Time) workload.Spec {
	_, near, immediate := counts(r.cfg.Jobs)
	from, spread := portionDue(t)
	spec := r.jobs(fmt.Sprintf("late-%d", n), (near+immediate)/of, from, spread)
	spec.Immediate, spec.Seed = immediate/of, spec.Seed+uint64(n) // #nosec G115 -- small
	return spec
}

// lateImports imports the portions, each at its instant. A slow one does not delay the next.
func (r mainJob) lateImports(ctx context.Context, t0 time.Time, plan []time.Duration) error {
	g, ctx := errgroup.WithContext(ctx)
	for i, at := range plan {
		g.Go(func() error {
			if err := wait.Until(ctx, portionAt(t0.Add(at))); err != nil {
				return err
			}
			return r.importJobs(ctx, r.latePart(i+1, len(plan), time.Now()))
		})
	}
	return g.Wait()
}
