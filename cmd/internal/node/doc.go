// Package node wires the parts of a node together, starts them in order, and stops them in reverse
// order. Every step of a stop has a bound. Two nodes can live in one process.
//
//	start  listen: /healthz and the console are there, all else gets 503  startup.go
//	       open the store, then the queue; a cluster's are retried        open.go
//	       make ring, bucketer, administration, dispatcher, executor, API  node.go, administration.go
//	       compare the clock with those of other hosts; which host is ours clock.go
//	       run the parts, then serve the API                               node.go, stages.go
//	stop   hand the shards over, so that others dispatch meanwhile         node.go
//	       dispatcher, then executor, which drains; ring; API              stages.go
//	       queue, then store
//
// Other files: profiles.go (/debug/pprof/), hosts.go (which hosts a request may name,
// certificates of the API), stats.go
// (counts of each minute), minutes.go (those of the minute under way on all nodes), targets.go
// (circuit breakers of all executors), members.go (how each member stands, by its own word), ask.go
// (how these three ask other nodes, and answer), signals.go (subscriptions to signals of other nodes),
// scripts.go (the allow list), reload.go (changes of the configuration), cluster.go (what
// /v1/cluster shows), events.go (events that clients publish on NATS).
//
// # Invariants
//
//  1. Nothing dispatches before the clock was compared.
//  2. A node that is told to stop hands its shards over first, and takes none again.
//  3. What starts first stops last; a part that does not stop in time is left behind and logged.
//
// # What if a node crashes
//
// Nothing is kept here: the ring finds the dead member, and dispatcher, executor and store say in
// their package comments what happens to shards, attempts and rows.
package node
