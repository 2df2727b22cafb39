// Package logs finds lines in the logs of runs: what workers logged while they ran, and the errors
// of attempts that failed.
//
// Lines lie with their runs (schema.ReportPart), in no order across runs and under no index. So a
// search reads: it looks at runs one after the other, and at the log of each that has one. What
// that may cost is bounded for each answer, and an answer says how much it has looked at, how far
// it has come and where the next one goes on.
//
// # What is looked at
//
//	a window of due times   the newest minute first; the runs of a minute in due order
//	a job                   its history, the latest due first
//	one run                 that run
//
// Of a workflow run the runs of its steps are looked at, in the order of steps, then of items.
// Steps of a workflow that a step starts are not: they are those of that step's own run. The lines
// of one run are in the order in which it logged them; the error of an attempt stands behind its
// lines.
//
// # What it costs
//
// A run is found as lists of runs find it, with its attempts, which tell the errors. A log is read
// only if an attempt is under way, was lost, or is recorded with lines: mostly by one read. An
// answer ends at the first of maxRuns runs, maxReads reads of logs, maxSlices slices of minutes,
// and searchTime.
//
// # Following
//
// FollowLogs goes with time instead: it finds the runs that fall due, followLag later, and reads on
// in the logs of those that have not ended, of maxFollowed at most. All that it knows is in its
// position, so any node goes on from that.
//
// # Files
//
//	logs.go     what is asked for, what is answered, positions
//	search.go   SearchLogs, and what it looks at
//	read.go     one run: its lines and errors
//	follow.go   FollowLogs
package logs
