package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/operations"
	"carillon.dev/carillon/bucketer/tally"
	"carillon.dev/carillon/cmd/internal/clockcheck"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/dispatcher"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/executor"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/executor/trace/otlp"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/sealed"
)

// Queue is a queue that can be closed.
type Queue interface {
	queue.Queue
	queue.Prober
	Close() error
}

// Ring is a ring that can be run.
type Ring interface {
	dispatcher.Ring
	Ready() error
	SuspendDispatch(rest bool) error
	Run(ctx context.Context) error
}

// Opener opens store, queue and ring of a node. Store and Queue block until they succeed or ctx
// ends. The node closes what it gets.
type Opener struct {
	Store func(ctx context.Context) (schema.Store, error)
	Queue func(ctx context.Context) (Queue, error)
	// Epochs opens what regions share, as Store does. It is called where there are regions.
	Epochs func(ctx context.Context) (EpochStore, error)
	// Ring makes the ring, once the settings are known. It does no I/O.
	Ring func(shards int, api string) (Ring, error)
}

// Options are what a node needs besides its configuration.
type Options struct {
	Opener  Opener
	Version string
	Logger  *slog.Logger
	// Registry takes the metrics; nil makes one.
	Registry *prometheus.Registry
	// Traces says where spans of runs go (otlp.FromEnv); zero: nowhere.
	Traces otlp.Config
	// Reload says how the node learns of changes of its configuration; nil: it does not.
	Reload *Reload
	// Listener is the API's; nil listens where the configuration says.
	Listener *net.TCPListener
	// Ready is called once, when the node serves, with the address of its API.
	Ready func(api string)
}

// Node is a node of Carillon. Several may run in one process.
type Node struct {
	cfg     config.Config
	opts    Options
	log     *slog.Logger
	reg     *prometheus.Registry
	startup startupServer

	store   schema.Store
	keyring *admin.Keyring
	sealed  *sealed.Store // store, behind the seals of tenants' data
	queue   Queue
	ring    Ring
	clock   *clockcheck.Clock

	regions *regions // nil: there are none

	halt *bucketer.Halt

	certs    *apiCerts
	profiles netip.AddrPort // where they are served; invalid: nowhere

	stopping atomic.Bool // told to stop: other nodes own our shards

	bucketer       *engine.Engine
	waits          *tally.Waits
	dispatcher     *dispatcher.Dispatcher
	executor       *executor.Executor
	traces         *otlp.Exporter
	operations     *operations.Operations
	scripts        *target.Script // nil: not enabled
	administration *administration
	reload         *reloader
	view           *clusterView
	api            *httpapi.Server
	host           func(string) bool // what requests to the API may name
}

