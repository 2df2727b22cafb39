// Package dispatcher moves due runs from the store to the queue, and sees to it that each is finished.
//
// # What is authoritative
//
// The rows and the cursors. What a dispatcher remembers of a shard (its book) is thrown away when the shard goes, or when the
// process finds that it was stopped, and made anew from the rows. Ownership is an optimisation: two
// owners of one shard cost duplicate publications, never a run.
//
// # Invariants
//
//  1. A shard is scanned once a second, ahead of time; in steady state every row is read once.
//  2. An entry is published Lead before it is due, and earlier only by what it will wait in its stream (leadMost at most); the executor holds it
//     until its instant.
//  3. An entry whose row was held in time (bucketer, invariant 2) is met: by the scan, by its hint, or by the
//     sweep of its slice, which comes bucketer.Grace after the slice's end. One that was held later, by minutes, is
//     found when the ids of its bucket are read again. One that the scan finds where it has read before, and later than
//     a late entry may stand in for it, is published as a redispatch: an executor looks first.
//  4. An entry that was met is open until its rows say that it is done: a notice, or a look at the
//     rows, and nothing else, closes it.
//  5. Dispatched moves over a bucket only when all of it was met and everything met was handed to the queue; settled only over
//     buckets without open entries. A reader of settled loses nothing.
//  6. An occurrence of a recurring job is published only when its next one is held, and only if the job's row, read after the occurrence,
//     lets it start. What may not start is recorded before it is forgotten.
//  7. What may have been published before is published as a redispatch: an executor looks first. What we have published
//     goes out under an id of its own, once the stream has let go of it. What another owner may have published goes
//     out under the id of a first publication, of which the stream keeps one: so nothing is called twice, and
//     what nobody has published waits for nothing.
//  8. A row for which there is no room in memory is passed over, and so is what comes after it of the same tenant and priority, until it has been read
//     again. A stretch of due time that the scan left out (its gap) is met by nobody but a hint until it has been read. No sweep moves over a gap, and no
//     cursor over either.
//  9. What waits for a limit of the shard is looked at every 5 s: whoever should have woken it may have died.
//  10. What is published of a task with a rate has a start of it, taken from a register that all dispatchers share, and not older than StartLife / 2. What has none
//     yet, or none any more, waits in memory for a conditional write, or is put off to the start that it was given: no cursor moves over it before that is durable.
//
// # Fair share
//
// What may be published of a lane and priority (the budget) is shared out among tenants by deficit round robin; package fair says why that
// scheme. Who is refused waits in his tenant's line, one for all shards of the dispatcher, in the order of due times; what is behind its time comes
// after what is on time. Dispatchers do not tell one another: each gives each tenant its share of what it may publish itself.
// A tenant that does not wait while others do has its share at once, out of turn, and owes it. What is shared is starts: a tenant whose runs
// take long holds more slots than its share.
//
// A flow (tenant and priority) may hold in memory a part of what is free, and while it is refused no more than was lately published of
// it. Beyond that its rows are passed over: the scan and the sweep read on to others' rows, and the first that was passed over is remembered. From there
// the flow is read again when half of its room is free. So a backlog is read twice, once to see that nobody else's rows lie in it and
// once to be published (and by the sweep, once it is old enough); where several flows with backlogs lie in each other, the second reading is done up to once for each. What is read in
// vain is bounded by passRows a second for each dispatcher. Where that would make the scan late, it leaves out what should be published by now, and goes on in the
// present: who is due after a backlog does not wait until it is read, who is due in it does. There is one gap at most, which becomes longer if it must.
//
// What lies in the stream is beyond any choice. So it is kept short, and who is not late is published so much earlier as it will take to get
// through: a backlog of one tenant does not make another late.
//
// # Decisions
//
// Sweep, take-over and recovery are one mechanism: the sweep meets every id from the settled cursor on, in
// order; after a take-over it merely runs behind. A shard is an actor: one goroutine owns the book, workers do the I/O.
//
// While jobs cannot be planned on, their part of a scan has not happened, and one-off runs of the same scan are published. Catching up
// takes its steps while few runs wait in the stream, so that it costs work on time little. The jobs of a shard are looked
// through every few minutes for some without a next run, which is a fault of something, and mended.
//
// A dispatcher that fails to scan or to publish for some seconds tells the ring, and goes on with what it has. Whether others
// take its shards is decided by the ring alone: they do unless none of them is healthy.
//
// # If we crash
//
// Before a publication: the next owner meets the entry from settled on. After it, before the receipt: the same, as a
// redispatch, of which the stream keeps one; the executor looks first. Between a watch entry and the attempt 0 that names it: the next owner
// hands on to the same id. Between a start of a rate and the entry that is due then: the start is lost, and the next owner takes another; between that
// entry and the attempt 0 that names it: both may be met, and the second finds what the first led to. Before a cursor moved: the next owner meets more than it must.
package dispatcher
