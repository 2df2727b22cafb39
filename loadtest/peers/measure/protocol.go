package measure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// The protocols and targets there are.
const (
	BurnDown = "A"
	Herd     = "B"
	Stream   = "C"

	Workflows = "W"

	Noop = "noop"
	HTTP = "http"

	Chains = "chains" // of W: as many as can be
	Pace   = "pace"   // of W: at a rate
)

// DefaultWarm is how many runs warm a peer up, as many as carillon-load bench has Carillon do.
const DefaultWarm = 100_000

const (
	// leadLeast is how long before their instant jobs are inserted at least.
	leadLeast = 20 * time.Second
	// leadFactor is how much longer than it seems to need an insertion may take.
	leadFactor = 1.5
	// markBefore is how long before the first due instant CPU times are read.
	markBefore = time.Second
	// lookEvery is how often it is looked whether a wave is over.
	lookEvery = 20 * time.Millisecond
	// overFor is for how long it must have been: what comes a second time comes soon.
	overFor = time.Second

	startTimeout = 5 * time.Minute // one builds its program first, and waits for the start of a minute
	stopTimeout  = time.Minute
)

// Config says what is measured.
type Config struct {
	Protocol string
	Target   string        // what runs do; a burn-down's do nothing; of W the part: Chains or Pace
	N        int           // runs; of W chains
	Rate     int           // of Pace: steps a second
	Open     int           // of Chains: how many are open at once; 0 = 2,000
	Span     time.Duration // of a stream and of Pace
	Payload  int           // bytes of padding of each job and call
	Warm     int           // runs before, so that connections, plans and caches are there; 0 = DefaultWarm
	Wait     time.Duration // for runs after the last due instant; 0 = 2 min
	Round    int
	Dir      string // for the data of servers; on a disk, since durability is part of what is compared
	// StartSink starts the sink, if runs call it.
	StartSink func(ctx context.Context, dir string) (*Sink, error)
	Log       *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Warm == 0 {
		c.Warm = DefaultWarm
	}
	if c.Wait == 0 {
		c.Wait = 2 * time.Minute
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Protocol == BurnDown {
		c.Target = Noop
	}
	if c.Protocol != Stream && c.Target != Pace {
		c.Span = 0
	}
	if c.Open == 0 {
		c.Open = 2000
	}
	return c
}

// Validate reports every fault of c together.
func (c Config) Validate() error {
	c = c.withDefaults()
	var faults []error
	if !slices.Contains([]string{BurnDown, Herd, Stream, Workflows}, c.Protocol) {
		faults = append(faults, fmt.Errorf("protocol %q, want A, B, C or W", c.Protocol))
	}
	targets := []string{Noop, HTTP}
	if c.Protocol == Workflows {
		targets = []string{Chains, Pace}
	}
	if !slices.Contains(targets, c.Target) {
		faults = append(faults, fmt.Errorf("target %q of %s, want one of %q", c.Target, c.Protocol, targets))
	}
	if c.Target != Noop && c.StartSink == nil {
		faults = append(faults, fmt.Errorf("target %s needs a sink", c.Target))
	}
	if c.Target == Pace && c.Rate < 1 {
		faults = append(faults, fmt.Errorf("%d steps a second, want at least 1", c.Rate))
	}
	if c.N < 1 {
		faults = append(faults, fmt.Errorf("%d runs, want at least 1", c.N))
	}
	if c.Protocol == Stream && c.Span < time.Millisecond {
		faults = append(faults, fmt.Errorf("span %s, want at least 1ms", c.Span))
	}
	if c.Warm < 0 || c.Payload < 0 || c.Wait < 0 || c.Open < 0 {
		faults = append(faults, errors.New("warm, payload, wait and open must not be negative"))
	}
	return errors.Join(faults...)
}

// Run starts p, measures it and stops it, whatever happens.
func Run(ctx context.Context, p System, cfg Config) (r *Result, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := Fits(p, cfg.Protocol, cfg.Target); err != nil {
		return nil, err
	}
	m := &measurement{system: p, cfg: cfg}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if serr := p.Stop(ctx); serr != nil {
			err = errors.Join(err, fmt.Errorf("stop %s: %w", p.Name(), serr))
		}
	}()
	cfg.Log.Info("starting", "system", p.Name(), "protocol", cfg.Protocol)
	sctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.Start(sctx, cfg.Dir); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name(), err)
	}
	m.result = &Result{
		Protocol: cfg.Protocol, System: p.Name(), Variant: cfg.Target, Round: cfg.Round, N: cfg.N, Span: cfg.Span.Seconds(),
		Settings: p.Settings(), Began: time.Now().UTC(),
	}
	m.result.Settings.Target, m.result.Settings.Payload = cfg.Target, cfg.Payload
	switch {
	case cfg.Protocol == Workflows:
		err = m.chains(ctx, p.(Chainer)) // Fits has said that it is one
	case cfg.Protocol == BurnDown:
		m.peer = p.(Peer)
		err = m.burnDown(ctx)
	default:
		m.peer = p.(Peer)
		if cfg.Span > 0 {
			m.result.Rate = float64(cfg.N) / cfg.Span.Seconds()
		}
		err = m.wave(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("protocol %s on %s: %w", cfg.Protocol, p.Name(), err)
	}
	return m.result, nil
}

