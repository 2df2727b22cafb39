package bench

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/flow"
	"carillon.dev/carillon/schema"
)

// Protocols are all that there are, in the order in which they are done.
var Protocols = []string{"A", "B", "C", "D", "E", "R", "F", "H", "W", "import", "api", consolesProtocol, pagesProtocol}

// RootProtocols are further ones, which need root, and which no suite has.
var RootProtocols = []string{regionsProtocol}

// The systems that can be measured.
const (
	OnCluster = "cluster" // Cassandra, NATS and nodes of its own
	OnDev     = "dev"     // carillon dev
)

// Config says what is measured, and on which system.
type Config struct {
	Protocols []string
	System    string
	// Targets of A, B and F: http, nats or noop; F also has h2 and not noop. The other protocols
	// call the sink.
	Targets []string
	// Outage also measures A where all that works starts after all runs are overdue.
	Outage bool
	N      int // jobs of A, B, D's B, F, import
	// of C, a second; D, E, R, consoles and regions take the first, and H, of the tenant that is
	// watched
	Rates []int
	Span  time.Duration // of C, D, E, R, H, consoles and regions, and of pace in W
	// Every is the interval of the jobs of R, of which rate × Every are created. Default 10 s; Span
	// must be a multiple of it.
	Every time.Duration
	// Jobs is how many recurring jobs R imports before, which run once a day; 0 = none. OnHour is
	// the share of them that is due at one instant. Default a tenth.
	Jobs   int
	OnHour float64
	// InProcess has the runs of R call an in-process handler instead of the sink.
	InProcess bool
	// Mend is for how long R watches, while nothing runs, how jobs without a next run are looked
	// for. Default a minute.
	Mend time.Duration
	// Resident rows of D, ascending. The others are compared with the first, usually 0. pages takes the
	// last.
	Resident []int
	// Consoles is how many consoles are open. Default 10.
	Consoles int
	// Hold is how long each call of F is held, and Ramp the span over which the calls begin.
	// Default a minute and 30 s.
	Hold, Ramp time.Duration
	// Beside is how many new runs fall due while F's are in flight, BesideRate a second. Default
	// 2,000 and 200.
	Beside, BesideRate int
	// Harm is what the other tenant's targets in H do, one after the other. Default fail, hang,
	// drip.
	Harm []string
	// HarmRate is how many runs a second the other tenant in H has, HarmTimeout their time-out.
	// Default the first rate and 5 s.
	HarmRate    int
	HarmTimeout time.Duration
	// Workflows are the parts of W: pace, chains, fanout, subscribers. Default all.
	Workflows []string
	// Pace is the rate of pace, in steps a second, over Span. Default 200.
	Pace int
	// Chains is how many runs chains has, and Open how many of them are open at once. Default 20,000
	// and 2,000.
	Chains, Open int
	// Items is how many items fanout has, and subscribers of jobs. Default 10,000, the most that a
	// step may have.
	Items int
	// Cluster is the cluster. Nodes counts those that dispatch and execute; the protocol sets their
	// roles.
	Cluster cluster.Spec
	Rounds  int

	Payload int  // bytes of each payload, but for protocol import; 0 = none
	Keyed   bool // jobs have idempotency keys
	// Wait is how long runs may take to begin after the last due instant; default 2 min.
	Wait time.Duration
	// Lead lies between the start of an import and the first due instant, at least. Default 12 s,
	// and 30 s where all runs are due at one instant.
	Lead time.Duration
	// Warm is how many runs at one instant warm the system up. Default 100,000, and 20,000 in
	// carillon dev; negative = none. A new JVM spends a sixth of two cores on compiling during the
	// first 100,000 runs.
	Warm int
	// Quiet is how long the store must have been idle before a measurement. Default 3 s.
	Quiet time.Duration

	// Flames has the nodes profile their CPU during each measurement, and flame graphs drawn.
	Flames bool

	Program  string // carillon-load, for sinks and workers
	Carillon string // carillon, for OnDev
	Dir      string // for everything that is gone after
	Out      string // for results and plots
	Command  string
	Log      *slog.Logger
}

