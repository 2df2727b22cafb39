// Package sink is the receiver of a load test: an HTTP handler that writes down every call it gets.
//
// # What is authoritative
//
// The record in the file (its format is that of journal.SeenWriter). A call is in memory before it is answered and in the file
// at most [FlushEvery] later. A sink that is killed loses what it had not flushed; its record then tells of the gap (a start
// without a close), and the judge does not take a missing arrival for a missed run.
//
// Of a body and of the headers "X-…" the record has hashes, which the judge compares with the line of the job. What is usual costs no
// room: keys and job ids are written only where they are not the run's id.
//
// # How it answers
//
// By default with 200, at once. Config says otherwise for all calls, and an address for its own: "/work-500ms/fail-1/s1/17" is job 17 of s1, whose calls
// take the receiver half a second each and fail the first time; hang, drip, status, after and cut are others (manner.go). Work is done to its end whatever
// becomes of the caller, as that of a receiver that knows nothing of Carillon is; the end that the record tells is that of the work. A hang-up is told
// beside it.
package sink
