// Package clitest runs command lines of carillon in tests: in the test's process, in a child
// process, or on a pseudo-terminal, against a whole node on embedded parts.
package clitest
