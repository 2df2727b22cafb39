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
//  2. An entry is published Lead before it is due and not earlier; the executor holds it until its instant.
//  3. An entry whose row was held in time (bucketer, invariant 2) is met: by the scan, by its hint, or by the
//     sweep of its slice, which comes bucketer.Grace after the slice's end.
//  4. An entry that was met is open until its rows say that it is done: a notice, or a look at the
//     rows, and nothing else, closes it.
//  5. Dispatched moves over a bucket only when all of it was met and everything met was handed to the queue; settled only over
//     buckets without open entries. A reader of settled loses nothing.
//  6. An occurrence of a recurring job is published only when its next one is held, and only if the job's row, read after the occurrence,
//     lets it start. What may not start is recorded before it is forgotten.
//  7. What may have been published before is published as a redispatch, under an id of its own.
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
// # If we crash
//
// Before a publication: the next owner meets the entry from settled on. After it, before the receipt: the same, as a
// redispatch; the executor looks first. Between a watch entry and the attempt 0 that names it: the next owner
// hands on to the same id. Before a cursor moved: the next owner meets more than it must.
package dispatcher
