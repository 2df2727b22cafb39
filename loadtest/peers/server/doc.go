// Package server runs the servers that peers of Carillon need, for as long as they are measured: from the programs that
// Debian installs, from a checkout (goscheduler) or as deploy/local does (Cassandra), each a child process with a folder of its own, reached by a
// Unix socket or the loopback address.
//
// # Invariants
//
//  1. A server does not outlive the program that started it: the kernel ends it.
//  2. Nothing listens on any address but the loopback's, except goscheduler's API, which listens on all: nothing sets that.
//  3. Data lies on a file system with a disk below: on tmpfs durability would cost nothing, so it is refused.
//
// Linux only.
package server
