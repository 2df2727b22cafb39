package executor

import (
	"container/heap"
	"container/list"
	"time"
)

// staleAfter is how long ago a load must have been used for it to be forgotten whoever has most: nothing that was put off comes back later.
const staleAfter = 3 * putOffMost

// shares are the loads that a gate remembers, by tenant: what is stale is forgotten first, and then by whoever has most of them, the one it used longest ago. Without the
// former many tenants that once made a call would in time leave no room to those that make some. In one order for all a tenant
// that calls a new host each time would have the open breakers of all others forgotten, and each of their targets called breakerAttempts times more. A bound
// for each tenant would have to be small, for there may be many, and forget what there is room for. Loads with an open breaker are not preferred: what a
// tenant forgets is its own.
type shares struct {
	of   map[string]*share // by tenant; none is empty
	most []*share          // a heap: who has most first
	used list.List         // of *load, of all tenants, the one used last in front
}

// share is what is remembered of one tenant.
type share struct {
	order list.List // of *load, the one used last in front
	at    int       // in most
}

// put adds a load, as the one used last.
func (s *shares) put(l *load, now time.Time) {
	t := s.of[l.key.tenant]
	if t == nil {
		t = &share{}
		s.of[l.key.tenant] = t
		heap.Push(s, t)
	}
	l.share, l.place, l.age, l.used = t, t.order.PushFront(l), s.used.PushFront(l), now
	heap.Fix(s, t.at)
}

// touch notes that a load is used.
func (s *shares) touch(l *load, now time.Time) {
	l.share.order.MoveToFront(l.place)
	s.used.MoveToFront(l.age)
	l.used = now
}

// take takes out what is to be forgotten next. There must be some.
func (s *shares) take(now time.Time) *load {
	l := s.used.Back().Value.(*load)
	if now.Sub(l.used) < staleAfter {
		l = s.most[0].order.Back().Value.(*load)
	}
	t := l.share
	t.order.Remove(l.place)
	s.used.Remove(l.age)
	l.share, l.place, l.age = nil, nil, nil
	if t.order.Len() > 0 {
		heap.Fix(s, t.at)
	} else {
		heap.Remove(s, t.at)
		delete(s.of, l.key.tenant)
	}
	return l
}

// Len, Less, Swap, Push and Pop are container/heap's.
func (s *shares) Len() int           { return len(s.most) }
func (s *shares) Less(i, j int) bool { return s.most[i].order.Len() > s.most[j].order.Len() }

func (s *shares) Swap(i, j int) {
	s.most[i], s.most[j] = s.most[j], s.most[i]
	s.most[i].at, s.most[j].at = i, j
}

func (s *shares) Push(x any) {
	t := x.(*share)
	t.at = len(s.most)
	s.most = append(s.most, t)
}

func (s *shares) Pop() any {
	last := len(s.most) - 1
	t := s.most[last]
	s.most[last] = nil
	s.most = s.most[:last]
	return t
}
