// Package events takes in events, and plans what they start: runs of jobs and workflows, and the
// end of steps that wait.
//
// An event is an entry (schema.KindEvent) in a shard that is drawn, with its body as payload. The
// owner of the shard plans it: package dispatcher calls PlanEvent when the entry is due, which is at
// once. The entry stays open until everything is planned.
//
// # What is authoritative
//
//	row                      says
//	the event's entry        that it was accepted; its name and its body
//	a subscription           who is to be asked. The job, or the step, says whether it wants the event
//	the decision of a page   which runs the jobs of a page of subscribers get, with their ids
//	the decision of a step   which event ended its wait
//
// # Invariants
//
//  1. A subscription is held before the job, or the step, that it is of. So what is acknowledged
//     hears of every event that is accepted after it.
//  2. Subscribers are read in pages. The first owner that plans a page decides where it ends and
//     which of its jobs start a run. So a job starts one run of an event at most, whoever plans the
//     event again, and however jobs change meanwhile.
//  3. One event ends the wait of a step. It is decided by the same conditional write as every other
//     end of it (package orchestration).
//  4. A run of an event has the event's body as payload, or its job's where the body is null. A body
//     that the task's schema refuses starts nothing: that is counted and logged.
//
// Events of the system are entries like any other. What follows from the record of a run publishes
// them (runs.Recorder), where the tenant has subscribed to one: each node reads every second which
// have. The record says so (Announce), so whoever finds it does it again.
//
// # If we crash
//
//	between                                  then
//	the entry and its pages                  the next owner finds the entry open, and plans it
//	the decision of a page and its runs      the next owner writes those that are not there
//	a step's decision and its record         the next owner writes the record
//	a step's record and its run being woken  the next owner wakes it
//	the last page and the entry's end        the next owner finds everything done
//
// # What it costs
//
// An event that nobody subscribed to: its entry, one read, one attempt 0. Of each page of 500
// subscribers: two reads, a conditional write if a job of it starts, and the rows. Of each step: a
// conditional write, a record and a watch entry, which has its workflow run advanced.
//
// # Files
//
//	events.go   Events: take an event in, list events and their runs
//	hearers.go  who would hear of an event now: for people who are about to publish one
//	plan.go     PlanEvent: pages of subscribers. Steps that wait: bucketer/orchestration/heard.go
package events
