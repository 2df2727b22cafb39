// Package apitest is a Carillon in memory for tests of the load tools. It speaks the part of the
// API that they use, runs one-off jobs on time, and injects faults on demand. It is no reference
// for Carillon.
package apitest
