// Package journal reads and writes the files that carry a load test from its tools to the judge.
//
// All are lines of JSON, written by one process each and read after the fact:
//
//	asked     the jobs themselves, as for POST /v1/imports; what was asked is read from the very bytes that were sent
//	acks      a head {"source": …}, then {"line", "id", "status", "at"}, one an answer; at in ns since 1970
//	changes   {"run", "kind": "cancel" | "reschedule", "due", "requested", "acked"}, times in RFC 3339
//	seen      what the sink saw; see [SeenWriter]
//	states    {"run", "state", "at"}, one a change of a run's state as it was looked at
//
// A job is known everywhere by its Ref: the source of its file and its line in it. The source is what the addresses in the
// file say ("http://sink/<source>/<line>"), or the name of the file without its ending if they say nothing.
//
// A file whose writer was killed ends in the middle of a line. Readers forgive that one line and no other.
package journal
