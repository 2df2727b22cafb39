// Package queue is what lies between dispatchers and executors: the envelope, the subjects, and the
// contracts of publisher, consumer and bus. The adapters implement the contracts: jetstream on
// NATS, inproc in memory for simulations. queuetest tests both.
//
//	queue.go     the contracts, their errors and bounds
//	envelope.go  an entry on the wire
//	advice.go    hints and notices on the wire; headers of requests
//	subjects.go  names of streams and subjects, and of pools
//	events.go    events that clients publish on NATS
//
// # What is authoritative
//
// Nothing here. A stream may be deleted at any instant, deliver twice, or forget message ids. The
// store says what is due and what is done.
//
// # Invariants
//  1. A message is delivered again until it is acknowledged, as long as its stream lives.
//  2. Within one incarnation of a stream a subject's sequence numbers grow, and Front never reports
//     one higher than that of an unacknowledged message.
//  3. An envelope carries the entry's text byte for byte.
package queue
