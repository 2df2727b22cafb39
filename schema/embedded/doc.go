// Package embedded keeps Carillon's rows in Pebble: durably in a directory, as the store of a
// single node, or in memory, as the store of every test. It implements [schema.Store] and gives
// the answers that Cassandra gives.
//
// # Layout
//
// A key is a table's letter followed by the row's address. Every number is written so that the
// order of bytes is the order of values, so a partition is one range of keys, in the order of due times:
//
//	r bucket shard entry                  entries: text, inline payload, the two marks
//	p bucket shard entry                  large payloads
//	a bucket shard run attempt fence      attempts: record, session
//	o bucket shard run kind attempt fence part  outputs
//	e bucket                              until when rows of the bucket live
//	j shard job                           jobs that can have many runs
//	i tenant ^job                         the jobs of a tenant, newest first (^ = every bit turned over)
//	h period job ^run                     history of jobs, newest first
//	f period                              until when rows of the period live
//	s executor · c shard epoch · k tenant key · t tenant name · g · n tenant name · d key
//	                                      sessions, cursors, keys, tasks, settings, names of jobs, decisions
//	x expiry key                          the rows of i, j, k, d, m, w, O and W that leave, by when they do
//	T tenant · N tenant name · K hash · U hash
//	                                      tenants, API keys by name and by hash, when they were used last
//	A day tenant ^entry · S hour minute node
//	                                      the audit log, newest first, and the counts of minutes
//	O tenant operation · W operation      operations, and those that are open
//	G tenant                              signing keys, sealed
//	w limit run · m shard limit           runs that limits hold back, and the limits that something waits for
//
// A value is a row of cells, each with a write timestamp and an expiry. Rows are written blindly, as merge
// operands, and resolved cell by cell when they are read or compacted: of two writes of a cell
// the higher timestamp wins, of equal ones the longer-lived, of equal ones of those the greater bytes. This is Cassandra's
// rule, and since it is a maximum, the order in which writes arrive does not matter and a repeated write changes nothing.
//
// # Invariants
//
//  1. A cell past its expiry is not returned, by Config.Now; it goes on hiding older cells.
//  2. The rows of a bucket or a period are removed only when all of them are past their expiry: "e" and "f" are written in the batch of
//     the rows, and Expire reads them while no write is under way.
//  3. Conditional writes of one row happen one after the other: each holds the row's lock from its
//     read to its commit. Nothing else writes marks, sessions, keys, jobs, names, decisions or leases.
//
// # If we crash
//
// A batch is held whole or not at all, and on disk every write is synced before it is acknowledged (unless
// Config.NoSync), many at a time.
package embedded
