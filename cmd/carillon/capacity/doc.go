// Package capacity says how many machines, bytes and shards a load needs, and what breaks first
// when it grows.
//
// It is arithmetic over one table of constants (Table), each with what it is worth: measured,
// derived from what was measured, set by the code, or estimated. Nothing here reads a clock, a file
// or a network; equal demands give equal plans.
//
// The model has four ideas:
//
//  1. Slots are Little's law: attempts under way = rate × duration.
//  2. CPU is a cost a run, measured where nothing was overloaded, over cores that are kept half
//     busy.
//  3. Cassandra's cost depends on how full batches of outcomes are, and that falls with executors ×
//     shards.
//  4. A region must carry what the others leave when one of them is lost.
//
// What it does not know: what recurring, keyed, guarded and limited runs cost more, retries, the
// network between machines, disks slower than those measured, tenants that compete, and anything
// that happens only on more machines than were ever measured, which is one. A plan is where to
// begin measuring.
package capacity
