// Package check judges a run of Carillon from outside.
//
// [Judge] takes a [History] (what was asked, acknowledged and seen by the sink, and every run by
// the API, read twice) and returns a [Report]. [JudgeRecurring] does the same for recurring jobs.
// Both are pure functions, so one judge serves load tests on real clusters and simulations in one
// process. Package workflows, below, judges runs of workflows.
//
// # What is authoritative
//
// Promises are judged against what was asked and acknowledged, never against the due time that the
// system states. The sink is an independent witness: what it saw did happen. The API is believed
// only where the sink cannot contradict it.
//
// # Map
//
//	history.go judge.go rules.go lateness.go   one-off jobs: input, gathering, rules 1 to 9, terms
//	outcomes.go watched.go                     duplicate outcomes, ends that did not last
//	truth.go                                   answers
//	guarantees.go contents.go                  guarantees; content of calls, who makes them
//	retries.go                                 retries, dead letters, pre-emption
//	limits.go limits_recurring.go              runs at once, rates
//	forgive.go                                 power cuts
//	recurring.go terms.go times.go cron.go     recurring jobs: input, phases, nominal times
//	recurring_judge.go recurring_verdict.go stops.go backfill.go  rules 10 to 16
//	report.go recurring_report.go              reports
//
// # The rules
//
//  1. A job is acknowledged if an answer to it was 200 or 201, and refused if every answer was
//     another 4xx. Anything else (503, a cut answer, none) is unknown: it may run, at most once.
//  2. Every acknowledged job belongs to exactly one class: done, cancelled, missed by policy,
//     missed, unfinished, not due, unreadable. See [Report].
//  3. Early: a start, or an arrival at the sink, before every instant in force then. The tolerance
//     is 0 ms, after both sides are cut to milliseconds. Sink and asker must share a clock. Where
//     executors' clocks may be off ([History].Off), an arrival may come that much before its
//     instant by true time, and never by the caller's own clock. A retry may come as much too soon.
//  4. An asked instant is in force until [ChangeGrace] after a reschedule was acknowledged; the new
//     one from the request on. A reschedule of unknown outcome leaves both in force. Where clocks
//     may be off ([History].Off), here and in rule 5 the grace is longer by that: an executor goes
//     by what another node's clock stamped.
//  5. Ghost: a start, or an arrival, more than [ChangeGrace] after a cancel was acknowledged. An
//     arrival whose attempt started in time and was under way is none.
//  6. Unexpected: a run that no acknowledged or unknown job explains.
//  7. Duplicate execution: an arrival while an earlier one of the run had not ended in failure. It
//     is counted. Under at_least_once it is a fault only if nothing explains it (see Answers), or
//     if nothing went wrong ([History].Calm).
//  8. Duplicate outcome: a run that ended twice, differently (outcomes.go). A run that was read all
//     along also stays at its end (watched.go).
//  9. What could not be read is unreadable: neither fine nor missed. It fails the report.
//
// # Answers
//
// These hold where the record of the sink is complete (truth.go).
//
//   - Untrue outcome: an attempt recorded as succeeded, or as failed with a status, without a call
//     of its number and that answer. Each call proves one record. A succeeded run needs a call
//     answered 2xx.
//   - Lost, timed-out, cancelled and superseded attempts, and failed ones without a status, may
//     have had an answer that their executor did not read.
//   - Failed for good too soon: attempts were left, and no answer was final (4xx but 408, 425,
//     429).
//   - Retry of a final answer: an attempt followed one that is recorded with a final answer.
//   - Call without a record: the run succeeded or failed, and the API has no attempt of a call's
//     number. So is any call of a run recorded as missed. It is excused if its attempt is recorded
//     as lost; under at_least_once also if its caller went away without a record, or may have been
//     killed before the store knew of the call.
//   - Unexplained duplicate: a second call under one number without an execution recorded as
//     redispatched, lost or superseded; or more calls than recorded executions + 1 (an executor may
//     die before it records anything). A job that was sent twice, or accepted 5 s after its
//     instant, may have a second entry that starts as if it were the first (DESIGN section 5). A
//     run that was rescheduled after a call is called again: its executor died first. So is one
//     that was rescheduled up to [ChangeGrace] before, if the executor may have been killed.
//   - Altered call: another Idempotency-Key than the run's id, another Carillon-Job-Id, no attempt
//     number, no due time, another payload or "X-…" headers than the job's, or a type that is not
//     JSON.
//   - One process never starts one attempt twice. Two starts by executors of one name within
//     [RestartLeast] count as one process.
//
// # Unique jobs
//
//   - Of two runs of one unique key none was created within the window of the other, as far as the
//     requests and answers of their jobs tell (rules.go).
//   - A run that was answered to a job as being there is of a job of the same unique key: of that
//     which it names, whose own request may have had no answer.
//
// # Lateness
//
//   - No run starts later than [LatenessBound] after its due time or its acceptance, whichever is
//     later, by the later of sink and API. Each scenario states its bound.
//   - A lost at_most_once claim is left out: it may never have started.
//   - No first attempt of a run starts later than the deadline of its job, or than [SkipAfter] under
//     the policy skip, counted from the instant in force or the acceptance; under a guarantee a
//     claim may take [ClaimSlack] more.
//
// # Labels of executors
//
//   - No attempt of a run that requires labels is made by an executor that lacks one of them, as far as
//     the labels of executors are known ([History].Labels).
//
// # Pre-emption
//
//   - A run is stopped for critical ones only if it has low priority, is preemptible and
//     at_least_once; at most [MaxPreemptions] times, and once more for each call that came while
//     another one was under way.
//   - That uses no attempt: of a run that was stopped, no number is missing below that of an attempt.
//   - It starts again: a run that was stopped is never missed, and has an end like any other.
//   - A call that ended so is no duplicate of a later one. By the first start it is judged whether a
//     deadline was met.
//
// # Retries and dead letters
//
//   - No attempt has a number above the bound that was asked for.
//   - No attempt arrives before the wait after the failure before it is over: what the receiver
//     asked for by Retry-After with a 429 or 503, at most 24 h, and the policy's own where it has
//     no jitter.
//   - A run that has failed at the second read has a dead letter, unless it was replayed or
//     discarded; no other run has one.
//
// # Guarantees
//
// Beside the outcomes of rule 8 (guarantees.go):
//
//   - Overlap: a call of an effectively_once run during the work on another call of it. A call with
//     a fence below an earlier one is stale and counted apart.
//   - Second start: a second call of an at_most_once run, or attempts of it under two numbers.
//   - Bad fence: a call of an effectively_once run without a fence, or whose fence is not above
//     that of each earlier attempt.
//   - Rewritten record: an attempt of a run that had ended at the first read, whose record is gone
//     or different at the second (superseded is allowed).
//   - An at_most_once run that failed without a start is done if its attempt is recorded as lost.
//   - A run of a recurring job has the guarantee of its job when it was planned; near a change of
//     that, the least of both sides.
//
// # Limits
//
// Of jobs whose limit never changed, and of the tasks in [History] (limits.go,
// limits_recurring.go):
//
//   - Never more calls under a limit are under way at once than it says, and never two of one run
//     of a job. A call whose executor died counts for [SlotHeld] at least.
//   - In no span more runs of a task start than its rate allows in it and in [RateSlack] more, plus
//     one.
//   - A run was skipped only if its job says so and as many others were under way (or a node had
//     just been killed).
//   - A run was cancelled only by request, or if its job says so and as many later ones were due.
//
// # Power cuts
//
// What a store may lose before a cut is removed by [History.Forgive], whose comment has the rule.
//
// # Recurring jobs
//
// [JudgeRecurring] follows Jepsen's Chronos checker, and also fails a run too many or too soon. It
// computes nominal times from the schedule in the job's answer, without the system's code. Of the
// jitter it believes the window; it learns the offset once, from the answer. Answers and guarantees
// are judged as above, for backfills too.
//
//  10. A target is asked for if its nominal time is after the acknowledgement of the job's creation,
//     and it is due before the request of the next change or the end of the observation. After a
//     change it must also be due [ChangeGrace] after the acknowledgement of that. In between, a
//     target of both sides of the change must run, one of only one side may. Every target belongs
//     to exactly one class: done, missed by policy, missed, unfinished, unreadable. See
//     [RecurringReport].
//  11. A run belongs to the target that is due when its id says. A nominal time has one run, unless
//     it is due during a change, or 1.4 s after one that was repeated because its commit was known
//     too late. Any other run is unexpected. Before its instant a run is early.
//  12. Ghost: a first start more than [ChangeGrace] after the acknowledgement of the change that
//     ended the run's plan; after a cancel any start of an attempt that was not under way.
//  13. A missed record counts only for a reason that the job's policy, limit or a change bears out
//     at the time of the record; of a stretch, only with the right length.
//  14. After a span in which no node ran, the runs of each job are those that its policy leaves,
//     computed for when the job was looked at again.
//  15. Each nominal time of an acknowledged backfill, by the schedule at its request, has exactly
//     one run with the trigger backfill for each backfill that names it, and there are no others. A
//     backfill that a cancel cut short has as many, from the first on, as its operation says; the
//     rest of its stretch may have some. One of unknown outcome may have any. Every target is done,
//     missed, unfinished or unreadable. See [BackfillReport].
//  16. A run of a backfill that is due before the request is early; one due more than
//     [BackfillGrace] after the acknowledged cancel is a ghost. Never more runs of a job's
//     backfills are unfinished than they may have together. The operation's own account must be
//     true.
package check
