// Package executor takes runs from the queue, holds each to its instant, runs it, and records what happened.
//
// # What is authoritative
//
// The rows of attempts. A message only says that something may be due; what starts, and under which number, the envelope
// says where it is fresh and beyond doubt, and the rows say everywhere else.
//
// # Invariants
//
//  1. Nothing starts before its due time, by this node's clock.
//  2. Whoever is in doubt (redelivered, redispatched, a later start of another row, or a read older than 1.9 s at the
//     start) looks at the rows first.
//  3. Record, then follow-ups, then notice, then acknowledgement. A message is acknowledged only when the store knows the outcome, or
//     knows under which session the attempt runs.
//  4. Nothing starts past the local deadline of the session, nor after the process was stopped and has not noticed.
//  5. A start that rests on a look writes its session before it starts: if it dies it is counted, so a run that kills its
//     executors ends after max_attempts. Then it reads the rows again, and yields if they tell of a rival. So of two such
//     starts of one attempt, in whatever processes, one happens. A start that rests on its envelope alone happens within
//     queue.FreshFor of the read, and leaves a trace in the rows queue.TraceWithin later at most: until then no stream
//     takes a second message of a first dispatch (queue.DuplicateWindow; package dispatcher).
//     Of the messages of one run in one process, one at a time is between its last look and that trace.
//  6. The first attempt of a run of a job that can have many starts only while the job's row lets it: its dispatcher has read the row where the
//     envelope is fresh, and we read it where we look.
//  7. What is put off (its target fails, or has its share of the slots) uses no attempt up, and is told to the store before its message ends.
//  8. Outcomes that cannot be recorded are kept, and no new work is taken on.
//  9. Attempts that fail, take too long or are lost count, at most max_attempts of them; what the stop of an executor cuts short does not.
//     After the last one, or a final answer, the run's dead letter is held before the message goes.
//  9. A guarded run (at_most_once, effectively_once) starts only under a claim in its lease, and nothing is said of its outcome before the lease
//     holds it; what the lease says counts (schema.Claim). A swap of unknown outcome is swapped again, never guessed.
//  10. Work of effectively_once is stopped at the local deadline of its session: schema.SessionGrace later another may start it.
//  11. A run of a job with a limit starts only under a slot of that limit, which it takes last and leaves when the attempt has ended: no more are under way at
//     once than there are slots, but for at_least_once work of a session that was declared dead. A run has one slot at most. One that is held back is in
//     what waits before that is said of it, and that is said before its message goes.
//  12. A run of a task with a limit begins only under a slot of a block that its executor has under the session that stands, of which enough is left.
//     A block never counts more slots as ours than the limit's lease says: what is given up is not used from before the swap on, and what is
//     gained not before it is known to be done. A run that finds none waits in memory among a few, or is put off.
//
// # Who gets a slot
//
// Every priority of every lane is pulled on its own, and has room in hand that no other takes. A slot that comes free goes to a priority by
// deficit round robin with weights 8, 4, 2, 1 (package fair); what one does not want goes to the others. So of 15 slots in a row low is given one if it
// wants it: it can be starved for no longer than 14 runs of others take to end. Nothing that has started is stopped for another. Within a
// priority tenants take turns, and each tenant's runs come in the order in which they were fetched; weights of tenants are the dispatchers' matter, and
// what they publish keeps to them. While runs wait for slots, no more of a priority is fetched than got slots in the last second.
//
// # If we crash
//
// Before the start: the message is delivered again. While the attempt runs, within its first second: the same, and it is
// executed again (at_least_once). Later: its session is declared dead, the attempt is recorded as lost, and the
// entry is dispatched again. Of a guarded run: after the claim, it is ended as lost when our session is dead, and at_most_once is over
// with that; that we are back under our name shortens nothing of this (schema.Session); after the lease holds the outcome, whoever gets the message next writes it down. With a slot of a limit: it is free when our session is dead, and the
// owner of the shard wakes who waits. Between record and follow-ups, notice or ack: whoever meets the record repeats what it says.
package executor
