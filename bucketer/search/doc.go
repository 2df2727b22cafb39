// Package search finds, counts and exports runs of long windows of due times.
//
// # What is indexed
//
//	one job                  its history, the latest due first (recurring.Reader.JobRuns)
//	a key                    the run that it made (runs.Reader.RunByKey)
//	state=failed and nothing else of states
//	                         the tenant's dead letters, the latest due first
//
// The first two are asked for elsewhere. All else (labels, tasks, hosts, texts of errors, other
// states) lies with the runs alone: an index would be one more write for each run. So a search
// reads the partitions of a window, minute by minute, and tells how far it came.
//
// # The order
//
// Minutes come newest first, or oldest first (Query.Oldest). The runs of one minute come in the
// order of their due times. What dead letters tell comes strictly newest first.
//
// # What it costs
//
// An answer ends at the first of its limit, maxPartitions partitions and searchTime, and says where
// the next one goes on. All searches of a node together begin to read at most partitionRate
// partitions a second: what a search wants beyond that, it waits for. A minute has as many
// partitions as there are shards. A further page of a minute that was read in part costs twice
// that.
//
// # What a crash does
//
// Nothing: all that a search knows is in its Position, so any node goes on from it.
//
// # Files
//
//	search.go   what is asked for, what is answered, positions, SearchRuns
//	walk.go     from minute to minute, within what an answer may cost
//	failed.go   the runs that failed, by their dead letters
//	count.go    CountRuns
package search
