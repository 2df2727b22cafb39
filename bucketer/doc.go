// Package bucketer takes jobs in: it validates them, gives each its address, and writes it into the partition of the
// minute in which it is due. Everything that is written about a run afterwards (retries,
// hand-overs, marks, attempts) is written here too, so that one place keeps the rules of writing.
//
// # What is authoritative
//
// The rows. The bucketer keeps nothing in memory but the settings, how full a few partitions are, and short-lived
// caches of tasks and sessions.
//
// # Invariants
//
//  1. Success is answered only when a quorum holds the row.
//  2. The late rule: a row counts only if it was held before its id time + 5 s (half the grace of a
//     sweep). Whoever finishes later, or meets such a row of which nothing was recorded, writes an entry of it that is due
//     now, and answers on that entry.
//  3. The near rule: of a row due within 5 s of being held its shard's owner is told, since it may lie
//     behind the owner's scan. A lost hint is found by the sweep.
//  4. A keyed line with an instant is the same row however often it is sent. A key without one is claimed before
//     its row is written, and whoever finds it claimed writes that row if it is not there. A row that is there is judged
//     by its marks: what was cancelled or moved does not start because somebody asked again.
//  5. An unkeyed import line costs a share of one batch: no read, no conditional write, no delete.
//  6. What a record says follows (the retry entry, the dead letter) is a function of the record and of the entry that was started, whichever
//     entry it is met beside: repeating it is harmless. A dead letter is written only while the rows say that the run has failed, and keeps
//     its fate if it is written again.
//  7. Rows are judged by a time that does not go back while the wall clock is not to be trusted; while it was never right, nothing is written.
//  8. A mark lives as long as every row that would start without it; a row and a payload live as long as every entry
//     that refers to them.
//  9. The next occurrence of a recurring job is held before this one may start (PlanOn), and the first one of a generation before the generation
//     is: a job that is active never ends by accident. An occurrence is a function of (tenant, job, generation, nominal time): id, bytes and
//     write timestamp.
//  10. At most two generations of a job are live. A change is answered when its commit is known to lie so far before its cut that nothing
//     of the generation before starts at the cut or later, and not before: nothing of it starts 2 s after the answer.
//  11. Every nominal time of an active job is started, or recorded as missed with a reason, alone or in a stretch.
//  12. A payload that was stated fitted the schema of its task (package payload) as this node knew it, at most 10 s before. What is planned by schedule
//     or asked for by a backfill is not checked again: a task that changes leaves its jobs alone.
//  13. Of what waits for a limit the run that was due first is woken first, and keeps its place however often it has to wait again. Its row stands until the entry that
//     takes its place is held.
//
// # Decisions
//
// Overdue is what was not published a minute after it was due and after which nothing was planned. What lies between such an occurrence and now is
// decided once for everybody (a conditional write), and worked off by catch-up entries, some runs a step. skip is a deadline of one minute:
// so each occurrence has its fate by itself, and what is less late than that still runs. run_latest gives up an overdue occurrence
// only once a later one has been due for 10 s, so that the one that a catch-up has chosen is not given up in turn.
//
// A run asked for by hand starts unless its job was cancelled, also while the job is paused or has finished. Cancelling a job also ends the
// retries of its runs; attempts under way end by themselves. A job that has finished keeps its last generation startable for ever.
//
// A run whose job's row does not know its generation, or does not exist, waits for up to 30 s: it was written before its job's row, whose
// writer tells the shard's owner when that is there. History has the runs that ended; of two lines of one run the one whose state
// schema.Fold prefers stands.
//
// An operation is the same done twice, so nothing but advice keeps two nodes from working at one: a turn of half a minute, by LWT. What starts
// runs waits for the tenant's quota without holding a place. A backfill's next nominal times and their due time are decided, once for everybody,
// before rows are written: the runs are due now, so their ids cannot be functions of the nominal time alone. It yields to work on time by
// priority, by the bound on what is unfinished, and by asking for nothing while one of its runs waits for its start. It is for what the schedule
// said when it was asked for; what runs is what the job says when a row is written.
//
// A job is finished after its last run was met, not before that is published: it is a conditional write, and nothing depends on its time.
//
// A job that cannot be understood (its row is of a newer version, its zone is not in the data of this node) is planned on by nobody who does not
// understand it: what was planned of it runs, catch-ups of it wait, and mending takes it up once it is understood. GET /v1/jobs shows why.
// Nobody changes, triggers or backfills it (ErrNotUnderstood), and its name stays taken: it may be active. One whose text is understood and whose
// zone is not can be changed to another zone, paused and cancelled. What it said before its last change need not be understood by who changes it.
//
// JobByID reads jobs as a run's way does (a plain quorum read), so of a change of unknown outcome it may show what was before, or what may yet not be.
// swap begins with such a read too, since its commit is conditional on the generation that was read; but what it answers without a commit (as it is
// already, ErrStale, ErrFinished, a fault of the change) it has from a SERIAL read, which decides what is open. So has every try after the first. A patch is merged
// with what is read there. What JobByID shows is only looked at: If-Match is compared again in swap, and TriggerJob takes what the job says, which either
// side of a change under way may be.
//
// # What jobs cost
//
// The statements for a job that can have many runs; → waits for what stands before it, + goes along with it, [ ] only if the job has one. CAS is a
// conditional write: three rounds instead of one, each of which waits for the commit log.
//
//	create           [CAS key] → [CAS name] → list + first run → job
//	update, resume   read → first run → CAS job
//	pause            read → CAS job
//	cancel           read → CAS job → list
//	finish           CAS job → list
//
// A job's row is created without a condition: its id is drawn for it, its first generation is a function of its id, and what it says is in the
// claim of its key, so whoever makes it writes the same. Its timestamp is below that of every conditional write, so a copy of it that comes late undoes no
// change. It may come up late where nothing was written since, as one of unknown outcome: what would contradict that is written under a condition first. Who takes
// over the name of a job that is not there ends that job, and who makes one of a claim that is older than half a minute, and so says other times, does so only if
// it is not there. A creator that took that long looks what stands before it answers. Changes of the jobs of a shard are for one register, and follow one another
// (lanes.go).
//
// # If we crash
//
// Between claim and row: the key's next use writes the row. Between row and hint: the sweep finds the row. Between the
// entry of a reschedule and its mark: the entry is never named and never starts. Between a watch entry and
// the attempt 0 that names it: the next look writes the same entry again. Between the first run of a generation and the
// generation, or between it and its job: the run is cancelled when it is due. Between the claim of a name and the job: the name is free after a minute. Between the next occurrence and this one's publication: whoever meets
// this one writes the next one again, to the same id. Between the steps of a catch-up: the step is taken again. Within a page of an operation:
// the page is worked off again. Between the decision, the rows and the progress of a backfill: the decision is met, and the same rows are
// written. Between the steps of waking a run: see Wake. Before a job is finished: Mend finishes it.
package bucketer