// A measurement is one under way.
type measurement struct {
	system System
	peer   Peer // the system, but of W
	cfg    Config
	result *Result
	sink   *Sink // nil: runs call nobody
}

// burnDown is protocol A.
func (m *measurement) burnDown(ctx context.Context) error {
	work := m.consumers(ctx)
	if _, err := m.warm(ctx, work); err != nil {
		return errors.Join(err, work.stop())
	}
	if err := work.stop(); err != nil {
		return err
	}
	if err := m.enqueue(ctx, func(int) time.Time { return time.Time{} }); err != nil {
		return err
	}
	log := NewLog(realWave, m.cfg.N)
	before, err := m.used()
	if err != nil {
		return err
	}
	m.cfg.Log.Info("burning down", "runs", m.cfg.N)
	began := time.Now()
	work = m.consumers(ctx)
	work.into(log)
	settled, err := m.untilOver(ctx, work, log, began.Add(m.cfg.Wait), before)
	if err := errors.Join(err, work.stop()); err != nil {
		return err
	}
	o := log.observations()
	v := judge(o, func(int) time.Time { return began }, "handler")
	m.result.Missed, m.result.Doubled = v.missed, v.doubled
	m.strange(o)
	if v.began > 0 {
		first := v.last
		for _, at := range o.first {
			if !at.IsZero() && at.Before(first) {
				first = at
			}
		}
		m.result.RunsPerS = perSecond(v.began, settled.Sub(first))
		m.result.HandledPerS = perSecond(v.began, time.Unix(0, log.lastEnd.Load()).Sub(began))
	}
	return nil
}

// wave is protocols B and C: runs that fall due while consumers run.
func (m *measurement) wave(ctx context.Context) (err error) {
	if m.cfg.Target == HTTP {
		if m.sink, err = m.cfg.StartSink(ctx, m.cfg.Dir); err != nil {
			return err
		}
		defer func() {
			if m.sink != nil {
				err = errors.Join(err, m.sink.End())
			}
		}()
	}
	if c, ok := m.peer.(Caller); ok {
		c.CallAt(m.sink.address)
	}
	work := m.consumers(ctx)
	defer func() { err = errors.Join(err, work.stop()) }()
	rate, err := m.warm(ctx, work)
	if err != nil {
		return err
	}
	log := m.log(realWave, m.cfg.N)
	work.into(log)
	granule := time.Second
	if c, ok := m.peer.(Coarse); ok {
		granule = c.Granule()
	}
	lead := leadLeast + time.Duration(leadFactor*float64(m.cfg.N)/rate*float64(time.Second))
	spread := Spread{From: time.Now().Add(lead + granule).Truncate(granule), Span: m.cfg.Span, Seed: uint64(max(m.cfg.Round, 0))} // #nosec G115 -- not negative
	if err := m.enqueue(ctx, spread.Due); err != nil {
		return err
	}
	switch spare := time.Until(spread.From); {
	case spare < 0:
		m.result.note("the insertion ended %.1f s after the first due instant", -spare.Seconds())
	case spare < leadLeast:
		m.result.note("the insertion ended %.1f s before the first due instant, not %s", spare.Seconds(), leadLeast)
	}
	if err := work.wait(ctx, time.Until(spread.From.Add(-markBefore))); err != nil {
		return err
	}
	before, err := m.used()
	if err != nil {
		return err
	}
	m.cfg.Log.Info("falling due", "runs", m.cfg.N, "span", m.cfg.Span)
	settled, err := m.untilOver(ctx, work, log, spread.From.Add(m.cfg.Span+m.cfg.Wait), before)
	if err != nil {
		return err
	}
	if err := work.stop(); err != nil {
		return err
	}
	m.result.SettledS = settled.Sub(spread.From).Seconds()
	o := log.observations()
	v := judge(o, spread.Due, "handler")
	if m.sink != nil {
		m.result.Handler = v.late
		sink := m.sink
		m.sink = nil // it is ended here
		if err := sink.End(); err != nil {
			return err
		}
		if o, err = readSink(sink.Record, source(realWave), source(warmWave), m.cfg.N); err != nil {
			return err
		}
		v = judge(o, spread.Due, "sink")
	}
	m.strange(o)
	r := m.result
	r.Lateness, r.Missed, r.Early, r.Doubled = v.late, v.missed, v.early, v.doubled
	r.EarliestMS = float64(v.earliest.Microseconds()) / 1000
	if v.began > 0 {
		r.LastStart = v.last.Sub(spread.From).Seconds()
		r.RunsPerS = perSecond(v.began, v.last.Sub(spread.From))
	}
	return nil
}