// importPayload is the payload of protocol import, as the goal says.
const importPayload = 200

// withDefaults returns c with the defaults filled in.
func (c Config) withDefaults() Config {
	if c.System == "" {
		c.System = OnCluster
	}
	if len(c.Targets) == 0 {
		c.Targets = []string{string(noopTarget)}
	}
	if c.N == 0 {
		c.N = 100_000
	}
	if len(c.Rates) == 0 {
		c.Rates = []int{2000}
	}
	if c.Span == 0 {
		c.Span = time.Minute
	}
	for _, n := range []struct {
		field *int
		value int
	}{{&c.Beside, 2000}, {&c.BesideRate, 200}, {&c.HarmRate, c.Rates[0]}, {&c.Pace, 200}, {&c.Chains, 20_000}, {&c.Open, 2000}, {&c.Items, schema.MaxItems}, {&c.Consoles, consolesOpen}} {
		if *n.field == 0 {
			*n.field = n.value
		}
	}
	if c.Warm == 0 {
		c.Warm = 100_000
		if c.System == OnDev { // nothing compiles there
			c.Warm = 20_000
		}
	}
	if len(c.Harm) == 0 {
		c.Harm = harmKinds
	}
	if len(c.Workflows) == 0 {
		c.Workflows = workflowParts
	}
	if len(c.Resident) == 0 {
		c.Resident = []int{0, 1_000_000}
	}
	if c.Rounds == 0 {
		c.Rounds = 1
	}
	if c.OnHour == 0 {
		c.OnHour = 0.1
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&c.Wait, 2 * time.Minute}, {&c.Every, 10 * time.Second}, {&c.Quiet, 3 * time.Second}, {&c.Mend, time.Minute}, {&c.Hold, time.Minute}, {&c.Ramp, 30 * time.Second}, {&c.HarmTimeout, 5 * time.Second}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// targets are those of A, B and F.
func (c Config) targets() []target {
	all := make([]target, len(c.Targets))
	for i, t := range c.Targets {
		all[i] = target(t)
	}
	return all
}

// Validate reports every fault of c together.
func (c Config) Validate() error {
	c = c.withDefaults()
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(c.Protocols) == 0 {
		fault("no protocol is named")
	}
	for _, p := range c.Protocols {
		if all := slices.Concat(Protocols, RootProtocols); !slices.Contains(all, p) {
			fault("protocol is %q, want some of %q", p, all)
		}
	}
	for _, t := range c.Targets {
		onlyF := len(c.Protocols) == 1 && c.Protocols[0] == "F"
		switch {
		case target(t) == h2Target && !onlyF:
			fault("target is %q, which is of protocol F alone", t)
		case !slices.Contains([]target{httpTarget, natsTarget, noopTarget, h2Target}, target(t)):
			fault("target is %q, want http, nats or noop, or of F alone h2", t)
		case target(t) == noopTarget && onlyF:
			fault("target noop is never in flight: F needs http, h2 or nats")
		}
	}
	for name, n := range map[string]int{"n": c.N, "rounds": c.Rounds, "beside": c.Beside, "beside rate": c.BesideRate, "harm rate": c.HarmRate, "pace": c.Pace, "chains": c.Chains, "open": c.Open, "items": c.Items, "consoles": c.Consoles} {
		if n < 1 {
			fault("%s is %d, want it positive", name, n)
		}
	}
	for _, r := range c.Rates {
		if r < 1 {
			fault("rate is %d, want it positive", r)
		}
	}
	if !slices.IsSorted(c.Resident) || c.Resident[0] < 0 {
		fault("resident rows are %v, want them in ascending order: rows are added, not removed", c.Resident)
	}
	if slices.Contains(c.Protocols, pagesProtocol) && c.Resident[len(c.Resident)-1] < 1 {
		fault("resident rows are %v, want some for pages", c.Resident)
	}
	if c.Span < time.Second || c.Wait < time.Second {
		fault("span is %s and wait %s, want at least a second", c.Span, c.Wait)
	}
	if slices.Contains(c.Protocols, "R") && (c.Every < time.Second || c.Every%time.Second != 0 || c.Span%c.Every != 0) {
		fault("every is %s and span %s, want whole seconds, and the one a multiple of the other", c.Every, c.Span)
	}
	if c.Mend < time.Second {
		fault("mend is %s, want at least a second", c.Mend)
	}
	if c.Jobs < 0 || c.OnHour < 0 || c.OnHour > 1 {
		fault("jobs is %d and the share on the hour %g, want it positive and the share at most 1", c.Jobs, c.OnHour)
	}
	if slices.Contains(c.Protocols, "F") {
		c.faultsOfFlight(fault)
	}
	for _, kind := range c.Harm {
		if !slices.Contains(allHarms, kind) {
			fault("harm is %q, want some of %q", kind, allHarms)
		}
	}
	for _, part := range c.Workflows {
		if !slices.Contains(workflowParts, part) {
			fault("part of W is %q, want some of %q", part, workflowParts)
		}
	}
	if c.Items > schema.MaxItems {
		fault("items is %d, want at most %d", c.Items, schema.MaxItems)
	}
	if slices.Contains(c.Protocols, "W") && slices.Contains(c.Workflows, pacePart) && float64(c.Pace)*c.Span.Seconds() < flow.ChainSteps {
		fault("pace is %d steps a second over %s, want at least the %d of a chain", c.Pace, c.Span, flow.ChainSteps)
	}
	if slices.Contains(c.Protocols, "H") && c.HarmTimeout < time.Second {
		fault("harm time-out is %s, want at least a second", c.HarmTimeout)
	}
	if c.Lead < 0 || c.Quiet < 0 {
		fault("lead is %s and quiet %s, want them positive", c.Lead, c.Quiet)
	}
	if c.Dir == "" || c.Out == "" || c.Program == "" {
		fault("dir, out and program must be given")
	}
	switch c.System {
	case OnCluster:
		if c.Cluster.Cassandra < 1 || c.Cluster.NATS < 1 || c.Cluster.Nodes < 1 {
			fault("cluster: at least one each of Cassandra, NATS and Carillon is needed, asked for are %d, %d, %d",
				c.Cluster.Cassandra, c.Cluster.NATS, c.Cluster.Nodes)
		}
		faults = append(faults, c.Cluster.Validate())
	case OnDev:
		if c.Carillon == "" {
			fault("the program carillon must be given")
		}
		if slices.Contains(c.Protocols, regionsProtocol) {
			fault("regions need a cluster: carillon dev has none")
		}
		if slices.Contains(c.Protocols, "E") {
			fault("protocol E needs a cluster: carillon dev has no second dispatcher")
		}
		if slices.Contains(c.Protocols, "F") && c.N > devSlots {
			fault("n is %d, want at most %d for F on carillon dev, which has a fixed number of slots", c.N, devSlots)
		}
		if slices.Contains(c.Targets, string(natsTarget)) {
			fault("target nats needs a cluster: the NATS of carillon dev is not reachable")
		}
	default:
		fault("system is %q, want %q or %q", c.System, OnCluster, OnDev)
	}
	return errors.Join(faults...)
}

// faultsOfFlight reports why not all calls of F would be in flight at once, with others beside
// them.
func (c Config) faultsOfFlight(fault func(format string, args ...any)) {
	if c.Ramp < time.Second {
		fault("ramp is %s, want at least a second", c.Ramp)
	}
	beside := time.Duration(float64(c.Beside) / float64(max(c.BesideRate, 1)) * float64(time.Second))
	if least := c.Ramp + settleFor + readFor(c.N) + beside + flightMargin; c.Hold < least {
		fault("hold is %s, want at least %s: the calls begin over %s and are read, and runs beside them fall due over %s", c.Hold, least, c.Ramp, beside)
	}
}
