// Package tally counts what becomes of runs, by tenant, task, job and host.
//
// A node has one Tally. Its dispatcher and its executor count into it, and once a minute the node
// takes out what was counted and writes it.
//
// # Invariants
//
//  1. A plain run costs no allocation and no lock of its own: counts come in lots. Runs that follow
//     each other and have the same names are added up before anything is looked up.
//  2. Memory is bounded: of each kind at most namesMost names are counted each for itself. When
//     there are more, the lighter half is counted with the others. Sums are always exact.
//  3. What is taken out of a kind has at most schema.MaxNameStats bytes, and names at most Kept.
//
// # What it costs
//
//	a run like the one before it   some 35 ns, no allocation
//	a run of other names           four look-ups, some 300 ns, no allocation
//	memory of a node               4 kinds × 2,048 names × about 500 bytes: 4 MB at most
//	a row                          some 100 bytes a name, 300 with an error; 64 KiB at most
//
// # If we crash
//
// What was counted since the last minute's end is lost.
package tally
