package cassandra

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocql/gocql"
)

// How a request that fails or takes long is repeated.
const (
	maxRetries       = 5
	minRetryWait     = 50 * time.Millisecond
	maxRetryWait     = time.Second
	speculativeTries = 2 // further nodes asked while the first does not answer …
	speculativeDelay = 100 * time.Millisecond

	// maxInFlight bounds the plain statements of one process under way. When Cassandra slows down,
	// the others wait here, where they cost a place in a queue, and not there. While most statements
	// take more than a part in slowPart of the time-out, fewer are under way, down to minInFlight
	// (package congestion): those that were given up are still worked on there.
	maxInFlight = 256
	minInFlight = 4
	slowPart    = 4
	// One slow node in three makes up to two thirds of the statements slow. If more than
	// lingerShare of at least lingerLeast in a lingerSpan are slow, it is not one node, and asking
	// others makes it worse.
	lingerShare = 0.75
	lingerLeast = 20
	lingerSpan  = time.Second
)

// crowd tells a slow node from a slow cluster by how many of the latest statements took long.
type crowd struct {
	mu            sync.Mutex
	since         time.Time
	slow, all     int
	everybodySlow bool // by the last whole span
}

// observe notes how long a statement took, which ended at now.
func (c *crowd) observe(d time.Duration, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.since) >= lingerSpan {
		c.everybodySlow = c.all >= lingerLeast && float64(c.slow) > lingerShare*float64(c.all)
		c.since, c.slow, c.all = now, 0, 0
	}
	c.all++
	if d > speculativeDelay {
		c.slow++
	}
}

// slowAll reports whether nearly all statements of the last span were slow.
func (c *crowd) slowAll() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.everybodySlow
}

// retryWait returns how long to wait before retry number n (from 0): it doubles, spread by ±50 %.
func retryWait(n int) time.Duration {
	wait := min(minRetryWait<<n, maxRetryWait)
	return wait/2 + rand.N(wait) // #nosec G404 -- a spread, not a secret
}

// speculation asks further nodes when one is slow: never more than there are besides the first.
//
// The driver's own policy has a fixed number. If it asks for a node that does not exist, it ends
// the whole request with "no hosts available" while the first node still works on it.
type speculation struct {
	gocql.HostSelectionPolicy
	crowd crowd

	mu    sync.Mutex
	up    map[string]struct{}        // ids of hosts
	known map[string]*gocql.HostInfo // by id, also those that are down
}

func newSpeculation(policy gocql.HostSelectionPolicy) *speculation {
	return &speculation{
		HostSelectionPolicy: policy, up: make(map[string]struct{}), known: make(map[string]*gocql.HostInfo),
	}
}

// Attempts returns how many further nodes may be asked.
func (s *speculation) Attempts() int {
	if s.crowd.slowAll() {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, min(speculativeTries, len(s.up)-1))
}

// Delay returns how long each node has before the next is asked.
func (s *speculation) Delay() time.Duration { return speculativeDelay }

// AddHost, HostUp, RemoveHost and HostDown count the nodes, and pass them to the policy that
// chooses.
func (s *speculation) AddHost(h *gocql.HostInfo) { s.set(h, true); s.HostSelectionPolicy.AddHost(h) }

// HostUp is described at AddHost.
func (s *speculation) HostUp(h *gocql.HostInfo) { s.set(h, true); s.HostSelectionPolicy.HostUp(h) }

// RemoveHost is described at AddHost.
func (s *speculation) RemoveHost(h *gocql.HostInfo) {
	s.set(h, false)
	s.forget(h)
	s.HostSelectionPolicy.RemoveHost(h)
}

// HostDown is described at AddHost.
func (s *speculation) HostDown(h *gocql.HostInfo) {
	s.set(h, false)
	s.HostSelectionPolicy.HostDown(h)
}

func (s *speculation) set(h *gocql.HostInfo, up bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[h.HostID()] = h
	if up {
		s.up[h.HostID()] = struct{}{}
		return
	}
	delete(s.up, h.HostID())
}

// forget drops a host that left the cluster.
func (s *speculation) forget(h *gocql.HostInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, h.HostID())
}

// hosts returns every host of the local datacenter, up or down, in no order.
func (s *speculation) hosts() []*gocql.HostInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.known))
}

