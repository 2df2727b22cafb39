package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/wait"
)

const (
	// regionsProtocol is C in a region that shares its keyspace with another one, and in a region
	// that knows of no other; its variants are the halves of a pair.
	regionsProtocol             = "regions"
	singleRegion, sharedRegions = "single", "shared"

	// servingRegion is the region whose runs are measured.
	servingRegion = "eu"
	// regionsApart is how long a packet takes between regions.
	regionsApart = 40 * time.Millisecond
	// idleFor is how long both systems are measured at rest.
	idleFor = 20 * time.Second
)

// A RegionCost is what the runs of one region cost beside CPU.Own: their import counts, and what is
// used at rest does not.
type RegionCost struct {
	// Whole is the CPU of a run with its import, in µs, by kind of process. Those of other regions
	// have the region before it ("us/cassandra"): they are their share.
	Whole map[string]float64 `json:"cpu_us_per_run_with_import"`
	// Bytes are those that a link carried for a run, as frames of Ethernet, by "eu to us".
	Bytes map[string]float64 `json:"link_bytes_per_run,omitempty"`
	// Statements are what Cassandra did for a run, by region and kind of statement ("eu coordinator
	// write", "us local write"). A local one is of a node that has a copy.
	Statements map[string]float64 `json:"statements_per_run"`
	// At rest: cores by kind of process, and bytes a second by link.
	IdleCores map[string]float64 `json:"idle_cores"`
	IdleBytes map[string]float64 `json:"idle_link_bytes_per_s,omitempty"`
}

// regionPairs is the protocol: one session, whose two systems are up side by side, and are measured
// in turn.
func regionPairs(Config) []session { return []session{{alone: measureRegions}} }

// measureRegions measures rounds of two halves, of which now the one and now the other comes first.
func measureRegions(ctx context.Context, b *bench) (err error) {
	var both []*regionsSystem
	defer func() {
		for _, sys := range both {
			err = errors.Join(err, sys.end(ctx))
		}
	}()
	for _, variant := range []string{singleRegion, sharedRegions} {
		b.serial++
		sys, failed := startRegions(ctx, b, filepath.Join(b.cfg.Dir, fmt.Sprintf("system-%d", b.serial)), variant)
		if failed != nil {
			return failed
		}
		both = append(both, sys)
	}
	for _, sys := range both {
		if err := b.warm(ctx, sys, httpTarget); err != nil {
			return err
		}
	}
	for _, sys := range both {
		if err := b.quiet(ctx, sys); err != nil {
			return err
		}
		if err := sys.measureRest(ctx, b); err != nil {
			return err
		}
	}
	for round := 1; round <= b.cfg.Rounds; round++ {
		for _, sys := range inTurn(both, round) {
			if err := sys.measure(ctx, b, round); err != nil {
				return err
			}
		}
	}
	return nil
}

// inTurn returns a pair in the order of a round: every second one is turned.
func inTurn[T any](pair []T, round int) []T {
	pair = slices.Clone(pair)
	if round%2 == 0 {
		slices.Reverse(pair)
	}
	return pair
}

// A regionsSystem is a cluster of two regions, of which servingRegion is measured.
type regionsSystem struct {
	dir     string
	variant string
	regions *cluster.Regions
	spec    cluster.Spec // of each region
	atRest  usage        // a second of what is used at rest
}

// startRegions starts a half. Both halves have their members in namespaces of regions, and as many
// shards that servingRegion serves. Only in the shared one do the regions know of each other.
func startRegions(ctx context.Context, b *bench, dir, variant string) (*regionsSystem, error) {
	if err := os.Setenv(noopEnv, strconv.FormatBool(false)); err != nil {
		return nil, fmt.Errorf("start regions: %w", err)
	}
	spec := regionsSpec(b.cfg.Cluster, variant)
	b.cfg.Log.Info("starting regions", "variant", variant)
	r, err := cluster.UpRegions(ctx, cluster.Options{
		Dir: dir, Attached: true, Say: func(line string) { b.cfg.Log.Debug("cluster", "says", line) },
	}, spec)
	if err != nil {
		return nil, fmt.Errorf("start regions: %w", err)
	}
	return &regionsSystem{dir: dir, variant: variant, regions: r, spec: spec.Each}, nil
}

// regionsSpec describes a half.
func regionsSpec(each cluster.Spec, variant string) cluster.RegionsSpec {
	const regions = 2
	if each.Shards == 0 {
		each.Shards = defaultShards
	}
	each.Roles = together.roles(each.Nodes)
	spec := cluster.RegionsSpec{Regions: regions, Each: each, Delay: regionsApart, OneKeyspace: variant == sharedRegions}
	if spec.OneKeyspace {
		spec.Each.Shards *= regions // each home has its part
	} else {
		spec.NoWitness = true
	}
	return spec
}

// defaultShards is how many shards a keyspace has if nothing is said.
const defaultShards = 16

// end stops the system. One that failed to leaves its folder.
func (s *regionsSystem) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := s.close(ctx); err != nil {
		return err
	}
	return os.RemoveAll(s.dir)
}

// serving is the cluster of the region that is measured.
func (s *regionsSystem) serving() *cluster.Cluster { return s.regions.Region(servingRegion) }

func (s *regionsSystem) name() string { return "carillon" }

func (s *regionsSystem) intake() []string { return s.serving().APIs() }

func (s *regionsSystem) nodes() []string { return s.serving().APIs() }

func (s *regionsSystem) profiles() []string { return nil }

