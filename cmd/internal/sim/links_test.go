package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// link is a connection of a node.
type link int

const (
	toStore link = iota
	toQueue
	toRing // the other nodes, by gossip
	links
)

// cut is how a link is cut.
type cut int

const (
	uncut        cut = iota
	refused          // calls fail at once
	silent           // calls get no answer, and time out
	sendsNothing     // what the node sends is lost, and what is sent to it arrives
	hearsNothing     // what the node sends arrives, and the answers are lost
	hanging          // calls neither fail nor return, until the link is well again or their time is up
)

// cutsOf are the ways in which a link may be cut. Lost answers of the store are left to
// Faults.Store: there both a row and the late entry that replaces it may start, and the judge knows
// it.
var cutsOf = [links][]cut{
	toStore: {refused, silent, hanging},
	toQueue: {silent, sendsNothing, hearsNothing},
	toRing:  {silent},
}

// storeGivesUp is how long a driver waits for an answer.
const storeGivesUp = 4 * time.Second

// rejoin bounds the time until the ring finds a member again after a cut.
const rejoin = 15 * time.Second

// Cuts are links that are cut, of one node at a time, or of all at once.
type Cuts struct {
	Links []link        // one of these is drawn for each
	Count int           // in the scenario's span
	Each  time.Duration // how long one lasts
	Flap  time.Duration // it is down and up for so long in turn; 0 = down all the time
	All   bool          // of all nodes at once
}

// cuts plans cut links: of one node at a time, or of all nodes at once.
func (w *world) cuts(wg *sync.WaitGroup) {
	s := w.s.Cuts
	rng := rand.New(rand.NewPCG(w.s.Seed, 8)) // #nosec G404 -- drawn from the seed
	turn := w.s.Span / time.Duration(max(s.Count, 1))
	for i := range s.Count {
		spare := max(turn-s.Each-unhealthyFor, 0)
		when := turn*time.Duration(i) + time.Duration(rng.Float64()*float64(spare))
		of := s.Links[rng.IntN(len(s.Links))]
		how := cutsOf[of][rng.IntN(len(cutsOf[of]))]
		nodes := []*Node{w.c.nodes[rng.IntN(len(w.c.nodes))]}
		if s.All {
			nodes = w.c.nodes
		}
		for _, n := range nodes {
			wg.Go(func() {
				time.Sleep(when)
				down := true
				for left := s.Each; left > 0; down = !down {
					if n.setLink(of, uncut); down {
						n.setLink(of, how)
					}
					next := left
					if s.Flap > 0 {
						next = min(s.Flap, left)
					}
					time.Sleep(next)
					left -= next
				}
				n.setLink(of, uncut)
			})
		}
	}
}

// unhealthyFor bounds how long a node stays unhealthy after its fault has ended.
const unhealthyFor = 40 * time.Second

// setLink cuts a link of the node, or heals it.
func (n *Node) setLink(l link, how cut) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if n.links[l] == how {
		return
	}
	n.links[l] = how
	if l == toStore && n.healed != nil {
		close(n.healed)
		n.healed = nil
	}
	if l == toStore && how == hanging {
		n.healed = make(chan struct{})
	}
	switch {
	case l == toQueue && n.up && how == silent:
		n.conn.Cut()
	case l == toQueue && n.up:
		n.conn.Heal()
	case l == toRing && how != uncut:
		n.c.gossip(detection)
	case l == toRing:
		n.c.gossip(rejoin)
	}
}

// storeFault returns the fault of one call of the store by the node.
func (n *Node) storeFault(ctx context.Context) schematest.Fault {
	n.c.mu.Lock()
	how, healed := n.links[toStore], n.healed
	n.c.mu.Unlock()
	switch how {
	case refused:
		return schematest.Fault{Fail: true}
	case silent, sendsNothing:
		return schematest.Fault{Delay: storeGivesUp, Silent: true}
	case hanging:
		select {
		case <-healed:
		case <-ctx.Done():
		}
		return schematest.Fault{Silent: true}
	}
	return n.c.storeFault()
}

// loses reports whether a link to the queue that is cut in one direction loses a message at p. The
// caller holds mu.
func (n *Node) loses(p inproc.Point) bool {
	switch n.links[toQueue] {
	case sendsNothing:
		return slices.Contains([]inproc.Point{inproc.Publish, inproc.Ack, inproc.Hint, inproc.Notice, inproc.Signal}, p)
	case hearsNothing:
		// a connection over which deliveries are lost is found dead by pings, and ends
		return p == inproc.Receipt
	}
	return false
}

// linked is the queue as a dispatcher reaches it: over a link that is cut in one direction,
// readings fail too.
type linked struct {
	*inproc.Conn
	n *Node
	l *life
}

// Publish is the connection's, of an entry as it is stored; noted if there are regions.
func (q linked) Publish(ctx context.Context, lane queue.Lane, env *queue.Envelope, done func(queue.Receipt, error)) error {
	q.n.c.regions.acts(q.n, q.l, env.Entry.ID.Shard(), "publication", env.Epoch)
	stored, err := q.l.sealed.SealOne(ctx, &env.Entry)
	if err != nil {
		return err
	}
	if stored != nil {
		sent := *env
		sent.Entry.Payload = stored
		env = &sent
	}
	q.n.c.overhear(&env.Entry)
	return q.Conn.Publish(ctx, lane, env, done)
}

// Load is the connection's, unless the link is cut.
func (q linked) Load(ctx context.Context, lane queue.Lane, p schema.Priority) (queue.Load, error) {
	q.n.c.mu.Lock()
	how := q.n.links[toQueue]
	q.n.c.mu.Unlock()
	if how == uncut {
		return q.Conn.Load(ctx, lane, p)
	}
	timer := time.NewTimer(inproc.PublishTimeout)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return queue.Load{}, inproc.ErrNoAnswer
}

// hears reports whether the node hears of another one by gossip. The caller holds mu.
func (n *Node) hears(other *Node) bool {
	return n == other || n.at == other.at && n.links[toRing] == uncut && other.links[toRing] == uncut
}

// ReportHealth records whether the node can dispatch, and gossips it.
func (r simRing) ReportHealth(healthy bool) error {
	c := r.n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.n.life == r.l {
		r.n.unhealthy = !healthy
		c.gossip(gossipDelay)
	}
	return nil
}

// known is the node as the other members know it. A suspended node is no dispatcher.
func (n *Node) known() ring.Member {
	m := n.member(n.number)
	if n.suspended || n.stopping || n.unhealthy {
		m.Roles, m.Unhealthy = nil, !n.suspended && !n.stopping
	}
	if n.stopping { // it has left
		m.Labels = ""
	}
	return m
}
