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
// # Files
//
//	json.go       parse a text into nodes; canonical.go writes them again
//	read.go       read single fields
//	faults.go     note what is wrong
//	job.go        jobs and changes of jobs; work.go and schedule.go are their parts
//	request.go    the decoder, tasks; operation.go, tenant.go, signing.go, target.go, preview.go the rest
package request