// pids names the members of the serving region as those of other systems, and others by their
// region.
func (s *regionsSystem) pids() map[string]int {
	all := map[string]int{}
	for _, name := range s.regions.Names() {
		for member, pid := range s.regions.Region(name).Status().PIDs() {
			if name != servingRegion {
				member = name + "/" + member
			}
			all[member] = pid
		}
	}
	return all
}

func (s *regionsSystem) rest(context.Context) error { return nil }

func (s *regionsSystem) work(context.Context) error { return nil }

func (s *regionsSystem) kill(context.Context) (string, error) {
	return "", errors.New("nothing is killed in a bench of regions")
}

func (s *regionsSystem) close(ctx context.Context) error { return s.regions.Close(ctx) }

// sinkArgs has a sink listen where a system reaches it.
func sinkArgs(sys system) []string {
	if s, ok := sys.(*regionsSystem); ok {
		return []string{"--listen", net.JoinHostPort(s.serving().Host(), "0")}
	}
	return nil
}

// A usage is what a system has used up to an instant, or within a span.
type usage struct {
	at         time.Time
	cpu        map[string]float64 // seconds, by kind of process
	bytes      map[string]float64 // by link
	statements map[string]float64 // by region and kind
}

// less returns what was used between two instants, and how many seconds that took.
func (u usage) less(from usage) (of usage, seconds float64) {
	diff := func(now, was map[string]float64) map[string]float64 {
		all := map[string]float64{}
		for key, v := range now {
			all[key] = v - was[key]
		}
		return all
	}
	return usage{cpu: diff(u.cpu, from.cpu), bytes: diff(u.bytes, from.bytes), statements: diff(u.statements, from.statements)}, u.at.Sub(from.at).Seconds()
}

// scaled multiplies everything.
func (u usage) scaled(by float64) usage {
	times := func(of map[string]float64) map[string]float64 {
		all := map[string]float64{}
		for key, v := range of {
			all[key] = v * by
		}
		return all
	}
	return usage{cpu: times(u.cpu), bytes: times(u.bytes), statements: times(u.statements)}
}

// costOf returns what each of n runs has cost within a span, over what would have been used at
// rest. rest is what is used in a second. A witness and a link of which rest is all cost nothing.
func costOf(spent usage, seconds float64, rest usage, n int) *RegionCost {
	each, _ := spent.less(rest.scaled(seconds))
	each = each.scaled(1 / float64(n))
	whole := map[string]float64{}
	for kind, s := range each.cpu {
		whole[kind] = 1e6 * s
	}
	return &RegionCost{Whole: whole, Bytes: each.bytes, Statements: each.statements, IdleCores: rest.cpu, IdleBytes: rest.bytes}
}

// used reads what the system has used so far.
func (s *regionsSystem) used(ctx context.Context, b *bench) (u usage, err error) {
	u = usage{at: time.Now(), cpu: map[string]float64{}, bytes: map[string]float64{}}
	for kind, d := range byKind(b.cpu(s)) {
		u.cpu[kind] = d.Seconds()
	}
	links, err := s.regions.Control().Links(ctx)
	if err != nil {
		return u, err
	}
	for _, l := range links {
		u.bytes[l.From+" to "+l.To] = float64(l.Bytes)
	}
	u.statements, err = s.statements(ctx)
	return u, err
}

// statementTables are the virtual tables of Cassandra that count statements, by what they count.
var statementTables = map[string]string{
	"coordinator write": "coordinator_write_latency", "coordinator read": "coordinator_read_latency",
	"local write": "local_write_latency", "local read": "local_read_latency", "local scan": "local_scan_latency",
}

// statements returns how many statements about Carillon's keyspaces the nodes of each region have
// coordinated, or done on their own copies, since they started.
func (s *regionsSystem) statements(ctx context.Context) (map[string]float64, error) {
	all := map[string]float64{}
	for _, region := range s.regions.Names() {
		c := s.regions.Region(region)
		for kind, table := range statementTables {
			for _, node := range c.CQL() {
				err := c.EachRowOf(ctx, node, "SELECT keyspace_name, count FROM system_views."+table, func(row [][]byte) error {
					if len(row[1]) == 8 && strings.HasPrefix(string(row[0]), "carillon") {
						all[region+" "+kind] += float64(binary.BigEndian.Uint64(row[1]))
					}
					return nil
				})
				if err != nil {
					return nil, fmt.Errorf("statements of %s: %w", region, err)
				}
			}
		}
	}
	return all, nil
}

// measureRest measures the system while nothing runs.
func (s *regionsSystem) measureRest(ctx context.Context, b *bench) error {
	from, err := s.used(ctx, b)
	if err != nil {
		return err
	}
	if err := wait.For(ctx, idleFor); err != nil {
		return err
	}
	to, err := s.used(ctx, b)
	if err != nil {
		return err
	}
	spent, seconds := to.less(from)
	s.atRest = spent.scaled(1 / seconds)
	return nil
}

// measure measures a half of a round.
func (s *regionsSystem) measure(ctx context.Context, b *bench, round int) error {
	w := b.cfg.stream(regionsProtocol, b.cfg.Rates[0], 0, round)
	w.variant = s.variant
	from, err := s.used(ctx, b)
	if err != nil {
		return err
	}
	r, err := b.run(ctx, s, w)
	if err != nil {
		return err
	}
	to, err := s.used(ctx, b)
	if err != nil {
		return err
	}
	spent, seconds := to.less(from)
	r.Regions = costOf(spent, seconds, s.atRest, r.N)
	return b.keep(r)
}
