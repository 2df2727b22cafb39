// Package depth decides how much may be published to a stream now, and whose turn it is.
//
// What waits in a stream can no longer be reordered. So the streams are kept shallow: a dispatcher
// publishes about what executors drain, and what it may not publish yet is queued in its memory, in
// a line for each tenant. The package does no I/O and reads no clock. A [Controller] is safe for
// concurrent use.
//
// # Invariants
//
//  1. A publication was granted: by Take, at once, or later to its Ticket. What is not used is
//     returned.
//  2. Each ticket is granted once, or withdrawn: Withdraw reports false for one that was granted.
//  3. Nothing is left over while somebody is queued in its subject.
//  4. Between two readings, newcomers get at most as much out of turn as the last reading granted.
//
// # Control loop
//
// Each reading of a subject's load sets its budget: what may be published until the next reading.
// All quantities are messages of one subject; a budget is never below 0.
//
//	seen     = messages delivered since the last reading / time since then
//	drain   += (seen - drain) / 2          while nothing waits it only grows
//	target   = clamp(drain · 400 ms, 1,000, 10,000)     from 100 on once executors are loaded
//	missing  = target - waiting
//	growth   = waiting - waiting at the last reading
//	portion  = owned shards / all shards
//	part     = (portion + published here / published by all) / 2
//	yield    = min(0.2, portion, 1 - portion)
//
//	budget   = published · (1 - yield) + (missing - growth) · part
//
//	state of the stream                      bound on the budget
//	waiting, now and before, < target / 4    = published + max(published / 2, target · portion)
//	waiting < 2 · target                     ≥ portion · target / 10, and after the first reading
//	                                         ≥ portion · (drain · span + min(missing, 0))
//	waiting ≥ 2 · target, and growth > 0     ≤ published / 2
//
// The first term alone would be content with any division of the work among dispatchers: one that
// began with more, or read at a quieter moment, would keep nearly everything. The lower bound gives
// every dispatcher its portion of the drain. The yield and the half of part that goes by portion
// make the rest fair in time: an increase that is alike for all and a decrease in proportion
// converge (Chiu and Jain, "Analysis of the Increase and Decrease Algorithms", 1989). A dispatcher
// that alone has work gets back most of what it yields.
//
// # Whose turn it is
//
// Tenants that are queued get their turns by deficit round robin (package fair), by weight. Within
// a tenant, entries on time come before overdue ones, then by the time of publication. One line
// serves all shards of the dispatcher. A tenant with nothing queued may take its share of the last
// budget out of turn, and owes it. Dispatchers do not talk to each other: each shares out its own
// budget. Starts are shared, not time: a tenant with long runs holds more slots than its weight.
//
// # How early an entry is published
//
// An entry is published [Lead] before its due time, and earlier by what it will wait in its stream,
// LeadMost at most: waiting / drain. So a backlog of one tenant does not make another one late.
//
// # Files
//
//	controller.go  budgets by subject; tickets
//	budget.go      the formula
//	queues.go      tenants that wait for budget
//	weights.go     their shares
package depth
