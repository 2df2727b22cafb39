package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/metrics"
	"carillon.dev/carillon/loadtest/process"
	"carillon.dev/carillon/loadtest/wait"
)

// A batch is jobs that fall due while the system runs, and what is done to it meanwhile.
type batch struct {
	protocol, variant string
	round             int
	n                 int // runs
	rate              int // due a second; 0 = all at one instant
	span              time.Duration
	target            target
	recurring         bool // the runs are of recurring jobs
	daily             int  // recurring jobs that run daily, n of them at one instant; 0 = none
	resident          int  // rows in the store beside them
	// from the first due instant to the kill of a dispatcher; 0 = none
	killAfter time.Duration
	tenant    string        // whose runs they are; "" = the default one's
	beside    *interference // runs of another tenant at the same time; nil = none
	consoles  int           // that are open meanwhile
}

// warming is the protocol of batches that only warm the system up.
const warming = "warm"

// herd is B: n runs at one instant.
func (c Config) herd(protocol string, t target, resident, round int) batch {
	w := batch{protocol: protocol, variant: string(t), n: c.N, target: t, resident: resident, round: round}
	if protocol == "D" {
		w.variant = "B"
	}
	return w
}

// stream is C: runs at a rate.
func (c Config) stream(protocol string, rate, resident, round int) batch {
	w := batch{
		protocol: protocol, variant: string(httpTarget), n: int(float64(rate) * c.Span.Seconds()), rate: rate, span: c.Span,
		target: httpTarget, resident: resident, round: round,
	}
	if protocol == "D" {
		w.variant = "C"
	}
	return w
}

// measure is the step that runs a batch and keeps its result, after `add` has added what it knows
// (nil: nothing).
func measure(w batch, add func(r *Result)) step {
	return func(ctx context.Context, b *bench, sys system) error {
		_, err := runAndKeep(ctx, b, sys, w, add)
		return err
	}
}

func runAndKeep(ctx context.Context, b *bench, sys system, w batch, add func(r *Result)) (*Result, error) {
	r, err := b.run(ctx, sys, w)
	if err != nil {
		return nil, err
	}
	if add != nil {
		add(r)
	}
	return r, b.keep(r)
}

// warm lets the system do some runs, so that compilers and caches have seen what comes. It fails if
// a promise was broken.
func (b *bench) warm(ctx context.Context, sys system, t target) error {
	if b.cfg.Warm < 0 {
		return nil
	}
	b.cfg.Log.Info("warming up", "runs", b.cfg.Warm)
	r, err := b.run(ctx, sys, batch{protocol: warming, n: b.cfg.Warm, target: t})
	if err != nil {
		return err
	}
	if broke := r.Missed + r.Early + r.Unexpected; broke > 0 {
		return fmt.Errorf("of the runs that warm up %d were missed, %d began early, and %d were not asked for", r.Missed, r.Early, r.Unexpected)
	}
	return nil
}

// A source is the jobs of a batch: what was asked for. Its runs are counted from 0, and the sink
// tells them apart.
type source interface {
	// name is the source in the addresses that are called.
	name() string
	count() int
	dueOf(run int) time.Time
	// runOf returns the run that a call of name is of; false if nobody asked for it.
	runOf(s *check.Sighting) (run int, ok bool)
	// end is when the last run is due, at the latest.
	end() time.Time
	// take sends the jobs to the system.
	take(ctx context.Context, b *bench, sys system) (*Load, error)
}

