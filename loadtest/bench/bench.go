package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/loadtest/process"
)

// stopTimeout bounds the end of everything that was started.
const stopTimeout = time.Minute

// bench is a series of measurements under way.
type bench struct {
	cfg     Config
	out     io.Writer
	client  *http.Client
	meter   *process.Meter
	extra   map[string]int // processes besides those of the system, by kind
	serial  int            // of folders and of job sources
	perS    float64        // lines that an import took a second, last
	results []*Result
}

// Run measures what cfg says, writes every result into cfg.Out and a line of each to out, and returns them all. With an error come
// those that were finished before.
func Run(ctx context.Context, cfg Config, out io.Writer) ([]*Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	b := newBench(cfg, out)
	defer b.client.CloseIdleConnections()
	for _, step := range []struct {
		protocols []string
		do        func(context.Context) error
	}{
		{[]string{"A"}, b.burnDowns},
		{[]string{"B", "C", "D"}, b.waves},
		{[]string{"E"}, b.kills},
		{[]string{"R"}, b.recurs},
		{[]string{"F"}, b.inFlights},
		{[]string{"H"}, b.harms},
		{[]string{"import", "api"}, b.intakes},
	} {
		if !slices.ContainsFunc(step.protocols, b.wanted) {
			continue
		}
		if err := step.do(ctx); err != nil {
			return b.results, fmt.Errorf("protocol %s: %w", strings.Join(step.protocols, ", "), err)
		}
	}
	return b.results, nil
}

// newBench makes a bench that has measured nothing. Its client's connections are to be closed.
func newBench(cfg Config, out io.Writer) *bench {
	return &bench{
		cfg: cfg.withDefaults(), out: out, meter: process.NewMeter(process.CPU),
		client: &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: 3 * time.Second}).DialContext, MaxIdleConnsPerHost: 512, MaxIdleConns: 0}},
		extra:  map[string]int{"load": os.Getpid()}, perS: importGuess,
	}
}

func (b *bench) wanted(protocol string) bool { return slices.Contains(b.cfg.Protocols, protocol) }

