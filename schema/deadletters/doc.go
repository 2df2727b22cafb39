// Package deadletters keeps dead letters in a store of partitions, and spreads those of a bad day
// over many.
//
// The letters of a tenant and day lie in one partition, the day's first. Millions of them would
// make a partition that no store can repair or compact in peace. So a day on which many runs fail
// is marked as spread. From then on its letters go to [Parts] further partitions, by
//
//	part(run) = 1 + (bucket of run + shard of run) mod Parts
//
// The part follows from the run's id. It is the same for all runs of a bucket and shard, so the
// letters of one batch of outcomes stay one batch. What was written before stays where it is.
//
// A table of ordered keys without partitions does not need this: the embedded store keeps the
// letters of a day together.
//
// # Invariants
//
//  1. Nothing is written into a part before the mark of its day is held. So a reader that finds no
//     mark has seen everything in the first partition.
//  2. A reader merges the rows of a run from the first partition and from its part: of each cell
//     the latest stands. So it does not matter which of the two a writer took, and whether it knew
//     of the mark.
//  3. Letters come by run, newest first, whatever partition they lie in. A place in the list is a
//     run, so it stays where it is while others write.
//
// # When a day is spread
//
// Each process counts the bytes that it writes of a day. After each MiB it looks whether another
// one has marked the day, and after 4 MiB it does so itself. On an ordinary day that costs no
// statement. The first partition holds at most about 4 MiB of each process, and 1 MiB more for each
// start of one.
//
// An older build does not know of marks. It finds none of the letters in parts, and what it writes
// is found.
//
// # If we crash
//
// After the mark and before a letter: the day is read in all parts, and nothing is lost. The mark
// leaves a day after the letters that it was written for; a letter that stays longer writes it
// again first.
package deadletters
