// Package operations does one thing to everything that matches a filter, in the background, on any
// node: it cancels, pauses, resumes and triggers jobs, cancels and retries runs, replays and
// discards dead letters, and backfills the past times of a job.
//
// # What is authoritative
//
// The operation's row: what it is asked to do, how far it has come, and whether it was cancelled.
//
// # Invariants
//
//  1. An action done twice is the same as once: triggers, retries and replays have idempotency
//     keys. So a turn is only advice. One node takes it for half a minute, by a conditional write.
//  2. How far an operation has come is written after each page. A page whose actions the store
//     could not take is tried again later, as a whole.
//  3. Runs that an operation starts come out of the tenant's quota. The operation waits for the
//     quota and holds no place meanwhile.
//  4. A cancelled operation goes no further than the page under way.
//  5. Which times of a backfill come next, and when their runs are due, is decided once for
//     everybody before rows are written. The runs are due now, so their ids need the decided due
//     time.
//  6. A backfill yields to work on time: its runs have the lowest priority, MaxConcurrent bounds
//     what is unfinished, and while one of its runs waits for its start it asks for nothing.
//  7. Whoever works an operation off knows all that its filter says. Where an operation goes on that
//     selects by what older builds do not know is written so that they cannot read it, from the
//     beginning on: dead letters by the pattern of their errors (patternPlace), by a text of these
//     (errorPlace), by job or label (filterPlace), and runs by more than due time, task and one
//     state (filterPlace).
//     Backfills that leave times out are written so as well (missingPlace).
//  8. A backfill is for the times of the schedule at the time of asking. A run does what the job
//     says when its row is written.
//
// # If we crash
//
//	within a page of an operation                  the next node repeats the page
//	between the decision and the rows of a backfill, the next node reads the decision and
//	or between its rows and its progress           writes the same rows
//	between an operation and the list of open ones it may be listed though it is done: see
//	                                               document.Roles.PutOperation
//
// # Files
//
//	operations.go  begin, cancel, count; the bounds
//	run.go         which operation this node works on; one step of it
//	pages.go       list the jobs and dead letters that match, act on one
//	pages_runs.go  the same for runs, by the lists that callers see
//	backfill.go    one step of a backfill
//	backfill_missing.go  which times have runs, and are left out
package operations