// with starts a system, lets do use it and stops it.
func (b *bench) with(ctx context.Context, l layout, noop bool, do func(system) error) (err error) {
	b.serial++
	dir := filepath.Join(b.cfg.Dir, fmt.Sprintf("system-%d", b.serial))
	b.cfg.Log.Info("starting", "system", b.cfg.System)
	var sys system
	if b.cfg.System == OnDev {
		sys, err = startDev(ctx, b.cfg.Carillon, dir, noop)
	} else {
		sys, err = startCluster(ctx, dir, b.cfg.Cluster, l, noop, b.cfg.Log)
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

// result returns a Result with what is known before.
func (b *bench) result(ctx context.Context, sys system, protocol, variant string, t target, round int) *Result {
	r := &Result{
		Protocol: protocol, System: sys.name(), Variant: variant, Round: round, Began: time.Now().UTC(),
		Commit: process.Commit(ctx), Machine: process.Machine(), Command: b.cfg.Command,
		Settings: Settings{Target: string(t), Payload: b.cfg.Payload, Keyed: b.cfg.Keyed, Shards: 16, Durability: devDurability, Nodes: "all in one process"},
	}
	if c, ok := sys.(*clusterSystem); ok {
		var nodes []string
		for _, roles := range c.spec.Roles {
			nodes = append(nodes, strings.Join(roles, "+"))
		}
		r.Settings.Cassandra, r.Settings.NATS, r.Settings.Profile = c.spec.Cassandra, c.spec.NATS, string(c.spec.Profile)
		r.Settings.Nodes, r.Settings.Durability = strings.Join(nodes, ", "), durability(c.spec)
		if c.spec.Shards != 0 {
			r.Settings.Shards = c.spec.Shards
		}
	}
	return r
}

// keep notes and writes a result.
func (b *bench) keep(r *Result) error {
	b.results = append(b.results, r)
	r.Peak, r.Pause = shape(r.Series)
	_, _ = fmt.Fprintln(b.out, r) // the terminal went away: the files stay
	return r.keep(b.cfg.Out)
}

// processes returns the process of each member and of what else works; 0 = there is none now.
func (b *bench) processes(sys system) map[string]int {
	pids := sys.pids()
	maps.Copy(pids, b.extra)
	return pids
}

// cpu reads the CPU times of all processes, by member.
func (b *bench) cpu(sys system) map[string]time.Duration { return b.meter.Sample(b.processes(sys)) }

// byKind sums what members used.
func byKind(members map[string]time.Duration) map[string]time.Duration {
	sums := map[string]time.Duration{}
	for member, t := range members {
		sums[kindOf(member)] += t
	}
	return sums
}

// used notes what was used between two readings, for each of n.
func (r *Result) used(from, to map[string]time.Duration, n int) {
	r.CPU, r.CPUOf = perRun(byKind(from), byKind(to), n), perRun(from, to, n)
}

// perRun returns what was used between two readings, in µs for each of n; who used nothing is left out.
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
	// importGuess is how many lines an import may take a second before one was seen.
	importGuess = 8000
	// leadLeast is from the start of an import to the first due instant at least: rows due sooner go another way.
	leadLeast = 12 * time.Second
	// leadHerd is the same where all are due at once.
	leadHerd = 30 * time.Second
	// An import is expected to take leadFactor times as long as the last one did, and to leave leadMargin.
	leadFactor = 1.3
	leadMargin = 8 * time.Second
)

// lead returns how long before the first due instant an import of n lines starts, least at least.
func (b *bench) lead(n int, least time.Duration) time.Duration {
	if b.cfg.Lead > 0 {
		least = b.cfg.Lead
	}
	return max(least, min(least, leadMargin)+time.Duration(float64(n)/b.perS*leadFactor*float64(time.Second)))
}

// tellEvery is how often the progress of an import is told.
const tellEvery = 10 * time.Second

// load imports j and notes how fast.
func (b *bench) load(ctx context.Context, sys system, j jobs) (*Load, error) {
	var answered atomic.Int64
	stop := b.tell(ctx, "import", j.n, &answered)
	l, err := j.send(ctx, b.client, sys.intake(), b.cfg.Streams, &answered)
	stop()
	if err != nil {
		return nil, err
	}
	b.perS = l.PerS
	b.cfg.Log.Info("imported", "lines", l.Lines, "lines_per_s", int(l.PerS), "resent", l.Resent)
	return &l, nil
}

// tell logs now and then how many of n are done, until stop is called.
func (b *bench) tell(ctx context.Context, what string, n int, done *atomic.Int64) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(tellEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				b.cfg.Log.Info("under way", "what", what, "done", done.Load(), "of", n)
			}
		}
	}()
	return func() { cancel(); <-ended }
}

const (
	// quietCPU is what Cassandra uses at most, of one core, when it has nothing left to do.
	quietCPU = 0.35
	// quietLimit is how long that is waited for.
	quietLimit = 3 * time.Minute
)

// quiet waits until compactions and the like are over, so that a measurement does not pay for what came before.
func (b *bench) quiet(ctx context.Context, sys system) error {
	kind := "cassandra"
	if b.cfg.System == OnDev {
		kind = nodeKind
	}
	for limit := time.Now().Add(quietLimit); time.Now().Before(limit); {
		before, at := byKind(b.cpu(sys))[kind], time.Now()
		if err := sleepUntil(ctx, at.Add(b.cfg.Quiet)); err != nil {
			return err
		}
		if used := byKind(b.cpu(sys))[kind] - before; used.Seconds() < quietCPU*time.Since(at).Seconds() {
			return nil
		}
	}
	b.cfg.Log.Warn("it does not become quiet: measuring all the same")
	return nil
}
