// Package workload makes streams of jobs for load tests: NDJSON as for POST /v1/imports, one job a
// line.
//
// The same [Spec] makes the same bytes. Each job calls "<target>/<source>/<line>" and carries
// {"ref": "<source>/<line>"} in its payload. So a run names its job without the answer to it.
//
// [Recurring] and [Limited] make recurring jobs, as bodies of POST /v1/jobs. [Workflows] makes
// workflows, and requests to run them.
package workload
