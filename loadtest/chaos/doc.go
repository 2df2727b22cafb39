// Package chaos runs jobs on a real cluster and breaks it meanwhile. It starts Cassandra, NATS and
// Carillon, imports jobs over HTTP, injects the faults of a scenario, and has package check judge
// the result.
//
// # Map
//
//	chaos.go       a run: start, play, judge, stop; mainjob.go: the main job
//	config.go      settings and defaults
//	plan.go        what a scenario declares; plans_*.go: the scenarios by family of faults
//	schedule.go    acts, steps, and the faults of the main job
//	steady.go      a steady load, and waiting until nodes agree
//	plans_alerts.go  which alerts fire
//	load_counted.go load_soak.go  much or long load, judged by a tally; load_cuts.go: killed imports
//	recurring.go   recurring jobs; guarantees.go: guarantees; limits.go: rates and limits
//	workflows.go    workflows
//	regions.go      regions: a run; regions_acts.go: what is done to them; regions_flows.go: workflows of
//	                homes; regions_keyed.go: keys sent again at another region; regions_judge.go: verdicts;
//	                regions_measure.go: fail-overs; regions_plot.go: who started what when
//	imports.go ask.go changes.go  imports, requests about jobs, cancels and reschedules
//	links.go resources.go watch.go  cuts and the stream's leader; what members use; states of runs
//	judge.go lateness.go tally.go   verdicts and their bounds
//	report.go markdown.go           reports
//
// The package has more than 25 files because a family of scenarios is a file of plans and a file for its
// course, and all share the acts on one cluster.
//
// # The main job
//
// All instants count from T0, the first due instant, Config.Lead after the start of the main
// import:
//
//	start … T0          the main import (94.5 % of the jobs), due over Config.Span from T0 on
//	from T0 on          five late imports: jobs due within the minute of their import (5 %), and
//	                    immediate ones (0.5 %)
//	T0 … T0 + 0.8 span  cancels and reschedules of runs that are due soon
//	T0 …                the faults, at offsets for a span of a minute that shrink with the span
//
// # Other courses
//
//	recurring   jobs are created one by one and state a start (T0) and an end; nothing is cancelled
//	pause,      T0 is when the last job was created; the observation ends Config.Span later (and
//	  stopped   after the stop of all nodes); then all jobs are cancelled, so histories stay as they are
//	guarantees, one import of jobs under all three guarantees, no changes; one node takes jobs in and
//	  frozen    dispatches, the others execute and are killed or frozen; in frozen the executor thaws
//	            between the judge's two reads
//	limits      recurring jobs with limits and one-off jobs of tasks with limits, of two tenants with
//	            a sink and a judge each, since calls of a task name no job
//	workflows   workflows are put in the lead, and runs of them are asked for over the span; the faults of
//	            the main job come again, of nodes each minute, of the others each third
//	region-…    two or three regions on one keyspace; each home has a tenant, a steady load, a sink and a
//	            judge, and the same of workflows; some jobs are asked for again at another region
//	steady      a steady load of all guarantees; everything else stands in the scenario's Plan
//	load        the Course of the Plan: herd-million, tombstones, soak, import-cuts
//
// To add a scenario with a steady load, write its Plan into the file of its family, plans_*.go. Its
// new acts are entries of the family's acts (buildActs, diskActs), or cases of run.act in chaos.go,
// which does every act. A new family goes into Plans and families (plan.go). run.broken notes what
// this program itself sees broken.
//
// A sample of each import's runs is read from the import until the judge is done (watch.go). So an
// end that does not last is seen even if both readings of the judge agree.
//
// Each scenario bounds how late runs may start (lateness.go), by what its faults and its backlog
// cost.
//
// # Invariants
//
//  1. What was started is stopped: members and sinks die with this program.
//  2. What is asked, answered and changed is recorded as it happens, in the files that
//     `carillon-load check` reads. The judge is a process that reads these files and the API alone.
//  3. Faults are real: signals to processes, packets dropped between namespaces, requests to NATS
//     as an operator's tool sends them. Only constants of the product are linked in (lateness.go).
//
// After a crash Config.Dir has all records, and the next start removes namespaces and disks.
package chaos
