// Package ratelimit gives the runs of tasks that have a rate their starts.
//
// A task's `rate` is a sequence of instants, one start each. All dispatchers share one register a
// task and rate (schema.RateLease), a lease whose fence is the first free instant. A dispatcher
// reserves a block of instants with one conditional write, and deals them to the entries that wait,
// in the order of their due times. The package is the arithmetic of that: it does no I/O and reads
// no clock. Its user makes the conditional write ([Limit.Next]) and brings the result
// ([Limiter.Deal]). [Reservation.Fits] says whether an entry starts as it is, or is deferred to its
// start. A [Limiter] is safe for concurrent use.
//
//	Reserve ──▶ a start is in hand ──▶ Reservation
//	   └─────▶ none is: the entry waits, Wanting ──▶ Want ──▶ Next ──▶ write ──▶ Deal ──▶ Reserved
//
// # Invariants
//
//  1. A start is dealt once. One that nobody used within maxUnused of its instant is dropped, so
//     there is no burst credit.
//  2. Whoever waits is answered once: by a Reservation, or by the zero one when the rate changes.
//  3. Of each task one block at a time is being reserved.
//
// # If we crash
//
// Between the conditional write and a publication, the reserved starts are lost: at most a block,
// about a second of the rate, and the task runs that much slower for a moment.
package ratelimit
