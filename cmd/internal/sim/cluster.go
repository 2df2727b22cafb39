package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/executor"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/schematest"
)

const (
	// detection is how long the ring takes to notice that a member is gone.
	detection = 2500 * time.Millisecond
	// gossip is how long it takes until all have heard what a member tells.
	gossip = 200 * time.Millisecond
)

// Faults says how likely what goes wrong is, of one call or one message.
type Faults struct {
	Store   float64 // each of: fail, lose the answer, apply late, delay
	Message float64 // each of: drop, double, delay
	Target  float64 // the callee answers with an error
	Crash   float64 // each of: the node dies before, or right after, a step of an attempt; it comes back
}

// Cluster is a few nodes over one store and one broker.
type Cluster struct {
	shards int
	away   time.Duration // how long a node that was killed or crashed is away at most
	store  *embedded.Store
	broker *inproc.Broker
	log    *slog.Logger

	mu     sync.Mutex
	rng    *rand.Rand
	faults Faults
	seen   []check.Sighting
	wrong  []string // what no node may do, and one did
	nodes  []*Node
	lives  int
	counts []*prometheus.Registry // what each life counted

	crashed map[string]int // how often nodes crashed around each step
	crashes sync.WaitGroup // nodes that are on their way down and up again
}

// New makes a cluster of n nodes, none of which runs. It must be closed in the bubble in which it was made.
func New(seed uint64, n, shards int, log *slog.Logger) (*Cluster, error) {
	store, err := embedded.Open(embedded.Config{Shards: shards})
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		shards: shards, away: 30 * time.Second, store: store, log: log, rng: rand.New(rand.NewPCG(seed, 1)),
		crashed: make(map[string]int),
	}
	c.broker = inproc.New(inproc.Config{Fault: c.messageFault})
	for i := range n {
		c.nodes = append(c.nodes, &Node{c: c, name: fmt.Sprintf("n%d", i+1), machine: machine{began: time.Now(), since: time.Now()}})
	}
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
	c.broker.Close()
	return c.store.Close()
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
		return schematest.Fault{Late: time.Duration(draw * float64(8*time.Second))}
	case 3:
		return schematest.Fault{Delay: time.Duration(draw * float64(8*time.Second))}
	case 4:
		return schematest.Fault{Tear: true}
	}
	return schematest.Fault{}
}

// members returns who runs, frozen or not. Who rests is no dispatcher.
func (c *Cluster) members() []ring.Member {
	var ms []ring.Member
	for _, n := range c.nodes {
		if !n.up {
			continue
		}
		m := n.member(n.number)
		if n.resting {
			m.Roles = nil
		}
		ms = append(ms, m)
	}
	return ms
}

// member is the node, in the given life, as the ring knows it.
func (n *Node) member(life int) ring.Member {
	return ring.Member{Name: n.name, Incarnation: uint64(life), Addr: "127.0.0.1:1", Roles: []string{ring.RoleDispatcher}}
}

