// Package loadtest holds what puts load on Carillon and what judges it from outside.
//
//	check     the judge: a pure function from what was asked, answered, seen and read to a report
//	journal   the files that carry those four from the tools to the judge
//	workload  seeded streams of jobs
//	sink      the HTTP receiver that writes down what arrives, and works, fails, hangs or drips as addresses ask it to
//	api       a client that speaks the API and notes when each answer came
//	process   starting processes and measuring their CPU time
//	chaos     the main job on a real cluster of its own, which is broken meanwhile
//	bench     protocols that measure speed, on real clusters and on carillon dev, and the goals
//	gate      compares benchmarks of the hot paths with committed figures (cmd/bench-gate)
//	cmd/carillon-load  the program over all the others
//
// Nothing here imports a package of the product: the judge must not share the mistakes of the judged.
// Figures live in RESULTS.md.
package loadtest
