package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/process"
	"carillon.dev/carillon/loadtest/wait"
)

// stopTimeout bounds the end of everything that was started.
const stopTimeout = time.Minute

// A bench measures, one session after the other.
type bench struct {
	members
	out     io.Writer
	perS    float64 // lines a second of the last import
	results []*Result
}

// members are the processes beside a system, and what is asked of all.
type members struct {
	cfg    Config
	client *http.Client
	cpus   *process.Meter
	extra  map[string]int // processes of sinks, workers and the generator, by kind
	serial int            // of folders and of job sources
}

// Run measures what cfg asks for, one session after the other (scenarios.go). It writes every
// result into cfg.Out and a line of each to out. With an error it returns the results that came
// before.
func Run(ctx context.Context, cfg Config, out io.Writer) ([]*Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	b := newBench(cfg, out)
	defer b.client.CloseIdleConnections()
	for _, s := range sessions(b.cfg) {
		if err := b.hold(ctx, s); err != nil {
			return b.results, fmt.Errorf("protocol %s: %w", s.protocols, err)
		}
	}
	return b.results, nil
}

// newBench makes a bench that has measured nothing. The caller closes its client's connections.
func newBench(cfg Config, out io.Writer) *bench {
	dialer := &net.Dialer{Timeout: 3 * time.Second}
	return &bench{out: out, perS: importGuess, members: members{
		cfg: cfg.withDefaults(), cpus: process.NewMeter(process.CPU), extra: map[string]int{"load": os.Getpid()},
		client: &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 512, MaxIdleConns: 0}},
	}}
}

// hold holds a session: it starts the system, warms it up, measures and stops it.
func (b *bench) hold(ctx context.Context, s session) (err error) {
	if s.alone != nil {
		return s.alone(ctx, b)
	}
	if s.prepare != nil {
		var undo func() error
		if undo, err = s.prepare(b); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, undo()) }()
	}
	spec := b.cfg.Cluster
	if s.nodes > 0 {
		spec.Nodes = s.nodes
	}
	return b.with(ctx, spec, s.layout, s.noop, func(sys system) error {
		if s.warm != "" {
			if err := b.warm(ctx, sys, s.warm); err != nil {
				return err
			}
		}
		for _, measure := range s.steps {
			if err := measure(ctx, b, sys); err != nil {
				return err
			}
		}
		return nil
	})
}

// with starts a system, lets do use it and stops it. A system that failed leaves its folder.
func (b *bench) with(ctx context.Context, spec cluster.Spec, l layout, noop bool, do func(system) error) (err error) {
	b.serial++
	dir := filepath.Join(b.cfg.Dir, fmt.Sprintf("system-%d", b.serial))
	b.cfg.Log.Info("starting", "system", b.cfg.System)
	var sys system
	if b.cfg.System == OnDev {
		sys, err = startDev(ctx, b.cfg.Carillon, dir, noop)
	} else {
		sys, err = startCluster(ctx, dir, spec, l, noop, b.cfg.Log)
	}
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, sys.close(ctx))
		if err == nil {
			err = os.RemoveAll(dir) // the data of many runs would fill the disk
		}
	}()
	return do(sys)
}

// result returns a Result with everything that is known before the measurement.
func (b *bench) result(ctx context.Context, sys system, protocol, variant string, t target, round int) *Result {
	r := &Result{
		Protocol: protocol, System: sys.name(), Variant: variant, Round: round, Began: time.Now().UTC(),
		Commit: process.Commit(ctx), Machine: process.Machine(), Command: b.cfg.Command,
		Settings: Settings{Target: string(t), Payload: b.cfg.Payload, Keyed: b.cfg.Keyed, Shards: 16, Durability: devDurability, Nodes: "all in one process"},
	}
	switch s := sys.(type) {
	case *clusterSystem:
		r.Settings.of(s.spec)
	case *regionsSystem:
		r.Settings.of(s.spec)
	}
	return r
}

// of fills in what a cluster says, or each region of one.
func (s *Settings) of(spec cluster.Spec) {
	var nodes []string
	for _, roles := range spec.Roles {
		nodes = append(nodes, strings.Join(roles, "+"))
	}
	s.Cassandra, s.NATS, s.Profile = spec.Cassandra, spec.NATS, string(spec.Profile)
	s.Nodes, s.Durability = strings.Join(nodes, ", "), durability(spec)
	if spec.Shards != 0 {
		s.Shards = spec.Shards
	}
}

