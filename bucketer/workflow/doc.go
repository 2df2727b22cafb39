// Package workflow is the core of workflows: what a definition means, and what may happen next in a
// run of it. It is pure: it reads no clock, no file and no network, starts no goroutine, and gives
// the same answers on every node.
//
//	Definition ── Compile ──> Graph ── NewProgress ──> Progress <── facts: Start, End, Skip …
//	                            │                          │
//	                            └── Prepare(step)          └── Next() ──> actions
//
// Compile checks a definition, and says everything that is wrong with it. A Graph is what it has
// become: expressions and payloads are compiled once. A Progress holds what is known of one run.
// Who runs workflows stores a fact, tells it, asks Next, and does what that says.
//
// # Invariants
//
//  1. Next depends on nothing but which facts were told, not on their order, nor on how often. The
//     exceptions are facts that contradict one another: the first verdict of a step or an item
//     counts.
//  2. Conditions are monotone. Once Next says that a step may start, or is skipped with a verdict,
//     no fact that becomes known later changes that. So nodes may decide with different knowledge.
//     A cancel and a deadline are the exception: they race with the start of a step, and what was
//     stored first counts.
//  3. A run ends. As long as it has not, there is an action, or a run under way.
//  4. An end and the question what follows cost the same in a graph of 1,000 steps, and amid 10,000
//     items: counters, and a bit for each step of which there is something to say.
//  5. Reasons of skips depend on the decision alone. Nodes that decide the same write the same.
//  6. Prepare gives one result for one input. It reads each output once, and none that Needs does
//     not name. An error of the store is returned as it is: it never decides anything.
//  7. What a tenant writes is bounded before it is run (table below).
//
// # What becomes of a step
//
// Verdicts of the steps before it decide; one that waits for an event or an item has none yet.
//
//	when           starts                skipped, and counts as
//	all_succeeded  all succeeded         failed once one failed; cancelled if one was and none failed
//	all_done       all have ended        –
//	any_succeeded  one succeeded         failed if one failed, else cancelled; when all have ended
//	any_failed     one failed            cancelled if one was, else succeeded; when all have ended
//	always         all have ended, also after a cancel
//
// A step whose own if is false counts as succeeded. One that cannot be prepared has failed. One
// with for_each has failed if an item failed, was cancelled if an item was and none failed, and
// ends when all items have. After a cancel (or the deadline of the run) steps without always are
// skipped as cancelled as soon as their condition is met, unless it cannot be: then that verdict
// stands. A step some of whose items have no run yet is skipped for the rest, when those with a run
// have ended.
//
// A run ends when each step has a verdict. It is cancelled if it was cancelled, else failed if its
// deadline passed or a step failed, else cancelled if a step was, else succeeded.
//
// # Payloads
//
// A payload is JSON in which some objects are replaced:
//
//	{"$from": "extract", "pointer": "/files/0"}  a part of the output of a step that runs before
//	{"$input": "/date"}                          a part of the payload of the run
//	{"$item": "/x"}, {"$index": true}            a part of the item, its number from 0: for_each
//	{"$run": "/id"}, {"$run": "/nominal_at"}     the run
//
// Pointers are RFC 6901, and "" is the whole. A member with such a name makes an object a
// reference: what is amiss with it is a fault, and never passed on. Of the payload of a whole
// workflow $run alone is replaced (ResolveRunPayload). The output of a step with for_each is an
// array of the outputs of its items; that of a step that has none, such as one that was skipped, is
// null.
//
// # Expressions
//
// They are CEL. An if sees input and steps.NAME.output and .state, or steps["NAME"], with constant
// names; a filter sees event and input. Whole numbers of JSON are int. An if that gives neither
// true nor false fails the step; such a filter takes no event.
//
//	bound                                         why
//	2,000 bytes, 32 levels, 8 lists deep, 8 loops parsing and checking types take 0.1 ms to 1 ms
//	patterns are constants of 200 instructions    so matching is priced by its length alone
//	estimate ≤ limit for lists of 100             three loops within one another are refused
//	cost ≤ 1,000,000 (filter: 100,000) units      about 0.3 s (0.03 s)
//
// CEL prices calls by the types that it knows, and data has none before it is there. So each call
// is priced here by its values (meter), and comparisons are ours (budget): CEL compares first and
// counts then. No map can be written, members of data keep the order of their text, and no zone can
// be named, so results do not differ between nodes.
//
// # Files
//
//	definition.go  what a workflow says, and its stored form
//	compile.go     what is wrong with it; order.go sorts the graph, and finds cycles
//	graph.go       what it has become
//	decide.go      the table of conditions
//	progress.go    what is known of a run; next.go is what that makes possible
//	prepare.go     what a step has become; template.go fills payloads in
//	condition.go   the if of a step; filter.go that of an event
//	expression.go  CEL and its bounds; value.go values and comparisons
//	raw.go         JSON text and pointers
//	draw.go        graphs as JSON, Mermaid, DOT and text
package workflow
