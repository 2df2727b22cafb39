// Package fair shares out what is scarce among flows that want it, by deficit round robin
// (Shreedhar and Varghese, "Efficient Fair Queuing using Deficit Round Robin", 1995).
//
// # Which scheme, and why
//
// Flows that wait stand in a ring. Whose turn it is gets its quantum, which is its weight, added to
// its credit, and is served until the credit is used up; then it is the next one's turn. A flow
// that has nothing left to be served leaves the ring and loses its credit, so nobody saves up. The
// unit is one: of a run, one start. The quantum is at least that, which is the condition under
// which a turn costs O(1) however many flows there are.
//
// Weighted fair queuing and its kin (virtual clocks, stride scheduling) keep a finishing time for
// each flow: O(log n) a turn, and what a newcomer may claim hangs on a clock that all share. What
// they are better at is to interleave flows of unlike weight finely. Here a flow of weight 100 is
// served 100 times in a row before one of weight 1: how long the latter waits is at most the sum of
// the others' weights, which is what the weights say. Lottery scheduling is fair on average, and a
// bound is wanted.
//
// # Invariants
//
//  1. Between two instants at which the same flows wait, what each was served divided by its weight
//     differs by at most one from that of any other that joined with it (two, if they joined at
//     different times).
//  2. Next answers nobody only if nobody waits: what there is, is shared out whole.
//  3. A flow that joins is served after at most the sum of the others' weights, if it has no debt.
//
// A debt is what a flow was given out of turn ([Round.Owe]). It is paid with the turns that follow;
// a flow that leaves keeps it.
package fair
