package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/schematest"
)

const (
	// detection is how long the ring takes to notice that a member is gone.
	detection = 2500 * time.Millisecond
	// gossipDelay is how long news of a member takes to reach all others.
	gossipDelay = 200 * time.Millisecond
)

// Faults are probabilities of faults, of each call or message.
type Faults struct {
	Store   float64 // each of: fail, lose the answer, apply late, delay
	Message float64 // each of: drop, double, delay
	Target  float64 // the callee answers with an error
	// Crash is for each of: the node dies before, or right after, a step of an attempt. It
	// restarts.
	Crash float64
}

// Cluster is a few nodes over one store and one broker; or two regions, each with its own.
type Cluster struct {
	shards    int
	quota     int           // how many runs of a tenant may be under way at once; 0 = any number
	states    bool          // the tenant states something: its nodes read it
	works     time.Duration // how long a call takes at most; 0 = some 30 ms
	away      time.Duration // how long a node that was killed or crashed is away at most
	lateFrom  time.Duration // how late a write is applied at least that was reported as failed …
	lateBy    time.Duration // … and at most
	slews     bool          // clocks may be slewed
	slots     int           // of each node
	coLocated bool          // the machines of the nodes are the hosts that serve the store and the queue
	sites     []*site
	store     *embedded.Store // of the first site
	broker    *inproc.Broker  // of the first site
	regions   *regions        // nil: there are none
	log       *slog.Logger

	mu     sync.Mutex
	rng    *rand.Rand
	faults Faults
	seen   []check.Sighting
	kills  []check.Kill
	wrong  []string // broken rules
	nodes  []*Node
	lives  int
	counts []*prometheus.Registry // the metrics of each life

	processes map[string]*life // by the name under which the sink knows them
	overheard map[int]bool     // the lines of jobs whose payloads were clear in messages

	crashed map[string]int // how often nodes crashed around each step
	crashes sync.WaitGroup // nodes that are on their way down and up again
}

// New makes a cluster of n stopped nodes. Rows stay for the retention (0: the default). It must be
// closed in the bubble in which it was made.
func New(seed uint64, n, shards int, retention time.Duration, log *slog.Logger) (*Cluster, error) {
	return newCluster(seed, []string{""}, n, shards, retention, log)
}

// newCluster makes a cluster of n stopped nodes in each region.
func newCluster(seed uint64, in []string, n, shards int, retention time.Duration, log *slog.Logger) (*Cluster, error) {
	c := &Cluster{
		shards: shards, slots: 64, away: 30 * time.Second, lateBy: 8 * time.Second, log: log, rng: rand.New(rand.NewPCG(seed, 1)),
		crashed: make(map[string]int), overheard: make(map[int]bool), processes: make(map[string]*life),
	}
	for _, region := range in {
		s, err := c.newSite(region, len(in) > 1, retention)
		if err != nil {
			return nil, err
		}
		c.sites = append(c.sites, s)
		for i := range n {
			c.nodes = append(c.nodes, &Node{c: c, at: s, name: fmt.Sprintf("%sn%d", region, i+1), machine: machine{began: time.Now(), since: time.Now()}})
		}
	}
	c.store, c.broker = c.sites[0].store, c.sites[0].broker
	return c, nil
}

// Close stops what runs.
func (c *Cluster) Close() error {
	c.SetFaults(Faults{})
	c.crashes.Wait()
	for _, n := range c.nodes {
		n.Thaw()
		n.Kill()
	}
	var faults []error
	for _, s := range c.sites {
		if s.to != nil {
			s.to.close()
		}
	}
	for _, s := range c.sites {
		s.broker.Close()
		faults = append(faults, s.store.Close())
	}
	return errors.Join(append(faults, c.regions.close())...)
}

// SetFaults sets what goes wrong from now on.
func (c *Cluster) SetFaults(f Faults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = f
}

// chance draws one of the given number of kinds of fault, each with probability p; -1 = none.
func (c *Cluster) chance(p func(Faults) float64, kinds int) (kind int, draw float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.rng.Float64()
	each := p(c.faults)
	if each <= 0 || x >= each*float64(kinds) {
		return -1, 0
	}
	return int(x / each), c.rng.Float64()
}

func (c *Cluster) messageFault(e inproc.Event) inproc.Verdict {
	if c.crashAround(e) {
		return inproc.Verdict{Drop: true}
	}
	c.mu.Lock()
	n := c.node(e.Conn)
	lost := n != nil && n.loses(e.Point)
	c.mu.Unlock()
	if lost {
		return inproc.Verdict{Drop: true}
	}
	switch kind, draw := c.chance(func(f Faults) float64 { return f.Message }, 3); kind {
	case 0:
		return inproc.Verdict{Drop: true}
	case 1:
		return inproc.Verdict{Double: true}
	case 2:
		return inproc.Verdict{Delay: time.Duration(draw * float64(6*time.Second))}
	}
	return inproc.Verdict{}
}

