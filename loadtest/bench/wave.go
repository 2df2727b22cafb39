package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
)

// A wave is jobs that fall due while the system runs: protocols B to E.
type wave struct {
	protocol, variant string
	n                 int
	rate              int // 0 = all at one instant
	span              time.Duration
	target            target
	killAfter         time.Duration // after the first due instant; 0 = nobody is killed
	resident          int
	round             int
	tenant            string   // whose runs they are; "" = the default one's
	company           *company // whose runs fall due at the same time; nil = nobody's
}

// herd is B: n runs at one instant.
func (b *bench) herd(protocol string, t target, resident, round int) wave {
	w := wave{protocol: protocol, variant: string(t), n: b.cfg.N, target: t, resident: resident, round: round}
	if protocol == "D" {
		w.variant = "B"
	}
	return w
}

// stream is C: runs at a rate.
func (b *bench) stream(protocol string, rate, resident, round int) wave {
	w := wave{
		protocol: protocol, variant: string(httpTarget), n: int(float64(rate) * b.cfg.Span.Seconds()), rate: rate, span: b.cfg.Span,
		target: httpTarget, resident: resident, round: round,
	}
	if protocol == "D" {
		w.variant = "C"
	}
	return w
}

// waves is protocols B, C and D on one system, which is warm before the first of them; B with noop needs another one.
func (b *bench) waves(ctx context.Context) error {
	if b.wanted("C") || b.wanted("D") || b.wanted("B") && slices.ContainsFunc(b.cfg.Targets, func(t string) bool { return target(t) != noopTarget }) {
		if err := b.with(ctx, together, false, func(sys system) error { return b.callingWaves(ctx, sys) }); err != nil {
			return err
		}
	}
	if !b.wanted("B") || !slices.Contains(b.cfg.Targets, string(noopTarget)) {
		return nil
	}
	return b.with(ctx, together, true, func(sys system) error {
		if err := b.warm(ctx, sys, noopTarget); err != nil {
			return err
		}
		for round := range b.cfg.Rounds {
			if err := b.measure(ctx, sys, b.herd("B", noopTarget, 0, round+1)); err != nil {
				return err
			}
		}
		return nil
	})
}

// callingWaves is what of B, C and D calls somebody.
func (b *bench) callingWaves(ctx context.Context, sys system) error {
	if err := b.warm(ctx, sys, httpTarget); err != nil {
		return err
	}
	for round := range b.cfg.Rounds {
		if b.wanted("C") {
			for _, rate := range b.cfg.Rates {
				if err := b.measure(ctx, sys, b.stream("C", rate, 0, round+1)); err != nil {
					return err
				}
			}
		}
		for _, t := range b.cfg.Targets {
			if b.wanted("B") && target(t) != noopTarget {
				if err := b.measure(ctx, sys, b.herd("B", target(t), 0, round+1)); err != nil {
					return err
				}
			}
		}
	}
	if b.wanted("D") {
		return b.residents(ctx, sys)
	}
	return nil
}

// residents is protocol D. What it holds against is measured anew: the first waves of B and C meet caches that are colder.
func (b *bench) residents(ctx context.Context, sys system) error {
	have := 0
	for _, want := range b.cfg.Resident {
		var how *Load
		if more := want - have; more > 0 {
			// Due within the two hours after the next one: nothing of them is dispatched while this runs.
			j := b.jobs(more, time.Now().Add(time.Hour).Truncate(time.Second), 2*time.Hour, httpTarget, nowhere)
			var err error
			if how, err = b.load(ctx, sys, j); err != nil {
				return err
			}
			have = want
		}
		for round := range b.cfg.Rounds {
			for _, w := range []wave{b.stream("D", b.cfg.Rates[0], have, round+1), b.herd("D", httpTarget, have, round+1)} {
				r, err := b.ride(ctx, sys, w)
				if err != nil {
					return err
				}
				r.Settled = how
				if err := b.keep(r); err != nil {
					return err
				}
			}
		}
	}
	grew := onSystem(b.results, sys.name())
	if len(Grew(grew)) == 0 {
		return nil
	}
	return PlotGrowth(filepath.Join(b.cfg.Out, "D-"+sys.name()+"-growth.svg"), grew)
}