// Pick asks the host that the context of the query names, and no other. Without one the policy
// chooses.
func (s *speculation) Pick(q gocql.ExecutableQuery) gocql.NextHost {
	if q != nil { // the driver itself asks without a query
		if host, ok := q.Context().Value(onlyKey{}).(onlyHost); ok {
			return host.next()
		}
	}
	return s.HostSelectionPolicy.Pick(q)
}

// onlyKey is the key of a context that names the one host to ask.
type onlyKey struct{}

// onlyHost is that host.
type onlyHost struct{ info *gocql.HostInfo }

// Info implements gocql.SelectedHost.
func (h onlyHost) Info() *gocql.HostInfo { return h.info }

// Mark implements gocql.SelectedHost. One answer says nothing about the others.
func (h onlyHost) Mark(error) {}

// next offers the host once.
func (h onlyHost) next() gocql.NextHost {
	offered := false
	return func() gocql.SelectedHost {
		if offered {
			return nil
		}
		offered = true
		return h
	}
}

// guarded chooses hosts as the driver's token-aware policy does, and survives it.
//
// That policy panics, and so ends the process, when it works out the replicas of a keyspace that has
// all its copies in another data centre than the hosts that it knows, which are those of ours. It
// does so at the start, whenever a host comes or goes, and whenever anybody changes any keyspace of
// the cluster. After a panic its lock is held for ever, so it is not called again: from then on the
// hosts of our data centre take turns.
type guarded struct {
	keyspace string // ours; "" = none
	token    gocql.HostSelectionPolicy
	plain    gocql.HostSelectionPolicy // is told the same, and chooses once token is broken
	log      *slog.Logger

	mu     sync.Mutex // of the calls into token that change it: one that panics holds its lock
	broken atomic.Bool
}

func newGuarded(keyspace string, token, plain gocql.HostSelectionPolicy, log *slog.Logger) *guarded {
	return &guarded{keyspace: keyspace, token: token, plain: plain, log: log}
}

// tell calls both policies.
func (g *guarded) tell(call func(gocql.HostSelectionPolicy)) {
	call(g.plain)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken.Load() {
		return
	}
	defer func() {
		if fault := recover(); fault != nil {
			g.broken.Store(true)
			g.log.Error("the driver cannot tell where rows of the keyspace lie: nodes of the data centre are asked in turn, which is slower; look at the keyspace's replication, and start this process again",
				"keyspace", g.keyspace, "err", fmt.Sprint(fault))
		}
	}()
	call(g.token)
}

// Init implements gocql.HostSelectionPolicy, as do all exported methods.
func (g *guarded) Init(s *gocql.Session) {
	g.tell(func(p gocql.HostSelectionPolicy) { p.Init(s) })
}

// KeyspaceChanged passes on what concerns our own keyspace: no statement names another.
func (g *guarded) KeyspaceChanged(e gocql.KeyspaceUpdateEvent) {
	if e.Keyspace == g.keyspace {
		g.tell(func(p gocql.HostSelectionPolicy) { p.KeyspaceChanged(e) })
	}
}

// SetPartitioner is described at Init.
func (g *guarded) SetPartitioner(name string) {
	g.tell(func(p gocql.HostSelectionPolicy) { p.SetPartitioner(name) })
}

// AddHost is described at Init.
func (g *guarded) AddHost(h *gocql.HostInfo) {
	g.tell(func(p gocql.HostSelectionPolicy) { p.AddHost(h) })
}

// RemoveHost is described at Init.
func (g *guarded) RemoveHost(h *gocql.HostInfo) {
	g.tell(func(p gocql.HostSelectionPolicy) { p.RemoveHost(h) })
}

// HostUp is described at Init.
func (g *guarded) HostUp(h *gocql.HostInfo) {
	g.tell(func(p gocql.HostSelectionPolicy) { p.HostUp(h) })
}

// HostDown is described at Init.
func (g *guarded) HostDown(h *gocql.HostInfo) {
	g.tell(func(p gocql.HostSelectionPolicy) { p.HostDown(h) })
}

// IsLocal is described at Init.
func (g *guarded) IsLocal(h *gocql.HostInfo) bool { return g.plain.IsLocal(h) }

// Pick is described at Init.
func (g *guarded) Pick(q gocql.ExecutableQuery) gocql.NextHost {
	if g.broken.Load() {
		return g.plain.Pick(q)
	}
	return g.token.Pick(q)
}
