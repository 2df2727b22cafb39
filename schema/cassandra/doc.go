// Package cassandra keeps the rows of schema in Apache Cassandra: it implements schema.Store with
// gocql, and brings a keyspace to the layout that it needs (Migrate).
//
// # What holds
//
//  1. Every read and write is LOCAL_QUORUM in the configured datacenter; no node of another
//     datacenter is ever used as coordinator, or "local" would mean another place.
//  2. A plain write carries its own timestamp and expiry, made once per call: a retry, a speculative copy and
//     a repetition by somebody else write the same cells.
//  3. A conditional write is sent once. When its answer does not come, the row is read at LOCAL_SERIAL;
//     if that does not tell what happened, the answer is schema.ErrUnknown.
//  4. Cells written by conditional writes are written by nothing else, except at the creation of their row.
//  5. A build runs on the layout it knows, and on the next one if that only adds (additiveSuffix). An upgrade migrates first, then
//     replaces the nodes one after the other; the way back is the build before on the newer layout.
//  6. A row that cannot be understood is returned with its fault, or left out and counted, and never fails its page (package damage).
//  7. A page that did not end cleanly has not been read: it is read again, or the call fails.
//
// # If we crash
//
// A batch within one partition is held whole or not at all; over several partitions each may be held
// or not. Payloads are written before the rows that point to them. A migration that was cut is begun
// again from its first statement: each can be repeated, and it is recorded only when all were applied.
package cassandra
