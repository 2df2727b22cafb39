// Package capacity says how many machines, bytes and shards a load needs, and what breaks first
// when it grows.
//
// It is arithmetic over one table of constants (Table), each with its grade:
// measured, derived from measurements, set by the code, or estimated. It does no I/O; equal demands
// give equal plans.
//
//	constants.go  the table of constants
//	demand.go     the load, and its faults
//	plan.go       machines, shards, bytes
//	limits.go     what is used up first when the rate grows
//	report.go     tables and sentences
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
// It leaves out: the extra cost of recurring, keyed, guarded and limited runs, retries, the network
// between machines, slower disks than those measured, competing tenants, and effects of more
// machines than were measured, which is one. A plan is where to begin measuring.
package capacity