// run runs a batch: it sends the jobs, lets them fall due, waits until all are done and says how
// that went.
func (b *bench) run(ctx context.Context, sys system, w batch) (r *Result, err error) {
	perS, factor := b.perS, importFactor
	switch {
	case w.recurring:
		perS, err = b.probe(ctx, sys, w)
		factor = makeFactor
	case w.daily > 0:
		perS, err = probeDaily(ctx, b, sys, w)
		factor = makeFactor
	}
	if err != nil {
		return nil, err
	}
	if err := b.quiet(ctx, sys); err != nil {
		return nil, err
	}
	called, err := b.callee(ctx, sys, w.target)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, called.end()) }()
	r = b.result(ctx, sys, w.protocol, w.variant, w.target, w.round)
	r.N, r.Rate, r.Span, r.Resident = w.n, float64(w.rate), w.span.Seconds(), w.resident
	if w.recurring {
		r.Settings.Keyed = false
		r.Jobs, r.Every = b.recurring(w).n, b.cfg.Every.Seconds()
	}
	if w.daily > 0 {
		r.Jobs, r.Every = w.daily, (24 * time.Hour).Seconds()
	}
	held := b.memory(ctx, sys)
	t0 := time.Now().Add(b.leadOf(w, r, perS, factor)).Truncate(time.Second).UTC()
	if err := w.beside.load(ctx, b, sys, t0); err != nil {
		return nil, err
	}
	src := b.source(w, t0, called.url)
	if r.Load, err = src.take(ctx, b, sys); err != nil {
		return nil, err
	}
	r.noteLate(r.Load.Ended, t0)
	open := watch(ctx, sys.intake(), w.consoles)
	defer open.stop()
	if err := wait.Until(ctx, t0.Add(-time.Second)); err != nil {
		return nil, err
	}
	m := b.meter(ctx, sys)
	stop := m.run(ctx)
	flames := b.flamesOf(ctx, sys, w)
	grew, err := b.meanwhile(ctx, sys, w, r, m, called, src, t0)
	stop()
	if err != nil {
		return nil, err
	}
	if !w.recurring {
		grew = m.costs(ctx, r, r.N)
	}
	r.Consoles = open.end()
	flames(r)
	r.Scans, r.Memory = scansOf(grew), grown(held, b.memory(ctx, sys))
	if err := called.end(); err != nil {
		return nil, err
	}
	if called.sink == nil {
		r.fromCounters(grew)
		r.Series = seriesOf(m.all(), t0)
		started := func(x reading) float64 { return x.started - m.base.started }
		ended := func(x reading) float64 { return x.ended - m.base.ended }
		r.LastStart = m.reached(w.n, started).Sub(t0).Seconds()
		r.RunsPerS = float64(r.N) / max(m.reached(w.n, ended).Sub(t0).Seconds(), 1e-3)
	} else {
		var until time.Time // the end of what speed and lateness are of
		if w.recurring {
			until = t0.Add(w.span)
		}
		if err := r.fromRecord(called, src, t0, until); err != nil {
			return nil, err
		}
	}
	if w.protocol == warming {
		return r, nil
	}
	became, err := b.outcomes(ctx, sys, w.tenant, t0, src.end(), r.Load)
	if err != nil {
		return nil, err
	}
	became.fill(r, src.count(), called.sink != nil)
	return r, nil
}

// leadOf returns how long before its first due instant a batch is sent.
func (b *bench) leadOf(w batch, r *Result, perS, factor float64) time.Duration {
	n, least := w.n+w.beside.count(), leadLeast
	switch {
	case w.recurring:
		n = r.Jobs
	case w.daily > 0:
		n, least = w.daily, leadHerd
	case w.span == 0:
		least = leadHerd
	}
	lead := b.lead(n, perS, factor, least)
	if w.protocol == warming { // it may be under way by then
		return min(lead, leadLeast)
	}
	return lead
}

// source makes the jobs of a batch.
func (b *bench) source(w batch, t0 time.Time, url string) source {
	if w.recurring {
		j := b.recurring(w)
		j.from, j.url = t0, url
		return &j
	}
	if w.daily > 0 {
		j := b.jobs(w.daily, t0, 0, w.target, url)
		j.daily, j.together = true, w.n
		return herd{j}
	}
	j := b.jobs(w.n, t0, w.span, w.target, url)
	j.tenant = w.tenant
	return j
}

