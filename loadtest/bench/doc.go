// Package bench measures Carillon from outside: protocols A to E of the goals, imports and single creations, on a real
// cluster of its own or on `carillon dev`.
//
//	A       burn-down: N runs that are all due when the first executor starts; as "outage" also N that are overdue when the first dispatcher
//	        starts, so that who takes over looks at each
//	B       N runs at one instant
//	C       N runs spread evenly at random over a span, at a stated rate
//	D       B and C with rows of the next hours resident, against the same without
//	E       C with a dispatcher killed -9 in the middle
//	import  bulk import while nothing runs
//	api     single creations at a constant rate
//
// # What is measured, and how
//
// Where runs call the sink, starts are its arrivals: lateness = first arrival − the instant asked for, missed = jobs
// without arrival, doubled = arrivals beyond the first, early = arrivals before the instant. Nothing that the system says
// of itself is used.
//
// Where runs call nobody (target noop, an executor setting for measurements) or a NATS worker, starts and ends are the
// executors' own counters, read from /metrics ten times a second. Lateness is then that of the executors' histogram, given as the
// upper bound of the bucket; the burn-down counts from the last reading without a start to the first reading at which every
// outcome is recorded and every message acknowledged, so it is at most a tenth of a second too long at each end.
//
// CPU is user + system time of all processes of a kind between just before the first due instant (A: the start of
// those that work) and the end, divided by runs; allocations are those of the Carillon processes in the same span. In A both include
// what it costs to start them. The generator, the sink and everything else share the machine.
//
// Single creations (api) come at a constant rate whether answers come or not, each counted from the instant at which it should
// have been sent. Resident rows (D) are written by bulk import, as anybody would write them.
//
// # Invariants
//
//  1. What was started is stopped, whatever happens: all processes die with this program.
//  2. A run in which jobs were refused, or the import was not over before the first due instant, is not a measurement:
//     the former fails, the latter is noted in the result.
//  3. Every result names its settings, those of durability above all.
package bench
