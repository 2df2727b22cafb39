// Package document keeps administrative rows: tenants, tasks, which tasks have a rate, operations,
// signing keys and secrets. Such a row is small and seldom written, and its value is a text in JSON.
//
// A backend implements Rows: four methods that put, get, list and swap documents of every kind.
// Roles implements the roles of package schema on top of Rows, once for all backends.
//
// The rows of API keys are not documents: a key lies in two rows that are found by name and by
// hash. Audit entries and counts are not either: they are only ever appended.
//
// # Invariants
//
//  1. Of two puts of a document the one with the later Written stands; of two of the same instant a
//     deletion stands. So a late repetition changes nothing.
//  2. The text of a document is either put or swapped, never both: see Kind.
//  3. A text that cannot be understood is a fault of its own document. A list that holds it is
//     returned whole (package damage).
//
// # If we crash
//
//	between two documents of one put    The earlier ones are there. An operation may then be listed
//	                                    as open that is not there, or is done. It is never the
//	                                    other way round, so no operation is forgotten.
//	during a swap                       It was done or not. To swap again tells which.
//
// # Files
//
//	rows.go        Document and Rows: what a backend implements
//	named.go       tenants, tasks, tasks that have a rate
//	operations.go  operations and the list of open ones
//	signing.go     signing keys
//	secret.go      secrets, and when they were used
//	subscription.go  who is to hear of events
//	notification.go  rules for notifications, incidents
//	calendar.go    calendars
package document
