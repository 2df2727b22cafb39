// Package netns gives each member of a cluster a network namespace with an address of its own, and
// cuts links between members. It drives the programs ip and nft, and needs root.
//
//	      this program, the receiver, the judge
//	                 10.77.N.1
//	  ───────────────── bridge ─────────────────
//	   │               │                  │
//	10.77.N.11     10.77.N.21        10.77.N.101
//	cassandra-1    nats-1            carillon-1      each in a namespace of its own
//
// A cut is a rule in the namespace of the receiving member: it drops packets by their source. So a
// sender sees silence, as on a real network, and one direction can be cut by itself.
//
// # Invariants
//
//  1. Nothing outside of the network's own namespaces is changed, except its bridge and the ends of
//     its cables: no rule, route or address of the machine.
//  2. Everything made is named after the network's number, so what a killed program left behind is
//     found by name (Leftover) and can be removed.
//  3. The bridge's own address is never cut: the program that breaks links can always reach
//     members.
package netns
