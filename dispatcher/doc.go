// Package dispatcher moves due runs from the store to the queue, and sees to it that each is
// finished.
//
// # What is authoritative
//
// The rows and the cursors. What a dispatcher remembers of a shard is thrown away when the shard
// goes, or when the process finds that it was stopped, and is made anew from the rows. Ownership is
// an optimisation: two owners of one shard cost duplicate publications, never a run.
//
// # The way of an entry
//
//	store ──scan──▶ shardstate ──budget, rate──▶ publisher ──▶ stream ──▶ executor
//	  ▲  ──hint──▶     │    ▲                                               │
//	  │  ──sweep─▶     │    └──────────────── notice ◀──────────────────────┘
//	  │                └─ no notice: settler inspects the rows: done, watch, or publish again
//	  └─ cursors: dispatched, settled
//
//	step                                             file            pure part
//	follow the ring and homes, start and stop shards dispatcher.go
//	one shard: loop, workers, mail                   shard.go, mailbox.go
//	read rows ahead of their time; take hints        scan.go         progress.Scan
//	read spilled rows and the unread range           resume.go       shardstate.Flows, Room
//	wait for a start of the task's rate, or defer    defer.go        ratelimit.Reservation.Fits
//	publish, within budget; have it read again       publish.go      depth, shardstate
//	reserve starts, read rates                       rates.go        ratelimit
//	read the streams' loads, steer the budget        streams.go      depth
//	read ids behind their time, take a shard over    sweep.go
//	read ids again, minutes and hours later          late.go         progress.LateReads
//	find out by the rows where entries stand         inspect.go      schema.Judge
//	pick entries without a notice, and act on them   settle.go
//	decide what follows from an inspection           decide.go       nextAction
//	replace what is open for long                    replace.go
//	move dispatched and settled                      cursor.go       shardstate, progress
//	undecided entries, catch-up, lost next runs      recurring.go
//	wake what limits hold back                       limits.go
//	advance workflow runs, close their steps         workflows.go    workflow.Progress
//	plan what events start                           events.go
//	tell the ring whether we reach what we need      health.go
//	say what waits                                   backlog.go
//
// A shard is an actor: one goroutine owns its state, workers do the I/O. Sweep, take-over and
// recovery are one mechanism: the sweep finds every id from the settled cursor on. After a
// take-over it merely runs behind.
//
// # Invariants
//
//  1. A shard is scanned once a second, ahead of time. In steady state every row is read once.
//  2. An entry is published depth.Lead before it is due, and earlier by what it will wait in its
//     stream, depth.LeadMost at most. The executor holds it until its instant.
//  3. An entry whose row was written in time (bucketer, invariant 2) is found: by the scan, by its
//     hint, or by the sweep of its slice, bucketer.Grace after the slice's end. A row that is
//     written minutes later, or up to 3 h, is found when the ids of its bucket are read again: by
//     this owner, or by any after it (package progress, invariant 4). A row that the scan finds
//     where it had read before, so late that a late entry may stand in for it, is published as a
//     redispatch.
//  4. An entry that was found is pending until its rows say that it is done. Only a notice or an
//     inspection closes it.
//  5. Dispatched moves over a bucket only when all of it was found and the queue has confirmed all
//     of that. Settled moves only over buckets without a pending entry, and stays where late reads
//     lag.
//  6. An occurrence of a recurring job is published only when its next one is held, and only if the
//     job's row, read after the occurrence, lets it start. What may not start is recorded before it
//     is forgotten.
//  7. What may have been published before is published as a redispatch: an executor inspects it
//     first. What we have published goes out under an id of its own, once the stream no longer
//     holds the first message. What another owner may have published goes out under the id of a
//     first publication, of which the stream keeps one.
//  8. A row for which there is no room is spilled, and so are the later rows of its tenant and
//     priority, until they are read again. The scan's unread range is read by nobody else but
//     hints. No sweep and no cursor moves over an unread range, and no cursor over spilled rows.
//  9. The wait lists of limits are looked through every 5 s: whoever should wake a run may have
//     died.
//  10. What is published of a task with a rate has a reservation from the register that all
//     dispatchers share, not older than schema.ReservationLife / 2. What has none waits in memory
//     for a conditional write, or is deferred to its start. No cursor moves over it before the
//     deferral is durable.
//  11. The entry of a step's run is closed only after its workflow run was advanced past the step's
//     end. The entry of a workflow run is open until the workflow has ended, or a watch entry stands
//     for it. A workflow run is advanced by one worker at a time.
//  12. With regions, a shard is dispatched only while our region holds the lease on its home; nothing is
//     published without it, and what is published says in which epoch of the home. In another epoch the
//     shard has another cursor, some minutes before the one of the epoch before: what is found again
//     is inspected.
//
// # Backlogs
//
// A flow (tenant and priority) holds a bounded part of the memory (package shardstate). Beyond that
// the scan and the sweep read on to the rows of others. So a backlog is read twice: once to see
// that no rows of others lie in it, and once to be published. Rows of several flows that lie in one
// another may be read once for each. Rows read in vain are bounded by spillRows a second. Where
// that would make the scan late, it leaves out what should be published by now, and goes on in the
// present: who is due after a backlog does not wait until it is read. There is one unread range at
// most, which grows if it must.
//
// # Recurring jobs
//
// While jobs cannot be planned on, their part of a scan has not happened; one-off runs of the same
// scan are published. Catch-up entries take their steps while few runs wait in the stream. The jobs
// of a shard are looked through every few minutes for some without a next run, which is a fault,
// and mended.
//
// # Health
//
// A dispatcher that fails to scan or to publish for some seconds tells the ring, and goes on. The
// ring alone decides whether others take its shards: they do unless none of them is healthy.
//
// # If we crash
//
//	between                                        what happens
//	finding an entry and publishing it             the next owner finds it from settled on
//	publishing it and its receipt                  the same, as a redispatch; the stream keeps one
//	a watch entry and the record that names it     the next owner replaces by the same id
//	a reservation and its late entry               the start is lost; another one is reserved
//	a late entry and the record that names it      both may be found; the second sees the first's rows
//	publishing and moving a cursor                 the next owner inspects more than it must
//	a step's end and advancing its workflow run    the next owner finds the step's entry, or the run's
package dispatcher
