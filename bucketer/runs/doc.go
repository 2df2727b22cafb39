// Package runs is what is done with a run after it was accepted: show it, cancel and reschedule it,
// run it again, write what became of its attempts and what follows from that, and keep it as a dead
// letter if it failed for good.
//
// # What is authoritative
//
// The rows: the run's row and its marks, its attempts, the lease of a guarded run, its dead letter
// and that letter's resolution. In memory is which sessions stood within the last second.
//
// # Invariants
//
//  1. What follows from a record (the retry entry, the dead letter, the line of history) is a
//     function of the record and of the entry that was started. So FollowUp may be called again by
//     any node, and writes the same rows.
//  2. An entry that is replaced stays open until the entry that replaces it is held.
//  3. A dead letter is written only while the rows say that the run has failed. It keeps its
//     resolution if it is written again.
//  4. A mark lives as long as every row that would start without it.
//  5. A cancelled run starts no attempt from 2 s after the answer on.
//  6. A replay is one run, however often it is asked for.
//
// # If we crash
//
//	between                                     then
//	the entry of a reschedule and its mark      the entry is never named and never starts
//	a mark and what follows from it             asking again does what is left
//	a watch entry and attempt 0                 the next look writes the same entry again
//	a record and what follows from it           the next node that reads the record calls FollowUp
//	a replay's key, its run and its resolution  the next replay finds the key and writes the same run
//
// # Files
//
//	runs.go, metrics.go           Runs, its four parts, their wiring
//	run.go, filter.go             the nouns; what a list selects, and how a run is shown
//	filtertext.go, hostcalls.go   the same in the words of requests; which runs call a host
//	read.go, list.go, merge.go    Reader: one run; a window of runs, merged over all shards
//	outputs.go, logs.go           outputs of attempts; their reports and logs
//	cancel.go, reschedule.go      Control: cancel, reschedule
//	retry.go, lease.go            Control: run again; end a guarded run in its lease
//	record.go                     Recorder: attempts and lines of history
//	announce.go                   Recorder: events of the system that follow
//	followup.go, replace.go       Recorder: what follows from records; an entry instead of another
//	deadletters.go                DeadLetterQueue: write, supersede, resolve
//	deadletters_replay.go         DeadLetterQueue: list, show, replay, discard; what became of replays
//	errorpattern.go               an error as it is shown; what errors of one kind have in common
package runs
