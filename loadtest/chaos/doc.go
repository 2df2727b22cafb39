// Package chaos runs the main job for real: it starts a cluster of Cassandra, NATS and Carillon processes, imports
// jobs over HTTP, kills and freezes processes while they run, and has everything judged by package check.
//
// # The instants
//
// All instants are counted from T0, the first due instant, which lies Config.Lead after the start of the main import:
//
//	start … T0          the main import (94.5 % of the jobs), due over Config.Span from T0 on
//	from T0 on          the late imports: five portions of jobs that are due within the very minute of their import, and
//	                    of immediate ones (5 % and 0.5 % of the jobs)
//	T0 … T0 + 0.8 span  cancels and reschedules, each of a run that is due soon
//	T0 …                the faults of the scenario; the offsets are made for a span of a minute and shrink with it
//
// Scenarios with recurring jobs have no imports: jobs are created over HTTP one by one. Those of Recurring state a start, T0, which lies Config.Create after
// that of the creation, so that none runs while others are created, and an end Config.Span after it, so that they finish by themselves. In Pause and
// Stopped T0 is when the last one was created, the observation ends Config.Span after it (and the stop of all nodes, if there is one), and then all jobs
// are cancelled. So the judge reads histories to which nothing is added any more.
//
// Scenarios with guarantees import jobs of all three at once and have no changes and no late imports. One node takes jobs in and dispatches, the others
// execute and are what is killed or frozen. In Frozen the executor thaws between the two reads of the judge, which says when the first is over.
//
// In Limits recurring jobs with limits on their runs at once and one-off jobs of tasks with limits (a rate, or max_concurrent) run side by side, most of them due more often than
// they may run. The two are of two tenants with a sink and a judge each, since calls of a task name no job. Tasks are made first, then the jobs; all are due from T0 on.
//
// # States
//
// A sample of each import's runs is looked at in turn, from the import on until the judge is done (watch.go). So an end that
// does not last is seen, also if both readings of the judge show the same.
//
// # Lateness
//
// Each scenario bounds how late runs may start (lateness.go): by what its faults cost, from detection to
// take-over, and by its backlog where more falls due than a small machine starts. The judge fails the run beyond it.
//
// # Declared scenarios
//
// The other scenarios have a steady load of all guarantees and declare everything else in a Plan: the
// members wanted, the faults with their offsets from T0, and how late a run may start. To add one,
// write its Plan into the file of its family (plans_network.go, plans_process.go, …) and, for new
// acts, functions into the acts of the family. What the program itself sees broken it notes with run.broken.
//
// # Invariants
//
//  1. What was started is stopped, whatever happens: members of the cluster and the sink die with this program.
//  2. What is asked, answered and changed is written down as it happens, in the files that `carillon-load check` reads;
//     the judge is a process of its own that reads those files and the API, and nothing else.
//  3. Faults are real: signals to processes, packets that are dropped between namespaces of this run,
//     and requests to NATS as an operator's tool would send them. Nothing of the
//     product is linked in.
package chaos
