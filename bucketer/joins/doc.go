// Package joins starts runs of jobs that run after other jobs ("after").
//
// A run that waits for others is an entry of schema.KindJoin, which starts nothing. When the others
// have ended as it asks for, it is moved to now, as a reschedule would: the entry to which it is moved
// starts it. So a waiting run can be seen and cancelled like any other.
//
// # What is authoritative
//
//	row                                     says
//	a subscription to the end of a job      who is to be asked when a run of it has ended
//	the run that waits                      what it waits for; its id is a function of its job and the
//	                                        run with which the chain began
//	attempt 0 of it, upstream_ended         how one of the others ended
//	its mark: moved, or cancelled           that it has started, or never will
//	attempt 0 of it, skipped                that it never starts, and why
//	the entry at its deadline, and that     that it is stuck
//	attempt 0 says that it was handed on
//
// # Invariants
//
//  1. A job's subscriptions are held before the job. So it hears of every run of the others that ends
//     after it was made.
//  2. The event that a run may have ended says no more than that. Whoever plans it reads what became of
//     the run. So events may be lost twice, doubled, early or late.
//  3. A run that waits is moved by a conditional write, once. Neither racing ends nor a cancel start it
//     twice, or start it after it was cancelled.
//  4. The join of a job with one run of the chain's beginning is one run: its id says so.
//
// Ends are published by whatever follows from a record (runs.Recorder), in tenants that have jobs which
// run after others. A cancel publishes one before it, to be planned a little later, and one after it.
//
// # If we crash
//
//	between                                  then
//	a record and the event of its end        whoever finds the record publishes it
//	the event and the run that waits         the next owner plans the event again: the same id
//	a run that waits and its deadline's entry  the same
//	how one of the others ended, and the     the same; the run's own entry, and that of its deadline,
//	move                                     look again
//	the move and the start                   the entry to which it was moved is there
//
// # What it costs
//
// Of each run of a tenant that has such jobs: one read. Of each end that others wait for: an entry, a
// page of subscribers, and for each of them a read, a row or two, and one conditional write when it
// starts.
package joins
