// Package importer is the command `carillon import`: it creates very many jobs from files of one
// job a line, and goes on after any interruption.
//
//	import.go    flags, and one import from its start to its summary; takeLine decides which
//	             lines are sent again
//	source.go    reads lines from files, plain or compressed, into blocks
//	send.go      sends blocks, retries them on other nodes, and reads the answers
//	state.go     FILE.carillon-import: which lines were sent and answered
//	failed.go    FILE.failed.ndjson: the lines that failed, and why
//	progress.go  the counts, as a bar or as log lines
//
// # Invariants
//
//  1. A line is on disk as "sent" before its first byte leaves this process.
//  2. A line without an idempotency key is sent at most once, unless --resend-unknown says
//     otherwise.
//  3. A failed line is in the file of failed lines before the state says that it was answered.
//  4. At most 2 × nodes (or --parallel) blocks of at most 8 MiB and 4 server batches are in memory.
//
// # What if the import is interrupted
//
//	before a line is sent       the next import sends it
//	after it is sent            the next import sends it again if it has a key; else it counts as unknown
//	after its answer, before    the next import sends a keyed line again: the API answers with the same
//	the answer is on disk       job; a failed line is then twice in the file of failed lines
//	while the state is written  the next import drops the torn last record
package importer
