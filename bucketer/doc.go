// Package bucketer takes jobs in: it validates them, gives each its address, and writes it into the
// partition of the minute in which it is due. What follows from runs is written here too (late
// entries, retries, dead letters, marks, attempts), so that one place keeps the rules of writing.
//
// The packages below it write through it, and import one another downwards only:
//
//	httpapi                    the API
//	request                    decode bodies
//	operations                 bulk work, backfills
//	engine                     wires bucketer, recurring and concurrency for nodes and tests
//	concurrency                wait lists of limits
//	recurring                  jobs that can have many runs
//	admin                      tenants, keys, signing, audit, counts
//	bucketer                   this package
//	schedule, payload          times of a rule; schemas of payloads
//
// # What is authoritative
//
// The rows. In memory are the settings, how full a few partitions are (fill.go), and what was read of
// tasks and sessions within seconds.
//
// # Invariants
//
//  1. Success is answered only when a quorum holds the row.
//  2. The late rule. A row counts only if it was held before its id time + LateAfter, half the grace of
//     a sweep. A writer that finishes later writes an entry of the same run that is due now, and
//     answers on that entry. So does a reader that finds such a row of which nothing was recorded.
//  3. The near rule. The owner of a row's shard is told of a row that is due within NearSpan of being
//     held: it may lie behind the owner's scan. A lost hint is found by the sweep.
//  4. A keyed line with an instant is the same row however often it is sent. A key without an instant
//     is registered before its row is written, and whoever finds it registered writes that row if it
//     is not there. A row that is there is judged by its marks: what was cancelled or moved does not
//     start because somebody asked again.
//  5. An unkeyed import line costs a share of one batch: no read, no conditional write, no delete.
//  6. What follows from a record (the retry entry, the dead letter) is a function of the record and of
//     the entry that was started. So FollowUp may be called again by anybody. A dead letter is written
//     only while the rows say that the run has failed, and keeps its resolution if it is written again.
//  7. Rows are judged by a time that does not go back while the wall clock is not to be trusted. Until
//     the clock was right once, nothing is written.
//  8. A mark lives as long as every row that would start without it. A row and a payload live as long
//     as every entry that refers to them (keep.go).
//  9. A change of a task is answered when every member of the ring said that it forgot what was before,
//     or when nobody can believe that any more (taskchange.go).
//  10. A payload that a client states fits the schema of its task, as this node knew it at most 10 s
//     before.
//
// # If we crash
//
//	between                                then
//	registering a key and its row          the key's next use writes the row
//	a row and its hint                     the sweep finds the row
//	the entry of a reschedule and the mark the entry is never named and never starts
//	a watch entry and attempt 0            the next look writes the same entry again
//	a record and what follows from it      whoever meets the record calls FollowUp, to the same rows
//	a replay's key, its run, its resolution the next replay finds the key and writes the same run
//
// # Files
//
//	config.go, metrics.go             wiring, bounds
//	job.go, limits.go, faults.go      the nouns of intake, its errors
//	submit.go, place.go, fill.go      take jobs in; where a row lies; how full a partition is
//	write.go                          batches, the late rule, the near rule, late entries
//	keep.go, history.go               rows that must live longer; a job's lines of history
//	read.go, merge.go, live.go        runs from their rows; listings; which sessions stand
//	change.go, lease.go, retry.go     cancel, reschedule; a guarded run's lease; run again
//	followup.go                       what follows from records; replacing entries
//	deadletters.go, deadletters_read.go  write, supersede; list, replay, discard
//	outputs.go                        outputs, reports and logs of attempts
//	tasks.go, taskchange.go, rates.go tasks, when a change of one is in force, rates
//	stamp.go, clock.go, halt.go       write timestamps; which time it is; a process that was stopped
//	slots.go, verdict.go              what executors and dispatchers share with the packages below
package bucketer
