// Package check judges a run of Carillon from the outside.
//
// [Judge] takes a [History] (what was asked, what was acknowledged, what the sink saw, every run as the API
// tells it, read twice) and returns a [Report]. It does no I/O and reads no clock, so the same judge serves load
// tests on real clusters and simulations in one process.
//
// # What is authoritative
//
// Promises are judged against what was *asked* and *acknowledged*, never against what the system says the due
// time was. The sink is an independent witness: what it saw did happen, whatever the API says. The API is
// believed only where the sink cannot contradict it.
//
// # The rules
//
//  1. A job is acknowledged if any answer to it was 200 or 201. If every answer was another 4xx it is refused.
//     Everything else (503, answer cut, no answer) is unknown: it may run or not, at most once for each such job.
//  2. Every acknowledged job belongs to exactly one of: done, cancelled, missed by policy, missed, unfinished,
//     not due, unreadable. See [Report].
//  3. Early: a start, or an arrival at the sink, before every instant in force at that time. The tolerance is
//     0 ms; instants are cut to whole milliseconds on both sides first, because the API answers in milliseconds.
//     The sink and the asker must share one clock. Where clocks of executors may be off ([History].Off), an arrival may come so much before its
//     instant by true time, and never before it by the caller's own clock.
//  4. An asked instant is in force until [ChangeGrace] after a reschedule was acknowledged; the new one from when
//     the reschedule was requested. A reschedule of unknown outcome leaves both in force. Where clocks may be off
//     ([History].Off), here and in rule 5 the grace is longer by that: what an executor goes by was read by another node's clock.
//  5. Ghost: a start, or an arrival at the sink, more than [ChangeGrace] after a cancel was acknowledged. An arrival
//     whose attempt is recorded as started in time and not finished before it arrived is no ghost (it was under way).
//  6. Unexpected: a run that no acknowledged or unknown job explains.
//  7. Duplicate execution: an arrival while an earlier one of the same run had not ended in failure. Counted. Under
//     at_least_once it is a fault only if nothing explains it, see below; or if nothing went wrong ([History].Calm).
//  8. Duplicate outcome: a run that ended twice, differently. See outcomes.go for what DESIGN section 3 allows.
//     Runs that were looked at all along stay at their end too: watched.go.
//  9. What could not be read is neither fine nor missed. It is unreadable, and fails the report.
//
// # Answers
//
// What truth.go says of runs under every guarantee. It holds only where the record of the sink is complete.
//
//   - Untrue outcome: an attempt that is recorded as succeeded, or as failed with a status code, and no call of its number was
//     answered so. Each call proves one record. A succeeded run needs a call that was answered with 2xx.
//   - Lost, timed-out, cancelled and superseded attempts may have been answered unheard, and so may one that failed without a code.
//   - Failed for good too soon: attempts were left, and no answer was final (4xx other than 408, 425, 429).
//   - Retry of a final answer: an attempt followed one that is recorded with a final answer.
//   - Call without a record: the run succeeded or failed, and the API tells of no attempt under the number of a call.
//   - So is any call of a run that is recorded as missed. It is excused if its attempt is recorded as
//     lost; under at_least_once also if its caller went away without a record, or may have been killed
//     before the store knew of the call.
//   - Unexplained duplicate: a second call under one number, and no execution is recorded as redispatched, lost or superseded; or more
//     calls than recorded executions plus one, for an executor that died before it recorded anything. A job that was sent more than once,
//     or accepted 5 s after its instant, may have a second entry (DESIGN section 4), which starts as if it were the first.
//     A run that was moved after a call is called again: its executor died before anybody knew of the call.
//     So is one that was moved up to [ChangeGrace] before, if the executor may have been killed.
//   - Altered call: its Idempotency-Key is not the run's id, Carillon-Job-Id is not its job, it has no attempt number or due time, its body is
//     not the payload of the job's line, its content type is not JSON, or its headers "X-…" are not those of the line.
//   - One process never starts one attempt twice. Two starts by executors of one name within [RestartLeast] count as one process.
//
// # Lateness
//
//   - No run starts later than [LatenessBound] allows after its due time or its acceptance, whichever is later.
//     What is judged is the larger of what the sink saw and what the API reports.
//   - The bound belongs to the history: each scenario states what its faults may cost.
//   - A lost at_most_once claim is left out, since nobody knows whether a start followed it.
//
// # Retries and dead letters
//
//   - No attempt has a number above the bound that was asked for, at the sink or in the API. Executions under one number are duplicates: rule 7.
//   - No attempt arrives before the wait is over that followed the failure before it: what the receiver asked for by Retry-After with a 429 or 503, at most
//     24 h, and the policy's own where it has no jitter.
//   - A run that has failed at the second read has a dead letter that waits, unless somebody replayed or discarded it; no other run has one.
//
// # Guarantees
//
// What guarantees.go says of executions, beside the outcomes of rule 8:
//
//   - Overlap: a call of an effectively_once run that arrived while the receiver was still at work on another one of it. A call with a fence
//     below one seen before is stale and counted apart.
//   - Second start: a second call of an at_most_once run, or attempts of it under two numbers.
//   - Bad fence: a call of an effectively_once run without a fence, or whose fence is not above that of each earlier attempt; two calls under one
//     claim are such.
//   - Rewritten record: an attempt of either had ended at the first read of a run that had ended, and at the second its record is gone or says something else
//     (superseded is allowed).
//   - An at_most_once run that failed without a start is done if its attempt is recorded as lost: its claim was made, and nobody knows more.
//   - A run of a recurring job has the guarantee that its job named when the run was planned. Near a
//     change of that it has the least that either side of the change names.
//
// # Limits
//
// What limits.go and limits_recurring.go say, of jobs whose limit was the same all the time and of the tasks in [History]:
//
//   - Never more calls under a limit are under way at once than it says, and never two of one run of a job. A call counts from its arrival until the receiver ends it; one whose executor
//     died counts for [SlotHeld] at least.
//   - In no span more runs of a task start than its rate allows in that and in [RateSlack] more, plus one. Each attempt is a start.
//   - A run was skipped only if its job says so, and as many others were under way when that was recorded (or a node had just been killed).
//   - A run was cancelled only by somebody's request, or if its job says so and as many later ones were due.
//
// # Power cuts
//
// What [History.Forgive] takes out where a store may lose what it acknowledged in the last seconds before a
// cut, see [Loss]:
//
//   - An acknowledgement in that span is no answer if the run is not there at the second read. A run that
//     is there is judged as ever.
//   - A run with a call under way in that span is not judged: any of its records may be lost.
//
// # Recurring jobs
//
// [JudgeRecurring] judges a [RecurringHistory] in the way of Jepsen's Chronos checker, but a run too many or too soon fails it too. The nominal
// times are computed here, from the schedule that the job's answer shows, and not by the system's own time maths; of the jitter only the
// window is believed, and the offset in it is learned once, from the answer. What is said above of answers
// and guarantees holds for these runs too, those of backfills included.
//
//  10. A target is asked for if its nominal time comes after the acknowledgement of its job's creation, or its due time [ChangeGrace] after
//     that of a change and its nominal time after the creation, and if it is due before the request of the next change, or the end of the observation. In between, a target that only one side of the change names may run and need not; one that
//     both name must. Every target belongs to exactly one of: done, missed by policy, missed, unfinished, unreadable. See [RecurringReport].
//  11. A run belongs to the target that is due when the run's id says, and there is at most one for a nominal time, unless it is due while a
//     change is under way, or 1.4 s after one that was made again since its commit was known too late: both sides of that may run it. Any other run is unexpected.
//     Before that instant it is early.
//  12. Ghost: a first start more than [ChangeGrace] after a change was acknowledged that ended what the run was planned from; after a cancel,
//     any start of an attempt that was not under way by then.
//  13. Recorded as missed is as good as done only for a reason that the job's own policy, its limit, or a change of it, bears out at the time of the record; of
//     a stretch, only if it is as long as the schedule says.
//  14. After a span in which no node ran, the runs of each job are those that its policy leaves, computed for when the job was looked at again.
//  15. Each nominal time of an acknowledged backfill that its schedule named when it was asked for has exactly one run for each backfill that names it, with the
//     trigger backfill, and there are none besides. One that was cut short, by its cancel or that of its job, has them for as many times, from the first on, as its operation
//     says; the rest of its stretch may have some. One of unknown outcome may have any. Every target belongs to exactly one of: done, missed, unfinished, unreadable.
//     See [BackfillReport].
//  16. A run of a backfill that is due before that was asked for is early; one that is due more than [BackfillGrace] after its cancel was acknowledged is a ghost. At no time
//     are more runs of a job's backfills unfinished than they may have together. What the operation says of itself must be so.
package check
