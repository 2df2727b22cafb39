// Package sim runs the real bucketer, dispatcher and executor of several nodes on the embedded
// store and the in-memory queue, in fake time (testing/synctest), and does to them what machines,
// networks and operators do: kills, freezes, clocks that are off, set and slewed, lost and doubled
// messages, writes that fail or time out although applied, streams deleted by hand. The promises of
// DESIGN 12 are then judged by the same checker that judges load tests; it computes the times of
// recurring jobs by itself.
//
// In scenarios with crashes a node dies before or right after any step of an attempt, of a limit, a
// rate or a session (crash.go), and each of these is seen to happen. Bugs that are put in on
// purpose are kept in testdata/injected, and must be caught (make injected; some by each make
// test).
//
// A seed decides what is asked and what is done to the nodes and when. Goroutines of one instant
// run in an order that no seed decides, so a seed leads back to a fault often, and not always.
package sim
