// Package recurring keeps the jobs that can have many runs: it makes and changes them, plans the
// next occurrence before this one is published, catches up with what was missed, and mends a job
// that does not go on.
//
// # What is authoritative
//
// The job's row: the generation in force, the one before, and the cut between them. A run's row is
// a function of that. In memory are compiled schedules, which never change, ids of rows whose
// writing failed (uncertainRows), and jobs that are to be finished (ending). Losing them costs time
// only.
//
// # Invariants
//
//  1. PlanOn holds the next occurrence of a job before this one may start. The first occurrence of
//     a generation is held before the generation is. So an active job never ends by accident.
//  2. An occurrence is a function of (tenant, job, generation, nominal time): id, bytes and write
//     timestamp. Whoever writes it again writes the same row.
//  3. At most two generations of a job are live. A change is answered when its commit is known to
//     lie knownBefore its cut, and not before that time. So nothing of the generation before starts
//     2 s after the answer.
//  4. Every nominal time of an active job is started, or recorded as missed with a reason, alone or
//     in a stretch.
//  5. A payload fitted the schema of its task when it was stated. What a schedule plans is not
//     checked again: a task that changes leaves its jobs alone.
//  6. A job is finished after its last run was published, by a conditional write that nothing waits
//     for.
//
// # Decisions
//
//	an occurrence is overdue     60 s after its due time, if it was not published and nothing after it
//	                             was planned. What lies between it and now is decided once for everybody
//	                             (jump) and worked off by catch-up entries, 10 runs a second.
//	skip                         a deadline of 60 s for each occurrence by itself
//	run_latest                   gives an overdue occurrence up once a later one has been due for 10 s
//	the job does not know the    the run waits for up to 30 s: its writer is about to commit, or never will
//	run's generation
//	a job is not understood      it is not planned on, changed, triggered or backfilled. What was planned
//	                             runs, catch-ups wait, its name stays taken. Mend takes it up again once
//	                             it is understood. Only its zone not understood: it can be changed.
//	pause_on_failure             pauses the job once as many runs have failed for good in a row, by due time,
//	                             as its history shows since its last change. What starts within the 2 s
//	                             that a change takes still runs.
//	a trigger                    starts also while the job is paused or has finished, not when cancelled
//
// JobByID reads plainly, so of a change of unknown outcome it may show either side. A change (swap)
// begins with such a read too, because its commit has the generation that was read as its
// condition. What a change answers without a commit comes from a SERIAL read.
//
// # What statements cost
//
// → waits for what stands before it, + runs beside it, [ ] only if the job has one. CAS is a
// conditional write: three rounds instead of one.
//
//	create           [CAS key] → [CAS name] → list + first run → job
//	create many      [list + first runs → jobs], a batch each for up to 100 jobs (CreateJobs)
//	update, resume   read → first run → CAS job
//	pause            read → CAS job
//	cancel           read → CAS job → list
//	finish           CAS job → list
//
// A job's row is created without a condition. Its id is drawn for it, its first generation is a
// function of the id, and the record of its key has its text. So every node that makes it writes
// the same. Every conditional write has a later timestamp, so a late copy of the created row undoes
// no change. Where a late copy would contradict something, that is written under a condition first:
// neverMade ends the job whose name is taken over, and repeatCreation makes a job of an old key
// only if there is none. Conditional writes of one shard follow one another (shardLocks).
//
// # If we crash
//
//	between                                      then
//	the key and the job                          the key's next use makes the job
//	the name and the job                         the name is free after a minute
//	the first run and its generation             the run is cancelled when it is due
//	the next occurrence and publishing this one  the next look writes it again, to the same id
//	the steps of a catch-up                      the step is taken again as of the same instant
//	a calendar and the jobs that use it          Mend changes them
//	a failed run and pausing its job             the next failed run pauses it
//	the last run and finishing its job           Mend finishes the job
//
// # Files
//
//	service.go              Jobs and its parts, their wiring and metrics
//	jobs.go                 Creator: create; names. Reader: read and list jobs
//	together.go             Creator: create many in batches that they share
//	recurring.go            nouns, filters
//	changejob.go            Changer: change, pause, resume, cancel: swap; shardlocks.go
//	trigger.go, ending.go   Changer: a run by hand; finish jobs
//	pausing.go              Changer: pause jobs whose runs fail
//	occurrence.go           a generation and its times; the row of an occurrence
//	planon.go               Planner: judge entries before they start; planon_write.go writes what follows
//	misfire.go, catchup.go  what is too late; Planner: work off what was missed; uncertain.go
//	mend.go                 Planner: find jobs that do not go on
//	calendars.go            CalendarKeeper: calendars, and the jobs that use them
//	after.go, subscribe.go  what starts a job besides a schedule: other jobs, events
//	jobruns.go              Reader: the runs of a job
package recurring
