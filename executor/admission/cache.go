package admission

import (
	"container/heap"
	"container/list"
	"time"
)

// staleAfter is how long ago a load must have been used to be forgotten first: nothing that was
// deferred comes back later.
const staleAfter = 3 * deferMost

// loadCache are the loads that a controller remembers, by tenant. It forgets stale ones first, then
// the oldest of the tenant that has most.
//
// Without the first rule, many tenants that once made a call would in time leave no room to those
// that make some. In one order for all, a tenant that calls a new host each time would have the
// open circuits of all others forgotten. A bound for each tenant would have to be small, as there
// may be many. Loads with an open circuit are not preferred: what a tenant forgets is its own.
type loadCache struct {
	byTenant map[string]*tenantLoads // by tenant; none is empty
	largest  []*tenantLoads          // a heap: the tenant with most first
	all      list.List               // of *load, of all tenants, the one used last in front
}

// tenantLoads is what is remembered of one tenant.
type tenantLoads struct {
	order list.List // of *load, the one used last in front
	at    int       // in most
}

// put adds a load, as the one used last.
func (s *loadCache) put(l *Load, now time.Time) {
	t := s.byTenant[l.key.tenant]
	if t == nil {
		t = &tenantLoads{}
		s.byTenant[l.key.tenant] = t
		heap.Push(s, t)
	}
	l.owner, l.inTenant, l.inAll, l.used = t, t.order.PushFront(l), s.all.PushFront(l), now
	heap.Fix(s, t.at)
}

// touch notes that a load is used.
func (s *loadCache) touch(l *Load, now time.Time) {
	l.owner.order.MoveToFront(l.inTenant)
	s.all.MoveToFront(l.inAll)
	l.used = now
}

// evict takes out what is to be forgotten next. There must be some.
func (s *loadCache) evict(now time.Time) *Load {
	l := s.all.Back().Value.(*Load)
	if now.Sub(l.used) < staleAfter {
		l = s.largest[0].order.Back().Value.(*Load)
	}
	t := l.owner
	t.order.Remove(l.inTenant)
	s.all.Remove(l.inAll)
	l.owner, l.inTenant, l.inAll = nil, nil, nil
	if t.order.Len() > 0 {
		heap.Fix(s, t.at)
	} else {
		heap.Remove(s, t.at)
		delete(s.byTenant, l.key.tenant)
	}
	return l
}

// Len, Less, Swap, Push and Pop are container/heap's.
func (s *loadCache) Len() int { return len(s.largest) }

func (s *loadCache) Less(i, j int) bool { return s.largest[i].order.Len() > s.largest[j].order.Len() }

func (s *loadCache) Swap(i, j int) {
	s.largest[i], s.largest[j] = s.largest[j], s.largest[i]
	s.largest[i].at, s.largest[j].at = i, j
}

func (s *loadCache) Push(x any) {
	t := x.(*tenantLoads)
	t.at = len(s.largest)
	s.largest = append(s.largest, t)
}

func (s *loadCache) Pop() any {
	last := len(s.largest) - 1
	t := s.largest[last]
	s.largest[last] = nil
	s.largest = s.largest[:last]
	return t
}
