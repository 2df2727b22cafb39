package dispatcher

import (
	"cmp"
	"container/heap"
	"time"

	"carillon.dev/carillon/dispatcher/queue/fair"
	"carillon.dev/carillon/schema"
)

// claim is an entry of a shard that waits for its tenant's turn.
type claim struct {
	o        *opened
	to       *shard
	tenant   string
	priority schema.Priority
	behind   bool
	at       time.Time
	id       schema.EntryID
	index    int // in its line; -1 = it was granted, or withdrawn
}

// lines are those who wait for the budget of a subject: a line for each tenant, in the order of due times over all the shards that are
// dispatched here, what is behind its time after what is not. The tenants have their turns by weight. The budget's mutex guards it.
type lines struct {
	round    fair.Round[*line]
	byTenant map[string]*line
	early    int // given out of turn since the last refill: at most as much again as all were given
}

type line struct {
	flow   fair.Flow[*line]
	claims claims
	taken  int // since the last refill, out of turn
}

// line returns the line of a tenant, and makes it.
func (ls *lines) line(tenant string, weight int) *line {
	l, ok := ls.byTenant[tenant]
	if !ok {
		l = new(line)
		l.flow.Of = l
		ls.round.Weigh(&l.flow, weight)
		if ls.byTenant == nil {
			ls.byTenant = make(map[string]*line)
		}
		ls.byTenant[tenant] = l
	}
	return l
}

// newcomer reports whether a tenant may have one out of turn: it does not wait, and has had less than its share of what was given at the last refill.
func (ls *lines) newcomer(tenant string, weight, given int) bool {
	l := ls.line(tenant, weight)
	if l.flow.Waits() {
		return false
	}
	share := given * l.flow.Weight() / (ls.round.Weights() + l.flow.Weight())
	if l.taken >= share || ls.early >= given {
		return false
	}
	l.taken++
	ls.early++
	ls.round.Owe(&l.flow)
	return true
}

func (ls *lines) add(tenant string, weight int, c *claim) {
	l := ls.line(tenant, weight)
	heap.Push(&l.claims, c)
	ls.round.Join(&l.flow)
}

// next removes and returns the claim whose turn it is; nil if none waits.
func (ls *lines) next() *claim {
	f := ls.round.Next()
	if f == nil {
		return nil
	}
	c := heap.Pop(&f.Of.claims).(*claim)
	if len(f.Of.claims) == 0 {
		ls.round.Leave(f)
	}
	return c
}

func (ls *lines) remove(tenant string, c *claim) bool {
	if c.index < 0 {
		return false
	}
	l := ls.byTenant[tenant]
	heap.Remove(&l.claims, c.index)
	if len(l.claims) == 0 {
		ls.round.Leave(&l.flow)
	}
	return true
}

// back notes that a tenant could not use its turn.
func (ls *lines) back(tenant string) {
	if l, ok := ls.byTenant[tenant]; ok && l.flow.Waits() {
		ls.round.Back(&l.flow)
	}
}

// turn begins the time until the next refill: who does not wait is forgotten, with what it owes.
func (ls *lines) turn() {
	ls.early = 0
	for tenant, l := range ls.byTenant {
		if l.taken = 0; !l.flow.Waits() {
			delete(ls.byTenant, tenant)
		}
	}
}

// tell tells the shards whose turn it is.
func tell(granted []*claim) {
	for _, c := range granted {
		c.to.mail.addGrant(c)
	}
}

// claims is a heap: what is on time first, then by time of publication, then by id.
type claims []*claim

func (h claims) Len() int { return len(h) }
func (h claims) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.behind != b.behind {
		return b.behind
	}
	return cmp.Or(a.at.Compare(b.at), a.id.Compare(b.id)) < 0
}

func (h claims) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push and Pop are container/heap's.
func (h *claims) Push(x any) {
	c := x.(*claim)
	c.index = len(*h)
	*h = append(*h, c)
}

// Pop removes the last element.
func (h *claims) Pop() any {
	old := *h
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	c.index = -1
	return c
}
