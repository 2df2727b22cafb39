// Package sealed keeps what tenants hand in and get back encrypted in the store, for tenants that
// ask for it (schema.Tenant.EncryptPayloads). Store stands before another store: it seals what it
// writes, and opens what it reads. So all others work with clear data, and neither backend knows of
// it.
//
// # What is sealed
//
//	payloads             of jobs, runs, steps, events; the definition that a workflow run keeps
//	records of attempts  the error, the output, the text of the progress; also in dead letters
//	parts                long outputs, logs and progress of workers
//	jobs                 the payload, the definition of a workflow
//	keys                 what an idempotency key stands for, all of it
//	notifications        the error of an incident and of an example, what incidents have in common
//
// Not sealed are: names (of tenants, tasks, jobs, steps, events), labels, times, sizes, states,
// reasons, status codes, who did what; tasks; and how work is done: URLs, methods, headers,
// arguments, subjects, expressions of filters; the audit log, which has no payloads but the
// conditions of steps; what an operation selects by. Secrets are sealed by bucketer/admin, in any
// case. What a call sends goes to the callee as it is; so do the events that clients publish to
// JetStream.
//
// # Invariants
//
//  1. What is sealed opens at its own place alone: the run, attempt, part, job and generation, key
//     or incident that it was written for.
//  2. What cannot be opened stays as it is, and says so: a payload stays sealed (schema.IsSealed),
//     a record keeps Sealed and says why in Error, a job has a Fault, a part is ErrSealed. Nothing
//     is written clear, and nothing is lost, because of it.
//  3. Who only passes entries on gets them as they are stored (Carried). So the messages of the
//     queue hold sealed payloads; what is published straight from memory is sealed before (Seal).
//  4. Sealing is a function of key, place and text, so rows that are made twice are the same row.
//  5. Where it cannot be told whether a tenant asks for it, and there is a key, data is sealed.
//  6. If there is no key, what would be sealed is not written (of a record: not kept).
//
// A record of a guarded run is sealed before it is written into the lease (SealAttempt), since
// leases are compared byte by byte.
//
// # When keys change
//
// The first key seals, all of them open. The log names an older key once data is read that it
// sealed. What runs leave is gone after the retention, and dead letters after theirs; a job is
// sealed with the first key when it is put again. Then the older key may go.
//
// # Files
//
//	store.go      Store, entries and payloads
//	records.go    attempts, parts, dead letters
//	jobs.go       jobs, idempotency keys
//	notices.go    incidents and groups of notifications
package sealed
