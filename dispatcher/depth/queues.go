package depth

import (
	"cmp"
	"container/heap"
	"time"

	"carillon.dev/carillon/dispatcher/queue/fair"
	"carillon.dev/carillon/schema"
)

// Ticket is an entry's place in its tenant's line.
type Ticket struct {
	Subject Subject
	Tenant  string
	Overdue bool      // such tickets come last in their line
	At      time.Time // when it is to be published
	ID      schema.EntryID
	To      Recipient

	index int // in its line; -1 = granted or withdrawn
}

// Recipient is told when a ticket was granted. Granted must not block.
type Recipient interface{ Granted(t *Ticket) }

// deliver tells the recipients; the caller does not hold the controller's mutex.
func deliver(granted []*Ticket) {
	for _, t := range granted {
		t.To.Granted(t)
	}
}

// queues are the lines of a subject's tenants. The controller's mutex guards them.
type queues struct {
	round    fair.Round[*tenantQueue]
	byTenant map[string]*tenantQueue
	early    int // taken out of turn since the last reading
}

// tenantQueue is one tenant's line, over all shards of the dispatcher.
type tenantQueue struct {
	flow    fair.Flow[*tenantQueue]
	tickets tickets
	early   int // taken out of turn since the last reading
}

// of returns the line of a tenant, and makes it.
func (qs *queues) of(tenant string, weight int) *tenantQueue {
	q, ok := qs.byTenant[tenant]
	if !ok {
		q = new(tenantQueue)
		q.flow.Of = q
		qs.round.Weigh(&q.flow, weight)
		if qs.byTenant == nil {
			qs.byTenant = make(map[string]*tenantQueue)
		}
		qs.byTenant[tenant] = q
	}
	return q
}

// outOfTurn takes one out of turn, if the tenant is not queued and has had less than its share of
// what the last reading granted.
func (qs *queues) outOfTurn(tenant string, weight, given int) bool {
	q := qs.of(tenant, weight)
	if q.flow.Waits() {
		return false
	}
	share := given * q.flow.Weight() / (qs.round.Weights() + q.flow.Weight())
	if q.early >= share || qs.early >= given {
		return false
	}
	q.early++
	qs.early++
	qs.round.Owe(&q.flow)
	return true
}

func (qs *queues) add(t *Ticket, weight int) {
	q := qs.of(t.Tenant, weight)
	heap.Push(&q.tickets, t)
	qs.round.Join(&q.flow)
}

// next removes and returns the ticket whose turn it is; nil if none is queued.
func (qs *queues) next() *Ticket {
	f := qs.round.Next()
	if f == nil {
		return nil
	}
	t := heap.Pop(&f.Of.tickets).(*Ticket)
	if len(f.Of.tickets) == 0 {
		qs.round.Leave(f)
	}
	return t
}

func (qs *queues) remove(t *Ticket) bool {
	if t.index < 0 {
		return false
	}
	q := qs.byTenant[t.Tenant]
	heap.Remove(&q.tickets, t.index)
	if len(q.tickets) == 0 {
		qs.round.Leave(&q.flow)
	}
	return true
}

// back notes that a tenant could not use its turn.
func (qs *queues) back(tenant string) {
	if q, ok := qs.byTenant[tenant]; ok && q.flow.Waits() {
		qs.round.Back(&q.flow)
	}
}

// observed begins the time until the next reading. Tenants that are not queued are forgotten, and
// their debts with them.
func (qs *queues) observed() {
	qs.early = 0
	for tenant, q := range qs.byTenant {
		if q.early = 0; !q.flow.Waits() {
			delete(qs.byTenant, tenant)
		}
	}
}

// tickets is a heap: those on time first, then by time of publication, then by id.
type tickets []*Ticket

func (h tickets) Len() int { return len(h) }
func (h tickets) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.Overdue != b.Overdue {
		return b.Overdue
	}
	return cmp.Or(a.At.Compare(b.At), a.ID.Compare(b.ID)) < 0
}

func (h tickets) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push and Pop are container/heap's.
func (h *tickets) Push(x any) {
	t := x.(*Ticket)
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop removes the last element.
func (h *tickets) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = -1
	return t
}
