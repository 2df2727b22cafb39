package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/loadtest/wait"
)

// burnDown measures A once. With the layout workers the executors start first, do some runs and
// stop again. In an outage they do not: a dispatcher that takes over would read these rows again.
func burnDown(t target, l layout, round int) step {
	return func(ctx context.Context, b *bench, sys system) (err error) {
		variant := string(t)
		if l == outage {
			variant = "outage-" + variant
		} else {
			if err := sys.work(ctx); err != nil {
				return err
			}
			if err := b.warm(ctx, sys, t); err != nil {
				return err
			}
			if err := sys.rest(ctx); err != nil {
				return err
			}
		}
		called, err := b.callee(ctx, sys, t)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, called.end()) }()
		r := b.result(ctx, sys, "A", variant, t, round)
		due := time.Now().Add(b.importLead(b.cfg.N, leadLeast)).Truncate(time.Second)
		j := b.jobs(b.cfg.N, due, 0, t, called.url)
		r.N = j.n
		if r.Load, err = b.load(ctx, sys, j); err != nil {
			return err
		}
		r.noteLate(r.Load.Ended, due)
		if err := sys.rest(ctx); err != nil {
			return err
		}
		if err := wait.Until(ctx, due.Add(time.Second)); err != nil {
			return err
		}
		if err := b.quiet(ctx, sys); err != nil {
			return err
		}
		m := b.meter(ctx, sys)
		stop := m.run(ctx)
		worked := make(chan error, 1)
		flames := make(chan func(*Result), 1)
		go func() {
			err := sys.work(ctx)
			flames <- b.profiling(ctx, sys, flameSpan(b.cfg.N))
			worked <- err
		}()
		from, to, err := m.untilBurned(ctx, worked)
		stop()
		if err != nil {
			return err
		}
		r.fromCounters(m.costs(ctx, r, r.N))
		r.Series = seriesOf(m.all(), from)
		r.RunsPerS = float64(r.N) / to.Sub(from).Seconds()
		(<-flames)(r)
		became, err := b.outcomes(ctx, sys, "", due, due, r.Load)
		if err != nil {
			return err
		}
		became.fill(r, r.N, false)
		return b.keep(r)
	}
}

// untilBurned waits until the system works and has done all that is due.
func (m *meter) untilBurned(ctx context.Context, worked <-chan error) (from, to time.Time, err error) {
	tick := time.NewTicker(scrapeEvery)
	defer tick.Stop()
	works := worked
	var limit <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return from, to, ctx.Err()
		case err := <-works:
			if err != nil {
				return from, to, err
			}
			works, limit = nil, time.After(m.bench.cfg.Wait)
		case <-limit:
			last := m.latest()
			err := fmt.Errorf("of %d runs %.0f ended within %s, and %.0f messages are held", m.bench.cfg.N, last.ended-m.base.ended, m.bench.cfg.Wait, last.held)
			return from, to, errors.Join(err, m.refused())
		case <-tick.C:
			m.watch(m.sys.nodes()) // those that are being started, too
			if works != nil {
				continue
			}
			if from, to, done := burn(m.all(), m.base, m.bench.cfg.N); done {
				return from, to, nil
			}
		}
	}
}
