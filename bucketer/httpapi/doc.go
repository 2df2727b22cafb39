// Package httpapi is the HTTP API under /v1: its server and its typed client.
//
// Handlers decode, make one call, and encode. What a request may say is decided by
// bucketer.Decoder, what an error means by one table in problem.go. The OpenAPI document is made of
// the same registrations that serve the requests.
//
// # Invariants
//
//  1. Bad input is never answered with a 500, and every fault of it is named.
//  2. A job is answered 200 or 201 only after the bucketer said that it is durable.
//  3. An import holds a bounded number of lines in memory, however long it is and however it was
//     compressed: when the bucketer is slow the sender waits.
//  4. The summary of an import is its last line, and says that every line was read and answered. An
//     import that was cut, by whomever, has none.
//  5. A request sees the runs and tasks of its own tenant, and no others.
package httpapi