func (c *Cluster) storeFault() schematest.Fault {
	switch kind, draw := c.chance(func(f Faults) float64 { return f.Store }, 5); kind {
	case 0:
		return schematest.Fault{Fail: true}
	case 1:
		return schematest.Fault{Lose: true}
	case 2:
		return schematest.Fault{Late: c.lateFrom + time.Duration(draw*float64(c.lateBy-c.lateFrom))}
	case 3:
		return schematest.Fault{Delay: time.Duration(draw * float64(8*time.Second))}
	case 4:
		return schematest.Fault{Tear: true}
	}
	return schematest.Fault{}
}

// members returns the running nodes of a region, frozen ones too.
func (c *Cluster) members(of *site) []ring.Member {
	var ms []ring.Member
	for _, n := range c.nodes {
		if n.up && n.at == of {
			ms = append(ms, n.known())
		}
	}
	return ms
}

// gather returns the metrics of all lives so far.
func (c *Cluster) gather() (all gathered, err error) {
	c.mu.Lock()
	lives := slices.Clone(c.counts)
	c.mu.Unlock()
	for _, life := range lives {
		families, err := life.Gather()
		if err != nil {
			return nil, fmt.Errorf("gather: %w", err)
		}
		all = append(all, families...)
	}
	return all, nil
}

// gathered are the metrics of several lives.
type gathered []*dto.MetricFamily

// sum returns the sum of a counter; with a value, only of series that have it as a label.
func (all gathered) sum(name, value string) (sum float64, err error) {
	found := false
	for _, f := range all {
		if f.GetName() != name {
			continue
		}
		found = true
		for _, m := range f.GetMetric() {
			if value == "" || slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == value }) {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	if !found {
		return 0, fmt.Errorf("nobody counts %s", name)
	}
	return sum, nil
}

// fault records a broken rule.
func (c *Cluster) fault(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// gossip updates the view of every member that can hear it, after a delay. Frozen members keep
// their view.
func (c *Cluster) gossip(after time.Duration) {
	time.AfterFunc(after, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		var there []ring.Member
		for _, s := range c.sites {
			for _, m := range c.members(s) {
				if n := c.node(m.Name); n.frozen == nil || time.Since(n.frozenAt) < detection {
					there = append(there, m)
				}
			}
		}
		for _, n := range c.nodes {
			if n.up && n.frozen == nil {
				heard := slices.DeleteFunc(slices.Clone(there), func(m ring.Member) bool { return !n.hears(c.node(m.Name)) })
				_ = n.view.Set(heard, nil, c.shards) // same names as before
			}
		}
	})
}

func (c *Cluster) node(name string) *Node {
	for _, n := range c.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// TestAProcessMayStartWhileItsPredecessorEnds: an attempt is under way when a process is killed, so
// its end takes a second. Kill must wait for that process only, and not for one that starts
// meanwhile.
func TestAProcessMayStartWhileItsPredecessorEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(1, 1, 1, 0, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		n := c.nodes[0]
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		job := bucketer.Job{Tenant: "default", BodyHash: "1", Work: &schema.Work{
			// it lasts
			HTTP: &schema.HTTPTarget{URL: "http://sink/sim/1"}, Timeout: schema.Duration(1000 * time.Hour),
		}}
		if _, err := n.bucketer.Submit(context.Background(), job); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if got := n.executor.Running(); got != 1 {
			t.Fatalf("%d messages in hand, want 1", got)
		}
		ended := make(chan struct{})
		began := time.Now()
		go func() {
			n.Kill()
			close(ended)
		}()
		time.Sleep(100 * time.Millisecond)
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ended:
			if took := time.Since(began); took < 500*time.Millisecond {
				t.Errorf("Kill took %v: nothing was left to end, and the test shows nothing", took)
			}
		case <-time.After(time.Minute):
			t.Error("Kill still waits after a minute, want it to wait for its own process alone")
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// lone returns a cluster of one node with four shards, which has run for a minute.
func lone(t *testing.T) (*Cluster, *Node) {
	t.Helper()
	c, err := New(1, 1, 4, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	n := c.nodes[0]
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	return c, n
}

// submit hands jobs to n, due 20 ms apart from first on.
func submit(t *testing.T, n *Node, jobs int, first time.Time) {
	t.Helper()
	batch := make([]bucketer.Job, jobs)
	for i := range batch {
		batch[i] = bucketer.Job{
			Tenant: "default", At: first.Add(time.Duration(i) * 20 * time.Millisecond),
			Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: fmt.Sprintf("http://sink/sim/%d", i+1)}},
		}
	}
	n.bucketer.SubmitBatch(context.Background(), batch, func(i int, _ bucketer.Receipt, err error) {
		if err != nil {
			t.Errorf("SubmitBatch: job %d: %v", i, err)
		}
	})
}
