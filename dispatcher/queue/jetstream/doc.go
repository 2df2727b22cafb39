// Package jetstream is the queue on NATS: streams and durable pull consumers by JetStream, hints,
// notices, signals and requests by core NATS. Besides it only executor/worker, the SDK for workers,
// imports nats.go.
//
// Streams and consumers belong to the program: it makes and updates them. If somebody deletes them
// while it runs, it makes them again within about a second.
//
//	connection.go  the connection: dial, reconnect, subscribe
//	tls.go         how connections are encrypted
//	queue.go       connect and close; readings of a stream
//	streams.go     makes, checks and updates streams and consumers
//	passed.go      consumers that have passed messages, after a loss of power
//	publish.go     publications and their receipts
//	pool.go        messages for the executors of one pool
//	fetch.go       pulls, deliveries, messages that cannot be read
//	bus.go         hints, notices, signals
//	events.go      events that clients publish
//	request.go     requests to workers
//	clocks.go      the servers' clocks
//	examine.go     how it all stands, for whom something seems wrong
//
// # Incarnations
//
// A stream's incarnation is the instant of its creation, as the server states it. Neither a receipt
// nor a front says to which incarnation it belongs, so both err on a safe side:
//
//   - A receipt carries the incarnation that was known before the message was sent. The message
//     lies in that one or in a later one.
//   - A front carries the incarnation that the server stated after it read the front. It is that of
//     the sequence or a later one.
//
// So equal incarnations on both mean that the stream of the message still exists. If the stream was
// deleted between the two readings of a front, the next front shows it.
//
//   - A message that was lost with its stream counts as present until the next Front at most.
//   - A message counts as lost although it is present if it was stored before this process noticed
//     the new stream. That costs one redispatch.
//
// To notice soon, the program asks once a second, and at once when a sequence jumps. The first
// sequence of a stream made here is its creation in µs since the Unix epoch, so that a later
// incarnation has higher sequences.
//
// # Own pulls
//
// Pulls are written by hand, not by nats.go's package jetstream, which was tried (816028d,
// 2026-11-24, 85 lines fewer). CPU a message of client and server, medians of interleaved rounds
// beside other work: 4 % more at full load (-6 to +23 %, 12 pairs), 40 % more at one message a pull
// (+30 to +42 %, 10 pairs); of the client alone 18 % and 53 %. It was not measured by A. Its public
// options bound no bytes of a pull that takes what is there and else waits; a pull that is cancelled
// there stays at the server, and what it brings is handed back as redelivered.
//
// # If we crash
//
// Nothing is kept here. Messages that were delivered and not acknowledged come again after
// queue.AckWait.
package jetstream
