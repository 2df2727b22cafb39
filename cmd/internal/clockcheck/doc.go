// Package clockcheck compares a node's clock with those of the hosts that serve Cassandra and NATS.
//
// # The rule
//
// Every host has one clock and so one vote, however many servers run on it. The hosts are those
// that the store and the queue know, whether they answer or not. Our own host is one of them if it
// serves Cassandra or NATS. It is not asked: its servers read the clock that is in question, so its
// vote is always that the clock is right.
//
//	vote     of a host whose clock …
//	agree    is within schema.MaxClockOffset of ours; of our own host
//	differ   is further away
//	silent   did not answer within a second, or so slowly that it may be either
//
//	verdict    hosts = agree + differ + silent
//	unchecked  there is no other host
//	right      agree > hosts / 2
//	off        agree + silent ≤ hosts / 2: no majority can agree, whatever the silent ones say
//	undecided  otherwise: the last verdict stands, for at most [HoldFor]
//
// All nodes count over the same hosts, so two majorities have a host in common. Two clocks that are
// right thus differ by at most twice schema.MaxClockOffset, and twice what a clock may slip until
// the next comparison. One wrong clock of three hosts stops the node beside it, and no other. One
// other host alone, beside none of ours, decides alone. Of two that disagree neither is believed.
//
// A clock that is off, or was never found to be right, halts its node. So does one that was set
// since it was compared.
//
// # What it does not do
//
// The other nodes of the ring are not asked. Their clocks are in question as much as ours, and the
// hosts of a cluster that survives the loss of a machine are three at least.
//
// # Files
//
//	clock.go    asks the hosts, remembers; which of them is ours says cmd/internal/node/clock.go
//	judge.go    the vote
//	metrics.go  what is shown of it
package clockcheck
