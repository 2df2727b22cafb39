// Package doctor looks at a running installation and says what is not as it should be, what that
// means and what to do.
//
// It reads only: Cassandra and NATS as the configuration of a node names them, and the API of every
// node. Looking and judging are apart: examine.go collects Facts, and the rest are pure functions from
// Facts to findings.
//
//	command.go  the command, its flags and exit codes
//	finding.go  what a finding is, and how findings are shown
//	examine.go  collects facts of Cassandra, NATS and clocks
//	nodes.go    asks the nodes
//	setting.go  judges the configuration, its keys and certificates
//	store.go    judges Cassandra
//	queue.go    judges NATS
//	clocks.go   judges the clocks
//	cluster.go  judges the nodes
//	disk*.go    free space of folders
//	bundle.go   writes what a bug report needs into one file, without secrets
package doctor
