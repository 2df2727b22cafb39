// Package wan joins regions on one machine: each has a network namespace, and a hub in user space
// carries Ethernet frames between them, with a delay and with cuts for each pair and direction. It
// drives the program ip, and needs root and Linux.
//
//	          this program, receivers, judges: 10.79.16n.1
//	     ┌──────────────┬──────────────┐        a cable to each region, never cut
//	┌────┴────┐    ┌────┴────┐    ┌────┴────┐
//	│   eu    │    │   us    │    │ witness │   region r of network n has 10.79.(16n+r).0/24
//	└────┬────┘    └────┬────┘    └────┬────┘
//	    TAP            TAP            TAP
//	     └───────────── hub ───────────┘        delays, drops and counts frames
//
// The kernel could delay packets itself (netem), but many kernels are built without that.
//
// # Invariants
//
//  1. Before the first address is assigned, this machine has a blackhole route for all of
//     10.79.0.0/16, and it stays. What outlives a region's namespace, or dials too early, gets an
//     error at once: no packet to an address of a test leaves this machine.
//  2. A namespace has no route but those to other regions and to this machine.
//  3. A namespace in which processes run is never removed.
//  4. Everything made is named after the network's number. The holder of the control socket
//     @carillon-wan-N owns that number; without a holder everything of that name is left over, from
//     a program that was killed, and is removed by the next one.
//  5. A cut loses what is under way. Frames of one direction never overtake each other.
//
// # Crashes
//
// If the program that runs the hub dies, its TAP devices go with it: regions are cut off from each
// other, and are still reached from this machine.
package wan
