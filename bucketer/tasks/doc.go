// Package tasks keeps the tasks of tenants: it creates, changes and deletes them, and knows which
// have a rate.
//
// # What is authoritative
//
// The task's row. Every node believes what it read of a task for up to 10 s (bucketer.TaskCache).
// The list of tasks that may have a rate says only which tasks to ask.
//
// # Invariants
//
//  1. A change is answered when every member of the ring said that it forgot what was before, or
//     after askWithin (11 s), when no node can believe it any more. So a run that is accepted after the
//     answer is handled by the task as it is then, on every node.
//  2. An acknowledged change is what is read next, whichever node made it. Its write timestamp is
//     later than that of every change before it: it is drawn from a register (stamp.go), because a
//     deleted row no longer says its own.
//  3. A task is in the list of rated tasks before it has its first rate.
//
// # If we crash
//
//	between                            then
//	a draw and its change              the next draw is higher
//	listing a task and putting it      the list names a task without a rate, which costs one read
//	putting a task and asking members  they know of it within 10 s
//
// # Files
//
//	tasks.go    put, read, delete
//	change.go   when a change is in force
//	rates.go    the rates of all tasks
//	stamp.go    write timestamps of changes
//	service.go  Tasks, its wiring
package tasks
