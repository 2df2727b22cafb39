package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"carillon.dev/carillon/loadtest/process"
)

// burnDowns is protocol A, each round on a system of its own: who takes over reads the buckets of the last minutes, so rows
// of an earlier round would be read again.
func (b *bench) burnDowns(ctx context.Context) error {
	for round := range b.cfg.Rounds {
		for _, t := range b.cfg.Targets {
			if target(t) == httpTarget && b.wanted("B") { // there it is for B
				continue
			}
			for _, l := range b.burnLayouts() {
				err := b.with(ctx, l, target(t) == noopTarget, func(sys system) error {
					return b.burnDown(ctx, sys, target(t), l, round+1)
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// burnLayouts returns whether it is the workers that start late, or all that works, or each in turn. carillon dev starts whole.
func (b *bench) burnLayouts() []layout {
	switch {
	case b.cfg.System == OnDev:
		return []layout{outage}
	case b.cfg.Outage:
		return []layout{workers, outage}
	}
	return []layout{workers}
}

// burnDown measures A once. Before, what executes is started, does some runs and is stopped; not where what dispatches starts late too: who takes over
// would read these rows again.
func (b *bench) burnDown(ctx context.Context, sys system, t target, l layout, round int) (err error) {
	if l == workers {
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
	variant := string(t)
	if l == outage {
		variant = "outage-" + variant
	}
	r := b.result(ctx, sys, "A", variant, t, round)
	due := time.Now().Add(b.lead(b.cfg.N, leadLeast)).Truncate(time.Second)
	j := b.jobs(b.cfg.N, due, 0, t, called.url)
	r.N = j.n
	if r.Load, err = b.load(ctx, sys, j); err != nil {
		return err
	}
	if r.Load.Ended.After(due) {
		r.Notes = append(r.Notes, fmt.Sprintf("the import ended %.1f s after the instant at which all were due", r.Load.Ended.Sub(due).Seconds()))
	}
	if err := sys.rest(ctx); err != nil {
		return err
	}
	if err := sleepUntil(ctx, due.Add(time.Second)); err != nil {
		return err
	}
	if err := b.quiet(ctx, sys); err != nil {
		return err
	}

	s := newScraper(b.client)
	s.watch(sys.nodes())
	base, before, cpu := s.read(ctx), s.mark(ctx), b.cpu(sys)
	stop := s.run(ctx)
	worked := make(chan error, 1)
	flames := make(chan func(*Result), 1)
	go func() {
		err := sys.work(ctx)
		flames <- b.profiling(ctx, sys, flameSpan(b.cfg.N))
		worked <- err
	}()
	from, to, err := b.untilBurned(ctx, sys, s, base, worked)
	stop()
	if err != nil {
		return err
	}
	b.fromCounters(r, s.mark(ctx).less(before))
	r.used(cpu, b.cpu(sys), r.N)
	r.Series = seriesOf(s.all(), from)
	r.LastStart = 0
	r.RunsPerS = float64(r.N) / to.Sub(from).Seconds()
	(<-flames)(r)
	became, err := b.ask(ctx, sys, "", due, 0, r.Load)
	if err != nil {
		return err
	}
	became.fill(r, r.N, false)
	return b.keep(r)
}

// untilBurned waits until the system works and has done all that is due.
func (b *bench) untilBurned(ctx context.Context, sys system, s *scraper, base reading, worked <-chan error) (from, to time.Time, err error) {
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
			works, limit = nil, time.After(b.cfg.Wait)
		case <-limit:
			last := s.latest()
			err := fmt.Errorf("of %d runs %.0f ended within %s, and %.0f messages are held", b.cfg.N, last.ended-base.ended, b.cfg.Wait, last.held)
			return from, to, errors.Join(err, s.refused())
		case <-tick.C:
			if works != nil {
				s.watch(sys.nodes()) // those that are being started, too
				continue
			}
			s.watch(sys.nodes())
			if from, to, done := burn(s.all(), base, b.cfg.N); done {
				return from, to, nil
			}
		}
	}
}

// fromCounters fills in what the executors' counters say; d is what they grew by.
func (b *bench) fromCounters(r *Result, d values) {
	b.allocations(r, d)
	r.Lateness = bounded(d.histogram(metricLateness))
	r.Doubled = max(0, int(d.sum(metricAttempts))-r.N)
	r.Early = int(d[metricEarly])
}

func (b *bench) allocations(r *Result, d values) {
	r.Allocs, r.Bytes = d[metricMallocs]/float64(r.N), d[metricBytes]/float64(r.N)
}

// jobs describes n jobs of a source of their own.
func (b *bench) jobs(n int, from time.Time, span time.Duration, t target, url string) jobs {
	b.serial++
	return jobs{
		n: n, from: from, span: span, seed: uint64(b.serial), source: fmt.Sprintf("s%d", b.serial), // #nosec G115 -- positive
		target: t, url: url, keyed: b.cfg.Keyed, bytes: b.cfg.Payload,
	}
}

// A callee is who the runs call.
type callee struct {
	url  string // base of what HTTP runs call
	sink *process.Sink
	end  func() error
}

// nowhere is what runs of the target noop name: nobody listens there, and nobody calls.
const nowhere = "http://127.0.0.1:9"

// callee starts who the runs of a target call; the caller ends it.
func (b *bench) callee(ctx context.Context, sys system, t target) (callee, error) {
	switch t {
	case httpTarget:
		return b.startSink(ctx, "sink")
	case natsTarget:
		return b.worker(ctx, sys, natsSubject, 0)
	default:
		return callee{url: nowhere, end: func() error { return nil }}, nil
	}
}

// startSink starts a sink as a process of that kind, with further arguments.
func (b *bench) startSink(ctx context.Context, kind string, more ...string) (callee, error) {
	b.serial++
	dir := filepath.Join(b.cfg.Dir, fmt.Sprintf("sink-%d", b.serial))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return callee{}, fmt.Errorf("start sink: %w", err)
	}
	s, err := process.StartSink(ctx, b.cfg.Program, dir, more...)
	if err != nil {
		return callee{}, err
	}
	b.extra[kind] = s.PID
	return callee{s.URL, s, func() error { delete(b.extra, kind); return s.End() }}, nil
}

var workerListens = regexp.MustCompile(`(?m)^worker listens on (\S+)$`)

// workerStart bounds the wait for the worker.
const workerStart = 10 * time.Second

// worker starts `carillon-load respond`, which answers requests on a subject after a delay.
func (b *bench) worker(ctx context.Context, sys system, subject string, delay time.Duration) (callee, error) {
	c, ok := sys.(*clusterSystem)
	if !ok {
		return callee{}, errors.New("target nats needs a cluster")
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	heard := process.Await(os.Stderr, workerListens)
	child, err := process.Start(life, b.cfg.Program, []string{"respond", "--nats", c.natsURL(), "--subject", subject, "--delay", delay.String()}, heard, os.Stderr)
	if err != nil {
		stop()
		return callee{}, err
	}
	end := func() error {
		delete(b.extra, "worker")
		stop()
		<-child.Done
		if child.Err != nil && !errors.Is(child.Err, context.Canceled) {
			return fmt.Errorf("stop worker: %w", child.Err)
		}
		return nil
	}
	select {
	case <-heard.Found:
		b.extra["worker"] = child.PID
		return callee{end: end}, nil
	case <-child.Done:
		err = errors.New("it ended at once")
	case <-time.After(workerStart):
		err = errors.New("it does not say that it listens")
	}
	return callee{}, errors.Join(fmt.Errorf("start worker: %w", err), end())
}
