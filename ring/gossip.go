package ring

import (
	"context"
	"log"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// maxGone bounds the members that left or died and are remembered.
const maxGone = 256

// gossip is what memberlist calls back. It keeps its own copy of the members: the nodes that
// memberlist.Members returns are written to behind the reader's back. Nothing here may call
// memberlist, which holds its lock around these calls.
type gossip struct {
	log     *slog.Logger
	metrics *metrics

	name                string
	meta, metaOnLeaving []byte
	metaSuspended       []byte // without the role of a dispatcher
	metaUnhealthy       []byte // the same, and unhealthy

	leaving, suspended, unhealthy atomic.Bool

	// changed and conflict hold one signal each, so that sending never blocks.
	changed, conflict chan struct{}

	mu      sync.Mutex
	members map[string]Member
	gone    map[string]Status
	order   []string             // names in gone, the oldest first; a name may stand there twice
	died    map[string]time.Time // when those in gone were given up that are Dead
}

func newGossip(c Config, m *metrics) (*gossip, error) {
	g := &gossip{
		log: c.Logger, metrics: m, name: c.Name,
		changed: make(chan struct{}, 1), conflict: make(chan struct{}, 1),
		members: map[string]Member{}, gone: map[string]Status{}, died: map[string]time.Time{},
	}
	var err error
	if g.meta, err = encodeMetadata(c.member(), false); err != nil {
		return nil, err
	}
	if g.metaOnLeaving, err = encodeMetadata(c.member(), true); err != nil {
		return nil, err
	}
	atRest := c.member()
	atRest.Roles = slices.DeleteFunc(slices.Clone(atRest.Roles), func(r string) bool { return r == RoleDispatcher })
	if g.metaSuspended, err = encodeMetadata(atRest, false); err != nil {
		return nil, err
	}
	if c.member().Has(RoleDispatcher) {
		atRest.Unhealthy = true
	}
	if g.metaUnhealthy, err = encodeMetadata(atRest, false); err != nil {
		return nil, err
	}
	return g, nil
}

// view returns copies of the live members and of the status of the others.
func (g *gossip) view() ([]Member, map[string]Status) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Values(g.members)), maps.Clone(g.gone)
}

// lost returns the dead, and since when they are.
func (g *gossip) lost() map[string]time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.died)
}

// addresses returns where the live members' gossip is reached.
func (g *gossip) addresses() map[string]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	live := make(map[string]bool, len(g.members))
	for _, m := range g.members {
		live[m.Addr] = true
	}
	return live
}

// NotifyJoin is called when a member appears or comes back.
func (g *gossip) NotifyJoin(n *memberlist.Node) { g.update(n) }

// NotifyUpdate is called when a member's metadata is new: it was restarted, or is about to leave.
func (g *gossip) NotifyUpdate(n *memberlist.Node) { g.update(n) }

func (g *gossip) update(n *memberlist.Node) {
	m, leaving, err := decodeMetadata(n.Name, n.Address(), n.Meta)
	g.mu.Lock()
	switch {
	case err != nil:
		delete(g.members, n.Name)
	case leaving:
		g.markGone(n.Name, Left)
	default:
		g.members[n.Name] = m
		delete(g.gone, n.Name)
		delete(g.died, n.Name)
	}
	g.mu.Unlock()
	if err != nil {
		g.metrics.refused.Inc()
		g.log.Warn("member refused", "member", n.Name, "addr", n.Address(), "err", err)
	}
	signal(g.changed)
}

// NotifyLeave is called when a member is gone, on purpose or not.
func (g *gossip) NotifyLeave(n *memberlist.Node) {
	g.mu.Lock()
	if _, ok := g.members[n.Name]; ok { // else it had announced that it leaves
		g.markGone(n.Name, Dead)
	}
	status := g.gone[n.Name]
	g.mu.Unlock()
	g.metrics.departed(status)
	g.log.Info("member gone", "member", n.Name, "status", status.String())
	signal(g.changed)
}

// markGone moves a member to those gone. Called with mu held.
func (g *gossip) markGone(name string, status Status) {
	delete(g.members, name)
	g.gone[name] = status
	delete(g.died, name)
	if status == Dead {
		g.died[name] = time.Now().UTC()
	}
	g.order = append(g.order, name)
	if len(g.order) > maxGone {
		oldest := g.order[0]
		g.order = slices.Delete(g.order, 0, 1)
		if !slices.Contains(g.order, oldest) {
			delete(g.gone, oldest)
			delete(g.died, oldest)
		}
	}
}

// NotifyConflict is called when two addresses claim one name. If the name is ours, our former self
// is still believed to be alive; we have to come back when it is not any more.
func (g *gossip) NotifyConflict(existing, other *memberlist.Node) {
	if existing.Name == g.name { // memberlist logs the conflicts of others
		g.log.Warn("our name is in use", "member", g.name, "by", other.Address())
		signal(g.conflict)
	}
}

// NodeMeta returns what we tell of ourselves.
func (g *gossip) NodeMeta(int) []byte {
	switch {
	case g.leaving.Load():
		return g.metaOnLeaving
	case g.suspended.Load():
		return g.metaSuspended
	case g.unhealthy.Load():
		return g.metaUnhealthy
	}
	return g.meta
}

// The rest of memberlist's delegate: we send no messages of our own.

// NotifyMsg does nothing.
func (*gossip) NotifyMsg([]byte) {}

// GetBroadcasts returns nothing.
func (*gossip) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState returns nothing.
func (*gossip) LocalState(bool) []byte { return nil }

// MergeRemoteState does nothing.
func (*gossip) MergeRemoteState([]byte, bool) {}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is waiting already
	}
}

// logWriter turns memberlist's log lines ("[WARN] memberlist: …") into records. Its errors are our
// warnings: gossip lives with them.
type logWriter struct{ log *slog.Logger }

func newLogger(to *slog.Logger) *log.Logger { return log.New(logWriter{to}, "", 0) }

func (l logWriter) Write(p []byte) (int, error) {
	level, text := slog.LevelWarn, strings.TrimSpace(string(p))
	if tag, rest, ok := strings.Cut(text, "] "); ok && strings.HasPrefix(tag, "[") {
		text = rest
		switch tag {
		case "[DEBUG":
			level = slog.LevelDebug
		case "[INFO":
			level = slog.LevelInfo
		}
	}
	l.log.Log(context.Background(), level, "gossip", "detail", strings.TrimPrefix(text, "memberlist: "))
	return len(p), nil
}
