// Package embedded keeps Carillon's rows in Pebble: in a directory, as the durable store of a
// single node, or in memory, as the store of tests. It implements [schema.Store] and gives the
// answers that Cassandra gives.
//
// # Layout
//
// A key is a table's letter followed by the row's address. Every number is written such that the
// order of bytes is the order of values. So a partition is one range of keys, by due time.
//
//	r bucket shard entry                        entries: text, inline payload, the two marks
//	p bucket shard entry                        large payloads
//	a bucket shard run attempt fence            attempts: record, session
//	o bucket shard run kind attempt fence part  outputs
//	e bucket                                    until when rows of the bucket live
//	j shard job                                 jobs that can have many runs
//	i tenant ^job                               a tenant's jobs, newest first (^: bits inverted)
//	n tenant name                               names of jobs
//	h period job ^run                           history of jobs, newest first
//	f period                                    until when rows of the period live
//	D day tenant ^run                           dead letters, newest first
//	s executor                                  sessions
//	l key                                       leases
//	d key                                       decisions
//	k tenant key                                idempotency keys
//	w limit run                                 wait lists
//	m shard limit                               limits that something waits for
//	c shard epoch                               cursors
//	g                                           settings
//	T tenant · t tenant name · R tenant task    tenants, tasks, tasks that may have a rate
//	O tenant operation · W operation            operations, and the open ones
//	G tenant · V tenant name                    signing keys, sealed; secrets, sealed
//	K hash · N tenant name · U hash             API keys by hash and by name, their last use
//	A day tenant ^entry · S hour minute node    audit log, newest first; counts of minutes
//	x expiry key                                the rows of i j k l d m w D O W, by expiry
//
// A value is a row of cells, each with a write timestamp and an expiry. Of two writes of a cell the
// higher timestamp wins, of equal ones the longer-lived, then the greater bytes: Cassandra's rule.
// Rows are written blindly, as merge operands, and resolved when they are read or compacted. The
// rule is a maximum, so the order of arrival does not matter, and a repeated write changes nothing.
//
// # Invariants
//
//  1. A cell past its expiry (by Config.Now) is not returned. It goes on hiding older cells.
//  2. The rows of a bucket or a period are removed only when all have expired: e and f are written
//     in the batch of the rows, and Expire reads them while no write is under way.
//  3. Conditional writes of one row happen one after the other: each holds the row's lock from its
//     read to its commit. Nothing else writes marks, sessions, idempotency keys, jobs, names,
//     decisions, signing keys, secrets or leases. Writes of rows without a condition share the locks
//     with each other, and keep conditional writes and Expire out.
//
// # If we crash
//
// A batch is held whole or not at all. On disk every write is synced before it is acknowledged
// (unless Config.NoSync), many at a time.
//
// # Files
//
//	store.go layout.go cells.go rows.go   roles, locks; keys; values; reading and writing rows
//	expire.go                             removing what has expired
//	replicate.go                          copies of the rows elsewhere, for tests of regions
//	documents.go                          tenants, tasks, rates, operations, signing keys, secrets
//	the others                            roles of schema.Store, each a type of its own
package embedded
