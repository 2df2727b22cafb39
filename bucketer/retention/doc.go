// Package retention knows which tenants keep the history of their runs for less long than the
// cluster does.
//
// A tenant's retention is a number of days, from schema.MinRetention to the cluster's. It is
// stamped on a run when the run is asked for, and all entries of the run say the same
// (Spec.Retention). So every node that writes a row of the run gives it the same life: the due
// time, or the write if that is later, and so many days. A change holds for runs that are asked
// for, or planned, some seconds later. Runs that were there keep the retention that they have.
//
// # What it governs
//
//	rows                                                       leave after
//	runs, payloads: entries, events that were published        the run's retention
//	attempts, run_outputs: records, results, logs, progress    its retention and time-out, and an hour
//	leases: claims of runs                                     the same
//	waiting: places in a wait list                             the run's retention; kept while it waits
//	job_runs: that a run of a job ended, when and how          the cluster's
//	leases: decisions that are made once                       the cluster's
//	jobs that have ended                                       the cluster's
//	dead letters, with payload and error                       dead_letters.retention (30 days)
//	incidents, of which notifications tell                     25 hours
//	idempotency keys, with the request                         24 hours
//	idempotency keys of import lines with an instant           with the run
//	operations                                                 30 days
//	counts by minute                                           14 days
//	audit log                                                  400 days
//	tenants, tasks, workflows, jobs, calendars, secrets        when they are deleted
//
// job_runs stays, because pause_after counts in it, and a job without a next run goes on from it.
// A line of it has neither payload nor result, and the API shows none whose run has left.
//
// # Invariants
//
//  1. Attempts of a run live longer than any of its entries. So an entry that is looked at late
//     (a cursor was set back, nobody dispatched for hours) never finds its run as one that did not
//     begin. That is why the retention lies in the entries: rows of one run never go by two.
//  2. An occurrence may be planned twice, by nodes that know different retentions. The row with the
//     shorter one stands (StampOf of bucketer.Writer), so 1 holds whichever row it was started
//     from.
//  3. What waits is kept: whoever writes a later entry of a run, and whoever looks after a wait
//     list, counts by the run's own retention. A list is walked by the least that any tenant may
//     have.
//  4. A tenant that ever had a retention of its own is known for ever (schema.Keeping). So 3 holds
//     for rows that were written before it was taken back.
//
// What is lost: a run that could not start for the whole of its retention is gone, as one of any
// tenant is after the cluster's.
//
// # What is in a file
//
//	known.go  what a node knows of the tenants
package retention
