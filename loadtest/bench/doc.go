// Package bench measures Carillon from outside: protocols A to F, H and R of the goals, imports and single creations, on a real
// cluster of its own or on `carillon dev`.
//
//	A       burn-down: N runs that are all due when the first executor starts; as "outage" also N that are overdue when the first dispatcher
//	        starts, so that who takes over looks at each
//	B       N runs at one instant
//	C       N runs spread evenly at random over a span, at a stated rate
//	D       B and C with rows of the next hours resident, against the same without
//	E       C with a dispatcher killed -9 in the middle
//	F       N runs in flight at once on one executor, and new ones beside
//	H       C for one tenant, alone and beside another one whose target fails, hangs or drips
//	R       runs of recurring jobs at a stated rate, beside C at the same rate
//	import  bulk import while nothing runs
//	api     single creations at a constant rate
//
// # What is measured, and how
//
// Where runs call the sink, starts are its arrivals: lateness = first arrival − the instant asked for, missed = jobs
// without arrival, doubled = arrivals beyond the first, early = arrivals before the instant. Nothing that the system says
// of itself is used.
//
// Then the API is asked what became of each run: one without an end, and one that ended twice, differently (the rule of package check), break a
// promise as a missed run does. Of the runs that warm up the sink alone is asked; if one was missed or early nothing is measured.
//
// Where runs call nobody (target noop, an executor setting for measurements) or a NATS worker, starts and ends are the
// executors' own counters, read from /metrics ten times a second. Lateness is then that of the executors' histogram, given as the
// upper bound of the bucket; the burn-down counts from the last reading without a start to the first reading at which every
// outcome is recorded and every message acknowledged, so it is at most a tenth of a second too long at each end. Where B calls nobody its rate
// counts to the last outcome too. Missed are runs of which the API knows no start.
//
// CPU is user + system time of all processes of a kind between just before the first due instant (A: the start of
// those that work) and the end, divided by runs; allocations are those of the Carillon processes in the same span. In A both include
// what it costs to start them. The generator, the sink and everything else share the machine.
//
// Single creations (api) come at a constant rate whether answers come or not, each counted from the instant at which it should
// have been sent. Resident rows (D) are written by bulk import, as anybody would write them.
//
// The jobs of R are created one by one before their start, each due for the first time within an interval of it, at random, and without
// an offset of its own (jitter 0s), so each of their runs is known before: missed, early and doubled mean the same as for one-off jobs. A call
// counts for the due instant that it names, and as unexpected if that was not asked for. CPU is that of the span, divided by the runs
// that had begun by its end; what the creation of the jobs and of the one-off runs costs is in neither.
//
// Memory is read twice, after a collection of garbage in every Carillon node: before a wave is taken in, with all that is resident, and
// when its last run is done. Scans are the reads ahead of the dispatchers, from a histogram of their own.
//
// # In flight (F)
//
// The runs call a receiver that answers after Config.Hold and begin over Config.Ramp, so that all are under way when the last has begun. An
// executor on a node of its own has slots for all. Then the new runs fall due, which call a sink of their own that answers at once; their lateness is
// held against that of as many an instant before, with nothing else to do. What the calls cost the executor is its memory with all in flight less
// that before, by the attempts that it says are under way; garbage is collected before each reading. Session writes are counted by the executor's
// metrics of statements. A run counts as succeeded when the executor says so, since a NATS worker keeps no record.
//
// Over HTTP/1.1 a call needs a connection, thus a file, and an executor has 2,048 connections to a host: the sink listens on as many
// addresses as that takes, and N is cut to what the limit of open files allows (noted in the result). Over HTTP/2 (h2) a thousand calls share a
// connection; the sink's certificate is made for the occasion and trusted through SSL_CERT_FILE.
//
// # Harm (H)
//
// Pairs of measurements of the same: runs of one tenant alone, then beside another one's, whose runs begin 5 s before and go on to the end. These have
// three attempts and a time-out of Config.HarmTimeout. The next half begins when nothing of them is under way any more, for longer than their last
// back-off. CPU, memory and allocations of a half with both are those of both, divided by the runs that are watched.
//
// # Invariants
//
//  1. What was started is stopped, whatever happens: all processes die with this program.
//  2. A run in which jobs were refused, or the import was not over before the first due instant, is not a measurement:
//     the former fails, the latter is noted in the result.
//  3. Every result names its settings, those of durability above all.
package bench
