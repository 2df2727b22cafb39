// Package schema holds the nouns of Carillon: ids, entries, attempts, records, sessions and
// cursors, how a run's state follows from its rows, and the contracts of the stores that keep them.
// It uses the standard library alone, reads no clock, and does no I/O.
//
// # What is authoritative
//
// The rows. Everything else (streams, gossip, memory) may be thrown away at any instant and is
// made anew from them.
//
// # Invariants
//
//  1. An entry id says where its row lies. A row always lies in the bucket of its id; nothing looks
//     an address up.
//  2. Within a partition the order of ids is the order of due times.
//  3. The id, the text and the write timestamp of an entry are fixed before it is first written:
//     writing it again, from anywhere, changes nothing.
//  4. Rows of runs and attempts are inserted, never updated or deleted. The two marks of an entry
//     (cancelled, moved_to) are the only cells that change, and only by conditional writes; a run
//     never has both set by two writers, since each is conditional on the other.
//  5. A run's state is a pure function of its rows (Fold). A success is for ever.
//  6. A row that cannot be understood harms what it belongs to, and no page that it lies in (package damage).
//
// # If we crash
//
// Between two writes, the rows say which of them happened, and each may be repeated: that is what
// invariants 3 and 4 are for. A write of unknown outcome (ErrUnknown) is such a crash seen
// from the other side.
package schema
