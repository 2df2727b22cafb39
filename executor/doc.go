// Package executor takes runs from the queue, starts each at its due time, calls its target, and
// records what happened.
//
// It owns the attempts under way in this process, the session under which they run, and the writes
// about them that are not in the store yet. It keeps nothing on disk.
//
// # What is authoritative
//
// The rows of attempts; for a guarded run (at_most_once, effectively_once) its lease, which the
// rows follow. A message only says that something may be due. The envelope says what starts, and
// under which number, as long as it is fresh and the only one; otherwise the rows say it.
//
// # Invariants
//
//  1. Nothing starts before its due time, by this node's clock.
//  2. A start that is in doubt rests on the rows. In doubt are: a redelivery, a redispatch, a later
//     entry of a run, and a read that is older than queue.FreshFor at the start.
//  3. Record, then follow-ups, then notice, then acknowledgement. A message is acknowledged only
//     when the store knows the outcome, or knows under which session the attempt runs.
//  4. Nothing starts past the local deadline of the session, nor while the clock may be wrong.
//  5. Of two starts of one attempt, in whatever processes, one happens. A start that rests on rows
//     writes its session cell first, reads the rows again, and yields to a rival. So if it dies it
//     counts, and a run that kills its executors ends after max_attempts. A start that rests on its
//     envelope leaves a trace in the rows queue.TraceWithin later; until then no stream takes a
//     second message of a first dispatch (queue.DuplicateWindow). Of the messages of one run in one
//     process, one at a time is between its last read and that trace.
//     One case is left: two starts of one millisecond draw one fence once in a thousand times, and
//     have one row then. If the second writes it after the first has read it, both happen.
//  6. The first attempt of a run of a recurring job starts only while the job's row lets it. The
//     dispatcher has read that row for a fresh envelope; otherwise we read it.
//  7. A deferral uses no attempt up, and is in the store before its message ends.
//  8. Outcomes that cannot be recorded are kept, and no new work is taken on meanwhile.
//  9. An attempt that fails, times out or is lost counts, at most max_attempts of them. One that
//     was cut short by the stop of its executor, or for a critical run, does not. After the last
//     one, or a final answer, the run's dead letter is in the store before the message goes.
//  10. A guarded run starts only under a claim in its lease, and nothing is said of its outcome
//     before the lease holds it (schema.Claim). A swap of unknown outcome is swapped again, never
//     guessed.
//  11. An effectively_once attempt is abandoned at the local deadline of its session: another may
//     start schema.SessionGrace later.
//  12. A run of a job with a limit starts only under a slot of it, taken after all waits but the
//     one for the lease, and given back at the end. Only at_least_once work of a session that was
//     declared dead may exceed the limit. A run that is held back is in the wait list before its
//     rows say so, and they say so before its message goes.
//  13. A run of a task with a limit starts only under a slot of a block that this executor holds
//     under the session in force (package admission).
//
// # A message
//
// An attempt goes through the stages of decide.go. Which file does which step:
//
//	executor.go   fetches messages while there is room for them, and stops
//	decide.go     decides what an attempt does next, and what its result comes to: pure functions
//	attempt.go    collects the facts, does what was decided, and calls the target
//	message.go    a delivery: waiting, acknowledgement, return, the work that it names
//	basis.go      reads the rows and acts on what they say: lost attempts, jobs that ended
//	reader.go     reads the rows of many runs at once
//	turn.go       several messages of one run: the turn, and rivals in other processes
//	limits.go     admission, slots and deferrals        jobslot.go  the slot of a job's limit
//	lease.go      claims a guarded run, ends the claim, and brings the rows up to it
//	preempt.go    stops a run of low priority for a critical one
//	cell.go       the session cell; keeps a message in progress while its attempt runs
//	outcome.go    the record of an attempt, its retry, and successes that come late
//	output.go, report.go   what the target answered, and what a worker tells meanwhile
//	record.go     writes rows in batches: record, follow-ups, notice, acknowledgement
//	session.go    keeps the session alive
//	spans.go      what is traced of a run (package trace)
//	sign.go       the secrets that a call is signed and made with; without them it is not made, and
//	              tried again
//	cancels.go    cancels that are heard while a message is in hand (hand.go)
//	targets.go    what is shown of targets
//
// Packages below: admission (may it start now?), target (HTTP, NATS, scripts, Lambda), trace (spans of
// runs), webhook (signatures), worker (the SDK for workers).
//
// # Who gets a slot
//
// Each priority of each lane is fetched on its own and has room in hand that no other takes. Slots
// that come free go to priorities by weight, and within a priority to tenants in turn
// (admission.Slots). While runs wait for slots, no more of a priority is fetched than got slots in
// the last second.
//
// Pre-emption: a critical run that finds no free slot, or whose target or tenant has its share of
// them, stops a run of low priority whose work allows that (preempt.go). Nothing else that has
// started is stopped for another run.
//
// # If we crash
//
//	before the start                        the message is delivered again
//	in the first second of the call         the same; the run is executed again (at_least_once)
//	later in the call                       the session is declared dead, the attempt is recorded as
//	                                        lost, and the entry is dispatched again
//	after the claim of a guarded run        the claim is ended as lost when the session is dead. That
//	                                        ends an at_most_once run. Our return under the same name
//	                                        shortens nothing of this (schema.Session)
//	as an abandoned call ends               an entry that stands in for it is there before its claim
//	                                        ends: the next one waits until the callee must have ended.
//	                                        If its session was lost sooner than that, the claim is left
//	                                        to whoever declares the session dead
//	after the lease holds the outcome       the executor that gets the message next writes the record
//	with a slot of a limit                  the slot is free when the session is dead, and the owner of
//	                                        the shard wakes a run that waits
//	between record, follow-ups, notice, ack the executor that finds the record repeats what follows
package executor
