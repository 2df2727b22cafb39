package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/dispatcher"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/executor"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
	"carillon.dev/carillon/schema/sealed"
)

// member returns the node in the given life, as the ring knows it.
func (n *Node) member(life int) ring.Member {
	return ring.Member{Name: n.name, Incarnation: uint64(life), Addr: "127.0.0.1:1", Roles: []string{ring.RoleDispatcher}, Labels: n.labels.String()}
}

// Node is one simulated process: started, stopped, killed and frozen here, with its links in
// links_test.go and its clock in clock_test.go.
type Node struct {
	c      *Cluster
	at     *site
	name   string
	labels schema.Labels // of its executor; never changed once it has begun

	// Guarded by Cluster.mu.
	up        bool
	starting  bool
	frozen    chan struct{} // closed at the thaw; nil = not frozen
	frozenAt  time.Time
	suspended bool // it found its clock to be off
	stopping  bool // it was told to stop, and has not ended yet
	machine   machine

	unhealthy bool       // it reported that it cannot dispatch
	links     [links]cut // by which it reaches store, queue and ring
	// healed is closed when the link to the store hangs no more; nil = it does not hang.
	healed chan struct{}

	*life // the present one, or the last
}

// life is one process of a node. The next life may begin before the goroutines of this one have
// ended, so they share nothing.
type life struct {
	number   int
	view     *ring.Fixed
	conn     *inproc.Conn
	counts   *schematest.CountingStore // its calls of the store
	sealed   *sealed.Store             // by which it reaches the store
	tenants  *admin.Tenants            // nil if no scenario's tenant states anything
	bucketer *engine.Engine
	executor *executor.Executor
	stop     context.CancelFunc

	mu     sync.Mutex
	fewest int // among how many nodes it shared quotas, at least; 0: it never did

	dead    chan struct{} // closed at the kill
	running sync.WaitGroup
}

// simRing is the node's view, with a refresh that hears the others.
type simRing struct {
	*ring.Fixed
	n *Node
	l *life
}

func (r simRing) Refresh(context.Context) error {
	r.n.c.gossip(0)
	return nil
}

func namesOf(members []ring.Member) (names []string) {
	for i := range members {
		names = append(names, members[i].Name)
	}
	return names
}

// Start starts the node's process, unless it runs, or its region is dead.
func (n *Node) Start() error {
	c := n.c
	c.mu.Lock()
	if n.up || n.starting || n.at.down {
		c.mu.Unlock()
		return nil
	}
	c.lives++
	n.starting, n.suspended, n.unhealthy = true, false, false
	l := &life{number: c.lives, dead: make(chan struct{})}
	reg := prometheus.NewRegistry()
	c.counts = append(c.counts, reg)
	c.processes[n.caller(l)] = l
	members := append(c.members(n.at), n.member(l.number))
	c.mu.Unlock()
	begin, err := n.wire(l, members, reg)
	l.running.Add(1) // until it has begun; kill waits for that too
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
	c.gossip(100 * time.Millisecond)
	return nil
}

