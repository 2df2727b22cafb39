// Package sink is the receiver of a load test: an HTTP handler that writes down every call it gets.
//
// # What is authoritative
//
// The record in the file (its format is that of journal.SeenWriter). A call is in memory before it is answered and in the file
// at most [FlushEvery] later. A sink that is killed loses what it had not flushed; its record then tells of the gap (a start
// without a close), and the judge does not take a missing arrival for a missed run.
package sink