// noteLate notes that jobs came after they were due.
func (r *Result) noteLate(ended, due time.Time) {
	if ended.After(due) {
		r.Notes = append(r.Notes, fmt.Sprintf("the last job came %.1f s after the first due instant", ended.Sub(due).Seconds()))
	}
}

// meanwhile is what happens from the first due instant on, until all is done. Of recurring jobs it
// returns what the nodes' counters grew by in the span: what follows must not count.
func (b *bench) meanwhile(ctx context.Context, sys system, w batch, r *Result, m *meter, called callee, src source, t0 time.Time) (grew metrics.Values, err error) {
	if r.Killed, err = b.killAt(ctx, sys, t0, w.killAfter); err != nil {
		return nil, err
	}
	if w.recurring {
		if err := wait.Until(ctx, t0.Add(w.span)); err != nil {
			return nil, err
		}
		began := int64(m.latest().started - m.base.started)
		if called.sink != nil {
			if _, began, err = b.sinkSeen(ctx, called.url); err != nil {
				return nil, err
			}
		}
		grew = m.costs(ctx, r, max(int(began), 1))
	}
	return grew, m.untilOver(ctx, called, src.count(), src.end(), w.beside == nil)
}

// killAt kills the dispatcher after the given time, if that is not 0.
func (b *bench) killAt(ctx context.Context, sys system, t0 time.Time, after time.Duration) (*Kill, error) {
	if after == 0 {
		return nil, nil
	}
	if err := wait.Until(ctx, t0.Add(after)); err != nil {
		return nil, err
	}
	b.cpu(sys) // what the victim has used cannot be read afterwards
	at := time.Now()
	member, err := sys.kill(ctx)
	if err != nil {
		return nil, err
	}
	b.cfg.Log.Info("killed", "member", member)
	return &Kill{member, at.Sub(t0).Seconds()}, nil
}

// overFor is for how long all runs must have begun: what comes twice comes soon.
const overFor = time.Second

// untilOver waits until n runs have begun, at most Config.Wait after end, when the last is due.
// With settled it also waits until every message is acknowledged.
func (m *meter) untilOver(ctx context.Context, called callee, n int, end time.Time, settled bool) error {
	if err := wait.Until(ctx, end); err != nil {
		return err
	}
	var since time.Time
	ok, err := wait.Poll(ctx, scrapeEvery, end.Add(m.bench.cfg.Wait), func() (bool, error) {
		seen := int64(m.latest().started - m.base.started)
		if called.sink != nil {
			var err error
			// Calls that came twice do not stand for others that did not come.
			if _, seen, err = m.bench.sinkSeen(ctx, called.url); err != nil {
				return false, err
			}
		}
		switch {
		case seen < int64(n) || settled && m.latest().held > 0:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		}
		return !since.IsZero() && time.Since(since) >= overFor, nil
	})
	if err == nil && !ok {
		m.bench.cfg.Log.Warn("not all runs have begun, and the wait is over")
	}
	return err
}

// sinkSeen returns how many calls a sink has seen, and of how many runs.
func (b *members) sinkSeen(ctx context.Context, url string) (calls, runs int64, err error) {
	stats, err := process.AskSink(ctx, b.client, url)
	return stats.Seen, stats.Runs, err
}

// readSeen reads a sink's record, which must be complete.
func readSeen(path string) ([]check.Sighting, error) {
	seen, all, err := journal.ReadSeenFile(path)
	if err == nil && !all {
		err = errors.New("the sink's record has gaps")
	}
	if err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	return seen, nil
}

// fromRecord fills in what the sink wrote down, and removes it.
func (r *Result) fromRecord(called callee, src source, from, until time.Time) error {
	seen, err := readSeen(called.sink.Record)
	if err != nil {
		return err
	}
	r.fromSink(src, from, until, seen)
	return os.Remove(called.sink.Record)
}

// A meter reads what a system uses, from its making on.
type meter struct {
	*scraper
	bench  *bench
	sys    system
	base   reading
	before metrics.Values
	cpu    map[string]time.Duration
}