// keep notes and writes a result.
func (b *bench) keep(r *Result) error {
	b.results = append(b.results, r)
	r.Peak, r.Pause = shape(r.Series)
	_, _ = fmt.Fprintln(b.out, r) // the terminal went away: the files stay
	return r.keep(b.cfg.Out)
}

// processes returns the pid of each member, sink and worker; 0 = it does not run.
func (b *members) processes(sys system) map[string]int {
	pids := sys.pids()
	maps.Copy(pids, b.extra)
	return pids
}

// cpu reads the CPU times of all processes, by member.
func (b *members) cpu(sys system) map[string]time.Duration { return b.cpus.Sample(b.processes(sys)) }

// byKind sums the CPU of members by kind.
func byKind(members map[string]time.Duration) map[string]time.Duration {
	sums := map[string]time.Duration{}
	for member, t := range members {
		sums[kindOf(member)] += t
	}
	return sums
}

// used notes the CPU between two readings, for each of n.
func (r *Result) used(from, to map[string]time.Duration, n int) {
	r.CPU, r.CPUOf = perRun(byKind(from), byKind(to), n), perRun(from, to, n)
}

// perRun returns the CPU between two readings, in µs for each of n. It leaves out who used none.
func perRun(from, to map[string]time.Duration, n int) map[string]float64 {
	each := map[string]float64{}
	for kind, t := range to {
		if used := t - from[kind]; used > 0 {
			each[kind] = float64(used.Microseconds()) / float64(n)
		}
	}
	return each
}

const (
	// importGuess is how many lines a second an import is expected to take before one was seen.
	importGuess = 8000
	// leadLeast lies between the start of an import and the first due instant, at least: rows that
	// are due sooner go another way. leadHerd is the same where all are due at one instant.
	leadLeast = 12 * time.Second
	leadHerd  = 30 * time.Second
	// An import is expected to take importFactor times as long as at the last one's rate.
	importFactor = 1.3
	leadMargin   = 8 * time.Second
)

// lead returns how long before the first due instant n lines are sent:
//
//	max(least, min(least, leadMargin) + factor × n / perS)
func (b *bench) lead(n int, perS, factor float64, least time.Duration) time.Duration {
	least = cmp.Or(b.cfg.Lead, least)
	return max(least, min(least, leadMargin)+time.Duration(float64(n)/perS*factor*float64(time.Second)))
}

// importLead is lead for an import.
func (b *bench) importLead(n int, least time.Duration) time.Duration {
	return b.lead(n, b.perS, importFactor, least)
}

// importStreams is how many imports share the lines.
const importStreams = 2

// progressEvery is how often the progress of an import is logged.
const progressEvery = 10 * time.Second

// load imports j and notes how fast.
func (b *bench) load(ctx context.Context, sys system, j jobs) (*Load, error) {
	var answered atomic.Int64
	stop := b.progress(ctx, "import", j.n, &answered)
	l, err := j.send(ctx, b.client, sys.intake(), importStreams, &answered)
	stop()
	if err != nil {
		return nil, err
	}
	b.perS = l.PerS
	b.cfg.Log.Info("imported", "lines", l.Lines, "lines_per_s", int(l.PerS), "resent", l.Resent)
	return &l, nil
}

// progress logs now and then how many of n are done, until stop is called.
func (b *bench) progress(ctx context.Context, what string, n int, done *atomic.Int64) (stop func()) {
	return wait.Every(ctx, progressEvery, func(context.Context) {
		b.cfg.Log.Info("under way", "what", what, "done", done.Load(), "of", n)
	})
}

const (
	// quietCPU is what an idle Cassandra uses at most, in cores.
	quietCPU = 0.35
	// quietLimit is how long that is waited for.
	quietLimit = 3 * time.Minute
)

// quiet waits until compactions and the like are over. A measurement must not pay for the one
// before.
func (b *bench) quiet(ctx context.Context, sys system) error {
	kind := "cassandra"
	if b.cfg.System == OnDev {
		kind = nodeKind
	}
	ok, err := wait.Poll(ctx, 0, time.Now().Add(quietLimit), func() (bool, error) {
		before, at := byKind(b.cpu(sys))[kind], time.Now()
		if err := wait.Until(ctx, at.Add(b.cfg.Quiet)); err != nil {
			return false, err
		}
		used := byKind(b.cpu(sys))[kind] - before
		return used.Seconds() < quietCPU*time.Since(at).Seconds(), nil
	})
	if err == nil && !ok {
		b.cfg.Log.Warn("it does not become quiet: measuring all the same")
	}
	return err
}
