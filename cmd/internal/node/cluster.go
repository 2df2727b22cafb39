package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
)

const (
	// viewAge is how long a view of the cluster is answered again: so long ten open consoles ask the
	// members, the store and the queue once.
	viewAge = time.Second
	// viewTimeout bounds the wait for members, for hosts and for the cursors.
	viewTimeout = time.Second
	// statusTimeout bounds what a member does to say how it stands: less, so that its answer is in
	// time although its store hangs.
	statusTimeout = 700 * time.Millisecond
	// loadsAtOnce bounds the counts that are read from the queue at once.
	loadsAtOnce = 8
)

// clusterView tells what GET /v1/cluster answers: members by gossip, how each stands by its own word,
// the cursors from the store, and which hosts of store and queue answer.
type clusterView struct {
	name, version, region string
	lanes                 int
	store                 viewedStore
	queue                 Queue
	ring                  Ring
	members               *members
	now                   func() time.Time
	log                   *slog.Logger

	lately lately[httpapi.Cluster]

	cursors   []schema.Cursor // as they were read last
	cursorsAt time.Time
}

// newView makes the view of this node, whose process began at started.
func (n *Node) newView(started time.Time) *clusterView {
	log := n.log.With("part", "view")
	m := newMembers(n.cfg.Node.Name, started, n.queue, n.ready, n.executor, log)
	m.waiting = func() []httpapi.WaitingRuns { return waitingRuns(n) }
	return &clusterView{
		name: n.cfg.Node.Name, version: n.opts.Version, region: n.cfg.Node.Region, lanes: n.cfg.NATS.Lanes,
		store: n.store, queue: n.queue, ring: n.ring, now: n.now, log: log, lately: newLately[httpapi.Cluster](),
		members: m,
	}
}

// waitsTold bounds the reasons for which runs wait that one node tells of.
const waitsTold = 50

// waitingRuns returns what the node knows of runs that are due and may not start.
func waitingRuns(n *Node) []httpapi.WaitingRuns {
	var all []httpapi.WaitingRuns
	if n.dispatcher != nil {
		if runs, oldest := n.dispatcher.Backlog(); runs > 0 {
			all = append(all, httpapi.WaitingRuns{Reason: "executors", Runs: int64(runs), Oldest: httpapi.Time{Time: oldest}})
		}
	}
	for _, w := range n.waits.All() {
		if len(all) == waitsTold {
			break
		}
		all = append(all, httpapi.WaitingRuns{
			Tenant: w.Tenant, Task: w.Task, Job: w.Job, Reason: w.Reason, Runs: w.Runs, More: w.More, Oldest: httpapi.Time{Time: w.Oldest.UTC()},
		})
	}
	return all
}

// viewedStore is what a view needs of the store.
type viewedStore interface {
	Cursors(ctx context.Context) ([]schema.Cursor, error)
	Time(ctx context.Context) (time.Time, error)
	Clocks() []schema.HostClock
}

// Cluster returns the view, at most viewAge old. The error is that of ctx.
func (v *clusterView) Cluster(ctx context.Context) (httpapi.Cluster, error) {
	return v.lately.get(ctx, viewAge, v.look)
}

// labelsOf returns the labels that a member tells of its executor; nil: it has none that are
// understood.
func labelsOf(text string) schema.Labels {
	labels, err := schema.ParseLabels(text)
	if err != nil {
		return nil
	}
	return labels
}

// look makes a new view. One at a time does so.
func (v *clusterView) look(ctx context.Context) httpapi.Cluster {
	bounded, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	snapshot := v.ring.Snapshot()
	c := httpapi.Cluster{Node: v.name, Version: v.version, AsOf: httpapi.Time{Time: v.now()}}
	c.Lost = v.lost()
	if v.region != "" {
		c.Regions = []httpapi.Region{{Name: v.region, Local: true, Epoch: 1}}
	}
	var wg sync.WaitGroup
	wg.Go(func() { c.Members = v.memberList(bounded, snapshot) })
	wg.Go(func() { c.Shards = v.shards(bounded, snapshot) })
	wg.Go(func() { c.Store = v.storeHealth(bounded) })
	wg.Go(func() { c.Queue = v.queueHealth(bounded) })
	wg.Wait()
	c.ShardsAsOf = httpapi.Time{Time: v.cursorsAt}
	return c
}

// memberList asks the members how they stand.
func (v *clusterView) memberList(ctx context.Context, snapshot *ring.Snapshot) []httpapi.Member {
	all := snapshot.Members()
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	answers, why := v.members.ask(ctx, names)
	list := make([]httpapi.Member, len(all))
	for i, m := range all {
		list[i] = httpapi.Member{
			Name: m.Name, Address: m.Addr, API: m.API, Roles: m.Roles, Unhealthy: m.Unhealthy, Zone: m.Zone, Region: m.Region, Version: m.Version, Labels: labelsOf(m.Labels),
		}
		said, ok := answers[m.Name]
		if !ok {
			list[i].Checks = []httpapi.Check{{Name: "answer", Message: why}}
			continue
		}
		list[i].Checks, list[i].Slots, list[i].Waiting, list[i].StartedAt = said.Checks, said.Slots, said.Waiting, httpapi.Time{Time: said.StartedAt}
		list[i].Ready = !slices.ContainsFunc(said.Checks, func(c httpapi.Check) bool { return !c.OK })
	}
	return list
}

