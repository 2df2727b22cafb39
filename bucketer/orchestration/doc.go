// Package orchestration runs workflows: it starts the steps of a workflow run when those before
// them have ended, and ends the run. What may start is decided by package workflow, from what the
// rows say; this package reads and writes the rows.
//
// A workflow is a job, and a workflow run is a run of it. The owner of the run's shard advances it
// (package dispatcher), one advance of a run at a time. The run's own entry stays open until the
// workflow has ended. So a new owner finds it, and goes on.
//
// # What is authoritative
//
// The rows of the workflow run. They lie in one partition, which their ids name (schema.MakeStepID):
//
//	row                                  says
//	the run's entry, its cancel mark     what was asked for
//	its definition, an entry             what the run keeps from its beginning on
//	attempt 1 of the run                 that it has begun; then how it ended
//	the entry of a step or item          that it may start; its payload
//	attempts of a step or item           how it ended. Attempt 0: it was skipped, or cannot start
//	a decision, for an end in doubt      which end counts
//
// In memory is Progress: how the steps stand. It is made of the rows by load, and thrown away with
// the shard.
//
// # Invariants
//
//  1. The id of a step's run is a function of the workflow run, the step and the item. Whoever
//     finds that a step may start writes the same run.
//  2. A step's entry is held before its first message is published. Where an entry was there
//     before, the run is inspected instead: another owner may have published it.
//  3. A success that nothing else stands beside is the end of a step. Every other end, and a success
//     at the step's deadline, is decided once, by a conditional write. So owners that know different
//     things act on the same ends. An end of a run that is no success is decided likewise.
//  4. The entry of a step that is skipped by its own condition, or cannot start, says so: it starts
//     nothing. An owner that finds a row that says otherwise than it decided goes by the rows.
//  5. The entry of a step's run closes after the run was advanced past its end.
//  6. A run of a workflow with a limit begins only with a slot of it, which counts until the run has
//     ended by its rows. Runs that are steps of others need none: they could wait for their own parent.
//  7. Rows of a run live for a retention after the latest instant at which the run may end.
//  8. A run begins by rows, its own and its job's, that were read at most readMaxAge before its
//     definition is written. From then on it begins, whoever goes on.
//
// # If we crash
//
//	between                                        then
//	the definition and the beginning               the next owner begins with that definition
//	the beginning and the entries of first steps   the next owner finds the run open, and writes them
//	a step's entry and its message                 the next owner inspects the step, and publishes it
//	a step's end and what comes next               the same; the step's entry is still open
//	the last step's end and the run's              the next owner ends the run
//	the slot of a limit and the beginning          the next owner finds that the run has the slot
//	the run's end and the release of its slot      whoever finds no slot free looks, and takes it back
//
// # Conditional writes
//
// None where steps succeed, also for a join. One for each step that fails or is cancelled. Two for a
// run of a workflow with a limit.
//
// # Files
//
//	orchestrator.go  Orchestrator, its wiring; Turn: one advance of a run
//	load.go          a run from its rows
//	advance.go       what follows from ends: one step after the other
//	start.go         rows of steps
//	output.go        what steps put out
//	end.go           the beginning and the end of a run
//	limit.go         the slot of a workflow's limit
//	heard.go         steps that wait for an event
//	view.go          a run as it is shown
//	lists.go         which runs of a list wait; the runs of a run's steps
//	control.go       run again from where it failed; skip a step by hand
package orchestration
