// Package fair divides a scarce resource among flows by deficit round robin (Shreedhar and
// Varghese, "Efficient Fair Queuing using Deficit Round Robin", 1995).
//
// # Which scheme, and why
//
// Waiting flows form a circle. The flow whose turn it is gets its quantum, which is its weight,
// added to its credit. It is served until the credit is used up; then the next flow has its turn. A
// flow with nothing left to serve leaves the circle and loses its credit, so no flow saves credit.
// The unit is one start of a run. The quantum is at least one unit; therefore a turn costs O(1) for
// any number of flows.
//
// Weighted fair queuing, virtual clocks and stride scheduling keep a finishing
// time for each flow. They cost O(log n) a turn, and need a clock that all flows share. They
// interleave flows of unequal weight better: here a flow of weight 100 is served 100 times in a row
// before one of weight 1. The latter waits for at most the sum of the others' weights, as the
// weights intend. Lottery scheduling is fair only on average, and we need a bound.
//
// # Invariants
//
//  1. Between two instants at which the same flows wait, what each was served divided by its weight
//     differs by at most one from that of any other that joined with it (two, if they joined at
//     different times).
//  2. Next returns nil only if no flow waits: nothing is left unused.
//  3. A flow that joins is served after at most the sum of the others' weights, if it has no debt.
//
// A debt is service that a flow got out of turn ([Round.Owe]). The flow pays it with its next
// turns, and keeps it when it leaves.
package fair
