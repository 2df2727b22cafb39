package shardstate

import (
	"container/heap"
	"time"

	"carillon.dev/carillon/dispatcher/depth"
)

// order is the order in which Waiting entries are published. An entry that is done or was taken
// elsewhere loses its envelope and is dropped when it comes up.
type order struct {
	onTime  [4]heldHeap // by priority, as in schema.Priorities
	overdue []*Pending
}

func (q *order) push(p *Pending) {
	if p.Flow.Side == Overdue {
		q.overdue = append(q.overdue, p)
		return
	}
	heap.Push(&q.onTime[p.Priority.Rank()], p)
}

// due returns the next entry to be published at now, or nil. It stays where it is.
func (q *order) due(now time.Time, leads *depth.Leads) *Pending {
	for i := range q.onTime {
		h := &q.onTime[i]
		for len(*h) > 0 {
			p := (*h)[0]
			if p.Env == nil {
				heap.Pop(h)
				continue
			}
			if p.PublishAt(leads[i]).After(now) {
				break
			}
			return p
		}
	}
	for len(q.overdue) > 0 {
		p := q.overdue[0]
		if p.Env != nil {
			if !p.NotBefore.After(now) {
				return p
			}
			break
		}
		q.overdue = q.overdue[1:]
	}
	return nil
}

// pop removes what due returned.
func (q *order) pop(p *Pending) {
	if h := &q.onTime[p.Priority.Rank()]; len(*h) > 0 && (*h)[0] == p {
		heap.Pop(h)
		return
	}
	q.overdue = q.overdue[1:]
}

// next returns when due will return something; false if nothing waits.
func (q *order) next(leads *depth.Leads) (at time.Time, ok bool) {
	for i, h := range q.onTime {
		if len(h) > 0 {
			if t := h[0].PublishAt(leads[i]); !ok || t.Before(at) {
				at, ok = t, true
			}
		}
	}
	if len(q.overdue) > 0 && (!ok || q.overdue[0].NotBefore.Before(at)) {
		at, ok = q.overdue[0].NotBefore, true
	}
	return at, ok
}

// heldHeap orders by time of publication, then by id.
type heldHeap []*Pending

func (h heldHeap) Len() int { return len(h) }
func (h heldHeap) Less(i, j int) bool {
	if a, b := h[i].PublishAt(depth.Lead), h[j].PublishAt(depth.Lead); !a.Equal(b) {
		return a.Before(b)
	}
	return h[i].ID.Compare(h[j].ID) < 0
}
func (h heldHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push and Pop are container/heap's.
func (h *heldHeap) Push(x any) { *h = append(*h, x.(*Pending)) }

// Pop removes the last element.
func (h *heldHeap) Pop() any {
	old := *h
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return p
}