// counted returns the sum of a counter over all lives so far, of those of its labels that have the value, if one is given.
func (c *Cluster) counted(name, value string) (sum float64, err error) {
	c.mu.Lock()
	lives := slices.Clone(c.counts)
	c.mu.Unlock()
	found := false
	for _, life := range lives {
		families, err := life.Gather()
		if err != nil {
			return 0, fmt.Errorf("gather: %w", err)
		}
		for _, f := range families {
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
	}
	if !found {
		return 0, fmt.Errorf("nobody counts %s", name)
	}
	return sum, nil
}

// broken notes what no node may do, and one did.
func (c *Cluster) broken(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// spread tells the members that can hear it who is there, after the time that takes. Frozen ones keep their view.
func (c *Cluster) spread(after time.Duration) {
	time.AfterFunc(after, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		var there []ring.Member
		for _, m := range c.members() {
			if n := c.node(m.Name); n.frozen == nil || time.Since(n.frozenAt) < detection {
				there = append(there, m)
			}
		}
		for _, n := range c.nodes {
			if n.up && n.frozen == nil {
				_ = n.view.Set(there, nil, c.shards) // same names as before
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

// Node is one simulated process.
type Node struct {
	c    *Cluster
	name string

	// Guarded by Cluster.mu.
	up       bool
	starting bool
	frozen   chan struct{} // closed at the thaw; nil = not frozen
	frozenAt time.Time
	resting  bool // its clock is off, as it found itself
	machine  machine

	*life // the present one, or the last
}

// life is a process of a node, from its start to its kill. The next one may begin while what is left of this one ends: nothing of the one is the other's.
type life struct {
	number   int
	view     *ring.Fixed
	conn     *inproc.Conn
	counts   *schematest.CountingStore // what it asked of the store
	bucketer *bucketer.Bucketer
	executor *executor.Executor
	stop     context.CancelFunc
	dead     chan struct{} // closed at the kill
	running  sync.WaitGroup
}

// simRing is the node's view, with a refresh that hears the others.
type simRing struct {
	*ring.Fixed
	n *Node
}

func (r simRing) Refresh(context.Context) error {
	r.n.c.spread(0)
	return nil
}

// Start starts the node's process, unless it runs.
func (n *Node) Start() error {
	c := n.c
	c.mu.Lock()
	if n.up || n.starting {
		c.mu.Unlock()
		return nil
	}
	c.lives++
	n.starting, n.resting = true, false
	l := &life{number: c.lives, dead: make(chan struct{})}
	reg := prometheus.NewRegistry()
	c.counts = append(c.counts, reg)
	members := append(c.members(), n.member(l.number))
	c.mu.Unlock()
	begin, err := n.wire(l, members, reg)
	l.running.Add(1) // until it has begun: who kills it waits for that as well
	defer l.running.Done()
	c.mu.Lock()
	n.starting, n.up = false, err == nil
	if err == nil {
		n.life = l
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	begin()
	c.spread(100 * time.Millisecond)
	return nil
}

// wire makes what a process consists of, and returns what begins it.
func (n *Node) wire(l *life, members []ring.Member, reg *prometheus.Registry) (begin func(), err error) {
	c, dead := n.c, l.dead
	if l.view, err = ring.Static(members, c.shards); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	l.conn = c.broker.Connect(n.name)
	l.counts = schematest.Counting(c.store)
	store := crashing{schematest.Faulty(l.counts, func(context.Context, string) schematest.Fault {
		n.pause(dead)
		select {
		case <-dead:
			return schematest.Fault{Fail: true}
		default:
		}
		return c.storeFault()
	}), n, l}
	log := c.log.With("node", n.name, "life", l.number)
	now := func() time.Time { return n.now(dead) }
	halt := bucketer.NewHalt(now)
	clocks := &comparer{
		sources: []func(context.Context) (time.Time, error){store.Time, l.conn.Time}, now: now, set: halt.Subscribe(), log: log,
		changed: func(off bool) { n.rest(l, off) },
	}
	halt.Also(clocks.Off)
	l.bucketer, err = bucketer.New(bucketer.Config{Store: store, Hints: l.conn, Signals: l.conn, Now: now, Halted: halt.Halted, Logger: log, Registerer: reg})
	if err != nil {
		return nil, err
	}
	d, err := dispatcher.New(dispatcher.Config{
		Name: n.name, Incarnation: fmt.Sprintf("%s-%d", n.name, l.number), Store: store, Queue: l.conn, Ring: simRing{l.view, n},
		Writer: l.bucketer, Rates: l.bucketer, Halt: halt, Now: now, Logger: log, Registerer: reg,
	})
	if err != nil {
		return nil, err
	}
	l.executor, err = executor.New(executor.Config{
		Name: n.name, Slots: 64, Store: store, Writer: l.bucketer, Tasks: l.bucketer.TaskCache(), Queue: l.conn, Notices: l.conn, Signals: l.conn,
		Targets: executor.Targets{HTTP: sink{n, l}}, Halt: halt, DrainTimeout: time.Second, Now: now, Logger: log, Registerer: reg,
	})
	if err != nil {
		return nil, err
	}
	unsubscribe, err := l.conn.SubscribeSignal(queue.TopicCancel, func(body []byte) {
		if id, err := schema.ParseEntryID(string(body)); err == nil {
			l.executor.Cancel(id)
		}
	})
	if err != nil {
		return nil, err
	}
	slots, err := l.conn.SubscribeSignal(queue.TopicSlots, l.executor.SlotsChanged)
	if err != nil {
		return nil, err
	}
	return func() {
		l.running.Go(func() {
			clocks.compare(ctx) // before anything runs
			for _, run := range []func(context.Context) error{halt.Run, clocks.run, l.bucketer.Watch, d.Run, l.executor.Run} {
				l.running.Go(func() {
					if err := run(ctx); err != nil {
						panic(err) // none of them returns one
					}
				})
			}
		})
		context.AfterFunc(ctx, func() { unsubscribe(); slots() })
	}, nil
}

// Kill ends the process at once: from here on it writes and sends nothing. It returns when nothing is left of it, which may be after the next one began.
func (n *Node) Kill() {
	n.c.mu.Lock()
	l := n.life
	n.c.mu.Unlock()
	n.kill(l)
}

// kill ends l, unless it has ended.
func (n *Node) kill(l *life) {
	if n.fell(l) {
		n.bury(l)
	}
}

// fell ends l at once, and reports whether it had not ended before.
func (n *Node) fell(l *life) bool {
	c := n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !n.up || n.life != l {
		return false
	}
	n.up = false
	if n.frozen != nil {
		close(n.frozen)
		n.frozen = nil
	}
	close(l.dead)
	return true
}

// bury waits until nothing is left of l, which has ended.
func (n *Node) bury(l *life) {
	l.conn.Cut()
	l.stop()
	n.c.spread(detection)
	l.running.Wait()
	_ = l.conn.Close() // always nil
}

// crash ends l as Kill does, without waiting for what is left of it, and starts the node again after a while. It reports whether l had not ended before.
func (n *Node) crash(l *life, back time.Duration) bool {
	if !n.fell(l) {
		return false
	}
	n.c.crashes.Go(func() {
		n.bury(l)
		time.Sleep(back)
		if err := n.Start(); err != nil {
			panic(err)
		}
	})
	return true
}

// Freeze stops the process (SIGSTOP): whatever it does next, it does after the thaw.
func (n *Node) Freeze() {
	c := n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.up && n.frozen == nil {
		n.frozen, n.frozenAt = make(chan struct{}), time.Now()
		c.spread(detection)
	}
}

// Thaw lets it go on.
func (n *Node) Thaw() {
	c := n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.frozen != nil {
		close(n.frozen)
		n.frozen = nil
		// The others hear of it soon; itself it believes in its old view until it hears from them.
		c.spread(500 * time.Millisecond)
	}
}

// pause waits while the process is frozen, unless it is killed.
func (n *Node) pause(dead chan struct{}) {
	n.c.mu.Lock()
	frozen := n.frozen
	n.c.mu.Unlock()
	if frozen == nil {
		return
	}
	select {
	case <-frozen:
	case <-dead:
	}
}

// now is the node's clock. A frozen process that reads it goes on after the thaw.
func (n *Node) now(dead chan struct{}) time.Time {
	n.pause(dead)
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.machine.read(time.Now())
}

// Step sets the wall clock of the node's machine by d, whether the node runs or not.
func (n *Node) Step(d time.Duration) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.machine.step(d)
}

// Discipline has the clock of the node's machine slewed until it is right, as NTP does.
func (n *Node) Discipline() {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.machine.discipline(time.Now())
}

// Correct sets the clock of the node's machine right at once.
func (n *Node) Correct() {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.machine.correct(time.Now())
}

// offset returns how far the node's clock is off.
func (n *Node) offset() time.Duration {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.machine.offset(time.Now())
}

// rest takes note that the clock was found to be off, or right again, by the process of l, and tells the others.
func (n *Node) rest(l *life, off bool) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if n.life == l {
		n.resting = off
		n.c.spread(gossip)
	}
}

// sink is what jobs call: it writes down who came, by the clock of the node that called.
type sink struct {
	n *Node
	l *life
}

// withinSession is how long work of effectively_once lasts at most: what lies between the last sign of life of its executor and the next start.
const withinSession = 8 * time.Second

var errRefused = errors.New("the callee refuses")

// Run answers after a while, sometimes a long one, and sometimes with an error.
func (s sink) Run(ctx context.Context, call executor.Call) executor.Result {
	c := s.n.c
	if off := s.n.offset(); off.Abs() > trusted {
		c.broken("%s started attempt %d of %s while its clock was off by %v", s.n.name, call.Number, call.Run, off)
	}
	at := s.n.now(s.l.dead).Round(0)
	select {
	case <-s.l.dead:
		return executor.Result{Outcome: schema.Failed}
	default:
	}
	if s.n.crashes(s.l, stepCall, func() {}) {
		return executor.Result{Outcome: schema.Failed}
	}
	kind, draw := c.chance(func(f Faults) float64 { return f.Target }, 2)
	c.mu.Lock()
	took := time.Duration(c.rng.ExpFloat64() * float64(30*time.Millisecond))
	if kind == 1 {
		took = time.Duration(draw * float64(20*time.Second)) // a slow one
	}
	if call.Work.Guarantee == schema.EffectivelyOnce {
		took = min(took, withinSession)
	}
	ref, _ := check.ParseRef(call.Work.HTTP.URL)
	if ref.Source == limitedSource || ref.Source == crowdedSource {
		took = time.Duration(c.rng.Float64() * float64(limitedTook))
	}
	if long := call.Work.Timeout.Std() - time.Minute; long > 0 {
		took = time.Duration(c.rng.Float64() * float64(long)) // it was asked for as one that lasts
	}
	c.mu.Unlock()
	saw := check.Sighting{
		Run: call.Run.String(), Ref: ref, Attempt: call.Number, Fence: int64(call.Fence), Due: call.Due, At: at, Status: 200,
		End: time.Now().Add(took), // whether its caller is there or not
	}
	res := executor.Result{Outcome: schema.Succeeded}
	timer := time.NewTimer(took)
	defer timer.Stop()
	select {
	case <-timer.C:
		if kind == 0 {
			saw.Status, res = 503, executor.Result{Outcome: schema.Failed, Error: errRefused.Error(), Status: 503}
		}
	case <-s.l.dead:
		saw.Status, saw.Gone = 0, time.Now()
		res = executor.Result{Outcome: schema.Failed}
	case <-ctx.Done():
		saw.Gone = time.Now()
		saw.Status, res = 0, executor.Result{Outcome: schema.Failed, Error: context.Cause(ctx).Error()}
		if errors.Is(context.Cause(ctx), executor.ErrCancelled) {
			res.Outcome = schema.Cancelled
		}
	}
	c.mu.Lock()
	if ref.Source == limitedSource && res.Outcome == schema.Cancelled {
		saw.End = saw.Gone // a limit counts who calls, and who died goes on to
	}
	c.seen = append(c.seen, saw)
	c.mu.Unlock()
	return res
}
