package ring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

var (
	// ErrNotReady: no seed has answered yet, in the first seconds, or the ring has stopped.
	ErrNotReady = errors.New("ring: not ready")
	// ErrUnreachable: there should be others, and none of them answered.
	ErrUnreachable = errors.New("ring: no other member answered")
)

const (
	announceTimeout = time.Second     // telling the others that we are about to leave
	leaveTimeout    = 2 * time.Second // leaving
)

// Ring is this process's part in the ring. Its methods may be called from anywhere at any time.
type Ring struct {
	publisher

	config  Config
	log     *slog.Logger
	metrics *metrics
	gossip  *gossip

	started atomic.Bool
	shards  atomic.Int64
	state   atomic.Pointer[running] // nil before memberlist runs
	rebuild chan chan struct{}      // asks Run's loop for a rebuild; the answer is a close
	wake    chan struct{}           // one signal: something besides the members has changed
}

// running is what there is only once gossip runs.
type running struct {
	list    *memberlist.Memberlist
	self    string        // our gossip address
	joined  chan struct{} // closed when a seed has answered, or we go on alone
	stopped chan struct{} // closed when Run was told to stop
}

// New checks the configuration and registers the metrics. Nothing is sent before Run.
func New(c Config) (*Ring, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Incarnation == 0 {
		c.Incarnation = uint64(max(1, time.Now().UnixMicro())) //nolint:gosec // not negative
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.lookup == nil {
		c.lookup = lookup
	}
	m, err := newMetrics(c.Registerer)
	if err != nil {
		return nil, fmt.Errorf("ring: %w", err)
	}
	g, err := newGossip(c, m)
	if err != nil {
		return nil, fmt.Errorf("ring: %w", err)
	}
	r := &Ring{
		config: c, log: c.Logger, metrics: m, gossip: g,
		rebuild: make(chan chan struct{}), wake: make(chan struct{}, 1),
	}
	r.shards.Store(int64(c.Shards))
	r.init()
	return r, nil
}

// Self returns how we describe ourselves to the others. Addr is empty until the first snapshot has
// us.
func (r *Ring) Self() Member {
	if m, ok := r.Snapshot().Member(r.config.Name); ok {
		return m
	}
	return r.config.member()
}

// SetShards sets the number of shards. It takes effect with the next snapshot, at once while Run
// runs.
func (r *Ring) SetShards(n int) error {
	if err := checkShards(n); err != nil {
		return fmt.Errorf("ring: %w", err)
	}
	if r.shards.Swap(int64(n)) != int64(n) {
		signal(r.wake)
	}
	return nil
}

// Ready returns nil once a seed has answered, or 5 s after the start: a node whose seeds are all
// down has to work alone. Before, and after Run was told to stop, it returns ErrNotReady.
func (r *Ring) Ready() error {
	s := r.state.Load()
	if s == nil || closed(s.stopped) || !closed(s.joined) {
		return ErrNotReady
	}
	return nil
}

// Refresh exchanges views with a live peer, and returns when a snapshot made after that is in
// place. A process that finds it was stopped calls it before it trusts the ring again.
// ErrUnreachable means that there should be others and none answered: the view may be old.
// ErrNotReady means that Run is not, or not any more, running. It takes at most a few seconds for
// each peer that does not answer; ctx bounds the whole.
func (r *Ring) Refresh(ctx context.Context) error {
	s := r.state.Load()
	if s == nil || closed(s.stopped) {
		return ErrNotReady
	}
	exchanged := r.exchange(ctx, s)
	done := make(chan struct{})
	select {
	case r.rebuild <- done:
	case <-s.stopped:
		return ErrNotReady
	case <-ctx.Done():
		return fmt.Errorf("refresh the ring: %w", ctx.Err())
	}
	select {
	case <-done:
	case <-s.stopped:
		return ErrNotReady
	}
	return exchanged
}

// Lost returns the members that were given up for dead and did not come back, with when that was.
// Of those that are gone at most 256 are remembered.
func (r *Ring) Lost() map[string]time.Time { return r.gossip.lost() }

// SuspendDispatch announces that this member does not dispatch, so that others take its shards, or
// (false) that it does again. A node whose clock is off calls it. The others hear it within a few
// hundred milliseconds. Called before Run, it holds from the start. ErrNotReady means that Run has
// ended, and any other error that some of the others may hear of it later.
func (r *Ring) SuspendDispatch(rest bool) error { return r.announce(&r.gossip.suspended, rest) }

// ReportHealth announces whether this member can dispatch. While it cannot, healthy dispatchers
// take its shards; while none is healthy, all keep theirs. Timing and errors are those of
// SuspendDispatch. A suspended member dispatches in no case, healthy or not.
func (r *Ring) ReportHealth(healthy bool) error { return r.announce(&r.gossip.unhealthy, !healthy) }

// announce sets a flag of our metadata, and gossips it if it has changed.
func (r *Ring) announce(what *atomic.Bool, is bool) error {
	changed := what.Swap(is) != is
	s := r.state.Load()
	switch {
	case s != nil && closed(s.stopped):
		return ErrNotReady
	case s == nil || !changed:
		return nil
	}
	if err := s.list.UpdateNode(announceTimeout); err != nil {
		return fmt.Errorf("ring: announce what is new of us: %w", err)
	}
	return nil
}

// Run takes part in the ring until ctx ends, then leaves it, and returns nil. It may be called
// once. It fails only if the gossip cannot be started, for instance because its address is in use.
// Leaving takes at most 3 s, and 6 s more if an exchange with a silent peer is under way.
func (r *Ring) Run(ctx context.Context) error {
	if !r.started.CompareAndSwap(false, true) {
		return errors.New("ring: Run called again")
	}
	c, err := r.config.memberlistConfig(r.gossip)
	if err != nil {
		return fmt.Errorf("ring: %w", err)
	}
	told := func() bool { return r.gossip.suspended.Load() || r.gossip.unhealthy.Load() }
	before := told()
	list, err := memberlist.Create(c)
	if err != nil {
		return fmt.Errorf("start gossip at %s: %w", r.config.bind(), err)
	}
	s := &running{
		list: list, self: list.LocalNode().Address(),
		joined: make(chan struct{}), stopped: make(chan struct{}),
	}
	r.state.Store(s)
	if before || told() { // set before gossip ran, and maybe not in the first metadata
		if err := list.UpdateNode(announceTimeout); err != nil {
			r.log.Warn("the suspension was not announced", "err", err)
		}
	}
	r.log.Info("gossip started", "member", r.config.Name, "addr", s.self, "encrypted", r.config.Key != "")

	var joiner sync.WaitGroup
	joiner.Go(func() { r.keepJoining(ctx, s) })
	r.follow(ctx, s)

	close(s.stopped)
	r.publishView(nil, nil)
	r.leave(list)
	joiner.Wait()
	return nil
}

// follow publishes a snapshot at every change, until ctx ends.
func (r *Ring) follow(ctx context.Context, s *running) {
	joined := s.joined
	for {
		var done chan struct{}
		select {
		case <-ctx.Done():
			return
		case <-joined:
			joined = nil
		case <-r.gossip.changed:
		case <-r.wake:
		case done = <-r.rebuild:
		}
		if joined == nil { // invariant 5
			r.publishView(r.gossip.view())
		}
		if done != nil {
			close(done)
		}
	}
}

// publishView publishes the view of these members, if it is a new one.
func (r *Ring) publishView(members []Member, gone map[string]Status) {
	fresh, err := r.publish(time.Now().UTC(), members, gone, int(r.shards.Load()))
	// names are keys of a map and checked on the way in, and so is the number of shards
	if err != nil {
		r.log.Error("ring not rebuilt", "err", err)
		return
	}
	if !fresh {
		return
	}
	snapshot := r.Snapshot()
	r.metrics.published(snapshot, r.config.Name)
	r.log.Info("ring rebuilt", "version", snapshot.Version(), "members", len(snapshot.members),
		"dispatchers", len(snapshot.dispatchers), "shards", snapshot.Shards(), "owned", len(snapshot.Owned(r.config.Name)))
}

// leave announces that we are about to leave, so that others take our shards and count us as left,
// not dead. Then it leaves and stops the gossip.
func (r *Ring) leave(list *memberlist.Memberlist) {
	r.gossip.leaving.Store(true)
	if err := list.UpdateNode(announceTimeout); err != nil {
		r.log.Warn("leaving not announced", "err", err)
	}
	if err := list.Leave(leaveTimeout); err != nil {
		r.log.Warn("leaving was not confirmed", "err", err)
	}
	if err := list.Shutdown(); err != nil {
		r.log.Warn("gossip not shut down", "err", err)
	}
}
