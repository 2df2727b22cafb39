// Package peer makes the systems that Carillon is measured beside, each in a file of its own: River on PostgreSQL, asynq on
// Redis, goscheduler on Cassandra, and, of workflows, Temporal's dev server on SQLite. Their code is fetched, as modules or (goscheduler) by the caller; what stands here only uses their public
// interfaces.
//
// Every system comes with the best settings that its documentation, its public interface and trials on two cores gave,
// and once with its defaults, under a name of its own. What cannot be set is said in the README.
package peer
