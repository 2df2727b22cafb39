// Package ring says which members are alive and which dispatcher owns which shard.
//
// The pure half turns a list of members and a number of shards into an immutable [Snapshot]: the
// same on every node that sees the same members. The other half, [Ring], learns the members by
// gossip (memberlist; no other package imports it), rebuilds the snapshot at every change and wakes
// those who wait for [Ring.Changed]. [Static] is a ring without a network, for one process or a
// simulation.
//
//	member.go    a member, and its metadata as gossip carries it
//	snapshot.go  who owns which shard: consistent hashing with bounded loads
//	static.go    the newest snapshot and its signal; a ring of fixed members
//	ring.go      Ring: start, stop, refresh, what it announces
//	gossip.go    memberlist's callbacks: who is live, who left, who is dead; our name in use
//	join.go      joining seeds, again and again, and exchanging views
//	config.go    the configuration, and memberlist's
//
// # What is authoritative
//
// Nothing here. Gossip is advice: at any moment two nodes may both believe that they own a shard,
// or none may. Cursors and rows in the store say what was dispatched and settled. A wrong view
// costs lateness or a duplicate attempt, never a run. So a caller may use the ring to decide
// whether to try, never whether something is allowed.
//
// # Invariants
//
//  1. A snapshot never changes. Its owners are a function of the names of the members that
//     dispatch, of those that are unhealthy, and of the number of shards, and of nothing else:
//     equal views give equal rings, whatever the order of arrival.
//  2. Where at least one member dispatches, every shard has exactly one owner. Where none does, the
//     unhealthy ones count as dispatchers; without those no shard has an owner.
//  3. No dispatcher owns more than ⌈Load × shards ÷ dispatchers⌉ shards.
//  4. A new snapshot has a higher version than the one before, and is published only if something
//     in it is different. The channel of [Ring.Changed] is closed after the new snapshot can be
//     read.
//  5. A node owns nothing before a seed has answered or 5 s have passed, and nothing once it was
//     told to stop.
//  6. A member that announced that it leaves owns nothing any more, although it is still there.
//  7. Two lives of one member (restarted under the same name) differ in their incarnation.
//  8. A member whose metadata cannot be read is no member: it is counted and logged, and owns
//     nothing.
//
// # What if a member crashes
//
//   - Before the first join: nobody has heard of us; nothing happens.
//   - After the join: the others find us silent, suspect us, and declare us dead 2 to 3 s later
//     (measured in the tests of this package); until then our shards rest. Their new owners take
//     over from the cursors.
//   - Between announcing that we leave and leaving: our shards have new owners already; the rest of
//     us is declared dead like anybody who crashed.
//   - After leaving: the others count us as left; there is nothing to detect.
//   - Restarted before being declared dead: the others see our new incarnation with the first
//     exchange. At another address they refuse us until our old self is dead; we notice and come
//     back every 2 s, five times, then every 15 s.
//   - Stopped and continued (SIGSTOP, a frozen VM): our view is as old as the stop, and the others
//     think us dead. [Ring.Refresh] exchanges views with a live peer before the node works on. A
//     member that died while we slept is still in the view for the 2 s that its suspicion takes.
//   - Cut off: each side declares the other dead and shares all shards among its own. Seeds are
//     resolved and joined again every 15 s for ever, so that the sides meet when the network heals:
//     memberlist alone would never try again.
package ring
