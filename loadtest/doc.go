// Package loadtest holds what puts load on Carillon and what judges it from outside.
//
//	check     the judge: a pure function from what was asked, answered, seen and read to a report
//	journal   the files that carry those four from the tools to the judge
//	flow      starts runs of workflows, and judges gaps between steps by what a sink saw
//	workload  seeded streams of jobs
//	sink      the HTTP receiver that records calls, and works, fails, hangs or drips as addresses say
//	api       a client that notes when each answer came; every tool asks through it
//	metrics   reads the metrics of nodes
//	nats      speaks to NATS servers as an operator's tool does, and answers as a worker
//	wait      until an instant, until a condition holds, between repetitions
//	process   starts, awaits and stops processes, and measures their CPU time and memory
//	chaos     scenarios on a real cluster of its own, which is broken meanwhile
//	console   asks a node what an open page of the console asks it, as often
//	bench     protocols that measure speed, on real clusters and on carillon dev, and the goals
//	plot      draws curves over time into SVG files
//	flame     flame graphs of CPU profiles
//	gate      compares benchmarks of the hot paths with committed figures (cmd/bench-gate)
//	cmd/carillon-load  the program over all the others
//
// No tool imports code of the product but constants of package schema (chaos/lateness.go), and
// how it makes the id of a step's run: the judge must not share the mistakes of the judged. Figures are in RESULTS.md.
package loadtest