// lostFor is for how long a member is told of that went without a word. One that comes back under
// another name does not stay in the view for ever.
const lostFor = 24 * time.Hour

// lost returns the members that went without a word.
func (v *clusterView) lost() (list []httpapi.Lost) {
	r, ok := v.ring.(interface{ Lost() map[string]time.Time })
	if !ok { // a ring of one
		return nil
	}
	for name, at := range r.Lost() {
		if v.now().Sub(at) < lostFor {
			list = append(list, httpapi.Lost{Name: name, Since: httpapi.Time{Time: at}})
		}
	}
	slices.SortFunc(list, func(a, b httpapi.Lost) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// shards returns the shards with their owners, by the cursors as they were read last.
func (v *clusterView) shards(ctx context.Context, snapshot *ring.Snapshot) []httpapi.Shard {
	cursors, err := v.store.Cursors(ctx)
	if err == nil {
		v.cursors, v.cursorsAt = cursors, v.now()
	} else {
		v.log.Debug("cursors could not be read for a view of the cluster", "err", err)
	}
	now := schema.BucketOf(v.now())
	list := make([]httpapi.Shard, 0, len(v.cursors))
	for _, cur := range v.cursors {
		s := httpapi.Shard{
			Shard: cur.Shard, Epoch: cur.Epoch, Dispatched: httpapi.Time{Time: cur.Dispatched.End()}, Settled: httpapi.Time{Time: cur.Settled.End()},
			BehindSeconds: max(now.Start().Sub(cur.Dispatched.End()).Seconds(), 0),
		}
		if owner, ok := snapshot.Owner(cur.Shard); ok {
			s.Owner = owner.Name
		}
		list = append(list, s)
	}
	return list
}

func (v *clusterView) storeHealth(ctx context.Context) httpapi.ClusterHealth {
	h := httpapi.ClusterHealth{OK: true}
	var wg sync.WaitGroup
	wg.Go(func() { h.Hosts = hostsOf(ctx, v.store.Clocks()) })
	_, err := v.store.Time(ctx)
	if err != nil {
		h.OK, h.Message = false, reasonOf(err)
	}
	wg.Wait()
	return h
}

func (v *clusterView) queueHealth(ctx context.Context) httpapi.QueueHealth {
	var h httpapi.QueueHealth
	var wg sync.WaitGroup
	wg.Go(func() { h.Hosts = hostsOf(ctx, v.queue.Clocks()) })
	err := v.queue.Ready()
	if err == nil { // a connection to a server that hangs is up for some seconds
		var waiting, held int
		if waiting, held, err = v.load(ctx); err == nil {
			h.OK, h.Waiting, h.Held = true, &waiting, &held
		}
	}
	if err != nil {
		h.Message = reasonOf(err)
	}
	wg.Wait()
	return h
}

// load counts the messages of all lanes.
func (v *clusterView) load(ctx context.Context) (waiting, held int, err error) {
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(loadsAtOnce)
	for lane := range v.lanes {
		for _, p := range schema.Priorities {
			g.Go(func() error {
				l, err := v.queue.Load(ctx, queue.Lane(lane), p)
				mu.Lock()
				defer mu.Unlock()
				waiting, held = waiting+l.Waiting, held+l.Held
				return err
			})
		}
	}
	err = g.Wait()
	return waiting, held, err
}

// hostsOf asks each host for its time: one that tells it is up. A server in this process is none.
func hostsOf(ctx context.Context, clocks []schema.HostClock) []httpapi.Host {
	clocks = slices.DeleteFunc(slices.Clone(clocks), func(c schema.HostClock) bool { return c.Host == "" && c.Name == "" })
	list := make([]httpapi.Host, len(clocks))
	var wg sync.WaitGroup
	for i, c := range clocks {
		wg.Go(func() {
			list[i].Name = c.Name
			if c.Name == "" {
				list[i].Name = c.Host
			}
			_, err := c.Time(ctx)
			if list[i].Up = err == nil; err != nil {
				list[i].Message = reasonOf(err)
			}
		})
	}
	wg.Wait()
	slices.SortFunc(list, func(a, b httpapi.Host) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// reasonOf says in one line why something is not well.
func reasonOf(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %v", viewTimeout)
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// lately keeps an answer for a while. One caller asks, and all who come meanwhile have its answer.
type lately[T any] struct {
	turn   chan struct{} // cap 1: held by who asks
	at     time.Time
	answer T
}

func newLately[T any]() lately[T] { return lately[T]{turn: make(chan struct{}, 1)} }

// get returns the answer, if it is at most age old, or else asks. What is asked goes on although the
// caller leaves: ask has its own bound. The error is that of ctx.
func (l *lately[T]) get(ctx context.Context, age time.Duration, ask func(context.Context) T) (T, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("wait for an answer: %w", ctx.Err())
	}
	defer func() { <-l.turn }()
	if l.at.IsZero() || time.Since(l.at) > age {
		l.answer = ask(context.WithoutCancel(ctx))
		l.at = time.Now()
	}
	return l.answer, nil
}
