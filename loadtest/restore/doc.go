// Package restore drills what deploy/OPERATING.md says of backup and restore, on a real cluster: a
// snapshot of Cassandra is taken, everything is lost, and what was saved is brought back.
//
// # The drill
//
//	jobs        due              are in the snapshot   so
//	done        before it        with their ends       are not run again
//	between     after it, and    as pending            run again, late: what ran since is forgotten
//	            run before the
//	            loss
//	later       after the loss   as pending            run once
//	after       after the loss   no: they were made    are gone, though they were acknowledged
//	            after it
//
// The checker of load tests judges them all (carillon-load check --calm --lost SNAPSHOT,LOSS): done
// and later ran exactly once; between and after are counted.
//
// # Invariants
//
//  1. Each command is one that the handbook names. What wants cqlsh is sent as statements.
//  2. All that was started is stopped; members die with this program.
package restore