// log returns one for the starts of a wave that handlers hear of.
func (m *measurement) log(wave, n int) *Log {
	if _, ok := m.peer.(Caller); ok {
		n = 0
	}
	return NewLog(wave, n)
}

func (m *measurement) strange(o observations) {
	if o.strange > 0 {
		m.result.note("%d starts of runs that nobody asked for", o.strange)
	}
}

// warm lets the peer do some runs that are not measured, and returns how many it inserted a second.
func (m *measurement) warm(ctx context.Context, work *consumers) (perS float64, err error) {
	log := m.log(warmWave, m.cfg.Warm)
	work.into(log)
	began := time.Now()
	if err := m.peer.Enqueue(ctx, warmWave, m.cfg.Warm, m.cfg.Payload, func(int) time.Time { return time.Time{} }); err != nil {
		return 0, fmt.Errorf("insert jobs to warm up: %w", err)
	}
	perS = perSecond(m.cfg.Warm, time.Since(began))
	limit := time.Now().Add(m.cfg.Wait)
	over, err := m.settle(ctx, work, log, limit)
	if err != nil {
		return 0, err
	}
	if _, ok := m.peer.(Caller); !log.All() || ok && !over.Before(limit) {
		return 0, fmt.Errorf("warm up: not all of %d runs began within %s", m.cfg.Warm, m.cfg.Wait)
	}
	return perS, nil
}

func (m *measurement) enqueue(ctx context.Context, at func(int) time.Time) error {
	before, err := m.used()
	if err != nil {
		return err
	}
	m.cfg.Log.Info("inserting", "jobs", m.cfg.N)
	began := time.Now()
	if err := m.peer.Enqueue(ctx, realWave, m.cfg.N, m.cfg.Payload, at); err != nil {
		return fmt.Errorf("insert jobs: %w", err)
	}
	took := time.Since(began)
	after, err := m.used()
	if err != nil {
		return err
	}
	m.result.Load = Load{Seconds: took.Seconds(), PerS: perSecond(m.cfg.N, took), CPU: perRun(before, after, m.cfg.N)}
	return nil
}

// untilOver waits until every run has begun and the store holds no unfinished one, at most until limit. It fills in the
// CPU used since before, and returns when it was over.
func (m *measurement) untilOver(ctx context.Context, work *consumers, log *Log, limit time.Time, before map[string]time.Duration) (time.Time, error) {
	over, err := m.settle(ctx, work, log, limit)
	if err != nil {
		return over, err
	}
	after, err := m.used()
	if err != nil {
		return over, err
	}
	m.result.CPU = perRun(before, after, m.cfg.N)
	if !time.Now().Before(limit) {
		left, err := m.peer.Unfinished(ctx)
		if err != nil {
			return over, fmt.Errorf("count unfinished jobs: %w", err)
		}
		m.result.note("not over %s after the last due instant; the store holds %d unfinished jobs", m.cfg.Wait, left)
	}
	return over, work.wait(ctx, overFor)
}

// settle waits until every run has begun and the store holds no unfinished one, at most until limit, and returns when.
func (m *measurement) settle(ctx context.Context, work *consumers, log *Log, limit time.Time) (time.Time, error) {
	for time.Now().Before(limit) {
		if log.All() {
			left, err := m.peer.Unfinished(ctx)
			if err != nil {
				return time.Time{}, fmt.Errorf("count unfinished jobs: %w", err)
			}
			if left == 0 {
				break
			}
		}
		if err := work.wait(ctx, lookEvery); err != nil {
			return time.Time{}, err
		}
	}
	return time.Now(), nil
}

func (m *measurement) used() (map[string]time.Duration, error) {
	members := maps.Clone(m.system.Servers())
	if m.sink != nil && m.sink.PID != 0 {
		members["sink"] = m.sink.PID
	}
	return usage(members)
}

func perSecond(n int, took time.Duration) float64 { return float64(n) / max(took.Seconds(), 1e-3) }
