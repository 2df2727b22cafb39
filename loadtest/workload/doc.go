// Package workload makes streams of jobs for load tests: NDJSON as for POST /v1/imports, one job a line.
//
// The same [Spec] makes the same bytes. Each job calls "<target>/<source>/<line>" and carries {"ref": "<source>/<line>"} in its
// payload, so that whoever sees a run knows which job it is without having seen the answer to it.
//
// [Recurring] makes recurring jobs in the same manner, as bodies of POST /v1/jobs. [Herd] computes what jitter does to many jobs of one schedule.
package workload
