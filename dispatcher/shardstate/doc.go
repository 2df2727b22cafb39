// Package shardstate is what the owner of a shard remembers of the shard's entries.
//
// All of it can be made anew from the rows, and is when a shard changes hands. The package does no
// I/O and reads no clock. A [State] belongs to one goroutine.
//
// # Phases of a pending entry
//
//	Add ──▶ Waiting ──▶ Publishing ──▶ Published ──▶ Done
//	          │  ▲          ▲  │ not confirmed
//	          │  └──────────┼──┘
//	          ├──▶ Queued ──┘        waits for budget (package depth)
//	          └──▶ Reserving         waits for a start of its task's rate, or is being deferred to one
//	Watch ──▶ Watching               an attempt is under way, or something is to be found out first
//	any ──Finish──▶ Finishing        of a step: closed once its workflow run was advanced
//
// Waiting, Queued and Reserving entries hold an envelope in memory. Published and Watching ones do
// not; Hold makes any of them Waiting again, with a new envelope.
//
// # Invariants
//
//  1. An id is known until the sweep has passed it, and longer while its flow's rows are read again
//     from before it. A pending entry stays until Done, whatever the sweep does.
//  2. Settled is below the bucket of every pending entry; Dispatched below every one that the queue
//     has not confirmed. Both are below the first spilled row of every flow.
//  3. Due returns entries on time by priority, then by due time; overdue ones after them, first
//     come, first served.
//  4. A flow with spilled rows knows an id before the first of them. A row after that id is
//     taken by reading it again, or by a hint, so nothing is skipped.
//
// # Bounded memory
//
// A flow is what a tenant and priority have waiting in a shard, on time or overdue. It may hold
// flowShare times what is free of the shard's room. With n flows that want all there is, each gets
//
//	flowShare / (1 + n · flowShare)
//
// of the room, and some is always left for a newcomer (Choudhury and Hahne, "Dynamic Queue Length
// Thresholds", 1998). A flow that waits for budget reads ahead no more than was published of it
// lately, since more would be too old before its turn. Rows beyond that are spilled: they are read
// again once half of the flow's room is free.
//
// # Files
//
//	state.go    entries from being found to being done; watermarks
//	pending.go  one entry
//	order.go    what is due next
//	flows.go    tenant and priority: spilled rows
//	room.go     what a page may bring into memory
package shardstate
