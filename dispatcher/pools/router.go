package pools

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync/atomic"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
)

// Ring says which executors there are.
type Ring interface{ Snapshot() *ring.Snapshot }

// Router chooses the pools of runs. It is safe for concurrent use.
type Router struct {
	ring     Ring
	requires func(schema.TaskName) schema.Labels
	known    atomic.Pointer[view]
}

// view is the pools that a snapshot of the ring knows.
type view struct {
	of    *ring.Snapshot
	pools []pool // by name
}

// pool is the executors that have the same labels.
type pool struct {
	name      queue.Pool
	labels    schema.Labels
	executors uint64
}

// New returns a Router. requires returns the labels that runs of a task require, and does no I/O;
// nil: no task requires any.
func New(r Ring, requires func(schema.TaskName) schema.Labels) *Router {
	return &Router{ring: r, requires: requires}
}

// For returns the pool for whose executors an entry is to be published now; "": any executor.
func (r *Router) For(e *schema.Entry) queue.Pool {
	var required schema.Labels
	switch spec := &e.Spec; {
	case spec.Work != nil:
		required = spec.Work.Requires
	case r.requires != nil && spec.Task != "":
		required = r.requires(schema.TaskName{Tenant: spec.Tenant, Name: spec.Task})
	}
	if len(required) == 0 {
		return ""
	}
	all := r.view().pools
	var fit uint64
	for i := range all {
		if all[i].labels.Meet(required) {
			fit += all[i].executors
		}
	}
	if fit == 0 {
		return ""
	}
	n := binary.BigEndian.Uint64(e.ID[8:]) % fit
	for i := range all {
		if !all[i].labels.Meet(required) {
			continue
		}
		if n < all[i].executors {
			return all[i].name
		}
		n -= all[i].executors
	}
	return "" // is not reached: n is less than fit
}

// Gone reports whether the ring knows no executor of a pool any more.
func (r *Router) Gone(name queue.Pool) bool {
	if name == "" {
		return false
	}
	_, found := slices.BinarySearchFunc(r.view().pools, name, func(p pool, name queue.Pool) int { return cmp.Compare(p.name, name) })
	return !found
}

// view returns the pools of the newest snapshot.
func (r *Router) view() *view {
	snapshot := r.ring.Snapshot()
	if v := r.known.Load(); v != nil && v.of == snapshot {
		return v
	}
	v := &view{of: snapshot}
	for _, m := range snapshot.Members() {
		name := queue.Pool(m.Labels)
		i, found := slices.BinarySearchFunc(v.pools, name, func(p pool, name queue.Pool) int { return cmp.Compare(p.name, name) })
		if found {
			v.pools[i].executors++
			continue
		}
		labels, err := schema.ParseLabels(m.Labels)
		if len(labels) == 0 || err != nil { // a newer version may have other labels
			continue
		}
		v.pools = slices.Insert(v.pools, i, pool{name: name, labels: labels, executors: 1})
	}
	r.known.Store(v)
	return v
}
