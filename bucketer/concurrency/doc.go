// Package concurrency keeps the wait lists of limits: the runs that the limit of their job holds
// back. When slots are free it starts them, the run that was due first before the others.
//
// # What is authoritative
//
// The lease of a limit names the runs that have its slots. The rows of the wait list name the runs
// that wait. In memory is where reading a list begins (its front) and how far it was walked; both
// are guesses that cost time when they are wrong.
//
// # Invariants
//
//  1. Of what waits, the run that was due first is woken first. It keeps its place however often it
//     has to wait again.
//  2. The row of a run in the list stands until the entry that takes its place is held.
//  3. The rows of a run that waits are kept while it waits, however long that is.
//  4. Every row of a list is found, whatever the fronts of all processes say: the shard's owner
//     looks behind the front each time that it looks at the limit.
//  5. Only the region that serves a limit wakes runs, and takes rows out of its list.
//
// # If we crash
//
//	after                               then
//	AddToWaitList, before attempt 0     the entry is found again, in the same place
//	a slot was kept for a run           the slot is free after 10 s, and the next wake does it again
//	the entry of a turn was written     the next wake finds it, and takes the row out of the list
//
// An executor that lives on gives its slot back, unless its region has lost the home meanwhile:
// then whoever serves the home takes the slot away once the executor has recorded the end of its
// run.
//
// # Files
//
//	slots.go      add to a list, wake what waits, cancel the oldest
//	workflow.go   the slots of workflow runs, which no session holds
//	waitfront.go  where the reading of a list begins, and why
//	arriving.go   places in a list that come before their runs, from another region
//	walk.go       keep the rows of runs that wait for long
//	service.go    WaitLists, its wiring and metrics
package concurrency