// kills is protocol E: a dispatcher that is a process of its own, and a node of every role.
func (b *bench) kills(ctx context.Context) error {
	for round := range b.cfg.Rounds {
		for _, row := range []struct {
			variant string
			layout  layout
			nodes   int
		}{{"dispatcher", oneKind, 0}, {"node", together, 2}} {
			nodes := b.cfg.Cluster.Nodes
			b.cfg.Cluster.Nodes = row.nodes
			err := b.with(ctx, row.layout, false, func(sys system) error {
				if err := b.warm(ctx, sys, httpTarget); err != nil {
					return err
				}
				w := b.stream("E", b.cfg.Rates[0], 0, round+1)
				w.variant, w.killAfter = row.variant, b.cfg.Span/2
				return b.measure(ctx, sys, w)
			})
			b.cfg.Cluster.Nodes = nodes
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// warm lets the system do some runs, so that compilers and caches have seen what comes. It fails if a promise was broken.
func (b *bench) warm(ctx context.Context, sys system, t target) error {
	if b.cfg.Warm < 0 {
		return nil
	}
	b.cfg.Log.Info("warming up", "runs", b.cfg.Warm)
	r, err := b.ride(ctx, sys, wave{protocol: "warm", n: b.cfg.Warm, target: t})
	if err != nil {
		return err
	}
	if broke := r.Missed + r.Early + r.Unexpected; broke > 0 {
		return fmt.Errorf("of the runs that warm up %d were missed, %d began early, and %d were not asked for", r.Missed, r.Early, r.Unexpected)
	}
	return nil
}

func (b *bench) measure(ctx context.Context, sys system, w wave) error {
	r, err := b.ride(ctx, sys, w)
	if err != nil {
		return err
	}
	return b.keep(r)
}

// ride makes the jobs of a wave, lets them run and says how that went.
func (b *bench) ride(ctx context.Context, sys system, w wave) (r *Result, err error) {
	if err := b.quiet(ctx, sys); err != nil {
		return nil, err
	}
	called, err := b.callee(ctx, sys, w.target)
	if err != nil {
		return nil, err
	}
	ended := false
	defer func() {
		if !ended {
			err = errors.Join(err, called.end())
		}
	}()
	r = b.result(ctx, sys, w.protocol, w.variant, w.target, w.round)
	r.N, r.Rate, r.Span, r.Resident = w.n, float64(w.rate), w.span.Seconds(), w.resident
	held := b.memory(ctx, sys)
	least := leadLeast
	if w.span == 0 {
		least = leadHerd
	}
	lead := b.lead(w.n+w.company.count(), least)
	if w.protocol == "warm" { // whether the import is over by then does not matter
		lead = min(lead, leadLeast)
	}
	t0 := time.Now().Add(lead).Truncate(time.Second).UTC()
	if err := w.company.load(ctx, b, sys, t0); err != nil {
		return nil, err
	}
	j := b.jobs(w.n, t0, w.span, w.target, called.url)
	j.tenant = w.tenant
	if r.Load, err = b.load(ctx, sys, j); err != nil {
		return nil, err
	}
	if r.Load.Ended.After(t0) {
		r.Notes = append(r.Notes, fmt.Sprintf("the import ended %.1f s after the first due instant", r.Load.Ended.Sub(t0).Seconds()))
	}
	if err := sleepUntil(ctx, t0.Add(-time.Second)); err != nil {
		return nil, err
	}
	s := newScraper(b.client)
	s.watch(sys.nodes())
	base, before, cpu := s.read(ctx), s.mark(ctx), b.cpu(sys)
	stop := s.run(ctx)
	flames := func(*Result) {}
	if w.protocol != "warm" {
		profiled := flameHerd
		if w.span > 0 {
			profiled = min(w.span, flameLongest)
		}
		flames = b.profiling(ctx, sys, profiled)
	}
	killed, err := b.killAt(ctx, sys, t0, w.killAfter)
	if err == nil {
		r.Killed = killed
		err = b.untilOver(ctx, s, base, called, w, t0)
	}
	stop()
	if err != nil {
		return nil, err
	}
	after := s.mark(ctx).less(before)
	r.used(cpu, b.cpu(sys), r.N)
	flames(r)
	r.Scans, r.Memory = scansOf(after), grown(held, b.memory(ctx, sys))
	ended = true
	if err := called.end(); err != nil {
		return nil, err
	}
	if called.sink == nil {
		b.fromCounters(r, after)
		r.Series = seriesOf(s.all(), t0)
		last := reached(s.all(), base, base.started+float64(w.n), func(r reading) float64 { return r.started })
		r.LastStart = last.Sub(t0).Seconds()
		over := reached(s.all(), base, base.ended+float64(w.n), func(r reading) float64 { return r.ended })
		r.RunsPerS = float64(r.N) / max(over.Sub(t0).Seconds(), 1e-3)
	} else {
		b.allocations(r, after)
		if err := b.fromRecord(r, called, j, t0, time.Time{}); err != nil {
			return nil, err
		}
	}
	if w.protocol == "warm" {
		return r, nil
	}
	t, err := b.ask(ctx, sys, w.tenant, t0, w.span, r.Load)
	if err != nil {
		return nil, err
	}
	t.fill(r, r.N, called.sink != nil)
	return r, nil
}

// killAt kills the dispatcher after the given time, if that is not 0.
func (b *bench) killAt(ctx context.Context, sys system, t0 time.Time, after time.Duration) (*Kill, error) {
	if after == 0 {
		return nil, nil
	}
	if err := sleepUntil(ctx, t0.Add(after)); err != nil {
		return nil, err
	}
	b.cpu(sys) // what it has used is known no more after
	at := time.Now()
	member, err := sys.kill(ctx)
	if err != nil {
		return nil, err
	}
	b.cfg.Log.Info("killed", "member", member)
	return &Kill{member, at.Sub(t0).Seconds()}, nil
}

// overFor is for how long all must have been done: what comes a second time comes soon.
const overFor = time.Second

// untilOver waits until every run has begun and every message is acknowledged, at most Config.Wait after the last due instant.
func (b *bench) untilOver(ctx context.Context, s *scraper, base reading, called callee, w wave, t0 time.Time) error {
	limit := t0.Add(w.span + b.cfg.Wait)
	if err := sleepUntil(ctx, t0.Add(w.span)); err != nil {
		return err
	}
	var since time.Time
	for time.Now().Before(limit) {
		seen := int64(s.latest().started - base.started)
		if called.sink != nil {
			var err error
			if _, seen, err = b.sinkSeen(ctx, called.url); err != nil { // calls that came twice stand for none that did not come
				return err
			}
		}
		switch {
		case seen < int64(w.n) || s.latest().held > 0 && w.company == nil:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= overFor:
			return nil
		}
		if err := sleepUntil(ctx, time.Now().Add(scrapeEvery)); err != nil {
			return err
		}
	}
	b.cfg.Log.Warn("not all runs have begun, and the wait is over")
	return nil
}

// sinkSeen returns how many calls a sink has seen, and of how many runs.
func (b *bench) sinkSeen(ctx context.Context, url string) (calls, runs int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/stats", http.NoBody)
	if err != nil {
		return 0, 0, fmt.Errorf("ask the sink: %w", err)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return 0, 0, fmt.Errorf("ask the sink: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	var stats struct {
		Seen int64 `json:"seen"`
		Runs int64 `json:"runs"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&stats); err != nil {
		return 0, 0, fmt.Errorf("ask the sink: %w", err)
	}
	return stats.Seen, stats.Runs, nil
}

// readSeen reads a sink's record, which must be complete.
func readSeen(path string) ([]check.Sighting, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	seen, all, err := journal.ReadSeen(f)
	if err == nil && !all {
		err = errors.New("the sink's record has gaps")
	}
	if err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	return seen, nil
}

// fromRecord fills in what the sink wrote down, and removes it.
func (b *bench) fromRecord(r *Result, called callee, a asking, from, until time.Time) error {
	seen, err := readSeen(called.sink.Record)
	if err != nil {
		return err
	}
	r.fromSink(a, from, until, seen)
	return os.Remove(called.sink.Record)
}

// fromSink fills in what the sink saw of the runs that were asked for, the first of them due at from. Promises are counted of all, speed
// and lateness of those due before until; zero = of all.
func (r *Result) fromSink(a asking, from, until time.Time, seen []check.Sighting) {
	first := make([]time.Time, a.count()) // by run
	foreign := 0
	for i := range seen {
		if seen[i].Ref.Source != a.name() {
			foreign++
			continue
		}
		run, ok := a.runOf(&seen[i])
		if !ok {
			r.Unexpected++
			continue
		}
		if !first[run].IsZero() {
			r.Doubled++
		}
		if first[run].IsZero() || seen[i].At.Before(first[run]) {
			first[run] = seen[i].At
		}
	}
	if foreign > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d calls of the sink were of runs of another source", foreign))
	}
	late := make([]time.Duration, 0, len(first))
	starts := make([]start, 0, len(first))
	last, missedAfter := from, 0
	for run, at := range first {
		due := a.dueOf(run)
		after := !until.IsZero() && !due.Before(until)
		if at.IsZero() {
			r.Missed++
			if after {
				missedAfter++
			}
			continue
		}
		d := at.Sub(due)
		if d < 0 {
			r.Early++
		}
		if after {
			continue
		}
		late = append(late, max(d, 0))
		starts = append(starts, start{at, d})
		if at.After(last) {
			last = at
		}
	}
	if missedAfter > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d of the missed runs were due after the span that is measured, in which the jobs come to their ends", missedAfter))
	}
	r.Lateness = exact(late, "sink")
	r.LastStart = last.Sub(from).Seconds()
	r.RunsPerS = float64(len(late)) / max(r.LastStart, 1e-3)
	r.Series = binned(starts, from)
}

// reached returns the time of the first reading of which of says at least so much; if there is none, that of the last one, base being before all.
func reached(readings []reading, base reading, least float64, of func(reading) float64) time.Time {
	last := base.at
	for _, r := range readings {
		if last = r.at; of(r) >= least {
			break
		}
	}
	return last
}
