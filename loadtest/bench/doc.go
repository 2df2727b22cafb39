// Package bench measures the speed of Carillon from outside, on a real cluster of its own or on
// `carillon dev`.
//
//	protocol  what is measured
//	A         burn-down: N runs that are all due when the first executor starts; as "outage" also N
//	          that are overdue when the first dispatcher starts, which inspects each
//	B         N runs at one instant
//	C         N runs at random instants of a span, at a stated rate
//	D         B and C with rows of later hours resident, against the same without
//	E         C with a dispatcher killed -9 in the middle
//	F         N runs in flight at once on one executor, and new ones beside
//	H         C for one tenant, alone and beside one whose target fails, hangs or drips
//	R         runs of recurring jobs at a stated rate, and C at the same rate
//	W         workflows: chains of five steps, at a rate and as many as can be; one run with N items
//	          and a join; an event that N jobs follow
//	import    bulk import while nothing runs
//	api       single creations at a constant rate
//	consoles  C with and without open consoles, in turn
//	pages     how long the pages of the console take with rows resident
//	regions   C in a region that shares its keyspace with another, and in a single one, in turn
//
// # Map
//
//	scenarios.go     the table of protocols: their sessions, and the steps of each
//	bench.go         holds a session: starts the system, warms it up, measures, stops it
//	run.go           runs a batch: sends jobs, waits, fills in a result
//	burn.go          A, whose nodes start after the jobs are due
//	inflight.go      F, which reads while calls are held
//	interference.go  the other tenant of H
//	recurring.go     the jobs of R
//	workflows.go     W; package flow starts its runs and judges what the sink saw
//	intake.go        import and api
//	consoles.go      consoles: a page that is open is package console
//	pages.go         pages
//	regions.go       regions: two systems side by side; regions_table.go: what their halves say
//	fair.go          fairness between tenants and priorities
//	system.go        the systems: a cluster, carillon dev
//	jobs.go load.go  lines of imports, and sending them
//	scraper.go memory.go outcomes.go series.go  the witnesses: metrics, memory, the API, the sink
//	result.go text.go flames.go                 what is written; package plot draws
//	suite.go goals.go growth.go                 all protocols, and the goals: of several rounds the
//	                                            median counts (goal.verdict)
//
// The package has more than 25 files because all protocols fill in one Result, and goals, tables and plots
// read it.
//
// # Witnesses
//
// Where runs call the sink, a start is an arrival, and nothing that the system says is used:
//
//	lateness = first arrival − instant asked for
//	missed   = jobs without an arrival
//	doubled  = arrivals beyond the first
//	early    = arrivals before the instant
//
// Then the API is asked for the outcome of each run. A run without an end, and one that ended
// twice, differently (the rule of package check), break a promise as a missed run does. Of runs
// that warm up only the sink is asked.
//
// Where runs call nothing (target noop, a setting of the executor) or a NATS worker, the executors'
// counters tell of starts and ends, read from /metrics ten times a second. Lateness is then the
// upper bound of a histogram's bucket. The burn-down counts from the last reading without a start
// to the first at which every outcome is recorded and every message acknowledged. Missed are runs
// of which the API knows no start.
//
// CPU is user + system time of all processes of a kind, divided by runs:
//
//	protocol     from, to
//	A            just before what works is started, the end of the burn-down
//	B C D E H    a second before the first due instant, the end; also consoles
//	R            the same, the end of the span; divided by the runs that had begun by then
//	W            the same, from the first request; divided by its steps
//	import, api  the first request, the last answer
//
// Allocations are those of the Carillon processes in the same span. Generator and sink share the
// machine.
//
// Single creations come at a constant rate whether answers come or not, and each counts from the
// instant at which it should have been sent. Jobs of R have no jitter and first run within an
// interval of the start, so each due instant is known before. A call counts for the due instant
// that it names.
//
// Memory is read after a garbage collection in every node, before a batch is sent and when its last
// run is done.
//
// # In flight (F)
//
// The receiver answers after Config.Hold; calls begin over Config.Ramp. The executor has a node of
// its own and slots for all. Then new runs fall due that call another sink; their lateness is
// compared with that of as many runs before. Memory per run is the growth of the executor's memory
// ÷ the attempts under way. A run counts as succeeded when the executor says so, since a NATS
// worker keeps no record. Over HTTP/1.1 a call needs a connection and so a file: N is cut to the
// limit of open files, which the result notes. Over HTTP/2 (h2) a thousand calls share a
// connection.
//
// # Interference (H)
//
// Runs of one tenant alone, then beside another tenant's, which begin 5 s before and go on to the
// end. These have three attempts and a time-out of Config.HarmTimeout. CPU, memory and allocations
// of a half with both are those of both, divided by the watched runs.
//
// # Workflows (W)
//
//	part         runs                                    figures
//	pace         chains at Config.Pace steps a second    the gap between the answer to a step and the next one
//	chains       Config.Chains, Config.Open at once      steps ÷ time from the first request to the last call; gaps
//	fanout       one with Config.Items items, then join  time from the request to the call of the join
//	subscribers  Config.Items jobs on one event          time from the request to the last first call
//
// A run is named by the answer to its request, and a step's run by that (schema.MakeStepID), so the sink
// tells of which step a call is. Missed are steps that never came, doubled the calls of a step beyond
// its first, early those that came before the step before them was answered. The API is not asked what
// became of the runs. On a cluster two nodes have all roles.
//
// # Consoles and pages
//
// Each round of consoles has two halves on one system, without and with Config.Consoles open, and the
// order changes from round to round. They are open from the end of the import until the last run has
// ended. Their requests are made by the generator, which shares the machine; browsers would not. Of
// the job that one of them looks at runs begin in both halves. The halves hold to Pairs.Verdict, CPU
// within 5 %, lateness within the spread of the rounds without.
//
// Of pages the rows fall due over the four hours after the import, so runs begin while it is measured
// (10 M rows: 694 a second, of an executor that calls nobody). Each round starts the nodes anew: the
// first time is cold, the others are warm. A page takes from the first request to the last answer:
// the Overview with its files, the others without. What a browser draws then is not in it.
//
// # Invariants
//
//  1. What was started is stopped: all processes die with this program.
//  2. A measurement in which jobs were refused fails. One whose import ended after the first due
//     instant says so in a note.
//  3. Every result names its settings, those of durability above all.
//
// A crash leaves the folders of the system under Config.Dir, and every result that was finished.
package bench
