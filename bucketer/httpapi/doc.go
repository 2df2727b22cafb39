// Package httpapi is the HTTP API under /v1: its server and its typed client.
//
// A handler decodes, makes one call, and encodes. Package request decides what a request may say,
// and one table in problem.go what an error means. The OpenAPI document is made of the
// registrations that serve the requests.
//
// # Invariants
//
//  1. Bad input is never answered with a 500, and every fault of it is named.
//  2. A job is answered 200 or 201 only after the bucketer said that it is durable.
//  3. An import holds a bounded number of lines in memory, however long it is and however it was
//     compressed: when the bucketer is slow the sender waits.
//  4. The summary of an import is its last line, and says that every line was read and answered. An
//     import that was cut, on either side, has none.
//  5. A request sees the runs and tasks of its own tenant, and no others.
//  6. An API key is in no log, no audit entry and no answer but the one that makes it. In the cookie
//     of a session it is sealed.
//
// # Files
//
// The package has more files than others because it has a file for each group of routes. The files
// of a group have the same ending:
//
//	routes_*.go                   one group of routes each; nouns*.go are what they show.
//	                              routes_runs_list.go: all that lists of runs can be asked for;
//	                              routes_search.go: searches, counts and exports of runs
//	client*.go                    the client, by the same groups
//	openapi*.go                   what the document says beyond the registrations
//	import*.go                    bulk imports: read, submit, answer line by line
//	server.go, serve.go, middleware.go  the server; what runs before each handler
//	auth.go, sessions.go          who calls, by a key in a header or in a cookie
//	forwarded.go, forward         writes that the region which serves their home is to answer
//	redact.go                     what a viewer does not see
//	pages.go, console, docs       the pages for browsers: the console, the document
//	audited.go, metered.go        calls that are noted in the audit log and taken out of quotas
//	body.go, cursor.go            bodies in memory; signed positions of lists
//	problem.go, metrics.go        errors as answers; metrics
package httpapi
