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
//	recurring_test.go, imports_test.go, calendar_test.go, joblimit_test.go, limitkey_test.go,
//	taskrate_test.go, taskconcurrency_test.go, minutes_test.go, long_test.go, outputs_test.go
//	                    jobs of each kind, and what is judged of them besides
//	datacenters_test.go, regions_test.go, regionfaults_test.go, regionscenarios_test.go
//	                    two regions: data centres and replication; who serves the homes, and what is
//	                    judged of that; what happens to regions; the scenarios
//	judge_test.go, lateness_test.go
//	                    the verdict, and how late runs may start
//	tenants_test.go, encrypted_test.go
//	                    what nodes know of tenants; that what is to be encrypted is nowhere clear
//	retained_test.go    that what a tenant does not keep leaves, and not before
//	trace_test.go       what is printed of a run at fault
//	unique_test.go      unique jobs
//	pools_test.go, preempt_test.go
//	                    runs that require labels; runs that are stopped for critical ones
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
// # Two regions
//
// Each region has a data centre, a queue, a ring and nodes of its own, and a home; tenants are at
// home in either. A data centre is an embedded store, which decides conditional writes by itself
// and hands its writes to the other one row by row: late, in any order, after a cut as hints; a
// conditional write that was not answered up to 20 s later. The log of epochs is linearised, and
// its reads take up to 4 s or fail. Homes move, regions die and come back or do not, are cut off
// from each other and from the epochs. What is judged besides:
//
//   - Every acknowledgement, publication, claim, start, cancel, move, key and change of a job, at its
//     instant and by true time: the process was told within the last 10 s that its region serves the
//     home, the epoch is that region's, it has waited 12 s if another served before, and nothing was
//     done in a later epoch. Where a move was announced in time, 3 s and 5 s.
//   - A region is failed over by itself only if it has given no sign of life for 30 s, by a process that
//     read all that time.
//   - In the end both data centres have the same rows, byte by byte.
//   - A region that comes back has lost nothing that it acknowledged. One that is lost for good has
//     lost at most what it acknowledged within the time that replication takes. What it called then may
//     be called again under any guarantee, and ends. The other home is judged as if nothing happened.
//   - Of jobs of durability everywhere nothing that was acknowledged is lost with a region, no cancel is
//     forgotten, and a guarded one is not called by two regions.
//
// Left out: nodes that freeze; more than two regions; quorums and copies within a data centre, and
// within the keyspace of epochs; read repair and hints that are given up after 3 h; recurring jobs,
// workflows and limits while a region dies or is cut off from the epochs and replication (they are
// there while homes move, and jobs recur while the epochs cannot be read); recurring jobs and
// events of durability everywhere; forwarding between regions, and a sync walk.
//
// A seed decides what is asked and what is done to the nodes and when. Goroutines of one instant
// run in an order that no seed decides, so a seed leads back to a fault often, and not always.
package sim