// New returns a node that does nothing until Run. The configuration must be valid.
func New(cfg config.Config, opts Options) *Node {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Registry == nil {
		opts.Registry = prometheus.NewRegistry()
		opts.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	return &Node{cfg: cfg, opts: opts, log: opts.Logger, reg: opts.Registry}
}

// Run starts the node, serves until ctx ends, and stops it. It returns nil when it was told to
// stop, and an error if it could not start.
func (n *Node) Run(ctx context.Context) error {
	l := n.opts.Listener
	if l == nil {
		any, err := (&net.ListenConfig{}).Listen(ctx, "tcp", n.cfg.API.Listen)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		l = any.(*net.TCPListener)
	}
	n.host = hosts(l.Addr(), n.cfg.API.Advertise)
	base := n.cfg.API.TLS.Scheme() + "://" + l.Addr().String()
	var err error
	if n.certs, err = openCerts(n.cfg.API.TLS, n.log); err != nil {
		_ = l.Close()
		return err
	}
	n.warnOfOpenSettings()
	_, stopAdmin, err := n.serveProfiles(ctx)
	if err != nil {
		_ = l.Close()
		return err
	}
	defer stopAdmin()
	n.startup.waitFor("the store")
	n.startup.secured = n.certs.listen
	release, stopStartup := n.startup.serve(l)

	stops, err := n.start(ctx, base)
	defer stops.run(n.log)
	stops.push("startup server", stopStartup)
	if err == nil {
		n.startup.handOver(n.api)
	}
	if gerr := release(); gerr != nil && err == nil {
		err = fmt.Errorf("open the API: %w", gerr)
	}
	if err != nil {
		_ = l.Close()
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	return n.serve(ctx, l, base)
}

// start opens store, queue and ring, and makes the parts.
func (n *Node) start(ctx context.Context, base string) (*cleanups, error) {
	stops := &cleanups{}
	var err error
	if n.store, err = n.opts.Opener.Store(ctx); err != nil {
		return stops, fmt.Errorf("open the store: %w", err)
	}
	stops.push("store", n.store.Close)
	n.startup.waitFor("the queue")
	if n.queue, err = n.opts.Opener.Queue(ctx); err != nil {
		return stops, fmt.Errorf("open the queue: %w", err)
	}
	stops.push("queue", n.queue.Close)
	n.startup.waitFor("the settings")
	settings, err := n.settings(ctx)
	if err != nil {
		return stops, err
	}
	if err := openRegions(ctx, n, stops, settings); err != nil {
		return stops, err
	}
	api := n.cfg.API.Advertise
	if api == "" {
		api = base
	}
	if n.ring, err = n.opts.Opener.Ring(settings.Shards, api); err != nil {
		return stops, fmt.Errorf("make the ring: %w", err)
	}
	return stops, n.assemble(stops)
}

// settings reads the settings, and retries until ctx ends.
func (n *Node) settings(ctx context.Context) (schema.Settings, error) {
	for {
		s, err := n.store.Settings(ctx)
		switch {
		case err == nil:
			return s, nil
		case ctx.Err() != nil:
			return schema.Settings{}, ctx.Err()
		}
		n.log.Warn("settings could not be read: retrying", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// assemble makes the parts. It does no I/O.
func (n *Node) assemble(stops *cleanups) (err error) {
	now := time.Now
	if err := n.reg.Register(buildInfo(n.opts.Version)); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if err := openTraces(n, stops); err != nil {
		return err
	}
	n.halt = bucketer.NewHalt(now)
	if n.clock, err = n.newClock(); err != nil {
		return err
	}
	n.halt.Also(n.clock.Off)
	tracer := n.traces.Tracer()
	names := tally.New()
	n.waits = tally.NewWaits(now)
	if err := errors.Join(n.reg.Register(names.Metrics()), n.reg.Register(n.waits.Metrics())); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if err := openSealing(n); err != nil {
		return err
	}
	n.bucketer, err = engine.New(bucketer.Config{
		Store: n.sealed, Hints: sealed.Hints{To: n.queue, Store: n.sealed}, Signals: n.queue, Halted: n.refusesJobs, Regions: n.regions.intake(), Listeners: &bucketer.TaskListeners{Bus: n.queue, Members: n.members},
		Missed:              func(spec *schema.Spec, reason string, runs int64) { names.Missed(tally.KeyOf(spec, ""), reason, runs) },
		WorkflowEnded:       tracer.EndOfWorkflow,
		Waits:               n.waits,
		DeadLetterRetention: n.cfg.DeadLetters.Retention, PublicURL: strings.TrimSuffix(n.cfg.API.PublicURL, "/"),
		Logger: n.log.With("part", "bucketer"), Registerer: n.reg,
	})
	if err != nil {
		return err
	}
	n.administration = n.openAdministration(names, now)
	n.sealed.Follow(n.administration.tenants.EncryptsPayloads)
	if n.cfg.Has(config.Dispatcher) {
		n.dispatcher, err = dispatcher.New(dispatcher.Config{
			Name: n.cfg.Node.Name, Incarnation: n.cfg.Node.Name + "-" + strconv.FormatInt(now().UnixMilli(), 36), Lanes: n.cfg.NATS.Lanes,
			Store: n.sealed.Carried(), Queue: sealingQueue{n.queue, n.sealed}, Ring: n.ring, Writer: n.bucketer, Tenants: n.administration.tenants, Rates: n.bucketer, Requires: n.bucketer.Requires, Halt: n.halt, Served: n.regions.takes(), Region: n.cfg.Node.Region, Tally: n.administration.tally,
			Logger: n.log.With("part", "dispatcher"), Registerer: n.reg,
		})
		if err != nil {
			return err
		}
	}
	room := target.NewByteBudget(target.DefaultByteBudget)
	rules, err := n.openScripts(room)
	if err != nil {
		return err
	}
	if n.cfg.Has(config.ExecutorR) {
		if err := n.assembleExecutor(stops, room); err != nil {
			return err
		}
	}
	n.operations = operations.New(operations.Config{
		Bucketer: n.bucketer.Bucketer, Runs: n.bucketer.RunParts(), Jobs: n.bucketer.Recurring(), Store: n.sealed,
		Quota: n.administration.tenants, Note: httpapi.NoteOfOperation(n.administration.audit), Node: n.cfg.Node.Name + "-" + strconv.FormatInt(now().UnixMilli(), 36),
		Logger: n.log.With("part", "operations"), Registerer: n.reg,
	})
	if n.reload, err = newReloader(n.cfg, n.opts.Reload, reloads(n), n.log.With("part", "configuration"), n.reg); err != nil {
		return err
	}
	n.view = n.newView(now())
	known, logIn, err := openTokens(n, stops)
	if err != nil {
		return err
	}
	n.api, err = httpapi.New(httpapi.Config{
		Rules: rules, Auth: n.cfg.API.AuthRequired(), ProtectMetrics: n.cfg.API.ProtectMetrics, ReadOnly: n.cfg.API.ReadOnly,
		Version: n.opts.Version, Node: n.cfg.Node.Name, Host: n.host, CursorKey: []byte(n.cfg.API.CursorKey), OpenMetrics: n.traces.On(), Trace: n.traces.Requests(), Logger: n.log.With("part", "api"), Registerer: n.reg,
	}, httpapi.Deps{
		Jobs: n.bucketer, Runs: n.bucketer, Tasks: n.bucketer, Recurring: n.bucketer, Workflows: n.bucketer, Events: n.bucketer, Joins: n.bucketer, Logs: n.bucketer, Search: n.bucketer, Operations: n.operations, DeadLetters: n.bucketer,
		Ready: n.ready, Cluster: n.view.Cluster, Regions: n.regions.view, RegionChanges: n.regions.changes(), Homes: n.regions.all(), Forward: n.regions.forward(), Gatherer: n.reg,
		Keys: n.administration.keys, Peer: n.certs.peer(), Tokens: known, LogIn: logIn, Signing: n.administration.signing, Secrets: n.administration.secrets, Notifications: n.bucketer, Calendars: n.bucketer, Tenants: n.administration.tenants, Quotas: n.administration.tenants, Encrypts: func() bool { return n.keyring.FirstKey() != "" }, Targets: n.targets(), Audit: n.administration.audit, Stats: n.administration.stats, Upcoming: n.administration.upcoming,
	})
	return err
}

// httpConfig says how HTTP tasks are called.
func (n *Node) httpConfig(room *target.ByteBudget) target.HTTPConfig {
	allow, never := n.cfg.Executor.Prefixes()
	c := target.HTTPConfig{
		AllowPrefixes: allow, DenyPrefixes: never, MaxOutput: n.cfg.Executor.MaxOutput, Budget: room, Logger: n.log.With("part", "executor"),
		// The slots bound the calls under way. With fewer connections than that, attempts would
		// wait for a connection until they time out, and the circuit breaker would blame the host.
		MaxConnsPerHost: n.cfg.Executor.Slots + target.MaxOrphanedDials,
	}
	if n.profiles.IsValid() {
		c.DenyAddresses = []netip.AddrPort{n.profiles} // a job must not read this process's memory
	}
	return c
}

func (n *Node) assembleExecutor(stops *cleanups, room *target.ByteBudget) error {
	calls := n.httpConfig(room)
	calls.Registerer = n.reg
	http, err := target.NewHTTP(calls)
	if err != nil {
		return err
	}
	stops.push("http target", func() error { http.Close(); return nil })
	kafka := target.NewKafka(http)
	stops.push("kafka target", func() error { kafka.Close(); return nil })
	mails, err := mailServer(n.cfg.Email)
	if err != nil {
		return err
	}
	targets := target.Set{HTTP: http, Lambda: target.NewLambda(http), AWS: target.NewAWS(http), Kafka: kafka, JetStream: target.NewJetStream(n.queue), Email: target.NewEmail(http, mails), NATS: target.NewNATS(target.NATSConfig{Requester: n.queue, MaxOutput: n.cfg.Executor.MaxOutput, Budget: room})}
	if n.scripts != nil {
		targets.Script = n.scripts
	}
	noop := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "carillon", Subsystem: "executor", Name: "noop", Help: "1 if every run succeeds at once and nothing is called (executor.noop): 0 unless something is measured.",
	})
	if err := n.reg.Register(noop); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if n.cfg.Executor.Noop {
		noop.Set(1)
		n.log.Warn("executor.noop is set: EVERY RUN SUCCEEDS AT ONCE AND NOTHING IS CALLED. This is for measurements only")
		targets = target.Set{HTTP: target.Noop{}, NATS: target.Noop{}, Script: target.Noop{}, Lambda: target.Noop{}, Email: target.Noop{}, JetStream: target.Noop{}, AWS: target.Noop{}, Kafka: target.Noop{}}
	}
	n.executor, err = executor.New(executor.Config{
		Name: n.regions.executor(n.cfg.Node.Name), Region: n.cfg.Node.Region, Served: n.regions.served(), HomeOf: n.regions.homeOf(), ServedLimit: n.regions.servedLimit(), Everywhere: n.regions.claims(), Slots: n.cfg.Executor.Slots, Lanes: n.cfg.NATS.Lanes,
		Store: n.sealed.Carried(), Seal: n.sealed.SealAttempt, Writer: n.bucketer, Tasks: n.bucketer.TaskCache(), Tenants: n.administration.tenants, Queue: n.queue, Labels: n.cfg.ExecutorLabels(), Pool: pool(n.queue, n.cfg.ExecutorLabels()), Notices: n.queue, Signals: n.queue,
		Targets: targets, Signer: n.administration.signing, Secrets: n.administration.secrets, Halt: n.halt, Trace: n.traces.Tracer(), MaxOutput: n.cfg.Executor.MaxOutput,
		DrainTimeout: n.cfg.Executor.DrainTimeout, Tally: n.administration.tally,
		Logger: n.log.With("part", "executor"), Registerer: n.reg,
	})
	return err
}

// refusesJobs reports whether the node refuses new jobs: the process was frozen, its clock is off,
// or NATS is out of reach, so that a job due soon would wait for a sweep.
func (n *Node) refusesJobs() bool { return n.halt.Halted() || n.queue.Ready() != nil }

// suspendDispatch hands our shards over while the clock is off, since only this node must not
// dispatch then; with false it takes shards again.
func (n *Node) suspendDispatch(off bool) {
	off = off || n.stopping.Load() // a node that stops takes no shards again
	if err := n.ring.SuspendDispatch(off); err != nil {
		n.log.Warn("suspending dispatch was not announced", "suspended", off, "err", err)
	}
}

// releaseShards hands our shards over before anything stops. Otherwise they would rest while the
// executor drains, because the dispatcher stops first and the ring last.
func (n *Node) releaseShards() {
	n.stopping.Store(true)
	if n.dispatcher != nil {
		n.suspendDispatch(true)
	}
}

// serve runs the parts until ctx ends, and stops them in order.
func (n *Node) serve(ctx context.Context, l net.Listener, base string) error {
	life := context.WithoutCancel(ctx)
	var g stages
	defer g.stop(n.log)
	defer n.releaseShards()
	n.clock.Compare(ctx) // before the node is announced
	// The API takes writes at once, however long the start took. What cannot be read now is read
	// again below.
	if err := n.bucketer.Refresh(ctx); err != nil {
		n.log.Warn("settings could not be read", "err", err)
	}
	n.halt.Begin()
	// started before the API, and so stopped after it: it writes what the API did last
	g.start(life, "administration", n.administration.run)
	g.start(life, "api", func(ctx context.Context) error { return n.api.Run(ctx, n.certs.listen(l)) })
	g.start(life, "ring", n.ring.Run)
	letters := newLetterCounter(n) // its metrics are there when the node is ready
	g.start(life, "watch", func(ctx context.Context) error {
		var wg sync.WaitGroup
		wg.Go(func() { _ = n.halt.Run(ctx) })       // returns nil
		wg.Go(func() { _ = n.clock.Run(ctx) })      // returns nil
		wg.Go(func() { _ = n.bucketer.Watch(ctx) }) // returns nil
		wg.Go(func() { _ = n.operations.Run(ctx) }) // returns nil
		wg.Go(func() { n.reload.run(ctx) })
		wg.Go(func() { n.regions.run(ctx) })
		if n.dispatcher != nil {
			wg.Go(func() { _ = newNotifier(n).Run(ctx) }) // returns nil
			wg.Go(func() { _ = letters.Run(ctx) })        // returns nil
		}
		if q, ok := n.queue.(eventQueue); ok {
			wg.Go(func() { _ = q.ConsumeEvents(ctx, newEventIntake(n).take) }) // returns nil
		}
		if e, ok := n.store.(expirer); ok {
			wg.Go(func() { n.expire(ctx, e) })
		}
		wg.Wait()
		return nil
	})
	unsubscribe, err := n.listen()
	if err != nil {
		return err
	}
	defer unsubscribe()
	if n.executor != nil {
		g.startDraining(life, "executor", n.cfg.Executor.DrainTimeout, n.executor.Run)
	}
	if n.dispatcher != nil {
		g.start(life, "dispatcher", n.dispatcher.Run)
	}
	n.log.Info("node is up", "name", n.cfg.Node.Name, "roles", n.cfg.Roles, "api", base)
	if n.opts.Ready != nil {
		n.opts.Ready(base)
	}
	select {
	case <-ctx.Done():
		n.log.Info("node is stopping")
		return nil
	case err := <-g.failed():
		return err
	}
}

// readyTimeout bounds the read of the store by which /readyz is answered.
const readyTimeout = 2 * time.Second

// ready returns the state of everything the node depends on.
func (n *Node) ready(ctx context.Context) []httpapi.Dependency {
	bounded, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	_, storeErr := n.store.Time(bounded)
	var process error
	switch {
	case n.stopping.Load():
		process = errors.New("the node is stopping")
	case n.halt.Halted() && !n.clock.Off():
		process = errors.New("the process was stopped and has not caught up")
	}
	clock := httpapi.Dependency{Name: "clock", Err: n.clock.Err()}
	if n.clock.Unchecked() {
		clock.Warning = "unchecked: no other host has a clock to compare with"
	}
	lines := []httpapi.Dependency{
		{Name: "store", Err: storeErr},
		{Name: "queue", Err: n.queue.Ready()},
		{Name: "ring", Err: n.ring.Ready()},
		clock,
		{Name: "process", Err: process},
		{Name: "settings", Err: n.bucketer.Ready()},
	}
	lines = append(lines, n.regions.ready()...)
	if n.dispatcher != nil {
		if why := n.dispatcher.Unhealthy(); why != nil {
			lines = append(lines, httpapi.Dependency{Name: "dispatcher", Warning: "unhealthy, others take its shards if they are well: " + why.Error()})
		}
	}
	if n.executor != nil && n.cfg.Executor.Noop {
		lines = append(lines, httpapi.Dependency{Name: "executor", Warning: "noop: nothing is called"})
	}
	return lines
}

// members returns the names of all live nodes in the ring's view.
func (n *Node) members() []string {
	all := n.ring.Snapshot().Members()
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return names
}

// Members returns the ring's view, for tests.
func (n *Node) Members() *ring.Snapshot { return n.ring.Snapshot() }

func (n *Node) now() time.Time { return time.Now() }
