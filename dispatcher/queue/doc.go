// Package queue is the wire between dispatchers and executors: the envelope, the subjects, and the
// contracts of publisher, consumer and bus that the adapters (jetstream, inproc) implement.
//
// # What is authoritative
//
// Nothing here. The stream is a shallow wake-up call: it may be deleted at any instant, deliver
// twice, or forget what it knew of duplicates. The store says what is due and what is done.
//
// # Invariants
//
//  1. A message is delivered until somebody acknowledges it, for as long as its stream lives.
//  2. Within one incarnation of a stream a subject's sequence numbers grow, and Front never reports
//     one higher than that of an unacknowledged message.
//  3. An envelope carries the entry's text byte for byte.
package queue
