package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/process"
)

// The parts of a measurement of fairness.
const (
	PartBeside  = "beside"  // a tenant alone, and beside one with fairTimes its load, in pairs
	PartWeights = "weights" // tenants of weights 1, 2 and 4 that all have a backlog
	// runs of priority critical that fall due while low ones have a backlog
	PartCritical = "critical"
	PartBacklog  = "backlog" // a tenant alone, and while another one has a backlog
)

// fairTimes is how many times the load the one tenant has.
const fairTimes = 100

// The goals.
const (
	movedPart     = 0.2 // of the p99 alone …
	movedMS       = 20. // … or so many ms, whichever is more
	shareOff      = 0.1 // of each share
	overtakenMS   = 2000.
	fairPairs     = 5
	criticalRuns  = 100
	criticalAfter = 3 * time.Second // after the low ones
)

// FairConfig says which parts of fairness are measured, and with how much load.
type FairConfig struct {
	Parts []string
	// Rate is the runs a second of the tenant with little load; the other one has fairTimes as
	// many.
	Rate int
	// Pairs is how often the tenant is measured alone and then beside the other.
	Pairs int
	// Backlog is how many runs are due at once: of all tenants in PartWeights, of priority low in
	// PartCritical, of one tenant in PartBacklog.
	Backlog int
	// Work is how long each call takes. With the slots of the executors it bounds their throughput.
	Work time.Duration
}

// Validate reports every fault of f together.
func (f FairConfig) Validate() error {
	var faults []error
	for _, p := range f.Parts {
		if !slices.Contains([]string{PartBeside, PartWeights, PartCritical, PartBacklog}, p) {
			faults = append(faults, fmt.Errorf("part is %q, want beside, weights, critical or backlog", p))
		}
	}
	for _, n := range []struct {
		what string
		n    int
	}{{"parts", len(f.Parts)}, {"rate", f.Rate}, {"pairs", f.Pairs}, {"backlog", f.Backlog}} {
		if n.n < 1 {
			faults = append(faults, fmt.Errorf("%s: %d, want at least one", n.what, n.n))
		}
	}
	if f.Work < 0 {
		faults = append(faults, errors.New("work is negative"))
	}
	return errors.Join(faults...)
}

// A FairResult is one measurement of fairness. Fields may be added to its JSON, and not changed.
type FairResult struct {
	System   string   `json:"system"`
	Settings Settings `json:"settings"`
	WorkMS   float64  `json:"work_ms"` // what each call takes

	Pairs    []Pair         `json:"beside,omitempty"`
	Weights  *Shares        `json:"weights,omitempty"`
	Critical *Overtaking    `json:"critical,omitempty"`
	Backlog  *BesideBacklog `json:"backlog,omitempty"`
	Verdicts []string       `json:"verdicts"` // each begins with "met" or "missed"

	Began   time.Time `json:"began"`
	Commit  string    `json:"commit"`
	Machine string    `json:"machine"`
	Command string    `json:"command"`
}

// A Pair is a tenant alone and beside another one. The sink tells the lateness.
type Pair struct {
	Rate    int       `json:"rate"`  // of the tenant, runs a second
	Times   int       `json:"times"` // of the other, as many times as much
	Span    float64   `json:"span_s"`
	Alone   *Lateness `json:"alone_ms"`
	Beside  *Lateness `json:"beside_ms"`
	Other   *Lateness `json:"other_ms"` // of the one with the load
	Moved   float64   `json:"p99_moved_ms"`
	Allowed float64   `json:"p99_allowed_ms"`
	Missed  int       `json:"missed"`
}

// Shares are those of tenants that compete, between two instants after the first due one.
type Shares struct {
	Runs    int                `json:"runs"`
	From    float64            `json:"from_s"`
	To      float64            `json:"to_s"`
	PerS    float64            `json:"runs_per_s"`
	Weights map[string]int     `json:"weights"`
	Got     map[string]float64 `json:"shares"`
	Missed  int                `json:"missed"`
	starts  map[string][]start
}

// An Overtaking is critical runs that fall due while low ones wait.
type Overtaking struct {
	Low      int       `json:"low"`
	LowLeft  int       `json:"low_left"` // when the critical ones fell due
	Critical int       `json:"critical"`
	Lateness *Lateness `json:"critical_ms"`
	Missed   int       `json:"missed"`
	starts   map[string][]start
}

