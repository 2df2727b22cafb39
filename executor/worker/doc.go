// Package worker runs tasks of the kind nats: it is the Go SDK of Carillon's workers. PROTOCOL.md
// is what it speaks; any language can.
//
// A Worker takes runs from the subjects that it has handlers for, as many at a time as it is told
// to, and declines the rest, so that others take them. While a handler runs it says that it is
// alive, passes on what the handler logs and how far it has come, and ends the handler's context
// when the run is cancelled, its time is up, the worker stops, or nobody waits for the result any
// more.
//
// # Guarantees
//
// A worker has the guarantees of its task, not more: its executor stands for it. A run of an
// at_least_once task may come twice, also to two workers at once, when an executor dies; Run.ID is
// the key with which to recognise it, and of two executions the one with the higher Run.Fence is
// the later. What comes when its executor has given it up already is declined: the clock of a
// worker must be right to some seconds. A result is sent until the executor says that it was heard,
// which is not yet that it is recorded.
//
// # If it crashes
//
// A worker that dies is silent: its attempts fail after 35 s, and are tried again as the task's
// policy says. A handler that panics fails its attempt alone.
//
// # Files
//
//	worker.go   a worker: its slots, its handlers, its end
//	run.go      what a handler sees
//	talk.go     the words to and from the executor; two signs of life that nobody hears, 20 to 30 s,
//	            and the handler ends
//
// The package imports nats.go and nothing else that is not of the standard library, so that a
// worker's program stays small.
package worker
