// Package jetstream is the queue on NATS: streams and durable pull consumers by JetStream, hints,
// notices, signals and requests by core NATS. It is the only package that imports nats.go.
//
// Streams and consumers belong to the program: it makes them, brings them up to date, and makes
// them anew within about a second when somebody deleted them while it runs.
//
// # Incarnations
//
// A stream's incarnation is the instant of its creation, as the server states it. No answer to a
// publication or to a look at the front says to which incarnation it belongs, so both err on one
// side:
//
//   - A receipt carries the incarnation that was known before the message was sent. The message
//     lies in that one or in a later one.
//   - A front carries the incarnation that the server stated after it had looked. It is that of the
//     sequence or a later one.
//
// So equal incarnations on both mean that the message was stored in a stream that still stands or,
// if the stream went between the look and the statement, that the next look tells. A message that
// was lost with its stream is never held for present for longer than until the next Front; one that
// is present may be held for lost if it was stored before this process noticed the new stream,
// which costs one redispatch. That gap is kept short: the program asks once a second, and at once
// when a sequence leaps. Besides, the first sequence of a stream made here is its creation in µs
// since the Unix epoch, so that the sequences of a later incarnation are higher than all earlier
// ones.
//
// # If we crash
//
// Nothing is kept here. What was handed out comes back after queue.AckWait.
package jetstream
