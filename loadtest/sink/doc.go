// Package sink is the receiver of a load test: an HTTP handler that records every call.
//
// # What is authoritative
//
// The record in the file (its format is that of journal.SeenWriter). A call is in memory before it
// is answered and in the file at most [FlushEvery] later. A killed sink loses what it had not
// flushed. Its record then has a gap (a start without a close), and the judge does not take a
// missing arrival for a missed run.
//
// The record has hashes of bodies and of headers "X-…", which the judge compares with the job. It
// names keys and job ids only where they are not the run's id.
//
// # How it answers
//
// By default with 200, at once. An address changes that for its own calls:
// "/work-500ms/fail-1/s1/17" is job 17 of s1, whose calls take the receiver half a second and fail
// the first time; manner.go lists all. Work is done to its end even if the caller hangs up, as by a
// receiver that does not know Carillon. The recorded end is that of the work; the hang-up stands
// beside it.
package sink
