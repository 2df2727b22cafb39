// Package progress says how far an owner has read a shard's rows, and what it reads next.
//
// Rows are read by due time, in three passes. The package holds the arithmetic of each; it does no
// I/O and reads no clock.
//
//	pass        when a row is read             of it                          type
//	scan        up to 1.75 s before its time   whole rows                     [Scan]
//	sweep       10 to 20 s after its time      ids; rows that are not known   (package dispatcher)
//	late reads  5 min and 3¼ h after           ids; rows if they may differ   [LateReads]
//
// # Invariants
//
//  1. A hint counts for every row that a scan under way may miss: those due before Scan.Until.
//  2. What the scan leaves out becomes part of one unread range. The range begins where the oldest
//     unread row may be, and grows at its end.
//  3. A cursor is never moved, or believed, beyond what this clock allows ([IsAhead]).
//  4. Settled is never moved so far that the late reads of the next owner would leave out what ours
//     have not read ([LateReads.MaySettle]). So each bucket is read in each round, by some owner.
//
// # If we crash
//
// Nothing here is stored. The next owner begins a scan at its own now, and a sweep at the settled
// cursor: both meet every row that is still to be done. Its late reads begin 6 and 196 buckets
// before that. Digests are lost, so what it has not swept it inspects: attempts, and then the rows
// of those without any.
//
// # Files
//
//	scan.go    how far the scan is; unread ranges
//	late.go    second reads and their digests
//	cursor.go  where a sweep may begin; cursors in the future
//	ids.go     neighbours of an id
package progress