// Fair measures the parts f of fairness on the system of cfg. It writes the result and plots into
// cfg.Out and the verdicts to out.
func Fair(ctx context.Context, cfg Config, f FairConfig, out io.Writer) (*FairResult, error) {
	cfg.Protocols = []string{"C"} // it is what comes closest: what C needs, this does
	if err := errors.Join(cfg.Validate(), f.Validate()); err != nil {
		return nil, err
	}
	b := newBench(cfg, out)
	parts := fairness{b}
	defer b.client.CloseIdleConnections()
	r := &FairResult{
		Began: time.Now().UTC(), WorkMS: float64(f.Work.Microseconds()) / 1000,
		Commit: process.Commit(ctx), Machine: process.Machine(), Command: cfg.Command,
	}
	err := b.with(ctx, b.cfg.Cluster, together, false, func(sys system) error {
		r.System, r.Settings = sys.name(), b.result(ctx, sys, "fair", "", httpTarget, 0).Settings
		if err := b.warm(ctx, sys, httpTarget); err != nil {
			return err
		}
		for _, part := range []struct {
			name string
			do   func(context.Context, system, FairConfig, *FairResult) error
		}{{PartBeside, parts.beside}, {PartWeights, parts.weights}, {PartCritical, parts.critical}, {PartBacklog, parts.besideBacklog}} {
			if !slices.Contains(f.Parts, part.name) {
				continue
			}
			if err := part.do(ctx, sys, f, r); err != nil {
				return fmt.Errorf("part %s: %w", part.name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.judge()
	_, _ = fmt.Fprintln(out, r) // the terminal went away: the files stay
	if err := r.keep(b.cfg.Out); err != nil {
		return nil, err
	}
	return r, nil
}

// fairness measures the parts of fairness.
type fairness struct{ *bench }

// A group is jobs of several tenants or priorities that ran side by side.
type group struct {
	jobs []jobs
	t0   time.Time
	seen map[string][]check.Sighting // by source
}

// runGroup sends all jobs, lets them run and returns what the sink saw of them. The first of all[i]
// are due at the group's t0 plus after[i].
func (b fairness) runGroup(ctx context.Context, sys system, work time.Duration, all []jobs, after []time.Duration) (c *group, err error) {
	if err := b.quiet(ctx, sys); err != nil {
		return nil, err
	}
	called, err := b.callee(ctx, sys, httpTarget)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, called.end()) }()
	n, url := 0, called.url
	for i := range all {
		n += all[i].n
	}
	if work > 0 {
		url += "/work-" + work.String()
	}
	c = &group{t0: time.Now().Add(b.importLead(n, leadLeast)).Truncate(time.Second).UTC(), seen: make(map[string][]check.Sighting)}
	end := c.t0
	for i, j := range all {
		made := b.jobs(j.n, c.t0.Add(after[i]), j.span, httpTarget, url)
		made.tenant, made.more, made.keyed, made.part = j.tenant, j.more, false, j.part
		c.jobs = append(c.jobs, made)
		if made.end().After(end) {
			end = made.end()
		}
		loaded, err := b.load(ctx, sys, made)
		if err != nil {
			return nil, err
		}
		if loaded.Ended.After(c.t0) {
			return nil, fmt.Errorf("the import ended %.1f s after the first due instant: this is no measurement", loaded.Ended.Sub(c.t0).Seconds())
		}
	}
	m := b.meter(ctx, sys)
	stop := m.run(ctx)
	err = m.untilOver(ctx, called, n, end, true)
	stop()
	if err := errors.Join(err, called.end()); err != nil {
		return nil, err
	}
	seen, err := readSeen(called.sink.Record)
	if err != nil {
		return nil, err
	}
	for i := range seen {
		c.seen[seen[i].Ref.Source] = append(c.seen[seen[i].Ref.Source], seen[i])
	}
	return c, nil
}

// starts returns the first arrival of each run of the i-th jobs, in order of time, and the number
// of runs that never came.
func (c *group) starts(i int) (starts []start, missed int) {
	j := c.jobs[i]
	first := make([]time.Time, j.n)
	for _, s := range c.seen[j.source] {
		if run, ok := j.runOf(&s); ok && (first[run].IsZero() || s.At.Before(first[run])) {
			first[run] = s.At
		}
	}
	for run, at := range first {
		if at.IsZero() {
			missed++
			continue
		}
		starts = append(starts, start{at, at.Sub(j.dueOf(run))})
	}
	slices.SortFunc(starts, func(a, b start) int { return a.at.Compare(b.at) })
	return starts, missed
}

func latenessOf(starts []start) *Lateness {
	late := make([]time.Duration, len(starts))
	for i, s := range starts {
		late[i] = max(s.late, 0)
	}
	return exact(late, "sink")
}

// beside is PartBeside.
func (b fairness) beside(ctx context.Context, sys system, f FairConfig, r *FairResult) error {
	span := b.cfg.Span
	little := jobs{n: max(int(float64(f.Rate)*span.Seconds()), 1), span: span, tenant: "little"}
	much := jobs{n: fairTimes * little.n, span: span, tenant: "much"}
	for pair := range f.Pairs {
		b.cfg.Log.Info("one tenant alone, and beside another", "pair", pair+1, "of", f.Pairs)
		alone, err := b.runGroup(ctx, sys, f.Work, []jobs{little}, []time.Duration{0})
		if err != nil {
			return err
		}
		beside, err := b.runGroup(ctx, sys, f.Work, []jobs{little, much}, []time.Duration{0, 0})
		if err != nil {
			return err
		}
		p := Pair{Rate: f.Rate, Times: fairTimes, Span: span.Seconds()}
		for _, x := range []struct {
			of   *group
			i    int
			late **Lateness
		}{{alone, 0, &p.Alone}, {beside, 0, &p.Beside}, {beside, 1, &p.Other}} {
			starts, missed := x.of.starts(x.i)
			if p.Missed += missed; len(starts) == 0 {
				return errors.New("no run began")
			}
			*x.late = latenessOf(starts)
		}
		p.Moved, p.Allowed = p.Beside.P99-p.Alone.P99, max(movedPart*p.Alone.P99, movedMS)
		r.Pairs = append(r.Pairs, p)
	}
	return nil
}

// weights is PartWeights. Each tenant has as many runs as its share of the backlog, so that all end
// at the same time.
func (b fairness) weights(ctx context.Context, sys system, f FairConfig, r *FairResult) error {
	w := &Shares{Runs: f.Backlog, Weights: map[string]int{"one": 1, "two": 2, "four": 4}, Got: make(map[string]float64), starts: make(map[string][]start)}
	names := []string{"one", "two", "four"}
	var all []jobs
	for _, name := range names {
		if err := b.putWeight(ctx, sys, name, w.Weights[name]); err != nil {
			return err
		}
		all = append(all, jobs{n: max(f.Backlog*w.Weights[name]/7, 1), tenant: name})
	}
	c, err := b.runGroup(ctx, sys, f.Work, all, make([]time.Duration, len(all)))
	if err != nil {
		return err
	}
	for i, name := range names {
		starts, missed := c.starts(i)
		w.starts[name] = starts
		w.Missed += missed
	}
	w.count(c.t0)
	r.Weights = w
	return nil
}

// count counts the shares while all tenants have a backlog. It leaves out the first tenth of that
// time, in which executors find their throughput, and ends when a tenant has begun nine tenths of
// its runs.
func (w *Shares) count(t0 time.Time) {
	var to time.Time
	for _, starts := range w.starts {
		if len(starts) == 0 {
			return
		}
		if at := starts[len(starts)*9/10].at; to.IsZero() || at.Before(to) {
			to = at
		}
	}
	from := t0.Add(to.Sub(t0) / 10)
	sum := 0.
	for name, starts := range w.starts {
		for _, s := range starts {
			if !s.at.Before(from) && s.at.Before(to) {
				w.Got[name]++
			}
		}
		sum += w.Got[name]
	}
	for name := range w.Got {
		w.Got[name] /= sum
	}
	w.From, w.To, w.PerS = from.Sub(t0).Seconds(), to.Sub(t0).Seconds(), sum/to.Sub(from).Seconds()
}

// putWeight states the weight of a tenant.
func (b fairness) putWeight(ctx context.Context, sys system, tenant string, weight int) error {
	_, err := api.AskOK(ctx, b.client, api.Request{
		Method: http.MethodPut, URL: sys.intake()[0] + "/v1/tenants/" + tenant, Type: "application/json", Body: fmt.Appendf(nil, `{"weight":%d}`, weight),
	})
	if err != nil {
		return fmt.Errorf("state weight: %w", err)
	}
	return nil
}

// critical is PartCritical.
func (b fairness) critical(ctx context.Context, sys system, f FairConfig, r *FairResult) error {
	c, err := b.runGroup(ctx, sys, f.Work, []jobs{{n: f.Backlog, more: `"priority":"low",`}, {n: criticalRuns, more: `"priority":"critical",`}}, []time.Duration{0, criticalAfter})
	if err != nil {
		return err
	}
	o := &Overtaking{Low: f.Backlog, Critical: criticalRuns, starts: make(map[string][]start)}
	low, missedLow := c.starts(0)
	urgent, missed := c.starts(1)
	o.starts["low"], o.starts["critical"], o.Missed = low, urgent, missed+missedLow
	o.LowLeft = after(low, c.t0.Add(criticalAfter))
	o.Lateness = latenessOf(urgent)
	r.Critical = o
	return nil
}

// judge compares the measurement with the goals.
func (r *FairResult) judge() {
	say := func(met bool, format string, args ...any) {
		verdict := "missed: "
		if met {
			verdict = "met: "
		}
		r.Verdicts = append(r.Verdicts, verdict+fmt.Sprintf(format, args...))
	}
	if len(r.Pairs) > 0 {
		over := make([]float64, len(r.Pairs))
		missed := 0
		for i, p := range r.Pairs {
			over[i] = p.Moved - p.Allowed
			missed += p.Missed
		}
		slices.Sort(over)
		median := over[len(over)/2]
		at := slices.IndexFunc(r.Pairs, func(p Pair) bool { return p.Moved-p.Allowed == median })
		say(median <= 0 && missed == 0, "beside %d times the load p99 lateness moved by %.1f ms, allowed %.1f (median of %d pairs); missed %d",
			fairTimes, r.Pairs[at].Moved, r.Pairs[at].Allowed, len(r.Pairs), missed)
	}
	if w := r.Weights; w != nil {
		sum, worst := 0, 0.
		for _, weight := range w.Weights {
			sum += weight
		}
		for name, weight := range w.Weights {
			worst = max(worst, max(w.Got[name]*float64(sum)/float64(weight)-1, 1-w.Got[name]*float64(sum)/float64(weight)))
		}
		say(worst <= shareOff && w.Missed == 0, "weights 1:2:4 gave shares %.3f : %.3f : %.3f of %.0f runs/s, off by %.1f %% at most; missed %d",
			w.Got["one"], w.Got["two"], w.Got["four"], w.PerS, 100*worst, w.Missed)
	}
	if c := r.Critical; c != nil {
		met := c.Lateness != nil && c.Lateness.Max < overtakenMS && c.LowLeft > 0 && c.Missed == 0
		latest := 0.
		if c.Lateness != nil {
			latest = c.Lateness.Max
		}
		say(met, "the last of %d critical runs began %.0f ms after they fell due, while %d of %d low ones waited; missed %d", c.Critical, latest, c.LowLeft, c.Low, c.Missed)
	}
	if o := r.Backlog; o != nil {
		met := o.Moved <= o.Allowed && o.HeapMost > 0 && o.HeapMost-o.HeapBefore <= heapGrown && o.Left > 0 && o.Missed == 0
		say(met, "behind a backlog of %d, of which %d waited to the end, p99 lateness moved from %.1f ms by %.1f, allowed %.1f; the heap grew from %.0f MiB by %.0f, allowed %d; missed %d",
			o.Backlog, o.Left, o.Alone.P99, o.Moved, o.Allowed, o.HeapBefore/(1<<20), (o.HeapMost-o.HeapBefore)/(1<<20), heapGrown>>20, o.Missed)
	}
}

// Met reports whether all goals were met that were measured.
func (r *FairResult) Met() bool {
	return !slices.ContainsFunc(r.Verdicts, func(v string) bool { return strings.HasPrefix(v, "missed") })
}

// String returns the result in a few lines.
func (r *FairResult) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "fair %s: nodes %s; %d shards; a call takes %.0f ms; %s", r.System, r.Settings.Nodes, r.Settings.Shards, r.WorkMS, r.Settings.Durability)
	for i, p := range r.Pairs {
		fmt.Fprintf(&b, "\n    pair %d: %d/s alone p99 %.1f ms, beside %d/s p99 %.1f ms (p50 %.1f, %.1f); the other's p99 %.0f ms",
			i+1, p.Rate, p.Alone.P99, p.Rate*p.Times, p.Beside.P99, p.Alone.P50, p.Beside.P50, p.Other.P99)
	}
	for _, v := range r.Verdicts {
		b.WriteString("\n    " + v)
	}
	return b.String()
}

// base returns the path of a result's files, without their endings.
func (r *FairResult) base(folder string) string { return filepath.Join(folder, "fair-"+r.System) }