// wire makes the parts of a process, and returns the func that starts them.
func (n *Node) wire(l *life, members []ring.Member, reg *prometheus.Registry) (begin func(), err error) {
	c, dead := n.c, l.dead
	if l.view, err = ring.Static(members, c.shards); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	l.conn = n.at.broker.Connect(n.name)
	c.mu.Lock()
	if n.links[toQueue] == silent {
		l.conn.Cut()
	}
	c.mu.Unlock()
	l.counts = schematest.Counting(n.at.store)
	faulty := crashing{schematest.Faulty(l.counts, func(ctx context.Context, _ string) schematest.Fault {
		growStack(false)
		n.pause(dead)
		select {
		case <-dead:
			return schematest.Fault{Fail: true}
		default:
		}
		return n.storeFault(ctx)
	}), n, l}
	log := c.log.With("node", n.name, "life", l.number)
	now := func() time.Time { return n.now(dead) }
	halt := bucketer.NewHalt(now)
	store, keeper, err := c.regions.guard(n, l, faulty, now)
	if err != nil {
		return nil, err
	}
	tenants := n.tenantsOf(l, store, now, log)
	everywhere := c.regions.everywhere(n, l, keeper)
	clocks, err := n.newClock(l, store, halt.Subscribe())
	if err != nil {
		return nil, err
	}
	halt.Also(clocks.Off)
	l.bucketer, err = engine.New(bucketer.Config{
		Store: l.sealed, Hints: sealed.Hints{To: hearing{l.conn, c}, Store: l.sealed}, Signals: l.conn, Listeners: &bucketer.TaskListeners{Bus: l.conn, Members: func() []string { return namesOf(l.view.Snapshot().Members()) }}, Now: now, Halted: halt.Halted, Logger: log, Registerer: reg,
		Regions: c.regions.intake(n, keeper, everywhere), RetentionDay: longRetention,
	})
	if err != nil {
		return nil, err
	}
	d, err := dispatcher.New(dispatcher.Config{
		Name: n.name, Incarnation: fmt.Sprintf("%s-%d", n.name, l.number), Store: l.sealed.Carried(), Queue: linked{l.conn, n, l}, Ring: simRing{l.view, n, l},
		Writer: l.bucketer, Rates: l.bucketer, Requires: l.bucketer.Requires, Halt: halt, Served: takes(keeper), Region: n.at.region, Now: now, Logger: log, Registerer: reg,
	})
	if err != nil {
		return nil, err
	}
	var pool queue.Consumer
	if len(n.labels) > 0 {
		pool = l.conn.Pool(queue.Pool(n.labels.String()))
	}
	l.executor, err = executor.New(executor.Config{
		Name: l.bucketer.Regions().ExecutorName(n.name), Region: n.at.region, Served: served(keeper), HomeOf: c.regions.homeOf(), ServedLimit: servedLimit(keeper), Everywhere: claims(everywhere), Slots: c.slots, Store: l.sealed.Carried(), Seal: l.sealed.SealAttempt, Writer: l.bucketer, Tasks: l.bucketer.TaskCache(), Tenants: tenants, Queue: l.conn, Labels: n.labels, Pool: pool, Notices: l.conn, Signals: l.conn,
		Targets: target.Set{HTTP: sink{n, l}}, Halt: halt, DrainTimeout: time.Second, Now: now, Logger: log, Registerer: reg,
	})
	if err != nil {
		return nil, err
	}
	unsubscribe, err := l.conn.SubscribeSignal(schema.TopicCancel, func(body []byte) {
		if id, err := schema.ParseEntryID(string(body)); err == nil {
			l.executor.Cancel(id)
		}
	})
	if err != nil {
		return nil, err
	}
	slots, err := l.conn.SubscribeSignal(schema.TopicSlots, l.executor.SlotsChanged)
	if err != nil {
		return nil, err
	}
	tasks, err := l.bucketer.ListenForTaskChanges(l.conn, n.name, d.TaskChanged)
	if err != nil {
		return nil, err
	}
	ofTenants := func() {}
	if l.tenants != nil {
		if ofTenants, err = l.conn.SubscribeSignal(schema.TopicTenant, l.tenants.Changed); err != nil {
			return nil, err
		}
	}
	halts := halt.Subscribe()
	return func() {
		if keeper != nil {
			l.running.Go(func() { _ = keeper.Run(ctx) }) // always nil
		}
		l.running.Go(func() { l.bucketer.TaskCache().ForgetAt(ctx, halts) })
		l.running.Go(func() {
			clocks.Compare(ctx) // before anything runs
			for _, run := range []func(context.Context) error{halt.Run, clocks.Run, l.bucketer.Watch, d.Run, l.executor.Run} {
				l.running.Go(func() {
					if err := run(ctx); err != nil {
						panic(err) // none of them returns one
					}
				})
			}
		})
		context.AfterFunc(ctx, func() { unsubscribe(); slots(); tasks(); ofTenants() })
	}, nil
}

// growStack makes room on the stack of the caller for a call of the store. Most calls are made by
// goroutines that end soon, and to grow by and by costs each a tenth of the CPU of a seed.
//
//go:noinline
func growStack(used bool) byte {
	if !used {
		return 0
	}
	var room [10 << 10]byte
	for i := range room {
		room[i] = byte(i)
	}
	return room[len(room)/2]
}

// Stop tells the process to stop (SIGTERM), and returns when it has: its shards go to others at
// once, and it drains. A process that is frozen stops after the thaw.
func (n *Node) Stop() {
	c := n.c
	c.mu.Lock()
	l := n.life
	if !n.up || n.stopping {
		c.mu.Unlock()
		return
	}
	n.stopping = true
	c.mu.Unlock()
	c.gossip(gossipDelay)
	l.stop()
	l.running.Wait()
	if n.end(l) {
		n.awaitEnd(l)
	}
	c.mu.Lock()
	n.stopping = false
	c.mu.Unlock()
}

// Kill ends the process at once: it writes and sends nothing any more. Kill returns when all its
// goroutines have ended, which may be after the next process began.
func (n *Node) Kill() {
	n.c.mu.Lock()
	l := n.life
	n.c.mu.Unlock()
	n.kill(l)
}

// kill ends l, unless it has ended.
func (n *Node) kill(l *life) {
	if n.end(l) {
		n.awaitEnd(l)
	}
}

// end ends l at once, and reports whether it had not ended before.
func (n *Node) end(l *life) bool {
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
	c.kills = append(c.kills, check.Kill{At: time.Now(), Caller: n.caller(l)})
	close(l.dead)
	return true
}

// caller returns the name of the process as the sink knows it.
func (n *Node) caller(l *life) string { return fmt.Sprintf("%s, life %d", n.name, l.number) }

// awaitEnd waits until all goroutines of l have ended.
func (n *Node) awaitEnd(l *life) {
	l.conn.Cut()
	l.stop()
	n.c.gossip(detection)
	l.running.Wait()
	_ = l.conn.Close() // always nil
}

// crash ends l as Kill does, without waiting for its goroutines, and restarts the node after a
// while. It reports whether l had not ended before.
func (n *Node) crash(l *life, back time.Duration) bool {
	if !n.end(l) {
		return false
	}
	n.c.crashes.Go(func() {
		n.awaitEnd(l)
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
		c.gossip(detection)
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
		c.gossip(500 * time.Millisecond)
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
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if n.frozen != nil {
		n.c.mu.Unlock()
		n.pause(dead)
		n.c.mu.Lock()
	}
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

// suspendDispatch records that l found its clock to be off, or right again, and gossips it.
func (n *Node) suspendDispatch(l *life, off bool) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if n.life == l {
		n.suspended = off
		n.c.gossip(gossipDelay)
	}
}
