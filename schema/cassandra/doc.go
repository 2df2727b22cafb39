// Package cassandra keeps the rows of schema in Apache Cassandra. It implements schema.Store with
// gocql, and brings a keyspace to the layout that it needs (Migrate).
//
// # Invariants
//
//  1. Every read and write is LOCAL_QUORUM in the configured data centre, but for reads that have
//     each data centre hold a row (cursors.go). No node of another data centre is ever the
//     coordinator: "local" would mean another place.
//  2. A plain write carries its own timestamp and expiry, made once per call. So a retry, a
//     speculative copy and a repetition by another process write the same cells.
//  3. A conditional write is sent once. If its answer does not come, the row is read at the same
//     serial level; if that does not tell what happened, the answer is schema.ErrUnknown. A table
//     has one level, for good (serialLevels). Where there are regions, the row is brought to the
//     other data centres (unknown.go).
//  4. Cells written by conditional writes are written by nothing else, except when their row is
//     created (createdAt).
//  5. A build runs on the layout that it knows, and on the next one if that only adds
//     (additiveSuffix). An upgrade migrates first and then replaces the nodes one after the other.
//     The way back is the build before, on the newer layout.
//  6. A row that cannot be understood is returned with its fault, or left out and counted. It never
//     fails its page (package damage).
//  7. A page that did not end cleanly has not been read: it is read again, or the call fails.
//
// # If we crash
//
//	during a batch         Within one partition it is held whole or not at all; of several
//	                       partitions each may be held or not.
//	payload, then entry    A payload may be there that no entry points to, never the reverse.
//	during a migration     It is begun again from its first statement. Each statement can be
//	                       repeated, and a migration is recorded only when all were applied.
//
// # Files
//
//	store.go exec.go policy.go errors.go   session, roles; statements, pages, metrics; retries; errors
//	statements.go migrations/*.cql         statements of several roles; the tables, and why
//	documents.go                           tenants, tasks, rates, operations, signing keys, secrets
//	migrate.go                             brings a keyspace to the layout, one process at a time
//	migrations.go                          the files; beside which layouts a build runs (missing)
//	config.go check.go                     what the server and the keyspace must be
//	cursors.go                             cursors, settings; rows that every data centre is to hold
//	unknown.go                             conditional writes that other data centres may lack
//	epochs.go                              the keyspace of regions: epochs of homes, beats
//	the others                             roles of schema.Store, each a type of its own
package cassandra
