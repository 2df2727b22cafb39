// Package bucketer takes jobs in: it validates them, gives each its address, and writes it into the partition of the
// minute in which it is due. Everything that is written about a run afterwards (retries,
// hand-overs, marks, attempts) is written here too, so that one place keeps the rules of writing.
//
// # What is authoritative
//
// The rows. The bucketer keeps nothing in memory but the settings, a count of bytes a partition, and short-lived
// caches of tasks and sessions.
//
// # Invariants
//
//  1. Success is answered only when a quorum holds the row.
//  2. The late rule: a row counts only if it was held before its id time + 5 s (half the grace of a
//     sweep). Whoever finishes later, or meets such a row of which nothing was recorded, writes an entry of it that is due
//     now, and answers on that entry.
//  3. The near rule: of a row due within 5 s of being held its shard's owner is told, since it may lie
//     behind the owner's scan. A lost hint is found by the sweep.
//  4. A keyed line with an instant is the same row however often it is sent. A key without one is claimed before
//     its row is written, and whoever finds it claimed writes that row if it is not there. A row that is there is judged
//     by its marks: what was cancelled or moved does not start because somebody asked again.
//  5. An unkeyed import line costs a share of one batch: no read, no conditional write, no delete.
//  6. What a record says follows (the retry entry) is a function of the record and of the entry that was started, whichever
//     entry it is met beside: repeating it is harmless.
//  7. Rows are judged by a time that does not go back while the wall clock is not to be trusted; while it was never right, nothing is written.
//  8. A mark lives as long as every row that would start without it; a row and a payload live as long as every entry
//     that refers to them.
//
// # If we crash
//
// Between claim and row: the key's next use writes the row. Between row and hint: the sweep finds the row. Between the
// entry of a reschedule and its mark: the entry is never named and never starts. Between a watch entry and
// the attempt 0 that names it: the next look writes the same entry again.
package bucketer
