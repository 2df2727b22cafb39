// Package request reads the bodies of requests: JSON text becomes jobs, tasks, tenants, keys,
// filters and schedules that are valid, or every fault with its location.
//
// A Decoder holds no state between bodies but its memory, which it uses again. What it returns
// shares nothing with the body. It reads no clock: times come with the call.
//
// # Invariants
//
//  1. Every fault keeps its location. A fault never repeats a value that may be a secret.
//  2. Equal bodies have equal hashes: BodyHash is a hash of the canonical text (canonical.go).
//  3. A change is a merge patch (RFC 7396) of the body that says what the job says.
//
// # Why by hand
//
// huma was measured as a prototype on 2026-11-24: encoding/json into any, huma.Validate,
// encoding/json into the struct, and by hand what no schema says. A line took 6.5 µs of CPU (5.8 to
// 7.0) and 37 allocations; here it takes 1.2 µs (1.1 to 1.4) and 7. So an import into the embedded
// store took 10.6 µs a line instead of 5.4: 90 % more, where 5 % was the bound. Faults were lost,
// too: doubled names were accepted, and a header that is no string hid what was wrong with others.
// Medians of six interleaved rounds, by getrusage, beside a soak: loadtest/RESULTS.md, "Import".
//
// # Files
//
//	json.go       parse a text into nodes; canonical.go writes them again, and hashes them
//	read.go       read single fields
//	faults.go     note what is wrong
//	job.go        jobs and changes of jobs; work.go, auth.go and schedule.go are their parts
//	workflow.go   workflows, whose graphs package workflow checks
//	notification.go, email.go  rules for notifications
//	event.go      events, and what says which of them start a run
//	request.go    the decoder, tasks; operation.go, tenant.go, secret.go (signing keys too), target.go,
//	              preview.go the rest
package request
