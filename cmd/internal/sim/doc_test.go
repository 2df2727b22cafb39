// Package sim simulates clusters in fake time (testing/synctest): the real bucketer, dispatcher and
// executor of several nodes, on the embedded store and the queue in memory. It is test code only.
//
// A scenario injects faults: kills, freezes, cut links, wrong clocks, lost and doubled messages,
// writes that fail or time out although applied, deleted streams. Then loadtest/check, the checker
// of load tests, judges the promises of DESIGN. It computes the times of recurring jobs by itself.
//
//	simulation_test.go  the scenarios, and how many seeds each gets
//	scenario_test.go    what a scenario states; asks for jobs, waits, and judges
//	cluster_test.go, node_test.go, clock_test.go, sink_test.go
//	                    the nodes, their processes and clocks, and the callee
//	faults_test.go, links_test.go, crash_test.go
//	                    kills, stops, freezes and clocks; cut links; crashes around single steps
//	recurring_test.go, joblimit_test.go, taskrate_test.go, taskconcurrency_test.go, long_test.go, outputs_test.go
//	                    jobs of each kind, and what is judged of them besides
//	judge_test.go, lateness_test.go
//	                    the verdict, and how late runs may start
//	trace_test.go       what is printed of a run at fault
//	injected_test.go    bugs put in on purpose, which must be caught
//	statements_test.go  what jobs cost the store
//
// # What is judged here and not by loadtest/check
//
// How many calls overlap under a limit, and how many start within a window under a rate: the
// checker allows for what a real network may do, and in fake time the bounds are exact. Besides:
// that no shard lags, no row stays pending, no slot stays taken, no waiter is left, and outputs are
// whole.
//
// In scenarios with crashes a node dies before or right after any step of an attempt, a
// limit, a rate or a session. The test fails if one of these crashes never happens. Bugs that are
// put in on purpose are kept in testdata/injected, and must be caught (make injected; some by each
// make test).
//
// A seed decides what is asked and what is done to the nodes and when. Goroutines of one instant
// run in an order that no seed decides, so a seed leads back to a fault often, and not always.
package sim
