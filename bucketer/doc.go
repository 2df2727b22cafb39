// Package bucketer takes jobs in: it validates them, gives each its address, and writes it into the
// partition of the minute in which it is due. All rows of runs are written by its Writer, so that
// one place keeps the rules of writing.
//
// The packages below it write through it. Each imports only those that stand below it here:
//
//	httpapi                    the API
//	request                    decodes bodies
//	operations                 bulk work, backfills
//	engine                     wires what follows for nodes and tests
//	concurrency                wait lists of limits
//	orchestration              runs of workflows
//	recurring                  jobs that can have many runs
//	runs                       what is done with a run after it was accepted
//	tasks, admin               tasks; tenants, keys, signing, audit, counts
//	bucketer                   this package
//	schedule, payload          times of a rule; schemas of payloads
//	workflow                   graphs of steps: what may start
//
// # What is authoritative
//
// The rows. In memory are the settings, how full a few partitions are (fill.go), and what was read
// of tasks within 10 s.
//
// # Invariants
//
//  1. Success is answered only when a quorum holds the row.
//
//  2. The late rule. A row counts only if it was held before its id time + LateAfter, half the
//     grace of a sweep. A writer that finishes later writes an entry of the same run that is due
//     now, and answers on that entry. So does a reader that finds such a row of which nothing was
//     recorded.
//
//  3. The near rule. The owner of a row's shard gets a hint of a row that is due within NearSpan of
//     being held, because it may lie behind the owner's scan. The sweep finds the row of a lost
//     hint.
//
//  4. A keyed line with an instant is the same row however often it is sent. A key without an
//     instant is registered before its row is written. The next use of a registered key writes that
//     row if it is not there. A row that is there is judged by its marks: a cancelled or moved run
//     does not start because its line was sent again.
//
//  5. An unkeyed import line costs a share of one batch: no read, no conditional write, no delete.
//
//  6. Rows are judged by a time that does not go back while the wall clock is not to be trusted.
//     Until the clock was right once, nothing is written.
//
//  7. A row and a payload live as long as every entry that refers to them (keep.go).
//
//  8. A payload that a client states fits the schema of its task, as this node knew it at most 10 s
//     before.
//
//  9. Of one-off jobs of one tenant with the same unique key none is created within the window of
//     another one.
//
// # Unique jobs
//
// A unique key is an idempotency key that is made of the content of a job (package request): of
// what by names, and always of what the job runs. It is a row of the same table, which the store
// drops after the window. A job whose key is registered creates nothing, whatever else it says, and
// is answered with the job that was created. So another body is no conflict here.
//
//   - The window slides: it is counted from the creation (Spec.Accepted) of the job that came
//     first. Windows at multiples of their length would let two requests through that come a moment
//     apart, one on each side of a boundary; so would one whose answer was lost. It is that job's
//     window: a later job that states another one changes nothing.
//   - The window alone ends it. A job that has ended, or was cancelled or rescheduled, counts until
//     then; one that is due later than its window counts no longer.
//   - A window is from 1 s to 31 days. The key is kept uniqueSlack longer: stores count whole
//     seconds, and clocks differ.
//   - Beside an idempotency key: that key decides alone once it is known. Its first use names the
//     job that the unique key stands for, so both give the same answer for as long as they are
//     kept. In an import the key of a unique line stands for itself, as that of a request, not
//     together with its instant.
//   - With regions a unique job lies at its tenant's home, which decides (place.go); other regions
//     send the request on. A region that is lost for good may lose the keys of its last moments,
//     and a second job can be created then, unless the first is of durability everywhere.
//   - A job without it costs nothing more: it has no further row, and its own has no further byte.
//
// # If we crash
//
//	between                        then
//	registering a key and its row  the key's next use writes the row
//	a unique key and its job's     the next use of either writes the row
//	  idempotency key
//	a row and its hint             the sweep finds the row
//	a row and its line of history  the run is listed once it has ended
//
// # Files
//
//	config.go, metrics.go         wiring, bounds
//	job.go, limits.go, faults.go  the nouns of intake, its errors
//	submit.go, place.go, fill.go  take jobs in; where a row lies; how full a partition is
//	tasks.go                      the tasks that jobs name, and their payloads' schemas
//	entry.go                      make entries: of jobs, late ones, deferrals, retries
//	write.go, late.go             write batches; the late rule and the near rule
//	keep.go, history.go           rows that must live longer; a job's lines of history
//	rows.go, live.go              read rows by id; which sessions stand
//	lookup.go                     the run of a key; unique jobs
//	clock.go, halt.go, stamp.go   which time it is; a process that was stopped; write timestamps
//	slots.go, verdict.go          what executors and dispatchers share with the packages below
package bucketer
