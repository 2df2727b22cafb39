// Package inproc is the queue in memory, for simulation: streams, consumers and bus of one cluster
// in one process, with one connection per simulated node.
//
// It keeps the contract of the jetstream adapter (queuetest runs on both). It can do everything
// that a network may do: Config.Fault loses, doubles and delays single messages,
// Broker.DeleteStream deletes a stream, Conn.Cut takes a node off the network.
//
// It works inside a testing/synctest bubble: it waits on channels and timers only, and every
// goroutine that it starts has ended when Conn.Close returns. Nothing in it survives the process.
//
// # Files
//
//	broker.go           streams and listeners of all connections
//	conn.go             one connection; cuts
//	stream.go           messages: dedup, order, redelivery
//	consume.go          deliveries
//	bus.go, mailbox.go  hints, notices, signals
//	fault.go            faults for tests
package inproc
