// Package workflows judges runs of workflows from outside, as package check does for other runs.
//
// [Judge] takes a [History] (the definitions, the requests to run them, what the sink saw, and each
// workflow run by the API, read twice) and returns a [Report]. It is a pure function. Its reading of
// a definition is its own: of the system it knows only how the id of a step's run is made.
//
// # What is authoritative
//
// The definition says which steps run. The sink says how they ended: what it saw did happen. The API
// is believed only where the sink cannot know: that a run has ended, and which attempts were lost.
//
// # The rules
//
//  1. A trigger is acknowledged if an answer named its run. Without one its outcome is unknown: it
//     has at most one run.
//  2. A step is called under its own run's id alone, at its own address, by at most as many attempts
//     as it states. Any other call is extra. So is a call of a step that is not to run, or of a
//     workflow run that nobody asked for, and such a workflow run in a list.
//  3. Missed: an acknowledged run that the API does not know; a step or item that is to run and was
//     never called, by a complete record of the sink.
//  4. Early: a call before the condition of the step can have been met, by the answers of the sink.
//     The tolerance is 0, and [WaitSlack] behind a step that waits. The sink and who asks must share
//     a clock.
//  5. Stuck: a workflow run without an end at the last read.
//  6. Untrue: a workflow run, or a step of one, whose state is not what the definition makes of the
//     answers; or a run that was at an end at the first read, and at another one at the second.
//  7. Duplicate execution: a call while an earlier one of the step's run had not ended in failure. It
//     is counted. It is a fault if the records of the step's run do not explain it
//     (check.SurplusCalls), or if one process has started one attempt twice (check.StartedTwice).
//  8. Too late: a first call of a step more than [History].Late after its condition was met. Items are
//     left out: they wait for one another.
//  9. What could not be read is unreadable, and fails the report.
//  10. A workflow run with a call under way within one of [History].Losses was not known where it
//     was gone on with as it is known now: its steps may run again, and another way. It is counted,
//     and judged by rules 5 and 9 and the first half of 3 alone: it must be there, and end.
//
// # How a step has ended
//
//	answered 2xx once                                          succeeded
//	else refused (4xx but 408, 425, 429), or no attempt left   failed
//	else                                                       not at all
//
// Where the last attempt has begun, an answer of 2xx may have been lost with its executor. Then either
// end may be, and the API says which.
//
// # Which steps run
//
//	when           starts when                    else
//	all_succeeded  all before it have succeeded   skipped: failed with the first that failed
//	all_done       all have ended                 –
//	always         the same                       –
//	any_succeeded  the first has succeeded        skipped when all have ended, as the worst of them
//	any_failed     the first has failed           the same
//
// A step whose if is false is skipped as succeeded. The judge reads two kinds of if:
//
//	input.n % 3 == 1           of the payload of the run
//	steps.s4.state == "failed" of a step that has ended by then: succeeded, failed, skipped
//
// A run has failed if a step has, also one that was skipped as failed. Else it has succeeded.
//
// # Files
//
//	definition.go  what was asked for
//	condition.go   the if of a step
//	fate.go        what becomes of a step
//	judge.go       the rules; calls.go those of single calls
//	report.go      the result
package workflows
