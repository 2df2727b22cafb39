package executor

import (
	"container/heap"
	"container/list"
)

// shares are the loads that a gate remembers, by tenant: whoever has most of them forgets first, the one it used longest ago. In one order for all a tenant
// that calls a new host each time would have the open breakers of all others forgotten, and each of their targets called breakerAttempts times more. A bound
// for each tenant would have to be small, for there may be many, and forget what there is room for. Loads with an open breaker are not preferred: what a
// tenant forgets is its own.
type shares struct {
	of   map[string]*share // by tenant; none is empty
	most []*share          // a heap: who has most first
	n    int               // loads, of all tenants
}

// share is what is remembered of one tenant.
type share struct {
	order list.List // of *load, the one used last in front
	at    int       // in most
}

// put adds a load, as the one used last.
func (s *shares) put(l *load) {
	t := s.of[l.key.tenant]
	if t == nil {
		t = &share{}
		s.of[l.key.tenant] = t
		heap.Push(s, t)
	}
	l.share, l.place = t, t.order.PushFront(l)
	heap.Fix(s, t.at)
	s.n++
}

// take takes out what is to be forgotten next. There must be some.
func (s *shares) take() *load {
	t := s.most[0]
	l := t.order.Remove(t.order.Back()).(*load)
	l.share, l.place = nil, nil
	if s.n--; t.order.Len() > 0 {
		heap.Fix(s, 0)
	} else {
		heap.Pop(s)
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
