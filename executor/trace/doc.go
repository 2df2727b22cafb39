// Package trace says what of a run is a trace: its ids, whether it is sent, and what its spans
// tell. Package otlp below sends them. Nothing of a trace is stored: every node works out the same
// ids and the same verdict from the id of a run.
//
// # Ids
//
//	trace              the 16 bytes of the run's id
//	span of the run    its last 8 bytes (they are never zero: the variant of a UUID is among them)
//	span of an attempt a function of run, number and fence (AttemptSpan)
//
// So an attempt on another node has the same parent, and whoever records a dead executor's attempt
// as lost writes the very span that its callee was told of. Two records of one attempt are two
// spans of one id.
//
// # The tree
//
//	run                 due → outcome; a step of a workflow has a link to the run of its workflow
//	├─ dispatch         due → received, where the message came after the due time
//	├─ wait             the later of both → start: admission, slot, claim
//	├─ attempt 1        the call; the callee's spans are below it, by traceparent
//	└─ …                the same of each later attempt
//
// Spans are written after the fact, with their times. That of the run is written by the executor
// that recorded the outcome, once the store holds it, and that of a workflow's run by the
// dispatcher that ended it; the others when the attempt has ended. A request that made a run has a
// link to it, not the other way: its context would have to be stored with each run. At a ratio
// below 1 both are sampled each on its own.
//
// A span of a run is missing where no executor ends the run:
//
//	cancelled while it waited, also between two attempts
//	missed or skipped before it was published: by its misfire policy, the limit of its job, the jobs
//	that it was to run after, or the choice of its workflow
//	its row could not be understood, or its retry was too large to be written
//
// Such an end is a mark or a row that any node may write, that is written again by whoever finds
// it, and over which the record of an attempt still wins. A missed stretch of a schedule is one
// row, for runs that never were. So no node knows that what it writes ends the run, as an executor
// does that records its last attempt: a span would be sent by none, by several, or beside one that
// says otherwise. But for a run that was cancelled between two attempts, its trace would hold
// nothing else.
//
// # What is sent
//
// A run is sampled if the last 56 bits of its id, as a number, are at least (1 − ratio) · 2⁵⁶. That
// is how OpenTelemetry's consistent sampling goes by the random part of a trace id, so a collector
// that samples further keeps whole traces. (The library's TraceIDRatioBased looks at the 63 bits
// after byte 8. In a UUID the first of those are constant: it samples none of our runs at a ratio
// of 0.5, all at 0.75.) For the steps of a workflow the id of the workflow's run decides.
//
// Sent besides, whatever the ratio: attempts that failed, timed out or were lost, those of runs
// that started more than schema.LateStart late, all after the first, and the spans of their runs;
// of about 100 such runs a second on a node, and of a part of them beyond that (Storm).
// Not sent: the first attempt of a run that was good up to then and is sampled out.
//
// # What a callee is told
//
// The flag in traceparent says whether the span of the attempt will be sent, as far as that is
// known at the start: sampled, late or not the first. An attempt that fails is sent all the same,
// after its callee was told that it would not be. Without an endpoint nothing is sent, and the flag
// is 0 unless OTEL_TRACES_SAMPLER is set: then it goes by that, as in every SDK of OpenTelemetry.
package trace
