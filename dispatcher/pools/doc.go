// Package pools says to the executors of which pool a run is published: those that have the labels
// that its work requires. Executors with the same labels are one pool, which has subjects of its
// own.
//
//	work requires              executors that the ring knows         published for
//	nothing                    any                                   any executor
//	gpu=true                   2 × gpu=true,zone=a; 1 × gpu=true     a pool that fits, by the run's id:
//	                                                                 two in three for gpu=true,zone=a
//	gpu=true                   none that fits                        any executor
//
// # What is authoritative
//
// The executor: it starts no work whose labels it lacks, and defers what it gets of that
// (schema.CausePool). What is chosen here is advice: by it a run gets to an executor that fits, and
// one that waits for an executor says why.
//
// # Invariants
//
//  1. A run that requires nothing is published for any executor, and costs nothing to find that
//     out: no allocation, no statement.
//  2. A run is published for a pool only while the ring knows an executor of it. What was published
//     for a pool that is gone is published again (dispatcher, settle.go).
//
// # If we crash
//
// Nothing is kept here.
package pools
