// Package admission decides which attempts of an executor may start now, and which wait or are
// deferred.
//
// It owns, in memory, what is under way to each target, of each tenant and of each task, and holds
// under the executor's session slots of limits whose leases are in the store.
//
//	controller.go  the decision: circuit breaker, share of a target and of a tenant, limits
//	rules.go       the numbers of these decisions, which the simulator for planning uses too
//	elsewhere.go   starts that another region, or an executor with other labels, may make
//	request.go     what an attempt asks for
//	breaker.go     the circuit breaker of one target
//	cache.go       which targets are remembered when there are too many
//	states.go      what users are told of their targets
//	quota.go       the quota allocator: blocks of the slots of a task's max_concurrent, and of a
//	               tenant's quota; whether a run without a slot waits or is deferred (awaitQuota)
//	released.go    slots of a home that our region has lost
//	limiter.go     the slot limiter: slots of a job's concurrency, one lease write at a time
//	slots.go       the slots of the executor, by priority and tenant
//
// # Invariants
//
//  1. A target, and a tenant, has at most 7/8 of the slots. Where another target, or tenant, has
//     asked in the last minute, attempts that take longer than a second have at most half of them.
//  2. Behind a slow target, at most max(8, slots/4) attempts wait in memory. The rest is deferred.
//  3. An open circuit lets through a few probes alone. A start is deferred for it at most 10 times.
//  4. A block never counts more slots as ours than the limit's lease says. What is given up is not
//     used from before the swap on; what is gained, not before the swap is known to be done.
//  5. Of 15 slots that come free, 8 go to critical, 4 to high, 2 to normal and 1 to low, if runs of
//     all wait. What one does not want goes to the others. So low is starved for no longer than 14
//     runs of others take.
//
// Breakers and shares are each executor's own: shared ones would be hot rows, and advice is enough.
//
// # If we crash
//
// What is in memory is gone, and circuits are closed. Slots and blocks belong to the session: they
// are free when it has been declared dead.
package admission