func (b *bench) meter(ctx context.Context, sys system) *meter {
	m := &meter{scraper: newScraper(b.client), bench: b, sys: sys}
	m.watch(sys.nodes())
	m.base, m.before, m.cpu = m.read(ctx), m.mark(ctx), b.cpu(sys)
	return m
}

// costs notes in r what n runs have cost so far, and returns what the nodes' counters grew by.
func (m *meter) costs(ctx context.Context, r *Result, n int) metrics.Values {
	grew := m.mark(ctx).Less(m.before)
	r.used(m.cpu, m.bench.cpu(m.sys), n)
	r.Allocs, r.Bytes = grew[metricMallocs]/float64(n), grew[metricBytes]/float64(n)
	return grew
}

// reached returns when of said n or more first; the time of the last reading if it never did.
func (m *meter) reached(n int, of func(reading) float64) time.Time {
	last := m.base.at
	for _, r := range m.all() {
		if last = r.at; of(r) >= float64(n) {
			break
		}
	}
	return last
}

// fromCounters fills in what the executors' counters say; grew is what they grew by.
func (r *Result) fromCounters(grew metrics.Values) {
	r.Lateness = bounded(grew.Histogram(metricLateness))
	r.Doubled = max(0, int(grew.Sum(metricAttempts))-r.N)
	r.Early = int(grew[metricEarly])
}

// A callee is whom the runs call.
type callee struct {
	url  string // base of what HTTP runs call
	sink *process.Sink
	end  func() error // may be called again
}

// nowhere is what runs name that call nobody: nobody listens there.
const nowhere = "http://127.0.0.1:9"

// callee starts whom the runs of a target call. The caller ends it.
func (b *members) callee(ctx context.Context, sys system, t target) (callee, error) {
	switch t {
	case httpTarget:
		return b.startSink(ctx, "sink", sinkArgs(sys)...)
	case natsTarget:
		return b.worker(ctx, sys, natsSubject, 0)
	default:
		return callee{url: nowhere, end: func() error { return nil }}, nil
	}
}

// folder makes a folder of its own below Config.Dir.
func (b *members) folder(kind string) (string, error) {
	b.serial++
	dir := filepath.Join(b.cfg.Dir, fmt.Sprintf("%s-%d", kind, b.serial))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("start %s: %w", kind, err)
	}
	return dir, nil
}

// startSink starts a sink as a process of that kind, with further arguments.
func (b *members) startSink(ctx context.Context, kind string, more ...string) (callee, error) {
	dir, err := b.folder("sink")
	if err != nil {
		return callee{}, err
	}
	s, err := process.StartSink(ctx, b.cfg.Program, dir, more...)
	if err != nil {
		return callee{}, err
	}
	return callee{s.URL, s, b.counted(kind, s.Server)}, nil
}

// counted has the CPU of a server read as that of a kind, until it is ended.
func (b *members) counted(kind string, s *process.Server) (end func() error) {
	b.extra[kind] = s.PID
	return func() error { delete(b.extra, kind); return s.End() }
}

var workerListens = regexp.MustCompile(`(?m)^worker listens on (\S+)$`)

// workerStart bounds the wait for the worker.
const workerStart = 10 * time.Second

// worker starts `carillon-load respond`, which answers requests on a subject after a delay.
func (b *members) worker(ctx context.Context, sys system, subject string, delay time.Duration) (callee, error) {
	c, ok := sys.(*clusterSystem)
	if !ok {
		return callee{}, errors.New("target nats needs a cluster")
	}
	dir, err := b.folder("worker")
	if err != nil {
		return callee{}, err
	}
	args := []string{"respond", "--nats", c.natsURL(), "--subject", subject, "--delay", delay.String()}
	s, err := process.StartServer(ctx, b.cfg.Program, args, filepath.Join(dir, "worker.log"), workerListens, workerStart)
	if err != nil {
		return callee{}, err
	}
	return callee{end: b.counted("worker", s)}, nil
}
