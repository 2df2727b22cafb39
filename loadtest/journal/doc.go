// Package journal reads and writes the files that carry a load test from its tools to the judge.
//
// All are lines of JSON. One process writes each, and they are read after the fact:
//
//	asked     the jobs as for POST /v1/imports: what was asked is read from the bytes that were sent
//	acks      a head {"source": …}, then {"line", "id", "status", "at"}, one an answer; at in Unix ns
//	changes   {"run", "kind": "cancel" | "reschedule", "due", "requested", "acked"}, times in RFC 3339
//	events    requests about recurring jobs with their answers: check.JobEvent
//	workflows {"name", "body"}, one a workflow as it was put: workflows.Workflow
//	triggers  requests to run workflows with their answers: workflows.Trigger
//	seen      what the sink saw; see [SeenWriter]
//	states    {"run", "state", "at"}, one a change of a run's state
//
// A job is known everywhere by its Ref: the source of its file and its line in it. The source is that of
// the addresses in the file ("http://sink/<source>/<line>"), or else the name of the file without its
// ending.
//
// A file whose writer was killed ends in the middle of a line. Readers ignore that one line.
package journal
