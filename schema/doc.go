// Package schema holds the nouns of Carillon: ids, entries, attempts, records, sessions, cursors.
// It says how the state of a run follows from its rows (Fold, Judge), and holds the contracts of
// the stores that keep the rows. It uses the standard library alone, reads no clock, does no I/O.
//
// # What is authoritative
//
// The rows. Everything else (streams, gossip, memory) may be lost at any instant and is made anew
// from them.
//
// # Invariants
//
//  1. An entry id is the address of its row: the row lies in the bucket and shard of its id.
//  2. Within a partition the order of ids is the order of due times.
//  3. Id, text and write timestamp of an entry are fixed before it is first written. Writing it
//     again, from anywhere, changes nothing.
//  4. Rows of runs and attempts are inserted, never updated or deleted. The two marks of an entry
//     (cancelled, moved_to) are the only cells that change. They change by conditional writes, each
//     on the other, so two writers never set both.
//  5. A run's state is a pure function of its rows (Fold). A success is final.
//  6. A row that cannot be understood harms what it belongs to, never the page that it lies in
//     (package damage).
//
// # If we crash
//
// Between two writes, the rows say which of them were done, and each may be repeated (invariants 3
// and 4). A write of unknown outcome (ErrUnknown) is the same, seen by a process that lives on.
//
// # Files
//
//	id.go entry.go work.go            ids, the row of a run and its later starts, what a run does
//	attempt.go state.go standing.go   attempts, records; Fold: a run's state; Judge: an entry's
//	job.go generation.go              jobs; DecideStart: may a run of this generation start
//	lease.go                          compare-and-set registers; the claim in a guarded run's lease
//	slots.go blocks.go waitlist.go    limits: slots, blocks of them, wait lists
//	rate.go                           rates and reservations
//	session.go clock.go               an executor's lease on life; what is assumed of clocks
//	cursor.go                         watermarks of shards, settings, hints and notices to owners
//	deadletter.go output.go           runs that failed for good; long outputs and reports
//	step.go                           ids of the steps of a workflow run, what their entries say
//	tenant.go signing.go              tenants, API keys, signing keys, secrets
//	notification.go                   rules for notifications, incidents, groups of them
//	operation.go audit.go             bulk work; the audit log and counts of minutes
//	region.go                         homes of shards, who serves them: epochs, leases, beats
//	memo.go                           decoded specs that are remembered
//	store.go                          Store, which is all roles; what stores answer
//
// The role interface of a noun stands in the noun's file.
package schema
